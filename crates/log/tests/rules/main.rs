//! Property tests of the rules of the log, through their public face alone.

mod chain;
mod leads;
mod logs;
mod replica;
mod sessions;
