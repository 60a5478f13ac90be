//! What is asked and answered where a follower is levelled with a snapshot of its leader's. Questions
//! are a part of those of the port for other clusters; answers are mostly rows, and have bytes of their
//! own:
//!
//! | answer | bytes |
//! |---|---|
//! | opened | 1, snapshot (8, LE), LSN, chain hash (8, LE), log time, sequence, keys, expires, swept, mapping version |
//! | a range | 2, 1 and where it ends or 0, count and hash (8, LE) of the rest, count, then key and value each |
//! | hashes | 3, then 8 bytes each, LE |
//! | rows | 4, bytes left of the only one, count, then key and value each |
//! | closed | 5 |
//!
//! Numbers not sized here are varints; keys and values have their length before them.

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use plimsoll_log::Lsn;
use plimsoll_log::record::{RecordError, get_varint, put_varint};
use plimsoll_log::rules::carried::Link;
use plimsoll_log::rules::difference::{BOUNDARY_BYTES_MAX, Counters};
use plimsoll_storage::partition::difference::{HASHES_MAX, Range, Rest, Rows, Span};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize, Serializer};

/// How many rows may be asked for by their hashes at once: such a question has up to 180 KiB.
pub(super) const WANTED_MAX: usize = 8 << 10;
/// The longest name of a follower, bytes.
const NAME_BYTES_MAX: usize = 255;

const OPENED: u8 = 1;
const RANGE: u8 = 2;
const HASHES: u8 = 3;
const ROWS: u8 = 4;
const CLOSED: u8 = 5;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum DifferenceAsk {
    /// A snapshot of a partition, or the one that this follower has open.
    Open {
        /// The incarnation of its table.
        table: u64,
        /// Its ordinal.
        ordinal: u32,
        /// The log that was followed.
        log: u64,
        /// A name that no other follower of the same key has.
        follower: String,
    },
    /// What a range of it has.
    Range {
        /// The snapshot.
        snapshot: u64,
        /// From where on.
        span: SpanForm,
    },
    /// The hashes of a range's rows that were not given.
    Hashes {
        /// The snapshot.
        snapshot: u64,
        /// The range.
        span: SpanForm,
    },
    /// The rows of a range that have these hashes.
    Rows {
        /// The snapshot.
        snapshot: u64,
        /// The range.
        span: SpanForm,
        /// Eight bytes each, little-endian.
        #[serde(serialize_with = "base64_of", deserialize_with = "bytes_of")]
        wanted: Bytes,
        /// Where in the value of the first one to begin.
        #[serde(default)]
        offset: u64,
    },
    /// It is needed no more.
    Close {
        /// The snapshot.
        snapshot: u64,
    },
}

/// A [`Span`] as it is sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SpanForm {
    #[serde(serialize_with = "base64_of", deserialize_with = "bytes_of")]
    after: Bytes,
    /// Empty where there is none.
    #[serde(serialize_with = "base64_of", deserialize_with = "bytes_of")]
    until: Bytes,
    since: u64,
    seed: u64,
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DifferenceAnswer {
    /// To [`DifferenceAsk::Open`].
    Opened(Opened),
    /// To [`DifferenceAsk::Range`].
    Range(Range),
    /// To [`DifferenceAsk::Hashes`].
    Hashes(Vec<u64>),
    /// To [`DifferenceAsk::Rows`].
    Rows(Rows),
    /// To [`DifferenceAsk::Close`].
    Closed,
}

/// A snapshot of a leader's partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Its name.
    pub snapshot: u64,
    /// Where it stands in the leader's log.
    pub link: Link,
    /// What the leader had counted then.
    pub counters: Counters,
    /// The version of the table's mapping, which its documents fit; 0 where it has none.
    pub mapping_version: u64,
}

impl From<&Span> for SpanForm {
    fn from(span: &Span) -> Self {
        let Span { after, until, since, seed } = span.clone();
        Self { after, until: until.unwrap_or_default(), since, seed }
    }
}

impl From<SpanForm> for Span {
    fn from(form: SpanForm) -> Self {
        let SpanForm { after, until, since, seed } = form;
        Self { after, until: (!until.is_empty()).then_some(until), since, seed }
    }
}

