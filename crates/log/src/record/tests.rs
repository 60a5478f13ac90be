//! The codec: what was encoded comes back, damage is an error, and bytes from anywhere neither
//! panic nor make it take memory out of proportion.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

fn item() -> impl Strategy<Value = Item> {
    let number = || prop_oneof![0u64..300, any::<u64>()];
    let payload = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let payloads = prop::collection::vec(payload, 0..5);
    prop_oneof![
        (any::<u64>(), number(), number(), number(), payloads).prop_map(
            |(session, first, acked, stamp_ms, payloads)| {
                let session = SessionId(session);
                let first = first.min(u64::MAX - payloads.len() as u64);
                Item::Operations { session, first, acked, stamp_ms, payloads }
            }
        ),
        (any::<u64>(), number(), number()).prop_map(|(session, number, stamp_ms)| {
            Item::Fence { session: SessionId(session), number, stamp_ms }
        }),
        carried(),
        difference(),
    ]
}

/// A range that leads on, and changes of any rows from its beginning on.
fn difference() -> impl Strategy<Value = Item> {
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..max);
    let link = || (1u64..1 << 40, any::<u64>(), 0u64..1 << 40);
    let round = (any::<u64>(), bytes(20), any::<bool>());
    let end = prop::option::of(any::<[u64; 4]>());
    let rows = prop::collection::btree_map(bytes(20), prop::option::of(bytes(100)), 0..5);
    (any::<u64>(), link(), round, link(), any::<u64>(), end, rows).prop_map(
        |(incarnation, (lsn, hash, time), (round, cursor, begins), step, version, end, rows)| {
            let begins = begins || round == 0;
            let link = Link { lsn: Lsn(lsn), hash, log_time_ms: time };
            let to = Link { lsn: Lsn(lsn + step.0), hash: step.1, log_time_ms: time + step.2 };
            let after = if begins { Vec::new() } else { cursor.clone() };
            let at = Standing { link, round, cursor: cursor.into() };
            let (sequence, end) = match end {
                None => (version ^ 5, End::Before([&after[..], &[1]].concat().into())),
                Some([sequence, keys, expires, swept_ms]) => {
                    (sequence, End::Last(Counters { sequence, keys, expires, swept_ms }))
                }
            };
            let change = |(key, value): (Vec<u8>, Option<Vec<u8>>)| Change {
                key: [&after[..], &key].concat().into(),
                value: value.map(Bytes::from),
            };
            let changes = rows.into_iter().map(change).collect();
            let (incarnation, mapping_version) = (Incarnation(incarnation), version);
            let difference =
                Difference { incarnation, at, begins, to, sequence, mapping_version, end };
            Item::Difference { difference, changes }
        },
    )
}

/// Links that increase from some place on, and records of any bytes.
fn carried() -> impl Strategy<Value = Item> {
    let record = prop::collection::vec(any::<u8>(), 0..200).prop_map(Bytes::from);
    let step = (1u64..1 << 40, any::<u64>(), 0u64..1 << 40);
    let steps = prop::collection::vec((step.clone(), record), 0..5);
    let start = (0u64..1 << 40, any::<u64>(), 0u64..1 << 40);
    (any::<u64>(), start, steps, step).prop_map(|(incarnation, (lsn, hash, time), steps, end)| {
        let after = Link { lsn: Lsn(lsn), hash, log_time_ms: time };
        let mut at = after;
        let mut next = |(lsn, hash, log_time_ms): (u64, u64, u64)| {
            at = Link { lsn: Lsn(at.lsn.0 + lsn), hash, log_time_ms: at.log_time_ms + log_time_ms };
            at
        };
        let (links, records) = steps.into_iter().map(|(step, record)| (next(step), record)).unzip();
        let to = next(end);
        let incarnation = Incarnation(incarnation);
        Item::Carried { batch: Batch { incarnation, after, records: links, to }, records }
    })
}

fn record() -> impl Strategy<Value = Record> {
    let partition = (any::<u64>(), any::<u32>(), 1..=u32::MAX);
    let lead = (any::<u64>(), any::<u32>(), any::<u64>());
    let anchor = (any::<u64>(), any::<u64>(), any::<u64>());
    let items = prop::collection::vec(item(), 0..5);
    (partition, lead, any::<u64>(), anchor, items).prop_map(
        |(
            (table, ordinal, version),
            (lead, epoch, n),
            stamp_ms,
            (incarnation, lsn, hash),
            items,
        )| Record {
            partition: PartitionId { table, ordinal },
            version,
            lead: LeadStamp { lead: LeadId(lead), epoch, n },
            stamp_ms,
            anchor: Anchor { incarnation: Incarnation(incarnation), lsn: Lsn(lsn), hash },
            items,
        },
    )
}

