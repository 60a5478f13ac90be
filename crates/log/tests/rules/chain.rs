//! A hole, a fork, a rewind, disorder and another log are seen as soon as a record is anchored
//! behind them; a healthy log never stops anyone.

use plimsoll_log::record::Anchor;
use plimsoll_log::rules::chain::{Chain, ChainFault};
use plimsoll_log::{Incarnation, Lsn};
use proptest::prelude::*;
use proptest::sample::Index;

const LOG: Incarnation = Incarnation(0x10a);

#[derive(Clone, Debug)]
struct Entry {
    lsn: Lsn,
    checksum: u64,
    anchor: Anchor,
}

impl Entry {
    fn advance(&self, chain: &mut Chain) -> Result<(), ChainFault> {
        chain.advance(self.lsn, self.checksum, self.lsn.0, &self.anchor).map(|_| ())
    }
}

/// A log whose records are each anchored up to `lag` records before the last.
fn healthy(plan: &[(u64, u64, usize)]) -> Vec<Entry> {
    let mut chain = Chain::new(LOG);
    let mut anchors = vec![chain.anchor()];
    let mut entries = Vec::new();
    for (gap, checksum, lag) in plan {
        let anchor = anchors[anchors.len() - 1 - lag.min(&(anchors.len() - 1))];
        let lsn = Lsn(chain.position().lsn.0 + 1 + gap);
        let entry = Entry { lsn, checksum: *checksum, anchor };
        entry.advance(&mut chain).unwrap();
        anchors.push(chain.anchor());
        entries.push(entry);
    }
    entries
}

/// Reads all and returns the place and the kind of the first fault.
fn first_fault(chain: &mut Chain, entries: &[Entry]) -> Option<(usize, ChainFault)> {
    for (place, entry) in entries.iter().enumerate() {
        let before = chain.position();
        if let Err(fault) = entry.advance(chain) {
            assert_eq!(chain.position(), before, "a fault leaves the chain as it was");
            return Some((place, fault));
        }
    }
    None
}

fn plan() -> impl Strategy<Value = Vec<(u64, u64, usize)>> {
    prop::collection::vec((0u64..3, any::<u64>(), 0usize..6), 2..60)
}

