//! What a user may do by RESP, as rules in Redis' words say it: which commands, on which keys, in which
//! databases. Pure: it reads rules, writes them back and judges one command.
//!
//! - `rules`: how one rule is read, and why it is none.
//! - `commands`: which commands may run, and the categories that they are in.
//! - `keys`: which keys may be touched, and what a command needs of its keys.
//!
//! Who the user is, its passwords and whether it may log in are not here: rules such as `on`, `>password`,
//! `nopass` and `reset` are taken by whoever changes users, before the others come here. There are no
//! selectors, and no channels, since there is no Pub/Sub.

mod commands;
mod keys;
mod rules;

pub use commands::{categories, commands_of};
pub use rules::{RULES_MAX, RuleError};

use plimsoll_cluster::DATABASES;
use plimsoll_storage::{Argv, command::args::parse_integer};

use crate::commands::{Entry, Own, Runs};
use commands::Commands;
use keys::Keys;
use rules::{Databases, Rule};

/// What was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denied {
    /// The command, by its whole name: `config|set` is one of a subcommand.
    Command(&'static str),
    /// A key among the arguments, or what the command does with it.
    Key,
    /// A database: the one that the command runs in, or one that it names or reaches besides.
    Database(u32),
}

/// What a user may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Acl {
    commands: Commands,
    keys: Keys,
    databases: Databases,
    /// Whether nothing is denied: looked at first, for each command.
    is_all: bool,
}

impl Acl {
    /// What a new user may do: no command, no key, in any database. As `-@all resetkeys alldbs`.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            commands: Commands::every(false),
            keys: Keys::default(),
            databases: Databases::All,
            is_all: false,
        }
    }

    /// Everything, also what commands there will be. As `+@all ~* alldbs`.
    #[must_use]
    pub fn everything() -> Self {
        Self {
            commands: Commands::every(true),
            keys: Keys::every(),
            databases: Databases::All,
            is_all: true,
        }
    }

    /// Reads rules from left to right, from [`Self::nothing`] on.
    ///
    /// # Errors
    /// The first rule that is none says why.
    pub fn parse<'a>(rules: impl Iterator<Item = &'a str>) -> Result<Self, RuleError> {
        let mut acl = Self::nothing();
        for rule in rules {
            acl.apply(rule)?;
        }
        Ok(acl)
    }

    /// Changes what may be done as a rule says. An empty rule says nothing.
    ///
    /// # Errors
    /// Where it is none, names what there is not, or is one too many. Nothing has changed then.
    pub fn apply(&mut self, rule: &str) -> Result<(), RuleError> {
        let room = RULES_MAX.saturating_sub(self.rule_count());
        match Rule::read(rule)? {
            Rule::Nothing => {}
            Rule::EveryCommand(allowed) => self.commands = Commands::every(allowed),
            Rule::Command { allowed, name } => self.commands.apply(allowed, name, room)?,
            Rule::EveryKey => self.keys = Keys::every(),
            Rule::NoKey => self.keys = Keys::default(),
            Rule::Key { rights, pattern } => self.keys.add(rights, pattern, room)?,
            Rule::Databases(databases) => self.databases = databases,
        }
        self.is_all =
            self.keys.is_every() && self.databases == Databases::All && self.commands.is_every();
        Ok(())
    }

    /// How many rules count against [`RULES_MAX`]. There is always room for one on all keys, one on databases
    /// and the one that commands begin with: those are never refused.
    fn rule_count(&self) -> usize {
        self.keys.rule_count().max(1) + 1 + 1 + self.commands.rule_count()
    }

    /// The rules that [`Self::parse`] reads to the same, at most [`RULES_MAX`]: keys, databases unless they
    /// are all, then commands, which begin with `+@all` or `-@all`.
    #[must_use]
    pub fn rules(&self) -> Vec<String> {
        let databases = (self.databases != Databases::All).then(|| self.databases.to_string());
        self.keys.rules().chain(databases).chain(self.commands.rules()).collect()
    }

    /// The rules on commands, such as `-@all +get +@read -set`: what ACL GETUSER shows.
    #[must_use]
    pub fn commands_text(&self) -> String {
        self.commands.rules().collect::<Vec<_>>().join(" ")
    }

    /// The rules on keys, such as `~* %R~app:*`; empty where none is allowed.
    #[must_use]
    pub fn keys_text(&self) -> String {
        self.keys.rules().collect::<Vec<_>>().join(" ")
    }

    /// The rule on databases: `alldbs`, `db=0,3`, or `resetdbs` where none is allowed.
    #[must_use]
    pub fn databases_text(&self) -> String {
        self.databases.to_string()
    }

    /// Whether nothing is ever denied.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Judges a command that is to run in a database. Its number of arguments and its subcommand are checked
    /// by whoever runs it ([`plimsoll_storage::command::Spec::check`]); where they are wrong, the answer
    /// means nothing more than that.
    ///
    /// Cost: a bit, where keys and databases are not restricted; else each key is compared with each pattern,
    /// until one fits. Nothing is allocated.
    ///
    /// # Errors
    /// What is denied: of several the command first, then the database, then the keys.
    pub fn judge(&self, entry: &Entry, argv: &Argv, db: u32) -> Result<(), Denied> {
        if self.is_all || entry.is_open_to_all() {
            return Ok(());
        }
        let (number, spec) = commands::meant(entry, argv);
        if !self.commands.allow(number, entry, argv) {
            return Err(Denied::Command(spec.name));
        }
        if let Some(db) = self.denied_database(entry, argv, db) {
            return Err(Denied::Database(db));
        }
        if self.keys.allow(spec, argv) { Ok(()) } else { Err(Denied::Key) }
    }

    /// The first database that a command would reach though it must not.
    fn denied_database(&self, entry: &Entry, argv: &Argv, db: u32) -> Option<u32> {
        if self.databases == Databases::All {
            return None;
        }
        let is_denied = |db: &u32| !self.databases.allow(*db);
        match entry.runs {
            Runs::Rows if entry.spec.name == "copy" => {
                std::iter::once(db).chain(named_by_copy(argv)).find(is_denied)
            }
            Runs::Rows | Runs::Here(Own::Watch) => Some(db).filter(is_denied),
            Runs::Here(Own::Select) => argv.get(1).and_then(database).filter(is_denied),
            // It reaches those that are not named as well as those that there will be.
            Runs::Here(Own::Flushall) => (0..DATABASES).find(is_denied).or(Some(db)),
            Runs::Here(_) => None,
        }
    }
}

