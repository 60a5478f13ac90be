//! Which documents changed: noted while commands run, kept by LSN until an index has them, and
//! gathered by who brings the index up to date. What is done with them is the index's.
//!
//! The touches of one record:
//!
//! | field | bytes |
//! |---|---|
//! | format, now 1 | 1 |
//! | highest mapping version among the record's documents, 0 where none names one | varint |
//! | each touch: flags | 1 |
//! | of a key or document, unless it is the key before: length and key | varint, bytes |
//! | of a document, unless its id is the key: length and id | varint, bytes |
//!
//! Flags: 1 everything, 2 a key, 3 a document; plus 4 where the document is new, 8 where its id is
//! the key, 16 where the key is that of the touch before. All of this is stable.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use bytes::Bytes;
use plimsoll_log::record::{RecordError, get_varint, put_varint};

const FORMAT: u8 = 1;
const FLAG_ALL: u8 = 1;
const FLAG_KEY: u8 = 2;
const FLAG_DOCUMENT: u8 = 3;
const FLAG_NEW: u8 = 4;
const FLAG_ID_IS_KEY: u8 = 8;
const FLAG_SAME_KEY: u8 = 16;

/// A change that an index must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch<'a> {
    /// Any document may have changed or gone.
    All,
    /// Any document under this hash key may have changed or gone.
    Key(&'a [u8]),
    /// This document changed, came or went.
    Document {
        /// The hash key.
        key: &'a [u8],
        /// The id.
        id: &'a [u8],
        /// It was not there before: an index of the state before this change has nothing of it
        /// to delete.
        is_new: bool,
    },
}

/// The touches of one record, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touches {
    bytes: Bytes,
    mapping_version: u64,
    touches_at: usize,
}

impl Touches {
    /// Reads what [`Self::as_bytes`] gave.
    ///
    /// # Errors
    /// Where the bytes are not the touches of a record.
    pub fn decode(bytes: Bytes) -> Result<Self, RecordError> {
        let (&format, mut rest) = bytes.split_first().ok_or(RecordError::Truncated)?;
        if format != FORMAT {
            return Err(RecordError::UnknownFormat(format));
        }
        let mapping_version = get_varint(&mut rest)?;
        let mut reader = Reader { rest, key: None };
        while reader.take()?.is_some() {}
        let touches_at = bytes.len() - rest.len();
        Ok(Self { touches_at, mapping_version, bytes })
    }

    /// The bytes that are kept.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The highest mapping version that the record's documents were checked against; 0 where
    /// none names one.
    #[must_use]
    pub fn mapping_version(&self) -> u64 {
        self.mapping_version
    }

    /// Each touch in order.
    pub fn iter(&self) -> impl Iterator<Item = Touch<'_>> {
        let mut reader = Reader { rest: &self.bytes[self.touches_at..], key: None };
        // Read once already, when this was made.
        std::iter::from_fn(move || reader.take().ok().flatten())
    }
}

struct Reader<'a> {
    rest: &'a [u8],
    key: Option<&'a [u8]>,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Result<Option<Touch<'a>>, RecordError> {
        let Some((&flags, rest)) = self.rest.split_first() else { return Ok(None) };
        self.rest = rest;
        let kind = flags & 3;
        let is_known = match kind {
            FLAG_ALL => flags == FLAG_ALL,
            FLAG_KEY => flags & !FLAG_SAME_KEY == FLAG_KEY,
            FLAG_DOCUMENT => flags <= FLAG_DOCUMENT | FLAG_NEW | FLAG_ID_IS_KEY | FLAG_SAME_KEY,
            _ => false,
        };
        if !is_known {
            return Err(RecordError::Malformed("unknown kind of touch"));
        }
        if kind == FLAG_ALL {
            return Ok(Some(Touch::All));
        }
        let key = if flags & FLAG_SAME_KEY == 0 {
            self.slice()?
        } else {
            self.key.ok_or(RecordError::Malformed("a touch without a key before it"))?
        };
        self.key = Some(key);
        if kind == FLAG_KEY {
            return Ok(Some(Touch::Key(key)));
        }
        let id = if flags & FLAG_ID_IS_KEY == 0 { self.slice()? } else { key };
        Ok(Some(Touch::Document { key, id, is_new: flags & FLAG_NEW != 0 }))
    }

    fn slice(&mut self) -> Result<&'a [u8], RecordError> {
        let length = usize::try_from(get_varint(&mut self.rest)?).unwrap_or(usize::MAX);
        self.rest.split_off(..length).ok_or(RecordError::Truncated)
    }
}

/// The touches of a record that is being applied.
#[derive(Debug, Default)]
pub struct TouchLog {
    bytes: Vec<u8>,
    mapping_version: u64,
    /// Where in `bytes` the last touch's key and, of a document, id are.
    key: Option<Range<usize>>,
    id: Option<Range<usize>>,
    /// What became of each touch's document, where that is known.
    sources: Vec<Option<Bytes>>,
    /// How often everything before was forgotten, because all was touched.
    resets: u32,
}

