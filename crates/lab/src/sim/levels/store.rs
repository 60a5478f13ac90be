//! One copy of a partition as a store of levels: what lies in memory, in files of level 0 and in each level,
//! and what is to be rewritten next. A pure state: who does the work, and how fast, is not its affair.
//!
//! ```text
//! score of level 0 = its files / the number from which they are rewritten
//! score of level n = its bytes / what it should have; the highest goes first, from 1 on
//! rewriting level 0 = all its files and all of level 1; level n = one file, and the same keys of n + 1
//! what is left of a and b over keys of k bytes = a + b - a b / k, as keys are drawn evenly within a copy
//! ```

use std::collections::VecDeque;

use plimsoll_control::average::whole;
use plimsoll_control::pacing::debt::{Backlog, of_store};

use super::spec::Shape;

/// Levels below level 0; the last has no size that it should have.
const LEVELS: usize = 6;

/// Of the copies that were written to for long, this part over one more than the files from which level 0
/// is rewritten is ready to be: about as many as are rewritten at any time.
const READY: f64 = 0.35;

/// One compaction: what it reads, and what it will leave.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Compaction {
    /// The level that is rewritten into the next.
    pub(super) level: usize,
    files: usize,
    upper_bytes: f64,
    lower_bytes: f64,
    pub(super) output_bytes: f64,
}

impl Compaction {
    pub(super) fn input_bytes(&self) -> f64 {
        self.upper_bytes + self.lower_bytes
    }
}

#[derive(Clone, Debug)]
pub(super) struct Store {
    shape: Shape,
    memtable_bytes: f64,
    /// Full memtables, the oldest first; the first may be on its way to a file.
    sealed: VecDeque<f64>,
    is_flushing: bool,
    is_compacting: bool,
    level_0: VecDeque<f64>,
    levels: [f64; LEVELS],
    pub(super) replaced_bytes: f64,
}

impl Store {
    /// A store that has been written to for long: every part is somewhere between empty and full, by `at`,
    /// from 0 to 1.
    pub(super) fn written_to_for_long(shape: Shape, at: [f64; 3]) -> Self {
        let mut levels = [0.0; LEVELS];
        let mut left = shape.rows_bytes;
        let mut target = shape.level_base_bytes;
        // From the first level on as full as it may be; the last of them has the rest.
        for level in levels.iter_mut().take(LEVELS - 1) {
            let bytes = left.min(target * (0.5 + at[2] / 2.0));
            *level = bytes;
            left -= bytes;
            target *= shape.level_ratio;
        }
        levels[LEVELS - 1] = left;
        let files = (shape.level_0.0 as f64 + READY) * at[1] - 0.5;
        let files = whole(files);
        Self {
            shape,
            memtable_bytes: shape.memtable_bytes * at[0],
            sealed: VecDeque::new(),
            is_flushing: false,
            is_compacting: false,
            level_0: (0..files).map(|_| shape.memtable_bytes).collect(),
            levels,
            replaced_bytes: 0.0,
        }
    }

    /// Whether it takes rows.
    pub(super) fn takes(&self) -> bool {
        self.sealed.len() + 1 < self.shape.memtables_max.max(2)
            && self.level_0.len() < self.shape.level_0.1
    }

    /// Takes rows into memory; true where its memtable is full with them.
    pub(super) fn take(&mut self, bytes: f64) -> bool {
        self.memtable_bytes += bytes;
        let is_full = self.memtable_bytes >= self.shape.memtable_bytes;
        if is_full {
            self.seal();
        }
        is_full
    }

    /// Its memtable is to become a file, full or not.
    pub(super) fn seal(&mut self) {
        self.sealed.push_back(std::mem::take(&mut self.memtable_bytes));
    }

    pub(super) fn memtable_bytes(&self) -> f64 {
        self.memtable_bytes
    }

