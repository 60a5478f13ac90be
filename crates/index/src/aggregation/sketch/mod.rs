//! Summaries of many values in little memory, which can be merged: quantiles and distinct counts.

mod distinct;
mod hdr;
mod tdigest;

pub(crate) use distinct::Distinct;
pub(crate) use hdr::Hdr;
pub(crate) use tdigest::TDigest;
