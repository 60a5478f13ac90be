//! Tests of changes in layers: whatever records do together, they show and take what they would one
//! after the other.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;

use super::tests::resources;
use super::*;
use crate::rows::{RowsRead, RowsWrite};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Put(Vec<u8>, u8),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
    Get(Vec<u8>),
    /// Until so many rows were shown.
    Scan(Vec<u8>, Vec<u8>, usize),
    Begin,
    End,
    TakeBack,
}

/// Of few keys, some within others' ranges.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(20u8..24, 1..3)
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (key(), key()).prop_map(|(a, b)| if a < b { (a, b) } else { (b, a) });
    prop_oneof![
        6 => (key(), any::<u8>()).prop_map(|(key, value)| Step::Put(key, value)),
        3 => key().prop_map(Step::Delete),
        2 => range().prop_map(|(from, to)| Step::DeleteRange(from, to)),
        2 => key().prop_map(Step::Get),
        3 => (range(), 1usize..9).prop_map(|((from, to), rows)| Step::Scan(from, to, rows)),
        2 => Just(Step::Begin),
        1 => Just(Step::End),
        1 => Just(Step::TakeBack),
    ]
}

fn scanned<R: RowsRead>(rows: &R, from: &[u8], to: &[u8], most: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut shown = Vec::new();
    rows.scan(from, to, &mut |key, value| {
        shown.push((key.to_vec(), value.to_vec()));
        if shown.len() < most { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })
    .unwrap();
    shown
}

/// Does a step, and says what was seen and what may still be taken.
fn take(overlay: &mut Overlay<'_>, step: &Step, model: &mut Model, kept: &mut Option<Model>) {
    match step {
        Step::Put(key, value) => {
            overlay.put(key, &[*value]);
            model.insert(key.clone(), vec![*value]);
        }
        Step::Delete(key) => {
            overlay.delete(key);
            model.remove(key);
        }
        Step::DeleteRange(from, to) => {
            overlay.delete_range(from, to);
            model.retain(|key, _| key < from || to <= key);
        }
        Step::Get(key) => {
            let found = overlay.get(key).unwrap();
            assert_eq!(found.as_deref(), model.get(key).map(Vec::as_slice));
        }
        Step::Scan(from, to, most) => {
            let there = model.range(from.clone()..to.clone()).take(*most);
            let there: Vec<_> = there.map(|(key, value)| (key.clone(), value.clone())).collect();
            assert_eq!(scanned(overlay, from, to, *most), there);
        }
        Step::Begin => {
            if kept.is_some() {
                overlay.end().unwrap();
            }
            overlay.begin(10);
            *kept = Some(model.clone());
        }
        Step::End => {
            overlay.end().unwrap();
            *kept = None;
        }
        Step::TakeBack => {
            overlay.take_back();
            if let Some(kept) = kept.take() {
                *model = kept;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn records_together_show_and_take_what_they_do_one_by_one(
        before in prop::collection::vec((key(), any::<u8>()), 0..12),
        records in prop::collection::vec(prop::collection::vec(step(), 0..16), 1..6),
    ) {
        let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [together, single] =
            dirs.each_ref().map(|dir| Store::open(dir.path(), &resources()).unwrap());
        let mut model = Model::new();
        for store in [&together, &single] {
            let mut overlay = Overlay::new(store);
            for (key, value) in &before {
                overlay.put(key, &[*value]);
                model.insert(key.clone(), vec![*value]);
            }
            store.write_changes(overlay.into_changes(), 0, false).unwrap();
        }
        let mut model_single = model.clone();
        let mut layered = Overlay::new(&together);
        for record in &records {
            layered.begin_record();
            let mut alone = Overlay::new(&single);
            let (mut kept, mut kept_single) = (None, None);
            for step in record {
                take(&mut layered, step, &mut model, &mut kept);
                take(&mut alone, step, &mut model_single, &mut kept_single);
                prop_assert_eq!(layered.budget_left(), alone.budget_left(), "{:?}", step);
            }
            layered.end().unwrap();
            alone.end().unwrap();
            single.write_changes(alone.into_changes(), 0, false).unwrap();
        }
        together.write_changes(layered.into_changes(), 0, false).unwrap();
        let all = |store: &Store| scanned(store, &[0], &[0xff], usize::MAX);
        prop_assert_eq!(all(&together), all(&single));
        prop_assert_eq!(all(&together), model.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn what_is_passed_over_for_nobody_is_counted_for_the_node() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), &resources()).unwrap();
    let mut overlay = Overlay::new(&store);
    let keys: Vec<Vec<u8>> = (0..20_000u32).map(|at| at.to_be_bytes().to_vec()).collect();
    keys.iter().for_each(|key| overlay.delete(key));
    overlay.begin_record();
    overlay.begin(10);
    let before = overlay.budget_left();
    for _ in 0..40 {
        assert_eq!(scanned(&overlay, &[0], &[1], usize::MAX), []);
    }
    let taken = before[1] - overlay.budget_left()[1];
    assert_eq!(taken, 40 * 64, "each time it was looked for once");
    overlay.end().unwrap();
    assert!(overlay.shared_permille() > 350, "{}", overlay.shared_permille());
}