    pub(super) fn unflushed_bytes(&self) -> f64 {
        self.memtable_bytes + self.sealed.iter().sum::<f64>()
    }

    /// The bytes of the next flush, if one may begin.
    pub(super) fn begin_flush(&mut self) -> Option<f64> {
        let bytes = self.sealed.front().copied().filter(|_| !self.is_flushing)?;
        self.is_flushing = true;
        Some(bytes)
    }

    pub(super) fn end_flush(&mut self) {
        self.is_flushing = false;
        self.level_0.extend(self.sealed.pop_front());
    }

    fn target(&self, level: usize) -> f64 {
        let power = i32::try_from(level).unwrap_or(i32::MAX) - 1;
        self.shape.level_base_bytes * self.shape.level_ratio.powi(power)
    }

    /// How urgent a compaction is, from 1 on where one may begin; and of which level.
    pub(super) fn score(&self) -> Option<(f64, usize)> {
        if self.is_compacting {
            return None;
        }
        let first = self.level_0.len() as f64 / self.shape.level_0.0 as f64;
        let deep = (1..LEVELS).map(|level| (self.levels[level - 1] / self.target(level), level));
        let best = deep.fold((first, 0), |best, one| if one.0 > best.0 { one } else { best });
        Some(best).filter(|(score, _)| *score >= 1.0)
    }

    /// Begins the most urgent compaction.
    pub(super) fn begin_compaction(&mut self) -> Option<Compaction> {
        let (_, level) = self.score()?;
        self.is_compacting = true;
        let keys = self.shape.rows_bytes;
        let (files, upper_bytes, lower_bytes, part) = if level == 0 {
            (self.level_0.len(), self.level_0.iter().sum(), self.levels[0], 1.0)
        } else {
            let bytes = self.levels[level - 1];
            let upper = self.shape.file_bytes.min(bytes);
            (0, upper, self.levels[level] * upper / bytes, upper / bytes)
        };
        let joined = |a: f64, b: f64| (a + b - a * b / (keys * part)).max(a.max(b));
        let upper = match level {
            0 => self.level_0.iter().fold(0.0, |all, file| joined(all, *file)),
            _ => upper_bytes,
        };
        let output_bytes = joined(upper, lower_bytes);
        Some(Compaction { level, files, upper_bytes, lower_bytes, output_bytes })
    }

    pub(super) fn end_compaction(&mut self, of: &Compaction) {
        self.is_compacting = false;
        if of.level == 0 {
            self.level_0.drain(..of.files);
        } else {
            self.levels[of.level - 1] -= of.upper_bytes;
        }
        self.levels[of.level] += of.output_bytes - of.lower_bytes;
        self.replaced_bytes += of.input_bytes() - of.output_bytes;
    }

    pub(super) fn level_0_files(&self) -> usize {
        self.level_0.len()
    }

    pub(super) fn files_bytes(&self) -> f64 {
        self.level_0.iter().sum::<f64>() + self.levels.iter().sum::<f64>()
    }

    /// How far it is towards the point where it can take no more, 0 to 1.
    pub(super) fn debt(&self) -> f64 {
        of_store(&self.backlog())
    }

    /// What of its files is to be written anew.
    pub(super) fn backlog(&self) -> Backlog {
        // As RocksDB estimates it: what is above its size goes down, with what it meets there.
        let mut pending = 0.0;
        let mut arrives = 0.0;
        if self.level_0.len() >= self.shape.level_0.0 {
            arrives = self.level_0.iter().sum();
            pending += arrives + self.levels[0];
        }
        for level in 1..LEVELS {
            let bytes = self.levels[level - 1] + arrives;
            arrives = (bytes - self.target(level)).max(0.0);
            pending += arrives * (1.0 + self.levels[level] / bytes.max(1.0));
        }
        Backlog {
            level_0_files: self.level_0.len() as u64,
            pending_bytes: whole(pending),
            files_bytes: whole(self.files_bytes()),
        }
    }
}
