//! A record on its way into a replica: everything changed so far, none of it written. What a record
//! does follows from its bytes, from where it stands, and from the replica before it. Which records
//! come here is [`super::apply`]'s to say, and [`super::following`]'s for those of a leader.

use std::collections::HashMap;
use std::hash::Hash;

use bytes::Bytes;
use plimsoll_log::record::{Item, Record};
use plimsoll_log::rules::is_too_old;
use plimsoll_log::rules::leads::LeadState;
use plimsoll_log::rules::sessions::{RESULT_BYTES_MAX, SessionState, Verdict};
use plimsoll_log::{LeadId, Lsn, SessionId};

use super::budget::{BUDGETED_SINCE, OverBudget};
use super::effect::{ApplyError, Effect, NotCarried, Observer, unreadable};
use super::overlay::Overlay;
use super::system::{self, Leader, Stamp};
use crate::execute::WriteContext;
use crate::operation::Operation;
use crate::reply::Reply;
use crate::rows::{RowsWrite, StoreError};

/// How often, in log time, forgotten sessions and leads are removed, ms.
pub(super) const FORGET_INTERVAL_MS: u64 = 60_000;

/// Where a record stands in the log that it was made for: this cluster's, or a leader's.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub lsn: Lsn,
    /// With the record's own stamp, ms since 1970.
    pub log_time_ms: u64,
}

/// What holds for the operations of one record. It follows from the record, never from what this node
/// knows of the cluster's version when it applies it: others apply it at other times.
#[derive(Clone, Copy)]
struct Rules {
    over: OverBudget,
    /// Removals leave the rest to sweeps.
    is_bounded: bool,
}

impl Rules {
    fn of(record: &Record, over: OverBudget) -> Self {
        if record.version >= BUDGETED_SINCE {
            return Self { over: OverBudget::Refuse, is_bounded: true };
        }
        Self { over, is_bounded: false }
    }
}

/// States by id, changed on top of those that a replica knows. Of those, none changes before all of
/// a record is written.
pub(super) struct Staged<'a, K, V> {
    known: &'a HashMap<K, V>,
    changed: HashMap<K, Option<V>>,
}

impl<'a, K: Copy + Hash + Eq, V> Staged<'a, K, V> {
    pub fn new(known: &'a HashMap<K, V>) -> Self {
        Self { known, changed: HashMap::new() }
    }

    pub fn get(&self, id: K) -> Option<&V> {
        self.changed.get(&id).map_or_else(|| self.known.get(&id), Option::as_ref)
    }

    pub fn put(&mut self, id: K, state: V) {
        self.changed.insert(id, Some(state));
    }

    /// Puts a state, or forgets it.
    pub fn set(&mut self, id: K, state: Option<V>) {
        self.changed.insert(id, state);
    }

    /// Those for which it is so.
    fn those(&self, is_so: impl Fn(&V) -> bool) -> Vec<K> {
        let untouched = self.known.iter().filter(|(id, _)| !self.changed.contains_key(id));
        let changed = self.changed.iter().filter_map(|(id, state)| Some((id, state.as_ref()?)));
        untouched.chain(changed).filter(|(_, state)| is_so(state)).map(|(id, _)| *id).collect()
    }

    /// Forgets those for which it is so, and says which they were.
    pub fn forget(&mut self, is_over: impl Fn(&V) -> bool) -> Vec<K> {
        let over = self.those(is_over);
        self.changed.extend(over.iter().map(|id| (*id, None)));
        over
    }

    /// What became of each that changed; `None` where it is forgotten.
    pub fn into_changed(self) -> HashMap<K, Option<V>> {
        self.changed
    }
}

/// What a record has done so far.
pub(super) struct Application<'a> {
    pub overlay: Overlay<'a>,
    pub stamp: Stamp,
    pub sessions: Staged<'a, SessionId, SessionState>,
    pub leads: Staged<'a, LeadId, LeadState>,
    /// The sessions of the record that runs.
    running: HashMap<SessionId, SessionState>,
    /// What records before the running one took of what a record's operations share, thousandths.
    spent_permille: u64,
    /// What operations do goes by no earlier log time; 0 where there is no such bound.
    pub floor_ms: u64,
}

impl<'a> Application<'a> {
    /// Nothing done yet; the stamp already names the position.
    pub fn new(
        overlay: Overlay<'a>,
        stamp: Stamp,
        sessions: &'a HashMap<SessionId, SessionState>,
        leads: &'a HashMap<LeadId, LeadState>,
        floor_ms: u64,
    ) -> Self {
        let (sessions, leads) = (Staged::new(sessions), Staged::new(leads));
        let running = HashMap::new();
        Self { overlay, stamp, sessions, leads, running, spent_permille: 0, floor_ms }
    }

