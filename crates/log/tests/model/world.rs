//! A small world around the rules: two nodes, each with a replica and a lead, the coordinators
//! of a few client sessions, one log, and everything that can happen to them. It says what can
//! happen next and what the world is like afterwards; it judges nothing.
//!
//! A record once sent may land in the log at any later time, any number of times, or never: so
//! a delay, a loss, a duplicate, a resend from a gap and an append that surfaces after its lead
//! is gone are all the same action, [`Action::Land`]. A restart finds the rows as they were
//! stamped at any LSN applied before, and takes the lead with it.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_log::record::{self, Item, LeadStamp, Record};
use plimsoll_log::rules::sessions::{Outcome, Verdict};
use plimsoll_log::rules::{WINDOW_MS, leads::LeadVerdict};
use plimsoll_log::{LeadId, Lsn, PartitionId, SessionId};

use crate::replica::{Answer, Applied, Mutation, Replica};

/// By how much the second node's clock is behind: as much as is tolerated.
const LAG_MS: u64 = 500;
/// One tick makes too old what both clocks saw before it, but not all that only one did.
const TICK_MS: u64 = WINDOW_MS + LAG_MS / 2;

/// How much may happen.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub sessions: u64,
    /// Of each session.
    pub operations: u64,
    /// Records sent.
    pub records: usize,
    /// Records in the log.
    pub entries: usize,
    /// How often one record may land.
    pub landings: u8,
    pub ticks: u8,
    /// How often coordinators lose patience with a lead.
    pub timeouts: u8,
    pub restarts: u8,
    /// How often leads give up a sequence for a new epoch.
    pub give_ups: u8,
}

/// What a coordinator knows of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Known {
    /// It ran with this result.
    Done(Bytes),
    /// It did not run and never will.
    Never,
    /// Sent, or a fence is; no answer yet.
    Waiting,
    /// Too late to tell.
    Lost,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    pub stamp_ms: u64,
    pub known: Known,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Coordinator {
    /// The node that leads for it.
    node: usize,
    /// That node's run when it began to.
    lead: LeadId,
    /// Numbers from 1.
    pub operations: Vec<Operation>,
}

#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Node {
    pub replica: Arc<Replica>,
    /// How many records of the log it has applied.
    pub applied: usize,
    pub fault: Option<String>,
    lead: LeadId,
    epoch: u32,
    n: u64,
    /// What the lead sent and has no answer for, in order.
    waiting: Vec<Item>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Sent {
    record: Arc<(u64, Record)>,
    landings: u8,
}

#[derive(Clone)]
pub struct World {
    now_ms: u64,
    sent: Vec<Sent>,
    /// Places in `sent`.
    log: Vec<usize>,
    pub nodes: [Node; 2],
    pub coordinators: Vec<Coordinator>,
    /// Ticks, timeouts, restarts and give-ups so far.
    used: [u8; 4],
    /// What has been seen that a state does not show: a no-op for a gap, for a stale epoch.
    pub seen: Seen,
    /// The replica that read the first i records without ever restarting; follows from the log.
    history: Vec<Arc<Replica>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    pub gap: bool,
    pub stale: bool,
    pub too_old: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A session's next operation goes to its lead.
    Send(usize),
    /// The coordinator turns to the other node, to fence what has no answer.
    Fence(usize),
    /// The coordinator turns to the other node, to have what has no answer done there.
    Retry(usize),
    /// The lead gives up its sequence and sends what has no answer in a new epoch.
    GiveUp(usize),
    /// A record comes to stand in the log.
    Land(usize),
    /// A node applies the next record.
    Apply(usize),
    /// A node restarts with the rows of after so many records.
    Restart(usize, usize),
    /// Much time passes.
    Tick,
}

impl World {
    pub fn new(limits: &Limits, mutation: Mutation) -> Self {
        let replica = Arc::new(Replica::new(mutation));
        let node = |index: u64| Node {
            replica: Arc::clone(&replica),
            applied: 0,
            fault: None,
            lead: LeadId(index),
            epoch: 0,
            n: 0,
            waiting: Vec::new(),
        };
        let coordinator = |node: u64| Coordinator {
            node: usize::try_from(node).unwrap(),
            lead: LeadId(node),
            operations: Vec::new(),
        };
        Self {
            now_ms: 1_000_000,
            sent: Vec::new(),
            log: Vec::new(),
            nodes: [node(0), node(1)],
            coordinators: (0..limits.sessions).map(|index| coordinator(index % 2)).collect(),
            used: [0; 4],
            seen: Seen::default(),
            history: vec![replica.clone()],
        }
    }

    /// What a replica is that read the first `count` records, and never restarted.
    pub fn straight(&self, count: usize) -> &Replica {
        &self.history[count]
    }