impl DifferenceAsk {
    /// Whether it keeps the limits of a question.
    #[must_use]
    pub fn is_bounded(&self) -> bool {
        let is_short = |span: &SpanForm| {
            span.after.len() <= BOUNDARY_BYTES_MAX && span.until.len() <= BOUNDARY_BYTES_MAX
        };
        match self {
            Self::Open { follower, .. } => follower.len() <= NAME_BYTES_MAX,
            Self::Range { span, .. } | Self::Hashes { span, .. } => is_short(span),
            Self::Rows { span, wanted, .. } => {
                is_short(span) && wanted.len() <= 8 * WANTED_MAX && wanted.len().is_multiple_of(8)
            }
            Self::Close { .. } => true,
        }
    }
}

/// Hashes as they are asked for.
#[must_use]
pub(crate) fn bytes_of_hashes(hashes: &[u64]) -> Bytes {
    hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect()
}

/// The hashes in bytes whose number was looked at.
pub(crate) fn hashes_in(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<8>().0.iter().map(|hash| u64::from_le_bytes(*hash)).collect()
}

impl DifferenceAnswer {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        let mut out = BytesMut::new();
        match self {
            Self::Opened(Opened { snapshot, link, counters, mapping_version }) => {
                out.put_u8(OPENED);
                out.put_u64_le(*snapshot);
                put_varint(&mut out, link.lsn.0);
                out.put_u64_le(link.hash);
                let Counters { sequence, keys, expires, swept_ms } = *counters;
                for number in
                    [link.log_time_ms, sequence, keys, expires, swept_ms, *mapping_version]
                {
                    put_varint(&mut out, number);
                }
            }
            Self::Range(Range { end, rows, rest }) => {
                out.put_u8(RANGE);
                match end {
                    Some(end) => {
                        out.put_u8(1);
                        put_bytes(&mut out, end);
                    }
                    None => out.put_u8(0),
                }
                put_varint(&mut out, rest.count);
                out.put_u64_le(rest.hash);
                put_rows(&mut out, rows);
            }
            Self::Hashes(hashes) => {
                out.put_u8(HASHES);
                hashes.iter().for_each(|hash| out.put_u64_le(*hash));
            }
            Self::Rows(Rows { rows, left }) => {
                out.put_u8(ROWS);
                put_varint(&mut out, *left);
                put_rows(&mut out, rows);
            }
            Self::Closed => out.put_u8(CLOSED),
        }
        out.freeze()
    }

    /// Reads one that came from outside; how long it is was looked at.
    ///
    /// # Errors
    /// Where it is none.
    pub fn decode(bytes: &Bytes) -> Result<Self, RecordError> {
        let mut rest = bytes.clone();
        let answer = match take_u8(&mut rest)? {
            OPENED => {
                let snapshot = take_u64(&mut rest)?;
                let (lsn, hash) = (Lsn(get_varint(&mut rest)?), take_u64(&mut rest)?);
                let mut next = || get_varint(&mut rest);
                let link = Link { lsn, hash, log_time_ms: next()? };
                let (sequence, keys, expires, swept_ms) = (next()?, next()?, next()?, next()?);
                let counters = Counters { sequence, keys, expires, swept_ms };
                Self::Opened(Opened { snapshot, link, counters, mapping_version: next()? })
            }
            RANGE => {
                let end = match take_u8(&mut rest)? {
                    0 => None,
                    1 => Some(take_bytes(&mut rest)?),
                    _ => return Err(RecordError::Malformed("an end that is none")),
                };
                let (count, hash) = (get_varint(&mut rest)?, take_u64(&mut rest)?);
                let rows = take_rows(&mut rest)?;
                Self::Range(Range { end, rows, rest: Rest { count, hash } })
            }
            HASHES if rest.len() <= 8 * HASHES_MAX && rest.len().is_multiple_of(8) => {
                Self::Hashes(hashes_in(&rest.split_off(0)))
            }
            ROWS => {
                let left = get_varint(&mut rest)?;
                Self::Rows(Rows { left, rows: take_rows(&mut rest)? })
            }
            CLOSED => Self::Closed,
            _ => return Err(RecordError::Malformed("unknown kind of answer")),
        };
        if rest.is_empty() { Ok(answer) } else { Err(RecordError::Malformed("bytes behind it")) }
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.put_slice(bytes);
}

fn put_rows(out: &mut BytesMut, rows: &[(Bytes, Bytes)]) {
    put_varint(out, rows.len() as u64);
    for (key, value) in rows {
        put_bytes(out, key);
        put_bytes(out, value);
    }
}

fn take_u8(rest: &mut Bytes) -> Result<u8, RecordError> {
    if rest.is_empty() { Err(RecordError::Truncated) } else { Ok(rest.get_u8()) }
}

