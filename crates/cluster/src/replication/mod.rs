//! One log and the replicas that follow it: the lead that makes records of what clients write, the thread that
//! applies what a group of the log holds, the clock that goes into it, and what reads wait for. Which copies
//! there are is the metadata's to say, which of them is asked is routing's.
//!
//! | | |
//! |---|---|
//! | [`service`] | what a node has of its log, and the waits that others ask it for |
//! | [`lead`], [`gather`] | operations become records |
//! | [`log_engine`], [`clock`] | the log that they are appended to, and the clock that stamps them |
//! | [`groups`], [`applier`], [`catch_up`], [`advance`] | the groups that are read here, and what applies them |
//! | [`tail`], [`barrier`], [`reads`] | how far that is, and what strong and session reads wait for |
//! | [`submit`], [`session`], [`settle`] | steps for this node's own lead; each operation once; what became of one in doubt |
//! | [`proposing`] | changes of the metadata, which are writes as any other |
//! | [`durable`], [`beat`], [`digest`] | what is in files of each group, what of the log is needed, what a copy contains |
//! | [`index`] | the index over the documents of a partition, as who keeps the partition sees it |
//! | [`version`] | the cluster's version, taken over and raised |
//! | [`tables`], [`partition`] | the tables as this node knows them; a replica as all others see it |
//! | [`reopening`] | why this node has to be opened anew, if it has to |

pub(crate) mod advance;
pub(crate) mod applier;
pub(crate) mod barrier;
mod beat;
pub(crate) mod catch_up;
pub(crate) mod clock;
pub(crate) mod digest;
pub(crate) mod durable;
pub(crate) mod gather;
pub(crate) mod groups;
pub(crate) mod index;
pub(crate) mod lead;
pub(crate) mod log_engine;
pub(crate) mod partition;
pub(crate) mod proposing;
pub(crate) mod reading;
pub(crate) mod reads;
pub(crate) mod reopening;
mod service;
pub(crate) mod session;
pub(crate) mod settle;
pub(crate) mod submit;
pub(crate) mod tables;
pub(crate) mod tail;
mod version;

pub(crate) use service::{Replication, partition_of_replica};
