//! What clients of a store of rows ask: keys and names as YCSB's core workload has them (`keys.rs`), values
//! that do not compress. Requests are made as they are sent: rendered ones would be a few thousand rows.

use std::ops::Range;

use plimsoll_control::Random;

use super::store::Fill;
use crate::keys::{Distribution, name};
use crate::live::load::Source;
use crate::live::wire::command;

/// Kinds of requests, as [`Source`] numbers them.
pub(super) const READS: usize = 0;
pub(super) const WRITES: usize = 1;

/// Values are parts of so many random bytes and a value's length.
const POOL_BYTES: usize = 4 << 20;
/// Bytes of values that are filled in at once.
const FILLED_BYTES: u64 = 4 << 20;

/// Reads and writes of single rows.
pub(super) struct Rows {
    keys: u64,
    value_bytes: usize,
    /// The shortest value: each length from it to the longest is as likely.
    value_bytes_min: usize,
    /// The share of reads, from 0 to 1.
    reads: f64,
    distribution: Distribution,
    /// Commands of a request.
    commands: usize,
    /// The share of the commands that go to one and the same key, from 0 to 1.
    hot: f64,
    pool: Vec<u8>,
}

impl Rows {
    /// Of so many keys, drawn as YCSB draws them (zipfian).
    pub(super) fn new(keys: u64, value_bytes: usize, reads: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pool = pool(value_bytes, &mut random);
        let distribution = Distribution::scrambled_zipfian();
        let (value_bytes_min, commands, hot) = (value_bytes, 1, 0.0);
        Self { keys, value_bytes, value_bytes_min, reads, distribution, commands, hot, pool }
    }

    /// The same with values from so many bytes on.
    pub(super) fn of_at_least(self, value_bytes_min: usize) -> Self {
        Self { value_bytes_min, ..self }
    }

    /// The same by clients that send so many commands, all reads or all writes, before they read answers.
    pub(super) fn pipelined(self, commands: usize) -> Self {
        Self { commands, ..self }
    }

    /// The same with this share of the commands for one key.
    pub(super) fn hot(self, share: f64) -> Self {
        Self { hot: share, ..self }
    }

    /// A request of one command: its kind, its key and, of a write, its value. Drawn as [`Source::next`] draws it.
    pub(super) fn draw(&self, random: &mut Random) -> (usize, String, Option<&[u8]>) {
        let kind = self.kind(random);
        let key = self.key(random);
        (kind, key, (kind == WRITES).then(|| self.value(random)))
    }

    fn kind(&self, random: &mut Random) -> usize {
        if random.unit() < self.reads { READS } else { WRITES }
    }

    fn key(&self, random: &mut Random) -> String {
        let is_hot = self.hot > 0.0 && random.unit() < self.hot;
        name(if is_hot { 0 } else { self.distribution.next(self.keys, random) })
    }

    /// A value of a row.
    pub(super) fn value(&self, random: &mut Random) -> &[u8] {
        let from = random.below(POOL_BYTES);
        let least = self.value_bytes_min.min(self.value_bytes);
        let bytes = least + random.below(self.value_bytes - least + 1);
        &self.pool[from..from + bytes]
    }
}

impl Fill for Rows {
    fn fill(&self, numbers: Range<u64>, random: &mut Random) -> (Vec<u8>, usize) {
        let words = 1 + 2 * (numbers.end - numbers.start);
        let mut bytes = format!("*{words}\r\n$4\r\nMSET\r\n").into_bytes();
        for number in numbers {
            word(&mut bytes, name(number).as_bytes());
            word(&mut bytes, self.value(random));
        }
        (bytes, 1)
    }

    fn at_once(&self) -> u64 {
        // A record of the log is a few MiB at most.
        (FILLED_BYTES / self.value_bytes.max(1) as u64).clamp(1, 16)
    }
}

impl Source for Rows {
    fn next<'a>(&'a self, random: &mut Random, room: &'a mut Vec<u8>) -> (usize, &'a [u8]) {
        room.clear();
        let kind = self.kind(random);
        for _ in 0..self.commands {
            let key = self.key(random);
            match kind {
                READS => room.extend_from_slice(b"*2\r\n$3\r\nGET\r\n"),
                _ => room.extend_from_slice(b"*3\r\n$3\r\nSET\r\n"),
            }
            word(room, key.as_bytes());
            if kind == WRITES {
                word(room, self.value(random));
            }
        }
        (kind, room)
    }

    fn commands(&self) -> usize {
        self.commands
    }
}

/// Keys that all expire at one moment.
pub(super) struct Expiring {
    /// Milliseconds of the clock.
    pub(super) at_ms: u64,
    /// Those of one block are others than those of another.
    pub(super) block: usize,
}

/// Bytes of the value of a key that expires.
const EXPIRING_BYTES: usize = 100;

impl Fill for Expiring {
    fn fill(&self, numbers: Range<u64>, _: &mut Random) -> (Vec<u8>, usize) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        let (value, at_ms) = ([b'x'; EXPIRING_BYTES], self.at_ms.to_string());
        for number in numbers {
            let key = format!("storm{}-{number}", self.block);
            bytes.extend(command(&[b"SET", key.as_bytes(), &value, b"PXAT", at_ms.as_bytes()]));
            count += 1;
        }
        (bytes, count)
    }

    fn at_once(&self) -> u64 {
        128
    }
}

