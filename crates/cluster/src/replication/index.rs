//! The index over the documents of a partition, as those see it who keep the partition: what it is, how it is
//! searched and filled is the business of documents.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use plimsoll_log::Lsn;

use crate::metadata::index::IndexMetadata;

/// The index over the documents of a partition.
pub(crate) trait DocumentsIndex: Any + Send + Sync {
    /// Why it is being built anew, if it is: its rows answer, searches should go elsewhere.
    fn rebuilding(&self) -> Option<String>;
    /// What the documents' fields are from now on.
    fn set_metadata(&self, metadata: Arc<IndexMetadata>);
    /// Makes the index durable, gives its files second names in the folder `dir`, and calls `rows`, always and
    /// once, which makes a checkpoint of the rows. Says up to where those files have the rows' documents; what
    /// was touched after that is noted in the rows of the checkpoint, as nothing is forgotten in between. `None`,
    /// and no such folder, where the index is of no use elsewhere. Blocks, and refreshes wait.
    fn checkpoint(&self, dir: &Path, rows: &mut dyn FnMut()) -> Option<Lsn>;
    /// Makes everything durable and lets go of the files. Blocks.
    fn close(&self);
    /// Lets go of the files, which are to be deleted.
    fn delete(&self);
}
