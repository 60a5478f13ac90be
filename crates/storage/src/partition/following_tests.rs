//! Tests of a replica that follows: whatever history its leader has, however its records are carried,
//! and wherever it is killed, it contains what the leader contained at the same position.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::PathBuf;

use bytes::Bytes;
use plimsoll_log::record::{self, Anchor, Item, LeadStamp, Record};
use plimsoll_log::rules::WINDOW_MS;
use plimsoll_log::rules::carried::{Batch, Link};
use plimsoll_log::rules::chain::{Chain, Position};
use plimsoll_log::{Incarnation, LeadId, Lsn, PartitionId, SessionId};
use proptest::prelude::*;

use super::tests::resources;
use super::*;
use crate::operation::{Action, Condition, DocumentWrite, Operation};
use crate::rows::touch::{Touch, Touches};
use crate::{Argv, ErrorKind, ErrorReply, Reply};

const LEADER: PartitionId = PartitionId { table: 70, ordinal: 2 };
const FOLLOWER: PartitionId = PartitionId { table: 8, ordinal: 2 };
const LEADERS_LOG: Incarnation = Incarnation(1);
const OWN_LOG: Incarnation = Incarnation(2);
const START_MS: u64 = 1_700_000_000_000;
/// The follower's clocks are so far behind the leader's.
const BEHIND_MS: u64 = 30_000;
/// When the follower's log began, by its clock.
const BEGIN_MS: u64 = START_MS - 4 * WINDOW_MS;

fn link(position: Position) -> Link {
    let Position { lsn, hash, log_time_ms } = position;
    Link { lsn, hash, log_time_ms }
}

/// A log of either side.
pub(super) struct TestLog {
    pub chain: Chain,
    incarnation: Incarnation,
    entries: Vec<(Position, Record)>,
}

impl TestLog {
    fn new(incarnation: Incarnation) -> Self {
        Self { chain: Chain::new(incarnation), incarnation, entries: Vec::new() }
    }

    fn append(&mut self, partition: PartitionId, lead: LeadStamp, stamp_ms: u64, items: Vec<Item>) {
        let anchor: Anchor = self.chain.anchor();
        let version = record::CARRIED_SINCE;
        let record = Record { partition, version, lead, stamp_ms, anchor, items };
        let checksum = record::checksum(&record.encode()).unwrap();
        let lsn = self.chain.position().lsn.next();
        let position = self.chain.advance(lsn, checksum, stamp_ms, &anchor).unwrap();
        self.entries.push((position, record));
    }

    fn open(&self, id: PartitionId, dir: &std::path::Path) -> Replica {
        let genesis = Chain::new(self.incarnation).position();
        Replica::open(id, dir, &resources(), self.incarnation, genesis).unwrap()
    }
}

/// A leader's replica, its log, and what it contained at each position.
pub(super) struct Leaders {
    pub log: TestLog,
    pub replica: Replica,
    /// By position in the leader's log.
    pub contents: HashMap<Lsn, u64>,
    pub stamp_ms: u64,
    leads: [LeadStamp; 2],
    numbers: [u64; 3],
    _dir: tempfile::TempDir,
}

