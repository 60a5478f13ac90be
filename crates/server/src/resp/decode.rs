//! Requests out of bytes: arrays of bulk strings, and inline commands by [`super::inline`].
//!
//! The decoder is incremental: it remembers where it stood in an incomplete command, so that a
//! large value which comes in many reads is gone through once. Whole commands leave the buffer
//! together as one frozen piece that all of them share, without a copy.
//!
//! A command that is too large is passed over as it comes and never kept: an empty one stands in
//! its place, and [`Decoder::refusal`] says why.
//!
//! It does not look at what a command says.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::BytesMut;
use plimsoll_storage::{Argv, ErrorReply};
use smallvec::SmallVec;

use super::inline;
use super::limits::{LINE_BYTES_MAX, Limits, ProtocolError};

/// The most bytes of input that one call of [`Decoder::decode`] turns into commands before it
/// returns; a single longer command is still taken whole.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// The longest argument that is passed over, bytes: Redis' own limit. What announces more is taken
/// for no request at all.
const PASSED_OVER_BYTES_MAX: usize = 512 * 1024 * 1024;

type Args = SmallVec<[Range<u32>; 6]>;

enum Complete {
    /// Arguments as positions in the buffer.
    Ranges(Args),
    /// An inline command has its own bytes, because unquoting changes them.
    Inline(Argv),
}

/// What follows in the input.
#[derive(Clone, Copy)]
enum Expect {
    Command,
    /// A length header, with this many arguments still to come.
    Header(usize),
    /// An argument of this many bytes, and how many come after it.
    Bulk(usize, usize),
    /// So many bytes of an argument that is passed over, and how many arguments come after it.
    Skipped(usize, usize),
}

/// Takes commands out of a buffer. One for each connection.
pub struct Decoder {
    expect: Expect,
    /// How far the input has been read, from its start.
    at: usize,
    /// How far beyond `at` no end of line stands.
    scanned: usize,
    /// The arguments of the incomplete command, and their bytes together.
    args: Args,
    args_bytes: usize,
    complete: Vec<Complete>,
    /// Why the incomplete command is passed over, where it is.
    refused: Option<ErrorReply>,
    /// Why those were that an empty command stands for, the first first.
    refusals: VecDeque<ErrorReply>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self {
            expect: Expect::Command,
            at: 0,
            scanned: 0,
            args: Args::new(),
            args_bytes: 0,
            complete: Vec::new(),
            refused: None,
            refusals: VecDeque::new(),
        }
    }
}

