//! How much of copies is under way at once from one source: the window of one copy, or one that several
//! copies from the same cluster share. The rules are `plimsoll_control::transfer`'s; here they get a
//! clock and owners that may be dropped.
//!
//! Copies that share a window take turns by table. Within a table they go one after the other, so that a
//! copy is verified and opened while the next one is on its way; side by side, all of them would end
//! together, and the link would be idle while they are opened.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use plimsoll_control::average::whole;
use plimsoll_control::transfer::{Chunk, Connections, LinkRate, PublishedWindow, TransferWindow};

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

use super::bound::Bound;

/// A copy of which nothing has come for this long holds up no other of its table.
const STALLED_NS: u64 = 1_000_000_000;
/// For how long there must be something left where one more connection is tried: towards the end all would
/// wait for what came over one that has only begun.
const TRIED_SECONDS_MIN: f64 = 10.0;

/// A window; clones are the same.
#[derive(Clone)]
pub(crate) struct Window(Arc<Inner>);

struct Inner {
    time: Time,
    began: Instant,
    rule: Mutex<Rule>,
    seats: Mutex<Seats>,
    /// Says that there may be room, or that it is another's turn.
    room: Notify,
}

/// The copies that share the window, by table and in the order in which they came.
#[derive(Default)]
struct Seats {
    /// How many came so far.
    came: u64,
    taken: BTreeMap<(u64, u64), Flow>,
}

/// How a copy flows.
struct Flow {
    /// Whether it would ask for more if there were room.
    wants_more: bool,
    /// When something of it came last, or it began.
    at_ns: u64,
    /// What has not come yet of all of it.
    left_bytes: u64,
}

/// What a copy waits for that is behind others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ahead {
    /// What has not come yet of those before it.
    pub bytes: u64,
    /// What comes of its table, bytes per second.
    pub bytes_s: u64,
}

enum Rule {
    Measured(Box<Measured>),
    Published(PublishedWindow),
    /// The published one over a link that is known.
    #[cfg(test)]
    Known(PublishedWindow, u64),
}

struct Measured {
    window: TransferWindow,
    link: LinkRate,
    connections: Connections,
    /// Bytes of chunks that have come.
    arrived: u64,
}

/// What a chunk was that came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Came {
    /// Bytes as they came, compressed or not.
    pub wire_bytes: u64,
    pub is_packed: bool,
    /// For how long its source held it back.
    pub held: Duration,
    /// Neither the pace nor what is not written yet holds the copy back.
    pub is_free: bool,
}

impl Window {
    /// One that finds the link's rate and trip by itself.
    pub(crate) fn measured(time: &Time) -> Self {
        // All nodes drain on the wall clock, which the cluster keeps within half a second.
        let window = TransferWindow::new(time.wall_ms().saturating_mul(1_000_000));
        let measured = Measured {
            window,
            link: LinkRate::default(),
            connections: Connections::default(),
            arrived: 0,
        };
        Self::of(time, Rule::Measured(Box::new(measured)))
    }

    /// Chunks of one size, and at most so many beyond the oldest that has not come.
    pub(crate) fn published(time: &Time, chunk_bytes: u64, chunks_max: u64) -> Self {
        Self::of(time, Rule::Published(PublishedWindow::new(chunk_bytes, chunks_max)))
    }

    /// The same over a link that carries so many bytes a second.
    #[cfg(test)]
    pub(super) fn known(chunk_bytes: u64, chunks_max: u64, link_bytes_s: u64) -> Self {
        let window = PublishedWindow::new(chunk_bytes, chunks_max);
        Self::of(&Time::of_the_machine(), Rule::Known(window, link_bytes_s))
    }

    fn of(time: &Time, rule: Rule) -> Self {
        let seats = Mutex::default();
        let (time, began) = (time.clone(), time.now());
        let (rule, room) = (Mutex::new(rule), Notify::new());
        Self(Arc::new(Inner { time, began, rule, seats, room }))
    }

    /// Has a copy of a partition of this table share the window.
    pub(super) fn join(&self, table: u64) -> Seat {
        let at_ns = self.0.now_ns();
        let mut seats = self.0.seats.lock();
        seats.came += 1;
        let key = (table, seats.came);
        seats.taken.insert(key, Flow { wants_more: true, at_ns, left_bytes: 0 });
        Seat { window: self.clone(), key }
    }

    /// The size of the next chunk to ask for; none while the window is full.
    fn next_chunk(&self) -> Option<u64> {
        match &*self.0.rule.lock() {
            Rule::Measured(it) => it.window.next_chunk(self.0.now_ns()),
            Rule::Published(window) => window.next_chunk(),
            #[cfg(test)]
            Rule::Known(window, _) => window.next_chunk(),
        }
    }