impl Leaders {
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = TestLog::new(LEADERS_LOG);
        let mut replica = log.open(LEADER, dir.path());
        replica.set_documents(true).unwrap();
        let contents = HashMap::from([(Lsn(0), replica.content_digest().unwrap())]);
        let lead = |id| LeadStamp { lead: LeadId(id), epoch: 1, n: 0 };
        let leads = [lead(5), lead(6)];
        let (stamp_ms, numbers) = (START_MS, [0; 3]);
        Self { log, replica, contents, stamp_ms, leads, numbers, _dir: dir }
    }

    pub fn step(&mut self, step: &Step) {
        match step {
            Step::Pass(ms) => self.stamp_ms += ms,
            Step::Other => {
                let partition = PartitionId { ordinal: 0, ..LEADER };
                let lead = LeadStamp { lead: LeadId(77), epoch: 1, n: 1 };
                self.log.append(partition, lead, self.stamp_ms, Vec::new());
                self.replica.pass(self.log.chain.position());
                self.note();
            }
            Step::Run { lead, skip, session, operations } => {
                let at = &mut self.leads[*lead];
                // A number left out makes what follows no-ops until the next epoch.
                at.n += 1 + u64::from(*skip == 1);
                if *skip == 2 {
                    (at.epoch, at.n) = (at.epoch + 1, 1);
                }
                let lead = *at;
                let number = &mut self.numbers[*session];
                let first = *number + 1;
                *number += operations.len() as u64;
                let item = Item::Operations {
                    session: SessionId(*session as u64),
                    first,
                    acked: first.saturating_sub(4),
                    stamp_ms: self.stamp_ms,
                    payloads: operations.iter().map(Operation::encode).collect(),
                };
                self.record(lead, vec![item]);
            }
            Step::Fence { session } => {
                self.leads[0].n += 1;
                let (session, number) = (SessionId(*session as u64), self.numbers[*session] + 2);
                self.record(
                    self.leads[0],
                    vec![Item::Fence { session, number, stamp_ms: self.stamp_ms }],
                );
            }
        }
    }

    fn record(&mut self, lead: LeadStamp, items: Vec<Item>) {
        self.log.append(LEADER, lead, self.stamp_ms, items);
        let (position, record) = self.log.entries.last().unwrap();
        self.replica.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
        self.note();
    }

    fn note(&mut self) {
        let lsn = self.replica.stamp().position.lsn;
        self.contents.insert(lsn, self.replica.content_digest().unwrap());
    }

    /// Everything of the partition in (after, to].
    pub fn batch(&self, after: Lsn, to: Lsn) -> Item {
        let position = |lsn: Lsn| match lsn.0.checked_sub(1) {
            None => Chain::new(LEADERS_LOG).position(),
            Some(at) => self.log.entries[usize::try_from(at).unwrap()].0,
        };
        let within = |position: &Position| position.lsn > after && position.lsn <= to;
        let ours = self.log.entries.iter().filter(|(at, it)| within(at) && it.partition == LEADER);
        let (records, encoded) = ours.map(|(at, it)| (link(*at), it.encode())).unzip();
        let (after, to) = (link(position(after)), link(position(to)));
        let batch = Batch { incarnation: LEADERS_LOG, after, records, to };
        Item::Carried { batch, records: encoded }
    }
}

/// A replica of the follower, which a test can kill.
pub(super) struct Follower {
    log: TestLog,
    replica: Option<Replica>,
    epoch: u32,
    n: u64,
    /// When it appended last, ms.
    last_ms: u64,
    dir: PathBuf,
    /// The replica as it began.
    begin: PathBuf,
    _dir: tempfile::TempDir,
}

