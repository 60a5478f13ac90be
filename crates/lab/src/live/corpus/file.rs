//! Files of documents as Rally has them: JSON objects, one a line, plain or compressed by gzip or
//! bzip2, whatever the file is called. It owns opening, decompression and what a line may be, and
//! names a line that is something else by its number. A file is read as far as it is asked for, one
//! line at a time. What documents of a shape must have stands in `given.rs`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use serde_json::{Map, Value};

use crate::LabError;

/// The longest line, in bytes: no record of the log is longer either.
const LINE_BYTES_MAX: usize = 8 << 20;
const BUFFER_BYTES: usize = 64 << 10;
/// The first bytes of what gzip and bzip2 write; JSON begins otherwise.
const GZIP: &[u8] = &[0x1f, 0x8b];
const BZIP2: &[u8] = b"BZh";
/// What the lines between documents say in files that are ready for `_bulk`.
const ACTIONS: [&str; 2] = ["index", "create"];

/// Reads documents of a file, in their order. After an error there are none.
pub(crate) struct Reader {
    path: PathBuf,
    text: Box<dyn BufRead>,
    line: Vec<u8>,
    /// Of the line that was read last, from 1.
    number: u64,
    is_over: bool,
}

impl Reader {
    /// Opens a file.
    ///
    /// # Errors
    /// There is none, it cannot be read, or not more than once.
    pub(crate) fn open(path: &Path) -> Result<Self, LabError> {
        let text = text(path).map_err(|source| LabError::Read { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), text, line: Vec::new(), number: 0, is_over: false })
    }

    /// What is wrong with the line that was read last.
    pub(crate) fn wrong(&self, why: String) -> LabError {
        LabError::Line { path: self.path.clone(), line: self.number, why }
    }

    fn document(&mut self) -> Result<Option<Value>, LabError> {
        loop {
            self.line.clear();
            self.number += 1;
            // One more for the end of the line.
            let most = LINE_BYTES_MAX as u64 + 1;
            let read = self.text.by_ref().take(most).read_until(b'\n', &mut self.line);
            let read = read.map_err(|error| self.wrong(format!("cannot be read: {error}")))?;
            if read == 0 {
                return Ok(None);
            }
            let line = self.line.strip_suffix(b"\n").unwrap_or(&self.line);
            if line.len() > LINE_BYTES_MAX {
                return Err(self.wrong(format!("longer than {} MiB", LINE_BYTES_MAX >> 20)));
            }
            let line = line.trim_ascii();
            if line.is_empty() {
                continue;
            }
            let parsed: Result<Value, serde_json::Error> = serde_json::from_slice(line);
            let value = parsed.map_err(|error| self.wrong(not_json(&error)))?;
            let Value::Object(document) = value else {
                return Err(self.wrong("not a JSON object".to_owned()));
            };
            if !is_action(&document) {
                return Ok(Some(Value::Object(document)));
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Value, LabError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.document().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The text of a file, decompressed.
fn text(path: &Path) -> io::Result<Box<dyn BufRead>> {
    // A pipe would be empty when the cluster that is to be loaded is there.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut file = BufReader::with_capacity(BUFFER_BYTES, File::open(path)?);
    let front = file.fill_buf()?;
    let (is_gzip, is_bzip2) = (front.starts_with(GZIP), front.starts_with(BZIP2));
    // Tools that compress in parallel leave many streams one after another.
    let text: Box<dyn BufRead> = match (is_gzip, is_bzip2) {
        (true, _) => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(file))),
        (_, true) => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiBzDecoder::new(file))),
        _ => Box::new(file),
    };
    Ok(text)
}

/// Whether a line says where the document of the next one goes.
fn is_action(line: &Map<String, Value>) -> bool {
    let says = |action: &str| line.get(action).is_some_and(Value::is_object);
    line.len() == 1 && ACTIONS.into_iter().any(says)
}

