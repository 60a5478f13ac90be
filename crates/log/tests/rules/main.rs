//! Property tests of the rules of the log, through their public face alone.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_possible_truncation,
    reason = "a test may panic and report"
)]

mod chain;
mod leads;
mod logs;
#[allow(dead_code, reason = "the model breaks it on purpose")]
mod replica;
mod sessions;
