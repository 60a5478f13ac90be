//! Which commands may run: a bit for each command and each subcommand, set by rules that are kept in order,
//! without those that later ones cover.
//!
//! A category is what [`Spec::category_names`] says, so that a rule on it means what `ACL CAT` lists, command
//! by command. Redis lets a category of a command with subcommands reach all of them.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use plimsoll_storage::{Argv, command::spec::Spec};

use super::rules::{RuleError, check_word};
use crate::commands::{self, Entry};

/// Every command by its index, then every subcommand. A position in it is a number here.
struct Numbered {
    specs: Vec<&'static Spec>,
    /// Of each command, the number of its first subcommand.
    subcommands: Vec<usize>,
}

static NUMBERED: LazyLock<Numbered> = LazyLock::new(|| {
    let mut specs: Vec<&'static Spec> = commands::all().iter().map(|entry| entry.spec).collect();
    let mut subcommands = Vec::with_capacity(specs.len());
    for entry in commands::all() {
        subcommands.push(specs.len());
        specs.extend(entry.spec.subcommands.iter());
    }
    Numbered { specs, subcommands }
});

static CATEGORIES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let names: BTreeSet<&'static str> =
        NUMBERED.specs.iter().flat_map(|spec| spec.category_names()).collect();
    names.into_iter().collect()
});

/// The categories that commands here are in, without their `@`, sorted. `all` is none of them.
pub fn categories() -> impl Iterator<Item = &'static str> {
    CATEGORIES.iter().copied()
}

/// The commands and subcommands (`config|get`) in a category, sorted; none where there is no such category.
/// Its name may be in any case.
#[must_use]
pub fn commands_of(category: &str) -> Option<Vec<&'static str>> {
    let category = categories().find(|it| it.eq_ignore_ascii_case(category))?;
    let of_it = NUMBERED.specs.iter().filter(|spec| is_in(spec, category));
    let mut names: Vec<&'static str> = of_it.map(|spec| spec.name).collect();
    names.sort_unstable();
    Some(names)
}

fn is_in(spec: &Spec, category: &str) -> bool {
    spec.category_names().any(|it| it == category)
}

/// The number of a command's subcommand, and the subcommand.
fn subcommand(entry: &Entry, name: &[u8]) -> Option<(usize, &'static Spec)> {
    let first = NUMBERED.subcommands.get(entry.index)?;
    let is_named = |spec: &Spec| {
        let own = spec.name.split_once('|');
        own.is_some_and(|(_, own)| own.as_bytes().eq_ignore_ascii_case(name))
    };
    let at = entry.spec.subcommands.iter().position(is_named)?;
    Some((first + at, entry.spec.subcommands.get(at)?))
}

/// The number of the command or subcommand that arguments mean, and what is known of it. One without
/// subcommands is meant itself, as is one whose subcommand is missing or unknown.
pub(super) fn meant(entry: &Entry, argv: &Argv) -> (usize, &'static Spec) {
    let found = argv.get(1).and_then(|name| subcommand(entry, name));
    found.unwrap_or((entry.index, entry.spec))
}

/// A bit for each number.
#[derive(Clone, Debug, PartialEq)]
struct Bits(Box<[u64]>);

impl Bits {
    fn every(value: bool) -> Self {
        let words = NUMBERED.specs.len().div_ceil(64);
        Self(vec![if value { u64::MAX } else { 0 }; words].into_boxed_slice())
    }

