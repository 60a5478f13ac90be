//! The stream of records from one cluster to another: the question that begins it, and its messages.
//!
//! | part | is |
//! |---|---|
//! | method | `/plimsoll.Remote/Records`, one question, a stream of messages |
//! | question | `{"places": [{"table", "ordinal", "log", "lsn", "hash", "log_time_ms"}]}` |
//! | message that begins with 1 | a record as it stands in logs, of the leader's partition, with one carried item |
//! | message that begins with 2 | JSON, a partition of which no more comes, and why ([`super::refusal`]) |
//! | message that begins with `{` | JSON, how far the leader is |
//!
//! A carried item has the form that it has in the follower's log: what reads that reads this, and its
//! checksum shows a bit that was flipped on the way.

use bytes::{BufMut, Bytes, BytesMut};
use plimsoll_cluster::following::{FollowerPosition, Level, PLACES_MAX, Told};
use plimsoll_log::record::{Anchor, CARRIED_SINCE, Item, LeadStamp, Record};
use plimsoll_log::rules::carried::{LeaderPosition, Link};
use plimsoll_log::{Incarnation, Lsn, PartitionId};
use serde::{Deserialize, Serialize};

use super::protocol::{ProtocolError, QUESTION_BYTES_MAX, read};
use super::refusal::Refusal;

/// The method.
pub const METHOD: &str = "/plimsoll.Remote/Records";
/// The longest message: a carried item is no longer than a record may be, and what is around it takes
/// less than the rest.
pub const MESSAGE_BYTES_MAX: usize = plimsoll_log::RECORD_BYTES_MAX + (64 << 10);
/// What a carried item begins with.
const CARRIED: u8 = 1;
/// What a refusal begins with.
const REFUSED: u8 = 2;
/// The longest refusal, bytes.
const REFUSED_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    places: Vec<PlaceForm>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlaceForm {
    table: u64,
    ordinal: u32,
    log: u64,
    lsn: u64,
    hash: u64,
    log_time_ms: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Refused {
    table: u64,
    ordinal: u32,
    why: Refusal,
}

impl From<&FollowerPosition> for PlaceForm {
    fn from(place: &FollowerPosition) -> Self {
        let PartitionId { table, ordinal } = place.partition;
        let LeaderPosition { incarnation, link } = place.position;
        let Link { lsn, hash, log_time_ms } = link;
        Self { table, ordinal, log: incarnation.0, lsn: lsn.0, hash, log_time_ms }
    }
}

impl From<PlaceForm> for FollowerPosition {
    fn from(form: PlaceForm) -> Self {
        let PlaceForm { table, ordinal, log, lsn, hash, log_time_ms } = form;
        let link = Link { lsn: Lsn(lsn), hash, log_time_ms };
        let position = LeaderPosition { incarnation: Incarnation(log), link };
        Self { partition: PartitionId { table, ordinal }, position }
    }
}

/// The bytes of the question.
#[must_use]
pub fn encode_places(places: &[FollowerPosition]) -> Vec<u8> {
    let question = Question { places: places.iter().map(PlaceForm::from).collect() };
    serde_json::to_vec(&question).expect("places are plain data")
}

/// Reads a question that came from outside.
///
/// # Errors
/// See [`ProtocolError`].
pub fn decode_places(bytes: &[u8]) -> Result<Vec<FollowerPosition>, ProtocolError> {
    let Question { places } = read(bytes, QUESTION_BYTES_MAX)?;
    match places.len() {
        1..=PLACES_MAX => Ok(places.into_iter().map(FollowerPosition::from).collect()),
        count => Err(ProtocolError::Places(count)),
    }
}

/// The bytes of a message.
#[must_use]
pub fn encode(told: Told) -> Bytes {
    match told {
        Told::Level(level) => serde_json::to_vec(&level).expect("a level is plain data").into(),
        Told::Refused { partition: PartitionId { table, ordinal }, error } => {
            let refused = Refused { table, ordinal, why: error.into() };
            let mut message = vec![REFUSED];
            serde_json::to_writer(&mut message, &refused).expect("a refusal is plain data");
            message.into()
        }
        Told::Carried { partition, item } => {
            let record = Record { items: vec![item], ..empty(partition) }.encode();
            let mut message = BytesMut::with_capacity(1 + record.len());
            message.put_u8(CARRIED);
            message.extend_from_slice(&record);
            message.freeze()
        }
    }
}

/// Reads a message that came from outside.
///
/// # Errors
/// See [`ProtocolError`].
pub fn decode(bytes: &Bytes) -> Result<Told, ProtocolError> {
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(ProtocolError::TooLong(bytes.len(), MESSAGE_BYTES_MAX));
    }
    if let Some(refused) = bytes.strip_prefix(&[REFUSED]) {
        let Refused { table, ordinal, why } = read(refused, REFUSED_BYTES_MAX)?;
        return Ok(Told::Refused { partition: PartitionId { table, ordinal }, error: why.into() });
    }
    if bytes.first() != Some(&CARRIED) {
        let level: Level = read(bytes, MESSAGE_BYTES_MAX)?;
        let count = level.partitions.len();
        let is_short = count <= PLACES_MAX && level.mappings.len() <= PLACES_MAX;
        return if is_short { Ok(Told::Level(level)) } else { Err(ProtocolError::Places(count)) };
    }
    let mut record = Record::decode(&bytes.slice(1..)).map_err(ProtocolError::Record)?;
    let items = std::mem::take(&mut record.items);
    let is_empty = record == empty(record.partition);
    match <[Item; 1]>::try_from(items) {
        Ok([item @ Item::Carried { .. }]) if is_empty => {
            Ok(Told::Carried { partition: record.partition, item })
        }
        _ => Err(ProtocolError::NotCarried),
    }
}

