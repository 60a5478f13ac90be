//! Why this node has not the copy of a partition that it should have.

use std::io;
use std::path::PathBuf;

use plimsoll_base::tasks::Lost;
use plimsoll_index::Error;
use plimsoll_log::{LogError, Lsn};
use plimsoll_storage::ErrorReply;
use plimsoll_storage::partition::ApplyError;
use plimsoll_storage::rows::StoreError;

use crate::metadata::error::MetadataError;
use crate::recovery::{CopyError, InstallError};
use crate::replication::applier::NotAdded;
use crate::replication::catch_up::CatchUpError;
use crate::replication::groups::error::GroupError;

/// Why a copy whose files are here is not served, or not taken away.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotServed {
    /// Its rows cannot be opened, or do not take what they lack.
    #[error(transparent)]
    Replica(#[from] ApplyError),
    /// It cannot be made durable.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its folders cannot be made, looked at or deleted.
    #[error(transparent)]
    Disk(#[from] io::Error),
    /// The number is none of a group of the log.
    #[error("an unknown log group")]
    UnknownGroup,
    /// Nothing of its group is applied here any more.
    #[error("the log group has stopped here")]
    GroupStopped,
    /// Its group is not read here.
    #[error(transparent)]
    Group(#[from] GroupError),
    /// It does not come to where its group is.
    #[error(transparent)]
    CatchUp(#[from] CatchUpError),
    /// Its group's applier does not take it.
    #[error(transparent)]
    NotAdded(#[from] NotAdded),
    /// What changes cannot be noted for its index.
    #[error("what changes cannot be noted for its index, or the node is stopping")]
    NotNoted,
    /// Its index cannot be opened.
    #[error("{}: {source}", dir.display())]
    Index {
        /// The folder of the index.
        dir: PathBuf,
        /// What is wrong.
        source: Error,
    },
    /// What was to be done ended halfway.
    #[error(transparent)]
    Lost(#[from] Lost),
}

/// What a copy lacks that the log no longer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the copy holds its partition up to {held}, the log begins at {first}, and {}",
    last_words(*.last)
)]
pub(crate) struct Lacking {
    /// Up to where its files hold the partition.
    pub held: Lsn,
    /// Where the log of its group begins.
    pub first: Lsn,
    /// After this position the partition has no record; `None` where nothing was noted of it.
    pub last: Option<Lsn>,
}

fn last_words(last: Option<Lsn>) -> String {
    match last {
        Some(last) => format!("its last record is at most {last}"),
        None => "its last record is not known".to_owned(),
    }
}

/// Why a copy could not be made, for now.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotMade {
    /// What there is of it is not served.
    #[error(transparent)]
    NotServed(#[from] NotServed),
    /// The log does not say what it holds.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The metadata does not say what was noted before a trim.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The metadata does not take that it serves.
    #[error(transparent)]
    NotChanged(#[from] ErrorReply),
    /// What was to be done ended halfway.
    #[error(transparent)]
    Lost(#[from] Lost),
    /// No node that is there serves another copy.
    #[error("no other copy can be asked")]
    NoSource,
    /// Another attempt has not ended yet.
    #[error("a copy is being made already")]
    BeingMade,
    /// Its table is no more.
    #[error("the table was deleted")]
    Deleted,
    /// Another node's files did not come.
    #[error(transparent)]
    NotCopied(#[from] CopyError),
    /// Another node's files cannot be used.
    #[error(transparent)]
    NotInstalled(#[from] InstallError),
    /// The last node that was tried does not give its copy.
    #[error("{node}: {why}")]
    Source {
        /// Its name.
        node: String,
        /// Why.
        #[source]
        why: Box<NotMade>,
    },
    /// Its files are here, the log went on without them, and no other copy stands in.
    #[error("{lacking}; {why}")]
    Trimmed {
        /// What it lacks.
        lacking: Lacking,
        /// Why no other stands in.
        #[source]
        why: Box<NotMade>,
    },
    /// The same, where the log was trimmed only meanwhile.
    #[error("{why}")]
    TrimmedSince {
        /// Up to where its files hold the partition.
        held: Lsn,
        /// Why no other stands in.
        #[source]
        why: Box<NotMade>,
    },
}

impl NotMade {
    /// Up to where the files that are here hold the partition; 0 where that is not known.
    pub(crate) fn held(&self) -> Lsn {
        match self {
            Self::Trimmed { lacking: Lacking { held, .. }, .. }
            | Self::TrimmedSince { held, .. } => *held,
            _ => Lsn(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_copy_lacks_is_told_with_why_no_other_stands_in() {
        let lacking = Lacking { held: Lsn(3), first: Lsn(9), last: Some(Lsn(7)) };
        let why = NotMade::Source { node: "b".to_owned(), why: Box::new(NotMade::Deleted) };
        let error = NotMade::Trimmed { lacking, why: Box::new(why) };
        assert_eq!(
            error.to_string(),
            "the copy holds its partition up to 3, the log begins at 9, and its last record is at \
             most 7; b: the table was deleted"
        );
        assert_eq!((error.held(), NotMade::NoSource.held()), (Lsn(3), Lsn(0)));
        let unknown = Lacking { last: None, ..lacking }.to_string();
        assert!(unknown.ends_with("and its last record is not known"), "{unknown}");
    }
}
