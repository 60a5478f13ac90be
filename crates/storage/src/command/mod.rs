//! What a command asks for: its name looked up, its arguments checked and read, with Redis' own
//! words where they are wrong. Pure: whether a key is there, and what is in it, is
//! [`crate::execute`]'s.
//!
//! - [`spec`]: what is known of a command by its name.
//! - [`table`]: the commands on rows.
//! - [`bitfield`]: integers among the bits of a string.
//! - [`args`]: numbers, options and times among the arguments.
//! - [`check_set`]: a check of one field before others are changed.
//! - [`condition`]: conditions on what a string is.
//! - [`range`]: ranges of a hash's fields.
//! - [`read`], [`write`]: the commands' meaning, and how arguments become it.

pub mod args;
pub mod bitfield;
mod body;
pub mod check_set;
pub mod condition;
pub mod range;
pub mod read;
pub mod spec;
pub mod table;
pub mod write;

pub use body::Body;
pub use read::Read;
pub use spec::{Group, Spec};
pub use write::Write;

use crate::{Argv, ErrorReply};

/// A command that can run.
#[derive(Clone, Debug)]
pub struct Command<'a> {
    spec: &'static Spec,
    argv: &'a Argv,
    /// What it asks for.
    pub body: Body<'a>,
}

impl<'a> Command<'a> {
    /// What is known of the command by its name.
    #[must_use]
    pub fn spec(&self) -> &'static Spec {
        self.spec
    }

    /// Whether it may change rows, and so has to go through the log.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.body, Body::Write(_))
    }

    /// The Redis keys among its arguments, in order; a key may come twice.
    pub fn keys(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let argv = self.argv;
        self.spec.key_positions(argv).filter_map(move |at| argv.get(at))
    }

    /// The cursor of a SCAN, which tells a coordinator where to send it.
    #[must_use]
    pub fn scan_cursor(&self) -> Option<u64> {
        match &self.body {
            Body::Read(Read::Scan(scan)) => Some(scan.cursor),
            _ => None,
        }
    }
}

/// The version of the cluster since which a command may stand in a log with these arguments; none where
/// this version does not know it.
#[must_use]
pub fn since(argv: &Argv) -> Option<u32> {
    table::find(argv.name()).map(|spec| spec.since_with(argv))
}

/// Whether a command may make the rows larger, as it was asked for: one that is known to be able to may be
/// one that deletes.
#[must_use]
pub fn grows(spec: &'static Spec, argv: &Argv) -> bool {
    let deletes = || {
        let parsed = spec.parse(argv);
        let Ok(Body::Write(Write::HashCheckSet(wanted))) = &parsed else { return false };
        matches!(wanted.change, check_set::Change::Delete(_))
    };
    spec.grows && !deletes()
}

/// Finds a command on rows by its name and checks the number of its arguments: what is refused
/// here is refused before a transaction takes it in.
///
/// # Errors
/// An unknown name or subcommand, or a wrong number of arguments.
pub fn lookup(argv: &Argv) -> Result<&'static Spec, ErrorReply> {
    let spec = table::find(argv.name()).ok_or_else(|| spec::unknown_command(argv))?;
    spec.check(argv)
}

/// Reads a command on rows.
///
/// # Errors
/// What Redis would answer to the same arguments, whatever the rows hold.
pub fn parse(argv: &Argv) -> Result<Command<'_>, ErrorReply> {
    let spec = lookup(argv)?;
    let body = spec.parse(argv)?;
    Ok(Command { spec, argv, body })
}

#[cfg(test)]
mod tests;
