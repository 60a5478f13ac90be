//! One rule: how it is read, and why it is none, in Redis' words. Whether there is such a command or category
//! is looked up where rules on commands are kept.

use std::fmt;

use plimsoll_cluster::DATABASES;
use plimsoll_storage::command::args::parse_integer;

/// The most rules of a user.
pub const RULES_MAX: usize = 256;
/// Bytes of a pattern, and of an argument that a rule names, at the most.
const WORD_BYTES_MAX: usize = 512;
/// The most databases that a rule names.
const DATABASES_NAMED_MAX: usize = 64;

/// Why a rule is none. The words are what Redis says behind `Error in ACL SETUSER modifier '...': `, where it
/// has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// It has the form of none.
    #[error("Syntax error")]
    Syntax,
    /// There is no such command, subcommand or category here.
    #[error("Unknown command or category name in ACL")]
    Unknown,
    /// It names an argument of a subcommand.
    #[error("Allowing first-arg of a subcommand is not supported")]
    FirstArgument,
    /// Every key is allowed already.
    #[error(
        "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not \
         have any effect. Try 'resetkeys' to start with an empty list of patterns"
    )]
    PatternAfterAll,
    /// It names a database that cannot be. Valkey's words.
    #[error("The provided database ID is out of range or non-numeric")]
    Database,
    /// It is a second set of rules in parentheses, which Redis has.
    #[error("Selectors are not supported: a user has one set of rules")]
    Selector,
    /// It is on some channels.
    #[error("Patterns of channels are not supported, other than '&*': there is no Pub/Sub")]
    Channel,
    /// It would be one rule too many.
    #[error("A user has at most {RULES_MAX} rules")]
    TooManyRules,
    /// A pattern, or an argument that it names, is too long.
    #[error("A pattern or an argument in a rule has at most {WORD_BYTES_MAX} bytes")]
    TooLong,
    /// It names too many databases.
    #[error("A rule names at most {DATABASES_NAMED_MAX} databases")]
    TooManyDatabases,
}

/// What may be done with a key, or has to be allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyRights {
    read: bool,
    write: bool,
}

impl KeyRights {
    pub(super) const READ: Self = Self { read: true, write: false };
    pub(super) const WRITE: Self = Self { read: false, write: true };
    pub(super) const BOTH: Self = Self { read: true, write: true };

    /// Those of either.
    pub(super) fn and(self, other: Self) -> Self {
        Self { read: self.read || other.read, write: self.write || other.write }
    }

    pub(super) fn include(self, wanted: Self) -> bool {
        self.and(wanted) == self
    }

    /// What stands before a pattern in a rule.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::READ => "%R~",
            Self::WRITE => "%W~",
            _ => "~",
        }
    }
}

/// The databases that may be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Databases {
    /// All, also those that there are not yet.
    All,
    /// These, in order.
    Named(Vec<u32>),
}

impl Databases {
    pub(super) const NONE: Self = Self::Named(Vec::new());

    /// Reads the numbers between commas.
    fn parse(list: &str) -> Result<Self, RuleError> {
        let mut named = Vec::new();
        for (count, word) in list.split(',').enumerate() {
            if word.is_empty() {
                return Err(RuleError::Syntax);
            }
            if count >= DATABASES_NAMED_MAX {
                return Err(RuleError::TooManyDatabases);
            }
            let db = parse_integer(word.as_bytes()).and_then(|db| u32::try_from(db).ok());
            named.push(db.filter(|db| *db < DATABASES).ok_or(RuleError::Database)?);
        }
        named.sort_unstable();
        named.dedup();
        Ok(Self::Named(named))
    }

    pub(super) fn allow(&self, db: u32) -> bool {
        match self {
            Self::All => true,
            Self::Named(named) => named.contains(&db),
        }
    }
}

