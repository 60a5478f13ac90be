//! Replies into bytes, for RESP2 and RESP3: whole, or a long one in pieces, so that no second copy
//! of all of it is made.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use plimsoll_storage::{ErrorReply, Reply};

use super::codes::error_text;

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
            Reply::Status(text) => line(out, b'+', text.as_bytes()),
            Reply::Integer(value) => {
                out.put_u8(b':');
                put_integer(out, *value);
                out.put_slice(b"\r\n");
            }
            Reply::Bulk(bytes) => bulk(out, b'$', &[bytes]),
            Reply::Nil | Reply::NilArray if self == Self::Resp3 => out.put_slice(b"_\r\n"),
            Reply::Nil => out.put_slice(b"$-1\r\n"),
            Reply::NilArray => out.put_slice(b"*-1\r\n"),
            Reply::Verbatim(text) if self == Self::Resp3 => {
                bulk(out, b'=', &[b"txt:", text.as_bytes()]);
            }
            Reply::Verbatim(text) => bulk(out, b'$', &[text.as_bytes()]),
            Reply::Error(error) => self.error(out, error),
            Reply::Array(items) => self.list(out, reply, items),
            Reply::Set(items) => self.list(out, reply, items),
            Reply::Map(pairs) => {
                self.list_header(out, reply);
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
        line(out, b'-', error_text(error).replace(['\r', '\n'], " ").as_bytes());
    }

    fn list(self, out: &mut BytesMut, list: &Reply, items: &[Reply]) {
        self.list_header(out, list);
        for item in items {
            self.encode(out, item);
        }
    }

    /// `*3\r\n` and the like; nothing for what is no list.
    fn list_header(self, out: &mut BytesMut, list: &Reply) {
        let (kind, len) = match (list, self) {
            (Reply::Array(items), _) | (Reply::Set(items), Self::Resp2) => (b'*', items.len()),
            (Reply::Set(items), Self::Resp3) => (b'~', items.len()),
            (Reply::Map(pairs), Self::Resp2) => (b'*', 2 * pairs.len()),
            (Reply::Map(pairs), Self::Resp3) => (b'%', pairs.len()),
            _ => return,
        };
        header(out, kind, len);
    }
}

/// A reply that is written in pieces, and given back as it is written.
pub struct Pieces {
    protocol: Protocol,
    /// What is left of each list that was begun, the innermost last.
    open: Vec<Left>,
    /// What is left of a long value in it, which is kept as a whole until it is written.
    value: Bytes,
}

/// What is left of a list.
enum Left {
    Items(std::vec::IntoIter<Reply>),
    /// The value of a pair whose name was written, and the pairs after it.
    Pairs(Option<Reply>, std::vec::IntoIter<(Reply, Reply)>),
}

impl Iterator for Left {
    type Item = Reply;

    fn next(&mut self) -> Option<Reply> {
        match self {
            Self::Items(items) => items.next(),
            Self::Pairs(value, pairs) => value.take().or_else(|| {
                let (name, of_name) = pairs.next()?;
                *value = Some(of_name);
                Some(name)
            }),
        }
    }
}

impl Pieces {
    /// A reply, nothing of which was written.
    #[must_use]
    pub fn new(protocol: Protocol, reply: Reply) -> Self {
        Self { protocol, open: vec![Left::Items(vec![reply].into_iter())], value: Bytes::new() }
    }

    /// Appends to `out` until all is written or `out` has `high` bytes; says whether more is left.
    pub fn write(&mut self, out: &mut BytesMut, high: usize) -> bool {
        while let Some(list) = self.open.last_mut() {
            if out.len() >= high {
                return true;
            }
            if !self.value.is_empty() {
                let room = high - out.len();
                let piece = &self.value[..room.min(self.value.len())];
                out.put_slice(piece);
                self.value.advance(piece.len());
                if self.value.is_empty() {
                    self.value = Bytes::new();
                    out.put_slice(b"\r\n");
                }
                continue;
            }
            let Some(reply) = list.next() else {
                self.open.pop();
                continue;
            };
            self.protocol.list_header(out, &reply);
            match reply {
                Reply::Array(items) | Reply::Set(items) => {
                    self.open.push(Left::Items(items.into_iter()));
                }
                Reply::Map(pairs) => self.open.push(Left::Pairs(None, pairs.into_iter())),
                Reply::Bulk(value) if value.len() >= high => {
                    header(out, b'$', value.len());
                    self.value = value;
                }
                whole => self.protocol.encode(out, &whole),
            }
        }
        false
    }
}

/// `+OK\r\n` and the like.
fn line(out: &mut BytesMut, kind: u8, text: &[u8]) {
    out.reserve(text.len() + 3);
    out.put_u8(kind);
    out.put_slice(text);
    out.put_slice(b"\r\n");
}

