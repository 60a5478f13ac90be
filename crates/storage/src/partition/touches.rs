//! The touches of records, kept by LSN beside the rows until an index has them durably: it goes on
//! from them after a restart. They are the node's own, and written in the batch of the record.

use std::ops::ControlFlow;

use plimsoll_log::Lsn;
use plimsoll_log::record::RecordError;
use plimsoll_log::rules::chain::Position;

use super::engine::Batch;
use super::store::Store;
use super::system::{self, Leader, Stamp};
use crate::rows::key;
use crate::rows::touch::{Touch, TouchLog, Touches};
use crate::rows::{RowsRead, StoreError};

/// Is shown the touches of the record at a position, and says whether to go on.
pub type VisitTouches<'a> = &'a mut dyn FnMut(Lsn, Touches) -> ControlFlow<()>;

/// The position that a state of a partition's rows contains, of a snapshot for one; `None` where
/// no record was applied yet. All touches that the same state shows are of records up to there.
///
/// # Errors
/// Where the store fails or holds what this version cannot read.
pub fn position_of<R: RowsRead + ?Sized>(rows: &R) -> Result<Option<Position>, StoreError> {
    Ok(stamp_of(rows)?.map(|stamp| stamp.position))
}

/// The whole stamp of such a state.
///
/// # Errors
/// Where the store fails or holds what this version cannot read.
pub fn stamp_of<R: RowsRead + ?Sized>(rows: &R) -> Result<Option<Stamp>, StoreError> {
    let Some(stamp) = rows.get(system::STAMP_KEY)? else { return Ok(None) };
    Stamp::decode(&stamp).map(Some).map_err(unreadable("the stamp"))
}

/// What a state of a partition's rows says of the leader that it follows, of a snapshot for one; `None`
/// where it follows nobody.
///
/// # Errors
/// Where the store fails or holds what this version cannot read.
pub fn leader_of<R: RowsRead + ?Sized>(rows: &R) -> Result<Option<Leader>, StoreError> {
    let Some(leader) = rows.get(system::LEADER_KEY)? else { return Ok(None) };
    Ok(Some(Leader::decode(&leader).map_err(unreadable("the leader"))?))
}

/// Shows the touches of each record after a position, in order, until told to stop.
///
/// # Errors
/// Where the store fails or holds what this version cannot read.
pub fn touches_of<R: RowsRead + ?Sized>(
    rows: &R,
    after: Lsn,
    visit: VisitTouches<'_>,
) -> Result<(), StoreError> {
    let mut failed = Ok(());
    let Some(from) = after.0.checked_add(1) else { return Ok(()) };
    rows.scan(&system::touches_key(Lsn(from)), system::TOUCHES_TO, &mut |key, value| {
        let lsn = system::id_of(key).ok_or(RecordError::Malformed("a key without an LSN"));
        let touches = Touches::decode(bytes::Bytes::copy_from_slice(value));
        match lsn.and_then(|lsn| Ok((Lsn(lsn), touches?))) {
            Ok((lsn, touches)) => visit(lsn, touches),
            Err(error) => {
                failed = Err(unreadable("touches")(error));
                ControlFlow::Break(())
            }
        }
    })?;
    failed
}

impl Store {
    /// Shows the touches of each record after a position, in order, until told to stop.
    ///
    /// # Errors
    /// Where the store fails or holds what this version cannot read.
    pub fn touches(&self, after: Lsn, visit: VisitTouches<'_>) -> Result<(), StoreError> {
        touches_of(self, after, visit)
    }

    /// Forgets the touches of records up to a position: an index has them durably.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn forget_touches(&self, up_to: Lsn) -> Result<(), StoreError> {
        let mut batch = self.batch();
        forget(up_to, &mut batch);
        self.write(&batch)
    }
}

/// Fills `batch` with what it takes to forget the touches of records up to a position.
pub(super) fn forget(up_to: Lsn, batch: &mut Batch) {
    match up_to.0.checked_add(1) {
        Some(end) => {
            batch.delete_range(system::TOUCHES_FROM, system::touches_key(Lsn(end)).as_slice());
        }
        None => batch.delete_range(system::TOUCHES_FROM, system::TOUCHES_TO),
    }
}

/// Fills `batch` with what it takes to begin or end the noting of touches at a position.
pub(super) fn switch(
    store: &Store,
    at: Lsn,
    is_on: bool,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    if !is_on {
        batch.delete(system::DOCUMENTS_KEY);
        batch.delete_range(system::TOUCHES_FROM, system::TOUCHES_TO);
        return Ok(());
    }
    batch.put(system::DOCUMENTS_KEY, [1]);
    let mut log = TouchLog::default();
    store.scan(&key::rows_from(0), key::ROWS_END, &mut |_, _| {
        log.push(Touch::All);
        ControlFlow::Break(())
    })?;
    if let Some(touches) = log.finish() {
        batch.put(system::touches_key(at), touches.as_bytes());
    }
    Ok(())
}

/// Fills `batch` with what it takes to have all that was touched after a position touched at another,
/// and nothing else, because positions are those of another log from there on.
pub(super) fn gather(
    store: &Store,
    after: Lsn,
    at: Lsn,
    batch: &mut Batch,
) -> Result<(), StoreError> {
    let mut log = TouchLog::default();
    store.touches(after, &mut |_, touches| {
        touches.iter().for_each(|touch| log.push(touch));
        log.note_mapping(touches.mapping_version());
        ControlFlow::Continue(())
    })?;
    batch.put(system::DOCUMENTS_KEY, [1]);
    batch.delete_range(system::TOUCHES_FROM, system::TOUCHES_TO);
    if let Some(touches) = log.finish() {
        batch.put(system::touches_key(at), touches.as_bytes());
    }
    Ok(())
}

fn unreadable(what: &'static str) -> impl Fn(RecordError) -> StoreError {
    move |error| StoreError::Failed(format!("{what} cannot be read: {error}"))
}
