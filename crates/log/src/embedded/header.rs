//! The header in front of every record in the embedded log's files, and finding headers in raw
//! bytes. It repeats what the underlying engine knows, so that damage can be judged without it.
//!
//! | field | bytes |
//! |---|---|
//! | magic | 8 |
//! | log incarnation | 8 |
//! | group | 2 |
//! | length of the record | 4 |
//! | LSN | 8 |
//! | sequence: number of the record over all groups, from 1, dense | 8 |
//! | synced: everything up to this sequence was durable when the header was written | 8 |
//! | CRC-32 of the record | 4 |
//! | CRC-32 of all fields before it | 4 |
//!
//! Integers are little-endian. The layout is stable: a change takes a new format number in the
//! identity file.

use bytes::{Buf, BufMut};

use crate::{GroupId, Incarnation, Lsn, RECORD_BYTES_MAX};

/// No UTF-8 and no run of one byte, so that records are unlikely to hold it by chance; the
/// checksum decides.
const MAGIC: [u8; 8] = [0x9f, b'P', b'l', b'i', 0xd3, b'L', b'o', 0x1a];
/// Bytes of a header.
pub(super) const HEADER_BYTES: usize = 54;

/// What stands in front of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub incarnation: Incarnation,
    pub group: GroupId,
    pub record_bytes: u32,
    pub lsn: Lsn,
    pub sequence: u64,
    pub synced: u64,
    pub record_crc: u32,
}

impl Header {
    /// The header and the record, as one payload.
    pub fn wrap(&self, record: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES + record.len());
        out.extend_from_slice(&MAGIC);
        out.put_u64_le(self.incarnation.0);
        out.put_u16_le(self.group.0);
        out.put_u32_le(self.record_bytes);
        out.put_u64_le(self.lsn.0);
        out.put_u64_le(self.sequence);
        out.put_u64_le(self.synced);
        out.put_u32_le(self.record_crc);
        let crc = crc32fast::hash(&out);
        out.put_u32_le(crc);
        out.extend_from_slice(record);
        out
    }

    /// The header that `bytes` begin with, if they begin with an undamaged one.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let header = bytes.get(..HEADER_BYTES)?;
        let (fields, crc) = header.split_at(HEADER_BYTES - 4);
        if !fields.starts_with(&MAGIC) || crc32fast::hash(fields).to_le_bytes() != crc {
            return None;
        }
        let mut rest = &fields[MAGIC.len()..];
        let header = Self {
            incarnation: Incarnation(rest.get_u64_le()),
            group: GroupId(rest.get_u16_le()),
            record_bytes: rest.get_u32_le(),
            lsn: Lsn(rest.get_u64_le()),
            sequence: rest.get_u64_le(),
            synced: rest.get_u64_le(),
            record_crc: rest.get_u32_le(),
        };
        (header.record_bytes as usize <= RECORD_BYTES_MAX).then_some(header)
    }

    /// The LSN that a payload claims, unchecked; 0 where it is too short for one.
    pub fn lsn_unchecked(payload: &[u8]) -> u64 {
        payload.get(22..30).map_or(0, |mut lsn| lsn.get_u64_le())
    }

    /// Whether `record` is the one this header was written for.
    pub fn is_of(&self, record: &[u8]) -> bool {
        record.len() == self.record_bytes as usize && crc32fast::hash(record) == self.record_crc
    }
}

/// Every undamaged header in `bytes`, with its position. A header that stands inside an intact
/// record is that record's content, and passed over.
pub(super) fn find(bytes: &[u8]) -> impl Iterator<Item = (usize, Header)> + '_ {
    let finder = memchr::memmem::Finder::new(&MAGIC).into_owned();
    let mut from = 0;
    std::iter::from_fn(move || {
        loop {
            let at = from + finder.find(bytes.get(from..)?)?;
            let Some(header) = Header::parse(&bytes[at..]) else {
                from = at + 1;
                continue;
            };
            let record_at = at + HEADER_BYTES;
            let record = bytes.get(record_at..record_at + header.record_bytes as usize);
            from = match record {
                Some(record) if header.is_of(record) => record_at + record.len(),
                _ => record_at,
            };
            return Some((at, header));
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(record: &[u8]) -> Header {
        Header {
            incarnation: Incarnation(7),
            group: GroupId(3),
            record_bytes: u32::try_from(record.len()).unwrap(),
            lsn: Lsn(0x0102_0304_0506_0708),
            sequence: 99,
            synced: 98,
            record_crc: crc32fast::hash(record),
        }
    }

    #[test]
    fn a_header_comes_back_and_any_flipped_bit_of_it_is_seen() {
        let expected = header(b"record");
        let bytes = expected.wrap(b"record");
        assert_eq!(bytes.len(), HEADER_BYTES + 6);
        assert_eq!(Header::parse(&bytes), Some(expected));
        assert_eq!(Header::lsn_unchecked(&bytes), expected.lsn.0);
        assert!(expected.is_of(b"record") && !expected.is_of(b"recorD"));
        for bit in 0..HEADER_BYTES * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Header::parse(&damaged), None, "bit {bit}");
        }
        assert_eq!(Header::parse(&bytes[..HEADER_BYTES - 1]), None);
    }

    #[test]
    fn headers_are_found_between_other_bytes_but_not_inside_an_intact_record() {
        let inner = header(b"inner").wrap(b"inner");
        let outer = header(&inner).wrap(&inner);
        let mut bytes = vec![0x9f; 5];
        bytes.extend_from_slice(&outer);
        bytes.extend_from_slice(&header(b"").wrap(b""));
        let found: Vec<_> = find(&bytes).map(|(at, header)| (at, header.record_bytes)).collect();
        assert_eq!(found, [(5, u32::try_from(inner.len()).unwrap()), (5 + outer.len(), 0)]);
    }
}