/// Hashes of three fields, read and written several at a time by one client, as multi-get and batch-set.
pub(super) struct Hashes {
    keys: u64,
    value_bytes: usize,
    reads: f64,
    pool: Vec<u8>,
}

/// Fields of a hash, and hashes of a request.
const FIELDS: [&[u8]; 3] = [b"one", b"two", b"three"];
const BATCH: usize = 3;

impl Hashes {
    /// Of so many keys, each as often as another: what is in memory is then as much as there is memory.
    pub(super) fn new(keys: u64, value_bytes: usize, reads: f64, seed: u64) -> Self {
        Self { keys, value_bytes, reads, pool: pool(value_bytes, &mut Random::new(seed)) }
    }

    fn set(&self, number: u64, random: &mut Random, into: &mut Vec<u8>) {
        let (key, mut words) = (name(number), vec![b"HSET".as_slice()]);
        words.push(key.as_bytes());
        for field in FIELDS {
            let from = random.below(POOL_BYTES);
            words.extend([field, &self.pool[from..from + self.value_bytes]]);
        }
        into.extend(command(&words));
    }
}

impl Fill for Hashes {
    fn fill(&self, numbers: Range<u64>, random: &mut Random) -> (Vec<u8>, usize) {
        let (mut bytes, mut count) = (Vec::new(), 0);
        for number in numbers {
            self.set(number, random, &mut bytes);
            count += 1;
        }
        (bytes, count)
    }
}

impl Source for Hashes {
    fn next<'a>(&'a self, random: &mut Random, room: &'a mut Vec<u8>) -> (usize, &'a [u8]) {
        room.clear();
        let kind = if random.unit() < self.reads { READS } else { WRITES };
        for _ in 0..BATCH {
            let number = Distribution::Uniform.next(self.keys, random);
            match kind {
                READS => {
                    let key = name(number);
                    let [one, two, three] = FIELDS;
                    room.extend(command(&[b"HMGET", key.as_bytes(), one, two, three]));
                }
                _ => self.set(number, random, room),
            }
        }
        (kind, room)
    }

    fn commands(&self) -> usize {
        BATCH
    }
}

/// Bytes that do not compress, of which values are parts.
fn pool(value_bytes: usize, random: &mut Random) -> Vec<u8> {
    let byte = |_| u8::try_from(random.below(256)).unwrap_or(0);
    (0..POOL_BYTES + value_bytes).map(byte).collect()
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
    fn what_is_drawn_is_what_is_sent() {
        let rows = Rows::new(1_000, 100, 0.5, 1);
        let (mut drawing, mut sending, mut room) = (Random::new(2), Random::new(2), Vec::new());
        for _ in 0..100 {
            let (kind, key, value) = rows.draw(&mut drawing);
            let words = match value {
                None => command(&[b"GET", key.as_bytes()]),
                Some(value) => command(&[b"SET", key.as_bytes(), value]),
            };
            assert_eq!(rows.next(&mut sending, &mut room), (kind, words.as_slice()));
        }
    }

    #[test]
    fn pipelined_commands_are_of_one_kind_and_a_hot_key_gets_its_share() {
        let rows = Rows::new(1_000, 10, 0.5, 1).pipelined(100).hot(0.75);
        let (mut random, mut room) = (Random::new(2), Vec::new());
        let (kind, bytes) = rows.next(&mut random, &mut room);
        let text = String::from_utf8_lossy(bytes);
        let verb = if kind == READS { "GET" } else { "SET" };
        assert_eq!((text.matches(verb).count(), rows.commands()), (100, 100));
        let hot = text.matches(&name(0)).count();
        assert!((55..95).contains(&hot), "{hot}");
    }

    #[test]
    fn hashes_are_asked_for_in_batches_and_set_whole() {
        let hashes = Hashes::new(10, 8, 1.0, 1);
        let (mut random, mut room) = (Random::new(2), Vec::new());
        let (kind, bytes) = hashes.next(&mut random, &mut room);
        let text = String::from_utf8_lossy(bytes);
        assert_eq!((kind, text.matches("HMGET").count(), hashes.commands()), (READS, 3, 3));
        let (bytes, count) = hashes.fill(0..2, &mut random);
        assert!(bytes.starts_with(b"*8\r\n$4\r\nHSET\r\n") && count == 2);
    }

    #[test]
    fn keys_that_expire_are_others_in_each_block() {
        let of = |block| {
            let (bytes, count) = Expiring { at_ms: 7, block }.fill(0..2, &mut Random::new(1));
            (String::from_utf8_lossy(&bytes).into_owned(), count)
        };
        let (text, count) = of(1);
        assert!(text.contains("storm1-0") && text.contains("PXAT\r\n$1\r\n7\r\n") && count == 2);
        assert!(of(2).0.contains("storm2-0"));
    }

    #[test]
    fn a_fill_has_every_row_once() {
        let rows = Rows::new(10, 4, 0.0, 1);
        let (bytes, _) = rows.fill(3..5, &mut Random::new(1));
        let text = String::from_utf8_lossy(&bytes);
        assert!(text.starts_with("*5\r\n$4\r\nMSET\r\n"));
        assert!(text.contains(&name(3)) && text.contains(&name(4)) && !text.contains(&name(5)));
    }
}