/// As a rule.
impl fmt::Display for Databases {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => formatter.write_str("alldbs"),
            Self::Named(named) if named.is_empty() => formatter.write_str("resetdbs"),
            Self::Named(named) => {
                let named: Vec<String> = named.iter().map(ToString::to_string).collect();
                write!(formatter, "db={}", named.join(","))
            }
        }
    }
}

/// What a rule says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rule<'a> {
    /// Nothing, here.
    Nothing,
    /// All commands are allowed, or none; what was said of commands before is forgotten.
    EveryCommand(bool),
    /// Some commands are allowed, or denied.
    Command {
        allowed: bool,
        /// A command's name, one with a subcommand or an argument behind a `|`, or a category's behind an
        /// `@`.
        name: &'a str,
    },
    /// Every key is allowed.
    EveryKey,
    /// No key is.
    NoKey,
    /// The keys that fit a pattern are, too.
    Key { rights: KeyRights, pattern: &'a str },
    /// These databases are allowed, and no others.
    Databases(Databases),
}

impl<'a> Rule<'a> {
    /// Reads a rule. Words and names are those of Redis in any case, patterns are taken as they are.
    pub(super) fn read(text: &'a str) -> Result<Self, RuleError> {
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            // There is no Pub/Sub: nothing is lost where channels are denied, and nothing won where all are
            // allowed.
            "" | "resetchannels" | "allchannels" | "&*" => return Ok(Self::Nothing),
            "allcommands" | "+@all" => return Ok(Self::EveryCommand(true)),
            "nocommands" | "-@all" => return Ok(Self::EveryCommand(false)),
            "allkeys" | "~*" => return Ok(Self::EveryKey),
            "resetkeys" => return Ok(Self::NoKey),
            "alldbs" => return Ok(Self::Databases(Databases::All)),
            "resetdbs" => return Ok(Self::Databases(Databases::NONE)),
            _ => {}
        }
        if let Some(list) = lower.strip_prefix("db=") {
            return Databases::parse(list).map(Self::Databases);
        }
        let mut rest = text.chars();
        let (sign, rest) = (rest.next(), rest.as_str());
        match sign {
            Some(sign @ ('+' | '-')) => Ok(Self::Command { allowed: sign == '+', name: rest }),
            Some('~') => Self::key(KeyRights::BOTH, rest),
            Some('%') => {
                let (letters, pattern) = rest.split_once('~').ok_or(RuleError::Syntax)?;
                let rights = match letters.to_ascii_uppercase().as_str() {
                    "R" => KeyRights::READ,
                    "W" => KeyRights::WRITE,
                    "RW" | "WR" => KeyRights::BOTH,
                    _ => return Err(RuleError::Syntax),
                };
                Self::key(rights, pattern)
            }
            Some('&') => Err(RuleError::Channel),
            Some('(') => Err(RuleError::Selector),
            _ => Err(RuleError::Syntax),
        }
    }

    fn key(rights: KeyRights, pattern: &'a str) -> Result<Self, RuleError> {
        check_word(pattern)?;
        Ok(Self::Key { rights, pattern })
    }
}