impl Follower {
    /// From a copy of the leader's replica as it is.
    pub fn new(leader: &mut Leaders) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("copy");
        leader.replica.mark().unwrap();
        leader.replica.store().checkpoint(&path).unwrap();
        let mut log = TestLog::new(OWN_LOG);
        for n in 1..=3 {
            let lead = LeadStamp { lead: LeadId(50), epoch: 1, n };
            log.append(PartitionId { ordinal: 9, ..FOLLOWER }, lead, BEGIN_MS, vec![]);
        }
        let mut replica = log.open(FOLLOWER, &path);
        let at = (OWN_LOG, log.chain.position());
        replica.adopt_leader((LEADER, LEADERS_LOG), at, ToIndex::All).unwrap();
        replica.store().flush().unwrap();
        let begin = dir.path().join("begin");
        replica.store().checkpoint(&begin).unwrap();
        let (replica, epoch, n, last_ms) = (Some(replica), 1, 0, BEGIN_MS);
        Self { log, replica, epoch, n, last_ms, dir: path, begin, _dir: dir }
    }

    pub fn replica(&mut self) -> &mut Replica {
        self.replica.as_mut().unwrap()
    }

    pub fn append(&mut self, stamp_ms: u64, items: Vec<Item>) -> Result<Vec<Effect>, ApplyError> {
        if stamp_ms > self.last_ms + WINDOW_MS {
            // It may be forgotten meanwhile.
            (self.epoch, self.n) = (self.epoch + 1, 0);
        }
        self.last_ms = stamp_ms;
        self.n += 1;
        let lead = LeadStamp { lead: LeadId(5), epoch: self.epoch, n: self.n };
        self.log.append(FOLLOWER, lead, stamp_ms, items);
        self.apply()
    }

    /// Applies all of its log that it lacks.
    fn apply(&mut self) -> Result<Vec<Effect>, ApplyError> {
        struct Effects(Vec<Effect>);
        impl Observer for Effects {
            fn operation(&mut self, _: (usize, usize), effect: Effect, _: &Overlay<'_>, _: u64) {
                self.0.push(effect);
            }
        }
        let mut effects = Effects(Vec::new());
        let Self { log, replica: Some(replica), .. } = self else { panic!("it was killed") };
        for (position, record) in &log.entries {
            if position.lsn > replica.stamp().position.lsn && record.partition == FOLLOWER {
                replica.apply(*position, record, OverBudget::Refuse, &mut effects)?;
            }
        }
        Ok(effects.0)
    }

    /// Goes back to what was flushed last, and comes forward again from its log.
    pub fn restart(&mut self) {
        self.replica = None;
        let replica = self.log.open(FOLLOWER, &self.dir);
        self.replica = Some(replica);
        self.apply().unwrap();
    }

    /// Goes back to its beginning, and comes forward with a restart after each record.
    pub fn restart_at_each(&mut self) {
        self.replica = None;
        let path = self.begin.with_extension(self.log.entries.len().to_string());
        self.log.open(FOLLOWER, &self.begin).store().checkpoint(&path).unwrap();
        self.dir = path;
        for (position, record) in &self.log.entries {
            if record.partition == FOLLOWER {
                let mut replica = self.log.open(FOLLOWER, &self.dir);
                replica.apply(*position, record, OverBudget::Refuse, &mut ()).unwrap();
                replica.mark().unwrap();
                replica.store().flush().unwrap();
            }
        }
        self.replica = Some(self.log.open(FOLLOWER, &self.dir));
    }

    pub fn at(&mut self) -> Lsn {
        self.replica().leader().unwrap().position.link.lsn
    }

    pub fn content(&mut self) -> u64 {
        self.replica().content_digest().unwrap()
    }
}

/// What happens at the leader.
#[derive(Clone, Debug)]
pub(super) enum Step {
    /// Time passes, ms.
    Pass(u64),
    /// A record of another partition of the group.
    Other,
    /// `skip`: 0 the lead's next record, 1 one was lost before it, 2 it begins anew.
    Run {
        lead: usize,
        skip: u8,
        session: usize,
        operations: Vec<Operation>,
    },
    Fence {
        session: usize,
    },
}

pub(super) fn command(text: &str) -> Operation {
    Operation::Command(Argv::of(&text.split(' ').collect::<Vec<_>>()))
}

fn operation() -> impl Strategy<Value = Operation> {
    const COMMANDS: [&str; 24] = [
        "SET a 1",
        "SET a 2 PX 700",
        "SET b long-value XX",
        "INCR n",
        "INCRBYFLOAT n 0.5",
        "APPEND a tail",
        "DEL a b",
        "EXPIRE a 3",
        "PERSIST a",
        "GETDEL b",
        "HSET h f 1 g 2",
        "HSET h2 f 1",
        "HDEL h f g",
        "HINCRBY h f 3",
        "HPEXPIRE h 900 FIELDS 1 f",
        "PEXPIRE h 2500",
        "COPY h h2 REPLACE",
        "RENAME a b",
        "SET c 1 EX 700",
        "HRANDFIELD h",
        "SETRANGE a 5 x",
        "MSET a 1 b 2",
        "FLUSHDB",
        "INCR h",
    ];
    let document = (0u8..4, 0u8..3, 0u64..3).prop_map(|(id, action, seq_no)| {
        let id = Bytes::from(format!("d{id}"));
        let source = Bytes::from_static(b"{\"n\":1}");
        let (action, condition) = match action {
            0 => (Action::Index(source), Condition::None),
            1 => (Action::Create(source), Condition::None),
            _ => (Action::Delete, Condition::IfSequence { seq_no, primary_term: 1 }),
        };
        let key = id.clone();
        Operation::Document(DocumentWrite { key, id, action, condition, mapping_version: 1 })
    });
    let watched = prop::collection::vec((Just(Bytes::from_static(b"a")), 0u64..9), 0..2);
    let transaction = (watched, 0..COMMANDS.len()).prop_map(|(watched, at)| {
        let commands = vec![Argv::of(&["INCR", "n"]), Argv::of(&words(COMMANDS[at]))];
        Operation::Transaction { watched, commands }
    });
    prop_oneof![
        6 => (0..COMMANDS.len()).prop_map(|at| command(COMMANDS[at])),
        2 => document,
        1 => transaction,
        1 => (1u64..5).prop_map(|limit| Operation::Sweep { limit }),
    ]
}

