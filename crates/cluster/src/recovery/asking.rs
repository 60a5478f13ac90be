//! What is asked of a source beside chunks: a checkpoint, checksums of its files, and its end. What
//! an answer means for the copy, and whether the same is asked for again: a refusal some times, a
//! source that is away for as long as `away.rs` says.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::time::Instant;
use plimsoll_control::Random;
use plimsoll_log::PartitionId;
use plimsoll_storage::partition::Checksum;

use super::away::Away;
use super::options::{CHECKSUMS_MAX, CopyError, CopyOptions};
use super::progress::Recovery;
use crate::wire::{
    CallError, CopyListing, FileKind, Link, PartitionName, Problem, Question, Reply, checksum_of,
};

/// The most files that a checkpoint may have: a message holds no more.
const FILES_MAX: usize = 500_000;
/// How long a file's name may be.
const NAME_BYTES_MAX: usize = 200;
/// How long closing a checkpoint may take.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Of so many bytes checksums are asked for at once: what a source reads within the time that an
/// answer has.
const CHECKSUM_BYTES_MAX: u64 = 1 << 30;

/// What a source offers.
pub(super) struct Offer {
    pub listing: CopyListing,
    /// The source knows the older form alone: all checksums are in the listing, no index is, and
    /// chunks are asked for by names.
    pub is_plain: bool,
}

/// What came of asking about a checkpoint.
pub(super) enum Told<T> {
    Answer(T),
    /// The source does not know the checkpoint any longer.
    Gone,
}

/// What was heard instead of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// Nothing.
    Silence(String),
    /// That it does not serve the partition: also of a node that has just started.
    NotHere(String),
    /// A refusal, or bytes that were damaged: asking again may help.
    Refusal(String),
}

