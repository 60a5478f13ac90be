//! Fields set or deleted where another field of the same hash is what it must be. Which checks there are
//! is [`crate::command::check_set`]'s.

use super::answer::{Answer, held_if_any};
use super::hash_edit::HashEdit;
use super::store::Edit;
use crate::Reply;
use crate::command::check_set::{Change, CheckSet};
use crate::rows::RowsWrite;
use crate::rows::field::Field;
use crate::rows::key::KeyRows;

pub(super) fn run<W: RowsWrite + ?Sized>(edit: &mut Edit<'_, W>, wanted: &CheckSet<'_>) -> Answer {
    let mut hash = HashEdit::open(edit, wanted.key)?;
    let checked = match &mut hash {
        Some(hash) => hash.get(edit, wanted.field)?,
        None => None,
    };
    let holds = wanted.check.holds(checked.as_ref().map(Field::value))?;
    if holds {
        match (wanted.change, hash) {
            (Change::Set(pairs), hash) => {
                let mut hash =
                    hash.unwrap_or_else(|| HashEdit::new(edit, KeyRows::new(wanted.key)));
                for (field, value) in pairs.iter() {
                    let old = hash.get(edit, field)?;
                    hash.set(edit, field, value, old.as_ref().map(|old| &old.head), None);
                }
                hash.finish(edit)?;
            }
            (Change::Delete(fields), Some(mut hash)) => {
                for field in fields.iter() {
                    if let Some(found) = hash.get(edit, field)? {
                        hash.delete(edit, field, &found.head);
                    }
                }
                hash.finish(edit)?;
            }
            (Change::Delete(_), None) => {}
        }
    }
    let holds = Reply::Integer(i64::from(holds));
    if !wanted.get {
        return Ok(holds);
    }
    Ok(Reply::Array(vec![holds, held_if_any(edit.rows, checked.map(Field::into_value))?]))
}
