//! What goes over the wire between a process and the one that holds the log.
//!
//! A frame is its length (4 bytes), its kind (1 byte) and its body; integers are little-endian.
//!
//! | kind | from | body |
//! |---|---|---|
//! | 1 welcome | holder | format 4 (now 1), incarnation 8, groups 2 |
//! | 2 append | client | number 8, group 2, record |
//! | 3 appended | holder | number 8, outcome 1 (0 done, 1 refused, 2 unknown), position 8 or text |
//! | 4 read | client | each group 2 and position 8; the connection then carries entries only |
//! | 5 entry | holder | group 2, position 8, record |
//! | 6 failed | holder | kind 1 (0 failed, 1 damaged, 2 trimmed), text, or group 2, first 8, asked 8 |
//! | 7 bounds | client | number 8, group 2 |
//! | 8 trim | client | number 8, group 2, position 8 |
//! | 9 answer | holder | number 8, first 8, last 8 |
//! | 10 no answer | holder | number 8, text |
//! | 11 idle | holder | nothing: no entry came for a while |

use std::io::{self, Read, Write};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{AppendError, Entry, GroupId, Incarnation, LogError, Lsn, RECORD_BYTES_MAX};

/// The format of the frames. Stable: a change of meaning takes the next number.
pub(super) const FORMAT: u32 = 1;
/// The largest frame: a record and what stands before it.
const FRAME_BYTES_MAX: usize = RECORD_BYTES_MAX + 64;

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    Welcome { format: u32, incarnation: Incarnation, groups: u16 },
    Append { number: u64, group: GroupId, record: Bytes },
    Appended { number: u64, outcome: Result<Lsn, AppendError> },
    Read { from: Vec<(GroupId, Lsn)> },
    Entry(Entry),
    Failed(LogError),
    Bounds { number: u64, group: GroupId },
    Trim { number: u64, group: GroupId, up_to: Lsn },
    Answer { number: u64, first: Lsn, last: Lsn },
    NoAnswer { number: u64, reason: String },
    Idle,
}

impl Frame {
    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut BytesMut) {
        let begin = out.len();
        out.put_u32_le(0);
        match self {
            Self::Welcome { format, incarnation, groups } => {
                out.put_u8(1);
                out.put_u32_le(*format);
                out.put_u64_le(incarnation.0);
                out.put_u16_le(*groups);
            }
            Self::Append { number, group, record } => {
                out.put_u8(2);
                out.put_u64_le(*number);
                out.put_u16_le(group.0);
                out.put_slice(record);
            }
            Self::Appended { number, outcome } => {
                out.put_u8(3);
                out.put_u64_le(*number);
                match outcome {
                    Ok(lsn) => {
                        out.put_u8(0);
                        out.put_u64_le(lsn.0);
                    }
                    Err(AppendError::Refused(reason)) => put_tagged(out, 1, reason),
                    Err(AppendError::Unknown(reason)) => put_tagged(out, 2, reason),
                }
            }
            Self::Read { from } => {
                out.put_u8(4);
                for (group, lsn) in from {
                    put_position(out, *group, *lsn);
                }
            }
            Self::Entry(entry) => {
                out.put_u8(5);
                put_position(out, entry.group, entry.lsn);
                out.put_slice(&entry.record);
            }
            Self::Failed(failure) => {
                out.put_u8(6);
                match failure {
                    LogError::Failed(reason) => put_tagged(out, 0, reason),
                    LogError::Damaged(reason) => put_tagged(out, 1, reason),
                    LogError::Trimmed { group, first, asked } => {
                        out.put_u8(2);
                        put_position(out, *group, *first);
                        out.put_u64_le(asked.0);
                    }
                }
            }
            Self::Bounds { number, group } => {
                out.put_u8(7);
                out.put_u64_le(*number);
                out.put_u16_le(group.0);
            }
            Self::Trim { number, group, up_to } => {
                out.put_u8(8);
                out.put_u64_le(*number);
                put_position(out, *group, *up_to);
            }
            Self::Answer { number, first, last } => {
                out.put_u8(9);
                out.put_u64_le(*number);
                out.put_u64_le(first.0);
                out.put_u64_le(last.0);
            }
            Self::NoAnswer { number, reason } => {
                out.put_u8(10);
                out.put_u64_le(*number);
                out.put_slice(reason.as_bytes());
            }
            Self::Idle => out.put_u8(11),
        }
        let len = u32::try_from(out.len() - begin - 4).unwrap_or(u32::MAX);
        out[begin..begin + 4].copy_from_slice(&len.to_le_bytes());
    }

    /// Takes a frame off the front of `bytes`; nothing where it is not all there yet.
    pub fn decode(bytes: &mut BytesMut) -> io::Result<Option<Self>> {
        let Some(len) = bytes.first_chunk::<4>() else { return Ok(None) };
        let len = u32::from_le_bytes(*len) as usize;
        if len == 0 || len > FRAME_BYTES_MAX {
            return Err(malformed());
        }
        if bytes.len() < 4 + len {
            return Ok(None);
        }
        bytes.advance(4);
        let body = bytes.split_to(len).freeze();
        Self::decode_body(body).map(Some).ok_or_else(malformed)
    }

    fn decode_body(mut body: Bytes) -> Option<Self> {
        Some(match body.try_get_u8().ok()? {
            1 => Self::Welcome {
                format: body.try_get_u32_le().ok()?,
                incarnation: Incarnation(body.try_get_u64_le().ok()?),
                groups: body.try_get_u16_le().ok()?,
            },
            2 => Self::Append {
                number: body.try_get_u64_le().ok()?,
                group: GroupId(body.try_get_u16_le().ok()?),
                record: body,
            },
            3 => Self::Appended {
                number: body.try_get_u64_le().ok()?,
                outcome: match body.try_get_u8().ok()? {
                    0 => Ok(Lsn(body.try_get_u64_le().ok()?)),
                    1 => Err(AppendError::Refused(text(&body))),
                    2 => Err(AppendError::Unknown(text(&body))),
                    _ => return None,
                },
            },
            4 => {
                let mut from = Vec::new();
                while body.has_remaining() {
                    from.push(position(&mut body)?);
                }
                Self::Read { from }
            }
            5 => {
                let (group, lsn) = position(&mut body)?;
                Self::Entry(Entry { group, lsn, record: body })
            }
            6 => Self::Failed(match body.try_get_u8().ok()? {
                0 => LogError::Failed(text(&body)),
                1 => LogError::Damaged(text(&body)),
                2 => {
                    let (group, first) = position(&mut body)?;
                    LogError::Trimmed { group, first, asked: Lsn(body.try_get_u64_le().ok()?) }
                }
                _ => return None,
            }),
            7 => Self::Bounds {
                number: body.try_get_u64_le().ok()?,
                group: GroupId(body.try_get_u16_le().ok()?),
            },
            8 => {
                let number = body.try_get_u64_le().ok()?;
                let (group, up_to) = position(&mut body)?;
                Self::Trim { number, group, up_to }
            }
            9 => Self::Answer {
                number: body.try_get_u64_le().ok()?,
                first: Lsn(body.try_get_u64_le().ok()?),
                last: Lsn(body.try_get_u64_le().ok()?),
            },
            10 => Self::NoAnswer { number: body.try_get_u64_le().ok()?, reason: text(&body) },
            11 => Self::Idle,
            _ => return None,
        })
    }

    /// Writes the frame at once.
    pub fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let mut bytes = BytesMut::new();
        self.encode(&mut bytes);
        to.write_all(&bytes)
    }
}