fn words(text: &str) -> Vec<&str> {
    text.split(' ').collect()
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let operations = prop::collection::vec(operation(), 1..4);
    let skip = prop_oneof![8 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8)];
    prop_oneof![
        2 => prop_oneof![1u64..1000, Just(61_000), Just(WINDOW_MS + 1)].prop_map(Step::Pass),
        1 => Just(Step::Other),
        6 => (0usize..2, skip, 0usize..3, operations).prop_map(
            |(lead, skip, session, operations)| Step::Run { lead, skip, session, operations }),
        1 => (0usize..3).prop_map(|session| Step::Fence { session }),
    ]
}

/// How the follower gets on.
#[derive(Clone, Debug)]
pub(super) enum Carry {
    /// A batch from so many positions before where it stands, of so many positions.
    Batch {
        before: u64,
        positions: u64,
    },
    /// Something is left out before it.
    Gap,
    Marker,
    Flush,
    Restart,
    /// Its own log's time passes, ms.
    Pass(u64),
}

pub(super) fn carry() -> impl Strategy<Value = Carry> {
    prop_oneof![
        6 => (0u64..4, 1u64..6).prop_map(|(before, positions)| Carry::Batch { before, positions }),
        1 => Just(Carry::Gap),
        1 => Just(Carry::Marker),
        1 => Just(Carry::Flush),
        1 => Just(Carry::Restart),
        1 => prop_oneof![Just(5u64), Just(WINDOW_MS / 2)].prop_map(Carry::Pass),
    ]
}

/// Has a follower that begins after some of a leader's history carry the rest of it.
pub(super) fn follow(before: &[Step], after: &[Step], carries: Vec<Carry>) {
    let mut leader = Leaders::new();
    before.iter().for_each(|step| leader.step(step));
    let mut follower = Follower::new(&mut leader);
    after.iter().for_each(|step| leader.step(step));
    let last = leader.log.chain.position().lsn.0;
    let mut own_ms = leader.stamp_ms - BEHIND_MS;
    let check = |follower: &mut Follower, leader: &Leaders| {
        assert_eq!(follower.content(), leader.contents[&follower.at()]);
    };
    check(&mut follower, &leader);
    for carry in carries {
        let at = follower.at().0;
        match carry {
            Carry::Batch { before, positions } => {
                let from = at.saturating_sub(before);
                let to = (from + positions).min(last);
                if to > from {
                    let batch = leader.batch(Lsn(from), Lsn(to));
                    follower.append(own_ms, vec![batch]).unwrap();
                }
            }
            Carry::Gap if at + 1 < last => {
                let batch = leader.batch(Lsn(at + 1), Lsn(last));
                follower.append(own_ms, vec![batch]).unwrap();
                assert_eq!(follower.at(), Lsn(at), "a gap is not taken");
            }
            Carry::Gap => {}
            Carry::Marker => drop(follower.append(own_ms, vec![]).unwrap()),
            Carry::Flush => {
                follower.replica().mark().unwrap();
                follower.replica().store().flush().unwrap();
            }
            Carry::Restart => follower.restart(),
            Carry::Pass(ms) => own_ms += ms,
        }
        check(&mut follower, &leader);
    }
    // A batch may be taken in part.
    while follower.at().0 < last {
        let batch = leader.batch(follower.at(), Lsn(last));
        follower.append(own_ms, vec![batch]).unwrap();
        check(&mut follower, &leader);
    }
    check(&mut follower, &leader);
    let digest = follower.replica().digest().unwrap();
    follower.restart();
    assert_eq!(follower.replica().digest().unwrap(), digest, "replicas of one log agree");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn contains_what_its_leader_contained_at_the_same_position(
        before in prop::collection::vec(step(), 0..20),
        after in prop::collection::vec(step(), 1..40),
        carries in prop::collection::vec(carry(), 1..30),
    ) {
        follow(&before, &after, carries);
    }
}

