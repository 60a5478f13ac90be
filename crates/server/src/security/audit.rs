//! What is noted of who came and what was changed: logins granted and refused, actions that were denied, changes of
//! users, keys, settings and tables. The last thousand are kept in memory; all go to a file of JSON lines beside the
//! data, which is begun anew when it is large. No secret stands in any: bodies are not noted.

use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Events that are kept in memory.
const KEPT_MAX: usize = 1000;
/// The longest text of an event, characters: paths and names come from outside.
const TEXT_CHARS_MAX: usize = 512;
/// The name of the file in the data folder.
const FILE: &str = "audit.json";

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody logged in.
    LoggedIn,
    /// Somebody was not let in.
    LoginFailed,
    /// Somebody who is known may not.
    Denied,
    /// Something was changed: users, roles, keys, settings, tables.
    Changed,
}

impl What {
    /// Elasticsearch's `event.action`, where it has one.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LoggedIn => "authentication_success",
            Self::LoginFailed => "authentication_failed",
            Self::Denied => "access_denied",
            Self::Changed => "changed",
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// When, ms since 1970.
    pub at_ms: u64,
    /// What.
    pub what: What,
    /// Who it was, or said to be.
    pub user: String,
    /// From where.
    pub origin: SocketAddr,
    /// The method and path of REST, or the command of RESP.
    pub request: String,
    /// What was denied, or how the change ended.
    pub detail: String,
    /// How often the same came, one behind the other.
    pub count: u64,
}

impl Event {
    /// One of somebody, its request and what became of it; texts that are too long are cut.
    #[must_use]
    pub fn new(at_ms: u64, what: What, origin: SocketAddr, texts: [&str; 3]) -> Self {
        let [user, request, detail] = texts.map(cut);
        Self { at_ms, what, user, origin, request, detail, count: 1 }
    }

    /// Whether it is the same again.
    fn is_like(&self, other: &Self) -> bool {
        let of = |it: &Self| (it.what, it.origin.ip());
        of(self) == of(other)
            && self.user == other.user
            && self.request == other.request
            && self.detail == other.detail
    }

    /// As a line of the file and an entry of the answer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "timestamp_ms": self.at_ms,
            "event.action": self.what.name(),
            "user.name": self.user,
            "origin.address": self.origin.to_string(),
            "request": self.request,
            "detail": self.detail,
            "count": self.count,
        })
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}

/// Where events are noted.
#[derive(Debug)]
pub struct Audit {
    book: Mutex<Book>,
    bytes_max: u64,
    files_max: u32,
}

#[derive(Debug)]
struct Book {
    kept: VecDeque<Event>,
    /// The file; none where nothing is written.
    file: Option<(PathBuf, File, u64)>,
    /// Whether the last line could not be written, which was said.
    has_failed: bool,
}

impl Audit {
    /// In memory, and in a file of this folder that is begun anew after so many bytes; so many older ones stay.
    /// Without a folder in memory alone.
    ///
    /// # Errors
    /// Where the file cannot be opened.
    pub fn open(folder: Option<&Path>, bytes_max: u64, files_max: u32) -> io::Result<Self> {
        let file = folder.map(|folder| begin(&folder.join(FILE))).transpose()?;
        let book = Book { kept: VecDeque::new(), file, has_failed: false };
        Ok(Self { book: Mutex::new(book), bytes_max, files_max })
    }

    /// Notes an event; of equal ones in a row the first, the second, the fourth and so on are written. That one
    /// cannot be written is said in the log, and ends nothing.
    pub fn note(&self, mut event: Event) {
        let mut book = self.book.lock();
        if let Some(last) = book.kept.back().filter(|last| last.is_like(&event)) {
            event.count = last.count + 1;
            book.kept.pop_back();
        }
        if !event.count.is_power_of_two() {
            book.kept.push_back(event);
            return;
        }
        let mut line = event.to_json().to_string();
        line.push('\n');
        let written = self.write(&mut book, line.as_bytes());
        if let Err(error) = &written
            && !book.has_failed
        {
            tracing::error!(%error, "the audit file cannot be written; events are kept in memory alone");
        }
        book.has_failed = written.is_err();
        if book.kept.len() >= KEPT_MAX {
            book.kept.pop_front();
        }
        book.kept.push_back(event);
    }

    fn write(&self, book: &mut Book, line: &[u8]) -> io::Result<()> {
        let Some((path, file, bytes)) = &mut book.file else { return Ok(()) };
        if *bytes > 0 && *bytes + line.len() as u64 > self.bytes_max {
            for number in (1..self.files_max).rev() {
                let (from, to) = (older(path, number), older(path, number + 1));
                if from.exists() {
                    fs::rename(from, to)?;
                }
            }
            // It is gone already where it could not be begun anew the last time.
            if path.exists() {
                fs::rename(&*path, older(path, 1))?;
            }
            (*path, *file, *bytes) = begin(path)?;
        }
        file.write_all(line)?;
        *bytes += line.len() as u64;
        Ok(())
    }

    /// The last events, the newest first.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<Event> {
        self.book.lock().kept.iter().rev().take(count).cloned().collect()
    }

    /// Forgets what is kept in memory of logins and denials, as ACL LOG RESET asks.
    pub fn forget_refusals(&self) {
        self.book.lock().kept.retain(|event| !is_refusal(event));
    }
}

/// Whether somebody was turned away.
#[must_use]
pub fn is_refusal(event: &Event) -> bool {
    matches!(event.what, What::LoginFailed | What::Denied)
}

fn begin(path: &Path) -> io::Result<(PathBuf, File, u64)> {
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok((path.to_owned(), file, bytes))
}

fn older(path: &Path, number: u32) -> PathBuf {
    path.with_extension(format!("{number}.json"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(request: &str) -> Event {
        Event {
            at_ms: 7,
            what: What::Denied,
            user: "bob".to_owned(),
            origin: SocketAddr::from(([127, 0, 0, 1], 5)),
            request: request.to_owned(),
            detail: String::new(),
            count: 1,
        }
    }

    #[test]
    fn events_are_written_and_files_have_an_end() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(Some(folder.path()), 1000, 2).unwrap();
        for number in 0..30 {
            audit.note(event(&format!("GET /{number}")));
        }
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["audit.1.json", "audit.2.json", "audit.json"]);
        for name in &names {
            let text = fs::read_to_string(folder.path().join(name)).unwrap();
            assert!(text.len() <= 1000);
            for line in text.lines() {
                let line: Value = serde_json::from_str(line).unwrap();
                assert_eq!(line["event.action"], "access_denied");
            }
        }
        assert_eq!(audit.last(2)[0].request, "GET /29");
        audit.forget_refusals();
        assert!(audit.last(10).is_empty());
    }

    #[test]
    fn memory_has_an_end_and_texts_too() {
        let audit = Audit::open(None, 0, 0).unwrap();
        for number in 0..2 * KEPT_MAX {
            audit.note(event(&number.to_string()));
        }
        assert_eq!(audit.last(usize::MAX).len(), KEPT_MAX);
        let from = SocketAddr::from(([127, 0, 0, 1], 5));
        let long = Event::new(7, What::Denied, from, ["", &"x".repeat(9999), ""]);
        assert_eq!(long.request.len(), TEXT_CHARS_MAX);
        // The same again and again is one event.
        for _ in 0..1000 {
            audit.note(event("same"));
        }
        let last = audit.last(2);
        assert_eq!((last[0].count, last[1].count), (1000, 1));
    }
}