/// The databases that a COPY names. What only looks like the option counts, too.
fn named_by_copy(argv: &Argv) -> impl Iterator<Item = u32> {
    let options = argv.iter().skip(3).zip(argv.iter().skip(4));
    options.filter(|(word, _)| word.eq_ignore_ascii_case(b"DB")).filter_map(|(_, db)| database(db))
}

/// The number of a database; none where it is no number, which the command refuses by itself.
fn database(text: &[u8]) -> Option<u32> {
    u32::try_from(parse_integer(text)?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn acl(rules: &str) -> Acl {
        Acl::parse(rules.split_whitespace()).unwrap()
    }

    fn judge(acl: &Acl, line: &str, db: u32) -> Result<(), Denied> {
        let words: Vec<&str> = line.split(' ').collect();
        let argv = Argv::of(&words);
        acl.judge(crate::commands::find(argv.name()).unwrap(), &argv, db)
    }

    #[test]
    fn rules_are_written_in_one_form() {
        for (rules, written, keys, databases, commands) in [
            ("", "-@all", "", "alldbs", "-@all"),
            ("allcommands allkeys alldbs", "~* +@all", "~*", "alldbs", "+@all"),
            ("+@all -config", "+@all -config", "", "alldbs", "+@all -config"),
            (
                "+get ~a %R~b:* +@read -set db=3,0",
                "~a %R~b:* db=0,3 -@all +get +@read -set",
                "~a %R~b:*",
                "db=0,3",
                "-@all +get +@read -set",
            ),
            ("+get -@all +set", "-@all +set", "", "alldbs", "-@all +set"),
            ("+get +@all", "+@all", "", "alldbs", "+@all"),
            ("~a resetkeys ~b", "~b -@all", "~b", "alldbs", "-@all"),
            ("~a ~b ~* ~*", "~* -@all", "~*", "alldbs", "-@all"),
            ("%R~* %W~*", "~* -@all", "~*", "alldbs", "-@all"),
            ("db=1 db=2", "db=2 -@all", "", "db=2", "-@all"),
            ("db=1 resetdbs", "resetdbs -@all", "", "resetdbs", "-@all"),
            ("db=1 alldbs", "-@all", "", "alldbs", "-@all"),
            ("resetchannels allchannels &* nocommands", "-@all", "", "alldbs", "-@all"),
        ] {
            let acl = acl(rules);
            assert_eq!(acl.rules().join(" "), written, "{rules}");
            assert_eq!(acl.keys_text(), keys, "{rules}");
            assert_eq!(acl.databases_text(), databases, "{rules}");
            assert_eq!(acl.commands_text(), commands, "{rules}");
        }
    }

    #[test]
    fn what_is_everything_is_known() {
        for (rules, expected) in [
            ("", false),
            ("+@all ~*", true),
            ("+@all ~* alldbs", true),
            ("+@all ~* db=0", false),
            ("+@all %R~*", false),
            ("+@all %R~* %W~*", true),
            ("+@all ~* -get", false),
            ("+@all ~* -get +get", true),
            ("~*", false),
        ] {
            assert_eq!(acl(rules).is_all(), expected, "{rules}");
        }
        assert_eq!(acl("+@all ~*"), Acl::everything());
        assert_eq!(acl(""), Acl::nothing());
        assert_eq!(judge(&Acl::everything(), "flushall", 7), Ok(()));
    }

    #[test]
    fn commands_are_judged() {
        let on = |rules: &str, line: &str, db| judge(&acl(rules), line, db);
        let denied = |name| Err(Denied::Command(name));
        for (rules, line, expected) in [
            ("", "get a", denied("get")),
            ("", "ping", denied("ping")),
            ("", "auth x", Ok(())),
            ("", "hello 3", Ok(())),
            ("", "quit", Ok(())),
            ("", "reset", Ok(())),
            ("+@all", "ping", Ok(())),
            ("+@all", "get a", Err(Denied::Key)),
            ("+@all", "keys *", Ok(())),
            ("+@all", "scan 0", Ok(())),
            ("+@all", "dbsize", Ok(())),
            ("+@all", "flushall", Ok(())),
            ("+@all", "watch a", Err(Denied::Key)),
            ("+@all ~a", "watch a", Ok(())),
            ("+@all ~a", "watch a b", Err(Denied::Key)),
            ("+@all ~a", "GET a", Ok(())),
            ("+@all ~a -get", "GET a", denied("get")),
            ("+@all -config|set", "config get x", Ok(())),
            ("+@all -config|set", "CONFIG SET x y", denied("config|set")),
            ("+config|get", "config set x y", denied("config|set")),
            ("+@all ~app:*", "object encoding app:1", Ok(())),
            ("+@all ~app:*", "object encoding b", Err(Denied::Key)),
            ("+@read ~a", "object encoding a", Ok(())),
            ("+select|0", "select 0", Ok(())),
            ("+select|0", "select 1", denied("select")),
        ] {
            assert_eq!(on(rules, line, 3), expected, "{rules}: {line}");
        }
        // Commands that only look like a subcommand's are their command.
        assert_eq!(on("+@all -config", "config nope", 0), denied("config"));
        assert_eq!(on("+@all", "config nope", 0), Ok(()));
    }

    #[test]
    fn databases_are_judged() {
        let allowed = acl("+@all ~* db=0,3");
        for (line, db, expected) in [
            ("get a", 0, None),
            ("get a", 3, None),
            ("get a", 1, Some(1)),
            ("keys *", 1, Some(1)),
            ("dbsize", 1, Some(1)),
            ("flushdb", 3, None),
            ("flushdb", 2, Some(2)),
            ("watch a", 2, Some(2)),
            ("ping", 1, None),
            ("multi", 1, None),
            ("config get a", 1, None),
            ("select 3", 1, None),
            ("select 1", 0, Some(1)),
            ("select 99", 0, Some(99)),
            ("select x", 0, None),
            ("select -1", 0, None),
            ("flushall", 0, Some(1)),
            ("copy a b", 0, None),
            ("copy a b", 2, Some(2)),
            ("copy a b DB 3", 0, None),
            ("copy a b DB 3", 1, Some(1)),
            ("copy a b db 2", 0, Some(2)),
            ("copy a b REPLACE DB 2", 0, Some(2)),
            ("copy a b DB 3 DB 2 REPLACE", 0, Some(2)),
            ("copy a b DB", 0, None),
            ("copy a b DB x", 0, None),
        ] {
            let expected = expected.map_or(Ok(()), |db| Err(Denied::Database(db)));
            assert_eq!(judge(&allowed, line, db), expected, "{line} in {db}");
        }
        let every_one: Vec<String> = (0..DATABASES).map(|db| db.to_string()).collect();
        let every_one = acl(&format!("+@all ~* db={}", every_one.join(",")));
        assert_eq!(judge(&every_one, "get a", 5), Ok(()));
        assert_eq!(judge(&every_one, "flushall", 5), Err(Denied::Database(5)));
        assert_eq!(judge(&acl("+@all ~* resetdbs"), "get a", 0), Err(Denied::Database(0)));
        assert_eq!(judge(&acl("~* db=0"), "get a", 1), Err(Denied::Command("get")));
    }

    #[test]
    fn there_are_at_most_so_many_rules() {
        let mut acl = acl("+@all -get -set db=0");
        let count = (0..).take_while(|at| acl.apply(&format!("~k{at}")).is_ok()).count();
        assert_eq!(acl.rules().len(), RULES_MAX);
        assert_eq!(acl.apply("~more"), Err(RuleError::TooManyRules));
        assert_eq!(acl.apply("+del"), Err(RuleError::TooManyRules));
        // What is there may change.
        for rule in ["%R~k0", "+get", "db=1", ""] {
            assert_eq!(acl.apply(rule), Ok(()), "{rule}");
        }
        assert_eq!(acl.rules().len(), RULES_MAX);
        acl.apply("~*").unwrap();
        assert_eq!(acl.rules().len(), RULES_MAX - count + 1);
    }

    #[test]
    fn a_rule_that_is_refused_changes_nothing() {
        let before = acl("+@all -config ~a db=1");
        for rule in ["+nope", "~a b", "%X~a", "db=99", "db=1,,2", "(+get)", "&x", "on", ">secret"] {
            let mut after = before.clone();
            assert!(after.apply(rule).is_err(), "{rule}");
            assert_eq!(after, before, "{rule}");
        }
        assert_eq!(Acl::parse(["+get", "nope"].into_iter()), Err(RuleError::Syntax));
    }

    fn any_rule() -> impl Strategy<Value = String> {
        let names = vec![
            "get",
            "set",
            "config",
            "config|get",
            "config|set",
            "client|list",
            "object",
            "select",
            "@all",
            "@read",
            "@write",
            "@slow",
            "@connection",
            "@dangerous",
        ];
        let others = vec![
            "+select|0",
            "+select|1",
            "allkeys",
            "resetkeys",
            "alldbs",
            "resetdbs",
            "db=1",
            "db=3,0",
        ];
        let on_commands = (select(vec!["+", "-"]), select(names));
        prop_oneof![
            4 => on_commands.prop_map(|(sign, name)| format!("{sign}{name}")),
            2 => "(~|%R~|%W~|%wr~)[ab*]{0,2}",
            2 => select(others).prop_map(str::to_owned),
        ]
    }

    proptest! {
        #[test]
        fn rules_are_read_as_they_are_written(
            rules in proptest::collection::vec(any_rule(), 0..24),
        ) {
            let mut acl = Acl::nothing();
            for rule in &rules {
                // A pattern behind `~*` is refused, and changes nothing.
                let _ = acl.apply(rule);
            }
            let written = acl.rules();
            prop_assert_eq!(Acl::parse(written.iter().map(String::as_str)), Ok(acl));
        }
    }
}
