//! Which keys may be touched: patterns, each for reading, for writing or for both, and what a command needs
//! of the keys among its arguments. Which arguments are keys is [`Spec::key_positions`]', and how a pattern
//! fits is [`Glob`]'s, the same as of KEYS: at most as many steps as the product of the lengths.

use plimsoll_storage::{
    Argv,
    command::{
        args::choose,
        condition::Comparison,
        spec::{Access, Spec},
    },
    execute::Glob,
};

use super::rules::{KeyRights, RuleError};

/// A pattern, and what may be done with the keys that fit it.
#[derive(Clone, Debug)]
struct Pattern {
    rights: KeyRights,
    text: String,
    /// The text, read.
    glob: Glob,
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.rights == other.rights && self.text == other.text
    }
}

/// The keys that may be touched; none at first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Keys {
    /// All of them, for whatever there is. There are no patterns then.
    is_every: bool,
    patterns: Vec<Pattern>,
}

impl Keys {
    /// All of them.
    pub(super) fn every() -> Self {
        Self { is_every: true, patterns: Vec::new() }
    }

    pub(super) fn is_every(&self) -> bool {
        self.is_every
    }

    /// Allows the keys that fit a pattern, too, where there is room for so many rules more.
    pub(super) fn add(
        &mut self,
        rights: KeyRights,
        text: &str,
        room: usize,
    ) -> Result<(), RuleError> {
        if self.is_every {
            return Err(RuleError::PatternAfterAll);
        }
        let known = self.patterns.iter_mut().find(|it| it.text == text);
        let rights = known.as_ref().map_or(rights, |known| known.rights.and(rights));
        if text == "*" && rights == KeyRights::BOTH {
            *self = Self::every();
            return Ok(());
        }
        if let Some(known) = known {
            known.rights = rights;
            return Ok(());
        }
        if room == 0 {
            return Err(RuleError::TooManyRules);
        }
        let glob = Glob::new(text.as_bytes()).map_err(|_| RuleError::TooLong)?;
        self.patterns.push(Pattern { rights, text: text.to_owned(), glob });
        Ok(())
    }

    /// Whether a command may have all the keys among its arguments.
    pub(super) fn allow(&self, spec: &Spec, argv: &Argv) -> bool {
        if self.is_every {
            return true;
        }
        let (of_first, of_others) = needs(spec, argv);
        let keys = spec.key_positions(argv).filter_map(|at| argv.get(at));
        keys.enumerate().all(|(count, key)| {
            let wanted = if count == 0 { of_first } else { of_others };
            let fits = |it: &Pattern| it.rights.include(wanted) && it.glob.matches(key).0;
            self.patterns.iter().any(fits)
        })
    }

    /// How many rules they are.
    pub(super) fn rule_count(&self) -> usize {
        usize::from(self.is_every) + self.patterns.len()
    }

    /// The rules that say them.
    pub(super) fn rules(&self) -> impl Iterator<Item = String> {
        let every = self.is_every.then(|| "~*".to_owned());
        let patterns = self.patterns.iter().map(|it| format!("{}{}", it.rights.prefix(), it.text));
        every.into_iter().chain(patterns)
    }
}

/// What a command needs of its first key, and of the others: what Redis says in the flags of its keys. A
/// command that writes and is not known here needs both; so does one that shows or compares what it changes.
fn needs(spec: &Spec, argv: &Argv) -> (KeyRights, KeyRights) {
    let each = |rights| (rights, rights);
    // WATCH is of no access: it tells whether a key has changed.
    if spec.access != Access::Write {
        return each(KeyRights::READ);
    }
    match spec.name {
        "set" if !looks_at_what_it_sets(argv) => each(KeyRights::WRITE),
        // Without a condition it is DEL.
        "delex" if argv.len() <= 2 => each(KeyRights::WRITE),
        "bitfield" if !changes_bits(argv) => each(KeyRights::READ),
        "rename" | "renamenx" => (KeyRights::BOTH, KeyRights::WRITE),
        "copy" => (KeyRights::READ, KeyRights::WRITE),
        // Its first key is the one that it writes.
        "bitop" => (KeyRights::WRITE, KeyRights::READ),
        "setnx" | "setex" | "psetex" | "mset" | "msetnx" | "append" | "setrange" | "hset"
        | "hmset" | "hsetnx" | "hsetex" | "hdel" | "hexpire" | "hpexpire" | "hexpireat"
        | "hpexpireat" | "hpersist" | "del" | "unlink" | "expire" | "pexpire" | "expireat"
        | "pexpireat" | "persist" => each(KeyRights::WRITE),
        _ => each(KeyRights::BOTH),
    }
}

