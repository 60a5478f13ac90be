//! The published rule (Elasticsearch's `MultiChunkTransfer`): chunks of one size, and at most so many
//! beyond the oldest that has not ended, so that one slow chunk holds the others up. It is what
//! `ccr.indices.recovery.chunk_size` and `.max_concurrent_file_chunks` ask for; where neither is
//! set, the measured window is used.

use std::collections::BTreeSet;

use super::chunk::Chunk;

/// A window of `chunks_max` chunks over the oldest unfinished one.
#[derive(Clone, Debug)]
pub struct PublishedWindow {
    chunk_bytes: u64,
    chunks_max: u64,
    sent: u64,
    under_way: BTreeSet<u64>,
}

impl PublishedWindow {
    /// Chunks of so many bytes (the study's 64 KB, 1 MB and 5 MB), and so many at once (its 1, 5, 8
    /// and 10).
    ///
    /// # Panics
    /// Where either is 0.
    #[must_use]
    pub fn new(chunk_bytes: u64, chunks_max: u64) -> Self {
        assert!(chunk_bytes > 0 && chunks_max > 0, "settings bound both");
        Self { chunk_bytes, chunks_max, sent: 0, under_way: BTreeSet::new() }
    }

    /// The size of the next chunk to ask for; none while the window is full.
    #[must_use]
    pub fn next_chunk(&self) -> Option<u64> {
        let oldest = self.under_way.first().map_or(self.sent, |number| number - 1);
        (self.sent < oldest + self.chunks_max).then_some(self.chunk_bytes)
    }

    /// A chunk was asked for.
    #[must_use]
    pub fn on_send(&mut self, now_ns: u64, bytes: u64) -> Chunk {
        self.sent += 1;
        self.under_way.insert(self.sent);
        Chunk { bytes, sent_ns: now_ns, arrived_before: 0, number: self.sent }
    }

    /// It arrived, or failed.
    pub fn on_end(&mut self, chunk: Chunk) {
        assert!(self.under_way.remove(&chunk.number), "a chunk ends once");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_chunk_holds_up_all_beyond_the_window_and_no_other() {
        let mut window = PublishedWindow::new(1 << 20, 5);
        let chunks: Vec<Chunk> = (0..5).map(|_| window.on_send(0, 1 << 20)).collect();
        assert_eq!(window.next_chunk(), None);
        chunks[1..].iter().for_each(|chunk| window.on_end(*chunk));
        assert_eq!(window.next_chunk(), None, "the oldest is under way still");
        window.on_end(chunks[0]);
        let after: Vec<Chunk> = (0..5).map(|_| window.on_send(0, 1 << 20)).collect();
        assert_eq!(window.next_chunk(), None);
        window.on_end(after[0]);
        assert_eq!(window.next_chunk(), Some(1 << 20));
    }
}
