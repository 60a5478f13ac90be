//! A reference replica: rows are a few numbers, operations add to them or check and set them,
//! and records are applied through the rules exactly as a real apply does it. It also counts
//! how often each operation ran, as rows, so that a restart takes the counts back with the rest.
//! What it should have done is judged by those who drive it.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use plimsoll_log::record::{self, Item, Record};
use plimsoll_log::rules::chain::{Chain, ChainFault, Position};
use plimsoll_log::rules::is_too_old;
use plimsoll_log::rules::leads::{self, LeadState, LeadVerdict};
use plimsoll_log::rules::sessions::{SessionState, Verdict};
use plimsoll_log::{Incarnation, LeadId, Lsn, SessionId};

pub const INCARNATION: Incarnation = Incarnation(0x706c_696d);

/// A way in which a careless apply would differ: each must be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mutation {
    #[default]
    None,
    /// Applies whatever record comes.
    SkipLeads,
    /// Runs whatever operation comes.
    SkipSessions,
    /// Answers a fence, but does not remember it.
    ForgetFences,
    /// Stamps its rows without the sessions.
    RestartWithoutSessions,
    /// Remembers a session for half the window.
    ForgetEarly,
}

/// What became of an item, or of one operation of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub session: SessionId,
    pub number: u64,
    pub of_fence: bool,
    pub verdict: Verdict,
    /// Of an operation that ran just now.
    pub result: Option<Bytes>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Applied {
    NoOp(LeadVerdict),
    Answers(Vec<Answer>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rows {
    pub values: BTreeMap<u8, u64>,
    /// How often each operation ran.
    pub runs: BTreeMap<(SessionId, u64), u32>,
}

#[derive(Clone, Debug)]
pub struct Replica {
    chain: Chain,
    /// From where on the chain can check anchors.
    resumed_at: Lsn,
    pub leads: BTreeMap<LeadId, LeadState>,
    pub sessions: BTreeMap<SessionId, SessionState>,
    pub rows: Rows,
    mutation: Mutation,
}

/// What two replicas at the same LSN must agree on.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Digest<'a> {
    position: Position,
    leads: Vec<(LeadId, LeadState)>,
    sessions: Vec<(SessionId, &'a SessionState)>,
    rows: &'a Rows,
}

impl Replica {
    pub fn new(mutation: Mutation) -> Self {
        Self {
            chain: Chain::new(INCARNATION),
            resumed_at: Lsn(0),
            leads: BTreeMap::new(),
            sessions: BTreeMap::new(),
            rows: Rows::default(),
            mutation,
        }
    }

    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    pub fn applied(&self) -> Lsn {
        self.chain.position().lsn
    }

    pub fn log_time_ms(&self) -> u64 {
        self.chain.position().log_time_ms
    }

    /// The replica that a restart finds in the rows stamped now.
    pub fn restarted(&self) -> Self {
        let position = self.chain.position();
        let restored = |state: &SessionState| {
            SessionState::from_parts(
                state.last,
                state.floor,
                state.seen_ms,
                state.outcomes().clone(),
            )
        };
        let sessions = if self.mutation == Mutation::RestartWithoutSessions {
            BTreeMap::new()
        } else {
            self.sessions.iter().map(|(id, state)| (*id, restored(state))).collect()
        };
        Self {
            chain: Chain::resume(INCARNATION, position),
            resumed_at: position.lsn,
            sessions,
            ..self.clone()
        }
    }

    /// Deletes what is due to be forgotten; whether and when is each replica's own affair.
    pub fn sweep(&mut self) {
        let log_time_ms = self.log_time_ms();
        self.leads.retain(|_, state| !is_too_old(state.seen_ms, log_time_ms));
        self.sessions.retain(|_, state| !state.is_forgotten(log_time_ms));
    }

    pub fn digest(&self) -> Digest<'_> {
        let log_time_ms = self.log_time_ms();
        let leads = self.leads.iter().filter(|(_, state)| !is_too_old(state.seen_ms, log_time_ms));
        let sessions = self.sessions.iter().filter(|(_, state)| !state.is_forgotten(log_time_ms));
        Digest {
            position: self.chain.position(),
            leads: leads.map(|(id, state)| (*id, *state)).collect(),
            sessions: sessions.map(|(id, state)| (*id, state)).collect(),
            rows: &self.rows,
        }
    }

    /// Applies what the log holds at `lsn`; passes over what was applied before.
    pub fn apply(&mut self, lsn: Lsn, bytes: &Bytes) -> Result<Option<Applied>, ChainFault> {
        if lsn <= self.applied() {
            return Ok(None);
        }
        let record = Record::decode(bytes).unwrap();
        let checksum = record::checksum(bytes).unwrap();
        self.apply_record(lsn, checksum, &record).map(Some)
    }

    /// As [`Self::apply`], for a record already decoded that comes next.
    pub fn apply_record(
        &mut self,
        lsn: Lsn,
        checksum: u64,
        record: &Record,
    ) -> Result<Applied, ChainFault> {
        let position = self.chain.advance(lsn, checksum, record.stamp_ms, &record.anchor)?;
        let log_time_ms = position.log_time_ms;
        let known = self.leads.get(&record.lead.lead);
        let verdict = leads::admit(known, &record.lead, record.stamp_ms, log_time_ms);
        if let LeadVerdict::Take(state) = verdict {
            self.leads.insert(record.lead.lead, state);
        } else if self.mutation != Mutation::SkipLeads {
            return Ok(Applied::NoOp(verdict));
        }
        let mut answers = Vec::new();
        for item in &record.items {
            self.apply_item(item, log_time_ms, &mut answers);
        }
        Ok(Applied::Answers(answers))
    }

    fn apply_item(&mut self, item: &Item, log_time_ms: u64, answers: &mut Vec<Answer>) {
        let (Item::Operations { session, .. } | Item::Fence { session, .. }) = *item else {
            return;
        };
        let mut state = self.sessions.remove(&session).unwrap_or_default();
        if self.mutation == Mutation::ForgetEarly
            && is_too_old(
                state.seen_ms.saturating_sub(plimsoll_log::rules::WINDOW_MS / 2),
                log_time_ms,
            )
        {
            state = SessionState::default();
        }
        match item {
            Item::Operations { first, acked, stamp_ms, payloads, .. } => {
                state.acknowledge(*acked, log_time_ms);
                for (number, payload) in (*first..).zip(payloads) {
                    let mut verdict = state.admit(number, *stamp_ms, log_time_ms);
                    let fresh = verdict == Verdict::Fresh;
                    let mut result = None;
                    if fresh || self.mutation == Mutation::SkipSessions {
                        let value = self.rows.run(session, number, payload);
                        if fresh {
                            state.finish(number, value.clone(), *stamp_ms, log_time_ms);
                        }
                        verdict = Verdict::Fresh;
                        result = Some(value);
                    }
                    answers.push(Answer { session, number, of_fence: false, verdict, result });
                }
            }
            Item::Fence { number, stamp_ms, .. } => {
                let before = state.clone();
                let verdict = state.fence(*number, *stamp_ms, log_time_ms);
                if self.mutation == Mutation::ForgetFences {
                    state = before;
                }
                let (number, result) = (*number, None);
                answers.push(Answer { session, number, of_fence: true, verdict, result });
            }
            Item::Carried { .. } | Item::Difference { .. } => {}
        }
        if state != SessionState::default() {
            self.sessions.insert(session, state);
        }
    }
}

impl Rows {
    /// Payload: row, what it must be for the new value to be set or 0xff to add, number.
    fn run(&mut self, session: SessionId, number: u64, payload: &Bytes) -> Bytes {
        *self.runs.entry((session, number)).or_default() += 1;
        let value = self.values.entry(payload[0]).or_default();
        let result = if payload[1] == 0xff {
            *value += u64::from(payload[2]);
            *value
        } else if *value == u64::from(payload[1]) {
            *value = u64::from(payload[2]);
            1
        } else {
            0
        };
        Bytes::copy_from_slice(&result.to_le_bytes())
    }
}

impl PartialEq for Replica {
    fn eq(&self, other: &Self) -> bool {
        self.resumed_at == other.resumed_at && self.digest() == other.digest()
    }
}

impl Hash for Replica {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        self.resumed_at.hash(hasher);
        self.digest().hash(hasher);
    }
}
