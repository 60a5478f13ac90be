//! Arbitrary logs: leads and coordinators that behave make records; delays, losses, duplicates,
//! reordering and the passing of time do with them what they like. A judge with a perfect memory
//! checks every answer; a replica that restarts and sweeps must agree with one that never does.

use std::collections::BTreeMap;

use bytes::Bytes;
use plimsoll_log::record::{Item, LeadStamp, Record};
use plimsoll_log::rules::is_too_old;
use plimsoll_log::rules::sessions::{Outcome, Verdict};
use plimsoll_log::{LeadId, Lsn, PartitionId, SessionId};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::replica::{Answer, Applied, Mutation, Replica};

#[derive(Clone, Debug)]
enum ItemPlan {
    /// New operations of a session, as many as said, and what is acknowledged with them.
    New {
        session: u8,
        count: u8,
        payload: [u8; 3],
        acked: u64,
    },
    /// An operation once more.
    Again(Index),
    Fence(Index),
}

#[derive(Clone, Debug)]
enum Step {
    /// A lead makes a record; it lands at once or may land later.
    Make {
        lead: u8,
        raise: bool,
        items: Vec<ItemPlan>,
        anchor: Index,
        lands: bool,
    },
    /// A record made before lands, perhaps not for the first time.
    Land {
        which: Index,
        gap: u64,
    },
    Pass {
        ms: u64,
    },
    /// The second replica restarts as it was so many records ago and reads from before that.
    Restart {
        back: usize,
        overlap: usize,
    },
    Sweep,
}

