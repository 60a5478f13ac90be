//! The store's keys: rows in the order of their key's hash, and the expiry index in the order
//! of time. What stands under them is [`super::meta`]'s, [`super::field`]'s, [`super::tombstone`]'s,
//! [`super::removal`]'s
//! and [`super::swept`]'s.
//!
//! | row | bytes |
//! |---|---|
//! | meta row | `01`, order hash 8, length of the Redis key (varint), the Redis key, `00` |
//! | field row | `01`, order hash 8, length (varint), the Redis key, `01`, generation 8, the field |
//! | expiry index | `02`, expiry in ms since 1970 8, the key of the row that expires; no value |
//! | how far the expiry index was swept | `02` alone |
//! | tombstone | `03`, order hash 8, length (varint), the Redis key, the id of the deleted document |
//! | last removal | `04`, the first 2 bytes of the order hash; `04` alone for the removal of all |
//!
//! Integers are big-endian, so that bytes sort as numbers do. The order hash is XXH3-64 of the
//! whole Redis key. `00` belongs to the replica's own rows. These layouts are stable; a change
//! of them takes another first byte.

use plimsoll_log::record::{get_varint, put_varint};
use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64;

/// First byte of meta and field rows.
pub const KIND_ROW: u8 = 0x01;
/// First byte of the expiry index.
pub const KIND_EXPIRY: u8 = 0x02;
/// First byte of tombstones.
pub const KIND_TOMBSTONE: u8 = 0x03;
/// First byte of the rows that say when a key was last taken away.
pub const KIND_REMOVAL: u8 = 0x04;

const SUFFIX_META: u8 = 0x00;
const SUFFIX_FIELD: u8 = 0x01;
/// Sorts after every row of the same Redis key.
const SUFFIX_END: u8 = 0x02;
const HASH_BYTES: usize = 8;

/// A store key; on the stack for Redis keys of usual length.
pub type StoreKey = SmallVec<[u8; 128]>;

/// Where a Redis key stands in the order of rows: what SCAN walks along.
#[must_use]
pub fn order_hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The part of a Redis key that chooses its partition: what stands between the first `{` and
/// the next `}`, or the whole key where nothing does.
#[must_use]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = key.iter().position(|byte| *byte == b'{') else { return key };
    let rest = &key[open + 1..];
    match rest.iter().position(|byte| *byte == b'}') {
        Some(len) if len > 0 => &rest[..len],
        _ => key,
    }
}

/// The ordinal of a key's partition, the table having `partitions` of them: XXH3-64 of its
/// hash tag over equal ranges.
///
/// # Panics
/// Where `partitions` is 0.
#[must_use]
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    assert!(partitions > 0, "a table has a partition");
    if partitions == 1 {
        return 0;
    }
    let scaled = (u128::from(xxh3_64(hash_tag(key))) * u128::from(partitions)) >> 64;
    u32::try_from(scaled).expect("a product of 64 and 32 bits, less 64")
}

/// The keys of one Redis key's rows, built in one buffer.
#[derive(Clone, Debug)]
pub struct KeyRows {
    buffer: StoreKey,
    /// Length of what all rows of the key begin with.
    stem: usize,
    /// Length of the Redis key, which ends the stem.
    key: usize,
}

impl KeyRows {
    /// The rows of a Redis key.
    #[must_use]
    pub fn new(key: &[u8]) -> Self {
        let mut buffer = StoreKey::new();
        buffer.push(KIND_ROW);
        buffer.extend_from_slice(&order_hash(key).to_be_bytes());
        push_varint(&mut buffer, key.len() as u64);
        buffer.extend_from_slice(key);
        Self { stem: buffer.len(), buffer, key: key.len() }
    }

    /// The Redis key.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.buffer[self.stem - self.key..self.stem]
    }

    /// The key of the meta row.
    pub fn meta(&mut self) -> &[u8] {
        self.buffer.truncate(self.stem);
        self.buffer.push(SUFFIX_META);
        &self.buffer
    }

    /// The key of a field's row.
    pub fn field(&mut self, generation: u64, field: &[u8]) -> &[u8] {
        self.buffer.truncate(self.stem);
        self.buffer.push(SUFFIX_FIELD);
        self.buffer.extend_from_slice(&generation.to_be_bytes());
        self.buffer.extend_from_slice(field);
        &self.buffer
    }

    /// What all field rows of a generation begin with.
    #[must_use]
    pub fn fields_from(&self, generation: u64) -> StoreKey {
        RowKey::field_of(&self.buffer[..self.stem], generation, &[])
    }

    /// The first key after all field rows of a generation.
    #[must_use]
    pub fn fields_to(&self, generation: u64) -> StoreKey {
        match generation.checked_add(1) {
            Some(next) => self.fields_from(next),
            None => self.end(),
        }
    }

    /// Whether a range is that of all field rows of one generation of a key, whose rows begin with `stem`.
    #[must_use]
    pub fn is_of_all_fields(stem: &[u8], from: &[u8], to: &[u8]) -> bool {
        let generation = |key: &[u8]| {
            let rest = key.strip_prefix(stem)?.strip_prefix(&[SUFFIX_FIELD])?;
            rest.try_into().ok().map(u64::from_be_bytes)
        };
        generation(from).is_some_and(|it| it.checked_add(1) == generation(to) && it < u64::MAX)
    }

    /// The first key after all rows of the Redis key.
    #[must_use]
    pub fn end(&self) -> StoreKey {
        end_of(&self.buffer[..self.stem])
    }
}

