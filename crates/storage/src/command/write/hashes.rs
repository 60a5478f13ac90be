//! How the arguments of writing hash commands are read.

use super::super::args::Given;
use super::super::body::Body;
use super::super::check_set::CheckSet;
use super::super::range::FieldRange;
use super::Write;
use crate::ErrorReply;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

fn set(given: Given<'_>, ok: bool) -> Parsed<'_> {
    Ok(Body::Write(Write::HashSet { key: given.arg(1), pairs: given.pairs_from(2)?, ok }))
}

pub(in crate::command) fn hset(given: Given<'_>) -> Parsed<'_> {
    set(given, false)
}

pub(in crate::command) fn hmset(given: Given<'_>) -> Parsed<'_> {
    set(given, true)
}

pub(in crate::command) fn hsetnx(given: Given<'_>) -> Parsed<'_> {
    let (key, field, value) = (given.arg(1), given.arg(2), given.arg(3));
    Ok(Body::Write(Write::HashSetNew { key, field, value }))
}

pub(in crate::command) fn hdel(given: Given<'_>) -> Parsed<'_> {
    let fields = given.args_from(2, 1);
    Ok(Body::Write(Write::HashDelete { key: given.arg(1), fields, get: false }))
}

pub(in crate::command) fn hincrby(given: Given<'_>) -> Parsed<'_> {
    let (key, field, by) = (given.arg(1), given.arg(2), given.integer(3)?);
    Ok(Body::Write(Write::HashIncrement { key, field, by }))
}

pub(in crate::command) fn hincrbyfloat(given: Given<'_>) -> Parsed<'_> {
    let (key, field, by) = (given.arg(1), given.arg(2), given.arg(3));
    Ok(Body::Write(Write::HashIncrementFloat { key, field, by }))
}

pub(in crate::command) fn hremrange(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::HashDeleteRange { key: given.arg(1), range: FieldRange::parse(given)? }))
}

pub(in crate::command) fn hcheckset(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Write(Write::HashCheckSet(CheckSet::parse(given)?)))
}
