//! Recovery: a replica is made by copying a checkpoint of another node's.
//!
//! - [`source`]: checkpoints for other nodes, over [`checkpoint`], the files of one, [`kept`], what outlives
//!   a restart of them, and [`hashing`], their checksums.
//! - [`target`]: the copy, over [`asking`], which asks for checkpoints, [`away`], how long a source is
//!   waited for, [`transfer`], which asks for chunks, [`intake`], which makes files of them, and [`reuse`], which finds what need not be asked
//!   for.
//! - [`options`]: how one is copied, and why it is not whole.
//! - [`window`]: how much of copies is under way at once.
//! - [`packing`] and [`unpacking`]: chunks that are compressed on the way to another cluster.
//! - [`folders`]: where a copy lies while it is not whole, and how it takes its place.
//! - [`progress`]: what is told about copies, and [`bound`], what holds one up.
//!
//! From which node to copy, and when, is decided by who begins one; reading the log on from where
//! the copy stands is the applier's.

pub(crate) mod joining;

mod asking;
mod away;
mod bound;
mod checkpoint;
mod folders;
mod hashing;
mod intake;
mod kept;
mod options;
mod packing;
mod progress;
mod reuse;
mod source;
mod target;
mod transfer;
mod unpacking;
mod window;

pub use bound::Bound;
pub(crate) use checkpoint::Subject;
pub(crate) use folders::{Folders, finish_swaps};
pub use options::CopyCompression;
pub(crate) use options::{CopyError, CopyOptions, Pace};
pub(crate) use progress::{AlreadyRunning, Recoveries, Recovery};
pub use progress::{RecoveryStatus, Stage};
pub(crate) use source::Checkpoints;
pub(crate) use target::{Copied, InstallError, OfLeader, copy};
pub(crate) use window::Window;

#[cfg(test)]
pub(crate) use options::Now;

#[cfg(test)]
mod tests;
