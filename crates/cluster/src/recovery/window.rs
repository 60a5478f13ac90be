//! How much of copies is under way at once from one source: the window of one copy, or one that several
//! copies from the same cluster share. The rules are `plimsoll_control::transfer`'s; here they get a
//! clock and owners that may be dropped.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use plimsoll_control::average::whole;
use plimsoll_control::transfer::{Chunk, LinkRate, PublishedWindow, TransferWindow};

use super::bound::Bound;
use crate::lead::now_ms;

/// A window; clones are the same.
#[derive(Clone)]
pub(crate) struct Window(Arc<Inner>);

struct Inner {
    began: Instant,
    rule: Mutex<Rule>,
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
}

impl Window {
    /// One that finds the link's rate and trip by itself.
    pub(crate) fn measured() -> Self {
        // All nodes drain on the wall clock, which the cluster keeps within half a second.
        let window = TransferWindow::new(now_ms().saturating_mul(1_000_000));
        Self::of(Rule::Measured(Box::new(Measured { window, link: LinkRate::default() })))
    }

    /// Chunks of one size, and at most so many beyond the oldest that has not come.
    pub(crate) fn published(chunk_bytes: u64, chunks_max: u64) -> Self {
        Self::of(Rule::Published(PublishedWindow::new(chunk_bytes, chunks_max)))
    }

    /// The same over a link that carries so many bytes a second.
    #[cfg(test)]
    pub(super) fn known(chunk_bytes: u64, chunks_max: u64, link_bytes_s: u64) -> Self {
        Self::of(Rule::Known(PublishedWindow::new(chunk_bytes, chunks_max), link_bytes_s))
    }

    fn of(rule: Rule) -> Self {
        Self(Arc::new(Inner { began: Instant::now(), rule: Mutex::new(rule) }))
    }

    /// The size of the next chunk to ask for; none while the window is full.
    pub(super) fn next_chunk(&self) -> Option<u64> {
        match &*self.0.rule.lock() {
            Rule::Measured(it) => it.window.next_chunk(self.0.now_ns()),
            Rule::Published(window) => window.next_chunk(),
            #[cfg(test)]
            Rule::Known(window, _) => window.next_chunk(),
        }
    }

    /// What the link carries, bytes per second as they are on it; none while that is not known, and where
    /// the window is what bounds.
    pub(super) fn link_bytes_s(&self) -> Option<u64> {
        let now_ns = self.0.now_ns();
        match &mut *self.0.rule.lock() {
            // What comes while the window grows says little of the link.
            Rule::Measured(it) if !it.window.is_starting() => it.link.bytes_s(now_ns).map(whole),
            Rule::Measured(_) | Rule::Published(_) => None,
            #[cfg(test)]
            Rule::Known(_, bytes_s) => Some(*bytes_s),
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

    /// A chunk has come, as [`LinkRate::on_end`] has it, after its source held it back for so long; or not.
    fn end(&self, chunk: Chunk, came: Option<(u64, bool)>, held: Duration) {
        let now_ns = self.0.now_ns();
        match &mut *self.0.rule.lock() {
            Rule::Measured(it) => {
                let is_starting = it.window.is_starting();
                match came {
                    Some(_) => {
                        let held_ns = u64::try_from(held.as_nanos()).unwrap_or(u64::MAX);
                        it.window.on_arrival(now_ns, chunk, held_ns);
                    }
                    None => it.window.on_error(chunk),
                }
                it.link.on_end(now_ns, came.filter(|_| !is_starting));
            }
            Rule::Published(window) => window.on_end(chunk),
            #[cfg(test)]
            Rule::Known(window, _) => window.on_end(chunk),
        }
    }
}

impl Inner {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A chunk under way. Where it is dropped, it did not come: its room is free again.
pub(super) struct Sent {
    window: Window,
    chunk: Option<Chunk>,
}

impl Sent {
    /// It came whole, as so many bytes, compressed or not, after its source held it back for so long.
    pub(super) fn arrived(mut self, wire_bytes: u64, is_packed: bool, held: Duration) {
        if let Some(chunk) = self.chunk.take() {
            self.window.end(chunk, Some((wire_bytes, is_packed)), held);
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.window.end(chunk, None, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_gives_its_room_back_to_all_who_share_the_window() {
        let window = Window::published(100, 2);
        let other = window.clone();
        let (first, second) = (window.send(100), other.send(100));
        assert_eq!((window.next_chunk(), other.next_chunk()), (None, None));
        drop(first);
        assert_eq!(other.next_chunk(), Some(100));
        second.arrived(100, false, Duration::ZERO);
        let all: Vec<Sent> =
            std::iter::from_fn(|| window.next_chunk().map(|it| window.send(it))).take(10).collect();
        assert_eq!(all.len(), 2);
    }
}
