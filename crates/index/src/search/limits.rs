//! How much a search of one partition collects, and how much it found. What it finds is `top`'s and `sorted`'s.

use super::request::TrackTotal;
use super::result::Hit;
use crate::query::exec::run::Cancelled;

/// How much a search collects.
pub(super) struct Limits<'a> {
    pub window: usize,
    pub track_total: TrackTotal,
    pub terminate_after: u64,
    pub cancelled: &'a Cancelled,
    pub after: Option<&'a Hit>,
}

impl Limits<'_> {
    /// How many hits are counted before counting may stop.
    pub(super) const fn count_limit(&self) -> u64 {
        match self.track_total {
            TrackTotal::No => 0,
            TrackTotal::Exact => u64::MAX,
            TrackTotal::UpTo(limit) => limit,
        }
    }
}

/// How many documents were found, and why no more.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    pub found: u64,
    pub is_exact: bool,
    pub stopped: bool,
    pub terminated_early: bool,
    pub timed_out: bool,
}

impl Count {
    /// Before a segment behind the first: stops where the search was cancelled. Within a segment a
    /// query may take long to find anything, and nobody asks then.
    pub(super) fn stop_between(&mut self, segment: u32, limits: &Limits<'_>) {
        if segment > 0 && !self.stopped && limits.cancelled.is_set() {
            self.stopped = true;
            self.timed_out = true;
        }
    }
}
