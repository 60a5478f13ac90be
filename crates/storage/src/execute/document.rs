//! What a write of a document does: versions, conditions, tombstones. Deterministic, as commands
//! are; each write that is done takes one number of the partition's sequence, and one that
//! conflicts none, but for what had expired under the key.
//!
//! A document is a field of the hash under its key, or the Redis string there, which is the
//! document of the same name. A string becomes a hash when a document is written under its key.

use bytes::Bytes;

use super::context::WriteContext;
use super::hash_edit::HashEdit;
use super::store::Edit;
use crate::operation::document::{
    Action, Condition, DocumentOutcome, DocumentResult, DocumentWrite, PRIMARY_TERM, Present,
};
use crate::rows::field::FieldHead;
use crate::rows::key::{self, KeyRows, StoreKey};
use crate::rows::meta::{Found, Kind};
use crate::rows::tombstone::{KEPT_MS, Tombstone};
use crate::rows::{RowsWrite, StoreError};

/// Writes a document where its condition holds.
///
/// # Errors
/// Where the store fails: the rows are then half changed and must not be kept.
pub fn write_document<W: RowsWrite + ?Sized>(
    write: &DocumentWrite,
    rows: &mut W,
    context: &mut WriteContext,
) -> Result<DocumentOutcome, StoreError> {
    let mut edit = Edit::as_one(rows, context);
    let mut key = KeyRows::new(&write.key);
    let place = match edit.open(&mut key)? {
        None => HeldKey::Nowhere,
        Some(found) => match found.meta.kind {
            Kind::String => HeldKey::String(found),
            Kind::Hash(fields) => HeldKey::Hash(HashEdit::of(key.clone(), found.meta, fields)),
        },
    };
    let state = StoredDocument::find(&edit, place, write)?;
    if !state.allows(write) {
        return Ok(DocumentOutcome::Conflict { present: state.present() });
    }
    let version = match write.condition {
        Condition::External(version) | Condition::ExternalGte(version) => version,
        Condition::None | Condition::IfSequence { .. } => {
            state.version().map_or(1, |version| version.saturating_add(1))
        }
    };
    edit.rows.note_mapping(write.mapping_version);
    let result = match &write.action {
        Action::Index(source) | Action::Create(source) => {
            state.put(&mut edit, key, write, source, version)?
        }
        Action::Delete => state.delete(&mut edit, key, write, version)?,
    };
    let seq_no = edit.change().saturating_sub(1);
    Ok(DocumentOutcome::Done { result, version, seq_no })
}

/// What a document's key holds.
enum HeldKey {
    Nowhere,
    String(Found),
    Hash(HashEdit),
}

/// A document before it is written.
struct StoredDocument {
    place: HeldKey,
    /// The document that is there.
    live: Option<FieldHead>,
    /// What its next version goes on from, where it is not there.
    deleted: Option<Tombstone>,
    tombstone_key: StoreKey,
    /// The stored tombstone: also one that is due to be swept, or that a command left behind
    /// when it made the document anew.
    tombstone: Option<Tombstone>,
}

impl StoredDocument {
    fn find<W: RowsWrite + ?Sized>(
        edit: &Edit<'_, W>,
        mut place: HeldKey,
        write: &DocumentWrite,
    ) -> Result<Self, StoreError> {
        let live = match &mut place {
            HeldKey::String(found) if write.id == write.key => Some(FieldHead {
                version: found.meta.version,
                sequence: found.meta.last_change,
                expiry_ms: None,
            }),
            HeldKey::Hash(hash) => hash.get(edit, &write.id)?.map(|found| found.head),
            HeldKey::Nowhere | HeldKey::String(_) => None,
        };
        let tombstone_key = key::tombstone(&write.key, &write.id);
        let tombstone = if live.is_none() || write.action == Action::Delete {
            edit.rows.get(&tombstone_key)?.as_deref().map(Tombstone::decode).transpose()?
        } else {
            None
        };
        let now_ms = edit.context.now_ms;
        let deleted = tombstone.filter(|found| live.is_none() && found.expiry_ms > now_ms);
        Ok(Self { place, live, deleted, tombstone_key, tombstone })
    }

    /// The version that the next one follows.
    fn version(&self) -> Option<u64> {
        self.live.map(|live| live.version).or(self.deleted.map(|deleted| deleted.version))
    }

    fn allows(&self, write: &DocumentWrite) -> bool {
        let holds = match write.condition {
            Condition::None => true,
            Condition::IfSequence { seq_no, primary_term } => {
                let sequence = self.live.and_then(|live| live.sequence.checked_sub(1));
                sequence == Some(seq_no) && primary_term == PRIMARY_TERM
            }
            Condition::External(version) => self.version().is_none_or(|present| present < version),
            Condition::ExternalGte(version) => {
                self.version().is_none_or(|present| present <= version)
            }
        };
        holds && (self.live.is_none() || !matches!(write.action, Action::Create(_)))
    }

    fn present(&self) -> Option<Present> {
        let of = |is_deleted, version, sequence: u64| {
            let seq_no = sequence.saturating_sub(1);
            Present { is_deleted, version, seq_no }
        };
        let live = self.live.map(|live| of(false, live.version, live.sequence));
        live.or(self.deleted.map(|deleted| of(true, deleted.version, deleted.sequence)))
    }

    fn put<W: RowsWrite + ?Sized>(
        self,
        edit: &mut Edit<'_, W>,
        key: KeyRows,
        write: &DocumentWrite,
        source: &Bytes,
        version: u64,
    ) -> Result<DocumentResult, StoreError> {
        let mut hash = match self.place {
            HeldKey::Nowhere => HashEdit::new(edit, key),
            HeldKey::String(found) => HashEdit::of_string(edit, key, &found),
            HeldKey::Hash(hash) => hash,
        };
        // What was deleted may be in an index that has not followed yet.
        let is_new = self.live.is_none() && self.tombstone.is_none();
        hash.set_document(edit, &write.id, source, self.live.as_ref(), version, is_new);
        hash.finish(edit)?;
        if let Some(tombstone) = self.tombstone {
            edit.move_expiry(&self.tombstone_key, Some(tombstone.expiry_ms), None);
            edit.rows.delete(&self.tombstone_key);
        }
        Ok(match self.live {
            None => DocumentResult::Created,
            Some(_) => DocumentResult::Updated,
        })
    }

    fn delete<W: RowsWrite + ?Sized>(
        self,
        edit: &mut Edit<'_, W>,
        mut key: KeyRows,
        write: &DocumentWrite,
        version: u64,
    ) -> Result<DocumentResult, StoreError> {
        match (self.place, &self.live) {
            (HeldKey::String(found), Some(_)) => edit.remove(&mut key, &found.meta)?,
            (HeldKey::Hash(mut hash), Some(live)) => {
                hash.delete(edit, &write.id, live);
                hash.finish(edit)?;
            }
            _ => {}
        }
        let expiry_ms = edit.context.now_ms.saturating_add(KEPT_MS);
        let tombstone = Tombstone { version, sequence: edit.change(), expiry_ms };
        let old_ms = self.tombstone.map(|old| old.expiry_ms);
        edit.move_expiry(&self.tombstone_key, old_ms, Some(expiry_ms));
        edit.rows.put(&self.tombstone_key, &tombstone.encode());
        Ok(match self.live {
            None => DocumentResult::NotFound,
            Some(_) => DocumentResult::Deleted,
        })
    }
}
