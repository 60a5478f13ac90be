//! How much of copies is under way at once from one source: the window of one copy, or one that several
//! copies from the same cluster share. The rules are `plimsoll_control::transfer`'s; here they get a
//! clock and owners that may be dropped.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use plimsoll_control::transfer::{Chunk, PublishedWindow, TransferWindow};

use crate::lead::now_ms;

/// A window; clones are the same.
#[derive(Clone)]
pub(crate) struct Window(Arc<Inner>);

struct Inner {
    began: Instant,
    rule: Mutex<Rule>,
}

enum Rule {
    Measured(Box<TransferWindow>),
    Published(PublishedWindow),
}

impl Window {
    /// One that finds the link's rate and trip by itself.
    pub(crate) fn measured() -> Self {
        // All nodes drain on the wall clock, which the cluster keeps within half a second.
        let window = TransferWindow::new(now_ms().saturating_mul(1_000_000));
        Self::of(Rule::Measured(Box::new(window)))
    }

    /// Chunks of one size, and at most so many beyond the oldest that has not come.
    pub(crate) fn published(chunk_bytes: u64, chunks_max: u64) -> Self {
        Self::of(Rule::Published(PublishedWindow::new(chunk_bytes, chunks_max)))
    }

    fn of(rule: Rule) -> Self {
        Self(Arc::new(Inner { began: Instant::now(), rule: Mutex::new(rule) }))
    }

    /// The size of the next chunk to ask for; none while the window is full.
    pub(super) fn next_chunk(&self) -> Option<u64> {
        match &*self.0.rule.lock() {
            Rule::Measured(window) => window.next_chunk(self.0.now_ns()),
            Rule::Published(window) => window.next_chunk(),
        }
    }

    /// A chunk was asked for.
    pub(super) fn send(&self, bytes: u64) -> Sent {
        let now_ns = self.0.now_ns();
        let chunk = match &mut *self.0.rule.lock() {
            Rule::Measured(window) => window.on_send(now_ns, bytes),
            Rule::Published(window) => window.on_send(now_ns, bytes),
        };
        Sent { window: self.clone(), chunk: Some(chunk) }
    }

    fn end(&self, chunk: Chunk, has_arrived: bool) {
        let now_ns = self.0.now_ns();
        match &mut *self.0.rule.lock() {
            Rule::Measured(window) if has_arrived => window.on_arrival(now_ns, chunk, 0),
            Rule::Measured(window) => window.on_error(chunk),
            Rule::Published(window) => window.on_end(chunk),
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
    /// It came whole.
    pub(super) fn arrived(mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.window.end(chunk, true);
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        if let Some(chunk) = self.chunk.take() {
            self.window.end(chunk, false);
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
        second.arrived();
        let all: Vec<Sent> =
            std::iter::from_fn(|| window.next_chunk().map(|it| window.send(it))).take(10).collect();
        assert_eq!(all.len(), 2);
    }
}