    fn has(&self, number: usize) -> bool {
        self.0.get(number / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    fn set(&mut self, number: usize, value: bool) {
        if let Some(word) = self.0.get_mut(number / 64) {
            let bit = 1_u64 << (number % 64);
            *word = if value { *word | bit } else { *word & !bit };
        }
    }
}

/// A rule as it is kept.
#[derive(Clone, Debug, PartialEq)]
struct CommandRule {
    allowed: bool,
    /// In lower case.
    name: String,
}

impl CommandRule {
    /// Whether a later rule on this name covers it: it is on the same, or on a part of it.
    fn is_covered_by(&self, name: &str) -> bool {
        let rest = self.name.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('|'))
    }

    fn target(&self) -> Result<Target, RuleError> {
        let name = self.name.as_str();
        if let Some(name) = name.strip_prefix('@') {
            let found = categories().find(|it| *it == name);
            return found.map(Target::Category).ok_or(RuleError::Unknown);
        }
        let (command, argument) = match name.split_once('|') {
            Some((command, argument)) => (command, Some(argument)),
            None => (name, None),
        };
        let entry = commands::find(command.as_bytes()).ok_or(RuleError::Unknown)?;
        match argument {
            None => Ok(Target::Command(entry)),
            Some(argument) => self.target_of_argument(entry, argument),
        }
    }

    fn target_of_argument(
        &self,
        entry: &'static Entry,
        argument: &str,
    ) -> Result<Target, RuleError> {
        if let Some((number, _)) = subcommand(entry, argument.as_bytes()) {
            return Ok(Target::Subcommand(number));
        }
        if !self.allowed {
            return Err(RuleError::Unknown);
        }
        if argument.is_empty() {
            return Err(RuleError::Syntax);
        }
        if let Some((first, _)) = argument.split_once('|') {
            let is_known = subcommand(entry, first.as_bytes()).is_some();
            return Err(if is_known { RuleError::FirstArgument } else { RuleError::Unknown });
        }
        if !entry.spec.subcommands.is_empty() {
            return Err(RuleError::Unknown);
        }
        check_word(argument)?;
        Ok(Target::FirstArgument(entry.index, argument.to_owned()))
    }
}

/// What a rule is on.
enum Target {
    Category(&'static str),
    /// A command with all its subcommands.
    Command(&'static Entry),
    /// By its number.
    Subcommand(usize),
    /// A command by its index, where this is its first argument.
    FirstArgument(usize, String),
}

/// The commands that may run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Commands {
    /// Whether all are allowed before the rules, or none.
    is_every_first: bool,
    rules: Vec<CommandRule>,
    /// What comes of the rules.
    allowed: Bits,
    /// Commands by their index that are allowed with a first argument, though their bit is not set.
    first_arguments: BTreeSet<(usize, String)>,
}

impl Commands {
    /// All of them, or none.
    pub(super) fn every(allowed: bool) -> Self {
        Self {
            is_every_first: allowed,
            rules: Vec::new(),
            allowed: Bits::every(allowed),
            first_arguments: BTreeSet::new(),
        }
    }

    pub(super) fn is_every(&self) -> bool {
        (0..NUMBERED.specs.len()).all(|number| self.allowed.has(number))
    }

    /// Allows or denies what a name stands for, where there is room for so many rules more.
    pub(super) fn apply(
        &mut self,
        allowed: bool,
        name: &str,
        room: usize,
    ) -> Result<(), RuleError> {
        let rule = CommandRule { allowed, name: name.to_ascii_lowercase() };
        let target = rule.target()?;
        if room == 0 && !self.rules.iter().any(|it| it.is_covered_by(&rule.name)) {
            return Err(RuleError::TooManyRules);
        }
        match target {
            Target::Category(category) => {
                for (number, spec) in NUMBERED.specs.iter().enumerate() {
                    if is_in(spec, category) {
                        self.set(number, allowed);
                    }
                }
            }
            Target::Command(entry) => {
                self.set(entry.index, allowed);
                let first = NUMBERED.subcommands.get(entry.index).copied().unwrap_or_default();
                for at in 0..entry.spec.subcommands.len() {
                    self.set(first + at, allowed);
                }
            }
            Target::Subcommand(number) => self.set(number, allowed),
            Target::FirstArgument(index, argument) => {
                self.first_arguments.insert((index, argument));
            }
        }
        // What it covers is as it says, whatever they said: without them the rules come to the same.
        self.rules.retain(|it| !it.is_covered_by(&rule.name));
        self.rules.push(rule);
        Ok(())
    }