    /// What the link carries, bytes per second as they are on it; none while that is not known, and where
    /// a fixed window is what bounds. At the start it is what the way will let through a trip from now: a
    /// connection doubles in a trip, and what is smaller is through sooner.
    pub(super) fn link_bytes_s(&self) -> Option<u64> {
        let now_ns = self.0.now_ns();
        match &mut *self.0.rule.lock() {
            Rule::Measured(it) if it.window.is_starting() => {
                Some(whole(it.window.best_rate() * 2.0)).filter(|rate| *rate > 0)
            }
            Rule::Measured(it) => it.link.bytes_s(now_ns).map(whole),
            Rule::Published(_) => None,
            #[cfg(test)]
            Rule::Known(_, bytes_s) => Some(*bytes_s),
        }
    }

    /// Over how many connections the source is to be asked.
    pub(crate) fn connections(&self) -> u32 {
        match &*self.0.rule.lock() {
            Rule::Measured(it) => it.connections.number(),
            _ => 1,
        }
    }

    /// Whether what goes first on the same link comes late.
    pub(crate) fn set_yielding(&self, is_yielding: bool) {
        if let Rule::Measured(it) = &mut *self.0.rule.lock() {
            it.window.set_yielding(is_yielding);
        }
    }

    /// What bounds a transfer whose window is full.
    pub(super) fn bound(&self) -> Bound {
        match &*self.0.rule.lock() {
            Rule::Measured(it) if !it.window.is_starting() => Bound::Link,
            Rule::Measured(_) | Rule::Published(_) => Bound::Window,
            #[cfg(test)]
            Rule::Known(..) => Bound::Window,
        }
    }

    /// A chunk was asked for.
    pub(super) fn send(&self, bytes: u64) -> Sent {
        let now_ns = self.0.now_ns();
        let chunk = match &mut *self.0.rule.lock() {
            Rule::Measured(it) => {
                it.link.on_send();
                it.window.on_send(now_ns, bytes)
            }
            Rule::Published(window) => window.on_send(now_ns, bytes),
            #[cfg(test)]
            Rule::Known(window, _) => window.on_send(now_ns, bytes),
        };
        Sent { window: self.clone(), chunk: Some(chunk) }
    }

    /// A chunk has come, or not.
    fn end(&self, chunk: Chunk, came: Option<Came>) {
        let now_ns = self.0.now_ns();
        let left_bytes: u64 = self.0.seats.lock().taken.values().map(|flow| flow.left_bytes).sum();
        match &mut *self.0.rule.lock() {
            Rule::Measured(it) => {
                let is_starting = it.window.is_starting();
                let goes_on = left_bytes as f64 >= it.window.best_rate() * TRIED_SECONDS_MIN;
                let is_full = it.window.next_chunk(now_ns).is_none();
                match came {
                    Some(Came { held, .. }) => {
                        let held_ns = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
                        it.window.on_arrival(now_ns, chunk, held_ns);
                    }
                    None => it.window.on_error(chunk),
                }
                if let Some(came) = came {
                    it.arrived += chunk.bytes;
                    let is_free = came.is_free && is_full && !is_starting && goes_on;
                    let trip_ns = it.window.trip_ns();
                    it.connections.on_arrival(now_ns, it.arrived, trip_ns, is_free);
                }
                let of_link = came.filter(|_| !is_starting);
                it.link.on_end(now_ns, of_link.map(|it| (it.wire_bytes, it.is_packed)));
            }
            Rule::Published(window) => window.on_end(chunk),
            #[cfg(test)]
            Rule::Known(window, _) => window.on_end(chunk),
        }
        self.0.room.notify_waiters();
    }

    /// Ends when there may be room that was not there when this was called.
    pub(super) fn room(&self) -> Notified<'_> {
        self.0.room.notified()
    }
}

/// The place of one copy among those that share a window; dropping it gives it up.
pub(super) struct Seat {
    window: Window,
    key: (u64, u64),
}

impl Seat {
    /// The window.
    pub(super) fn window(&self) -> &Window {
        &self.window
    }

    /// The size of the next chunk to ask for; none while the window is full, or belongs to a copy of the
    /// same table that came before.
    pub(super) fn next_chunk(&self) -> Option<u64> {
        if self.is_behind_another() {
            // It is not stalled: its turn is to come.
            self.flows();
            return None;
        }
        self.window.next_chunk()
    }

    /// Says whether the copy would ask for more if there were room, and what has not come yet.
    pub(super) fn set_left(&self, wants_more: bool, left_bytes: u64) {
        let mut is_over = false;
        if let Some(flow) = self.window.0.seats.lock().taken.get_mut(&self.key) {
            is_over = flow.wants_more && !wants_more;
            (flow.wants_more, flow.left_bytes) = (wants_more, left_bytes);
        }
        if is_over {
            self.window.0.room.notify_waiters();
        }
    }

