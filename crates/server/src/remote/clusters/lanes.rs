//! Which of several connections to a node the next part of a file comes over. A connection begins with little
//! and doubles that in a trip: one that is new is given one part, and one more for each that has come, so that
//! the others are not kept waiting by what lies before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a connection carries.
#[derive(Debug, Default)]
pub(super) struct Load {
    under_way: AtomicUsize,
    done: AtomicUsize,
}

/// A part of a file on its way over a connection, until it is dropped.
pub(super) struct Carried(Arc<Load>);

impl Carried {
    /// It has come.
    pub(super) fn done(self) {
        self.0.done.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The place of the connection that takes the next part: of those that have room the one that carries least,
/// else the one that has carried most so far, and of new ones again the one that carries least. None where
/// there are none.
pub(super) fn next<'a>(lanes: impl Iterator<Item = &'a Arc<Load>>) -> Option<(usize, Carried)> {
    let chosen = lanes.enumerate().min_by_key(|(_, load)| {
        let under_way = load.under_way.load(Ordering::Relaxed);
        let done = load.done.load(Ordering::Relaxed);
        let is_full = under_way > done;
        (is_full, if is_full { usize::MAX - done } else { 0 }, under_way)
    });
    let (at, load) = chosen?;
    load.under_way.fetch_add(1, Ordering::Relaxed);
    Some((at, Carried(Arc::clone(load))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_connection_is_given_one_part_and_one_more_for_each_that_came() {
        let lanes: Vec<Arc<Load>> = (0..2).map(|_| Arc::default()).collect();
        lanes[0].done.store(100, Ordering::Relaxed);
        let mut carried: Vec<_> = (0..10).filter_map(|_| next(lanes.iter())).collect();
        let of = |carried: &[(usize, Carried)], lane| {
            carried.iter().filter(|(at, _)| *at == lane).count()
        };
        assert_eq!((of(&carried, 0), of(&carried, 1)), (9, 1));
        let first = carried.iter().position(|(at, _)| *at == 1).unwrap();
        carried.remove(first).1.done();
        carried.extend((0..3).filter_map(|_| next(lanes.iter())));
        assert_eq!((of(&carried, 0), of(&carried, 1)), (10, 2));
        // What fails makes no room for more.
        carried.retain(|(at, _)| *at == 0);
        carried.extend((0..5).filter_map(|_| next(lanes.iter())));
        assert_eq!(of(&carried, 1), 2);
        assert!(next(std::iter::empty()).is_none());
    }

    #[test]
    fn connections_that_have_carried_much_share_evenly() {
        let lanes: Vec<Arc<Load>> = (0..4).map(|_| Arc::default()).collect();
        lanes.iter().for_each(|load| load.done.store(100, Ordering::Relaxed));
        let carried: Vec<_> = (0..40).filter_map(|_| next(lanes.iter())).collect();
        for lane in 0..4 {
            assert_eq!(carried.iter().filter(|(at, _)| *at == lane).count(), 10);
        }
        // So do those of which nobody has carried anything.
        let lanes: Vec<Arc<Load>> = (0..4).map(|_| Arc::default()).collect();
        let carried: Vec<_> = (0..16).filter_map(|_| next(lanes.iter())).collect();
        for lane in 0..4 {
            assert_eq!(carried.iter().filter(|(at, _)| *at == lane).count(), 4);
        }
    }
}
