//! A simulated copy between clusters: windows of the product's own over queues for a shard, the
//! target and the link. One run is a pure function of its arguments; nothing is drawn.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use plimsoll_control::average::whole;
use plimsoll_control::transfer::{Chunk, PublishedWindow, TransferWindow};

/// What lies between two clusters. Rates are bytes per second; one that is infinite bounds nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) trip_ns: u64,
    /// What a chunk takes beside the trip, whatever its size.
    pub(super) service_ns: f64,
    /// What one shard takes in.
    pub(super) shard_bytes_s: f64,
    /// What all of them together are carried at.
    pub(super) link_bytes_s: f64,
}

/// How a shard's bytes are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arm {
    /// So many chunks of so many bytes, each shard for itself.
    Published { chunk_bytes: u64, chunks: u64 },
    /// One measured window a node, whose shards take turns.
    Measured,
}

/// What came of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copied {
    pub(super) seconds: f64,
    pub(super) chunks: u64,
    /// The most that was under way at once.
    pub(super) most_bytes: u64,
}

enum Window {
    Published(PublishedWindow),
    Measured(Box<TransferWindow>),
}

/// A window and the shards that share it, by their numbers.
struct Taker {
    window: Window,
    turns: VecDeque<usize>,
}

impl Taker {
    fn next_chunk(&self, now_ns: u64) -> Option<u64> {
        match &self.window {
            Window::Published(window) => window.next_chunk(),
            Window::Measured(window) => window.next_chunk(now_ns),
        }
    }

    fn send(&mut self, now_ns: u64, bytes: u64) -> Chunk {
        match &mut self.window {
            Window::Published(window) => window.on_send(now_ns, bytes),
            Window::Measured(window) => window.on_send(now_ns, bytes),
        }
    }

    fn arrive(&mut self, now_ns: u64, chunk: Chunk) {
        match &mut self.window {
            Window::Published(window) => window.on_end(chunk),
            Window::Measured(window) => window.on_arrival(now_ns, chunk, 0),
        }
    }
}

/// Copies shards of so many bytes to so many nodes, which have them in turns.
pub(super) fn run(path: &Path, shards: &[u64], nodes: usize, arm: Arm) -> Copied {
    let mut takers: Vec<Taker> = match arm {
        Arm::Published { chunk_bytes, chunks } => (0..shards.len())
            .map(|shard| Taker {
                window: Window::Published(PublishedWindow::new(chunk_bytes, chunks)),
                turns: VecDeque::from([shard]),
            })
            .collect(),
        Arm::Measured => (0..nodes)
            .map(|node| Taker {
                window: Window::Measured(Box::new(TransferWindow::new(0))),
                turns: (node..shards.len()).step_by(nodes).collect(),
            })
            .collect(),
    };
    let mut left = shards.to_vec();
    let mut shard_free = vec![0.0f64; shards.len()];
    let mut link_free = 0.0f64;
    let mut chunks: Vec<Option<Chunk>> = Vec::new();
    // (when, who, which chunk): the first of each has none.
    let mut events: BinaryHeap<Reverse<(u64, usize, usize)>> =
        (0..takers.len()).map(|taker| Reverse((0, taker, usize::MAX))).collect();
    let (mut now_ns, mut under_way, mut most_bytes) = (0, 0, 0);
    while let Some(Reverse((at_ns, taker_at, chunk_at))) = events.pop() {
        now_ns = at_ns;
        let taker = &mut takers[taker_at];
        if let Some(chunk) = chunks.get_mut(chunk_at).and_then(Option::take) {
            under_way -= chunk.bytes;
            taker.arrive(now_ns, chunk);
        }
        while let Some(shard) = taker.turns.front().copied()
            && let Some(bytes) = taker.next_chunk(now_ns)
        {
            let bytes = bytes.min(left[shard]);
            left[shard] -= bytes;
            taker.turns.pop_front();
            if left[shard] > 0 {
                taker.turns.push_back(shard);
            }
            let there = now_ns as f64 + path.trip_ns as f64 / 2.0 + path.service_ns;
            shard_free[shard] =
                shard_free[shard].max(there) + bytes as f64 / path.shard_bytes_s * 1e9;
            link_free = link_free.max(shard_free[shard]) + bytes as f64 / path.link_bytes_s * 1e9;
            let arrives = whole(link_free + path.trip_ns as f64 / 2.0);
            chunks.push(Some(taker.send(now_ns, bytes)));
            events.push(Reverse((arrives, taker_at, chunks.len() - 1)));
            under_way += bytes;
            most_bytes = most_bytes.max(under_way);
        }
    }
    Copied { seconds: now_ns as f64 / 1e9, chunks: chunks.len() as u64, most_bytes }
}

/// How long a copy takes that is one stream over the same link.
pub(super) fn raw_seconds(path: &Path, bytes: u64) -> f64 {
    bytes as f64 / path.link_bytes_s + 1.5 * path.trip_ns as f64 / 1e9
}