    /// What all operations took of what a record's share, thousandths; more than one record may take
    /// more than a thousand.
    pub fn shared_permille(&self) -> u64 {
        self.spent_permille + self.overlay.shared_permille()
    }

    /// Carries out a record that stands at `at` and that its lead's sequence admits, as `state`.
    ///
    /// # Errors
    /// Nothing of this application may be written then.
    pub fn take(
        &mut self,
        at: Moment,
        record: &Record,
        state: LeadState,
        over: OverBudget,
        observer: &mut dyn Observer,
    ) -> Result<(), ApplyError> {
        self.take_from(at, record, ((0, 0), state), over, observer)
    }

    /// As [`Self::take`], from the operation at (item, index) on: what is before it is done with.
    ///
    /// # Errors
    /// Nothing of this application may be written then.
    pub fn take_from(
        &mut self,
        at: Moment,
        record: &Record,
        (from, state): ((usize, usize), LeadState),
        over: OverBudget,
        observer: &mut dyn Observer,
    ) -> Result<(), ApplyError> {
        self.spent_permille += self.overlay.begin_record();
        self.reserve(record);
        self.run(at, record, from, Rules::of(record, over), observer)?;
        // First, because a session or lead may be forgotten and new in the same record.
        let now_ms = self.now_ms(at);
        if now_ms >= self.stamp.swept_ms + FORGET_INTERVAL_MS {
            self.forget(at);
            self.stamp.swept_ms = now_ms;
        }
        for (id, session) in self.running.drain() {
            self.overlay.put_owned(&system::session_key(id), system::encode_session(&session));
            self.sessions.put(id, session);
        }
        let lead = record.lead.lead;
        self.overlay.put_owned(&system::lead_key(lead), system::encode_lead(&state));
        self.leads.put(lead, state);
        Ok(())
    }

    /// Makes room at once for what most records come to: a row for each operation and item.
    fn reserve(&mut self, record: &Record) {
        let operations = |item: &Item| match item {
            Item::Operations { payloads, .. } => payloads.len(),
            Item::Fence { .. } | Item::Carried { .. } | Item::Difference { .. } => 0,
        };
        let items = record.items.len();
        self.overlay.reserve(record.items.iter().map(operations).sum::<usize>() + items + 2);
        self.running.reserve(items);
    }

    /// Has this cluster's own leads in the place of the leader's, and nobody is followed any more. What
    /// operations do goes by no log time before the leader's.
    ///
    /// One that was being levelled becomes what it is: rows before some key as the leader had them later
    /// than the others, which a large hash may be across. Keys are counted as they are, and versions go
    /// on from the highest.
    pub fn unfollow(&mut self, own_leads: &HashMap<LeadId, LeadState>, leader: &Leader) {
        let mut leader_ms = leader.position.link.log_time_ms;
        if let Some(levelling) = &leader.levelling {
            leader_ms = leader_ms.max(levelling.to.log_time_ms);
            self.stamp.sequence = self.stamp.sequence.max(levelling.sequence);
        }
        for id in self.leads.forget(|_| true) {
            self.overlay.delete(&system::lead_key(id));
        }
        for (id, state) in own_leads {
            self.overlay.delete(&system::own_lead_key(*id));
            self.overlay.put_owned(&system::lead_key(*id), system::encode_lead(state));
            self.leads.put(*id, *state);
        }
        self.overlay.delete(system::LEADER_KEY);
        self.floor_ms = self.floor_ms.max(leader_ms);
        self.overlay.put_owned(system::FLOOR_KEY, system::encode_floor(self.floor_ms));
    }

    /// The log time that operations go by.
    fn now_ms(&self, at: Moment) -> u64 {
        at.log_time_ms.max(self.floor_ms)
    }

    /// Deletes the rows of what the window of log time has passed over. Leads are known by the log's own
    /// time, which their stamps are of.
    fn forget(&mut self, at: Moment) {
        let now_ms = self.now_ms(at);
        for id in self.sessions.forget(|session| session.is_forgotten(now_ms)) {
            self.overlay.delete(&system::session_key(id));
        }
        for id in self.leads.forget(|lead| is_too_old(lead.seen_ms, at.log_time_ms)) {
            self.overlay.delete(&system::lead_key(id));
        }
        if self.floor_ms != 0 && self.floor_ms < at.log_time_ms {
            self.overlay.delete(system::FLOOR_KEY);
            self.floor_ms = 0;
        }
    }