    fn set(&mut self, number: usize, allowed: bool) {
        self.allowed.set(number, allowed);
        self.first_arguments.retain(|(index, _)| *index != number);
    }

    /// Whether the command or subcommand of this number may run, which is one of `entry`.
    pub(super) fn allow(&self, number: usize, entry: &Entry, argv: &Argv) -> bool {
        self.allowed.has(number) || self.allow_first_argument(entry, argv)
    }

    fn allow_first_argument(&self, entry: &Entry, argv: &Argv) -> bool {
        let Some(first) = argv.get(1) else { return false };
        let is_it = |(index, argument): &(usize, String)| {
            *index == entry.index && argument.as_bytes().eq_ignore_ascii_case(first)
        };
        self.first_arguments.iter().any(is_it)
    }

    /// How many rules there are, without the one that all or none are allowed before them.
    pub(super) fn rule_count(&self) -> usize {
        self.rules.len()
    }

    /// The rules that say them.
    pub(super) fn rules(&self) -> impl Iterator<Item = String> {
        let written = |allowed, name: &str| format!("{}{name}", if allowed { '+' } else { '-' });
        let first = written(self.is_every_first, "@all");
        std::iter::once(first).chain(self.rules.iter().map(move |it| written(it.allowed, &it.name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands_after(rules: &str) -> Commands {
        let mut commands = Commands::every(false);
        for rule in rules.split_whitespace() {
            let (sign, name) = rule.split_at(1);
            commands.apply(sign == "+", name, usize::MAX).unwrap();
        }
        commands
    }

    fn allow(commands: &Commands, line: &str) -> bool {
        let words: Vec<&str> = line.split(' ').collect();
        let argv = Argv::of(&words);
        let entry = crate::commands::find(argv.name()).unwrap();
        let (number, _) = meant(entry, &argv);
        commands.allow(number, entry, &argv)
    }

    #[test]
    fn every_command_and_subcommand_has_a_number() {
        let names: BTreeSet<&str> = NUMBERED.specs.iter().map(|spec| spec.name).collect();
        assert_eq!(names.len(), NUMBERED.specs.len());
        for entry in crate::commands::all() {
            assert_eq!(NUMBERED.specs[entry.index].name, entry.spec.name);
            for spec in entry.spec.subcommands {
                let (command, own) = spec.name.split_once('|').unwrap();
                let (number, found) = meant(entry, &Argv::of(&[command, own]));
                assert_eq!((NUMBERED.specs[number].name, found.name), (spec.name, spec.name));
            }
        }
        let (number, spec) =
            meant(crate::commands::find(b"config").unwrap(), &Argv::of(&["config", "nope"]));
        assert_eq!((NUMBERED.specs[number].name, spec.name), ("config", "config"));
    }

    #[test]
    fn later_rules_count_and_covered_ones_go() {
        for (rules, written, allowed, denied) in [
            ("", "-@all", "", "get a, ping, config get x"),
            ("+get", "-@all +get", "get a, GET a", "mget a, set a b"),
            ("+GET +Config|SET", "-@all +get +config|set", "config set a b", "config get a"),
            ("+get -get", "-@all -get", "", "get a"),
            ("+@read -get +@read", "-@all -get +@read", "get a, mget a", "set a b"),
            ("+@read +get -@read", "-@all +get -@read", "", "get a, mget a"),
            ("+@READ -get", "-@all +@read -get", "mget a", "get a"),
            ("+config", "-@all +config", "config get a, config set a b, config nope", ""),
            ("+config|get", "-@all +config|get", "CONFIG GET a", "config set a b, config nope"),
            ("+config -config|set", "-@all +config -config|set", "config get a", "config set a b"),
            ("-config|set +config", "-@all +config", "config set a b", ""),
            ("+config|get -config", "-@all -config", "", "config get a"),
            ("+select|0 +select|1", "-@all +select|0 +select|1", "select 0, select 1", "select 2"),
            ("+select|0 +select|1 +select|0", "-@all +select|1 +select|0", "select 0", "select"),
            ("+select|0 -select", "-@all -select", "", "select 0"),
            ("+debug|SLEEP", "-@all +debug|sleep", "debug sleep 1, DEBUG Sleep 1", "debug x"),
            ("+select|0 -@connection", "-@all +select|0 -@connection", "", "select 0, ping"),
        ] {
            let commands = commands_after(rules);
            assert_eq!(commands.rules().collect::<Vec<_>>().join(" "), written, "{rules}");
            for (lines, expected) in [(allowed, true), (denied, false)] {
                for line in lines.split(", ").filter(|line| !line.is_empty()) {
                    assert_eq!(allow(&commands, line), expected, "{rules}: {line}");
                }
            }
        }
    }

    #[test]
    fn what_there_is_not_is_refused() {
        let mut commands = Commands::every(false);
        for (rule, expected) in [
            ("+nope", RuleError::Unknown),
            ("-nope", RuleError::Unknown),
            ("+", RuleError::Unknown),
            ("+@", RuleError::Unknown),
            ("+@nope", RuleError::Unknown),
            ("+|get", RuleError::Unknown),
            ("+nope|x", RuleError::Unknown),
            ("+config|nope", RuleError::Unknown),
            ("-config|nope", RuleError::Unknown),
            ("-config|", RuleError::Unknown),
            ("-select|0", RuleError::Unknown),
            ("+select|0|1", RuleError::Unknown),
            ("+get a", RuleError::Unknown),
            ("+config|", RuleError::Syntax),
            ("+debug|", RuleError::Syntax),
            ("+select|0 1", RuleError::Syntax),
            ("+config|get|maxmemory", RuleError::FirstArgument),
        ] {
            let (sign, name) = rule.split_at(1);
            assert_eq!(commands.apply(sign == "+", name, 9), Err(expected), "{rule}");
        }
        let long = format!("select|{}", "1".repeat(513));
        assert_eq!(commands.apply(true, &long, 9), Err(RuleError::TooLong));
        assert_eq!(commands.apply(true, "get", 0), Err(RuleError::TooManyRules));
        assert_eq!(commands, Commands::every(false));
        commands.apply(true, "get", 1).unwrap();
        commands.apply(false, "get", 0).unwrap();
        assert_eq!(commands.rule_count(), 1);
    }

    #[test]
    fn a_category_is_what_is_listed_of_it() {
        let names: Vec<&str> = categories().collect();
        assert!(names.is_sorted() && !names.contains(&"all"));
        for name in ["string", "hash", "read", "write", "fast", "slow", "connection"] {
            assert!(names.contains(&name), "{name}");
        }
        for category in names {
            let listed = commands_of(&category.to_ascii_uppercase()).unwrap();
            let (mut with, mut without) = (Commands::every(false), Commands::every(true));
            with.apply(true, &format!("@{category}"), 1).unwrap();
            without.apply(false, &format!("@{category}"), 1).unwrap();
            for (number, spec) in NUMBERED.specs.iter().enumerate() {
                let is_listed = listed.contains(&spec.name);
                assert_eq!(with.allowed.has(number), is_listed, "@{category} {}", spec.name);
                assert_eq!(without.allowed.has(number), !is_listed, "@{category} {}", spec.name);
            }
        }
        let read = commands_of("read").unwrap();
        assert!(read.contains(&"get") && read.contains(&"object|encoding"));
        assert_eq!((commands_of("nope"), commands_of("all")), (None, None));
    }

    #[test]
    fn every_command_is_every_one() {
        assert!(Commands::every(true).is_every() && !Commands::every(false).is_every());
        let mut commands = Commands::every(true);
        commands.apply(false, "config|set", 9).unwrap();
        assert!(!commands.is_every());
        commands.apply(true, "config", 9).unwrap();
        assert!(commands.is_every());
        assert_eq!(commands.rules().collect::<Vec<_>>(), ["+@all", "+config"]);
    }
}
