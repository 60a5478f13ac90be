//! How the arguments of commands that change keys of any type are read.

use super::super::args::{
    ExpiryCondition, Given, TimeForm, not_integer, parse_integer, syntax_error,
};
use super::super::body::Body;
use super::Write;
use crate::ErrorReply;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

/// Databases that SELECT reaches, as many as Redis has where nothing else is set.
const DATABASES: i64 = 16;

pub(in crate::command) fn del(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::Delete(given.args_from(1, 1))))
}

fn expire_in(given: Given<'_>, form: TimeForm) -> Parsed<'_> {
    let mut condition = ExpiryCondition::default();
    for option in given.options_from(3) {
        if !condition.add(option) {
            let shown = String::from_utf8_lossy(option).replace(['\r', '\n'], " ");
            return Err(ErrorReply::err(format!("Unsupported option {shown}")));
        }
    }
    if condition.absent && (condition.present || condition.later || condition.earlier) {
        return Err(ErrorReply::err(
            "NX and XX, GT or LT options at the same time are not compatible",
        ));
    }
    if condition.later && condition.earlier {
        return Err(ErrorReply::err("GT and LT options at the same time are not compatible"));
    }
    let moment = form.moment(given.integer(2)?).ok_or_else(|| given.invalid_expiry())?;
    Ok(Body::Write(Write::Expire { key: given.arg(1), moment, condition }))
}

pub(in crate::command) fn expire(given: Given<'_>) -> Parsed<'_> {
    expire_in(given, TimeForm::EX)
}

pub(in crate::command) fn pexpire(given: Given<'_>) -> Parsed<'_> {
    expire_in(given, TimeForm::PX)
}

pub(in crate::command) fn expireat(given: Given<'_>) -> Parsed<'_> {
    expire_in(given, TimeForm::EXAT)
}

pub(in crate::command) fn pexpireat(given: Given<'_>) -> Parsed<'_> {
    expire_in(given, TimeForm::PXAT)
}

pub(in crate::command) fn persist(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::Persist(given.arg(1))))
}

fn renamed(given: Given<'_>, absent: bool) -> Parsed<'_> {
    Ok(Body::Write(Write::Rename { from: given.arg(1), to: given.arg(2), absent }))
}

pub(in crate::command) fn rename(given: Given<'_>) -> Parsed<'_> {
    renamed(given, false)
}

pub(in crate::command) fn renamenx(given: Given<'_>) -> Parsed<'_> {
    renamed(given, true)
}

pub(in crate::command) fn copy(given: Given<'_>) -> Parsed<'_> {
    let mut replace = false;
    let mut options = given.options_from(3);
    while let Some(option) = options.next() {
        if option.eq_ignore_ascii_case(b"REPLACE") {
            replace = true;
        } else if option.eq_ignore_ascii_case(b"DB") {
            let db = parse_integer(options.value()?).ok_or_else(not_integer)?;
            if !(0..DATABASES).contains(&db) {
                return Err(ErrorReply::err("DB index is out of range"));
            }
            return Err(ErrorReply::err(
                "COPY to another database is not supported: databases are tables, and no change of \
                 two of them is one; read the key and write it there",
            ));
        } else {
            return Err(syntax_error());
        }
    }
    let (from, to) = (given.arg(1), given.arg(2));
    if from == to {
        return Err(ErrorReply::err("source and destination objects are the same"));
    }
    Ok(Body::Write(Write::Copy { from, to, replace }))
}

pub(in crate::command) fn flush(given: Given<'_>) -> Parsed<'_> {
    let modes = [b"SYNC".as_slice(), b"ASYNC".as_slice()];
    match given.argv.len() {
        1 => Ok(Body::Write(Write::Flush)),
        2 if modes.iter().any(|mode| mode.eq_ignore_ascii_case(given.arg(1))) => {
            Ok(Body::Write(Write::Flush))
        }
        _ => Err(syntax_error()),
    }
}
