//! A message is its bytes, as tonic wants to be told; and whether a question has left.

use std::sync::{
    Arc,
    atomic::{
        AtomicU8,
        Ordering::{AcqRel, Acquire},
    },
};

use bytes::{Buf, BufMut, Bytes};
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

const WAITING: u8 = 0;
const LEFT: u8 = 1;
const GIVEN_UP: u8 = 2;

/// Whether the bytes of a question were handed over for sending. Errors of a call do not tell
/// that reliably; this does, since nobody can carry out a question without its bytes.
#[derive(Debug, Default)]
pub(super) struct Departure(AtomicU8);

impl Departure {
    /// Says that the bytes leave; false where the caller has given up.
    fn leave(&self) -> bool {
        self.0.compare_exchange(WAITING, LEFT, AcqRel, Acquire).is_ok()
    }

    /// Keeps the bytes here for good; false where they have left already.
    pub(super) fn give_up(&self) -> bool {
        let before = self.0.compare_exchange(WAITING, GIVEN_UP, AcqRel, Acquire);
        before != Err(LEFT)
    }
}

/// Bytes as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct BytesCodec {
    departure: Option<Arc<Departure>>,
}

impl BytesCodec {
    /// For one question, whose departure is noted.
    pub(super) fn noting(departure: Arc<Departure>) -> Self {
        Self { departure: Some(departure) }
    }
}

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        self.clone()
    }

    fn decoder(&mut self) -> Self {
        self.clone()
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        if self.departure.as_ref().is_some_and(|departure| !departure.leave()) {
            return Err(Status::cancelled("the call was given up"));
        }
        into.reserve(message.len());
        into.put(message);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
