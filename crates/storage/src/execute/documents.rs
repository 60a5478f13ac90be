//! Reads of documents: one, those under a key, and a walk over all that a partition holds. A
//! value is shown whatever it is: whether it is JSON is not looked at here.

use std::ops::ControlFlow;

use bytes::Bytes;

use super::hashes::find_field;
use super::scan::visit_keys;
use super::store::{count_live, find};
use crate::rows::field::FieldHead;
use crate::rows::key::{self, KeyRows, RowKey, StoreKey};
use crate::rows::meta::{Kind, Meta};
use crate::rows::{RowsRead, StoreError};

/// How often a document is looked for while its key is made anew meanwhile.
const TRIES_MAX: u32 = 4;

/// A document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The row's value.
    pub source: Bytes,
    /// 1 at first, then one more at each write, or what a write with an external one gave it.
    pub version: u64,
    /// The partition's sequence number at its last change; the first is 1.
    pub sequence: u64,
}

impl Document {
    /// The sequence number as clients see it: the first is 0.
    #[must_use]
    pub fn seq_no(&self) -> u64 {
        self.sequence.saturating_sub(1)
    }
}

/// A document that is shown in passing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DocumentRow<'a> {
    /// The row's value.
    pub source: &'a [u8],
    /// As [`Document::version`].
    pub version: u64,
    /// As [`Document::sequence`].
    pub sequence: u64,
}

/// Is shown the key, id and content of a document, and says whether to go on.
pub type VisitDocument<'a> = &'a mut dyn FnMut(&[u8], &[u8], DocumentRow<'_>) -> ControlFlow<()>;

/// Where a walk over documents goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentsCursor(StoreKey);

impl Default for DocumentsCursor {
    /// The first document.
    fn default() -> Self {
        Self(key::rows_from(0))
    }
}

/// The document under a key, which may be a Redis string of the same name.
///
/// `rows` may be read one at a time while they change (a cached row): the answer is right at one
/// moment during the call.
///
/// # Errors
/// Where the store fails, or `rows` is of what is in memory alone and more is needed.
pub fn document<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    id: &[u8],
    now_ms: u64,
) -> Result<Option<Document>, StoreError> {
    let mut key_rows = KeyRows::new(key);
    let mut seen = None;
    for _ in 0..TRIES_MAX {
        let Some(found) = find(rows, &mut key_rows, now_ms)? else { return Ok(None) };
        let Kind::Hash(fields) = found.meta.kind else {
            if id != key {
                return Ok(None);
            }
            let Meta { version, last_change: sequence, .. } = found.meta;
            return Ok(Some(Document { source: found.into_value(), version, sequence }));
        };
        // The generation has not changed since the field was not there.
        if seen == Some(fields.generation) {
            return Ok(None);
        }
        if let Some(field) = find_field(rows, &mut key_rows, &fields, id, now_ms)? {
            let FieldHead { version, sequence, .. } = field.head;
            return Ok(Some(Document { source: field.into_value(), version, sequence }));
        }
        seen = Some(fields.generation);
    }
    // Only rows that are read one at a time change meanwhile; who has those has others too.
    Err(StoreError::NotCached)
}

/// Shows documents from a cursor on, in the order of rows, until told to stop or until `limit` of
/// them or `bytes_max` bytes of sources were shown, at least one. Returns where to go on, `None`
/// after the last.
///
/// # Errors
/// Where the store fails.
pub fn documents<R: RowsRead + ?Sized>(
    rows: &R,
    from: &DocumentsCursor,
    limit: usize,
    bytes_max: usize,
    now_ms: u64,
    visit: VisitDocument<'_>,
) -> Result<Option<DocumentsCursor>, StoreError> {
    let (mut shown, mut bytes, mut next) = (0usize, 0usize, None);
    walk(rows, &from.0, key::ROWS_END, now_ms, &mut |row, key, id, document| {
        if shown > 0 && (shown >= limit || bytes >= bytes_max) {
            next = Some(DocumentsCursor(StoreKey::from_slice(row)));
            return ControlFlow::Break(());
        }
        shown += 1;
        bytes = bytes.saturating_add(document.source.len());
        let flow = visit(key, id, document);
        if flow.is_break() {
            let mut after = StoreKey::from_slice(row);
            after.push(0);
            next = Some(DocumentsCursor(after));
        }
        flow
    })?;
    Ok(next)
}

