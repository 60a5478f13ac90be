//! Strings numbered in the order in which they are met.

use hashbrown::HashTable;

/// An ordinal that was not met yet.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Byte strings numbered in the order in which they are met.
#[derive(Default)]
pub(super) struct Interner {
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<usize>,
    table: HashTable<u32>,
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

impl Interner {
    pub(super) fn get(&self, id: u32) -> &[u8] {
        slice(&self.bytes, &self.ends, id)
    }

    pub(super) fn intern(&mut self, text: &[u8]) -> u32 {
        let Self { bytes, ends, table } = self;
        let found = table.find(hash(text), |id| slice(bytes, ends, *id) == text);
        if let Some(id) = found {
            return *id;
        }
        // Four billion terms do not fit into memory.
        let id = u32::try_from(ends.len()).unwrap_or(UNKNOWN);
        bytes.extend_from_slice(text);
        ends.push(bytes.len());
        table.insert_unique(hash(text), id, |id| hash(slice(bytes, ends, *id)));
        id
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.table.allocation_size()
    }
}

fn slice<'a>(bytes: &'a [u8], ends: &[usize], id: u32) -> &'a [u8] {
    let id = id as usize;
    let start = if id == 0 { 0 } else { ends[id - 1] };
    &bytes[start..ends[id]]
}
