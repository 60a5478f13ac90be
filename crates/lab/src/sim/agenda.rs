//! The agenda of a run: what happens when. Events of one instant happen in the order in which
//! they were entered, so that nothing depends on how the heap breaks a tie.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

#[derive(Debug)]
struct Entry<E> {
    at_ns: u64,
    number: u64,
    event: E,
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> Ord for Entry<E> {
    fn cmp(&self, other: &Self) -> Ordering {
        // The standard heap gives the greatest first.
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

/// Events to come. Time only goes forward.
#[derive(Debug)]
pub(crate) struct Agenda<E> {
    heap: BinaryHeap<Entry<E>>,
    now_ns: u64,
    entered: u64,
}

impl<E> Agenda<E> {
    pub(crate) fn new() -> Self {
        Self { heap: BinaryHeap::new(), now_ns: 0, entered: 0 }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Enters an event; one for the past happens now.
    pub(crate) fn at(&mut self, at_ns: u64, event: E) {
        let at_ns = at_ns.max(self.now_ns);
        self.heap.push(Entry { at_ns, number: self.entered, event });
        self.entered += 1;
    }

    pub(crate) fn after(&mut self, delay_ns: u64, event: E) {
        self.at(self.now_ns.saturating_add(delay_ns), event);
    }

    /// The next event; the clock moves to it.
    pub(crate) fn next(&mut self) -> Option<E> {
        let entry = self.heap.pop()?;
        self.now_ns = entry.at_ns;
        Some(entry.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_keep_the_order_of_entry_and_time_never_goes_back() {
        let mut agenda = Agenda::new();
        for name in 0..50 {
            agenda.at(7, name);
        }
        agenda.at(3, 99);
        let order: Vec<i32> = std::iter::from_fn(|| agenda.next()).collect();
        assert_eq!(order[0], 99);
        assert_eq!(order[1..], (0..50).collect::<Vec<_>>());
        agenda.at(1, 0);
        assert_eq!((agenda.next(), agenda.now_ns()), (Some(0), 7));
    }
}
