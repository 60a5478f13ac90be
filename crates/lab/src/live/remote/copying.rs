//! A follower's copy of its leader's table, watched from outside until the follower is level, or cut
//! where it takes too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::watched::{Copied, extrapolated, off_percent, tail_seconds};
use crate::LabError;

/// How often a copy is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long a follower may take to be level after its copy is there.
const LEVEL_WAIT: Duration = Duration::from_secs(30);
/// After so long a copy should know how long it will take, s.
const KNOWN_AFTER_S: f64 = 10.0;

/// What a copy came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copy {
    /// Until all was there, or what that would have been; none where nothing came.
    pub(crate) seconds: Option<f64>,
    pub(crate) level_seconds: Option<f64>,
    pub(crate) tail_seconds: Option<f64>,
    /// By how much the time left that it told after ten seconds was off.
    pub(crate) time_left_off_percent: Option<f64>,
    /// Bytes of the whole, and those that the follower says crossed the link; 0 where it does not.
    pub(crate) bytes: u64,
    pub(crate) told_wire_bytes: u64,
    /// Why it ended before it was done.
    pub(crate) cut: Option<String>,
}

/// A follower and the table that it is to copy.
pub(crate) trait Follower {
    /// Has it follow; nothing need be copied when this returns.
    fn follow(&self) -> Result<(), LabError>;
    /// Its `_recovery`, and the name that its table has there.
    fn recovery(&self) -> Result<(Value, &str), LabError>;
    /// How many partitions the table has.
    fn shards(&self) -> usize;
    /// Whether it has all that its leader has.
    fn is_level(&self) -> Result<bool, LabError>;
    /// Whether its clock is this machine's, so that it knows better than a look when it was done.
    fn has_our_clock(&self) -> bool;
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Has the follower copy the leader's table and watches it until it is level; how many bytes are there
/// is said in `there`.
///
/// # Errors
/// A node refuses.
pub(crate) fn copy(
    follower: &dyn Follower,
    seconds_max: f64,
    there: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Copy, LabError> {
    let (began, began_ms) = (Instant::now(), now_ms());
    follower.follow()?;
    let (mut seen, mut left) = (Vec::new(), None);
    let (copied, at_s) = loop {
        let (told, index) = follower.recovery()?;
        let copied = Copied::read(&told, index);
        let at_s = began.elapsed().as_secs_f64();
        seen.push((at_s, copied.bytes));
        there.store(copied.bytes, Ordering::Relaxed);
        if at_s >= KNOWN_AFTER_S && left.is_none() {
            left = copied.left_ms.map(|left_ms| (at_s, left_ms as f64 / 1e3));
        }
        if copied.is_done(follower.shards()) {
            break (copied, at_s);
        }
        if at_s > seconds_max || stop.load(Ordering::Relaxed) {
            return Ok(cut(at_s, copied));
        }
        thread::sleep(LOOK);
    };
    let seconds = match follower.has_our_clock() {
        // Looks are too far apart.
        true => copied.ended_ms.saturating_sub(began_ms) as f64 / 1e3,
        false => at_s,
    };
    let mut level_seconds = None;
    let waited = Instant::now();
    while waited.elapsed() < LEVEL_WAIT && !stop.load(Ordering::Relaxed) {
        if follower.is_level()? {
            level_seconds = Some(began.elapsed().as_secs_f64().max(seconds));
            break;
        }
        thread::sleep(LOOK / 4);
    }
    // The last look came after the end.
    for (at_s, _) in &mut seen {
        *at_s = at_s.min(seconds);
    }
    Ok(Copy {
        seconds: Some(seconds),
        level_seconds,
        tail_seconds: tail_seconds(&seen, copied.bytes_total, seconds),
        time_left_off_percent: left.and_then(|(at_s, left_s)| off_percent(at_s, left_s, seconds)),
        bytes: copied.bytes_total,
        told_wire_bytes: copied.wire_bytes,
        cut: None,
    })
}

/// A copy that took too long.
fn cut(at_s: f64, copied: Copied) -> Copy {
    let percent = copied.bytes as f64 / copied.bytes_total.max(1) as f64 * 100.0;
    Copy {
        seconds: extrapolated(at_s, copied.bytes, copied.bytes_total),
        bytes: copied.bytes_total,
        told_wire_bytes: copied.wire_bytes,
        cut: Some(format!(
            "cut after {at_s:.0} s with {percent:.0} % of the bytes; the rest is extrapolated"
        )),
        ..Copy::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_cut_says_so() {
        let copied = Copied { bytes: 30, bytes_total: 120, ..Copied::default() };
        let copy = cut(12.0, copied);
        assert_eq!((copy.seconds, copy.bytes), (Some(48.0), 120));
        assert!(copy.cut.is_some_and(|why| why.starts_with("cut after 12 s with 25 % ")));
    }
}
