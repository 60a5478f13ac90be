//! Random appends, reopenings and trims against a model of the embedded log.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation, reason = "a test may panic")]

use std::sync::mpsc::sync_channel;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_log::embedded::{Durability, Embedded, Options};
use plimsoll_log::{GroupId, Log, LogError, Lsn};
use proptest::prelude::*;

const GROUPS: u16 = 3;
const FOREVER: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
enum Step {
    /// Queues these records (group, bytes) at once.
    Append(Vec<(u16, usize)>),
    Trim(u16, u64),
    Durability(bool),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    let append = (0..GROUPS, prop_oneof![0usize..40, 1000usize..5000]);
    prop_oneof![
        6 => prop::collection::vec(append, 1..8).prop_map(Step::Append),
        2 => (0..GROUPS, 0u64..30).prop_map(|(group, up_to)| Step::Trim(group, up_to)),
        1 => any::<bool>().prop_map(Step::Durability),
        2 => Just(Step::Reopen),
    ]
}

/// What a group should hold: the records from 1 on, and up to where they are trimmed.
#[derive(Default)]
struct Model {
    records: Vec<Bytes>,
    trimmed: u64,
}

fn append(log: &Embedded, models: &mut [Model], records: Vec<(u16, usize)>, salt: u8) {
    let (tell, told) = sync_channel(records.len());
    let mut expected = Vec::new();
    for (group, bytes) in records {
        let model = &mut models[usize::from(group)];
        model.records.push(Bytes::from(vec![salt ^ model.records.len() as u8; bytes]));
        expected.push(Lsn(model.records.len() as u64));
        let tell = tell.clone();
        let record = model.records.last().unwrap().clone();
        log.append(GroupId(group), record, Box::new(move |outcome| tell.send(outcome).unwrap()));
    }
    for lsn in expected {
        assert_eq!(told.recv_timeout(FOREVER).unwrap(), Ok(lsn));
    }
}

fn check(log: &Embedded, models: &[Model]) {
    for (group, model) in (0..).map(GroupId).zip(models) {
        let bounds = log.bounds(group).unwrap();
        assert_eq!(bounds.last, Lsn(model.records.len() as u64));
        assert_eq!(bounds.first, Lsn(model.trimmed + 1));
        if model.trimmed > 0 {
            let early = log.read(&[(group, Lsn(model.trimmed))]).map(drop);
            assert!(matches!(early, Err(LogError::Trimmed { first, .. }) if first == bounds.first));
        }
        let expected = &model.records[model.trimmed as usize..];
        let mut reader = log.read(&[(group, bounds.first)]).unwrap();
        let mut entries = Vec::new();
        while entries.len() < expected.len() {
            reader.next(&mut entries, 3000, FOREVER).unwrap();
        }
        reader.next(&mut entries, 3000, Duration::ZERO).unwrap();
        assert_eq!(entries.len(), expected.len());
        for ((lsn, record), entry) in (bounds.first.0..).zip(expected).zip(&entries) {
            assert_eq!((entry.group, entry.lsn, &entry.record), (group, Lsn(lsn), record));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_log_holds_what_the_model_holds(
        steps in prop::collection::vec(step(), 1..24),
        cache_bytes_max in prop_oneof![Just(0usize), Just(4000), Just(1 << 20)],
    ) {
        let dir = tempfile::tempdir().unwrap();
        let options = Options { groups: GROUPS, cache_bytes_max, ..Options::default() };
        let open = || Embedded::open(dir.path(), &options).unwrap();
        let mut log = Some(open());
        let mut models: Vec<Model> = (0..GROUPS).map(|_| Model::default()).collect();
        for (salt, step) in (0..).zip(steps) {
            let now = log.as_ref().unwrap();
            match step {
                Step::Append(records) => append(now, &mut models, records, salt),
                Step::Trim(group, up_to) => {
                    now.trim(GroupId(group), Lsn(up_to)).unwrap();
                    let model = &mut models[usize::from(group)];
                    let last = model.records.len() as u64;
                    model.trimmed = model.trimmed.max(up_to.min(last.saturating_sub(1)));
                }
                Step::Durability(request) => now.set_durability(
                    if request { Durability::Request } else { Durability::Async },
                ),
                Step::Reopen => {
                    drop(log.take());
                    log = Some(open());
                }
            }
            check(log.as_ref().unwrap(), &models);
        }
    }
}