/// Asks one source about one partition.
pub(super) struct Asking<'a> {
    pub link: &'a Link,
    pub options: &'a CopyOptions,
    recovery: &'a Recovery,
    partition: PartitionId,
    away: Mutex<Away>,
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        link: &'a Link,
        partition: PartitionId,
        options: &'a CopyOptions,
        recovery: &'a Recovery,
    ) -> Self {
        let away = Mutex::new(Away::new(options.away_max));
        Self { link, options, recovery, partition, away }
    }

    /// What time it is.
    pub(super) fn now(&self) -> Instant {
        let now = self.options.now.as_ref();
        now.map_or_else(|| self.recovery.world.time.now(), |now| now())
    }

    pub(super) fn partition(&self) -> PartitionId {
        self.partition
    }

    /// The source has given something that is of use.
    pub(super) fn gave(&self) {
        self.away.lock().gave(self.now());
    }

    /// Whether the same is to be asked for once more after so many attempts that came to nothing.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn may_ask_again(&self, attempts: u32, trouble: Trouble) -> Result<(), CopyError> {
        let is_waited_for = || self.away.lock().is_waited_for(self.now());
        let is_tried = attempts < self.options.attempts_max;
        match trouble {
            Trouble::Silence(_) | Trouble::NotHere(_) if is_waited_for() => Ok(()),
            Trouble::NotHere(reason) => Err(CopyError::NotHere(reason)),
            Trouble::Silence(_) | Trouble::Refusal(_) if is_tried => Ok(()),
            Trouble::Silence(last) | Trouble::Refusal(last) => {
                Err(CopyError::GivenUp { attempts, last })
            }
        }
    }

    /// Has the source make a checkpoint, or go on with the one that it has for this node.
    pub(super) async fn open(&self, random: &mut Random) -> Result<Offer, CopyError> {
        let partition = PartitionName::from(self.partition);
        let mut is_plain = false;
        let mut attempts = 0;
        loop {
            let question = match is_plain {
                true => Question::OpenCheckpoint { partition },
                false => Question::OpenCopy { partition },
            };
            let trouble = match self.ask(question).await {
                Ok(Reply::Checkpoint { listing, checksum }) if listing.checksum() == checksum => {
                    let listing = CopyListing::from(listing);
                    check(&listing, self.options.format_max)?;
                    self.gave();
                    return Ok(Offer { listing, is_plain: true });
                }
                Ok(Reply::Copy { listing, checksum }) if listing.checksum() == checksum => {
                    check(&listing, self.options.format_max)?;
                    self.gave();
                    return Ok(Offer { listing, is_plain: false });
                }
                Ok(Reply::Checkpoint { .. } | Reply::Copy { .. }) => {
                    Trouble::Refusal("a damaged listing".to_owned())
                }
                Ok(Reply::Problem(problem)) if problem.is_unread() => {
                    // A question that was damaged on the way has the same answer as one that an
                    // older node does not know: both forms are tried in turns.
                    is_plain = !is_plain;
                    heard_instead(Ok(Reply::Problem(problem)))?
                }
                other => heard_instead(other)?,
            };
            self.pause(&mut attempts, trouble, random).await?;
        }
    }

    /// The checksums of files of a checkpoint, by their places in the listing.
    pub(super) async fn checksums(
        &self,
        listing: &CopyListing,
        places: &[usize],
        random: &mut Random,
    ) -> Result<Told<Vec<u64>>, CopyError> {
        let mut found = Vec::new();
        let mut attempts = 0;
        while let Some(rest) = places.get(found.len()..).filter(|rest| !rest.is_empty()) {
            let mut bytes = 0;
            let fits = |place: &&usize| {
                let is_first = bytes == 0;
                bytes += listing.files[**place].bytes.max(1);
                is_first || bytes <= CHECKSUM_BYTES_MAX
            };
            let files = rest.iter().take(CHECKSUMS_MAX).take_while(fits);
            let files: Vec<u32> = files.filter_map(|place| u32::try_from(*place).ok()).collect();
            let count = files.len();
            let question = Question::FileChecksums { checkpoint: listing.number, files };
            let trouble = match self.ask(question).await {
                Ok(Reply::FileChecksums { checksums, checksum })
                    if checksum_of(&checksums) == checksum && checksums.len() == count =>
                {
                    attempts = 0;
                    self.gave();
                    found.extend(checksums);
                    continue;
                }
                Ok(Reply::FileChecksums { .. }) => Trouble::Refusal("damaged checksums".to_owned()),
                Ok(Reply::Problem(Problem::CheckpointGone)) => return Ok(Told::Gone),
                other => heard_instead(other)?,
            };
            self.pause(&mut attempts, trouble, random).await?;
        }
        Ok(Told::Answer(found))
    }

    /// The checkpoint is no longer needed. It ends by itself where this is lost, so nobody waits.
    pub(super) fn close(&self, checkpoint: u64) {
        let (link, trace) = (self.link.clone(), self.options.trace);
        self.recovery.world.tasks.spawn("close a checkpoint", async move {
            let close = Question::CloseCheckpoint { checkpoint };
            let _ = link.ask(close, CLOSE_TIMEOUT, trace).await;
        });
    }

    async fn ask(&self, question: Question) -> Result<Reply, CallError> {
        self.link.ask(question, self.options.open_timeout, self.options.trace).await
    }

    async fn pause(
        &self,
        attempts: &mut u32,
        trouble: Trouble,
        random: &mut Random,
    ) -> Result<(), CopyError> {
        *attempts += 1;
        self.may_ask_again(*attempts, trouble)?;
        self.recovery.world.time.sleep(self.options.pause(*attempts, random)).await;
        Ok(())
    }
}

/// What was heard instead of an answer.
///
/// # Errors
/// Where asking again cannot help.
pub(super) fn heard_instead(heard: Result<Reply, CallError>) -> Result<Trouble, CopyError> {
    let refusal = match heard {
        Err(error) => return Ok(Trouble::Silence(error.to_string())),
        Ok(Reply::Problem(Problem::NotHere(reason))) => return Ok(Trouble::NotHere(reason)),
        Ok(Reply::Problem(Problem::OtherCluster)) => {
            return Err(CopyError::Unfit("it belongs to another cluster".to_owned()));
        }
        // Also of bytes that are damaged; one that cannot read this version says so every time.
        Ok(Reply::Problem(Problem::Format(format))) => {
            format!("it speaks format {format} of messages")
        }
        Ok(Reply::Problem(Problem::Row { message, .. })) => message,
        Ok(Reply::Problem(Problem::Rest(error))) => error,
        Ok(Reply::Problem(Problem::CheckpointGone)) => "it forgot the checkpoint".to_owned(),
        Ok(_) => "it gave an answer to another question".to_owned(),
    };
    Ok(Trouble::Refusal(refusal))
}

