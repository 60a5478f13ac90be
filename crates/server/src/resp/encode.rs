//! Replies into bytes, for RESP2 and RESP3. Scalars are written by `redis-protocol`; the
//! headers of lists, maps and sets here.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};
use plimsoll_storage::{ErrorReply, Reply};
use redis_protocol::{resp2, resp3, resp3::types::VerbatimStringFormat};

/// The version of the protocol that a connection speaks: 2 until HELLO says 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Protocol {
    /// Lists, and nothing more.
    #[default]
    Resp2,
    /// Maps, sets, nulls and verbatim text of their own.
    Resp3,
}

impl Protocol {
    /// The number that HELLO knows it by.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Resp2 => 2,
            Self::Resp3 => 3,
        }
    }

    /// Appends a reply to `out`. Copies it once.
    pub fn encode(self, out: &mut BytesMut, reply: &Reply) {
        match reply {
            Reply::Status(text) => self.scalar(out, Scalar::Status(text)),
            Reply::Integer(number) => self.scalar(out, Scalar::Integer(*number)),
            Reply::Bulk(bytes) => self.scalar(out, Scalar::Bulk(bytes)),
            Reply::Nil => self.scalar(out, Scalar::Nil),
            Reply::NilArray if self == Self::Resp2 => out.put_slice(b"*-1\r\n"),
            Reply::NilArray => self.scalar(out, Scalar::Nil),
            Reply::Verbatim(text) => self.scalar(out, Scalar::Verbatim(text.as_bytes())),
            Reply::Error(error) => self.error(out, error),
            Reply::Array(items) => self.list(out, '*', items),
            Reply::Set(items) => {
                let kind = if self == Self::Resp3 { '~' } else { '*' };
                self.list(out, kind, items);
            }
            Reply::Map(pairs) => {
                match self {
                    Self::Resp2 => header(out, '*', 2 * pairs.len()),
                    Self::Resp3 => header(out, '%', pairs.len()),
                }
                for (key, value) in pairs {
                    self.encode(out, key);
                    self.encode(out, value);
                }
            }
        }
    }

    /// Appends a refusal. Its words may quote the client; an end of line in them would end the
    /// reply, so it becomes a space, as in Redis.
    pub fn error(self, out: &mut BytesMut, error: &ErrorReply) {
        let line = error.to_string().replace(['\r', '\n'], " ");
        self.scalar(out, Scalar::Error(&line));
    }

    fn list(self, out: &mut BytesMut, kind: char, items: &[Reply]) {
        header(out, kind, items.len());
        for item in items {
            self.encode(out, item);
        }
    }

    fn scalar(self, out: &mut BytesMut, scalar: Scalar<'_>) {
        let written = match self {
            Self::Resp2 => resp2::encode::extend_encode_borrowed(out, &scalar.resp2(), false),
            Self::Resp3 => {
                resp3::encode::complete::extend_encode_borrowed(out, &scalar.resp3(), false)
            }
        };
        // The codec sizes the buffer itself, so there is nothing left that can fail.
        written.expect("a reply always fits the buffer that was made for it");
    }
}

/// `*3\r\n` and the like.
fn header(out: &mut BytesMut, kind: char, len: usize) {
    write!(out, "{kind}{len}\r\n").expect("a buffer in memory takes any bytes");
}

/// What the codec writes.
enum Scalar<'a> {
    Status(&'a str),
    Integer(i64),
    Bulk(&'a [u8]),
    Nil,
    Verbatim(&'a [u8]),
    Error(&'a str),
}

impl<'a> Scalar<'a> {
    fn resp2(self) -> resp2::types::BorrowedFrame<'a> {
        use resp2::types::BorrowedFrame as Frame;
        match self {
            Self::Status(text) => Frame::SimpleString(text.as_bytes()),
            Self::Integer(number) => Frame::Integer(number),
            Self::Bulk(bytes) | Self::Verbatim(bytes) => Frame::BulkString(bytes),
            Self::Nil => Frame::Null,
            Self::Error(line) => Frame::Error(line),
        }
    }

    fn resp3(self) -> resp3::types::BorrowedFrame<'a> {
        use resp3::types::BorrowedFrame as Frame;
        let attributes = None;
        match self {
            Self::Status(text) => Frame::SimpleString { data: text.as_bytes(), attributes },
            Self::Integer(data) => Frame::Number { data, attributes },
            Self::Bulk(data) => Frame::BlobString { data, attributes },
            Self::Nil => Frame::Null,
            Self::Verbatim(data) => {
                Frame::VerbatimString { data, format: VerbatimStringFormat::Text, attributes }
            }
            Self::Error(data) => Frame::SimpleError { data, attributes },
        }
    }
}
