//! What a node is opened with, and why one cannot be opened.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_base::World;
use plimsoll_log::LogError;
use plimsoll_storage::partition::StoreOptions;

use crate::documents::DocumentsOptions;
use crate::metadata::error::MetadataError;
use crate::metadata::members::NodeRecord;
use crate::replication::advance::AdvanceError;
use crate::replication::log_engine::LogSettings;
use crate::settings::work::WorkSettings;
use crate::wire::{NoPeers, Peers};

/// What a node is opened with.
#[derive(Clone)]
pub struct NodeSettings {
    /// The folder for everything it keeps; made where it is not there.
    pub data_dir: PathBuf,
    /// Which log it runs on.
    pub log: LogSettings,
    /// What rows may take in memory.
    pub store: StoreOptions,
    /// Partitions of a table that `SELECT` reaches, when it is created: 1 to 1,024. Default 1.
    pub database_partitions: u32,
    /// How documents are indexed and searched.
    pub documents: DocumentsOptions,
    /// What steers selection and admission, where the cluster's settings do not say otherwise.
    pub work: WorkSettings,
    /// What it says of itself to other nodes.
    pub record: NodeRecord,
    /// The way to other nodes.
    pub peers: Arc<dyn Peers>,
    /// Time, chance, tasks and disk.
    pub world: World,
}

impl NodeSettings {
    /// A node that is alone, with everything as it is by default.
    #[must_use]
    pub fn alone(data_dir: &Path) -> Self {
        Self {
            data_dir: data_dir.to_owned(),
            log: LogSettings::default(),
            store: StoreOptions::default(),
            database_partitions: 1,
            documents: DocumentsOptions::default(),
            work: WorkSettings::default(),
            record: NodeRecord::default(),
            peers: Arc::new(NoPeers),
            world: World::of_the_machine(),
        }
    }
}

/// Why a node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The data folder cannot be used.
    #[error("{}: {reason}", path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The log cannot be opened or read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// While the node was being opened, it turned out that it has to be opened anew, mostly because the log went on.
    #[error("the node has to be opened anew: {0}")]
    Reopen(String),
    /// The metadata here cannot be read.
    #[error(transparent)]
    Metadata(#[from] MetadataError),
    /// The metadata's log is not the one that was read before.
    #[error(transparent)]
    Forked(#[from] AdvanceError),
    /// Rows and log do not fit together.
    #[error("{0}")]
    Mismatch(String),
}

pub(crate) fn folder(path: &Path) -> impl FnOnce(std::io::Error) -> OpenError {
    let path = path.to_owned();
    move |error| OpenError::Folder { path, reason: error.to_string() }
}
