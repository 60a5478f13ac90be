//! What is to be changed in the rows of a follower, so that a range is as its leader's.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound::{Included, Unbounded};

use bytes::Bytes;
use plimsoll_log::RECORD_BYTES_MAX;
use plimsoll_log::rules::difference::{BOUNDARY_BYTES_MAX, Change};

use super::{BREAK, NEXT, Range, RestHash, Span, boundary, check, entry_of, hash_of, scan};
use crate::rows::key::{KIND_EXPIRY, KIND_ROW, StoreKey};
use crate::rows::{RowsRead, StoreError};

/// How many bytes of changes go into one record, or one change.
const TARGET_BYTES: usize = 1 << 20;
/// The most that they ever take: the largest row that can be levelled.
pub const CHANGES_BYTES_MAX: usize = RECORD_BYTES_MAX - (512 << 10);

/// A range of the leader's, compared with the rows here. Those must not change meanwhile but by what
/// comes of it.
pub struct Comparison {
    span: Span,
    /// Rows as the leader has them.
    given: BTreeMap<Bytes, Bytes>,
    rest: super::Rest,
    /// The hashes of the leader's other rows, where they were asked for.
    theirs: Option<HashSet<u64>>,
    /// How many bytes of changes go into one record, or one change.
    target_bytes: usize,
}

/// What is to be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    /// In the order of keys.
    pub changes: Vec<Change>,
    /// The first key behind it: of the range, or before where all of it was too much at once. `None`
    /// where the range is the last.
    pub end: Option<Bytes>,
}

impl Comparison {
    /// Of what the leader said of `span`.
    ///
    /// # Errors
    /// Says what a leader would not send.
    pub fn new(mut span: Span, range: Range) -> Result<Self, StoreError> {
        let is_behind = |end: &Option<Bytes>| {
            end.as_ref().is_none_or(|end| *end > span.after && end.len() <= BOUNDARY_BYTES_MAX)
        };
        let leads_on = is_behind(&range.end)
            && match (&range.end, &span.until) {
                (Some(end), Some(until)) => end <= until,
                (None, Some(_)) => false,
                (_, None) => true,
            };
        if !leads_on {
            return Err(failed("the leader's range ends nowhere that it may"));
        }
        span.until = range.end;
        let (given, rest, theirs) = (BTreeMap::new(), range.rest, None);
        let mut comparison = Self { span, given, rest, theirs, target_bytes: TARGET_BYTES };
        comparison.take(range.rows)?;
        Ok(comparison)
    }

    /// With small records.
    #[cfg(test)]
    pub(super) fn with_target(self, target_bytes: usize) -> Self {
        Self { target_bytes, ..self }
    }

    /// The range.
    #[must_use]
    pub fn span(&self) -> &Span {
        &self.span
    }

    /// Takes in rows that the leader gave in full.
    ///
    /// # Errors
    /// Where one is not of this range, cannot be read here, or is too large for a record.
    pub fn take(&mut self, rows: Vec<(Bytes, Bytes)>) -> Result<(), StoreError> {
        for (key, value) in rows {
            let is_within =
                key >= self.span.after && self.span.until.as_ref().is_none_or(|until| key < *until);
            if !is_within {
                return Err(failed("the leader sent a row of another range"));
            }
            check(&key, &value)?;
            let bytes = key.len() + value.len();
            if bytes > CHANGES_BYTES_MAX {
                let words = format!("a row has {bytes} bytes, {CHANGES_BYTES_MAX} fit a record");
                return Err(StoreError::Failed(words));
            }
            self.given.insert(key, value);
        }
        Ok(())
    }