/// What a row's key says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowKey<'a> {
    /// The order hash.
    pub hash: u64,
    /// What all rows of the Redis key begin with.
    pub stem: &'a [u8],
    /// The Redis key.
    pub key: &'a [u8],
    /// The field and its generation; `None` for a meta row.
    pub field: Option<(u64, &'a [u8])>,
}

impl<'a> RowKey<'a> {
    /// Takes a row's key apart; `None` where it is not one.
    #[must_use]
    pub fn parse(row: &'a [u8]) -> Option<Self> {
        let mut rest = row.strip_prefix(&[KIND_ROW])?;
        let hash = u64::from_be_bytes(rest.split_off(..HASH_BYTES)?.try_into().ok()?);
        let length = usize::try_from(get_varint(&mut rest).ok()?).ok()?;
        let key = rest.split_off(..length)?;
        let stem = &row[..row.len() - rest.len()];
        let field = match *rest.split_off_first()? {
            SUFFIX_META if rest.is_empty() => None,
            SUFFIX_FIELD => {
                let generation = rest.split_off(..8)?;
                Some((u64::from_be_bytes(generation.try_into().ok()?), rest))
            }
            _ => return None,
        };
        Some(Self { hash, stem, key, field })
    }

    /// The key of a field's row, where all rows of its Redis key begin with `stem`.
    #[must_use]
    pub fn field_of(stem: &[u8], generation: u64, field: &[u8]) -> StoreKey {
        let mut row = StoreKey::from_slice(stem);
        row.push(SUFFIX_FIELD);
        row.extend_from_slice(&generation.to_be_bytes());
        row.extend_from_slice(field);
        row
    }

    /// The key of the meta row, where all rows of its Redis key begin with `stem`.
    #[must_use]
    pub fn meta_of(stem: &[u8]) -> StoreKey {
        let mut row = StoreKey::from_slice(stem);
        row.push(SUFFIX_META);
        row
    }
}

/// The first key after all rows of the Redis key whose rows begin with `stem`.
#[must_use]
pub fn end_of(stem: &[u8]) -> StoreKey {
    let mut end = StoreKey::from_slice(stem);
    end.push(SUFFIX_END);
    end
}

/// The meta row that lies before `from`, where other rows of its key may lie at or after it.
#[must_use]
pub fn meta_before(from: &[u8]) -> Option<StoreKey> {
    let mut rest = from.strip_prefix(&[KIND_ROW])?;
    rest.split_off(..HASH_BYTES)?;
    let length = usize::try_from(get_varint(&mut rest).ok()?).ok()?;
    rest.split_off(..length)?;
    let stem = &from[..from.len() - rest.len()];
    if rest <= [SUFFIX_META].as_slice() || rest >= [SUFFIX_END].as_slice() {
        return None;
    }
    Some(RowKey::meta_of(stem))
}

/// The first key of rows whose order hash is at least `hash`.
#[must_use]
pub fn rows_from(hash: u64) -> StoreKey {
    let mut from = StoreKey::from_slice(&[KIND_ROW]);
    from.extend_from_slice(&hash.to_be_bytes());
    from
}

/// Says how far the expiry index was swept: no entry lies before the key that is its value
/// ([`super::swept`]).
pub const SWEPT: &[u8] = &[KIND_EXPIRY];

/// The first key after all rows.
pub const ROWS_END: &[u8] = &[KIND_ROW + 1];
/// The first key after the expiry index.
pub const EXPIRY_END: &[u8] = &[KIND_EXPIRY + 1];
/// The first key that a tombstone may have.
pub const TOMBSTONES_FROM: &[u8] = &[KIND_TOMBSTONE];
/// The first key after all tombstones.
pub const TOMBSTONES_END: &[u8] = &[KIND_TOMBSTONE + 1];

/// The key of the last removal of all keys at once; those of single keys follow it.
pub const REMOVALS_FROM: &[u8] = &[KIND_REMOVAL];
/// The first key after all removals.
pub const REMOVALS_END: &[u8] = &[KIND_REMOVAL + 1];

/// The key of the last removal among the keys that a Redis key shares a row with: about one key
/// in 65,536.
#[must_use]
pub fn removal(key: &[u8]) -> [u8; 3] {
    let [first, second, ..] = order_hash(key).to_be_bytes();
    [KIND_REMOVAL, first, second]
}

/// The key of the tombstone of a document.
#[must_use]
pub fn tombstone(key: &[u8], id: &[u8]) -> StoreKey {
    let mut row = StoreKey::from_slice(TOMBSTONES_FROM);
    row.extend_from_slice(&order_hash(key).to_be_bytes());
    push_varint(&mut row, key.len() as u64);
    row.extend_from_slice(key);
    row.extend_from_slice(id);
    row
}

