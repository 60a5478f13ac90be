//! What clients of a store of rows ask: keys and names as YCSB's core workload has them (`keys.rs`), values
//! that do not compress. Requests are made as they are sent: rendered ones would be a few thousand rows.

use plimsoll_control::Random;

use crate::keys::{Distribution, name};
use crate::live::load::Source;

/// Kinds of requests, as [`Source`] numbers them.
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// Values are parts of so many random bytes and a value's length.
const POOL_BYTES: usize = 4 << 20;

/// Reads and writes of single rows.
pub(super) struct Rows {
    keys: u64,
    value_bytes: usize,
    /// The share of reads, from 0 to 1.
    reads: f64,
    distribution: Distribution,
    pool: Vec<u8>,
}

impl Rows {
    /// Of so many keys, drawn as YCSB draws them (zipfian).
    pub(super) fn new(keys: u64, value_bytes: usize, reads: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pool = (0..POOL_BYTES + value_bytes)
            .map(|_| u8::try_from(random.below(256)).unwrap_or(0))
            .collect();
        Self { keys, value_bytes, reads, distribution: Distribution::scrambled_zipfian(), pool }
    }

    /// A command that sets the rows of these numbers.
    pub(super) fn fill(&self, numbers: std::ops::Range<u64>, random: &mut Random) -> Vec<u8> {
        let mut bytes =
            format!("*{}\r\n$4\r\nMSET\r\n", 1 + 2 * (numbers.end - numbers.start)).into_bytes();
        for number in numbers {
            word(&mut bytes, name(number).as_bytes());
            word(&mut bytes, self.value(random));
        }
        bytes
    }

    fn value(&self, random: &mut Random) -> &[u8] {
        let from = random.below(POOL_BYTES);
        &self.pool[from..from + self.value_bytes]
    }
}

impl Source for Rows {
    fn next<'a>(&'a self, random: &mut Random, room: &'a mut Vec<u8>) -> (usize, &'a [u8]) {
        let key = name(self.distribution.next(self.keys, random));
        room.clear();
        let kind = if random.unit() < self.reads { READS } else { WRITES };
        match kind {
            READS => room.extend_from_slice(b"*2\r\n$3\r\nGET\r\n"),
            _ => room.extend_from_slice(b"*3\r\n$3\r\nSET\r\n"),
        }
        word(room, key.as_bytes());
        if kind == WRITES {
            word(room, self.value(random));
        }
        (kind, room)
    }
}

fn word(into: &mut Vec<u8>, word: &[u8]) {
    into.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
    into.extend_from_slice(word);
    into.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_commands_of_both_kinds_in_their_shares() {
        let rows = Rows::new(1_000, 100, 0.75, 1);
        let (mut random, mut room) = (Random::new(2), Vec::new());
        let mut reads = 0;
        for _ in 0..10_000 {
            match rows.next(&mut random, &mut room) {
                (READS, bytes) => {
                    assert!(bytes.starts_with(b"*2\r\n$3\r\nGET\r\n"));
                    reads += 1;
                }
                (_, bytes) => {
                    assert!(bytes.starts_with(b"*3\r\n$3\r\nSET\r\n") && bytes.len() > 100)
                }
            }
        }
        assert!((7_300..7_700).contains(&reads), "{reads}");
    }

    #[test]
    fn a_fill_has_every_row_once() {
        let rows = Rows::new(10, 4, 0.0, 1);
        let bytes = rows.fill(3..5, &mut Random::new(1));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("*5\r\n$4\r\nMSET\r\n"));
        assert!(text.contains(&name(3)) && text.contains(&name(4)) && !text.contains(&name(5)));
    }
}
