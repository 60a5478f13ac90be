//! How the changes of one operation are taken back: what each row was before it. Keys lie one
//! behind the other in one buffer that the next operation uses again, so that noting a change
//! allocates nothing.

use bytes::Bytes;

/// A buffer that grew beyond this is let go, bytes.
const KEYS_BYTES_KEPT: usize = 64 * 1024;
/// So are entries beyond this many.
const ENTRIES_KEPT: usize = 1024;

/// One change, undone.
pub(super) enum Undo<'a> {
    /// A row's change before, `None` where it had none.
    Row(&'a [u8], Option<Option<Bytes>>),
    /// A removed range of this beginning was added.
    RangeAdded(Box<[u8]>),
    /// A removed range was taken out, because another covers it.
    RangeTaken(Box<[u8]>, Box<[u8]>),
}

enum Entry {
    /// The length of the key, which ends the buffer when the entry's turn comes.
    Row(usize, Option<Option<Bytes>>),
    RangeAdded(Box<[u8]>),
    RangeTaken(Box<[u8]>, Box<[u8]>),
}

/// The changes of the running operation, the last to be undone first.
#[derive(Default)]
pub(super) struct Journal {
    keys: Vec<u8>,
    /// How much of `keys` belongs to entries that were not undone.
    keys_end: usize,
    entries: Vec<Entry>,
}

impl Journal {
    /// Notes a row's change before.
    pub fn push_row(&mut self, key: &[u8], before: Option<Option<Bytes>>) {
        self.keys.extend_from_slice(key);
        self.keys_end = self.keys.len();
        self.entries.push(Entry::Row(key.len(), before));
    }

    /// Notes a change of the removed ranges.
    pub fn push(&mut self, undo: Undo<'_>) {
        match undo {
            Undo::Row(key, before) => self.push_row(key, before),
            Undo::RangeAdded(from) => self.entries.push(Entry::RangeAdded(from)),
            Undo::RangeTaken(from, to) => self.entries.push(Entry::RangeTaken(from, to)),
        }
    }

    /// The last change that is left to undo. After the first call nothing is pushed until
    /// [`Self::clear`], or until all was undone.
    pub fn pop(&mut self) -> Option<Undo<'_>> {
        let Some(entry) = self.entries.pop() else {
            self.clear();
            return None;
        };
        Some(match entry {
            Entry::Row(length, before) => {
                let end = self.keys_end;
                self.keys_end -= length;
                Undo::Row(&self.keys[self.keys_end..end], before)
            }
            Entry::RangeAdded(from) => Undo::RangeAdded(from),
            Entry::RangeTaken(from, to) => Undo::RangeTaken(from, to),
        })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.keys_end = 0;
        self.entries.clear();
        if self.keys.capacity() > KEYS_BYTES_KEPT {
            self.keys = Vec::new();
        }
        if self.entries.capacity() > ENTRIES_KEPT {
            self.entries = Vec::new();
        }
    }
}