fn item_plan() -> impl Strategy<Value = ItemPlan> {
    prop_oneof![
        4 => (0u8..3, 1u8..4, any::<[u8; 3]>(), 0u64..12).prop_map(
            |(session, count, [row, check, value], acked)| {
                let payload = [row % 2, if check < 128 { 0xff } else { check % 4 }, value % 4];
                ItemPlan::New { session, count, payload, acked }
            }
        ),
        3 => any::<Index>().prop_map(ItemPlan::Again),
        2 => any::<Index>().prop_map(ItemPlan::Fence),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let items = prop::collection::vec(item_plan(), 0..4);
    let make =
        (0u8..3, prop::bool::weighted(0.3), items, any::<Index>(), prop::bool::weighted(0.8));
    let ms = prop::sample::select(vec![1, 499, 100_000, 300_000, 599_600, 600_001, 600_400]);
    prop_oneof![
        6 => make.prop_map(|(lead, raise, items, anchor, lands)| {
            Step::Make { lead, raise, items, anchor, lands }
        }),
        6 => (any::<Index>(), 0u64..3).prop_map(|(which, gap)| Step::Land { which, gap }),
        1 => ms.prop_map(|ms| Step::Pass { ms }),
        1 => (0usize..12, 0usize..4).prop_map(|(back, overlap)| Step::Restart { back, overlap }),
        1 => Just(Step::Sweep),
    ]
}

#[derive(Clone, Debug)]
struct Operation {
    session: SessionId,
    number: u64,
    stamp_ms: u64,
    payload: Bytes,
}

/// What has been said of an operation; what was said must stay true.
#[derive(Clone, Debug, PartialEq)]
enum Fate {
    Ran(Bytes),
    /// It was promised that it did not and will not run.
    Never,
    /// Only that it will not run from then on.
    Closed,
}

#[derive(Default)]
struct Judge {
    fates: BTreeMap<(SessionId, u64), Fate>,
    /// The largest number of each session that ran or was fenced.
    largest: BTreeMap<SessionId, u64>,
    taken: BTreeMap<LeadId, (u32, u64)>,
    ran: usize,
    fenced: usize,
    known: usize,
}

impl Judge {
    fn record(&mut self, record: &Record, applied: &Applied, log_time_ms: u64) {
        let LeadStamp { lead, epoch, n } = record.lead;
        let Applied::Answers(answers) = applied else { return };
        let last = self.taken.insert(lead, (epoch, n));
        let follows = match last {
            Some((last_epoch, last_n)) if last_epoch == epoch => n == last_n + 1,
            Some((last_epoch, _)) => last_epoch < epoch && n == 1,
            None => n == 1,
        };
        assert!(follows, "{:?} after {last:?}", record.lead);
        let mut answers = answers.iter();
        for item in &record.items {
            let (count, stamp_ms) = match item {
                Item::Operations { payloads, stamp_ms, .. } => (payloads.len(), *stamp_ms),
                Item::Fence { stamp_ms, .. } => (1, *stamp_ms),
                Item::Carried { .. } | Item::Difference { .. } => continue,
            };
            for answer in answers.by_ref().take(count) {
                self.answer(answer, is_too_old(stamp_ms, log_time_ms));
            }
        }
        assert!(answers.next().is_none());
    }

    fn answer(&mut self, answer: &Answer, too_old: bool) {
        let key = (answer.session, answer.number);
        let fate = self.fates.get(&key);
        let largest = self.largest.entry(answer.session).or_default();
        assert_eq!(answer.verdict == Verdict::TooOld, too_old);
        if answer.number > *largest && !too_old {
            assert_eq!(answer.verdict, Verdict::Fresh, "nothing stands against it");
        }
        match &answer.verdict {
            Verdict::Fresh => {
                assert_eq!(fate, None, "{key:?} was settled");
                assert!(answer.number > *largest, "{key:?} comes after {largest}");
                *largest = answer.number;
                let fate = match &answer.result {
                    Some(result) => Fate::Ran(result.clone()),
                    None => Fate::Never,
                };
                *(if answer.of_fence { &mut self.fenced } else { &mut self.ran }) += 1;
                assert_eq!(answer.of_fence, fate == Fate::Never);
                self.fates.insert(key, fate);
            }
            Verdict::Known(Outcome::Ran(result)) => {
                assert_eq!(fate, Some(&Fate::Ran(result.clone())));
                self.known += 1;
            }
            Verdict::Known(Outcome::Fenced) => assert_eq!(fate, Some(&Fate::Never)),
            Verdict::Known(Outcome::RanUnkept) => panic!("results are small here"),
            Verdict::Superseded => {
                assert!(!matches!(fate, Some(Fate::Ran(_))), "{key:?} did run");
                self.fates.insert(key, Fate::Never);
            }
            Verdict::Forgotten | Verdict::TooOld => {
                self.fates.entry(key).or_insert(Fate::Closed);
            }
        }
    }
}

/// All that is going on, and the two replicas.
struct Bench {
    now_ms: u64,
    /// Ahead of or behind the others, each by what is tolerated at most.
    lead_lag_ms: [u64; 3],
    session_lag_ms: [u64; 3],
    leads: [(u32, u64); 3],
    operations: Vec<Operation>,
    made: Vec<Bytes>,
    log: Vec<(Lsn, Bytes)>,
    /// The replica that never restarts, after each record.
    straight: Vec<Replica>,
    other: Replica,
    other_at: usize,
    judge: Judge,
}

impl Bench {
    fn new(lead_lag_ms: [u64; 3], session_lag_ms: [u64; 3]) -> Self {
        let replica = Replica::new(Mutation::None);
        Self {
            now_ms: 1_700_000_000_000,
            lead_lag_ms,
            session_lag_ms,
            leads: [(0, 0); 3],
            operations: Vec::new(),
            made: Vec::new(),
            log: Vec::new(),
            straight: vec![replica.clone()],
            other: replica,
            other_at: 0,
            judge: Judge::default(),
        }
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Make { lead, raise, items, anchor, lands } => {
                let bytes = self.make(usize::from(*lead), *raise, items, anchor);
                self.made.push(bytes.clone());
                if *lands {
                    self.land(bytes, 0);
                }
            }
            Step::Land { which, gap } if !self.made.is_empty() => {
                self.land(which.get(&self.made).clone(), *gap);
            }
            Step::Land { .. } => {}
            Step::Pass { ms } => self.now_ms += ms,
            Step::Restart { back, overlap } => {
                let at = self.other_at.saturating_sub(*back);
                let mut replica = self.straight[at].restarted();
                for (lsn, bytes) in &self.log[at.saturating_sub(*overlap)..at] {
                    assert_eq!(replica.apply(*lsn, bytes), Ok(None), "applied before");
                }
                (self.other, self.other_at) = (replica, at);
            }
            Step::Sweep => self.other.sweep(),
        }
        // The second replica lags by up to a few records, and catches up in between.
        while self.other_at + 3 < self.log.len() {
            self.follow();
        }
    }

    fn make(&mut self, lead: usize, raise: bool, plans: &[ItemPlan], anchor: &Index) -> Bytes {
        let (epoch, n) = &mut self.leads[lead];
        (*epoch, *n) = if raise { (*epoch + 1, 1) } else { (*epoch, *n + 1) };
        let lead_stamp = LeadStamp { lead: LeadId(lead as u64), epoch: *epoch, n: *n };
        let record = Record {
            partition: PartitionId { table: 7, ordinal: 1 },
            version: 1,
            lead: lead_stamp,
            stamp_ms: self.now_ms - self.lead_lag_ms[lead],
            anchor: anchor.get(&self.straight).chain().anchor(),
            items: plans.iter().filter_map(|plan| self.item(plan)).collect(),
        };
        record.encode()
    }

    fn item(&mut self, plan: &ItemPlan) -> Option<Item> {
        match plan {
            ItemPlan::New { session, count, payload, acked } => {
                let stamp_ms = self.now_ms - self.session_lag_ms[usize::from(*session)];
                let session = SessionId(u64::from(*session));
                let before = self.operations.iter().filter(|one| one.session == session).count();
                let first = before as u64 + 1;
                let payload = Bytes::copy_from_slice(payload);
                for number in first..first + u64::from(*count) {
                    let payload = payload.clone();
                    self.operations.push(Operation { session, number, stamp_ms, payload });
                }
                let payloads = vec![payload; usize::from(*count)];
                Some(Item::Operations { session, first, acked: *acked, stamp_ms, payloads })
            }
            _ if self.operations.is_empty() => None,
            ItemPlan::Again(which) => {
                let Operation { session, number, stamp_ms, payload } =
                    which.get(&self.operations).clone();
                let payloads = vec![payload];
                Some(Item::Operations { session, first: number, acked: 0, stamp_ms, payloads })
            }
            ItemPlan::Fence(which) => {
                let Operation { session, number, stamp_ms, .. } = *which.get(&self.operations);
                Some(Item::Fence { session, number, stamp_ms })
            }
        }
    }

    fn land(&mut self, bytes: Bytes, gap: u64) {
        let mut replica = self.straight.last().unwrap().clone();
        let lsn = Lsn(replica.applied().0 + 1 + gap);
        let record = Record::decode(&bytes).unwrap();
        let applied = replica.apply(lsn, &bytes).unwrap().unwrap();
        self.judge.record(&record, &applied, replica.log_time_ms());
        self.log.push((lsn, bytes));
        self.straight.push(replica);
    }

    fn follow(&mut self) {
        let (lsn, bytes) = &self.log[self.other_at];
        self.other.apply(*lsn, bytes).unwrap().unwrap();
        self.other_at += 1;
        assert_eq!(self.other.digest(), self.straight[self.other_at].digest());
    }

    fn finish(&mut self) {
        while self.other_at < self.log.len() {
            self.follow();
        }
        let rows = &self.other.rows;
        assert!(rows.runs.values().all(|runs| *runs == 1));
        let ran = self.judge.fates.iter().filter(|(_, fate)| matches!(fate, Fate::Ran(_)));
        assert!(ran.map(|(key, _)| key).eq(rows.runs.keys()), "what ran is what was said to run");
    }
}

fn plan() -> impl Strategy<Value = ([u64; 3], [u64; 3], Vec<Step>)> {
    let lags = || prop::array::uniform3(0u64..=500);
    (lags(), lags(), prop::collection::vec(step(), 1..120))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_log_gives_the_same_rows_and_runs_nothing_twice(
        (leads, sessions, steps) in plan()
    ) {
        let mut bench = Bench::new(leads, sessions);
        for step in &steps {
            bench.step(step);
        }
        bench.finish();
    }
}

/// The logs above are no good unless much happens in them.
#[test]
fn arbitrary_logs_are_eventful() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut ran, mut fenced, mut known) = (0, 0, 0);
    for _ in 0..200 {
        let (leads, sessions, steps) = plan().new_tree(&mut runner).unwrap().current();
        let mut bench = Bench::new(leads, sessions);
        for step in &steps {
            bench.step(step);
        }
        ran += bench.judge.ran;
        fenced += bench.judge.fenced;
        known += bench.judge.known;
    }
    println!("ran {ran}, fenced {fenced}, recognised {known}");
    assert!(ran > 2000 && fenced > 30 && known > 500);
}
