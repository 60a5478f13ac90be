//! What becomes of the appends of one group between their queue and their outcome. Pure: it is
//! told what happened and when, and says what to send and which outcome each append has.
//!
//! An append is sent once. It is sent again only where the server answered that nobody at all
//! took it, nothing sent after it can stand in the log, and its time is not over. An append
//! whose answer does not come is unknown, and may come to stand in the log at any later time.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::{AppendDone, AppendError, Lsn};

/// Counted for an append beyond its record's bytes.
const APPEND_OVERHEAD_BYTES: usize = 256;
/// How long nothing is sent after nobody took an append: the group has no leader.
const PAUSE: Duration = Duration::from_millis(50);

/// What a window may hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub queue_bytes_max: usize,
    pub sent_bytes_max: usize,
    pub sent_max: usize,
    pub timeout: Duration,
}

/// An outcome and whom to tell, once no lock is held.
pub(super) type Told = (AppendDone, Result<Lsn, AppendError>);

struct Pending {
    record: Bytes,
    done: AppendDone,
    queued: Instant,
}

impl Pending {
    fn bytes(&self) -> usize {
        self.record.len() + APPEND_OVERHEAD_BYTES
    }

    fn tell(self, outcome: Result<Lsn, AppendError>) -> Told {
        (self.done, outcome)
    }
}

struct Sent {
    pending: Pending,
    sent: Instant,
    /// The last position that was known to be given away when it was sent.
    floor: Lsn,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send this record; its answer comes under this number.
    Send(u64, Bytes),
    /// Nothing until something happens, or until this moment.
    Wait(Option<Instant>),
}

/// What an answer meant.
pub(super) enum Acked {
    /// The append stands there; what it was, and how long it took since it was queued.
    Done(Told, Bytes, Duration),
    /// The position was given away before the append was sent: the log lost its end. The
    /// outcome, and the last position that was known.
    Rewound(Told, Lsn),
    /// Nobody waits for it any more.
    Late,
}

/// The appends of one group.
pub(super) struct Window {
    limits: Limits,
    queue: VecDeque<Pending>,
    sent: BTreeMap<u64, Sent>,
    /// Those that nobody took, until it is clear whether what was sent after them was.
    bounced: BTreeMap<u64, Pending>,
    /// Numbers grow in the order of sending.
    last_number: u64,
    /// The largest number whose append stands in the log or may come to.
    last_possible: u64,
    /// Of all that wait for their outcome.
    bytes: usize,
    sent_bytes: usize,
    paused_until: Option<Instant>,
    closed: Option<String>,
}