/// A leader with a few records, and a follower from its beginning.
fn pair() -> (Leaders, Follower) {
    let mut leader = Leaders::new();
    let follower = Follower::new(&mut leader);
    for at in 0..4 {
        let operations = vec![command(&format!("SET k{at} v"))];
        leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations });
    }
    (leader, follower)
}

#[test]
fn a_write_of_its_own_changes_nothing() {
    let (leader, mut follower) = pair();
    let before = follower.content();
    let item = Item::Operations {
        session: SessionId(3),
        first: 1,
        acked: 0,
        stamp_ms: START_MS,
        payloads: vec![command("SET k0 own").encode(), command("FLUSHDB").encode()],
    };
    let effects = follower.append(START_MS, vec![item]).unwrap();
    let refused =
        ErrorReply::new(ErrorKind::ReadOnly, "You can't write against a read only replica.");
    let refused = Effect::Ran(Reply::Error(refused));
    assert_eq!(effects, [refused.clone(), refused]);
    assert_eq!(follower.content(), before);
    let effects = follower.append(START_MS, vec![leader.batch(Lsn(0), Lsn(4))]).unwrap();
    let [Effect::Carried(Ok(at))] = effects[..] else { panic!("{effects:?}") };
    assert_eq!(at.link, link(leader.log.chain.position()));
    assert_eq!(follower.content(), leader.contents[&Lsn(4)]);
}

#[test]
fn who_follows_nobody_takes_nothing_that_is_carried() {
    let (mut leader, _) = pair();
    let before = leader.replica.content_digest().unwrap();
    let batch = leader.batch(Lsn(0), Lsn(4));
    leader.leads[0].n += 1;
    leader.record(leader.leads[0], vec![batch]);
    let counters = |stamp: Stamp| (stamp.sequence, stamp.keys);
    assert_eq!(counters(leader.replica.stamp()), (4, 4));
    // Its lead's place alone went on.
    assert_ne!(leader.replica.content_digest().unwrap(), before);
}

#[test]
fn a_fork_and_another_log_are_told_and_it_goes_on() {
    let (leader, mut follower) = pair();
    follower.append(START_MS, vec![leader.batch(Lsn(0), Lsn(2))]).unwrap();
    let content = follower.content();
    let Item::Carried { batch, records } = leader.batch(Lsn(1), Lsn(4)) else { panic!() };
    let mut forked = batch.clone();
    forked.records[0].hash += 1;
    let mut other_log = batch;
    other_log.incarnation = Incarnation(9);
    for (batch, words) in [(forked, "forked"), (other_log, "the leader's log is")] {
        let item = Item::Carried { batch, records: records.clone() };
        let effects = follower.append(START_MS, vec![item]).unwrap();
        let [Effect::Carried(Err(refused))] = effects[..] else { panic!("{effects:?}") };
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!((follower.at(), follower.content()), (Lsn(2), content), "nothing of it is kept");
    }
    // What is of the log that was followed is still taken.
    follower.append(START_MS, vec![leader.batch(Lsn(2), Lsn(4))]).unwrap();
    assert_eq!(follower.content(), leader.contents[&Lsn(4)]);
}

#[test]
fn another_partition_and_rotten_bytes_stop_it_by_name() {
    let (leader, mut follower) = pair();
    follower.append(START_MS, vec![leader.batch(Lsn(0), Lsn(2))]).unwrap();
    let content = follower.content();
    let Item::Carried { batch, records } = leader.batch(Lsn(1), Lsn(4)) else { panic!() };
    let mut strange = records.clone();
    strange[1] = {
        let mut record = Record::decode(&strange[1]).unwrap();
        record.partition.ordinal += 1;
        record.encode()
    };
    let mut rotten = records.clone();
    rotten[2] = {
        let mut bytes = rotten[2].to_vec();
        bytes[20] ^= 1;
        bytes.into()
    };
    for (records, words) in [(strange, "another partition"), (rotten, "checksum")] {
        let item = Item::Carried { batch: batch.clone(), records };
        let error = follower.append(START_MS, vec![item]).unwrap_err();
        let is_unreadable = matches!(error, ApplyError::Unreadable(..));
        assert!(is_unreadable && error.to_string().contains(words), "{error}");
        assert_eq!((follower.at(), follower.content()), (Lsn(2), content), "nothing of it is kept");
        // The record is taken out again, so that the next case meets the replica as it was.
        follower.log.entries.pop();
        follower.n -= 1;
    }
}