    /// Whether the rows here that were not given are as the leader's are.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn is_rest_same<R: RowsRead + ?Sized>(&self, own: &R) -> Result<bool, StoreError> {
        let mut rest = RestHash::default();
        self.scan_rest(own, &mut |hash| rest.add(hash))?;
        Ok(rest.finish() == self.rest)
    }

    /// Takes in the hashes of the leader's other rows, and says which of them are of rows that are not
    /// here: those are to be asked for.
    ///
    /// # Errors
    /// Where the store fails, or the hashes are not those of the range.
    pub fn missing<R: RowsRead + ?Sized>(
        &mut self,
        own: &R,
        theirs: &[u64],
    ) -> Result<Vec<u64>, StoreError> {
        let mut rest = RestHash::default();
        theirs.iter().for_each(|hash| rest.add(*hash));
        if rest.finish() != self.rest {
            return Err(failed("the leader's hashes are not those of its range"));
        }
        let all: HashSet<u64> = theirs.iter().copied().collect();
        let mut missing = all.clone();
        // There may be any number of rows here in the place of few of the leader's.
        self.scan_rest(own, &mut |hash| {
            missing.remove(&hash);
        })?;
        self.theirs = Some(all);
        Ok(theirs.iter().copied().filter(|hash| missing.contains(hash)).collect())
    }

    /// What the leader knows a row by.
    #[must_use]
    pub fn hash_of(&self, key: &[u8], value: &[u8]) -> u64 {
        hash_of(key, value, self.span.seed)
    }

    /// Shows the hash of each row here that was not given.
    fn scan_rest<R: RowsRead + ?Sized>(
        &self,
        own: &R,
        visit: &mut dyn FnMut(u64),
    ) -> Result<(), StoreError> {
        let mut given = self.given.keys().peekable();
        scan(own, &self.span.after, self.span.until.as_deref(), &mut |key, value| {
            while given.next_if(|it| &***it < key).is_some() {}
            if given.peek().is_none_or(|it| &***it != key) {
                visit(hash_of(key, value, self.span.seed));
            }
            NEXT
        })
    }

    /// What is to be changed from a key of the range on, as much as goes into one record. Everything
    /// that was missing has been taken in.
    ///
    /// # Errors
    /// Where the store fails.
    pub fn changes<R: RowsRead + ?Sized>(
        &self,
        own: &R,
        from: &[u8],
    ) -> Result<Compared, StoreError> {
        let (end, target_bytes) = (self.span.until.clone(), self.target_bytes);
        let mut made = Changes { span_end: end.clone(), end, target_bytes, ..Changes::default() };
        let mut given = self.given.range::<[u8], _>((Included(from), Unbounded)).peekable();
        let mut fault = Ok(());
        scan(own, from, self.span.until.as_deref(), &mut |key, value| {
            let mut step = || {
                while let Some((key, value)) = given.next_if(|(it, _)| &***it < key) {
                    if !made.add(key, None, Some(value))? {
                        return Ok(false);
                    }
                }
                if let Some((key, theirs)) = given.next_if(|(it, _)| &***it == key) {
                    return if **theirs == *value {
                        made.pass(key);
                        Ok(true)
                    } else {
                        made.add(key, Some(value), Some(theirs))
                    };
                }
                let hash = || hash_of(key, value, self.span.seed);
                let is_kept = self.theirs.as_ref().is_none_or(|theirs| theirs.contains(&hash()));
                if is_kept {
                    made.pass(key);
                    return Ok(true);
                }
                made.add(key, Some(value), None)
            };
            match step() {
                Ok(true) => NEXT,
                Ok(false) => BREAK,
                Err(error) => {
                    fault = Err(error);
                    BREAK
                }
            }
        })?;
        fault?;
        if !made.is_full {
            for (key, value) in given {
                if !made.add(key, None, Some(value))? {
                    break;
                }
            }
        }
        Ok(made.finish())
    }
}

/// Changes as they are gathered.
#[derive(Default)]
struct Changes {
    changes: Vec<Change>,
    bytes: usize,
    target_bytes: usize,
    /// The last key that was looked at.
    last: Vec<u8>,
    end: Option<Bytes>,
    /// Where the whole range ends.
    span_end: Option<Bytes>,
    is_full: bool,
    /// Of the expiry index: what follows from the rows. It lies behind all of them, and is compared in
    /// its turn; so it is mostly right by then, and nothing of it has to be sent.
    entries: BTreeMap<Bytes, Option<Bytes>>,
}

impl Changes {
    fn pass(&mut self, key: &[u8]) {
        self.last.clear();
        self.last.extend_from_slice(key);
    }

    /// Adds a change; false where it is too much.
    fn add(
        &mut self,
        key: &[u8],
        before: Option<&[u8]>,
        now: Option<&Bytes>,
    ) -> Result<bool, StoreError> {
        let change = Change { key: Bytes::copy_from_slice(key), value: now.cloned() };
        let bytes = change.bytes_max();
        if !self.changes.is_empty() && self.bytes + bytes > self.target_bytes {
            let end = boundary(&self.last, key);
            if end.len() > BOUNDARY_BYTES_MAX {
                return Err(failed("keys are too long to be levelled one after the other"));
            }
            (self.end, self.is_full) = (Some(end), true);
            return Ok(false);
        }
        if key.first() == Some(&KIND_ROW) {
            let entry = |value: Option<&[u8]>| match value {
                Some(value) => entry_of(key, value),
                None => Ok(None),
            };
            let (before, now) = (entry(before)?, entry(now.map(|it| &**it))?);
            if before != now {
                let mut put = |entry: Option<StoreKey>, value| {
                    if let Some(entry) = entry {
                        self.entries.insert(Bytes::copy_from_slice(&entry), value);
                    }
                };
                put(before, None);
                put(now, Some(Bytes::new()));
            }
        }
        self.bytes += bytes;
        self.changes.push(change);
        self.pass(key);
        Ok(true)
    }

    fn finish(mut self) -> Compared {
        // Where the range has a part of the index itself, that was compared already: also for the first
        // of several changes that are made of it.
        let is_behind = self.span_end.as_ref().is_some_and(|end| end[..] <= [KIND_EXPIRY][..]);
        for (key, value) in self.entries.into_iter().filter(|_| is_behind) {
            let change = Change { key, value };
            self.bytes += change.bytes_max();
            if self.bytes > CHANGES_BYTES_MAX {
                break;
            }
            self.changes.push(change);
        }
        Compared { changes: self.changes, end: self.end }
    }
}

fn failed(words: &str) -> StoreError {
    StoreError::Failed(words.to_owned())
}
