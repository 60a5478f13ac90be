//! What commands do to rows. Deterministic: the same rows, command and context give the same
//! rows and answer on every replica; the only clock is the context's. What a command's
//! arguments mean is [`crate::command`]'s.
//!
//! A key or field that has expired is absent, also while its rows are still stored; [`sweep`]
//! and the next write to it take them away. A command that is refused has changed nothing else.

mod answer;
mod bitfield;
mod bits;
mod check_set;
mod context;
mod copy;
mod cursors;
mod document;
mod documents;
mod fields;
mod float;
mod glob;
mod hash_edit;
mod hashes;
pub(crate) mod keys;
mod lcs;
mod random;
mod range;
mod scan;
mod store;
mod strings;
mod sweep;

pub use context::{ReadContext, Seed, WriteContext};
pub use copy::{copy_hash, is_there, large_hash};
pub use cursors::{CURSORS_MAX, ScanCursors};
pub use document::write_document;
pub use documents::{
    Document, DocumentRow, DocumentsCursor, VisitDocument, document, document_count, documents,
    documents_of,
};
pub use glob::Glob;
pub use store::{NEVER_THERE, is_unchanged, last_change};
pub use sweep::{due_since, sweep};

use crate::Reply;
use crate::command::{Body, Command, Read, Write};
use crate::rows::{RowsRead, RowsWrite, StoreError};
use answer::{Answer, into_reply};
use store::Edit;

/// Runs a command that changes nothing.
///
/// # Errors
/// Where the store fails; a refusal is a reply, also one of what it would hold.
///
/// # Panics
/// Where the command is one that writes.
pub fn read<R: RowsRead + ?Sized>(
    command: &Command<'_>,
    rows: &R,
    context: &ReadContext<'_>,
) -> Result<Reply, StoreError> {
    match &command.body {
        Body::Read(read) => match into_reply(run_read(read, rows, context)) {
            Err(StoreError::Refused(refusal)) => Ok(Reply::Error(refusal)),
            answered => answered,
        },
        Body::Write(_) => panic!("`{}` writes", command.spec().name),
    }
}

/// Runs a command, which may be one that changes nothing.
///
/// # Errors
/// Where the store fails or the command takes more than it may: the rows are then half changed and
/// must not be kept. Another refusal is a reply.
pub fn write<W: RowsWrite + ?Sized>(
    command: &Command<'_>,
    rows: &mut W,
    context: &mut WriteContext,
) -> Result<Reply, StoreError> {
    match &command.body {
        Body::Read(read) => {
            let seed = Seed::Given(random::next(&mut context.seed));
            let (now_ms, keys) = (context.now_ms, context.keys);
            let context = ReadContext { now_ms, seed, keys, cursors: None };
            into_reply(run_read(read, rows, &context))
        }
        Body::Write(write) => into_reply(run_write(write, &mut Edit::new(rows, context))),
    }
}