impl Decoder {
    /// Moves up to `commands_max` whole commands (and about [`BATCH_BYTES_MAX`] bytes) from
    /// `input` to `commands`; an incomplete one stays in `input`, which must only be appended
    /// to between calls. Nothing was moved where `input` needs more bytes first.
    ///
    /// # Errors
    /// Where the input is no request. The commands before it were moved and are to be answered
    /// first; then the connection is to be closed.
    pub fn decode(
        &mut self,
        input: &mut BytesMut,
        limits: &Limits,
        commands_max: usize,
        commands: &mut Vec<Argv>,
    ) -> Result<(), ProtocolError> {
        // Where the last whole command ends: what stands before it leaves the buffer.
        let mut end = 0;
        let mut outcome = Ok(());
        while self.complete.len() < commands_max && end < BATCH_BYTES_MAX {
            match self.step(input, limits) {
                Ok(true) if matches!(self.expect, Expect::Command) => end = self.at,
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        if self.refused.is_some() {
            // Nothing of it is kept, however far it has come.
            end = self.at;
        }
        if end > 0 {
            let buffer = input.split_to(end).freeze();
            commands.extend(self.complete.drain(..).map(|complete| match complete {
                Complete::Ranges(args) => Argv::new(buffer.clone(), args),
                Complete::Inline(argv) => argv,
            }));
            self.at -= end;
            let moved = position(end);
            for arg in &mut self.args {
                *arg = arg.start - moved..arg.end - moved;
            }
        }
        outcome
    }

    /// Why a command was refused, an empty one standing in its place: of each of them once, in their
    /// order.
    pub fn refusal(&mut self) -> Option<ErrorReply> {
        self.refusals.pop_front()
    }

    /// Has the rest of the incomplete command passed over, and what has come of it dropped by the
    /// next [`Self::decode`]. False where there is none that has an end.
    pub fn refuse(&mut self, why: ErrorReply) -> bool {
        match self.expect {
            Expect::Command => return false,
            Expect::Header(_) | Expect::Skipped(..) => {}
            Expect::Bulk(len, left) => self.expect = Expect::Skipped(len + 2, left),
        }
        self.pass_over(why);
        true
    }

    /// Whether the incomplete command is passed over.
    #[must_use]
    pub fn is_passing_over(&self) -> bool {
        self.refused.is_some()
    }

    fn pass_over(&mut self, why: ErrorReply) {
        self.args.clear();
        self.args_bytes = 0;
        self.refused.get_or_insert(why);
    }

    /// How many bytes the incomplete command is known to lack; 0 where that is not known.
    #[must_use]
    pub fn missing(&self, input: &BytesMut) -> usize {
        match self.expect {
            Expect::Bulk(len, _) => (self.at + len + 2).saturating_sub(input.len()),
            _ => 0,
        }
    }

    /// Reads one header, argument or inline command. False where the input ends before it does.
    fn step(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        match self.expect {
            Expect::Command => match input.get(self.at) {
                None => Ok(false),
                Some(b'*') => self.multibulk_header(input, limits),
                Some(_) => self.inline(input),
            },
            Expect::Header(left) => self.bulk_header(input, limits, left),
            Expect::Bulk(len, left) => Ok(self.bulk(input, len, left)),
            Expect::Skipped(len, left) => Ok(self.skip(input, len, left)),
        }
    }

    fn multibulk_header(&mut self, input: &[u8], limits: &Limits) -> Result<bool, ProtocolError> {
        let Some(line) = self.header(input, ProtocolError::MultibulkHeader)? else {
            return Ok(false);
        };
        let count = decimal(&input[line]).ok_or(ProtocolError::MultibulkLength)?;
        // A count of 0 or less is a command without a name: passed over, as Redis does.
        if let Ok(count @ 1..) = usize::try_from(count) {
            if count > limits.args_max {
                return Err(if limits.unauthenticated && count <= Limits::FULL.args_max {
                    ProtocolError::UnauthenticatedMultibulkLength
                } else {
                    ProtocolError::MultibulkLength
                });
            }
            self.expect = Expect::Header(count);
        }
        Ok(true)
    }

    fn bulk_header(
        &mut self,
        input: &[u8],
        limits: &Limits,
        left: usize,
    ) -> Result<bool, ProtocolError> {
        match input.get(self.at) {
            None => return Ok(false),
            Some(b'$') => {}
            // Redis waits for the whole line before it says so; the words are the same.
            Some(&byte) => return Err(ProtocolError::ExpectedBulk(byte)),
        }
        let Some(line) = self.header(input, ProtocolError::BulkHeader)? else {
            return Ok(false);
        };
        let len = decimal(&input[line])
            .and_then(|len| usize::try_from(len).ok())
            .ok_or(ProtocolError::BulkLength)?;
        if len > PASSED_OVER_BYTES_MAX {
            return Err(ProtocolError::BulkLength);
        }
        if limits.unauthenticated && len > limits.bulk_bytes_max {
            return Err(ProtocolError::UnauthenticatedBulkLength);
        }
        self.args_bytes = self.args_bytes.saturating_add(len);
        let (bulk_bytes_max, command_bytes_max) = (limits.bulk_bytes_max, limits.command_bytes_max);
        if limits.unauthenticated && self.args_bytes > command_bytes_max {
            return Err(ProtocolError::CommandLength(command_bytes_max));
        }
        if len > bulk_bytes_max {
            let why = format!("an argument exceeds the limit of {bulk_bytes_max} bytes");
            self.pass_over(ErrorReply::err(why));
        } else if self.args_bytes > command_bytes_max {
            let why = format!("a command exceeds the limit of {command_bytes_max} bytes");
            self.pass_over(ErrorReply::err(why));
        }
        self.expect = match self.refused {
            None => Expect::Bulk(len, left - 1),
            Some(_) => Expect::Skipped(len + 2, left - 1),
        };
        Ok(true)
    }

    fn bulk(&mut self, input: &[u8], len: usize, left: usize) -> bool {
        // The two bytes after an argument are passed over unread, as Redis does.
        if input.len() < self.at + len + 2 {
            return false;
        }
        self.args.push(position(self.at)..position(self.at + len));
        self.at += len + 2;
        self.expect = if left == 0 {
            self.complete.push(Complete::Ranges(std::mem::take(&mut self.args)));
            self.args_bytes = 0;
            Expect::Command
        } else {
            Expect::Header(left)
        };
        true
    }

    /// Passes over what has come of an argument; true at its end.
    fn skip(&mut self, input: &[u8], len: usize, left: usize) -> bool {
        let come = len.min(input.len() - self.at);
        self.at += come;
        if come < len {
            self.expect = Expect::Skipped(len - come, left);
            return false;
        }
        self.expect = if left == 0 {
            self.complete.push(Complete::Inline(Argv::default()));
            self.refusals.extend(self.refused.take());
            Expect::Command
        } else {
            Expect::Header(left)
        };
        true
    }

    fn inline(&mut self, input: &[u8]) -> Result<bool, ProtocolError> {
        let Some(len) = self.line(input, b'\n', ProtocolError::InlineLength)? else {
            return Ok(false);
        };
        let line = &input[self.at..self.at + len];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let args = inline::split(line).ok_or(ProtocolError::UnbalancedQuotes)?;
        self.at += len + 1;
        if !args.is_empty() {
            self.complete.push(Complete::Inline(Argv::of(&args)));
        }
        Ok(true)
    }

    /// The text of a header between its first byte and its end, and moves behind it.
    fn header(
        &mut self,
        input: &[u8],
        endless: ProtocolError,
    ) -> Result<Option<Range<usize>>, ProtocolError> {
        let Some(len) = self.line(input, b'\r', endless)? else { return Ok(None) };
        if input.len() < self.at + len + 2 {
            return Ok(None);
        }
        let text = self.at + 1..self.at + len;
        self.at += len + 2;
        Ok(Some(text))
    }

    /// How far behind `at` the end of the line stands, if it has come.
    fn line(
        &mut self,
        input: &[u8],
        end: u8,
        endless: ProtocolError,
    ) -> Result<Option<usize>, ProtocolError> {
        let rest = &input[self.at..];
        let found = rest[self.scanned..].iter().position(|&byte| byte == end);
        match found {
            Some(more) => {
                let len = self.scanned + more;
                self.scanned = 0;
                Ok(Some(len))
            }
            None if rest.len() > LINE_BYTES_MAX => Err(endless),
            None => {
                self.scanned = rest.len();
                Ok(None)
            }
        }
    }
}

/// A position in the buffer. The limits keep it far below 4 GiB.
fn position(at: usize) -> u32 {
    u32::try_from(at).expect("a batch and a command are bounded")
}

/// Redis' strict decimal: an optional minus, no plus, no leading zeros, no spaces.
fn decimal(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    if digits.first() == Some(&b'0') {
        return (digits.len() == 1 && !negative).then_some(0);
    }
    if digits.is_empty() {
        return None;
    }
    let mut value = 0_i64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(i64::from(digit - b'0'))?;
    }
    Some(if negative { -value } else { value })
}
