//! A check of one field before others are changed (`PLIMSOLL.HCHECKSET`), and how its arguments are read.
//! Each way to check that Pegasus has (`cas_check_type`) has its name here; `NE` is there beside them.
//!
//! | Pegasus | here |
//! |---|---|
//! | `CT_NO_CHECK` | `ANY` |
//! | `CT_VALUE_NOT_EXIST`, `…_OR_EMPTY`, `CT_VALUE_EXIST`, `CT_VALUE_NOT_EMPTY` | `NX`, `NXEMPTY`, `XX`, `NOTEMPTY` |
//! | `CT_VALUE_MATCH_ANYWHERE`, `…_PREFIX`, `…_POSTFIX` | `CONTAINS`, `PREFIX`, `SUFFIX` |
//! | `CT_VALUE_BYTES_…` | `BYTES<`, `BYTES<=`, `BYTES=` or `EQ`, `BYTES>=`, `BYTES>` |
//! | `CT_VALUE_INT_…` | `INT<`, `INT<=`, `INT=`, `INT>=`, `INT>` |

use std::cmp::Ordering;

use super::args::{Args, Given, Pairs, choose, not_integer, parse_integer, syntax_error};
use super::args::{show, wrong_arity};
use crate::ErrorReply;

/// What the checked field must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check<'a> {
    /// Anything.
    Any,
    /// Not there.
    Absent,
    /// Not there, or empty.
    AbsentOrEmpty,
    /// There.
    Present,
    /// There, and empty.
    Empty,
    /// There, and not empty.
    NotEmpty,
    /// Not there, or other bytes.
    Different(&'a [u8]),
    /// These bytes are somewhere in it.
    Contains(&'a [u8]),
    /// It begins so.
    Prefix(&'a [u8]),
    /// It ends so.
    Suffix(&'a [u8]),
    /// Its bytes compare so with these.
    Bytes(Compared, &'a [u8]),
    /// It is a whole number that compares so with this one.
    Integer(Compared, i64),
}

/// How a value must compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compared {
    /// Below.
    Less,
    /// Not above.
    LessOrEqual,
    /// The same.
    Equal,
    /// Not below.
    GreaterOrEqual,
    /// Above.
    Greater,
}

impl Compared {
    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Less => ordering.is_lt(),
            Self::LessOrEqual => ordering.is_le(),
            Self::Equal => ordering.is_eq(),
            Self::GreaterOrEqual => ordering.is_ge(),
            Self::Greater => ordering.is_gt(),
        }
    }
}

impl Check<'_> {
    /// Whether the field, which may not be there, is what it must be.
    ///
    /// # Errors
    /// Where it has to be a whole number and is none.
    pub fn holds(self, value: Option<&[u8]>) -> Result<bool, ErrorReply> {
        let is = |holds: fn(&[u8], &[u8]) -> bool, operand| {
            Ok(value.is_some_and(|value| holds(value, operand)))
        };
        match self {
            Self::Any => Ok(true),
            Self::Absent => Ok(value.is_none()),
            Self::AbsentOrEmpty => Ok(value.is_none_or(<[u8]>::is_empty)),
            Self::Present => Ok(value.is_some()),
            Self::Empty => Ok(value.is_some_and(<[u8]>::is_empty)),
            Self::NotEmpty => Ok(value.is_some_and(|value| !value.is_empty())),
            Self::Different(operand) => Ok(value != Some(operand)),
            Self::Contains(operand) => is(contains, operand),
            Self::Prefix(operand) => is(<[u8]>::starts_with, operand),
            Self::Suffix(operand) => is(<[u8]>::ends_with, operand),
            Self::Bytes(compared, operand) => {
                Ok(value.is_some_and(|value| compared.holds(value.cmp(operand))))
            }
            Self::Integer(compared, operand) => {
                let Some(value) = value else { return Ok(false) };
                let number = parse_integer(value);
                let number =
                    number.ok_or_else(|| ErrorReply::err("hash value is not an integer"))?;
                Ok(compared.holds(number.cmp(&operand)))
            }
        }
    }
}

/// Whether `part` is somewhere in `whole`. The search of text takes time by their lengths alone; what is no
/// text is searched with a character for each byte, which matches in the same places.
fn contains(whole: &[u8], part: &[u8]) -> bool {
    if let (Ok(whole), Ok(part)) = (std::str::from_utf8(whole), std::str::from_utf8(part)) {
        return whole.contains(part);
    }
    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect::<String>();
    whole.len() >= part.len() && text(whole).contains(&text(part))
}

/// What becomes of other fields where the check holds.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// They are set.
    Set(Pairs<'a>),
    /// They are deleted.
    Delete(Args<'a>),
}

/// A check of one field, and the change of others.
#[derive(Clone, Copy, Debug)]
pub struct CheckSet<'a> {
    /// The hash.
    pub key: &'a [u8],
    /// The field that is checked.
    pub field: &'a [u8],
    /// What it must be.
    pub check: Check<'a>,
    /// Shows what it was too.
    pub get: bool,
    /// What is done then.
    pub change: Change<'a>,
}

