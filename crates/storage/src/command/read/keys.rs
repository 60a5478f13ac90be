//! How the arguments of commands that read keys of any type are read.

use super::super::args::{Given, TimeForm, not_integer, parse_integer, syntax_error};
use super::super::body::Body;
use super::{ObjectQuestion, Read, hashes};
use crate::ErrorReply;

type Parsed<'a> = Result<Body<'a>, ErrorReply>;

pub(in crate::command) fn exists(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Exists(given.args_from(1, 1))))
}

pub(in crate::command) fn kind(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Kind(given.arg(1))))
}

fn expiry(given: Given<'_>, form: TimeForm) -> Parsed<'_> {
    Ok(Body::Read(Read::Expiry { key: given.arg(1), form }))
}

pub(in crate::command) fn ttl(given: Given<'_>) -> Parsed<'_> {
    expiry(given, TimeForm::EX)
}

pub(in crate::command) fn pttl(given: Given<'_>) -> Parsed<'_> {
    expiry(given, TimeForm::PX)
}

pub(in crate::command) fn expiretime(given: Given<'_>) -> Parsed<'_> {
    expiry(given, TimeForm::EXAT)
}

pub(in crate::command) fn pexpiretime(given: Given<'_>) -> Parsed<'_> {
    expiry(given, TimeForm::PXAT)
}

pub(in crate::command) fn scan(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Scan(hashes::scan(given, 1, true)?)))
}

pub(in crate::command) fn keys(given: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Keys(given.arg(1))))
}

pub(in crate::command) fn randomkey(_: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::RandomKey))
}

pub(in crate::command) fn dbsize(_: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::Size))
}

fn object(given: Given<'_>, question: ObjectQuestion) -> Parsed<'_> {
    Ok(Body::Read(Read::Object { key: given.arg(2), question }))
}

pub(in crate::command) fn object_encoding(given: Given<'_>) -> Parsed<'_> {
    object(given, ObjectQuestion::Encoding)
}

pub(in crate::command) fn object_refcount(given: Given<'_>) -> Parsed<'_> {
    object(given, ObjectQuestion::References)
}

pub(in crate::command) fn object_idletime(given: Given<'_>) -> Parsed<'_> {
    object(given, ObjectQuestion::IdleTime)
}

pub(in crate::command) fn object_freq(given: Given<'_>) -> Parsed<'_> {
    object(given, ObjectQuestion::Frequency)
}

pub(in crate::command) fn object_help(_: Given<'_>) -> Parsed<'_> {
    Ok(Body::Read(Read::ObjectHelp))
}

/// SAMPLES is checked and has no effect: what is stored is counted, not sampled.
pub(in crate::command) fn memory_usage(given: Given<'_>) -> Parsed<'_> {
    let mut options = given.options_from(3);
    while let Some(option) = options.next() {
        if !option.eq_ignore_ascii_case(b"SAMPLES") {
            return Err(syntax_error());
        }
        let samples = parse_integer(options.value()?).ok_or_else(not_integer)?;
        if samples < 0 {
            return Err(syntax_error());
        }
    }
    Ok(Body::Read(Read::MemoryUsage(given.arg(2))))
}