fn take_u64(rest: &mut Bytes) -> Result<u64, RecordError> {
    if rest.len() < 8 { Err(RecordError::Truncated) } else { Ok(rest.get_u64_le()) }
}

fn take_bytes(rest: &mut Bytes) -> Result<Bytes, RecordError> {
    let len = usize::try_from(get_varint(rest)?).unwrap_or(usize::MAX);
    if len > rest.len() { Err(RecordError::Truncated) } else { Ok(rest.split_to(len)) }
}

fn take_rows(rest: &mut Bytes) -> Result<Vec<(Bytes, Bytes)>, RecordError> {
    let count = usize::try_from(get_varint(rest)?).unwrap_or(usize::MAX);
    // Each takes two lengths at least.
    if count > HASHES_MAX || count > rest.len() / 2 {
        return Err(RecordError::Malformed("more rows than a range has"));
    }
    let mut rows = Vec::new();
    for _ in 0..count {
        rows.push((take_bytes(rest)?, take_bytes(rest)?));
    }
    Ok(rows)
}

fn base64_of<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&STANDARD.encode(bytes))
}

fn bytes_of<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(from)?;
    STANDARD.decode(&*text).map(Bytes::from).map_err(|_| D::Error::custom("no base64"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn answers() -> Vec<DifferenceAnswer> {
        let rows = vec![(bytes("a"), bytes("1")), (bytes("b"), Bytes::new())];
        let link = Link { lsn: Lsn(300), hash: 7, log_time_ms: 1 << 40 };
        let counters = Counters { sequence: 1, keys: 2, expires: 3, swept_ms: 4 };
        let opened = Opened { snapshot: u64::MAX, link, counters, mapping_version: 5 };
        let rest = Rest { count: 9, hash: 10 };
        vec![
            DifferenceAnswer::Opened(opened),
            DifferenceAnswer::Range(Range { end: Some(bytes("c")), rows: rows.clone(), rest }),
            DifferenceAnswer::Range(Range { end: None, rows: vec![], rest }),
            DifferenceAnswer::Hashes(vec![1, u64::MAX]),
            DifferenceAnswer::Rows(Rows { rows, left: 70_000 }),
            DifferenceAnswer::Closed,
        ]
    }

    #[test]
    fn answers_are_read_as_they_were_written_or_refused() {
        for answer in answers() {
            let bytes = answer.encode();
            assert_eq!(DifferenceAnswer::decode(&bytes), Ok(answer));
            for len in 0..bytes.len() {
                if let Ok(shorter) = DifferenceAnswer::decode(&bytes.slice(..len)) {
                    assert!(matches!(shorter, DifferenceAnswer::Hashes(_)), "{shorter:?}");
                }
            }
            let longer = Bytes::from([&bytes[..], b"x"].concat());
            assert!(DifferenceAnswer::decode(&longer).is_err());
        }
        let many = [&[ROWS, 0][..], &[0xff; 9], &[1]].concat();
        assert!(DifferenceAnswer::decode(&many.into()).is_err());
        let long = vec![HASHES; 1 + 8 * (HASHES_MAX + 1)];
        assert!(DifferenceAnswer::decode(&long.into()).is_err());
    }

    #[test]
    fn questions_have_bounds() {
        let span = |after: usize| Span {
            after: vec![1; after].into(),
            until: Some(bytes("z")),
            since: 5,
            seed: 6,
        };
        for (after, wanted, is_bounded) in [
            (BOUNDARY_BYTES_MAX, WANTED_MAX, true),
            (BOUNDARY_BYTES_MAX + 1, 1, false),
            (1, WANTED_MAX + 1, false),
        ] {
            let span = span(after);
            let wanted = bytes_of_hashes(&vec![9; wanted]);
            let ask = DifferenceAsk::Rows {
                snapshot: 1,
                span: (&span).into(),
                wanted: wanted.clone(),
                offset: 0,
            };
            assert_eq!(ask.is_bounded(), is_bounded);
            let text = serde_json::to_vec(&ask).unwrap();
            assert!(!is_bounded || text.len() < 200 << 10, "{}", text.len());
            assert_eq!(serde_json::from_slice::<DifferenceAsk>(&text).unwrap(), ask);
            let DifferenceAsk::Rows { span: form, .. } = ask else { panic!() };
            assert_eq!(Span::from(form), span);
            assert_eq!(hashes_in(&wanted).len() * 8, wanted.len());
        }
    }
}
