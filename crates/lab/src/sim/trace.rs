//! The log of a run: a checksum over every event, and the first of them in words. Two runs of one
//! seed have the same log, or the simulator is broken.

use std::fmt::Arguments;

/// Lines kept in words; the checksum covers all.
const LINES_MAX: usize = 20_000;

/// FNV-1a, 64 bits.
const BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0100_0000_01b3;

#[derive(Debug)]
pub(crate) struct Trace {
    checksum: u64,
    events: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    /// With `words` the first lines are kept as text.
    pub(crate) fn new(words: bool) -> Self {
        Self { checksum: BASIS, events: 0, lines: words.then(Vec::new) }
    }

    /// One event: when, what, about what.
    pub(crate) fn note(&mut self, now_ns: u64, numbers: [u64; 3], text: Arguments<'_>) {
        self.events += 1;
        for number in [now_ns, numbers[0], numbers[1], numbers[2]] {
            self.checksum = (self.checksum ^ number).wrapping_mul(PRIME).rotate_left(23);
        }
        if let Some(lines) = self.lines.as_mut().filter(|lines| lines.len() < LINES_MAX) {
            lines.push(format!("{now_ns} {text}"));
        }
    }

    pub(crate) fn checksum(&self) -> u64 {
        self.checksum
    }

    pub(crate) fn events(&self) -> u64 {
        self.events
    }

    #[cfg(test)]
    pub(crate) fn lines(&self) -> &[String] {
        self.lines.as_deref().unwrap_or_default()
    }
}
