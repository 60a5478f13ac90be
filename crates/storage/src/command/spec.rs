//! What is known of a command by its name alone: how many arguments it takes, where its keys
//! stand, what it does to rows. The server describes its own commands in the same words.

pub use super::args::wrong_arity;

use super::args::{Given, show};
use super::body::Body;
use crate::{Argv, ErrorReply};

/// Commands of a kind, as Redis' documentation groups them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// On strings.
    String,
    /// On the bits of strings.
    Bitmap,
    /// On hashes.
    Hash,
    /// On keys of any type.
    Generic,
    /// On the connection.
    Connection,
    /// On the server.
    Server,
    /// On transactions.
    Transactions,
}

impl Group {
    /// The name of its access category, where it has one.
    #[must_use]
    pub fn category(self) -> Option<&'static str> {
        match self {
            Self::String => Some("string"),
            Self::Bitmap => Some("bitmap"),
            Self::Hash => Some("hash"),
            Self::Generic => Some("keyspace"),
            Self::Connection => Some("connection"),
            Self::Transactions => Some("transaction"),
            Self::Server => None,
        }
    }
}

/// Where the keys stand among the arguments; 0 is the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Position of the first key; 0 where there is none.
    pub first: i32,
    /// Position of the last key; below 0 it counts from the end.
    pub last: i32,
    /// Distance from one key to the next.
    pub step: i32,
}

impl KeyRange {
    /// No keys.
    pub const NONE: Self = Self::new(0, 0, 0);
    /// The first argument is the only key.
    pub const ONE: Self = Self::new(1, 1, 1);
    /// The first two arguments are keys.
    pub const TWO: Self = Self::new(1, 2, 1);
    /// All arguments are keys.
    pub const ALL: Self = Self::new(1, -1, 1);
    /// Keys and values take turns.
    pub const PAIRS: Self = Self::new(1, -1, 2);
    /// All arguments from the second on are keys.
    pub const FROM_SECOND: Self = Self::new(2, -1, 1);
    /// The second argument, after a subcommand, is the only key.
    pub const SECOND: Self = Self::new(2, 2, 1);

    const fn new(first: i32, last: i32, step: i32) -> Self {
        Self { first, last, step }
    }
}

/// What a command does to rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    None,
    /// Reads them.
    Read,
    /// May change them.
    Write,
}

/// Options that a command has not always had.
#[derive(Clone, Copy, Debug)]
pub struct LaterOptions {
    /// The cluster's version since which they may stand in a log.
    pub since: u32,
    /// Their names.
    pub names: &'static [&'static str],
    /// The first argument that may be one.
    pub from: usize,
}

pub(super) type Parse = for<'a> fn(Given<'a>) -> Result<Body<'a>, ErrorReply>;

/// What is known of a command by its name.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// In lower case; a subcommand's after its command's and a `|`.
    pub name: &'static str,
    /// How many arguments it takes, the name included; below 0, at least that many.
    pub arity: i32,
    /// Where its keys stand.
    pub keys: KeyRange,
    /// Its group.
    pub group: Group,
    /// What it does to rows.
    pub access: Access,
    /// Whether it takes the same time however much is stored.
    pub fast: bool,
    /// Whether it may make the store larger.
    pub grows: bool,
    /// Whether it can hurt everyone else.
    pub dangerous: bool,
    /// The cluster's version since which it may stand in a log.
    pub since: u32,
    /// Options that came later, and since when; none for most.
    pub later: Option<LaterOptions>,
    /// Its subcommands, none for most.
    pub subcommands: &'static [Spec],
    parse: Option<Parse>,
}

impl Spec {
    /// A command that does nothing to rows: the server's own.
    #[must_use]
    pub const fn new(name: &'static str, arity: i32, group: Group) -> Self {
        Self {
            name,
            arity,
            keys: KeyRange::NONE,
            group,
            access: Access::None,
            fast: false,
            grows: false,
            dangerous: false,
            since: 1,
            later: None,
            subcommands: &[],
            parse: None,
        }
    }

    /// The same, of constant time.
    #[must_use]
    pub const fn fast(self) -> Self {
        Self { fast: true, ..self }
    }

    /// The same, able to make the store larger.
    #[must_use]
    pub const fn grows(self) -> Self {
        Self { grows: true, ..self }
    }

    /// The same, able to hurt everyone else.
    #[must_use]
    pub const fn dangerous(self) -> Self {
        Self { dangerous: true, ..self }
    }

    /// The same, unknown to nodes of clusters before this version.
    #[must_use]
    pub const fn since(self, since: u32) -> Self {
        Self { since, ..self }
    }