/// Without the parser's number of the line, which is always the first.
fn not_json(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let why = text.rsplit_once(" at line ").map_or(text.as_str(), |(why, _)| why);
    format!("not JSON: {why} at column {}", error.column())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use serde_json::json;

    use super::*;

    const TEXT: &[u8] = b"{\"a\":1}\n{\"a\":2}\r\n\n{\"a\":3}";

    fn gzipped(text: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::fast();
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn bzipped(text: &[u8]) -> Vec<u8> {
        let mut encoder = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    /// What is read of a file of these bytes before the first error, and the error.
    fn read(bytes: &[u8]) -> (Vec<Value>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("documents");
        std::fs::write(&path, bytes).unwrap();
        let (mut found, mut wrong) = (Vec::new(), None);
        for document in Reader::open(&path).ok().unwrap() {
            assert!(wrong.is_none(), "more after {wrong:?}");
            match document {
                Ok(document) => found.push(document),
                Err(error) => wrong = Some(error.to_string()),
            }
        }
        (found, wrong)
    }

    #[test]
    fn compression_is_known_by_the_first_bytes() {
        let all = vec![json!({ "a": 1 }), json!({ "a": 2 }), json!({ "a": 3 })];
        for bytes in [TEXT.to_vec(), gzipped(TEXT), bzipped(TEXT)] {
            assert_eq!(read(&bytes), (all.clone(), None));
        }
        // The second stream begins in the middle of a line.
        let (front, back) = TEXT.split_at(10);
        for compressed in [gzipped, bzipped] {
            let bytes = [compressed(front), compressed(back)].concat();
            assert_eq!(read(&bytes), (all.clone(), None));
        }
        assert_eq!(read(b""), (Vec::new(), None));
    }

    #[test]
    fn what_is_cut_short_is_an_error() {
        for bytes in [gzipped(TEXT), bzipped(TEXT)] {
            let (_, wrong) = read(&bytes[..bytes.len() - 4]);
            let wrong = wrong.unwrap();
            assert!(wrong.contains("documents`: cannot be read: "), "{wrong}");
        }
    }

    #[test]
    fn actions_are_left_out_and_documents_that_look_like_them_are_not() {
        let text = br#"{"index": {"_id": "1"}}
{"a": 1}
{"create": {}}
{"index": 7}
{"index": {}, "a": 2}
{"delete": {}}
"#;
        let wanted = [
            json!({ "a": 1 }),
            json!({ "index": 7 }),
            json!({ "index": {}, "a": 2 }),
            json!({ "delete": {} }),
        ];
        assert_eq!(read(text), (wanted.to_vec(), None));
    }

    #[test]
    fn a_line_that_is_no_document_is_named_by_its_number() {
        for (line, why) in [
            ("[1]", "not a JSON object"),
            ("7", "not a JSON object"),
            ("{\"a\": x}", "not JSON: expected value at column 7"),
            ("{\"a\": 1} {}", "not JSON: trailing characters at column 10"),
            ("{\"a\": \u{1}}", "not JSON: expected value at column 7"),
        ] {
            let text = format!("{{\"a\":1}}\n\n{line}\n{{\"a\":2}}\n");
            let (found, wrong) = read(text.as_bytes());
            let wrong = wrong.unwrap();
            assert!(wrong.starts_with("line 3 of `") && wrong.ends_with(why), "{wrong}");
            assert_eq!(found, [json!({ "a": 1 })]);
        }
    }

    #[test]
    fn a_line_has_a_limit() {
        let line = |bytes: usize| {
            let value = "x".repeat(bytes - "{\"a\":\"\"}".len());
            format!("{{\"a\":\"{value}\"}}\n{{\"a\":1}}\n")
        };
        let (found, wrong) = read(line(LINE_BYTES_MAX).as_bytes());
        assert_eq!((found.len(), wrong), (2, None));
        let (found, wrong) = read(&gzipped(line(LINE_BYTES_MAX + 1).as_bytes()));
        let wrong = wrong.unwrap();
        assert!(
            wrong.starts_with("line 1 of `") && wrong.ends_with("longer than 8 MiB"),
            "{wrong}"
        );
        assert_eq!(found.len(), 0);
    }

    #[test]
    fn what_is_no_file_is_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let refused = |path: &Path| Reader::open(path).err().unwrap().to_string();
        let missing = refused(&folder.path().join("nothing"));
        assert!(missing.contains("nothing`: No such file"), "{missing}");
        assert!(refused(folder.path()).ends_with("it is not a regular file"));
    }
}