/// Whether a SET shows or compares the string that it sets. What stands for an option's value counts as one.
fn looks_at_what_it_sets(argv: &Argv) -> bool {
    argv.iter()
        .skip(3)
        .any(|it| it.eq_ignore_ascii_case(b"GET") || choose(it, Comparison::NAMES).is_some())
}

/// Whether a BITFIELD may do more than show bits.
fn changes_bits(argv: &Argv) -> bool {
    argv.iter()
        .skip(2)
        .any(|it| it.eq_ignore_ascii_case(b"SET") || it.eq_ignore_ascii_case(b"INCRBY"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::commands;

    fn argv(line: &str) -> Argv {
        let words: Vec<&str> = line.split(' ').collect();
        Argv::of(&words)
    }

    /// Whether a pattern fits a key.
    fn fits(pattern: &[u8], key: &[u8]) -> bool {
        Glob::new(pattern).unwrap().matches(key).0
    }

    #[test]
    fn commands_need_of_their_keys_what_they_do_with_them() {
        for (line, expected) in [
            ("get k", "R"),
            ("mget a b", "RR"),
            ("exists a b", "RR"),
            ("object encoding k", "R"),
            ("memory usage k", "R"),
            ("watch a b", "RR"),
            ("bitfield_ro k GET u8 0", "R"),
            ("set k v", "W"),
            ("set k v EX 10 NX", "W"),
            ("set k v get", "B"),
            ("set k v XX GET", "B"),
            ("set k v ifeq x", "B"),
            ("set k v IFDNE 0", "B"),
            ("setnx k v", "W"),
            ("mset a 1 b 2 c 3", "WWW"),
            ("getset k v", "B"),
            ("getdel k", "B"),
            ("getex k", "B"),
            ("append k v", "W"),
            ("incr k", "B"),
            ("setbit k 0 1", "B"),
            ("delex k", "W"),
            ("delex k IFEQ v", "B"),
            ("bitfield k GET u8 0", "R"),
            ("bitfield k GET u8 0 incrby u8 0 1", "B"),
            ("bitfield k SET u8 0 1", "B"),
            ("bitop AND to a b", "WRR"),
            ("rename a b", "BW"),
            ("renamenx a b", "BW"),
            ("copy a b", "RW"),
            ("copy a b REPLACE", "RW"),
            ("del a b", "WW"),
            ("expire k 10", "W"),
            ("hset k f v", "W"),
            ("hdel k f", "W"),
            ("hincrby k f 1", "B"),
            ("hgetdel k FIELDS 1 f", "B"),
            ("hgetex k FIELDS 1 f", "B"),
            ("plimsoll.hremrange k - +", "B"),
            ("keys *", ""),
            ("scan 0", ""),
            ("flushdb", ""),
            ("ping", ""),
        ] {
            let argv = argv(line);
            let spec = commands::find(argv.name()).unwrap().spec.check(&argv).unwrap();
            let (first, others) = needs(spec, &argv);
            let rights = [first].into_iter().chain(std::iter::repeat(others));
            let letters = spec.key_positions(&argv).zip(rights).map(|(_, rights)| match rights {
                KeyRights::READ => 'R',
                KeyRights::WRITE => 'W',
                _ => 'B',
            });
            assert_eq!(letters.collect::<String>(), expected, "{line}");
        }
    }

    #[test]
    fn every_key_has_to_fit_a_pattern_with_the_rights_that_are_needed() {
        let mut keys = Keys::default();
        for (rights, pattern) in
            [(KeyRights::READ, "r*"), (KeyRights::WRITE, "w*"), (KeyRights::BOTH, "b:[0-9]")]
        {
            keys.add(rights, pattern, 10).unwrap();
        }
        for (line, expected) in [
            ("get r", true),
            ("get w", false),
            ("get b:7", true),
            ("get b:x", false),
            ("mget r1 r2 b:1", true),
            ("mget r1 w1", false),
            ("set w v", true),
            ("set r v", false),
            ("set w v GET", false),
            ("set b:1 v GET", true),
            ("copy r w", true),
            ("copy w r", false),
            ("copy r b:1", true),
            ("rename r w", false),
            ("rename b:1 w", true),
            ("mset w1 r w2 r", true),
            ("bitop or w r b:1", true),
            ("bitop or r w", false),
            ("ping", true),
            ("keys *", true),
        ] {
            let argv = argv(line);
            let spec = commands::find(argv.name()).unwrap().spec.check(&argv).unwrap();
            assert_eq!(keys.allow(spec, &argv), expected, "{line}");
            assert!(Keys::every().allow(spec, &argv), "{line}");
        }
    }

    #[test]
    fn patterns_add_up() {
        let mut keys = Keys::default();
        let written = |keys: &Keys| keys.rules().collect::<Vec<_>>().join(" ");
        for (rights, pattern, room, expected) in [
            (KeyRights::READ, "a", 1, Ok("%R~a")),
            (KeyRights::WRITE, "*", 1, Ok("%R~a %W~*")),
            (KeyRights::BOTH, "b", 0, Err(RuleError::TooManyRules)),
            (KeyRights::WRITE, "a", 0, Ok("~a %W~*")),
            (KeyRights::READ, "*", 0, Ok("~*")),
            (KeyRights::READ, "a", 1, Err(RuleError::PatternAfterAll)),
        ] {
            let outcome = keys.add(rights, pattern, room).map(|()| written(&keys));
            assert_eq!(outcome, expected.map(str::to_owned), "{pattern}");
        }
        assert_eq!((keys.rule_count(), Keys::default().rule_count()), (1, 0));
    }

    #[test]
    fn patterns_fit_as_they_do_in_redis() {
        for (pattern, key, expected) in [
            ("*", "", true),
            ("app:*", "app:", true),
            ("app:*", "ap", false),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-c]llo", "hbllo", true),
            ("h[c-a]llo", "hbllo", true),
            (r"h\*", "h*", true),
            (r"h\*", "hx", false),
            (r"[\]]", "]", true),
            ("[ab", "b", true),
            ("*a*b*c", "1a2b3c", true),
            ("*a*b*c", "1b2a3c", false),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), key.as_bytes()), expected, "{pattern} {key}");
        }
    }

    /// The same by recursion, as Redis reads patterns.
    fn fits_plainly(pattern: &[u8], key: &[u8]) -> bool {
        let (Some((sign, rest)), other) = (pattern.split_first(), key.split_first()) else {
            return key.is_empty();
        };
        if *sign == b'*' {
            return (0..=key.len()).any(|at| fits_plainly(rest, &key[at..]));
        }
        let Some((byte, others)) = other else { return false };
        match (sign, rest) {
            (b'?', _) => fits_plainly(rest, others),
            (b'[', _) => {
                let (is_in, rest) = in_class(rest, *byte);
                is_in && fits_plainly(rest, others)
            }
            (b'\\', [escaped, rest @ ..]) => escaped == byte && fits_plainly(rest, others),
            _ => sign == byte && fits_plainly(rest, others),
        }
    }

    /// Whether a byte is in the class that a pattern goes on with, and what comes after that.
    fn in_class(pattern: &[u8], byte: u8) -> (bool, &[u8]) {
        let (is_not, mut rest) = match pattern {
            [b'^', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let mut is_in = false;
        loop {
            match rest {
                [] => return (is_in != is_not, rest),
                [b'\\', sign, after @ ..] => {
                    is_in |= *sign == byte;
                    rest = after;
                }
                [b']', after @ ..] => return (is_in != is_not, after),
                [from, b'-', to, after @ ..] => {
                    is_in |= (*from.min(to)..=*from.max(to)).contains(&byte);
                    rest = after;
                }
                [sign, after @ ..] => {
                    is_in |= *sign == byte;
                    rest = after;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn patterns_mean_what_they_say(
            pattern in r"[abc*?\[\]^\\-]{0,9}",
            key in r"[abc\]^\\-]{0,9}",
        ) {
            let (pattern, key) = (pattern.as_bytes(), key.as_bytes());
            prop_assert_eq!(fits(pattern, key), fits_plainly(pattern, key));
        }
    }
}