impl Window {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            queue: VecDeque::new(),
            sent: BTreeMap::new(),
            bounced: BTreeMap::new(),
            last_number: 0,
            last_possible: 0,
            bytes: 0,
            sent_bytes: 0,
            paused_until: None,
            closed: None,
        }
    }

    /// Queues an append, or gives it back refused. One append fits into an empty queue whatever
    /// its size.
    pub fn push(&mut self, record: Bytes, done: AppendDone, now: Instant) -> Result<(), Told> {
        let pending = Pending { record, done, queued: now };
        let refusal = match &self.closed {
            Some(reason) => Some(reason.clone()),
            None if self.bytes > 0
                && self.bytes + pending.bytes() > self.limits.queue_bytes_max =>
            {
                Some(format!("{} bytes wait for the log servers already", self.bytes))
            }
            None => None,
        };
        if let Some(reason) = refusal {
            return Err(pending.tell(Err(AppendError::Refused(reason))));
        }
        self.bytes += pending.bytes();
        self.queue.push_back(pending);
        Ok(())
    }

    /// What to send now. `floor` is the last position known to be given away.
    pub fn next(&mut self, floor: Lsn, now: Instant) -> Next {
        if let Some(until) = self.paused_until {
            if now < until {
                return Next::Wait(Some(until));
            }
            self.paused_until = None;
        }
        // Those that bounced go first, once it is known what became of those sent after them.
        if !self.bounced.is_empty() {
            return Next::Wait(None);
        }
        let Some(first) = self.queue.front() else { return Next::Wait(None) };
        let is_full = self.sent.len() >= self.limits.sent_max
            || self.sent_bytes + first.bytes() > self.limits.sent_bytes_max;
        if is_full && !self.sent.is_empty() {
            return Next::Wait(None);
        }
        let Some(pending) = self.queue.pop_front() else { return Next::Wait(None) };
        self.last_number += 1;
        self.sent_bytes += pending.bytes();
        let record = pending.record.clone();
        self.sent.insert(self.last_number, Sent { pending, sent: now, floor });
        Next::Send(self.last_number, record)
    }

    /// The server says that the append stands at `lsn`.
    pub fn acked(&mut self, number: u64, lsn: Lsn, now: Instant) -> Acked {
        let Some(sent) = self.remove(number) else { return Acked::Late };
        self.last_possible = self.last_possible.max(number);
        let took = now.saturating_duration_since(sent.pending.queued);
        if lsn <= sent.floor {
            let error = AppendError::Unknown(format!(
                "it was given position {lsn}, but {} was given away before",
                sent.floor
            ));
            return Acked::Rewound(sent.pending.tell(Err(error)), sent.floor);
        }
        let record = sent.pending.record.clone();
        Acked::Done(sent.pending.tell(Ok(lsn)), record, took)
    }

    /// The server says that nobody took the append: the group has no leader now.
    pub fn bounced(&mut self, number: u64, now: Instant) -> Vec<Told> {
        let Some(sent) = self.remove(number) else { return Vec::new() };
        self.bytes += sent.pending.bytes();
        self.bounced.insert(number, sent.pending);
        self.paused_until = Some(now + PAUSE);
        self.requeue_bounced(now)
    }

    /// The append certainly does not stand in the log, and will not be sent again.
    pub fn refused(&mut self, number: u64, reason: &str, now: Instant) -> Vec<Told> {
        self.failed(number, AppendError::Refused(reason.to_owned()), now)
    }

    /// The server's answer does not say whether the append stands in the log.
    pub fn unknown(&mut self, number: u64, reason: &str, now: Instant) -> Vec<Told> {
        self.last_possible = self.last_possible.max(number);
        self.failed(number, AppendError::Unknown(reason.to_owned()), now)
    }

    /// Ends what has waited too long.
    pub fn tick(&mut self, now: Instant) -> Vec<Told> {
        let timeout = self.limits.timeout;
        let is_over = |since: Instant| now.saturating_duration_since(since) >= timeout;
        let mut told = Vec::new();
        // Numbers, and with them times, grow in the order of sending.
        while let Some((number, sent)) = self.sent.first_key_value() {
            if !is_over(sent.sent) {
                break;
            }
            let reason = format!("no answer in {} ms", timeout.as_millis());
            told.extend(self.unknown(*number, &reason, now));
        }
        told.extend(self.requeue_bounced(now));
        while self.queue.front().is_some_and(|pending| is_over(pending.queued)) {
            let Some(pending) = self.queue.pop_front() else { break };
            told.push(self.refuse_unsent(
                pending,
                "no log server took it in time: the group has no leader, or there is no connection",
            ));
        }
        told
    }

    /// Takes nothing more. What was sent is unknown, the rest is refused.
    pub fn close(&mut self, reason: &str) -> Vec<Told> {
        self.closed.get_or_insert_with(|| reason.to_owned());
        let mut told = Vec::new();
        for (_, sent) in std::mem::take(&mut self.sent) {
            told.push(sent.pending.tell(Err(AppendError::Unknown(reason.to_owned()))));
        }
        let bounced = std::mem::take(&mut self.bounced).into_values();
        for pending in bounced.chain(std::mem::take(&mut self.queue)) {
            told.push(pending.tell(Err(AppendError::Refused(reason.to_owned()))));
        }
        self.bytes = 0;
        self.sent_bytes = 0;
        told
    }

    /// Appends and bytes that wait for their outcome, and how long the oldest has.
    pub fn load(&self, now: Instant) -> (usize, usize, Duration) {
        let sent = self.sent.values().next().map(|sent| sent.pending.queued);
        let bounced = self.bounced.values().next().map(|pending| pending.queued);
        let queued = self.queue.front().map(|pending| pending.queued);
        let oldest = [sent, bounced, queued].into_iter().flatten().min();
        let age = oldest.map_or(Duration::ZERO, |oldest| now.saturating_duration_since(oldest));
        (self.sent.len() + self.bounced.len() + self.queue.len(), self.bytes, age)
    }

    /// Takes a sent append out, with its bytes.
    fn remove(&mut self, number: u64) -> Option<Sent> {
        let sent = self.sent.remove(&number)?;
        self.sent_bytes -= sent.pending.bytes();
        self.bytes -= sent.pending.bytes();
        Some(sent)
    }

    fn failed(&mut self, number: u64, error: AppendError, now: Instant) -> Vec<Told> {
        let Some(sent) = self.remove(number) else { return Vec::new() };
        let mut told = vec![sent.pending.tell(Err(error))];
        told.extend(self.requeue_bounced(now));
        told
    }

    /// Puts those that bounced back where they came from, unless something that was sent after
    /// them stands in the log or may: appends of one sender would change places.
    pub fn requeue_bounced(&mut self, now: Instant) -> Vec<Told> {
        let mut told = Vec::new();
        if !self.sent.is_empty() {
            return told;
        }
        for (number, pending) in std::mem::take(&mut self.bounced).into_iter().rev() {
            let is_over = now.saturating_duration_since(pending.queued) >= self.limits.timeout;
            if number < self.last_possible || is_over {
                told.push(self.refuse_unsent(pending, "the group has no leader now"));
            } else {
                self.queue.push_front(pending);
            }
        }
        told.reverse();
        told
    }

    fn refuse_unsent(&mut self, pending: Pending, reason: &str) -> Told {
        self.bytes -= pending.bytes();
        pending.tell(Err(AppendError::Refused(reason.to_owned())))
    }
}

#[cfg(test)]
mod tests;
