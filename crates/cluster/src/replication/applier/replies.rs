//! What clients are answered whose record is applied, and the reads that ride along with writes. When
//! a record is applied, and whether, is the applier's.

use std::cell::Cell;
use std::collections::HashMap;

use plimsoll_base::random::Draws;
use plimsoll_log::rules::carried::LeaderPosition;
use plimsoll_log::rules::sessions::Verdict;
use plimsoll_storage::execute::{ReadContext, Seed};
use plimsoll_storage::partition::{Applied, Effect, NotCarried, Observer, Overlay};
use plimsoll_storage::rows::metered::Metered;
use plimsoll_storage::rows::{RowsRead, StoreError};
use plimsoll_storage::{Argv, ErrorReply, Reply, command, execute};

use crate::replication::lead::{Answer, Step, Submission};
use crate::replication::settle;
use crate::wire::write_error::WriteError;

/// What the reads that ride along with one submission may answer together, bytes: everyone's
/// writes wait for them.
const READS_BYTES_MAX: usize = 32 << 20;

/// Gathers the replies of a record, reads of the same pipeline among them.
pub(super) struct Replies<'a> {
    submissions: &'a [Submission],
    /// Which submission each item is of, where it is not the one of the same number.
    owners: Vec<usize>,
    /// Log time: what the writes beside go by.
    now_ms: u64,
    done: Vec<Vec<Reply>>,
    /// Submissions of which an operation did not run now, by their places.
    unsettled: HashMap<usize, WriteError>,
    /// What the reads of each submission hold, bytes.
    held: Vec<Cell<usize>>,
    /// What reads that pick at random go by.
    chance: &'a Draws,
}

impl<'a> Replies<'a> {
    pub(super) fn new(submissions: &'a [Submission], now_ms: u64, chance: &'a Draws) -> Self {
        let done = submissions.iter().map(|it| Vec::with_capacity(it.steps.len())).collect();
        let mut owners = Vec::new();
        if submissions.iter().any(|submission| submission.items_len() != 1) {
            for (at, submission) in submissions.iter().enumerate() {
                owners.extend(std::iter::repeat_n(at, submission.items_len()));
            }
        }
        let held = vec![Cell::new(0); submissions.len()];
        let unsettled = HashMap::new();
        Self { submissions, owners, now_ms, done, unsettled, held, chance }
    }

    /// The replies of each submission, and why one has none.
    pub(super) fn into_parts(self) -> (Vec<Vec<Reply>>, HashMap<usize, WriteError>) {
        (self.done, self.unsettled)
    }
}

impl Observer for Replies<'_> {
    fn operation(
        &mut self,
        (item, _): (usize, usize),
        effect: Effect,
        rows: &Overlay<'_>,
        keys: u64,
    ) {
        let owner = self.owners.get(item).copied().unwrap_or(item);
        let (Some(submission), Some(replies)) =
            (self.submissions.get(owner), self.done.get_mut(owner))
        else {
            return;
        };
        let is_fence = matches!(submission.steps.get(replies.len()), Some(Step::Fence { .. }));
        replies.push(match effect {
            Effect::Ran(reply) => reply,
            Effect::Carried(position) => carried(position),
            Effect::Settled(verdict) if is_fence => settle::reply_of(verdict),
            Effect::Settled(verdict) => {
                let why = match verdict {
                    Verdict::TooOld => {
                        WriteError::not_taken("the operation is older than log time allows")
                    }
                    _ => WriteError::Unknown,
                };
                // Of several the less certain says more.
                let is_new = !matches!(self.unsettled.get(&owner), Some(WriteError::Unknown));
                if is_new {
                    self.unsettled.insert(owner, why);
                }
                // It stands for the operation's reply, which nobody gets.
                Reply::Nil
            }
        });
        while let Some(Step::Read(argv)) = submission.steps.get(replies.len()) {
            let held = &self.held[owner];
            let grant = |bytes: usize| {
                held.set(held.get().saturating_add(bytes));
                if held.get() > READS_BYTES_MAX { Err(too_much_read()) } else { Ok(()) }
            };
            let context = ReadContext {
                now_ms: self.now_ms,
                seed: Seed::Drawn(self.chance),
                keys,
                cursors: None,
            };
            replies.push(read(argv, &Metered::new(rows, &grant), &context));
        }
    }
}

/// Where the replica stands in its leader's log, or an error that says why it took nothing.
fn carried(carried: Result<LeaderPosition, NotCarried>) -> Reply {
    match carried {
        Ok(position) => Reply::Integer(i64::try_from(position.link.lsn.0).unwrap_or(i64::MAX)),
        Err(error) => Reply::Error(ErrorReply::err(error.to_string())),
    }
}

fn too_much_read() -> StoreError {
    let words = format!("reads among writes sent together answer over {READS_BYTES_MAX} bytes");
    StoreError::Refused(ErrorReply::err(words))
}

fn read(argv: &Argv, rows: &impl RowsRead, context: &ReadContext<'_>) -> Reply {
    match command::parse(argv) {
        Ok(command) => execute::read(&command, rows, context)
            .unwrap_or_else(|error| Reply::Error(ErrorReply::err(error.to_string()))),
        Err(error) => Reply::Error(error),
    }
}

pub(super) fn deliver(
    applied: Applied,
    submissions: Vec<Submission>,
    replies: Vec<Vec<Reply>>,
    mut unsettled: HashMap<usize, WriteError>,
) {
    for (at, (submission, replies)) in submissions.into_iter().zip(replies).enumerate() {
        let outcome = match applied {
            Applied::Taken => unsettled.remove(&at).map_or(Ok(replies), Err),
            // It did not run, and never will.
            Applied::Passed(_) => Err(WriteError::not_taken("the log did not take the write")),
            Applied::Contained => Err(WriteError::Unknown),
        };
        answer(submission, outcome);
    }
}

pub(super) fn answer(submission: Submission, outcome: Answer) {
    // Nobody waits where the client has hung up.
    let _ = submission.done.send(outcome);
}
