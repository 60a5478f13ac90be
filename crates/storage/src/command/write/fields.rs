//! How the arguments of commands on the expiry of fields are read.

use super::super::args::wrong_arity;
use super::super::args::{
    Args, ExpiryCondition, Given, Moment, Options, Pairs, TimeForm, choose, not_integer,
    parse_integer,
};
use super::super::body::Body;
use super::super::read::hashes::counted_fields;
use super::{NewExpiry, Write};
use crate::ErrorReply;

/// The latest expiry of a field, ms since 1970: what Redis can keep.
pub const FIELD_EXPIRY_MS_MAX: u64 = (1 << 46) - 2;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

fn expire(given: Given<'_>, form: TimeForm) -> Parsed<'_> {
    let moment = field_moment(form, given.arg(2), given.name)?;
    let mut condition = ExpiryCondition::default();
    let at = if condition.add(given.arg(3)) { 4 } else { 3 };
    let fields = counted_fields(given, at, "Parameter `numFields` should be greater than 0")?;
    Ok(Body::Write(Write::FieldExpire { key: given.arg(1), moment, condition, fields }))
}

/// A time of a field: from 0, and not later than a field's expiry can be.
fn field_moment(form: TimeForm, text: &[u8], name: &str) -> Result<Moment, ErrorReply> {
    let number = parse_integer(text).ok_or_else(not_integer)?;
    if number < 0 {
        return Err(ErrorReply::err("invalid expire time, must be >= 0"));
    }
    let moment = form.moment(number);
    let in_range = |moment: &Moment| moment.resolve(0) <= FIELD_EXPIRY_MS_MAX;
    moment.filter(in_range).ok_or_else(|| super::super::args::invalid_expiry(name))
}

pub(in crate::command) fn hexpire(given: Given<'_>) -> Parsed<'_> {
    expire(given, TimeForm::EX)
}

pub(in crate::command) fn hpexpire(given: Given<'_>) -> Parsed<'_> {
    expire(given, TimeForm::PX)
}

pub(in crate::command) fn hexpireat(given: Given<'_>) -> Parsed<'_> {
    expire(given, TimeForm::EXAT)
}

pub(in crate::command) fn hpexpireat(given: Given<'_>) -> Parsed<'_> {
    expire(given, TimeForm::PXAT)
}

const POSITIVE_COUNT: &str = "Number of fields must be a positive integer";

pub(in crate::command) fn hpersist(given: Given<'_>) -> Parsed<'_> {
    let fields = counted_fields(given, 2, POSITIVE_COUNT)?;
    Ok(Body::Write(Write::FieldPersist { key: given.arg(1), fields }))
}

pub(in crate::command) fn hgetdel(given: Given<'_>) -> Parsed<'_> {
    let fields = counted_fields(given, 2, POSITIVE_COUNT)?;
    Ok(Body::Write(Write::HashDelete { key: given.arg(1), fields, get: true }))
}

pub(in crate::command) fn hgetex(given: Given<'_>) -> Parsed<'_> {
    let mut expiry = None;
    let mut options = given.options_from(2);
    let fields = loop {
        let option = options.next().ok_or_else(|| wrong_arity(given.name))?;
        if option.eq_ignore_ascii_case(b"FIELDS") {
            break fields_at(given, options.position())?;
        }
        let persist = ("PERSIST", NewExpiry::Clear);
        expiry_option(given, option, &mut options, persist, &mut expiry)?;
    };
    let expiry = expiry.unwrap_or(NewExpiry::Keep);
    Ok(Body::Write(Write::FieldGetExpire { key: given.arg(1), expiry, fields }))
}

pub(in crate::command) fn hsetex(given: Given<'_>) -> Parsed<'_> {
    let (mut expiry, mut present) = (None, None);
    let mut options = given.options_from(2);
    let pairs = loop {
        let option = options.next().ok_or_else(|| wrong_arity(given.name))?;
        if option.eq_ignore_ascii_case(b"FIELDS") {
            break pairs_at(given, options.position())?;
        }
        if let Some(wanted) = choose(option, &[("FXX", true), ("FNX", false)]) {
            if present.replace(wanted).is_some() {
                return Err(ErrorReply::err("Only one of FXX or FNX arguments can be specified"));
            }
            continue;
        }
        let keep = ("KEEPTTL", NewExpiry::Keep);
        expiry_option(given, option, &mut options, keep, &mut expiry)?;
    };
    let expiry = expiry.unwrap_or(NewExpiry::Clear);
    Ok(Body::Write(Write::FieldSetExpire { key: given.arg(1), present, expiry, pairs }))
}

/// Takes an option about expiry in; `extra` is the one that only this command knows.
fn expiry_option(
    given: Given<'_>,
    option: &[u8],
    options: &mut Options<'_>,
    extra: (&str, NewExpiry),
    chosen: &mut Option<NewExpiry>,
) -> Result<(), ErrorReply> {
    let new = if extra.0.as_bytes().eq_ignore_ascii_case(option) {
        extra.1
    } else if let Some(form) = choose(option, TimeForm::NAMES) {
        let text = options.next().ok_or_else(|| ErrorReply::err("missing expire time"))?;
        NewExpiry::At(field_moment(form, text, given.name)?)
    } else {
        let shown = String::from_utf8_lossy(option).replace(['\r', '\n'], " ");
        return Err(ErrorReply::err(format!("unknown argument: {shown}")));
    };
    if chosen.replace(new).is_some() {
        return Err(ErrorReply::err(format!(
            "Only one of EX, PX, EXAT, PXAT or {} arguments can be specified",
            extra.0
        )));
    }
    Ok(())
}

/// The number of fields at a position.
fn field_count(given: Given<'_>, at: usize) -> Result<usize, ErrorReply> {
    if at >= given.argv.len() {
        return Err(wrong_arity(given.name));
    }
    let count = parse_integer(given.arg(at)).and_then(|count| usize::try_from(count).ok());
    count.filter(|count| *count > 0).ok_or_else(|| ErrorReply::err("invalid number of fields"))
}

/// `n field…` from a position to the end.
fn fields_at(given: Given<'_>, at: usize) -> Result<Args<'_>, ErrorReply> {
    if field_count(given, at)? != given.argv.len() - at - 1 {
        return Err(wrong_arity(given.name));
    }
    Ok(given.args_from(at + 1, 1))
}

/// `n field value…` from a position to the end.
fn pairs_at(given: Given<'_>, at: usize) -> Result<Pairs<'_>, ErrorReply> {
    if field_count(given, at)?.checked_mul(2) != Some(given.argv.len() - at - 1) {
        return Err(wrong_arity(given.name));
    }
    given.pairs_from(at + 1)
}