/// Where a log of touches stood.
#[derive(Clone, Debug)]
pub struct TouchMark {
    bytes: usize,
    sources: usize,
    mapping_version: u64,
    key: Option<Range<usize>>,
    id: Option<Range<usize>>,
    resets: u32,
}

impl TouchLog {
    /// Where it stands, to go back to.
    #[must_use]
    pub fn mark(&self) -> TouchMark {
        TouchMark {
            bytes: self.bytes.len(),
            sources: self.sources.len(),
            mapping_version: self.mapping_version,
            key: self.key.clone(),
            id: self.id.clone(),
            resets: self.resets,
        }
    }

    /// Takes back what was noted since a mark: it did not happen. Where all was touched meanwhile,
    /// that stays, as it covers what it replaced.
    pub fn take_back(&mut self, mark: TouchMark) {
        if self.resets != mark.resets {
            return;
        }
        self.bytes.truncate(mark.bytes);
        self.sources.truncate(mark.sources);
        // It may be what was not to be: it is read from the rows.
        if let Some(last) = self.sources.last_mut() {
            *last = None;
        }
        self.mapping_version = mark.mapping_version;
        (self.key, self.id) = (mark.key, mark.id);
    }

    /// Notes a touch. One of the same document as the touch before says nothing more.
    pub fn push(&mut self, touch: Touch<'_>) {
        self.push_with(touch, None);
    }

    /// As [`Self::push`], with what the document is now, where that is known.
    pub fn push_with(&mut self, touch: Touch<'_>, source: Option<Bytes>) {
        let (key, document) = match touch {
            Touch::All => {
                // Whatever was touched before is touched by it again.
                self.resets += 1;
                self.bytes.clear();
                self.bytes.push(FLAG_ALL);
                self.sources = vec![None];
                (self.key, self.id) = (None, None);
                return;
            }
            Touch::Key(key) => (key, None),
            Touch::Document { key, id, is_new } => (key, Some((id, is_new))),
        };
        let is_same_key = self.key.clone().is_some_and(|at| self.bytes[at] == *key);
        let last_id = self.id.clone().map(|at| &self.bytes[at]);
        if is_same_key && document.is_some_and(|(id, _)| last_id == Some(id)) {
            self.sources.pop();
            self.sources.push(source);
            return;
        }
        self.sources.push(source);
        let mut flags = if is_same_key { FLAG_SAME_KEY } else { 0 };
        flags |= match document {
            None => FLAG_KEY,
            Some((id, is_new)) => {
                let new = if is_new { FLAG_NEW } else { 0 };
                FLAG_DOCUMENT | new | if id == key { FLAG_ID_IS_KEY } else { 0 }
            }
        };
        self.bytes.push(flags);
        if !is_same_key {
            self.key = Some(self.put(key));
        }
        self.id = match document {
            Some((id, _)) if id == key => self.key.clone(),
            Some((id, _)) => Some(self.put(id)),
            None => None,
        };
    }

    /// Notes the mapping version that a document was checked against.
    pub fn note_mapping(&mut self, version: u64) {
        self.mapping_version = self.mapping_version.max(version);
    }

    /// What was noted; `None` where nothing was touched.
    #[must_use]
    pub fn finish(self) -> Option<Touches> {
        self.finish_with().map(|(touches, _)| touches)
    }

    /// As [`Self::finish`], with what became of each touch's document, where that is known.
    #[must_use]
    pub fn finish_with(self) -> Option<(Touches, Vec<Option<Bytes>>)> {
        if self.bytes.is_empty() {
            return None;
        }
        let mut bytes = Vec::with_capacity(self.bytes.len() + 11);
        bytes.push(FORMAT);
        put_varint(&mut bytes, self.mapping_version);
        let touches_at = bytes.len();
        bytes.extend_from_slice(&self.bytes);
        let mapping_version = self.mapping_version;
        Some((Touches { bytes: bytes.into(), mapping_version, touches_at }, self.sources))
    }

    fn put(&mut self, bytes: &[u8]) -> Range<usize> {
        put_varint(&mut self.bytes, bytes.len() as u64);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }
}

/// What the touches of several records come to: each document once. An index at the position
/// before the first of them follows by
///
/// 1. where [`Self::is_all`]: forgetting everything and taking all documents anew;
/// 2. else for each of [`Self::keys`]: forgetting all under the key and taking what
///    [`documents_of`](crate::execute::documents_of) shows of it;
/// 3. and for each of [`Self::documents`]: forgetting the document, which is not needed where it
///    is new, and taking it where it is there,
///
/// all read from the state at the position of the last of them.
#[derive(Clone, Debug, Default)]
pub struct Touched {
    is_all: bool,
    keys: BTreeSet<Bytes>,
    /// In the order of their first touches, so that what was written together lies together.
    documents: Vec<TouchedDocument>,
    /// Where each key and id is among `documents`.
    places: HashMap<(Bytes, Bytes), usize>,
    mapping_version: u64,
}

/// A document that changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TouchedDocument {
    /// The hash key.
    pub key: Bytes,
    /// The id.
    pub id: Bytes,
    /// It was not there at the position before.
    pub is_new: bool,
    /// What it is at the position of the last touch, where that is known.
    pub source: Option<Bytes>,
}