    fn run(
        &mut self,
        at: Moment,
        record: &Record,
        (from_item, from_index): (usize, usize),
        rules: Rules,
        observer: &mut dyn Observer,
    ) -> Result<(), ApplyError> {
        let now_ms = self.now_ms(at);
        for (place, item) in record.items.iter().enumerate().skip(from_item) {
            match item {
                Item::Operations { session: id, first, acked, stamp_ms, payloads } => {
                    let mut session = self.session(*id);
                    session.acknowledge(*acked, now_ms);
                    let done = if place == from_item { from_index } else { 0 };
                    for ((number, payload), index) in (*first..).zip(payloads).zip(0..).skip(done) {
                        // Times count from the lead's stamp, which the log's rules keep right; that
                        // of the sender says only how late the operation is.
                        let stamps = (*stamp_ms, record.stamp_ms);
                        let effect =
                            self.operation(at, rules, &mut session, number, stamps, payload)?;
                        observer.operation((place, index), effect, &self.overlay, self.stamp.keys);
                    }
                    self.running.insert(*id, session);
                }
                Item::Fence { session: id, number, stamp_ms } => {
                    let mut session = self.session(*id);
                    let verdict = session.fence(*number, self.sent_ms(*stamp_ms), now_ms);
                    self.running.insert(*id, session);
                    let effect = Effect::Settled(verdict);
                    observer.operation((place, 0), effect, &self.overlay, self.stamp.keys);
                }
                Item::Carried { .. } | Item::Difference { .. } => {
                    let effect = Effect::Carried(Err(NotCarried::FollowsNobody));
                    observer.operation((place, 0), effect, &self.overlay, self.stamp.keys);
                }
            }
        }
        Ok(())
    }

    /// The session's state so far; that of a session never seen is empty.
    fn session(&mut self, id: SessionId) -> SessionState {
        let running = self.running.remove(&id);
        running.or_else(|| self.sessions.get(id).cloned()).unwrap_or_default()
    }

    /// When an operation was sent, for what may be known of it. Where a leader's clock was ahead of this
    /// cluster's, its clients' stamps lie before the floor, however far: none of them is too old for
    /// that. Whoever ran meanwhile is known until log time has passed the floor by the window, and what
    /// was sent before the floor is too old then.
    fn sent_ms(&self, stamp_ms: u64) -> u64 {
        stamp_ms.max(self.floor_ms)
    }

    fn operation(
        &mut self,
        at: Moment,
        rules: Rules,
        session: &mut SessionState,
        number: u64,
        (sent_ms, stamp_ms): (u64, u64),
        payload: &Bytes,
    ) -> Result<Effect, ApplyError> {
        let now_ms = self.now_ms(at);
        let sent_ms = self.sent_ms(sent_ms);
        match session.admit(number, sent_ms, now_ms) {
            Verdict::Fresh => {}
            verdict => return Ok(Effect::Settled(verdict)),
        }
        let operation = Operation::decode(payload).map_err(unreadable("an operation"))?;
        let mut context = WriteContext {
            now_ms,
            stamp_ms: stamp_ms.max(self.floor_ms),
            seed: at.lsn.0 ^ number,
            sequence: self.stamp.sequence,
            keys: self.stamp.keys,
            expires: self.stamp.expires,
            is_bounded: rules.is_bounded,
            default_expiry_ms: None,
        };
        self.overlay.begin(payload.len());
        let reply = match crate::operation::run(&operation, &mut self.overlay, &mut context) {
            Ok(reply) => self.overlay.end().map(|()| reply),
            Err(StoreError::Refused(refusal)) => {
                self.overlay.take_back();
                Err(refusal)
            }
            Err(error) => return Err(error.into()),
        };
        let reply = match reply {
            Ok(reply) => {
                self.stamp.sequence = context.sequence;
                self.stamp.keys = context.keys;
                self.stamp.expires = context.expires;
                reply
            }
            Err(refusal) if rules.over == OverBudget::Refuse => Reply::Error(refusal),
            Err(refusal) => return Err(ApplyError::OverBudget(refusal.message.into_owned())),
        };
        // A longer one is not kept: nothing more of it is needed than that it is longer.
        let result = crate::operation::encode_reply_within(&reply, RESULT_BYTES_MAX);
        session.finish(number, result, sent_ms, now_ms);
        Ok(Effect::Ran(reply))
    }
}