    /// What a replica is that read all of the log, and never restarted.
    pub fn whole(&self) -> &Replica {
        self.history.last().unwrap()
    }

    pub fn actions(&self, limits: &Limits, actions: &mut Vec<Action>) {
        let may_send = self.sent.len() < limits.records;
        for (index, coordinator) in self.coordinators.iter().enumerate() {
            let waits = coordinator.waits();
            // A connection that broke is left only after what it had in flight is settled.
            let same_run = coordinator.lead == self.nodes[coordinator.node].lead;
            if may_send
                && (coordinator.operations.len() as u64) < limits.operations
                && (same_run || !waits)
            {
                actions.push(Action::Send(index));
            }
            if may_send && waits && self.used[1] < limits.timeouts {
                actions.extend([Action::Fence(index), Action::Retry(index)]);
            }
        }
        for (index, node) in self.nodes.iter().enumerate() {
            if may_send && !node.waiting.is_empty() && self.used[3] < limits.give_ups {
                actions.push(Action::GiveUp(index));
            }
            if node.applied < self.log.len() && node.fault.is_none() {
                actions.push(Action::Apply(index));
            }
            if self.used[2] < limits.restarts && node.n > 0 {
                actions.extend((0..=node.applied).map(|count| Action::Restart(index, count)));
            }
        }
        if self.log.len() < limits.entries {
            let may_land = |sent: &Sent| sent.landings < limits.landings;
            let places = self.sent.iter().enumerate().filter(|(_, sent)| may_land(sent));
            actions.extend(places.map(|(place, _)| Action::Land(place)));
        }
        if self.used[0] < limits.ticks && !self.sent.is_empty() {
            actions.push(Action::Tick);
        }
    }

    pub fn step(&mut self, action: &Action) {
        match *action {
            Action::Send(index) => self.send_next(index),
            Action::Fence(index) => self.turn(index, true),
            Action::Retry(index) => self.turn(index, false),
            Action::GiveUp(index) => {
                self.used[3] += 1;
                self.nodes[index].epoch += 1;
                self.nodes[index].n = 0;
                let items = self.nodes[index].waiting.clone();
                self.send(index, items);
            }
            Action::Land(place) => {
                self.sent[place].landings += 1;
                self.log.push(place);
                let mut replica = Replica::clone(self.whole());
                let (lsn, sent) = self.entry(self.log.len() - 1);
                // A fault shows in the nodes.
                let _ = replica.apply_record(lsn, sent.0, &sent.1);
                self.history.push(Arc::new(replica));
            }
            Action::Apply(index) => self.apply(index),
            Action::Restart(index, count) => self.restart(index, count),
            Action::Tick => {
                self.used[0] += 1;
                self.now_ms += TICK_MS;
            }
        }
    }

    fn clock_ms(&self, node: usize) -> u64 {
        self.now_ms - if node == 1 { LAG_MS } else { 0 }
    }

    fn send_next(&mut self, index: usize) {
        let coordinator = &mut self.coordinators[index];
        coordinator.lead = self.nodes[coordinator.node].lead;
        let acked = coordinator.acked();
        let operation = Operation { stamp_ms: self.now_ms, known: Known::Waiting };
        coordinator.operations.push(operation);
        let first = coordinator.operations.len() as u64;
        let node = coordinator.node;
        let item = operations_item(index, first, acked, self.now_ms, 1);
        self.nodes[node].waiting.push(item.clone());
        self.send(node, vec![item]);
    }

    /// All that has no answer is settled in one record of the other node.
    fn turn(&mut self, index: usize, fence: bool) {
        self.used[1] += 1;
        let coordinator = &mut self.coordinators[index];
        coordinator.node = 1 - coordinator.node;
        let node = coordinator.node;
        coordinator.lead = self.nodes[node].lead;
        let acked = coordinator.acked();
        let mut items = Vec::new();
        for (number, operation) in (1..).zip(&coordinator.operations) {
            if operation.known != Known::Waiting {
                continue;
            }
            let stamp_ms = operation.stamp_ms;
            items.push(if fence {
                Item::Fence { session: SessionId(index as u64), number, stamp_ms }
            } else {
                operations_item(index, number, acked, stamp_ms, 1)
            });
        }
        self.nodes[node].waiting.extend(items.iter().cloned());
        self.send(node, items);
    }

    fn send(&mut self, node: usize, items: Vec<Item>) {
        let stamp_ms = self.clock_ms(node);
        let node = &mut self.nodes[node];
        node.n += 1;
        let record = Record {
            partition: PartitionId { table: 1, ordinal: 0 },
            version: 1,
            lead: LeadStamp { lead: node.lead, epoch: node.epoch, n: node.n },
            stamp_ms,
            anchor: node.replica.chain().anchor(),
            items,
        };
        let checksum = record::checksum(&record.encode()).unwrap();
        self.sent.push(Sent { record: Arc::new((checksum, record)), landings: 0 });
    }