/// A name that takes what it is followed by.
#[derive(Clone, Copy)]
enum Named {
    Plain(Check<'static>),
    Different,
    Contains,
    Prefix,
    Suffix,
    Bytes(Compared),
    Integer(Compared),
}

const NAMES: &[(&str, Named)] = &[
    ("ANY", Named::Plain(Check::Any)),
    ("NX", Named::Plain(Check::Absent)),
    ("NXEMPTY", Named::Plain(Check::AbsentOrEmpty)),
    ("XX", Named::Plain(Check::Present)),
    ("EMPTY", Named::Plain(Check::Empty)),
    ("NOTEMPTY", Named::Plain(Check::NotEmpty)),
    ("EQ", Named::Bytes(Compared::Equal)),
    ("NE", Named::Different),
    ("CONTAINS", Named::Contains),
    ("PREFIX", Named::Prefix),
    ("SUFFIX", Named::Suffix),
    ("BYTES<", Named::Bytes(Compared::Less)),
    ("BYTES<=", Named::Bytes(Compared::LessOrEqual)),
    ("BYTES=", Named::Bytes(Compared::Equal)),
    ("BYTES>=", Named::Bytes(Compared::GreaterOrEqual)),
    ("BYTES>", Named::Bytes(Compared::Greater)),
    ("INT<", Named::Integer(Compared::Less)),
    ("INT<=", Named::Integer(Compared::LessOrEqual)),
    ("INT=", Named::Integer(Compared::Equal)),
    ("INT>=", Named::Integer(Compared::GreaterOrEqual)),
    ("INT>", Named::Integer(Compared::Greater)),
];

fn unknown(name: &[u8]) -> ErrorReply {
    ErrorReply::err(format!("unknown check '{}'", show(name, 128)))
}

impl<'a> CheckSet<'a> {
    /// Reads the arguments.
    pub(super) fn parse(given: Given<'a>) -> Result<Self, ErrorReply> {
        let name = given.arg(3);
        let named = choose(name, NAMES);
        let named = named.ok_or_else(|| unknown(name))?;
        let mut options = given.options_from(4);
        let check = match named {
            Named::Plain(check) => check,
            Named::Different => Check::Different(options.value()?),
            Named::Contains => Check::Contains(options.value()?),
            Named::Prefix => Check::Prefix(options.value()?),
            Named::Suffix => Check::Suffix(options.value()?),
            Named::Bytes(compared) => Check::Bytes(compared, options.value()?),
            Named::Integer(compared) => {
                let number = parse_integer(options.value()?).ok_or_else(not_integer)?;
                Check::Integer(compared, number)
            }
        };
        // Before the fields: after them it might be one.
        let mut verb = options.value()?;
        let get = verb.eq_ignore_ascii_case(b"GET");
        if get {
            verb = options.value()?;
        }
        let at = options.position();
        let is_set = choose(verb, &[("SET", true), ("DEL", false)]).ok_or_else(syntax_error)?;
        if at == given.argv.len() {
            return Err(wrong_arity(given.name));
        }
        let change = match is_set {
            true => Change::Set(given.pairs_from(at)?),
            false => Change::Delete(given.args_from(at, 1)),
        };
        let (key, field) = (given.arg(1), given.arg(2));
        Ok(Self { key, field, check, get, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_check_of_pegasus_holds_as_it_does_there() {
        use Compared::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual};
        // Of a field that is not there, is empty, is `5`, is `abc`.
        for (check, expected) in [
            (Check::Any, [true, true, true, true]),
            (Check::Absent, [true, false, false, false]),
            (Check::AbsentOrEmpty, [true, true, false, false]),
            (Check::Present, [false, true, true, true]),
            (Check::Empty, [false, true, false, false]),
            (Check::NotEmpty, [false, false, true, true]),
            (Check::Different(b"5"), [true, true, false, true]),
            (Check::Contains(b""), [false, true, true, true]),
            (Check::Contains(b"b"), [false, false, false, true]),
            (Check::Contains(b"b\xff"), [false, false, false, false]),
            (Check::Prefix(b"ab"), [false, false, false, true]),
            (Check::Suffix(b"bc"), [false, false, false, true]),
            (Check::Suffix(b"ab"), [false, false, false, false]),
            (Check::Bytes(Less, b"5"), [false, true, false, false]),
            (Check::Bytes(LessOrEqual, b"5"), [false, true, true, false]),
            (Check::Bytes(Equal, b"5"), [false, false, true, false]),
            (Check::Bytes(GreaterOrEqual, b"5"), [false, false, true, true]),
            (Check::Bytes(Greater, b"5"), [false, false, false, true]),
        ] {
            let values: [Option<&[u8]>; 4] = [None, Some(b""), Some(b"5"), Some(b"abc")];
            assert_eq!(values.map(|value| check.holds(value).unwrap()), expected, "{check:?}");
        }
        let is_in = |part| Check::Contains(part).holds(Some(b"\xc3\xa9\xff\x00z")).unwrap();
        let parts: [&[u8]; 5] = [b"\xa9\xff", b"\x00z", b"\xc3", b"\xff\x00z", b""];
        assert!(parts.into_iter().all(is_in) && !is_in(b"\xc3\xff"));
        for (compared, expected) in [
            (Less, [true, false, false]),
            (LessOrEqual, [true, true, false]),
            (Equal, [false, true, false]),
            (GreaterOrEqual, [false, true, true]),
            (Greater, [false, false, true]),
        ] {
            let check = Check::Integer(compared, 10);
            let values: [&[u8]; 3] = [b"-9", b"10", b"11"];
            let holds = values.map(|value| check.holds(Some(value)).unwrap());
            assert_eq!((holds, check.holds(None).unwrap()), (expected, false), "{compared:?}");
            assert!(check.holds(Some(b"")).is_err() && check.holds(Some(b"1x")).is_err());
        }
    }
}
