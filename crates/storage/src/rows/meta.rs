//! The value of a meta row: what is known of a Redis key as a whole, and a string's value.
//!
//! | field | bytes |
//! |---|---|
//! | format, now 2 | 1 |
//! | type: 1 string, 2 hash; plus 128 where it has an expiry | 1 |
//! | last change: the partition's sequence number | varint |
//! | expiry, ms since 1970, where it has one | varint |
//! | of a hash: generation, fields, fields with an expiry, no field expires before (ms) | varints |
//! | of a string: version (not in format 1), value | varint, the rest |
//!
//! The format number is stable: a change of meaning takes the next one.

use bytes::Bytes;
use plimsoll_log::record::get_varint;
use smallvec::SmallVec;

use super::StoreError;
use super::key::push_varint;

const FORMAT: u8 = 2;
/// Strings had no version.
const FORMAT_UNVERSIONED: u8 = 1;
const TYPE_STRING: u8 = 1;
const TYPE_HASH: u8 = 2;
const HAS_EXPIRY: u8 = 0x80;

/// Bytes of a row's value being built, or of what precedes a client's own; on the stack up to a usual size.
pub type RowBytes = SmallVec<[u8; 64]>;

/// What a Redis key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A string, whole in the meta row.
    String,
    /// A hash, each field in a row of its own.
    Hash(Fields),
}

impl Kind {
    /// The name of the type, as TYPE answers it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Hash(_) => "hash",
        }
    }
}

/// What a meta row knows of a hash's fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Stands in the keys of the field rows; another one each time the hash is made anew.
    pub generation: u64,
    /// Field rows stored, those included that have expired and were not swept yet.
    pub total: u64,
    /// How many of them have an expiry.
    pub expiring: u64,
    /// No field's expiry is before this, ms; without meaning where none has one.
    pub expiring_from_ms: u64,
}

/// A meta row without a string's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What the key holds.
    pub kind: Kind,
    /// The partition's sequence number at the key's last change.
    pub last_change: u64,
    /// Of a string: 1 at first, then one more at each overwrite. Of a hash, whose fields have
    /// versions: 0.
    pub version: u64,
    /// When the key expires, ms since 1970.
    pub expiry_ms: Option<u64>,
}

impl Meta {
    /// Appends the row's value, but for a string's own bytes, which follow.
    pub fn encode(&self, out: &mut RowBytes) {
        let kind = match self.kind {
            Kind::String => TYPE_STRING,
            Kind::Hash(_) => TYPE_HASH,
        };
        out.push(FORMAT);
        out.push(if self.expiry_ms.is_some() { kind | HAS_EXPIRY } else { kind });
        push_varint(out, self.last_change);
        if let Some(expiry_ms) = self.expiry_ms {
            push_varint(out, expiry_ms);
        }
        match self.kind {
            Kind::String => push_varint(out, self.version),
            Kind::Hash(fields) => {
                push_varint(out, fields.generation);
                push_varint(out, fields.total);
                push_varint(out, fields.expiring);
                push_varint(out, fields.expiring_from_ms);
            }
        }
    }

    /// The meta row in `row`, and what follows it: a string's value.
    ///
    /// # Errors
    /// Where the bytes are no meta row: the store is damaged.
    pub fn decode(row: &[u8]) -> Result<(Self, &[u8]), StoreError> {
        decode(row).ok_or_else(|| StoreError::Damaged("a meta row".into()))
    }
}

fn decode(row: &[u8]) -> Option<(Meta, &[u8])> {
    let (&[format, kind], mut rest) = row.split_first_chunk()?;
    if format != FORMAT && format != FORMAT_UNVERSIONED {
        return None;
    }
    let mut number = || get_varint(&mut rest).ok();
    let last_change = number()?;
    let expiry_ms = if kind & HAS_EXPIRY == 0 { None } else { Some(number()?) };
    let (kind, version) = match kind & !HAS_EXPIRY {
        TYPE_STRING if format == FORMAT_UNVERSIONED => (Kind::String, 1),
        TYPE_STRING => (Kind::String, number()?),
        TYPE_HASH => {
            let fields = Fields {
                generation: number()?,
                total: number()?,
                expiring: number()?,
                expiring_from_ms: number()?,
            };
            (Kind::Hash(fields), 0)
        }
        _ => return None,
    };
    Some((Meta { kind, last_change, version, expiry_ms }, rest))
}

/// A meta row as it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What it says.
    pub meta: Meta,
    row: Bytes,
    value_at: usize,
}

impl Found {
    /// Reads a stored meta row.
    ///
    /// # Errors
    /// Where the bytes are no meta row: the store is damaged.
    pub fn new(row: Bytes) -> Result<Self, StoreError> {
        let (meta, value) = Meta::decode(&row)?;
        let value_at = row.len() - value.len();
        Ok(Self { meta, row, value_at })
    }

    /// A string's value.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.row[self.value_at..]
    }

    /// A string's value, sharing the row's bytes.
    #[must_use]
    pub fn into_value(self) -> Bytes {
        self.row.slice(self.value_at..)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn meta() -> impl Strategy<Value = Meta> {
        let hash = any::<[u64; 4]>().prop_map(|[generation, total, expiring, expiring_from_ms]| {
            Kind::Hash(Fields { generation, total, expiring, expiring_from_ms })
        });
        let kind = prop_oneof![
            any::<u64>().prop_map(|version| (Kind::String, version)),
            hash.prop_map(|hash| (hash, 0)),
        ];
        (kind, any::<u64>(), any::<Option<u64>>()).prop_map(
            |((kind, version), last_change, expiry_ms)| Meta {
                kind,
                last_change,
                version,
                expiry_ms,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(meta in meta(), value: Vec<u8>) {
            let mut row = RowBytes::new();
            meta.encode(&mut row);
            row.extend_from_slice(&value);
            prop_assert_eq!(Meta::decode(&row).unwrap(), (meta, value.as_slice()));
            let found = Found::new(Bytes::copy_from_slice(&row)).unwrap();
            prop_assert_eq!(found.value(), value.as_slice());
        }

        #[test]
        fn a_string_without_a_version_has_the_first(value: Vec<u8>) {
            let row = [&[FORMAT_UNVERSIONED, TYPE_STRING, 9], value.as_slice()].concat();
            let meta = Meta { kind: Kind::String, last_change: 9, version: 1, expiry_ms: None };
            prop_assert_eq!(Meta::decode(&row).unwrap(), (meta, value.as_slice()));
        }

        #[test]
        fn any_bytes_are_read_or_refused(row: Vec<u8>) {
            let _ = Meta::decode(&row);
        }
    }
}
