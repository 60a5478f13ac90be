//! What a leader says of a range of its contents, as a snapshot shows them.

use bytes::Bytes;

use super::{BREAK, NEXT, RestHash, boundary, hash_of, scan, sequence_of};
use crate::rows::{RowsRead, StoreError};

/// How many rows a range has at most: the hashes of all of them are 128 KiB.
pub const HASHES_MAX: usize = 16 << 10;
/// How many bytes of rows are given in full at once, or one row.
const ROWS_BYTES_MAX: usize = 1 << 20;
/// The largest row that is given in full unasked. A larger one is compared by its hash, whatever its
/// sequence, and asked for in pieces.
const WHOLE_BYTES_MAX: usize = 512 << 10;
/// The longest piece of a row's value, bytes.
pub const PIECE_BYTES_MAX: usize = 4 << 20;
/// The longest key of a row that is given.
const KEY_BYTES_MAX: usize = 1 << 20;

/// Which rows are asked for, and how they are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first key.
    pub after: Bytes,
    /// The first key behind it; `None` where there is none.
    pub until: Option<Bytes>,
    /// What the follower has already, by the leader's sequence: newer rows come in full.
    pub since: u64,
    /// What hashes are made with.
    pub seed: u64,
}

/// How much a range has at most, or one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Rows, no more than [`HASHES_MAX`].
    pub rows: usize,
    /// Bytes of rows.
    pub bytes: usize,
    /// Bytes of rows that are given in full.
    pub given_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { rows: HASHES_MAX, bytes: 8 << 20, given_bytes: ROWS_BYTES_MAX }
    }
}

/// A range of rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Range {
    /// The first key behind it; `None` where it is the last.
    pub end: Option<Bytes>,
    /// Rows that are newer, in full, in the order of keys.
    pub rows: Vec<(Bytes, Bytes)>,
    /// All other rows.
    pub rest: Rest,
}

/// Rows by count and hash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// How many there are.
    pub count: u64,
    /// The hash of their hashes, in the order of keys.
    pub hash: u64,
}

/// Rows that were asked for by their hashes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rows {
    /// The first of them, in the order of keys, in full.
    pub rows: Vec<(Bytes, Bytes)>,
    /// Of the only one, where that is large: how many bytes of its value come behind this piece.
    pub left: u64,
}

/// Why a leader says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// More is asked for than a range has.
    #[error("a range of over {HASHES_MAX} rows is asked for")]
    TooMany,
    /// A key is too long to be sent.
    #[error("a row has a key of {0} bytes, {KEY_BYTES_MAX} is the most that a difference carries")]
    Key(usize),
}

/// Is shown a key and its value, and says whether to go on.
type VisitRow<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<bool, RangeError>;

impl Span {
    fn is_given(&self, key: &[u8], value: &[u8]) -> Result<bool, RangeError> {
        let is_short = key.len() + value.len() <= WHOLE_BYTES_MAX;
        Ok(is_short && sequence_of(key, value)?.is_some_and(|sequence| sequence > self.since))
    }

    /// Shows its rows; what goes wrong ends the walk.
    fn walk<R: RowsRead + ?Sized>(&self, rows: &R, visit: VisitRow<'_>) -> Result<(), RangeError> {
        let mut fault = Ok(());
        scan(rows, &self.after, self.until.as_deref(), &mut |key, value| {
            let goes_on = if key.len() > KEY_BYTES_MAX {
                Err(RangeError::Key(key.len()))
            } else {
                visit(key, value)
            };
            match goes_on {
                Ok(true) => NEXT,
                Ok(false) => BREAK,
                Err(error) => {
                    fault = Err(error);
                    BREAK
                }
            }
        })?;
        fault
    }
}

/// The next range of a span: all of it, or as much as one range has.
///
/// # Errors
/// See [`RangeError`].
pub fn range<R: RowsRead + ?Sized>(
    rows: &R,
    span: &Span,
    limits: &Limits,
) -> Result<Range, RangeError> {
    let mut range = Range { end: span.until.clone(), ..Range::default() };
    let mut rest = RestHash::default();
    let (mut count, mut bytes, mut given) = (0usize, 0usize, 0usize);
    let mut last = Vec::new();
    span.walk(rows, &mut |key, value| {
        let row = key.len() + value.len();
        let is_given = span.is_given(key, value)?;
        let is_full = count >= limits.rows
            || bytes + row > limits.bytes
            || (is_given && given + row > limits.given_bytes);
        if is_full && count > 0 {
            range.end = Some(boundary(&last, key));
            return Ok(false);
        }
        (count, bytes) = (count + 1, bytes + row);
        if is_given {
            given += row;
            range.rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(value)));
        } else {
            rest.add(hash_of(key, value, span.seed));
        }
        last.clear();
        last.extend_from_slice(key);
        Ok(true)
    })?;
    range.rest = rest.finish();
    Ok(range)
}

/// The hashes of a range's other rows, in the order of keys. The span must be that of a range.
///
/// # Errors
/// See [`RangeError`].
pub fn hashes<R: RowsRead + ?Sized>(rows: &R, span: &Span) -> Result<Vec<u64>, RangeError> {
    let (mut hashes, mut count) = (Vec::new(), 0usize);
    span.walk(rows, &mut |key, value| {
        count += 1;
        if count > HASHES_MAX {
            return Err(RangeError::TooMany);
        }
        if !span.is_given(key, value)? {
            hashes.push(hash_of(key, value, span.seed));
        }
        Ok(true)
    })?;
    Ok(hashes)
}

/// The first of a range's rows that have these hashes; of a large one the piece of its value at
/// `offset`. The span must be that of a range.
///
/// # Errors
/// See [`RangeError`].
pub fn rows<R: RowsRead + ?Sized>(
    rows: &R,
    span: &Span,
    wanted: &[u64],
    offset: u64,
) -> Result<Rows, RangeError> {
    let wanted: std::collections::HashSet<u64> = wanted.iter().copied().collect();
    let mut found = Rows::default();
    let (mut bytes, mut count) = (0usize, 0usize);
    span.walk(rows, &mut |key, value| {
        count += 1;
        if count > HASHES_MAX {
            return Err(RangeError::TooMany);
        }
        if !wanted.contains(&hash_of(key, value, span.seed)) {
            return Ok(true);
        }
        let row = key.len() + value.len();
        if !found.rows.is_empty() && bytes + row > ROWS_BYTES_MAX {
            return Ok(false);
        }
        bytes += row;
        let from =
            if found.rows.is_empty() { usize::try_from(offset).unwrap_or(usize::MAX) } else { 0 };
        let piece = value.get(from..).unwrap_or_default();
        let (piece, left) = piece.split_at(piece.len().min(PIECE_BYTES_MAX));
        found.left = left.len() as u64;
        found.rows.push((Bytes::copy_from_slice(key), Bytes::copy_from_slice(piece)));
        Ok(found.left == 0 && from == 0)
    })?;
    Ok(found)
}