/// Shows the documents under a key, until told to stop.
///
/// # Errors
/// Where the store fails.
pub fn documents_of<R: RowsRead + ?Sized>(
    rows: &R,
    key: &[u8],
    now_ms: u64,
    visit: VisitDocument<'_>,
) -> Result<(), StoreError> {
    let mut key = KeyRows::new(key);
    let from = StoreKey::from_slice(key.meta());
    walk(rows, &from, &key.end(), now_ms, &mut |_, key, id, document| visit(key, id, document))
}

/// How many documents a partition holds: looks at each key, and within a hash at none but those
/// that have expired.
///
/// # Errors
/// Where the store fails.
pub fn document_count<R: RowsRead + ?Sized>(rows: &R, now_ms: u64) -> Result<u64, StoreError> {
    let mut count = 0u64;
    visit_keys(rows, 0, now_ms, &mut |row, meta| {
        let live = match &meta.kind {
            Kind::String => Ok(1),
            Kind::Hash(fields) => count_live(rows, &KeyRows::new(row.key), fields, now_ms),
        };
        count += live?;
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(count)
}

/// Is shown a row's key, and the key, id and content of the document that it is.
type VisitRow<'a> = &'a mut dyn FnMut(&[u8], &[u8], &[u8], DocumentRow<'_>) -> ControlFlow<()>;

/// Which fields of the key whose rows are being walked over are documents.
struct OpenKey {
    stem: StoreKey,
    /// The generation of a hash that is there.
    generation: Option<u64>,
}

impl OpenKey {
    fn new(stem: &[u8], meta: &Meta, now_ms: u64) -> Self {
        let is_live = meta.expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms);
        let generation = match &meta.kind {
            Kind::Hash(fields) if is_live => Some(fields.generation),
            _ => None,
        };
        Self { stem: StoreKey::from_slice(stem), generation }
    }
}

/// Shows the documents in a range of rows, which may begin between the fields of a hash.
fn walk<R: RowsRead + ?Sized>(
    rows: &R,
    from: &[u8],
    to: &[u8],
    now_ms: u64,
    visit: VisitRow<'_>,
) -> Result<(), StoreError> {
    let (mut open, mut failed) = (None, Ok(()));
    rows.scan(
        from,
        to,
        &mut |row, value| match walk_row(rows, &mut open, row, value, now_ms, visit) {
            Ok(flow) => flow,
            Err(error) => {
                failed = Err(error);
                ControlFlow::Break(())
            }
        },
    )?;
    failed
}

fn walk_row<R: RowsRead + ?Sized>(
    rows: &R,
    open: &mut Option<OpenKey>,
    row: &[u8],
    value: &[u8],
    now_ms: u64,
    visit: VisitRow<'_>,
) -> Result<ControlFlow<()>, StoreError> {
    let damaged = || StoreError::Damaged("a row's key".into());
    let parsed = RowKey::parse(row).ok_or_else(damaged)?;
    let Some((generation, id)) = parsed.field else {
        let (meta, source) = Meta::decode(value)?;
        *open = Some(OpenKey::new(parsed.stem, &meta, now_ms));
        let is_live = meta.expiry_ms.is_none_or(|expiry_ms| expiry_ms > now_ms);
        if meta.kind != Kind::String || !is_live {
            return Ok(ControlFlow::Continue(()));
        }
        let document = DocumentRow { source, version: meta.version, sequence: meta.last_change };
        return Ok(visit(row, parsed.key, parsed.key, document));
    };
    let key = match open.take().filter(|open| *open.stem == *parsed.stem) {
        Some(key) => key,
        None => {
            // A copy that is under way may have fields before its key is there.
            match rows.get(KeyRows::new(parsed.key).meta())? {
                Some(meta) => OpenKey::new(parsed.stem, &Meta::decode(&meta)?.0, now_ms),
                None => OpenKey { stem: StoreKey::from_slice(parsed.stem), generation: None },
            }
        }
    };
    let generation = key.generation.filter(|live| *live == generation);
    *open = Some(key);
    let (FieldHead { version, sequence, .. }, source) = match FieldHead::decode(value)? {
        (head, source) if generation.is_some() && head.is_live(now_ms) => (head, source),
        _ => return Ok(ControlFlow::Continue(())),
    };
    Ok(visit(row, parsed.key, id, DocumentRow { source, version, sequence }))
}