/// What is around a carried item: it says whose it is, and nothing else.
fn empty(partition: PartitionId) -> Record {
    Record {
        partition,
        version: CARRIED_SINCE,
        lead: LeadStamp::default(),
        stamp_ms: 0,
        anchor: Anchor::default(),
        items: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_cluster::following::{PartitionLevel, RemoteError};
    use plimsoll_log::rules::carried::Batch;

    use super::*;

    fn link(lsn: u64) -> Link {
        Link { lsn: Lsn(lsn), hash: lsn * 7, log_time_ms: lsn * 10 }
    }

    fn place(ordinal: u32) -> FollowerPosition {
        let partition = PartitionId { table: u64::MAX, ordinal };
        FollowerPosition {
            partition,
            position: LeaderPosition { incarnation: Incarnation(3), link: link(9) },
        }
    }

    fn carried(record: Bytes) -> Told {
        let (after, records, to) = (link(9), vec![link(12)], link(20));
        let batch = Batch { incarnation: Incarnation(3), after, records, to };
        let item = Item::Carried { batch, records: vec![record] };
        Told::Carried { partition: place(1).partition, item }
    }

    #[test]
    fn places_are_these_bytes() {
        let text = r#"{"places":[{"table":18446744073709551615,"ordinal":1,"log":3,"lsn":9,"hash":63,"log_time_ms":90}]}"#;
        assert_eq!(encode_places(&[place(1)]), text.as_bytes());
        assert_eq!(decode_places(text.as_bytes()), Ok(vec![place(1)]));
        let full = PlaceForm {
            table: u64::MAX,
            ordinal: u32::MAX,
            log: u64::MAX,
            lsn: u64::MAX,
            hash: u64::MAX,
            log_time_ms: u64::MAX,
        };
        let longest = vec![FollowerPosition::from(full); PLACES_MAX];
        assert_eq!(decode_places(&encode_places(&longest)), Ok(longest));
        let many = encode_places(&vec![place(1); PLACES_MAX + 1]);
        assert_eq!(decode_places(&many), Err(ProtocolError::Places(1025)));
        assert_eq!(decode_places(b"{\"places\":[]}"), Err(ProtocolError::Places(0)));
        for text in ["", "{}", r#"{"places":[{"table":1}]}"#, r#"{"places":[],"more":1}"#] {
            let refused = decode_places(text.as_bytes());
            assert!(matches!(refused, Err(ProtocolError::Unknown(..))), "{text}");
        }
    }

    #[test]
    fn messages_come_as_they_went() {
        let sequence = Some(7);
        let partition = PartitionLevel {
            table: 5,
            ordinal: 1,
            lsn: 9,
            log_time_ms: 8,
            sequence,
            held_permille: 7,
        };
        let mappings = [(5, 3)].into();
        let level = Told::Level(Level { partitions: vec![partition], mappings, clock_ms: 1 });
        let error = RemoteError::Trimmed("gone".to_owned());
        let refused = Told::Refused { partition: place(1).partition, error };
        for told in [level, refused, carried(Bytes::from_static(b"record"))] {
            let message = encode(told.clone());
            assert_eq!(decode(&message), Ok(told));
        }
        // A record alone that is as long as may be.
        let longest = carried(Bytes::from(vec![7; plimsoll_log::RECORD_BYTES_MAX]));
        assert_eq!(decode(&encode(longest.clone())), Ok(longest));
        let newer = Bytes::from_static(br#"{"partitions":[],"mappings":{},"clock_ms":1,"more":2}"#);
        assert!(decode(&newer).is_ok());
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let message = encode(carried(Bytes::from_static(b"record")));
        for at in 0..message.len() {
            let mut flipped = message.to_vec();
            flipped[at] ^= 4;
            assert!(decode(&flipped.into()).is_err(), "byte {at}");
        }
        for len in 0..message.len() {
            assert!(decode(&message.slice(..len)).is_err(), "{len} bytes");
        }
        let framed = |record: Record| Bytes::from([&[CARRIED], &*record.encode()].concat());
        let whole = place(1).partition;
        let marker = empty(whole);
        let Told::Carried { item, .. } = carried(Bytes::new()) else { panic!() };
        let twice = Record { items: vec![item.clone(), item.clone()], ..empty(whole) };
        let stamped = Record { items: vec![item], stamp_ms: 1, ..empty(whole) };
        for record in [marker, twice, stamped] {
            assert_eq!(decode(&framed(record)), Err(ProtocolError::NotCarried));
        }
        let long = Bytes::from(vec![CARRIED; MESSAGE_BYTES_MAX + 1]);
        assert!(matches!(decode(&long), Err(ProtocolError::TooLong(..))));
    }
}