/// Reads frames off a stream; what has come of the next one is kept where a read times out.
pub(super) struct Frames<R> {
    from: R,
    bytes: BytesMut,
}

impl<R: Read> Frames<R> {
    pub fn new(from: R) -> Self {
        Self { from, bytes: BytesMut::new() }
    }

    /// A frame that is there already.
    pub fn buffered(&mut self) -> io::Result<Option<Frame>> {
        Frame::decode(&mut self.bytes)
    }

    /// The next frame.
    ///
    /// # Errors
    /// `WouldBlock` or `TimedOut` where the stream has a timeout; `UnexpectedEof` at its end.
    pub fn next(&mut self) -> io::Result<Frame> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
            let mut chunk = [0; 64 << 10];
            match self.from.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.bytes.extend_from_slice(&chunk[..count]),
            }
        }
    }
}

fn put_position(out: &mut BytesMut, group: GroupId, lsn: Lsn) {
    out.put_u16_le(group.0);
    out.put_u64_le(lsn.0);
}

fn put_tagged(out: &mut BytesMut, tag: u8, text: &str) {
    out.put_u8(tag);
    out.put_slice(text.as_bytes());
}

fn position(body: &mut Bytes) -> Option<(GroupId, Lsn)> {
    Some((GroupId(body.try_get_u16_le().ok()?), Lsn(body.try_get_u64_le().ok()?)))
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

fn malformed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "no frame of a shared log")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> Vec<Frame> {
        let (group, lsn, record) = (GroupId(3), Lsn(9), Bytes::from_static(b"record"));
        let trimmed = LogError::Trimmed { group, first: lsn, asked: Lsn(1) };
        vec![
            Frame::Welcome { format: FORMAT, incarnation: Incarnation(7), groups: 17 },
            Frame::Append { number: 1, group, record: record.clone() },
            Frame::Appended { number: 1, outcome: Ok(lsn) },
            Frame::Appended { number: 1, outcome: Err(AppendError::Refused("full".into())) },
            Frame::Appended { number: 1, outcome: Err(AppendError::Unknown("gone".into())) },
            Frame::Read { from: vec![(group, lsn), (GroupId(0), Lsn(1))] },
            Frame::Entry(Entry { group, lsn, record }),
            Frame::Failed(LogError::Failed("no".into())),
            Frame::Failed(LogError::Damaged("bad".into())),
            Frame::Failed(trimmed),
            Frame::Bounds { number: 2, group },
            Frame::Trim { number: 3, group, up_to: lsn },
            Frame::Answer { number: 2, first: Lsn(1), last: lsn },
            Frame::NoAnswer { number: 3, reason: "no".into() },
            Frame::Idle,
        ]
    }

    #[test]
    fn frames_come_back_however_they_are_cut() {
        let mut bytes = BytesMut::new();
        frames().iter().for_each(|frame| frame.encode(&mut bytes));
        for step in [1, 7, bytes.len()] {
            let mut begun = BytesMut::new();
            let mut found = Vec::new();
            for part in bytes.chunks(step) {
                begun.extend_from_slice(part);
                while let Some(frame) = Frame::decode(&mut begun).unwrap() {
                    found.push(frame);
                }
            }
            assert_eq!(found, frames());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes: Vec<u8>) {
            let mut bytes = BytesMut::from(&bytes[..]);
            while let Ok(Some(_)) = Frame::decode(&mut bytes) {}
        }
    }
}
