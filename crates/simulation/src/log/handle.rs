//! The log as one process has it. What it appends goes its way in order, group by group; what stands is seen
//! later, and told to the process by a role of its own.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use plimsoll_base::World;
use plimsoll_base::tasks::Role;
use plimsoll_base::time::Instant;
use plimsoll_log::{
    AppendDone, AppendError, Bounds, Entry, GroupId, Incarnation, Log, LogError, Lsn,
    RECORD_BYTES_MAX, Reader, Stats,
};
use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::seen::{Seen, in_turn};
use super::servers::{Fate, Servers, UNKNOWN_AFTER};

/// Outcomes that may wait for their process.
const OUTCOMES_MAX: usize = 1024;

/// An outcome on its way to whoever appended.
type Told = (AppendDone, Result<Lsn, AppendError>);

/// The log of one start of a process.
pub struct Handle {
    servers: Arc<Servers>,
    told: Sender<Told>,
    seen: Arc<Seen>,
    /// When the last append of each group comes to the servers: none overtakes another.
    arrivals: Mutex<BTreeMap<GroupId, Instant>>,
    _role: Role,
}

impl Handle {
    /// The process sees nothing of what comes to stand, for so long.
    pub fn blind(&self, lasts: Duration) {
        self.seen.0.lock().blind_until = self.servers.time.now() + lasts;
    }

    /// A process begins with what stands now.
    ///
    /// # Errors
    /// Where its role cannot be begun.
    pub fn new(servers: Arc<Servers>, world: &World) -> io::Result<Self> {
        let (told, receiver) = channel(OUTCOMES_MAX);
        let role = world.tasks.role("log", move |_| tell(receiver))?;
        let seen = Arc::<Seen>::default();
        servers.watchers.0.lock().push(Arc::downgrade(&seen));
        let arrivals = Mutex::default();
        Ok(Self { servers, told, seen, arrivals, _role: role })
    }
}

fn unknown() -> AppendError {
    AppendError::Unknown("no answer came".to_owned())
}

/// Tells outcomes, in the process that waits for them.
async fn tell(mut told: Receiver<Told>) {
    while let Some((done, outcome)) = told.recv().await {
        done(outcome);
    }
}

/// A record comes to stand so much later.
fn stand_later(servers: &Arc<Servers>, group: GroupId, record: Bytes, by: Duration) {
    let late = Arc::clone(servers);
    servers.tasks.spawn("log: late", async move {
        late.time.sleep(by).await;
        let lsn = late.stand(group, record);
        spread(&late, group, lsn);
    });
}

/// A record stands: every process sees it after a while.
fn spread(servers: &Arc<Servers>, group: GroupId, lsn: Lsn) {
    let mut watchers = servers.watchers.0.lock();
    watchers.retain(|seen| seen.strong_count() > 0);
    for seen in watchers.iter() {
        let Some(held) = seen.upgrade() else { continue };
        let at = servers.time.now() + servers.draw(servers.delays.seen);
        let mut state = held.0.lock();
        let at = at.max(state.blind_until);
        let at = in_turn(&mut state.arrivals, group, at);
        drop(state);
        let (seen, time) = (Weak::clone(seen), servers.time.clone());
        servers.tasks.spawn("log: seen", async move {
            time.sleep_until(at).await;
            if let Some(seen) = seen.upgrade() {
                seen.come(group, lsn);
            }
        });
    }
}

impl Log for Handle {
    fn incarnation(&self) -> Incarnation {
        self.servers.incarnation()
    }

