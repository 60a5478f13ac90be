//! What is noted of who came and what was changed: logins granted and refused, actions that were denied, changes of
//! users, keys, settings and tables. Each of these three streams keeps its last thousand in memory and has a file of
//! JSON lines beside the data, which is begun anew when it is large: who is refused again and again, or logs in
//! again and again, pushes no change out. No secret stands in any: bodies are not noted.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};

/// Events of a stream that are kept in memory.
const KEPT_MAX: usize = 1000;
/// The longest text of an event, characters: paths and names come from outside.
const TEXT_CHARS_MAX: usize = 512;
/// The names of the streams' files in the data folder.
const FILES: [&str; 3] = ["audit_changes.json", "audit_logins.json", "audit_refused.json"];
/// The stream of [`What::LoginFailed`], [`What::Denied`] and [`What::NotChanged`].
const REFUSED: usize = 2;

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
    /// Something was to be changed and was not.
    NotChanged,
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
            Self::NotChanged => "change_refused",
        }
    }

    /// Which of [`FILES`] has it.
    fn stream(self) -> usize {
        match self {
            Self::Changed => 0,
            Self::LoggedIn => 1,
            Self::LoginFailed | Self::Denied | Self::NotChanged => REFUSED,
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
    /// Its place among all.
    number: u64,
}

impl Event {
    /// One of somebody, its request and what became of it; texts that are too long are cut.
    #[must_use]
    pub fn new(at_ms: u64, what: What, origin: SocketAddr, texts: [&str; 3]) -> Self {
        let [user, request, detail] = texts.map(cut);
        Self { at_ms, what, user, origin, request, detail, count: 1, number: 0 }
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
    books: [Mutex<Book>; 3],
    events: AtomicU64,
    bytes_max: u64,
    files_max: u32,
}

/// What is noted of one stream.
#[derive(Debug)]
struct Book {
    kept: VecDeque<Event>,
    /// The file; none where nothing is written.
    file: Option<(PathBuf, File, u64)>,
    /// Whether the last line could not be written, which was said. A part of it may be there.
    has_failed: bool,
}

impl Audit {
    /// In memory, and in files of this folder, each of which is begun anew after so many bytes; so many older ones
    /// of each stay. Without a folder in memory alone.
    ///
    /// # Errors
    /// Where a file cannot be opened.
    pub fn open(folder: Option<&Path>, bytes_max: u64, files_max: u32) -> io::Result<Self> {
        let book = |name| {
            let file = folder.map(|folder| begin(&folder.join(name))).transpose()?;
            io::Result::Ok(Mutex::new(Book { kept: VecDeque::new(), file, has_failed: false }))
        };
        let [changes, logins, refused] = FILES;
        let books = [book(changes)?, book(logins)?, book(refused)?];
        Ok(Self { books, events: AtomicU64::new(0), bytes_max, files_max })
    }

    /// Notes an event; of equal ones in a row the first, the second, the fourth and so on are written. That one
    /// cannot be written is said in the log, and ends nothing.
    pub fn note(&self, mut event: Event) {
        let mut book = self.books[event.what.stream()].lock();
        event.number = self.events.fetch_add(1, Ordering::Relaxed);
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
            tracing::error!(%error, "a file of the audit cannot be written; events are kept in memory alone");
        }
        book.has_failed = written.is_err();
        if book.kept.len() >= KEPT_MAX {
            book.kept.pop_front();
        }
        book.kept.push_back(event);
    }

    fn write(&self, book: &mut Book, line: &[u8]) -> io::Result<()> {
        let has_failed = book.has_failed;
        let Some((path, file, bytes)) = &mut book.file else { return Ok(()) };
        if *bytes > 0 && *bytes + line.len() as u64 > self.bytes_max {
            // First of all: older files are not to go where none can be begun.
            let beside = path.with_extension("new");
            let (_, fresh, _) = begin(&beside)?;
            for number in (1..self.files_max).rev() {
                let (from, to) = (older(path, number), older(path, number + 1));
                if from.exists() {
                    fs::rename(from, to)?;
                }
            }
            if path.exists() {
                fs::rename(&*path, older(path, 1))?;
            }
            fs::rename(&beside, &*path)?;
            (*file, *bytes) = (fresh, 0);
        } else if has_failed {
            file.write_all(b"\n")?;
            *bytes += 1;
        }
        file.write_all(line)?;
        *bytes += line.len() as u64;
        Ok(())
    }

    /// The last events of each stream, the newest of all first.
    #[must_use]
    pub fn last(&self, count: usize) -> Vec<Event> {
        let last = |book: &Mutex<Book>| -> Vec<Event> {
            book.lock().kept.iter().rev().take(count).cloned().collect()
        };
        let mut events: Vec<Event> = self.books.iter().flat_map(last).collect();
        events.sort_by_key(|event| Reverse(event.number));
        events
    }

    /// Who was turned away last, the newest first.
    #[must_use]
    pub fn refusals(&self) -> Vec<Event> {
        let book = self.books[REFUSED].lock();
        book.kept.iter().rev().filter(|it| it.what != What::NotChanged).cloned().collect()
    }

    /// Forgets what is kept in memory of logins and denials, as ACL LOG RESET asks.
    pub fn forget_refusals(&self) {
        self.books[REFUSED].lock().kept.clear();
    }
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
        of(What::Denied, request)
    }

    fn of(what: What, request: &str) -> Event {
        Event::new(7, what, SocketAddr::from(([127, 0, 0, 1], 5)), ["bob", request, ""])
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
        let refused = ["audit_refused.1.json", "audit_refused.2.json", "audit_refused.json"];
        assert_eq!(names[..2], ["audit_changes.json", "audit_logins.json"]);
        assert_eq!(names[2..], refused);
        for name in &refused {
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
    fn no_file_goes_where_none_can_be_begun() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(Some(folder.path()), 400, 3).unwrap();
        let texts = || {
            let names = ["", ".1", ".2", ".3"].map(|it| format!("audit_refused{it}.json"));
            names.map(|name| fs::read_to_string(folder.path().join(name)).unwrap_or_default())
        };
        for number in 0..20 {
            audit.note(event(&format!("GET /{number}")));
        }
        let before = texts();
        assert!(before.iter().all(|text| !text.is_empty()));
        // Nothing can be begun under that name.
        let beside = folder.path().join("audit_refused.new");
        fs::create_dir(&beside).unwrap();
        for number in 20..40 {
            audit.note(event(&format!("GET /{number}")));
        }
        let during = texts();
        assert_eq!(during[1..], before[1..]);
        fs::remove_dir(&beside).unwrap();
        audit.note(event("GET /again"));
        assert!(texts()[0].contains("GET /again") && texts()[1] == during[0]);
    }

    #[test]
    fn who_is_refused_pushes_no_change_out() {
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(Some(folder.path()), 1000, 1).unwrap();
        audit.note(of(What::Changed, "PUT /_security/user/eve"));
        audit.note(of(What::LoggedIn, "GET /"));
        for number in 0..2 * KEPT_MAX {
            audit.note(event(&number.to_string()));
            audit.note(of(What::LoginFailed, &number.to_string()));
        }
        audit.note(of(What::Changed, "DELETE /_security/user/eve"));
        let last = audit.last(2);
        let whats: Vec<_> = last.iter().map(|event| event.what).collect();
        let refused = [What::LoginFailed, What::Denied];
        assert_eq!(whats, [What::Changed, refused[0], refused[1], What::LoggedIn, What::Changed]);
        assert_eq!(audit.refusals().len(), KEPT_MAX);
        let text = fs::read_to_string(folder.path().join("audit_changes.json")).unwrap();
        assert!(text.contains("PUT /_security/user/eve"), "{text}");
        audit.forget_refusals();
        assert_eq!(audit.last(9).len(), 3);
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