/// Whether a listing makes sense. Names become names of files here: none may lead elsewhere.
fn check(listing: &CopyListing, format_max: u8) -> Result<(), CopyError> {
    if listing.format > format_max {
        let format = listing.format;
        return Err(CopyError::Unfit(format!(
            "its rows are in format {format}, this cluster's version reads up to {format_max}"
        )));
    }
    let damaged = |what: String| Err(CopyError::Damaged(what));
    let rows = listing.files.iter().filter(|file| file.kind == FileKind::Rows).count();
    if rows == 0 || listing.files.len() > FILES_MAX {
        let all = listing.files.len();
        return damaged(format!("a checkpoint of {all} files, {rows} of rows"));
    }
    if listing.indexed.is_some() != (rows < listing.files.len()) {
        return damaged("an index without a position, or the other way round".to_owned());
    }
    let mut names = HashSet::new();
    for file in &listing.files {
        let name = &file.name;
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        let is_name = !name.is_empty()
            && name.len() <= NAME_BYTES_MAX
            && name.bytes().all(is_plain)
            && !name.starts_with('.')
            // The index lies in a folder of this name beside the rows.
            && !(file.kind == FileKind::Rows && name == super::folders::INDEX);
        if !is_name || !names.insert((file.kind, name)) {
            return damaged(format!("a file called {name:?}"));
        }
        if file.bytes == 0 && file.checksum.is_some_and(|it| it != Checksum::of(b"")) {
            return damaged(format!("{name} is empty and has another checksum"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_storage::partition::STORE_FORMAT;

    use super::*;
    use crate::wire::CopyFile;

    fn file(kind: FileKind, name: &str) -> CopyFile {
        CopyFile { kind, name: name.to_owned(), bytes: 1, identity: 1, checksum: None }
    }

    fn rows(name: &str) -> CopyFile {
        file(FileKind::Rows, name)
    }

    fn listing(files: Vec<CopyFile>) -> CopyListing {
        CopyListing { number: 1, format: STORE_FORMAT, lsn: 1, indexed: None, files }
    }

    #[test]
    fn a_listing_that_leads_elsewhere_or_makes_no_sense_is_refused() {
        check(
            &listing(vec![rows("000012.sst"), rows("MANIFEST-000004"), rows("CURRENT")]),
            STORE_FORMAT,
        )
        .unwrap();
        let names =
            ["", "..", ".", "../x", "/etc/x", "a/b", "a\\b", "a\0b", ".hidden", "ü", "index"];
        for name in names {
            let refused =
                check(&listing(vec![rows("CURRENT"), rows(name)]), STORE_FORMAT).unwrap_err();
            assert!(matches!(refused, CopyError::Damaged(_)), "{name:?}: {refused}");
        }
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let empty = CopyFile { bytes: 0, checksum: Some(1), ..rows("empty") };
        for files in [vec![], vec![rows("a"), rows("a")], vec![rows(&long)], vec![empty]] {
            assert!(matches!(check(&listing(files), STORE_FORMAT), Err(CopyError::Damaged(_))));
        }
        let later = CopyListing { format: STORE_FORMAT + 1, ..listing(vec![rows("a")]) };
        assert!(matches!(check(&later, STORE_FORMAT), Err(CopyError::Unfit(_))));
        let packed = listing(vec![rows("a")]);
        assert!(matches!(check(&packed, STORE_FORMAT - 1), Err(CopyError::Unfit(_))));
    }

    #[test]
    fn an_index_has_a_position_and_lies_beside_rows() {
        let index = || file(FileKind::Index, "meta.json");
        let with = |indexed, files| CopyListing { indexed, ..listing(files) };
        check(&with(Some(3), vec![rows("a"), index()]), STORE_FORMAT).unwrap();
        // Each kind has names of its own.
        check(&with(Some(3), vec![rows("a"), file(FileKind::Index, "a")]), STORE_FORMAT).unwrap();
        for (indexed, files) in [
            (None, vec![rows("a"), index()]),
            (Some(3), vec![rows("a")]),
            (Some(3), vec![index()]),
            (Some(3), vec![rows("a"), index(), index()]),
            (Some(3), vec![rows("a"), file(FileKind::Index, "../a")]),
        ] {
            let refused = check(&with(indexed, files), STORE_FORMAT).unwrap_err();
            assert!(matches!(refused, CopyError::Damaged(_)), "{refused}");
        }
    }
}
