//! Why a setting does not take a value. The words begin with the value; the setting is named by whoever
//! shows them.

use std::borrow::Cow;

/// Why a setting that the metadata keeps does not take a value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingError {
    /// The cluster has no setting of this name.
    #[error("`{0}` is no setting of the cluster")]
    NotOfTheCluster(String),
    /// The controllers have no setting of this name.
    #[error("`{0}` is no setting of the controllers")]
    NotOfTheControllers(String),
    /// It takes one of some words.
    #[error("`{text}` is none of {}", words.join(", "))]
    NoneOf {
        /// What was given.
        text: String,
        /// What it takes.
        words: Vec<&'static str>,
    },
    /// It takes something of another form, or in other bounds.
    #[error("`{text}` is not {wanted}")]
    Not {
        /// What was given.
        text: String,
        /// What it takes, with an example.
        wanted: Cow<'static, str>,
    },
    /// How fast compactions go, where RocksDB is to say so.
    #[error(
        "`{0}` is RocksDB's own, which cannot be set while its stores are open: start the node with \
         `compaction.rate_limiter.max_bytes_per_sec`"
    )]
    OfRocksDb(String),
}

impl SettingError {
    pub(super) fn none_of(text: &str, words: impl IntoIterator<Item = &'static str>) -> Self {
        Self::NoneOf { text: text.to_owned(), words: words.into_iter().collect() }
    }

    pub(super) fn not(text: &str, wanted: impl Into<Cow<'static, str>>) -> Self {
        Self::Not { text: text.to_owned(), wanted: wanted.into() }
    }
}