impl Touched {
    /// Adds the touches of the next record.
    pub fn add(&mut self, touches: &Touches) {
        self.add_with(touches, &[]);
    }

    /// As [`Self::add`], with what became of each touch's document where that is known.
    pub fn add_with(&mut self, touches: &Touches, sources: &[Option<Bytes>]) {
        self.mapping_version = self.mapping_version.max(touches.mapping_version);
        let mut sources = sources.iter();
        for touch in touches.iter() {
            self.add_one(touches, touch, sources.next().cloned().flatten());
        }
    }

    fn add_one(&mut self, touches: &Touches, touch: Touch<'_>, source: Option<Bytes>) {
        match touch {
            _ if self.is_all => {}
            Touch::All => {
                self.is_all = true;
                self.keys.clear();
                self.documents.clear();
                self.places.clear();
            }
            Touch::Key(key) => {
                if !self.keys.contains(key) {
                    self.keys.insert(touches.bytes.slice_ref(key));
                }
            }
            Touch::Document { key, id, is_new } => {
                if self.keys.contains(key) {
                    return;
                }
                let (key, id) = (touches.bytes.slice_ref(key), touches.bytes.slice_ref(id));
                match self.places.entry((key.clone(), id.clone())) {
                    // The first says how it was at the position before, the last what it is.
                    Entry::Occupied(place) => self.documents[*place.get()].source = source,
                    Entry::Vacant(place) => {
                        place.insert(self.documents.len());
                        self.documents.push(TouchedDocument { key, id, is_new, source });
                    }
                }
            }
        }
    }

    /// Whether any document may have changed.
    #[must_use]
    pub fn is_all(&self) -> bool {
        self.is_all
    }

    /// Hash keys of which any document may have changed.
    pub fn keys(&self) -> impl ExactSizeIterator<Item = &Bytes> {
        self.keys.iter()
    }

    /// Each document that changed beside those.
    pub fn documents(&self) -> impl Iterator<Item = &TouchedDocument> {
        self.documents.iter().filter(|document| !self.keys.contains(&document.key))
    }

    /// How many keys and documents there are, at most.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len() + self.documents.len()
    }

    /// Whether nothing was touched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.is_all && self.len() == 0
    }

    /// The highest mapping version of the records added; 0 where none names one.
    #[must_use]
    pub fn mapping_version(&self) -> u64 {
        self.mapping_version
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All, a key, or a document with whether it is new.
    type Spec = Option<(Vec<u8>, Option<(Vec<u8>, bool)>)>;

    fn specs() -> impl Strategy<Value = Vec<Spec>> {
        let word = || prop::collection::vec(0u8..3, 0..3);
        let touch = (word(), prop::option::weighted(0.8, (word(), any::<bool>())));
        prop::collection::vec(prop::option::weighted(0.97, touch), 0..24)
    }

    fn touch(spec: &Spec) -> Touch<'_> {
        match spec {
            None => Touch::All,
            Some((key, None)) => Touch::Key(key),
            Some((key, Some((id, is_new)))) => Touch::Document { key, id, is_new: *is_new },
        }
    }

    fn logged(specs: &[Spec], mapping_version: u64) -> Option<Touches> {
        let mut log = TouchLog::default();
        specs.iter().for_each(|spec| log.push(touch(spec)));
        log.note_mapping(mapping_version);
        log.finish()
    }

    fn gathered<'a>(touches: impl Iterator<Item = Touch<'a>>) -> Touched {
        let mut touched = Touched::default();
        let mut log = TouchLog::default();
        touches.for_each(|touch| log.push(touch));
        if let Some(touches) = log.finish() {
            touched.add(&touches);
        }
        touched
    }

    proptest! {
        #[test]
        fn what_is_noted_is_read(specs in specs(), mapping_version: u64) {
            let Some(touches) = logged(&specs, mapping_version) else {
                prop_assert!(specs.is_empty());
                return Ok(());
            };
            let read = Touches::decode(touches.as_bytes().clone()).unwrap();
            prop_assert_eq!(&read, &touches);
            prop_assert_eq!(read.mapping_version(), mapping_version);
            let (all, read) = (gathered(specs.iter().map(touch)), gathered(read.iter()));
            prop_assert_eq!(all.is_all(), read.is_all());
            prop_assert_eq!(&all.keys, &read.keys);
            prop_assert_eq!(&all.documents, &read.documents);
            prop_assert!(all.len() >= all.keys().len() + all.documents().count());
            let mut seen = std::collections::HashSet::new();
            for document in all.documents() {
                prop_assert!(!all.keys.contains(&document.key));
                prop_assert!(seen.insert((&document.key, &document.id)), "each once");
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(0u8..32, 0..40)) {
            for bytes in [Bytes::from(bytes.clone()), [&[1, 0], &bytes[..]].concat().into()] {
                if let Ok(touches) = Touches::decode(bytes) {
                    let mut touched = Touched::default();
                    touched.add(&touches);
                }
            }
        }
    }
}