proptest! {
    #[test]
    fn a_healthy_log_is_read_from_anywhere(plan in plan(), stop in any::<Index>()) {
        let entries = healthy(&plan);
        let mut chain = Chain::new(LOG);
        prop_assert_eq!(first_fault(&mut chain, &entries), None);
        let (head, tail) = entries.split_at(stop.index(entries.len()));
        let mut stopped = Chain::new(LOG);
        prop_assert_eq!(first_fault(&mut stopped, head), None);
        let mut resumed = Chain::resume(LOG, stopped.position());
        prop_assert_eq!(first_fault(&mut resumed, tail), None);
        prop_assert_eq!(resumed.position(), chain.position());
        prop_assert_eq!(resumed.anchor(), chain.anchor());
    }

    #[test]
    fn a_missing_record_is_seen(plan in plan(), which in any::<Index>()) {
        let mut entries = healthy(&plan);
        let missing = entries.remove(which.index(entries.len()));
        let behind = entries.iter().position(|entry| entry.anchor.lsn >= missing.lsn);
        let found = first_fault(&mut Chain::new(LOG), &entries);
        prop_assert_eq!(found.as_ref().map(|(place, _)| *place), behind);
        if let Some((_, fault)) = found {
            use ChainFault::{Forked, Hole, Rewound};
            assert!(matches!(fault, Hole { .. } | Forked { .. } | Rewound { .. }), "{fault}");
        }
    }

    #[test]
    fn another_record_in_a_place_is_seen(plan in plan(), which in any::<Index>()) {
        let mut entries = healthy(&plan);
        let place = which.index(entries.len());
        entries[place].checksum ^= 1;
        let lsn = entries[place].lsn;
        let behind = entries.iter().position(|entry| entry.anchor.lsn >= lsn);
        let found = first_fault(&mut Chain::new(LOG), &entries);
        prop_assert_eq!(found.as_ref().map(|(place, _)| *place), behind);
        assert!(found.is_none_or(|(_, fault)| matches!(fault, ChainFault::Forked { .. })));
    }

    #[test]
    fn a_lost_end_is_seen(plan in plan(), kept in any::<Index>(), checksum in any::<u64>()) {
        let entries = healthy(&plan);
        let kept = kept.index(entries.len() - 1);
        let mut whole = Chain::new(LOG);
        prop_assert_eq!(first_fault(&mut whole, &entries), None);
        let mut rewound = Chain::new(LOG);
        prop_assert_eq!(first_fault(&mut rewound, &entries[..kept]), None);

        // A lead that had read the end that was lost appends, and gets a place that it knows.
        let lsn = rewound.position().lsn.next();
        let anchor = whole.anchor();
        let fault = ChainFault::Rewound { lsn, anchor: anchor.lsn, applied: rewound.position().lsn };
        let late = Entry { lsn, checksum, anchor };
        prop_assert_eq!(late.advance(&mut rewound), Err(fault));
        prop_assert!(Chain::check_appended(&anchor, lsn).is_err());
        prop_assert!(Chain::check_appended(&anchor, anchor.lsn.next()).is_ok());

        // A replica that reads on from its stamp sees it where a lead had read the new end.
        let mut new_end = rewound.clone();
        while new_end.position().lsn <= whole.position().lsn {
            let lsn = new_end.position().lsn.next();
            new_end.advance(lsn, checksum ^ lsn.0, 0, &rewound.anchor()).unwrap();
        }
        let mut resumed = Chain::resume(LOG, whole.position());
        resumed.advance(new_end.position().lsn, checksum, 0, &rewound.anchor()).unwrap();
        let after = Entry { lsn: new_end.position().lsn.next(), checksum, anchor: new_end.anchor() };
        let found = after.advance(&mut resumed);
        assert!(matches!(found, Err(ChainFault::Forked { .. })), "{found:?}");
    }

    #[test]
    fn disorder_and_another_log_are_seen(plan in plan(), which in any::<Index>()) {
        let entries = healthy(&plan);
        let again = which.get(&entries);
        let mut chain = Chain::new(LOG);
        prop_assert_eq!(first_fault(&mut chain, &entries), None);
        let applied = chain.position().lsn;
        let disorder = ChainFault::Disorder { lsn: again.lsn, applied };
        prop_assert_eq!(again.advance(&mut chain), Err(disorder));

        let (lsn, found) = (applied.next(), Incarnation(LOG.0 + 1));
        let anchor = Anchor { incarnation: found, ..chain.anchor() };
        let other = ChainFault::OtherLog { lsn, expected: LOG, found };
        prop_assert_eq!(Entry { lsn, checksum: 0, anchor }.advance(&mut chain), Err(other));
    }
}

/// Anchors older than the ring can no longer be told; those in it still can.
#[test]
fn the_ring_overflows_without_a_false_alarm() {
    const RING: usize = 4096;
    let mut chain = Chain::new(LOG);
    let mut anchors = vec![chain.anchor()];
    for at in 0..2 * RING as u64 {
        let back = [0, 1, RING - 1, RING, RING + 1, anchors.len()][at as usize % 6];
        let anchor = anchors[(anchors.len() - 1).saturating_sub(back)];
        let entry = Entry { lsn: Lsn(2 * at + 1), checksum: at, anchor };
        entry.advance(&mut chain).unwrap();
        anchors.push(chain.anchor());
    }
    let wrong = |back: usize, lsn_less: u64| {
        let mut anchor = anchors[anchors.len() - 1 - back];
        anchor.lsn.0 -= lsn_less;
        anchor.hash ^= 1;
        let entry = Entry { lsn: chain.position().lsn.next(), checksum: 0, anchor };
        entry.advance(&mut chain.clone())
    };
    for back in [0, 1, RING - 1] {
        assert!(matches!(wrong(back, 0), Err(ChainFault::Forked { .. })), "{back}");
    }
    assert!(matches!(wrong(RING - 2, 1), Err(ChainFault::Hole { .. })));
    assert_eq!(wrong(RING, 0), Ok(()));
}

#[test]
fn log_time_never_goes_back() {
    let mut chain = Chain::new(LOG);
    for (lsn, stamp_ms, log_time_ms) in [(1, 500, 500), (2, 100, 500), (3, 700, 700)] {
        let position = chain.advance(Lsn(lsn), 0, stamp_ms, &chain.anchor()).unwrap();
        assert_eq!(position.log_time_ms, log_time_ms);
    }
}