/// `$3\r\nabc\r\n` and the like, the value being the parts one after the other.
fn bulk(out: &mut BytesMut, kind: u8, parts: &[&[u8]]) {
    let len = parts.iter().map(|part| part.len()).sum();
    out.reserve(len + DIGITS_MAX + 5);
    header(out, kind, len);
    parts.iter().for_each(|part| out.put_slice(part));
    out.put_slice(b"\r\n");
}

/// `*3\r\n` and the like.
fn header(out: &mut BytesMut, kind: u8, len: usize) {
    out.put_u8(kind);
    put_number(out, len as u64);
    out.put_slice(b"\r\n");
}

/// The most digits of a number of 64 bits.
const DIGITS_MAX: usize = 20;

fn put_integer(out: &mut BytesMut, value: i64) {
    if value < 0 {
        out.put_u8(b'-');
    }
    put_number(out, value.unsigned_abs());
}

/// A number in decimal: as many bytes as it has digits.
fn put_number(out: &mut BytesMut, mut value: u64) {
    let mut digits = [b'0'; DIGITS_MAX];
    let mut at = DIGITS_MAX;
    loop {
        at -= 1;
        digits[at] += (value % 10).to_le_bytes()[0];
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.put_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    //! Tests of numbers, and of replies in pieces.

    use proptest::prelude::*;

    use super::*;

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut out = BytesMut::new();
        protocol.encode(&mut out, reply);
        String::from_utf8(out.to_vec()).unwrap()
    }

    #[test]
    fn integers_around_every_power_of_ten() {
        let powers = (0..19).map(|power| 10i64.pow(power));
        let near = powers.flat_map(|power| (-2..=2).map(move |by| power + by));
        let all = near.flat_map(|value| [value, -value]).chain([i64::MIN, i64::MIN + 1, i64::MAX]);
        for value in all.chain([0, 999_999_999_999_999]) {
            for protocol in [Protocol::Resp2, Protocol::Resp3] {
                assert_eq!(written(&Reply::Integer(value), protocol), format!(":{value}\r\n"));
            }
        }
    }

    #[test]
    fn lengths_around_powers_of_ten() {
        for len in (0..7).flat_map(|power| {
            let power = 10usize.pow(power);
            [power - 1, power, power + 1]
        }) {
            let text = "x".repeat(len);
            let reply = Reply::bulk(text.clone());
            assert_eq!(written(&reply, Protocol::Resp2), format!("${len}\r\n{text}\r\n"));
            let reply = Reply::Verbatim(text.clone());
            let three = format!("={}\r\ntxt:{text}\r\n", len + 4);
            assert_eq!(written(&reply, Protocol::Resp3), three);
            if len > 10_000 {
                continue;
            }
            let list = Reply::Array(vec![Reply::Nil; len]);
            let nils = "$-1\r\n".repeat(len);
            assert_eq!(written(&list, Protocol::Resp2), format!("*{len}\r\n{nils}"));
            let map = Reply::Map(vec![(Reply::Nil, Reply::Nil); len]);
            let both = format!("*{}\r\n{nils}{nils}", 2 * len);
            assert_eq!(written(&map, Protocol::Resp2), both);
            let both = format!("%{len}\r\n{}", "_\r\n".repeat(2 * len));
            assert_eq!(written(&map, Protocol::Resp3), both);
        }
    }

    proptest! {
        #[test]
        fn any_number_is_written_as_it_is(value: i64) {
            prop_assert_eq!(written(&Reply::Integer(value), Protocol::Resp2), format!(":{value}\r\n"));
        }
    }

    #[test]
    fn pieces_are_the_whole() {
        let inner = Reply::Map(vec![
            (Reply::bulk("a"), Reply::Array(vec![Reply::Integer(1), Reply::Nil])),
            (Reply::bulk("b"), Reply::Set(vec![])),
        ]);
        let large = Reply::Bulk(Bytes::from(vec![b'x'; 100]));
        let reply =
            Reply::Array(vec![inner.clone(), large.clone(), Reply::Map(vec![]), inner, large]);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            let whole = written(&reply, protocol);
            for high in [1, 7, 50, 100, 101, 1000] {
                let (mut pieces, mut joined) =
                    (Pieces::new(protocol, reply.clone()), String::new());
                loop {
                    let mut out = BytesMut::new();
                    let has_more = pieces.write(&mut out, high);
                    // One long value at most goes beyond it, and none that is longer than it.
                    assert!(out.len() < high + 110, "{high}: {}", out.len());
                    assert!(out.len() < 2 * high + DIGITS_MAX + 8, "{high}: {}", out.len());
                    joined.push_str(std::str::from_utf8(&out).unwrap());
                    if !has_more {
                        break;
                    }
                }
                assert_eq!(joined, whole, "{high}");
            }
        }
    }
}
