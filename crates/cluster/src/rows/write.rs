//! Writes to one partition: what of a connection's requests goes together into one submission to its lead.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll_storage::operation::cost;
use plimsoll_storage::partition::RECORD_BYTES_MAX;
use plimsoll_storage::{ErrorReply, Reply};

use super::plan::Plan;
use super::{Rows, scatter};
use crate::replication::lead::Step;
use crate::replication::session::ClientSession;
use crate::replication::tables::Copies;
use crate::wire::request::Request;

/// Where a submission of several operations is cut, bytes.
const BATCH_BYTES: usize = 1 << 20;
/// The same, bytes that it is certain to change.
const BATCH_CHANGED_BYTES: u64 = RECORD_BYTES_MAX / 8;

impl Rows {
    /// Writes `payload` and what of the requests after it goes with it; returns the rest.
    pub(super) async fn write<'a>(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        payload: Bytes,
        after: &'a [Request],
        replies: &mut Vec<Reply>,
    ) -> &'a [Request] {
        let mut bytes = payload.len();
        let mut changed_bytes = cost::least_bytes(&payload);
        let mut steps = vec![Step::Write(payload)];
        let mut rest = after;
        while let Some((request, after)) = rest.split_first() {
            let step = match (self.plan(db, request), request) {
                (Plan::Write(at, payload), _) if at == ordinal => Step::Write(payload),
                // What may take long must not hold the thread that applies everyone's writes.
                (Plan::Read(Some(copies), command, argv), _)
                    if scatter::is_short_read(&command) && self.is_at(db, ordinal, copies) =>
                {
                    Step::Read(argv.clone())
                }
                _ => break,
            };
            if let Step::Write(payload) = &step {
                bytes += payload.len();
                changed_bytes = changed_bytes.saturating_add(cost::least_bytes(payload));
                if bytes > BATCH_BYTES || changed_bytes > BATCH_CHANGED_BYTES {
                    break;
                }
            }
            steps.push(step);
            rest = after;
        }
        let count = steps.len();
        match self.submit(session, db, ordinal, steps).await {
            Ok(answers) => {
                assert_eq!(answers.len(), count, "one reply for each step");
                replies.extend(answers);
            }
            Err(error) => replies.extend((0..count).map(|_| Reply::Error(error.clone()))),
        }
        rest
    }

    fn is_at(&self, db: u32, ordinal: usize, copies: &Arc<Copies>) -> bool {
        let table = self.router.tables.get(db);
        table.is_some_and(|table| Arc::ptr_eq(&table.copies()[ordinal], copies))
    }

    /// Has the lead of a partition carry the steps out; the first is a write.
    pub(crate) async fn submit(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        steps: Vec<Step>,
    ) -> Result<Vec<Reply>, ErrorReply> {
        let table = self.changes.table_for_write(db).await?;
        let replies = self.router.submit(&table.copies()[ordinal], session, steps).await;
        replies.map_err(ErrorReply::from)
    }
}
