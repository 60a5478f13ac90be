//! How the arguments of reading hash commands are read.

use super::super::args::{
    Args, Given, Options, TimeForm, choose, not_integer, parse_cursor, parse_integer, syntax_error,
};
use super::super::body::Body;
use super::super::range::RangePage;
use super::{OneField, Parts, Read, Scan, Split};
use crate::ErrorReply;

/// The most fields drawn with repeats at once: the answer is built in memory.
const DRAWS_MAX: i64 = 1 << 20;
/// What SCAN and HSCAN look at where nothing else is asked for.
const SCAN_COUNT_DEFAULT: usize = 10;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

fn one_field(given: Given<'_>) -> OneField<'_> {
    OneField { key: given.arg(1), field: given.arg(2) }
}

pub(in crate::command) fn hget(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::HashGet(one_field(given))))
}

pub(in crate::command) fn hmget(given: Given<'_>) -> Parsed<'_> {
    let fields = given.args_from(2, 1);
    Ok(Body::Read(Read::HashGetMany { key: given.arg(1), fields }))
}

fn all(given: Given<'_>, parts: Parts) -> Parsed<'_> {
    Ok(Body::Read(Read::HashAll { key: given.arg(1), parts }))
}

pub(in crate::command) fn hgetall(given: Given<'_>) -> Parsed<'_> {
    all(given, Parts::Pairs)
}

pub(in crate::command) fn hkeys(given: Given<'_>) -> Parsed<'_> {
    all(given, Parts::Fields)
}

pub(in crate::command) fn hvals(given: Given<'_>) -> Parsed<'_> {
    all(given, Parts::Values)
}

pub(in crate::command) fn hlen(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::HashLength(given.arg(1))))
}

pub(in crate::command) fn hexists(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::HashExists(one_field(given))))
}

pub(in crate::command) fn hstrlen(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::HashValueLength(one_field(given))))
}

pub(in crate::command) fn hscan(given: Given<'_>) -> Parsed<'_> {
    let scan = scan(given, 2, false)?;
    Ok(Body::Read(Read::HashScan { key: given.arg(1), scan }))
}

/// The cursor at a position and the options after it.
pub(super) fn scan<'a>(given: Given<'a>, at: usize, typed: bool) -> Result<Scan<'a>, ErrorReply> {
    let cursor = parse_cursor(given.arg(at))?;
    let mut scan =
        Scan { cursor, pattern: None, count: SCAN_COUNT_DEFAULT, kind: None, split: None };
    let mut options = given.options_from(at + 1);
    while let Some(option) = options.next() {
        match choose(option, &[("COUNT", 0), ("MATCH", 1), ("TYPE", 2), ("SPLIT", 3)]) {
            Some(0) => {
                let count = parse_integer(options.value()?).ok_or_else(not_integer)?;
                scan.count = usize::try_from(count).map_err(|_| syntax_error())?;
                if scan.count == 0 {
                    return Err(syntax_error());
                }
            }
            Some(1) => scan.pattern = Some(options.value()?),
            Some(2) if typed => scan.kind = Some(options.value()?),
            Some(3) if typed => scan.split = Some(split(&mut options)?),
            _ => return Err(syntax_error()),
        }
    }
    Ok(scan)
}

/// Which part, from 0, and of how many.
fn split(options: &mut Options<'_>) -> Result<Split, ErrorReply> {
    let mut number = || parse_integer(options.value()?).ok_or_else(not_integer);
    let (at, count) = (number()?, number()?);
    let is_part = count <= Split::COUNT_MAX.cast_signed() && (0..count).contains(&at);
    if !is_part {
        return Err(ErrorReply::err("value is out of range"));
    }
    Ok(Split { at: at.cast_unsigned(), count: count.cast_unsigned() })
}

pub(in crate::command) fn hrandfield(given: Given<'_>) -> Parsed<'_> {
    let key = given.arg(1);
    if given.argv.len() == 2 {
        return Ok(Body::Read(Read::HashRandom { key, count: None, values: false }));
    }
    let count = given.integer(2)?;
    let values = match given.argv.len() {
        3 => false,
        4 if given.arg(3).eq_ignore_ascii_case(b"WITHVALUES") => true,
        _ => return Err(syntax_error()),
    };
    if count < -DRAWS_MAX {
        return Err(ErrorReply::err("value is out of range"));
    }
    Ok(Body::Read(Read::HashRandom { key, count: Some(count), values }))
}

fn field_expiry(given: Given<'_>, form: TimeForm) -> Parsed<'_> {
    let fields = counted_fields(given, 2, "Number of fields must be a positive integer")?;
    Ok(Body::Read(Read::FieldExpiry { key: given.arg(1), form, fields }))
}

pub(in crate::command) fn httl(given: Given<'_>) -> Parsed<'_> {
    field_expiry(given, TimeForm::EX)
}

pub(in crate::command) fn hpttl(given: Given<'_>) -> Parsed<'_> {
    field_expiry(given, TimeForm::PX)
}

pub(in crate::command) fn hexpiretime(given: Given<'_>) -> Parsed<'_> {
    field_expiry(given, TimeForm::EXAT)
}

pub(in crate::command) fn hpexpiretime(given: Given<'_>) -> Parsed<'_> {
    field_expiry(given, TimeForm::PXAT)
}

/// `FIELDS n field…` from a position to the end; `bad_count` is said of an n that is none.
pub(in crate::command) fn counted_fields<'a>(
    given: Given<'a>,
    at: usize,
    bad_count: &'static str,
) -> Result<Args<'a>, ErrorReply> {
    if !given.arg(at).eq_ignore_ascii_case(b"FIELDS") {
        return Err(ErrorReply::err(
            "Mandatory argument FIELDS is missing or not at the right position",
        ));
    }
    let count = parse_integer(given.arg(at + 1)).and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|count| *count > 0).ok_or_else(|| ErrorReply::err(bad_count))?;
    if given.argv.len().checked_sub(at + 2) != Some(count) {
        return Err(ErrorReply::err(
            "The `numfields` parameter must match the number of arguments",
        ));
    }
    Ok(given.args_from(at + 2, 1))
}

pub(in crate::command) fn hrange(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::HashRange(RangePage::parse(given)?)))
}