    /// The same, some of whose options are unknown to nodes of clusters before this version.
    #[must_use]
    pub const fn later(self, since: u32, names: &'static [&'static str], from: usize) -> Self {
        Self { later: Some(LaterOptions { since, names, from }), ..self }
    }

    /// The cluster's version since which it may stand in a log with these arguments. An argument that only
    /// looks like a later option counts as one: what a node that does not know it would refuse in other
    /// words must not be in a log either.
    #[must_use]
    pub fn since_with(&self, argv: &Argv) -> u32 {
        let Some(later) = &self.later else { return self.since };
        let is_later =
            |arg: &[u8]| later.names.iter().any(|name| name.as_bytes().eq_ignore_ascii_case(arg));
        let has_later = argv.iter().skip(later.from).any(is_later);
        if has_later { self.since.max(later.since) } else { self.since }
    }

    /// The same, with its keys at these positions.
    #[must_use]
    pub const fn keys(self, keys: KeyRange) -> Self {
        Self { keys, ..self }
    }

    /// The same, with subcommands.
    #[must_use]
    pub const fn subcommands(self, subcommands: &'static [Self]) -> Self {
        Self { subcommands, ..self }
    }

    pub(super) const fn reads(self, parse: Parse) -> Self {
        Self { access: Access::Read, parse: Some(parse), ..self }
    }

    pub(super) const fn writes(self, parse: Parse) -> Self {
        Self { access: Access::Write, parse: Some(parse), ..self }
    }

    pub(super) fn parse<'a>(&'static self, argv: &'a Argv) -> Result<Body<'a>, ErrorReply> {
        match self.parse {
            Some(parse) => parse(Given { name: self.name, argv }),
            None => Err(unknown_command(argv)),
        }
    }

    /// Checks the number of arguments, and finds the subcommand where there are some.
    ///
    /// # Errors
    /// A wrong number of arguments, or an unknown subcommand.
    pub fn check(&'static self, argv: &Argv) -> Result<&'static Self, ErrorReply> {
        self.check_arity(argv)?;
        let Some(second) = argv.get(1).filter(|_| !self.subcommands.is_empty()) else {
            return Ok(self);
        };
        let found = self.subcommands.iter().find(|spec| {
            let (_, name) = spec.name.split_once('|').unwrap_or_default();
            name.as_bytes().eq_ignore_ascii_case(second)
        });
        let spec = found.ok_or_else(|| unknown_subcommand(self.name, second))?;
        spec.check_arity(argv)?;
        Ok(spec)
    }

    fn check_arity(&self, argv: &Argv) -> Result<(), ErrorReply> {
        let wanted = usize::try_from(self.arity.unsigned_abs()).unwrap_or(usize::MAX);
        let fits = if self.arity < 0 { argv.len() >= wanted } else { argv.len() == wanted };
        if fits { Ok(()) } else { Err(wrong_arity(self.name)) }
    }

    /// The positions of its keys among these arguments.
    pub fn key_positions(&self, argv: &Argv) -> impl Iterator<Item = usize> + use<> {
        let KeyRange { first, last, step } = self.keys;
        let position = |at: i32| {
            let back = usize::try_from(at.unsigned_abs()).unwrap_or(usize::MAX);
            if at < 0 {
                argv.len().saturating_sub(back)
            } else {
                back.min(argv.len().saturating_sub(1))
            }
        };
        let positions = (first > 0).then(|| position(first)..=position(last));
        let step = usize::try_from(step).unwrap_or(1).max(1);
        positions.into_iter().flat_map(move |positions| positions.step_by(step))
    }

    /// The flags that COMMAND INFO shows.
    pub fn flag_names(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.access == Access::Write, "write"),
            (self.access == Access::Read, "readonly"),
            (self.grows, "denyoom"),
            (self.fast, "fast"),
        ]
        .into_iter()
        .filter_map(|(is, name)| is.then_some(name))
    }

    /// The access categories that COMMAND INFO shows, without their `@`.
    pub fn category_names(&self) -> impl Iterator<Item = &'static str> {
        let keyspace = self.group == Group::Generic;
        [
            keyspace.then_some("keyspace"),
            (self.access == Access::Read).then_some("read"),
            (self.access == Access::Write).then_some("write"),
            self.group.category().filter(|_| !keyspace),
            Some(if self.fast { "fast" } else { "slow" }),
            self.dangerous.then_some("dangerous"),
        ]
        .into_iter()
        .flatten()
    }
}

/// The refusal of a name that nobody knows.
#[must_use]
pub fn unknown_command(argv: &Argv) -> ErrorReply {
    /// Redis shows this many bytes of the name, and of the arguments together.
    const SHOWN_BYTES_MAX: usize = 128;
    let mut shown = String::new();
    for arg in argv.iter().skip(1) {
        let Some(room) = SHOWN_BYTES_MAX.checked_sub(shown.len()).filter(|room| *room > 0) else {
            break;
        };
        shown.push_str(&format!("'{}' ", show(arg, room)));
    }
    let name = show(argv.name(), SHOWN_BYTES_MAX);
    ErrorReply::err(format!("unknown command '{name}', with args beginning with: {shown}"))
}

/// The refusal of a subcommand that nobody knows.
#[must_use]
pub fn unknown_subcommand(name: &str, subcommand: &[u8]) -> ErrorReply {
    let shown = show(subcommand, 128);
    ErrorReply::err(format!(
        "unknown subcommand '{shown}'. Try {} HELP.",
        name.to_ascii_uppercase()
    ))
}
