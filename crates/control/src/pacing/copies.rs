//! How fast a node copies and follows other clusters' tables, foreground first: the node's own clients are
//! to be answered about as soon as without.
//!
//! ```text
//! usual    = of each class, its latency in quiet seconds, averaged (a quarter for the newest, of which
//!            at most twice what is usual counts); also in others where it is a sixth below that
//! varies   = how far latencies of quiet seconds were from that on average, as a part of it
//! quiet    = at most 1 MB of background work in a second
//! lateness = the greatest of the classes: 1 where the latency is usual, 1.2 where it is a fifth more, or
//!            twice as much more as it varies by, if that is more
//! rate     = no limit while there is no foreground: nothing was asked for 3 s
//!            late, over 1.5: half of what was done of late; that is the knee
//!            fine, up to 1.2, or nothing is known: doubled; from half of the knee on a twentieth of it more, until it is passed
//!            by a quarter
//!            else, where that is so on the average of two seconds: nine tenths of what was done of late;
//!            that is the knee
//!            never below 1 MB/s, nor beyond 4 times what was done of late
//! look     = a quiet second where a class has no usual yet, and 30 s after the last quiet one where it
//!            was not fine since
//! urgency  = of following: from 0 at a lag of 1 min to 1 at 10, and from half to nine tenths of what the
//!            leader's log may hold for it
//! hastened = rate / (1 - urgency): what must not fall behind too far
//! ```
//!
//! It starts from 1 MB/s and not from full speed, since a foreground that is there already would pay for
//! what is found out that way; full speed is a few doublings away. A limit that stood above what is
//! really done would take as many seconds to bite, so it stays near that.
//!
//! Lateness may have another cause. Then it lasts at 1 MB/s as well, is what is usual now, and the work
//! goes on: nothing is stopped by what it did not cause. What is usual is learned in quiet seconds alone, or
//! slow work would call its own lateness usual in the end. 1 MB in a second costs a processor one or two
//! hundredths of it, so nothing starves.

use std::collections::VecDeque;

use super::felt::{Foreground, Latencies};
use crate::Class;
use crate::average::whole;

/// What may always be done in a second, bytes.
const QUIET_BYTES_S: f64 = 1e6;
/// Chunks do not divide that evenly: a second with so many times as much counts as quiet.
const QUIET_MAX: f64 = 1.5;
const LATE: f64 = 1.5;
const FINE: f64 = 1.2;
/// How many times what a latency varies by is no more than a fifth of it would be.
const VARIES: f64 = 2.0;
const EASED: f64 = 0.9;
/// How much a new latency weighs in what is usual.
const NEWS: f64 = 0.25;
const NEWS_MAX: f64 = 2.0;
/// From which part of the knee on it grows by steps, by which, and past what it is forgotten.
const NEAR: f64 = 0.5;
const STEP: f64 = 0.05;
const PASSED: f64 = 1.25;
/// How far the rate may be ahead of what is done.
const AHEAD: f64 = 4.0;
/// Over how many seconds that is the greatest.
const OF_LATE: usize = 3;
/// After how many seconds without a request there is no foreground.
const GONE_AFTER: u32 = 3;
/// How many seconds pass between two looks.
const LOOK_EVERY: u32 = 30;

/// From which lag on following is urgent, and by when nothing limits it; and the same of what the leader
/// holds.
const LAG_MS: (f64, f64) = (60_000.0, 600_000.0);
const HELD: (f64, f64) = (0.5, 0.9);

/// What was measured in the second before a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Second {
    /// What the foreground felt.
    pub foreground: Foreground,
    /// Bytes that were copied and followed.
    pub background_bytes: u64,
}

/// The pace of one node.
#[derive(Clone, Debug)]
pub struct CopyPacer {
    usual: [Option<Usual>; Class::COUNT],
    /// Bytes a second; none without a foreground.
    rate: Option<f64>,
    /// At which rate the foreground was late last.
    knee: Option<f64>,
    /// What was done in the last seconds.
    done: VecDeque<f64>,
    /// Seconds without a request.
    alone: u32,
    /// Seconds since the last quiet one, and whether the foreground was not fine in one of them.
    since_quiet: u32,
    is_doubtful: bool,
    /// The last lateness.
    lateness: f64,
    /// The rate that is gone on with after the look of this second.
    resumes: Option<f64>,
}

/// What is usual of a class.
#[derive(Clone, Copy, Debug)]
struct Usual {
    ns: f64,
    /// How far quiet seconds were from it, as a part of it.
    varies: f64,
}

impl Default for CopyPacer {
    fn default() -> Self {
        Self {
            usual: [None; Class::COUNT],
            rate: None,
            knee: None,
            done: VecDeque::new(),
            alone: GONE_AFTER,
            since_quiet: 0,
            is_doubtful: false,
            lateness: 1.0,
            resumes: None,
        }
    }
}

