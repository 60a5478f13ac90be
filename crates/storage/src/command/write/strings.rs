//! How the arguments of writing string commands are read.

use super::super::args::{
    Given, Options, STRING_BYTES_MAX, TimeForm, choose, syntax_error, too_long, wrong_arity,
};
use super::super::body::Body;
use super::super::condition::{Comparison, Condition};
use super::super::read::strings::bit_offset;
use super::{BitJoin, GetExpiry, NewExpiry, Set, SetAnswer, Write};
use crate::ErrorReply;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

/// The options that say what becomes of an expiry: at most one kind of them may be given.
#[derive(Clone, Copy)]
enum ExpiryOption<'a> {
    Clear,
    Keep,
    At(TimeForm, &'a [u8]),
}

/// Takes an option about expiry in; `extra` is the one that only this command knows.
fn expiry_option<'a>(
    option: &[u8],
    options: &mut Options<'a>,
    extra: (&str, ExpiryOption<'a>),
    chosen: &mut Option<ExpiryOption<'a>>,
) -> Result<(), ErrorReply> {
    let new = if extra.0.as_bytes().eq_ignore_ascii_case(option) {
        extra.1
    } else {
        let form = choose(option, TimeForm::NAMES).ok_or_else(syntax_error)?;
        ExpiryOption::At(form, options.value()?)
    };
    // Redis lets an option be given twice, the last one counting, but not beside another.
    let agrees = match (*chosen, new) {
        (None, _)
        | (Some(ExpiryOption::Clear), ExpiryOption::Clear)
        | (Some(ExpiryOption::Keep), ExpiryOption::Keep) => true,
        (Some(ExpiryOption::At(old, _)), ExpiryOption::At(new, _)) => old == new,
        _ => false,
    };
    *chosen = Some(new);
    if agrees { Ok(()) } else { Err(syntax_error()) }
}