/// Bytes with a checksum that is right, whatever they hold.
fn sealed(mut bytes: Vec<u8>) -> Bytes {
    let checksum = xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    Bytes::from(bytes)
}

fn header() -> Vec<u8> {
    let mut bytes = vec![FORMAT];
    bytes.resize(HEADER_BYTES + 4, 7);
    bytes
}

/// What a decoded record holds beside the bytes that it was decoded from.
fn held_bytes(record: &Record) -> usize {
    let payloads = |item: &Item| match item {
        Item::Operations { payloads, .. } => payloads.capacity() * size_of::<Bytes>(),
        Item::Fence { .. } => 0,
        Item::Carried { batch, records } => {
            records.capacity() * size_of::<Bytes>() + batch.records.capacity() * size_of::<Link>()
        }
        Item::Difference { changes, .. } => changes.capacity() * size_of::<Change>(),
    };
    record.items.capacity() * size_of::<Item>() + record.items.iter().map(payloads).sum::<usize>()
}

/// A payload costs a byte at least, and its handle is 32; vectors grow by doubling.
fn held_bytes_max(input: usize) -> usize {
    2 * size_of::<Bytes>() * input + 1024
}

proptest! {
    #[test]
    fn what_was_encoded_comes_back(record in record()) {
        let bytes = record.encode();
        prop_assert_eq!(Record::decode(&bytes), Ok(record.clone()));
        prop_assert_eq!(partition(&bytes), Ok(record.partition));
        let tail = checksum(&bytes).unwrap().to_le_bytes();
        prop_assert!(bytes.ends_with(&tail));
        prop_assert_eq!(Record::decode(&bytes).unwrap().encode(), bytes);
    }

    #[test]
    fn every_truncation_is_an_error(record in record()) {
        let bytes = record.encode();
        for len in 0..bytes.len() {
            prop_assert!(Record::decode(&bytes.slice(..len)).is_err());
            prop_assert!(partition(&bytes[..len]).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_is_an_error(record in record()) {
        let bytes = record.encode();
        let mut damaged = bytes.to_vec();
        for bit in 0..bytes.len() * 8 {
            damaged[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Record::decode(&Bytes::copy_from_slice(&damaged)).is_err());
            prop_assert!(partition(&damaged).is_err());
            damaged[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let _ = Record::decode(&Bytes::from(bytes.clone()));
        let _ = checksum(&bytes);
        let _ = partition(&bytes);
        let _ = get_varint(&mut bytes.as_slice());
    }

    /// The checksum keeps damage out, not malice: what it lets through is looked at as closely.
    #[test]
    fn arbitrary_items_do_no_harm(
        items in prop_oneof![
            prop::collection::vec(any::<u8>(), 1..400),
            prop::collection::vec(prop_oneof![Just(0u8), Just(1), Just(2), Just(3), Just(0x80)], 1..400),
        ]
    ) {
        let mut bytes = header();
        bytes.extend_from_slice(&items);
        let bytes = sealed(bytes);
        if let Ok(record) = Record::decode(&bytes) {
            prop_assert!(held_bytes(&record) <= held_bytes_max(bytes.len()));
            prop_assert_eq!(Record::decode(&record.encode()), Ok(record));
        }
    }

    #[test]
    fn varints_come_back(value in any::<u64>(), shift in 0u32..64) {
        let mut bytes = BytesMut::new();
        put_varint(&mut bytes, value >> shift);
        prop_assert_eq!(get_varint(&mut bytes), Ok(value >> shift));
        prop_assert!(bytes.is_empty());
    }
}

#[test]
fn the_format_is_what_it_was() {
    let record = Record {
        partition: PartitionId { table: 1, ordinal: 2 },
        version: 1,
        lead: LeadStamp { lead: LeadId(3), epoch: 4, n: 5 },
        stamp_ms: 6,
        anchor: Anchor { incarnation: Incarnation(7), lsn: Lsn(8), hash: 9 },
        items: vec![
            Item::Operations {
                session: SessionId(10),
                first: 300,
                acked: 11,
                stamp_ms: 12,
                payloads: vec![Bytes::from_static(b"ab"), Bytes::new()],
            },
            Item::Fence { session: SessionId(13), number: 14, stamp_ms: 15 },
        ],
    };
    let mut expected = vec![1];
    let le64 = |value: u64| value.to_le_bytes();
    expected.extend([&le64(1)[..], &[2, 0, 0, 0]].concat());
    expected.extend([&le64(3)[..], &[4, 0, 0, 0], &le64(5)].concat());
    expected.extend([le64(6), le64(7), le64(8), le64(9)].concat());
    expected.push(2);
    expected.push(0);
    expected.extend(le64(10));
    expected.extend([0xac, 0x02, 11, 12, 2, 2, b'a', b'b', 0]);
    expected.push(1);
    expected.extend(le64(13));
    expected.extend([14, 15]);
    assert_eq!(record.encode(), sealed(expected.clone()));
    // With a version, that comes behind the format, and all else is as before.
    let versioned = Record { version: 0x0102, ..record };
    expected.splice(..1, [2, 2, 1, 0, 0]);
    assert_eq!(versioned.encode(), sealed(expected.clone()));
    assert_eq!(Record::decode(&versioned.encode()), Ok(versioned));
    expected.splice(1..5, [1, 0, 0, 0]);
    let twice = Record::decode(&sealed(expected));
    assert_eq!(twice, Err(RecordError::Malformed("a version of 0 or 1")));
}

#[test]
fn counts_and_lengths_beyond_the_bytes_are_errors_and_take_no_memory() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
    let over_64_bits = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    let operations = |tail: &[u8]| [&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0], tail].concat();
    let carried = |links: [[u8; 10]; 2], tail: &[u8]| {
        [&[1, 2, 0, 0, 0, 0, 0, 0, 0, 0], &links[0][..], &links[1][..], tail].concat()
    };
    // LSN, hash, log time.
    let link = |lsn: u8| [lsn, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let difference = |flags: u8, to: u8, end: &[u8], tail: &[u8]| {
        let head = [&[1, 3, 0, 0, 0, 0, 0, 0, 0, 0, flags][..], &link(1), &[0, 0], &link(to)];
        [&head.concat()[..], &[5, 0], end, tail].concat()
    };
    let disordered = RecordError::Malformed("a difference out of order");
    let out_of_order = RecordError::Malformed("carried records out of order");
    let cases: [(Vec<u8>, RecordError); 16] = [
        (
            carried([link(1), link(2)], &huge),
            RecordError::Malformed("more carried records than bytes"),
        ),
        (carried([link(1), link(1)], &[0]), out_of_order),
        (carried([link(1), link(2)], &[&[1][..], &link(3), &[0]].concat()), out_of_order),
        (carried([link(1), link(2)], &[&[1][..], &link(2), &[5]].concat()), RecordError::Truncated),
        (difference(1, 2, &[1, 7], &huge), RecordError::Malformed("more changes than bytes")),
        (difference(1, 1, &[1, 7], &[0]), disordered),
        (difference(0, 2, &[1, 7], &[0]), disordered),
        (difference(3, 2, &[6, 0, 0, 0], &[0]), disordered),
        (difference(1, 2, &[1, 7], &[2, 0, 1, 8, 0, 1, 7]), disordered),
        (huge.to_vec(), RecordError::Truncated),
        (over_64_bits.to_vec(), RecordError::Malformed("a number over 64 bits")),
        ([vec![1, 4], vec![0; 8]].concat(), RecordError::Malformed("unknown kind of item")),
        (operations(&huge), RecordError::Malformed("more operations than bytes")),
        (operations(&[1, 5, b'a']), RecordError::Truncated),
        (operations(&[&[1][..], &huge].concat()), RecordError::Truncated),
        (vec![0, 0], RecordError::Malformed("bytes after the last item")),
    ];
    for (items, error) in cases {
        let bytes = sealed([header(), items].concat());
        assert_eq!(Record::decode(&bytes), Err(error));
    }
    // As many empty operations as there is room for: the worst that a record can ask for.
    let mut count = BytesMut::new();
    put_varint(&mut count, 1 << 20);
    let items = operations(&[&count[..], &vec![0; 1 << 20]].concat());
    let bytes = sealed([header(), items].concat());
    assert!(held_bytes(&Record::decode(&bytes).unwrap()) <= held_bytes_max(bytes.len()));
}

#[test]
fn another_format_is_named() {
    let mut bytes = header();
    bytes[0] = 3;
    bytes.push(0);
    assert_eq!(Record::decode(&sealed(bytes)), Err(RecordError::UnknownFormat(3)));
    assert_eq!(Record::decode(&Bytes::new()), Err(RecordError::Truncated));
}