#[test]
fn heavy_records_are_taken_a_few_at_a_time() {
    let mut leader = Leaders::new();
    let mut follower = Follower::new(&mut leader);
    // Each shares nearly half of what one record may take: the value is copied.
    let value = "v".repeat(1 << 20);
    let set = Operation::Command(Argv::of(&["SET", "big", &value]));
    leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations: vec![set] });
    for at in 0..6 {
        let copies = (0..50).map(|n| command(&format!("COPY big to{at}-{n}"))).collect();
        leader.step(&Step::Run { lead: 0, skip: 0, session: 1, operations: copies });
    }
    let mut places = Vec::new();
    while follower.at() < Lsn(7) {
        let batch = leader.batch(follower.at(), Lsn(7));
        follower.append(START_MS, vec![batch]).unwrap();
        places.push(follower.at().0);
        assert_eq!(follower.content(), leader.contents[&follower.at()]);
    }
    assert!(places.len() > 1, "{places:?}");
    follower.restart();
    assert_eq!(follower.content(), leader.contents[&Lsn(7)]);
}

#[test]
fn a_copy_of_a_follower_follows() {
    let (leader, mut follower) = pair();
    follower.append(START_MS, vec![leader.batch(Lsn(0), Lsn(3))]).unwrap();
    follower.replica().mark().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("second");
    follower.replica().store().checkpoint(&path).unwrap();
    let mut second = follower.log.open(FOLLOWER, &path);
    second.adopt(ToIndex::All).unwrap();
    follower.append(START_MS, vec![leader.batch(Lsn(3), Lsn(4))]).unwrap();
    let (position, record) = follower.log.entries.last().unwrap().clone();
    second.apply(position, &record, OverBudget::Refuse, &mut ()).unwrap();
    assert_eq!(second.digest(), follower.replica().digest());
    assert_eq!(second.content_digest().unwrap(), leader.contents[&Lsn(4)]);
    let again = second.adopt_leader((LEADER, LEADERS_LOG), (OWN_LOG, position), ToIndex::All);
    assert!(again.unwrap_err().to_string().contains("follows another"), "it has leads of its own");
}

/// What is noted as touched, with the mapping version.
fn touched(replica: &Replica) -> Vec<(Lsn, u64, Vec<String>)> {
    let mut noted = Vec::new();
    let mut note = |lsn: Lsn, touches: Touches| {
        let each = touches.iter().map(|touch| match touch {
            Touch::All => "all".to_owned(),
            Touch::Key(key) => format!("key {}", key.escape_ascii()),
            Touch::Document { id, is_new, .. } => {
                format!("{}{}", id.escape_ascii(), if is_new { " new" } else { "" })
            }
        });
        noted.push((lsn, touches.mapping_version(), each.collect()));
        ControlFlow::Continue(())
    };
    replica.store().touches(Lsn(0), &mut note).unwrap();
    noted
}

fn write(id: &str, action: Action, mapping_version: u64) -> Operation {
    let (key, id) = (Bytes::copy_from_slice(id.as_bytes()), Bytes::copy_from_slice(id.as_bytes()));
    let condition = Condition::None;
    Operation::Document(DocumentWrite { key, id, action, condition, mapping_version })
}

/// A leader with documents, and the folder of a copy of its replica.
fn with_documents() -> (Leaders, tempfile::TempDir, PathBuf) {
    let mut leader = Leaders::new();
    let source = || Action::Index(Bytes::from_static(b"{}"));
    for (id, action, mapping_version) in [
        ("a", source(), 1),
        ("b", source(), 4),
        ("a", Action::Delete, 0),
        ("a", source(), 3),
        ("c", source(), 2),
    ] {
        let operations = vec![write(id, action, mapping_version)];
        leader.step(&Step::Run { lead: 0, skip: 0, session: 0, operations });
    }
    leader.replica.mark().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy");
    leader.replica.store().checkpoint(&path).unwrap();
    (leader, dir, path)
}