pub(in crate::command) fn set(given: Given<'_>) -> Parsed<'_> {
    let (mut present, mut condition, mut old, mut expiry) = (None, None, false, None);
    let mut options = given.options_from(3);
    while let Some(option) = options.next() {
        if let Some(comparison) = choose(option, Comparison::NAMES) {
            if condition.replace(Condition { comparison, with: options.value()? }).is_some() {
                return Err(syntax_error());
            }
            continue;
        }
        match choose(option, &[("NX", Some(false)), ("XX", Some(true)), ("GET", None)]) {
            Some(None) => old = true,
            Some(wanted) if present.is_none() || present == wanted => present = wanted,
            Some(_) => return Err(syntax_error()),
            None => {
                let keep = ("KEEPTTL", ExpiryOption::Keep);
                expiry_option(option, &mut options, keep, &mut expiry)?;
            }
        }
    }
    if present.is_some() && condition.is_some() {
        return Err(syntax_error());
    }
    let expiry = match expiry {
        None | Some(ExpiryOption::Clear) => NewExpiry::Clear,
        Some(ExpiryOption::Keep) => NewExpiry::Keep,
        Some(ExpiryOption::At(form, text)) => NewExpiry::At(form.positive(text, given.name)?),
    };
    let answer = if old { SetAnswer::Old } else { SetAnswer::Ok };
    set_to(Set { key: given.arg(1), value: given.arg(2), present, condition, expiry, answer })
}

fn set_to(set: Set<'_>) -> Parsed<'_> {
    if set.value.len() > STRING_BYTES_MAX {
        return Err(too_long());
    }
    Ok(Body::Write(Write::Set(set)))
}

pub(in crate::command) fn setnx(given: Given<'_>) -> Parsed<'_> {
    set_to(Set {
        key: given.arg(1),
        value: given.arg(2),
        present: Some(false),
        condition: None,
        expiry: NewExpiry::Clear,
        answer: SetAnswer::Number,
    })
}

fn set_until(given: Given<'_>, form: TimeForm) -> Parsed<'_> {
    set_to(Set {
        key: given.arg(1),
        value: given.arg(3),
        present: None,
        condition: None,
        expiry: NewExpiry::At(form.positive(given.arg(2), given.name)?),
        answer: SetAnswer::Ok,
    })
}

pub(in crate::command) fn setex(given: Given<'_>) -> Parsed<'_> {
    set_until(given, TimeForm::EX)
}

pub(in crate::command) fn psetex(given: Given<'_>) -> Parsed<'_> {
    set_until(given, TimeForm::PX)
}

pub(in crate::command) fn getset(given: Given<'_>) -> Parsed<'_> {
    set_to(Set {
        key: given.arg(1),
        value: given.arg(2),
        present: None,
        condition: None,
        expiry: NewExpiry::Clear,
        answer: SetAnswer::Old,
    })
}

pub(in crate::command) fn getdel(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::GetDelete(given.arg(1))))
}

pub(in crate::command) fn getex(given: Given<'_>) -> Parsed<'_> {
    let mut expiry = None;
    let mut options = given.options_from(2);
    while let Some(option) = options.next() {
        let persist = ("PERSIST", ExpiryOption::Clear);
        expiry_option(option, &mut options, persist, &mut expiry)?;
    }
    let expiry = match expiry {
        None | Some(ExpiryOption::Keep) => GetExpiry::Keep,
        Some(ExpiryOption::Clear) => GetExpiry::Clear,
        Some(ExpiryOption::At(form, text)) => GetExpiry::At(form, text),
    };
    Ok(Body::Write(Write::GetExpire { key: given.arg(1), expiry }))
}

fn set_many(given: Given<'_>, absent: bool) -> Parsed<'_> {
    let pairs = given.pairs_from(1)?;
    if pairs.iter().any(|(_, value)| value.len() > STRING_BYTES_MAX) {
        return Err(too_long());
    }
    Ok(Body::Write(Write::SetMany { pairs, absent }))
}

pub(in crate::command) fn mset(given: Given<'_>) -> Parsed<'_> {
    set_many(given, false)
}

pub(in crate::command) fn msetnx(given: Given<'_>) -> Parsed<'_> {
    set_many(given, true)
}

pub(in crate::command) fn append(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::Append { key: given.arg(1), value: given.arg(2) }))
}

pub(in crate::command) fn setrange(given: Given<'_>) -> Parsed<'_> {
    let offset = usize::try_from(given.integer(2)?);
    let offset = offset.map_err(|_| ErrorReply::err("offset is out of range"))?;
    Ok(Body::Write(Write::SetRange { key: given.arg(1), offset, value: given.arg(3) }))
}

fn increment(given: Given<'_>, by: i64) -> Parsed<'_> {
    Ok(Body::Write(Write::Increment { key: given.arg(1), by }))
}

pub(in crate::command) fn incr(given: Given<'_>) -> Parsed<'_> {
    increment(given, 1)
}

pub(in crate::command) fn decr(given: Given<'_>) -> Parsed<'_> {
    increment(given, -1)
}

pub(in crate::command) fn incrby(given: Given<'_>) -> Parsed<'_> {
    increment(given, given.integer(2)?)
}

pub(in crate::command) fn decrby(given: Given<'_>) -> Parsed<'_> {
    let by = given.integer(2)?.checked_neg();
    increment(given, by.ok_or_else(|| ErrorReply::err("decrement would overflow"))?)
}

pub(in crate::command) fn incrbyfloat(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::IncrementFloat { key: given.arg(1), by: given.arg(2) }))
}

pub(in crate::command) fn setbit(given: Given<'_>) -> Parsed<'_> {
    let offset = bit_offset(given.arg(2))?;
    let bit = match given.arg(3) {
        b"0" => false,
        b"1" => true,
        _ => return Err(ErrorReply::err("bit is not an integer or out of range")),
    };
    Ok(Body::Write(Write::SetBit { key: given.arg(1), offset, bit }))
}

pub(in crate::command) fn bitop(given: Given<'_>) -> Parsed<'_> {
    let names =
        [("AND", BitJoin::And), ("OR", BitJoin::Or), ("XOR", BitJoin::Xor), ("NOT", BitJoin::Not)];
    let how = choose(given.arg(1), &names).ok_or_else(syntax_error)?;
    if how == BitJoin::Not && given.argv.len() != 4 {
        return Err(ErrorReply::err("BITOP NOT must be called with a single source key."));
    }
    Ok(Body::Write(Write::BitJoin { how, to: given.arg(2), from: given.args_from(3, 1) }))
}

pub(in crate::command) fn delex(given: Given<'_>) -> Parsed<'_> {
    let key = given.arg(1);
    let condition = match given.argv.len() {
        2 => return Ok(Body::Write(Write::Delete(given.args_from(1, 1)))),
        4 => choose(given.arg(2), Comparison::NAMES),
        _ => return Err(wrong_arity(given.name)),
    };
    let condition = condition.map(|comparison| Condition { comparison, with: given.arg(3) });
    Ok(Body::Write(Write::DeleteIf { key, condition }))
}