impl CopyPacer {
    /// How many bytes may be done in the next second; none where that is not limited. Called once a second.
    pub fn step(&mut self, second: &Second) -> Option<u64> {
        let done = second.background_bytes as f64;
        if self.done.len() == OF_LATE {
            self.done.pop_front();
        }
        self.done.push_back(done);
        let Foreground { latencies_ns, is_asked } = &second.foreground;
        self.alone = if *is_asked { 0 } else { self.alone.saturating_add(1) };
        if self.alone >= GONE_AFTER {
            (self.rate, self.knee, self.resumes) = (None, None, None);
            return None;
        }
        let (lateness, is_unknown) = self.compare(latencies_ns, done);
        let before = self.resumes.take().or(self.rate);
        let most = self.done.iter().copied().fold(0.0, f64::max);
        self.since_quiet = if is_quiet(done) { 0 } else { self.since_quiet.saturating_add(1) };
        self.is_doubtful &= !is_quiet(done);
        let averaged = f64::midpoint(lateness.unwrap_or(1.0), self.lateness);
        self.lateness = lateness.unwrap_or(self.lateness);
        let rate = match lateness {
            _ if is_unknown => {
                self.resumes = before.filter(|_| self.rate.is_some());
                QUIET_BYTES_S
            }
            Some(lateness) if lateness > LATE => self.bent(before, most) / 2.0,
            _ if self.is_doubtful && self.since_quiet >= LOOK_EVERY => {
                self.resumes = before;
                QUIET_BYTES_S
            }
            Some(lateness) if lateness > FINE => match averaged > FINE {
                true => EASED * self.bent(before, most),
                false => before.unwrap_or(QUIET_BYTES_S),
            },
            Some(_) | None => self.grown(before),
        };
        let rate = rate.min(AHEAD * most).max(QUIET_BYTES_S);
        self.rate = Some(rate);
        Some(whole(rate))
    }

    /// The greatest latency over what is usual, which is learned on the way, and whether there is a class of
    /// which nothing is known.
    fn compare(&mut self, foreground_ns: &Latencies, done: f64) -> (Option<f64>, bool) {
        let is_quiet = is_quiet(done);
        let mut lateness: Option<f64> = None;
        let mut is_unknown = false;
        for (felt_ns, known) in foreground_ns.iter().zip(&mut self.usual) {
            let Some(felt_ns) = felt_ns.map(|ns| ns.max(1) as f64) else { continue };
            let Some(usual) = known else {
                is_unknown |= !is_quiet;
                *known = is_quiet.then_some(Usual { ns: felt_ns, varies: 0.0 });
                continue;
            };
            let more = felt_ns / usual.ns - 1.0;
            let fine = FINE - 1.0;
            let late = 1.0 + more * fine / fine.max(VARIES * usual.varies);
            lateness = Some(lateness.map_or(late, |it| it.max(late)));
            if is_quiet {
                usual.varies += NEWS * (more.abs().min(1.0) - usual.varies);
            }
            if is_quiet || more < 1.0 / FINE - 1.0 {
                usual.ns += NEWS * (felt_ns.min(NEWS_MAX * usual.ns) - usual.ns);
            }
        }
        (lateness, is_unknown)
    }

    /// The foreground was not fine: notes at which rate, unless that was quiet anyway, when it has another
    /// cause.
    fn bent(&mut self, before: Option<f64>, most: f64) -> f64 {
        self.is_doubtful = true;
        let knee = before.unwrap_or(f64::INFINITY).min(most);
        self.knee = Some(knee).filter(|knee| !is_quiet(*knee));
        knee
    }

    fn grown(&mut self, before: Option<f64>) -> f64 {
        let before = before.unwrap_or(QUIET_BYTES_S);
        self.knee = self.knee.filter(|knee| before <= PASSED * knee);
        match self.knee {
            Some(knee) if before >= NEAR * knee => before + STEP * knee,
            Some(knee) => (2.0 * before).min(NEAR * knee),
            None => 2.0 * before,
        }
    }
}

fn is_quiet(done: f64) -> bool {
    done <= QUIET_MAX * QUIET_BYTES_S
}

/// How urgent it is that following goes on, from 0 to 1: by how long it has been behind, and by how much of
/// what the leader's log may hold for it that holds.
#[must_use]
pub fn urgency(lag_ms: u64, held: f64) -> f64 {
    let rising = |x: f64, (from, to): (f64, f64)| ((x - from) / (to - from)).clamp(0.0, 1.0);
    rising(lag_ms as f64, LAG_MS).max(rising(held, HELD))
}

/// The rate for work that must not fall behind too far: `urgency` is from 0 to 1, where nothing limits it
/// any more.
#[must_use]
pub fn hastened(bytes_s: Option<u64>, urgency: f64) -> Option<u64> {
    let left = 1.0 - urgency.clamp(0.0, 1.0);
    bytes_s.filter(|_| left > 0.0).map(|bytes_s| whole(bytes_s as f64 / left))
}

#[cfg(test)]
mod tests;