/// The key of an entry of the expiry index.
#[must_use]
pub fn expiry_entry(expiry_ms: u64, row: &[u8]) -> StoreKey {
    let mut entry = expiry_from(expiry_ms);
    entry.extend_from_slice(row);
    entry
}

/// The first key of the expiry index at or after a time.
#[must_use]
pub fn expiry_from(expiry_ms: u64) -> StoreKey {
    let mut from = StoreKey::from_slice(&[KIND_EXPIRY]);
    from.extend_from_slice(&expiry_ms.to_be_bytes());
    from
}

/// The first key of the expiry index after a time.
#[must_use]
pub fn expiry_after(expiry_ms: u64) -> StoreKey {
    match expiry_ms.checked_add(1) {
        Some(next) => expiry_from(next),
        None => StoreKey::from_slice(EXPIRY_END),
    }
}

/// What an entry of the expiry index says: when, and which row; `None` where it is not one.
#[must_use]
pub fn parse_expiry(entry: &[u8]) -> Option<(u64, &[u8])> {
    let mut rest = entry.strip_prefix(&[KIND_EXPIRY])?;
    let expiry = rest.split_off(..8)?;
    Some((u64::from_be_bytes(expiry.try_into().ok()?), rest))
}

/// Appends a varint to a small vector, which is no `BufMut`.
pub(super) fn push_varint<A: smallvec::Array<Item = u8>>(out: &mut SmallVec<A>, value: u64) {
    let mut scratch = [0; 10];
    let mut rest = scratch.as_mut_slice();
    put_varint(&mut rest, value);
    let used = 10 - rest.len();
    out.extend_from_slice(&scratch[..used]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_key_lie_together_meta_first() {
        let mut rows = KeyRows::new(b"key");
        let meta = rows.meta().to_vec();
        let field = rows.field(7, b"f").to_vec();
        assert_eq!(rows.key(), b"key");
        assert!(meta < field && field < rows.end().to_vec());
        assert!(rows.fields_from(7).as_slice() < field.as_slice());
        assert!(field.as_slice() < rows.fields_to(7).as_slice());
        assert!(rows.fields_to(7).as_slice() <= rows.fields_from(8).as_slice());
        assert!(rows.fields_from(u64::MAX) < rows.fields_to(u64::MAX));
    }

    #[test]
    fn a_row_key_says_what_it_was_made_of() {
        let mut rows = KeyRows::new(b"");
        assert_eq!(RowKey::parse(rows.meta()).unwrap().field, None);
        let long = vec![b'x'; 300];
        let mut rows = KeyRows::new(&long);
        let parsed = RowKey::parse(rows.field(9, b"")).unwrap();
        assert_eq!((parsed.key, parsed.hash), (long.as_slice(), order_hash(&long)));
        assert_eq!(parsed.field, Some((9, b"".as_slice())));
        for junk in [b"".as_slice(), b"\x01", b"\x01abcdefgh", b"\x01abcdefgh\x05k\x00"] {
            assert_eq!(RowKey::parse(junk), None);
        }
    }

    #[test]
    fn the_meta_row_before_a_place_among_rows_is_found() {
        let mut rows = KeyRows::new(b"key");
        let meta = StoreKey::from_slice(rows.meta());
        let after = [&*meta, &[0]].concat();
        let fields_from = rows.fields_from(0);
        for from in [rows.field(7, b"f"), &after, &fields_from] {
            assert_eq!(meta_before(from).as_ref(), Some(&meta));
        }
        for from in [&meta[..], &meta[..meta.len() - 1], &rows.end(), &rows_from(9), b"", b"\x02"] {
            assert_eq!(meta_before(from), None);
        }
    }

    #[test]
    fn the_expiry_index_is_in_the_order_of_time() {
        let entry = expiry_entry(256, b"row");
        assert_eq!(parse_expiry(&entry), Some((256, b"row".as_slice())));
        assert!(expiry_entry(255, b"z") < entry && entry < expiry_after(256));
        assert!(expiry_entry(u64::MAX, b"z") < expiry_after(u64::MAX));
    }

    #[test]
    fn hash_tags_are_those_of_redis_cluster() {
        for (key, tag) in [
            ("user{1}:a", "1"),
            ("plain", "plain"),
            ("empty{}x", "empty{}x"),
            ("{a}{b}", "a"),
            ("{{a}}", "{a"),
            ("open{a", "open{a"),
            ("{}{a}", "{}{a}"),
        ] {
            assert_eq!(hash_tag(key.as_bytes()), tag.as_bytes(), "{key}");
        }
    }

    #[test]
    fn partitions_share_the_keys_evenly() {
        let mut counts = [0u32; 5];
        for n in 0..5000u32 {
            counts[partition_of(format!("key:{n}").as_bytes(), 5) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (900..1100).contains(count)), "{counts:?}");
        assert_eq!(partition_of(b"a{x}", 7), partition_of(b"b{x}", 7));
    }
}