fn run_read<R: RowsRead + ?Sized>(read: &Read<'_>, rows: &R, context: &ReadContext<'_>) -> Answer {
    let now_ms = context.now_ms;
    match *read {
        Read::Get(key) => strings::get(rows, key, now_ms),
        Read::GetMany(keys) => strings::get_many(rows, keys, now_ms),
        Read::Length(key) => strings::length(rows, key, now_ms),
        Read::Digest(key) => strings::digest(rows, key, now_ms),
        Read::GetRange(range) => strings::get_range(rows, range, now_ms),
        Read::GetBit { key, offset } => bits::get(rows, key, offset, now_ms),
        Read::BitCount { key, part } => bits::count(rows, key, part, now_ms),
        Read::BitPosition { key, bit, part } => bits::position(rows, key, bit, part, now_ms),
        Read::BitField { key, steps } => bitfield::get(rows, key, steps, now_ms),
        Read::Lcs(wanted) => lcs::lcs(rows, wanted, now_ms),
        Read::HashGet(field) => hashes::get(rows, field, now_ms),
        Read::HashGetMany { key, fields } => hashes::get_many(rows, key, fields, now_ms),
        Read::HashAll { key, parts } => hashes::all(rows, key, parts, now_ms),
        Read::HashLength(key) => hashes::length(rows, key, now_ms),
        Read::HashExists(field) => hashes::exists(rows, field, now_ms),
        Read::HashValueLength(field) => hashes::value_length(rows, field, now_ms),
        Read::HashScan { key, scan } => scan::fields(rows, key, scan, context),
        Read::HashRange(ref page) => range::page(rows, page, now_ms),
        Read::HashRandom { key, count, values } => {
            hashes::random(rows, key, count, values, context)
        }
        Read::FieldExpiry { key, form, fields } => fields::expiry(rows, key, form, fields, now_ms),
        Read::Exists(keys) => keys::exists(rows, keys, now_ms),
        Read::Kind(key) => keys::kind(rows, key, now_ms),
        Read::Expiry { key, form } => keys::expiry(rows, key, form, now_ms),
        Read::Scan(scan) => scan::keys(rows, scan, now_ms),
        Read::Keys(pattern) => scan::matching_keys(rows, pattern, now_ms),
        Read::RandomKey => scan::random_key(rows, context),
        Read::Size => keys::size(rows, context),
        Read::Object { key, question } => keys::object(rows, key, question, now_ms),
        Read::ObjectHelp => Ok(keys::object_help()),
        Read::MemoryUsage(key) => keys::memory_usage(rows, key, now_ms),
    }
}

fn run_write<W: RowsWrite + ?Sized>(write: &Write<'_>, edit: &mut Edit<'_, W>) -> Answer {
    match *write {
        Write::Set(set) => strings::set(edit, set),
        Write::GetDelete(key) => strings::get_delete(edit, key),
        Write::GetExpire { key, expiry } => strings::get_expire(edit, key, expiry),
        Write::SetMany { pairs, absent } => strings::set_many(edit, pairs, absent),
        Write::Append { key, value } => strings::append(edit, key, value),
        Write::SetRange { key, offset, value } => strings::set_range(edit, key, offset, value),
        Write::Increment { key, by } => strings::increment(edit, key, by),
        Write::IncrementFloat { key, by } => strings::increment_float(edit, key, by),
        Write::SetBit { key, offset, bit } => bits::set(edit, key, offset, bit),
        Write::BitJoin { how, to, from } => bits::join(edit, how, to, from),
        Write::BitField { key, steps } => bitfield::change(edit, key, steps),
        Write::HashSet { key, pairs, ok } => hashes::set(edit, key, pairs, ok),
        Write::HashSetNew { key, field, value } => hashes::set_new(edit, key, field, value),
        Write::HashDelete { key, fields, get } => hashes::delete(edit, key, fields, get),
        Write::HashCheckSet(ref wanted) => check_set::run(edit, wanted),
        Write::HashDeleteRange { key, ref range } => range::delete(edit, key, range),
        Write::HashIncrement { key, field, by } => hashes::increment(edit, key, field, by),
        Write::HashIncrementFloat { key, field, by } => {
            hashes::increment_float(edit, key, field, by)
        }
        Write::FieldExpire { key, moment, condition, fields } => {
            fields::expire(edit, key, moment, condition, fields)
        }
        Write::FieldPersist { key, fields } => fields::persist(edit, key, fields),
        Write::FieldGetExpire { key, expiry, fields } => {
            fields::get_expire(edit, key, expiry, fields)
        }
        Write::FieldSetExpire { key, present, expiry, pairs } => {
            fields::set_expire(edit, key, present, expiry, pairs)
        }
        Write::Delete(keys) => keys::delete(edit, keys),
        Write::DeleteIf { key, condition } => strings::delete_if(edit, key, condition),
        Write::Expire { key, moment, condition } => keys::expire(edit, key, moment, condition),
        Write::Persist(key) => keys::persist(edit, key),
        Write::Rename { from, to, absent } => keys::rename(edit, from, to, absent),
        Write::Copy { from, to, replace } => keys::copy(edit, from, to, replace),
        Write::Flush => keys::flush(edit),
    }
}

#[cfg(test)]
mod tests;