    /// Positions leave gaps, as an engine's may.
    fn entry(&self, place: usize) -> (Lsn, Arc<(u64, Record)>) {
        let lsn = Lsn(2 * place as u64 + 1);
        (lsn, Arc::clone(&self.sent[self.log[place]].record))
    }

    fn apply(&mut self, index: usize) {
        let (lsn, sent) = self.entry(self.nodes[index].applied);
        let (checksum, record) = &*sent;
        let node = &mut self.nodes[index];
        let replica = Arc::make_mut(&mut node.replica);
        match replica.apply_record(lsn, *checksum, record) {
            Err(fault) => node.fault = Some(fault.to_string()),
            Ok(applied) => {
                node.applied += 1;
                match applied {
                    Applied::NoOp(verdict) => self.seen.no_op(&verdict),
                    Applied::Answers(answers) => {
                        if record.lead.lead == node.lead {
                            self.answer(index, &answers);
                        }
                    }
                }
            }
        }
    }

    /// The lead answers with the result of its own apply.
    fn answer(&mut self, index: usize, answers: &[Answer]) {
        for answer in answers {
            let was = |item: &Item| match item {
                Item::Operations { session, first, .. } => {
                    !answer.of_fence && (*session, *first) == (answer.session, answer.number)
                }
                Item::Fence { session, number, .. } => {
                    answer.of_fence && (*session, *number) == (answer.session, answer.number)
                }
                Item::Carried { .. } | Item::Difference { .. } => false,
            };
            self.nodes[index].waiting.retain(|item| !was(item));
            let session = usize::try_from(answer.session.0).unwrap();
            let place = usize::try_from(answer.number - 1).unwrap();
            let known = &mut self.coordinators[session].operations[place].known;
            if *known != Known::Waiting {
                continue;
            }
            *known = match &answer.verdict {
                Verdict::Fresh => match &answer.result {
                    Some(result) => Known::Done(result.clone()),
                    None => Known::Never,
                },
                Verdict::Known(Outcome::Ran(result)) => Known::Done(result.clone()),
                Verdict::Known(Outcome::Fenced) | Verdict::Superseded => Known::Never,
                Verdict::Known(Outcome::RanUnkept) | Verdict::Forgotten | Verdict::TooOld => {
                    Known::Lost
                }
            };
        }
    }

    fn restart(&mut self, index: usize, count: usize) {
        self.used[2] += 1;
        let replica = Arc::new(self.straight(count).restarted());
        let lead = LeadId(10 * u64::from(self.used[2]) + index as u64);
        let (epoch, n, waiting) = (0, 0, Vec::new());
        self.nodes[index] = Node { replica, applied: count, fault: None, lead, epoch, n, waiting };
    }
}

impl Coordinator {
    fn waits(&self) -> bool {
        self.operations.iter().any(|operation| operation.known == Known::Waiting)
    }

    /// All up to this number is settled.
    fn acked(&self) -> u64 {
        let settled = |operation: &&Operation| operation.known != Known::Waiting;
        self.operations.iter().take_while(settled).count() as u64
    }
}

impl Seen {
    fn no_op(&mut self, verdict: &LeadVerdict) {
        self.gap |= matches!(verdict, LeadVerdict::Gap { .. });
        self.stale |= *verdict == LeadVerdict::StaleEpoch;
        self.too_old |= *verdict == LeadVerdict::TooOld;
    }
}

/// The first operation of a session adds to the row that all share, the second sets it if it is
/// what only the first may have left.
fn operations_item(index: usize, first: u64, acked: u64, stamp_ms: u64, count: usize) -> Item {
    let payload = |number: u64| match number {
        1 => Bytes::from_static(&[0, 0xff, 3]),
        _ => Bytes::from_static(&[0, 3, 7]),
    };
    let payloads = (first..).take(count).map(payload).collect();
    Item::Operations { session: SessionId(index as u64), first, acked, stamp_ms, payloads }
}

impl PartialEq for World {
    fn eq(&self, other: &Self) -> bool {
        (self.now_ms, &self.sent, &self.log, &self.nodes)
            == (other.now_ms, &other.sent, &other.log, &other.nodes)
            && (&self.coordinators, self.used, self.seen)
                == (&other.coordinators, other.used, other.seen)
    }
}

impl Hash for World {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        (self.now_ms, &self.sent, &self.log, &self.nodes).hash(hasher);
        (&self.coordinators, self.used, self.seen).hash(hasher);
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "log {:?}, coordinators {:?}", self.log, self.coordinators)?;
        for node in &self.nodes {
            writeln!(f, "node {} of {}: {:?}", node.lead, node.applied, node.replica.digest())?;
        }
        Ok(())
    }
}