/// Checks a pattern, or an argument that a rule names: rules are written behind one another with spaces
/// between them, so that none may be in a rule.
pub(super) fn check_word(word: &str) -> Result<(), RuleError> {
    if word.len() > WORD_BYTES_MAX {
        return Err(RuleError::TooLong);
    }
    // The spaces of C, one of which Rust does not count.
    let is_space = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b);
    if word.bytes().any(is_space) { Err(RuleError::Syntax) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_one_thing() {
        let command = |allowed, name| Rule::Command { allowed, name };
        let key = |rights, pattern| Rule::Key { rights, pattern };
        let named = |named: &[u32]| Rule::Databases(Databases::Named(named.to_vec()));
        for (text, expected) in [
            ("", Rule::Nothing),
            ("&*", Rule::Nothing),
            ("allchannels", Rule::Nothing),
            ("ResetChannels", Rule::Nothing),
            ("+@all", Rule::EveryCommand(true)),
            ("+@ALL", Rule::EveryCommand(true)),
            ("AllCommands", Rule::EveryCommand(true)),
            ("-@all", Rule::EveryCommand(false)),
            ("nocommands", Rule::EveryCommand(false)),
            ("+GET", command(true, "GET")),
            ("-config|set", command(false, "config|set")),
            ("+@read", command(true, "@read")),
            ("+", command(true, "")),
            ("~*", Rule::EveryKey),
            ("ALLKEYS", Rule::EveryKey),
            ("resetkeys", Rule::NoKey),
            ("~App:*", key(KeyRights::BOTH, "App:*")),
            ("~", key(KeyRights::BOTH, "")),
            ("~~x", key(KeyRights::BOTH, "~x")),
            ("%R~a", key(KeyRights::READ, "a")),
            ("%w~a", key(KeyRights::WRITE, "a")),
            ("%RW~a", key(KeyRights::BOTH, "a")),
            ("%wr~a~b", key(KeyRights::BOTH, "a~b")),
            ("%R~*", key(KeyRights::READ, "*")),
            ("~ü", key(KeyRights::BOTH, "ü")),
            ("alldbs", Rule::Databases(Databases::All)),
            ("resetdbs", named(&[])),
            ("db=0", named(&[0])),
            ("DB=3,0,15,3", named(&[0, 3, 15])),
        ] {
            assert_eq!(Rule::read(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_rule_is_refused_by_name() {
        let long = format!("~{}", "x".repeat(513));
        let many = format!("db={}", vec!["0"; 65].join(","));
        for (text, expected) in [
            ("get", RuleError::Syntax),
            ("ü", RuleError::Syntax),
            ("%", RuleError::Syntax),
            ("%~", RuleError::Syntax),
            ("%~a", RuleError::Syntax),
            ("%R", RuleError::Syntax),
            ("%RR~a", RuleError::Syntax),
            ("%RX~a", RuleError::Syntax),
            ("~a b", RuleError::Syntax),
            ("~a\u{b}b", RuleError::Syntax),
            ("~a\0", RuleError::Syntax),
            ("db=", RuleError::Syntax),
            ("db=,1", RuleError::Syntax),
            ("db=1,", RuleError::Syntax),
            ("db=x", RuleError::Database),
            ("db=+1", RuleError::Database),
            ("db=-1", RuleError::Database),
            ("db=16", RuleError::Database),
            ("db=1 ,2", RuleError::Database),
            (many.as_str(), RuleError::TooManyDatabases),
            (long.as_str(), RuleError::TooLong),
            ("&news*", RuleError::Channel),
            ("(+get ~a)", RuleError::Selector),
            ("(", RuleError::Selector),
        ] {
            assert_eq!(Rule::read(text), Err(expected), "{text}");
        }
        assert!(Rule::read(&format!("~{}", "x".repeat(512))).is_ok());
        assert!(Rule::read(&format!("db={}", vec!["0"; 64].join(","))).is_ok());
    }

    #[test]
    fn refusals_have_redis_words() {
        for (error, words) in [
            (RuleError::Syntax, "Syntax error"),
            (RuleError::Unknown, "Unknown command or category name in ACL"),
            (
                RuleError::PatternAfterAll,
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and \
                 does not have any effect. Try 'resetkeys' to start with an empty list of patterns",
            ),
            (RuleError::FirstArgument, "Allowing first-arg of a subcommand is not supported"),
            (RuleError::TooManyRules, "A user has at most 256 rules"),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn rights_include_each_other() {
        let (read, write, both) = (KeyRights::READ, KeyRights::WRITE, KeyRights::BOTH);
        assert!(both.include(read) && both.include(write) && read.include(read));
        assert!(!read.include(write) && !write.include(read) && !write.include(both));
        assert_eq!(read.and(write), both);
    }
}
