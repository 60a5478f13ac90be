//! The names that the files of an index have on the disk of a simulation.
//!
//! Tantivy draws the name of a segment from the machine's chance. What befalls the disk of a simulation goes
//! by the names of its files, and the same seed has to be the same history: there segments are numbered in the
//! order in which they come. On the machine's disk files have Tantivy's names.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// How many digits the name of a segment has.
const DIGITS: usize = 32;
/// Where dashes stand in it, in a `meta.json`.
const GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// What segments are called on the disk, by Tantivy's names.
#[derive(Debug)]
pub(super) struct Names {
    of: BTreeMap<String, String>,
    last: u128,
}

impl Names {
    /// Those of an index whose files are on the disk, by the names that they have there.
    pub fn new(files: &BTreeSet<PathBuf>) -> Self {
        let segments = files.iter().filter_map(|file| segment(file));
        let of: BTreeMap<_, _> =
            segments.map(|segment| (segment.to_owned(), segment.to_owned())).collect();
        let numbers = of.keys().filter_map(|name| u128::from_str_radix(name, 16).ok());
        Self { last: numbers.max().unwrap_or(0), of }
    }

    /// A file of this name is being made.
    pub fn add(&mut self, file: &Path) {
        let Some(segment) = segment(file) else { return };
        if !self.of.contains_key(segment) {
            self.last += 1;
            self.of.insert(segment.to_owned(), format!("{:032x}", self.last));
        }
    }

    /// What a file is called on the disk.
    pub fn on_disk(&self, file: &Path) -> PathBuf {
        let known = segment(file).and_then(|segment| Some((segment, self.of.get(segment)?)));
        match known.zip(file.to_str()) {
            Some(((segment, name), file)) => PathBuf::from(file.replacen(segment, name, 1)),
            None => file.to_owned(),
        }
    }

    /// A `meta.json` with the names on the disk.
    pub fn in_meta(&self, meta: &[u8]) -> Vec<u8> {
        let mut text = String::from_utf8_lossy(meta).into_owned();
        for (segment, name) in self.of.iter().filter(|(segment, name)| segment != name) {
            text = text.replace(&dashed(segment), &dashed(name));
        }
        text.into_bytes()
    }
}

/// The name of the segment that a file is of.
fn segment(file: &Path) -> Option<&str> {
    let segment = file.to_str()?.split('.').next()?;
    let is_name = segment.len() == DIGITS && segment.bytes().all(|it| it.is_ascii_hexdigit());
    is_name.then_some(segment)
}

fn dashed(segment: &str) -> String {
    let mut rest = segment;
    let groups = GROUPS.map(|digits| {
        let (group, after) = rest.split_at(digits.min(rest.len()));
        rest = after;
        group
    });
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_numbered_as_they_come_and_keep_their_numbers() {
        let (first, other) = ("0123456789abcdef0123456789abcdef", "f".repeat(DIGITS));
        let kept = format!("{:032x}", 7);
        let mut names = Names::new(&[PathBuf::from(format!("{kept}.idx"))].into());
        let on_disk = |names: &Names, file: String| names.on_disk(Path::new(&file));
        for file in [format!("{other}.store"), format!("{first}.idx"), format!("{other}.pos")] {
            names.add(Path::new(&file));
        }
        assert_eq!(on_disk(&names, format!("{kept}.idx")), Path::new(&format!("{kept}.idx")));
        let numbered = |number: u32, rest: &str| PathBuf::from(format!("{number:032x}.{rest}"));
        assert_eq!(on_disk(&names, format!("{other}.3.del")), numbered(8, "3.del"));
        assert_eq!(on_disk(&names, format!("{first}.idx")), numbered(9, "idx"));
        assert_eq!(on_disk(&names, "meta.json".to_owned()), Path::new("meta.json"));
        let meta = br#"{"segment_id":"01234567-89ab-cdef-0123-456789abcdef"}"#;
        let meta = String::from_utf8(names.in_meta(meta)).unwrap();
        assert_eq!(meta, r#"{"segment_id":"00000000-0000-0000-0000-000000000009"}"#);
    }
}
