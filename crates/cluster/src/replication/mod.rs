//! One log and the replicas that follow it: the lead that makes records of what clients write, the thread that
//! applies what a group of the log holds, the clock that goes into it, and what reads wait for. Which copies
//! there are is the metadata's to say, which of them is asked is routing's.
//!
//! | | |
//! |---|---|
//! | [`lead`], [`gather`] | operations become records |
//! | [`log_engine`], [`clock`] | the log that they are appended to, and the clock that stamps them |
//! | [`groups`], [`applier`], [`catch_up`] | the groups that are read here, and what applies them |
//! | [`tail`], [`barrier`], [`reads`] | how far that is, and what strong and session reads wait for |
//! | [`session`], [`settle`] | each operation once; what became of one in doubt |
//! | [`partition`] | a replica as all others see it |
//! | [`fell_behind`] | the log went on without this node |

pub(crate) mod applier;
pub(crate) mod barrier;
pub(crate) mod catch_up;
pub(crate) mod clock;
pub(crate) mod fell_behind;
pub(crate) mod gather;
pub(crate) mod groups;
pub(crate) mod lead;
pub(crate) mod log_engine;
pub(crate) mod partition;
pub(crate) mod reading;
pub(crate) mod reads;
pub(crate) mod session;
pub(crate) mod settle;
pub(crate) mod tail;