    /// What is to come before anything of this copy does; none where nothing is.
    pub(super) fn ahead(&self) -> Option<Ahead> {
        if !self.is_behind_another() {
            return None;
        }
        let rate = match &*self.window.0.rule.lock() {
            Rule::Measured(it) => it.window.best_rate(),
            _ => 0.0,
        };
        let seats = self.window.0.seats.lock();
        let before = seats.taken.range((self.key.0, 0)..self.key);
        let bytes = before.map(|(_, flow)| flow.left_bytes).sum();
        let mut tables: Vec<u64> = seats.taken.keys().map(|(table, _)| *table).collect();
        tables.dedup();
        Some(Ahead { bytes, bytes_s: whole(rate / tables.len() as f64) })
    }

    /// Something of the copy has come.
    pub(super) fn flows(&self) {
        let now_ns = self.window.0.now_ns();
        if let Some(flow) = self.window.0.seats.lock().taken.get_mut(&self.key) {
            flow.at_ns = now_ns;
        }
    }

    fn is_behind_another(&self) -> bool {
        let now_ns = self.window.0.now_ns();
        let holds_up =
            |flow: &Flow| flow.wants_more && now_ns.saturating_sub(flow.at_ns) < STALLED_NS;
        let seats = self.window.0.seats.lock();
        seats.taken.range((self.key.0, 0)..self.key).any(|(_, flow)| holds_up(flow))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.window.0.seats.lock().taken.remove(&self.key);
        self.window.0.room.notify_waiters();
    }
}

impl Inner {
    fn now_ns(&self) -> u64 {
        (self.time.now() - self.began).as_nanos().try_into().unwrap_or(u64::MAX)
    }
}

/// A chunk under way. Where it is dropped, it did not come: its room is free again.
pub(super) struct Sent {
    window: Window,
    chunk: Option<Chunk>,
}

impl Sent {
    /// It came whole.
    pub(super) fn arrived(mut self, came: Came) {
        if let Some(chunk) = self.chunk.take() {
            self.window.end(chunk, Some(came));
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.window.end(chunk, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_gives_its_room_back_to_all_who_share_the_window() {
        let window = Window::published(&Time::of_the_machine(), 100, 2);
        let other = window.clone();
        let (first, second) = (window.send(100), other.send(100));
        assert_eq!((window.next_chunk(), other.next_chunk()), (None, None));
        drop(first);
        assert_eq!(other.next_chunk(), Some(100));
        let held = Duration::ZERO;
        second.arrived(Came { wire_bytes: 100, is_packed: false, held, is_free: true });
        let all: Vec<Sent> =
            std::iter::from_fn(|| window.next_chunk().map(|it| window.send(it))).take(10).collect();
        assert_eq!(all.len(), 2);
    }

    #[test]
    fn copies_of_a_table_go_one_after_the_other_and_tables_take_turns() {
        let window = Window::published(&Time::of_the_machine(), 100, 4);
        let (first, second, other) = (window.join(7), window.join(7), window.join(9));
        assert_eq!((first.next_chunk(), other.next_chunk()), (Some(100), Some(100)));
        assert_eq!(second.next_chunk(), None, "the first has not asked for all of it yet");
        first.set_left(false, 0);
        assert_eq!(second.next_chunk(), Some(100));
        first.set_left(true, 10);
        assert_eq!(second.next_chunk(), None);
        assert_eq!(second.ahead().map(|it| it.bytes), Some(10));
        assert_eq!((first.ahead(), other.ahead()), (None, None));
        drop(first);
        assert_eq!(second.next_chunk(), Some(100));
    }

    #[test]
    fn a_copy_of_which_nothing_comes_holds_up_no_other() {
        let (time, passing) = Time::simulated(0);
        let window = Window::published(&time, 100, 4);
        passing.pass_until(Instant(10_000_000_000));
        let [first, second, third] = [7; 3].map(|table| window.join(table));
        let stall = |seat: &Seat| {
            window.0.seats.lock().taken.get_mut(&seat.key).unwrap().at_ns -= STALLED_NS;
        };
        assert_eq!(second.next_chunk(), None);
        stall(&first);
        // One that waited for its turn is not stalled by that.
        stall(&second);
        assert_eq!(second.next_chunk(), Some(100));
        first.flows();
        assert_eq!((second.next_chunk(), third.next_chunk()), (None, None));
        stall(&first);
        assert_eq!((second.next_chunk(), third.next_chunk()), (Some(100), None));
    }
}