    fn append(&self, group: GroupId, record: Bytes, done: AppendDone) {
        if !self.servers.has(group) || record.len() > RECORD_BYTES_MAX {
            return done(Err(AppendError::Refused("the log takes no such record".to_owned())));
        }
        let (servers, told) = (Arc::clone(&self.servers), self.told.clone());
        let at = servers.time.now() + servers.draw(servers.delays.there);
        let at = in_turn(&mut self.arrivals.lock(), group, at);
        self.servers.tasks.spawn("log: append", async move {
            servers.time.sleep_until(at).await;
            let back = servers.draw(servers.delays.back);
            let fate = servers.fate();
            let outcome = match fate {
                Fate::Stands | Fate::Unanswered => {
                    let lsn = servers.stand(group, record);
                    spread(&servers, group, lsn);
                    Ok(lsn)
                }
                Fate::Twice(by) => {
                    let lsn = servers.stand(group, record.clone());
                    spread(&servers, group, lsn);
                    stand_later(&servers, group, record, by);
                    Ok(lsn)
                }
                Fate::Lost => Err(unknown()),
                Fate::Late(by) => {
                    stand_later(&servers, group, record, by);
                    Err(unknown())
                }
                Fate::Refused => Err(AppendError::Refused("the log has no leader".to_owned())),
            };
            let is_known = matches!(fate, Fate::Stands | Fate::Twice(_) | Fate::Refused);
            servers.time.sleep(if is_known { back } else { UNKNOWN_AFTER }).await;
            let outcome = if fate == Fate::Unanswered { Err(unknown()) } else { outcome };
            // The process may be gone.
            let _ = told.send((done, outcome)).await;
        });
    }

    fn read(&self, from: &[(GroupId, Lsn)]) -> Result<Box<dyn Reader>, LogError> {
        for (group, _) in from {
            if !self.servers.has(*group) {
                return Err(LogError::Failed(format!("the log has no group {group}")));
            }
            // What stands now is there to be read.
            let last = self.servers.bounds(*group).last;
            self.seen.0.lock().groups.entry(*group).or_insert(last);
        }
        let positions = from.iter().map(|(group, lsn)| (*group, Lsn(lsn.0.max(1)))).collect();
        let (servers, seen) = (Arc::clone(&self.servers), Arc::clone(&self.seen));
        Ok(Box::new(SeenReader { servers, seen, positions }))
    }

    fn bounds(&self, group: GroupId) -> Result<Bounds, LogError> {
        if !self.servers.has(group) {
            return Err(LogError::Failed(format!("the log has no group {group}")));
        }
        Ok(self.servers.bounds(group))
    }

    fn held_bytes(&self, group: GroupId) -> Result<Option<u64>, LogError> {
        self.bytes_after(group, Lsn(0))
    }

    fn bytes_after(&self, group: GroupId, lsn: Lsn) -> Result<Option<u64>, LogError> {
        Ok(self.servers.has(group).then(|| self.servers.bytes_after(group, lsn)))
    }

    fn trim(&self, group: GroupId, up_to: Lsn) -> Result<(), LogError> {
        self.servers.trim(group, up_to);
        Ok(())
    }

    fn sync(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn health(&self) -> Result<(), LogError> {
        Ok(())
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }
}

/// Reads what its process has seen.
struct SeenReader {
    servers: Arc<Servers>,
    seen: Arc<Seen>,
    positions: Vec<(GroupId, Lsn)>,
}

impl Reader for SeenReader {
    fn take(&mut self, entries: &mut Vec<Entry>, bytes_max: usize) -> Result<(), LogError> {
        for (group, next) in &mut self.positions {
            let Some(last) = self.seen.last(*group).filter(|last| *last >= *next) else { continue };
            let fetched = self.servers.fetch(*group, (*next, last), bytes_max, entries);
            fetched.map_err(|first| LogError::Trimmed { group: *group, first, asked: *next })?;
            if let Some(entry) = entries.last().filter(|entry| entry.group == *group) {
                *next = entry.lsn.next();
            }
        }
        Ok(())
    }

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.seen.0.lock();
        let there = |(group, next): &(GroupId, Lsn)| {
            state.groups.get(group).is_some_and(|last| last >= next)
        };
        if self.positions.iter().any(there) {
            return Poll::Ready(());
        }
        let groups: Vec<GroupId> = self.positions.iter().map(|(group, _)| *group).collect();
        match state.waiting.iter_mut().find(|(_, waker)| waker.will_wake(context.waker())) {
            Some((waits_for, _)) => waits_for.extend(groups),
            None => state.waiting.push((groups, context.waker().clone())),
        }
        Poll::Pending
    }
}
