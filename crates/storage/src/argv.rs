//! A command as it came: a name and its arguments, in one buffer. What they mean is
//! [`crate::command`]'s.

use std::ops::Range;

use bytes::{BufMut, Bytes};
use plimsoll_log::record::{RecordError, get_varint, put_varint};
use smallvec::SmallVec;

/// A command's name and arguments: slices of one shared buffer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Argv {
    buffer: Bytes,
    args: SmallVec<[Range<u32>; 6]>,
}

impl Argv {
    /// The arguments standing at `args` in `buffer`.
    ///
    /// # Panics
    /// Where a range is not in the buffer.
    #[must_use]
    pub fn new(buffer: Bytes, args: SmallVec<[Range<u32>; 6]>) -> Self {
        assert!(args.iter().all(|arg| arg.start <= arg.end && arg.end as usize <= buffer.len()));
        Self { buffer, args }
    }

    /// A command made here rather than received.
    ///
    /// # Panics
    /// Where the arguments are over 4 GiB together.
    #[must_use]
    pub fn of<T: AsRef<[u8]>>(parts: &[T]) -> Self {
        let mut buffer = Vec::new();
        let mut args = SmallVec::new();
        let position = |buffer: &Vec<u8>| u32::try_from(buffer.len()).expect("a command is small");
        for part in parts {
            let start = position(&buffer);
            buffer.extend_from_slice(part.as_ref());
            args.push(start..position(&buffer));
        }
        Self { buffer: buffer.into(), args }
    }

    /// How many arguments there are, the name included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.args.len()
    }

    /// Whether there is not even a name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.args.is_empty()
    }

    /// An argument; 0 is the name.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.args.get(index).map(|arg| &self.buffer[arg.start as usize..arg.end as usize])
    }

    /// An argument as a shared slice of the buffer.
    #[must_use]
    pub fn get_bytes(&self, index: usize) -> Option<Bytes> {
        self.args.get(index).map(|arg| self.buffer.slice(arg.start as usize..arg.end as usize))
    }

    /// The name, empty where there is none.
    #[must_use]
    pub fn name(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    /// All arguments in order, the name first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> + Clone {
        self.args.iter().map(|arg| &self.buffer[arg.start as usize..arg.end as usize])
    }

    /// The bytes that all arguments take together.
    #[must_use]
    pub fn bytes_len(&self) -> usize {
        self.args.iter().map(|arg| arg.len()).sum()
    }

    /// Appends the number of arguments and each with its length, as varints.
    pub fn encode(&self, out: &mut impl BufMut) {
        put_varint(out, self.args.len() as u64);
        for arg in self.iter() {
            put_varint(out, arg.len() as u64);
            out.put_slice(arg);
        }
    }

    /// Takes what [`Self::encode`] wrote, as slices of `bytes` from `*at` on, and moves `*at`.
    ///
    /// # Errors
    /// Where the bytes end early or say what cannot be.
    pub fn decode(bytes: &Bytes, at: &mut usize) -> Result<Self, RecordError> {
        let mut rest = bytes.get(*at..).ok_or(RecordError::Truncated)?;
        let count = get_varint(&mut rest)?;
        if count > rest.len() as u64 {
            return Err(RecordError::Malformed("more arguments than bytes"));
        }
        let mut args = SmallVec::new();
        for _ in 0..count {
            let len = usize::try_from(get_varint(&mut rest)?).unwrap_or(usize::MAX);
            let start = bytes.len() - rest.len();
            rest = rest.get(len..).ok_or(RecordError::Truncated)?;
            let position = |at| u32::try_from(at).map_err(|_| RecordError::Malformed("too long"));
            args.push(position(start)?..position(start + len)?);
        }
        *at = bytes.len() - rest.len();
        Ok(Self { buffer: bytes.clone(), args })
    }
}