fn local(lsn: u64) -> (Incarnation, Position) {
    (OWN_LOG, Position { lsn: Lsn(lsn), hash: lsn, log_time_ms: START_MS })
}

#[test]
fn what_the_index_that_came_along_lacks_is_touched_at_the_place_in_this_clusters_log() {
    let all = ["all".to_owned()];
    let since = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    for (to_index, expected) in [
        (ToIndex::After(Lsn(1)), vec![(Lsn(40), 4, since(&["b new", "a", "c new"]))]),
        (ToIndex::After(Lsn(3)), vec![(Lsn(40), 3, since(&["a", "c new"]))]),
        (ToIndex::After(Lsn(5)), vec![]),
        (ToIndex::All, vec![(Lsn(40), 0, all.to_vec())]),
        (ToIndex::Nothing, vec![]),
    ] {
        let (leader, _dir, path) = with_documents();
        let open = || leader.log.open(FOLLOWER, &path);
        let mut copy = open();
        copy.adopt_leader((LEADER, LEADERS_LOG), local(40), to_index).unwrap();
        assert_eq!(touched(&copy), expected, "{to_index:?}");
        assert_eq!(copy.notes_documents(), to_index != ToIndex::Nothing);
        copy.store().flush().unwrap();
        drop(copy);
        let copy = open();
        assert_eq!((touched(&copy), copy.stamp().position), (expected, local(40).1));
        assert_eq!(copy.leader().unwrap().position.link, link(leader.log.chain.position()));
        let content = copy.content_digest().unwrap();
        assert_eq!(content, leader.contents[&Lsn(5)], "{to_index:?}");
    }
}

#[test]
fn a_copy_may_be_made_to_follow_the_same_leader_again() {
    let (leader, _dir, path) = with_documents();
    let name = (LEADER, LEADERS_LOG);
    let mut copy = leader.log.open(FOLLOWER, &path);
    let wrong = copy.adopt_leader((LEADER, OWN_LOG), local(40), ToIndex::All).unwrap_err();
    assert!(wrong.to_string().contains("the copy is of log"), "{wrong}");
    copy.adopt_leader(name, local(40), ToIndex::After(Lsn(3))).unwrap();
    let first = touched(&copy);
    let at = copy.leader().unwrap().position;
    copy.store().flush().unwrap();
    drop(copy);
    let mut copy = leader.log.open(FOLLOWER, &path);
    // It may stand behind the leader's numbers as well as before them.
    for lsn in [60, 2] {
        copy.adopt_leader(name, local(lsn), ToIndex::After(Lsn(3))).unwrap();
        let moved: Vec<_> =
            first.iter().map(|(_, version, ids)| (Lsn(lsn), *version, ids.clone())).collect();
        assert_eq!(touched(&copy), moved);
        assert_eq!(copy.stamp().position.lsn, Lsn(lsn));
        let leader = copy.leader().unwrap();
        assert_eq!((leader.partition, leader.position), (LEADER, at));
    }
    for other in [(LEADER, Incarnation(9)), (FOLLOWER, LEADERS_LOG)] {
        copy.adopt_leader(other, local(70), ToIndex::All).unwrap_err();
    }
    copy.adopt_leader(name, local(70), ToIndex::All).unwrap();
    assert_eq!(touched(&copy), [(Lsn(70), 0, vec!["all".to_owned()])]);
    copy.adopt_leader(name, local(80), ToIndex::Nothing).unwrap();
    assert!(touched(&copy).is_empty() && !copy.notes_documents());
    copy.adopt_leader(name, local(90), ToIndex::After(Lsn(3))).unwrap();
    assert_eq!(touched(&copy), [(Lsn(90), 0, vec!["all".to_owned()])], "what it was is forgotten");
    assert_eq!(copy.content_digest().unwrap(), leader.contents[&Lsn(5)]);
    assert_eq!(leader_of(copy.store()).unwrap().as_ref(), copy.leader());
    assert_eq!(leader_of(leader.replica.store()).unwrap(), None);
}
