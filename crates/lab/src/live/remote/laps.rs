//! One lap of an arm: the same bytes over the same link, by a follower or raw, watched from outside,
//! with the processor time of both nodes and whether something disturbed it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::arms::{RemoteArm, Way};
use super::pair::{FOLLOWER_INDEX, Pair, SHARDS};
use super::raw::RawCopy;
use super::watched::{Copied, extrapolated, is_level, tail_seconds};
use crate::LabError;
use crate::live::load::histogram;
use crate::live::measure::{self, Measured, Moment, STOPPED};
use crate::live::processes;
use crate::result::{Conditions, Lap, RecoveryLap, Series};

/// How often a copy is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long a follower may take to be level after its copy is there.
const LEVEL_WAIT: Duration = Duration::from_secs(30);
/// The points of a lap's course are so far apart, s.
const COURSE_S: f64 = 0.9;
/// The machine is left alone so long before a lap: files that were deleted, sockets that close.
const REST: Duration = Duration::from_millis(500);
/// A link that delivered later than this in one of a hundred cases was not in time, ms.
const LATE_MS_MAX: f64 = 5.0;

/// Seconds from the start, and MB a second that the link carried since the point before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Course(Vec<(f64, f64)>);

/// What a copy came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Copy {
    /// Until all was there, or what that would have been; none where nothing came.
    pub(crate) seconds: Option<f64>,
    pub(crate) level_seconds: Option<f64>,
    pub(crate) tail_seconds: Option<f64>,
    /// Bytes of the whole.
    pub(crate) bytes: u64,
    /// Why it ended before it was done.
    pub(crate) cut: Option<String>,
}

/// Runs one lap of an arm that copies so many bytes, within so many seconds.
///
/// # Errors
/// A node refuses, or the raw copy fails.
pub(crate) fn lap(
    pair: &mut Pair,
    arm: &RemoteArm,
    bytes: u64,
    seconds_max: f64,
    stop: &AtomicBool,
) -> Result<(Measured, Course), LabError> {
    pair.forget()?;
    pair.set(&arm.settings)?;
    thread::sleep(REST);
    for node in &pair.cluster.nodes {
        processes::reset_peak(node.process());
    }
    let _ = pair.wan.take_late_ms();
    let before = Moment::take(&pair.cluster.nodes);
    let carried = pair.wire_bytes();
    let is_over = AtomicBool::new(false);
    let (copy, course) = thread::scope(|scope| {
        let (pair, is_over) = (&*pair, &is_over);
        let watching = scope.spawn(move || watch(pair, is_over));
        let copy = match arm.way {
            Way::Raw { connections } => raw(pair, connections, bytes, stop),
            _ => follow(pair, seconds_max, stop),
        };
        is_over.store(true, Ordering::Relaxed);
        (copy, watching.join().unwrap_or_default())
    });
    let wire_bytes = pair.wire_bytes() - carried;
    let after = Moment::take(&pair.cluster.nodes);
    let conditions = measure::conditions(pair.wan.take_late_ms(), &before, &after);
    let ended = pair.cluster.ended();
    let copy = match stop.load(Ordering::Relaxed) {
        true => Copy::default(),
        false => copy?,
    };
    pair.forget()?;
    let disturbed = match () {
        () if stop.load(Ordering::Relaxed) => Some(STOPPED.to_owned()),
        () if !ended.is_empty() => Some(format!("the process of {} ended", ended.join(", "))),
        () if copy.seconds.is_none() => Some("nothing was copied".to_owned()),
        () => disturbance(&conditions),
    };
    let peaks = pair.cluster.nodes.iter();
    let peaks = peaks.filter_map(|node| processes::resident_bytes_peak(node.process()));
    let lap = Lap {
        valid: disturbed.is_none(),
        // A lap that was cut counts, and says so.
        reason: match (disturbed, copy.cut) {
            (Some(disturbed), Some(cut)) => Some(format!("{disturbed}; {cut}")),
            (disturbed, cut) => disturbed.or(cut),
        },
        cpu_s: Some((after.cpu_s() - before.cpu_s()).max(0.0)),
        rss_peak_bytes: Some(peaks.sum()),
        conditions: Some(conditions),
        recovery: copy.seconds.map(|seconds| RecoveryLap {
            recovery_seconds: seconds,
            // Known when the round is over.
            share_of_raw: 0.0,
            wire_bytes,
            tail_seconds: copy.tail_seconds,
            level_seconds: copy.level_seconds,
        }),
        nodes: measure::node_laps(&pair.cluster.nodes, &before, &after),
        ..Lap::default()
    };
    let measured = Measured { lap, latency_us: histogram(), service_us: histogram(), block: 0 };
    Ok((measured, course))
}

/// What the link carried over a lap.
fn watch(pair: &Pair, is_over: &AtomicBool) -> Course {
    let (began, mut course) = (Instant::now(), Course::default());
    let (mut last_s, mut last_bytes) = (0.0, pair.wire_bytes());
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(LOOK);
        let (at_s, bytes) = (began.elapsed().as_secs_f64(), pair.wire_bytes());
        if at_s - last_s >= COURSE_S {
            course.0.push((at_s, (bytes - last_bytes) as f64 / (at_s - last_s) / 1e6));
            (last_s, last_bytes) = (at_s, bytes);
        }
    }
    course
}

/// The course of a lap for the pictures.
pub(crate) fn series(scenario: &str, variant: &str, course: &Course) -> Series {
    Series {
        scenario: scenario.to_owned(),
        variant: variant.to_owned(),
        latency_ms: Vec::new(),
        at_s: course.0.iter().map(|(at_s, _)| *at_s).collect(),
        answered_s: course.0.iter().map(|(_, mb_s)| *mb_s).collect(),
        queued: Vec::new(),
        nodes: Vec::new(),
        counts: BTreeMap::new(),
        log_checksum: String::new(),
    }
}

/// Why a lap under these conditions may not be used: the link may not be as late as a generator of
/// requests.
pub(crate) fn disturbance(of: &Conditions) -> Option<String> {
    let late_ms = of.generator_late_ms;
    match late_ms > LATE_MS_MAX {
        true => Some(format!("the link delivered late by {late_ms:.1} ms (p99)")),
        false => measure::disturbance(of),
    }
}

fn raw(pair: &Pair, connections: usize, bytes: u64, stop: &AtomicBool) -> Result<Copy, LabError> {
    let copy = RawCopy {
        address: pair.raw_address()?,
        authority: &pair.authority(),
        connections,
        bytes,
        to: pair.cluster.folder().join("raw-copy"),
    };
    let copied = copy.run(stop)?;
    Ok(Copy {
        seconds: Some(copied.seconds),
        level_seconds: Some(copied.seconds),
        tail_seconds: Some(copied.tail_seconds),
        bytes,
        cut: None,
    })
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Has the follower copy the leader's table and watches it until it is level.
///
/// # Errors
/// A node refuses.
pub(crate) fn follow(pair: &Pair, seconds_max: f64, stop: &AtomicBool) -> Result<Copy, LabError> {
    let (began, began_ms) = (Instant::now(), now_ms());
    pair.follow()?;
    let mut seen = Vec::new();
    let copied = loop {
        let copied = Copied::read(&pair.ask("_recovery?active_only=false")?, FOLLOWER_INDEX);
        let at_s = began.elapsed().as_secs_f64();
        seen.push((at_s, copied.bytes));
        if copied.is_done(SHARDS) {
            break copied;
        }
        if at_s > seconds_max || stop.load(Ordering::Relaxed) {
            return Ok(cut(at_s, copied));
        }
        thread::sleep(LOOK);
    };
    // By the nodes' own clock, which is this machine's: looks are too far apart.
    let seconds = copied.ended_ms.saturating_sub(began_ms) as f64 / 1e3;
    let mut level_seconds = None;
    let waited = Instant::now();
    while waited.elapsed() < LEVEL_WAIT && !stop.load(Ordering::Relaxed) {
        if is_level(&pair.ask("_ccr/stats")?, SHARDS) {
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
        bytes: copied.bytes_total,
        cut: None,
    })
}

/// A copy that took too long.
fn cut(at_s: f64, copied: Copied) -> Copy {
    let percent = copied.bytes as f64 / copied.bytes_total.max(1) as f64 * 100.0;
    Copy {
        seconds: extrapolated(at_s, copied.bytes, copied.bytes_total),
        bytes: copied.bytes_total,
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
    fn a_lap_over_a_late_link_does_not_count() {
        let quiet =
            Conditions { generator_late_ms: 2.0, steal_percent: 0.1, foreign_processors: 0.0 };
        assert_eq!(disturbance(&quiet), None);
        let late = disturbance(&Conditions { generator_late_ms: 6.0, ..quiet });
        assert!(late.is_some_and(|why| why.contains("the link delivered late by 6.0 ms")));
        let stolen = disturbance(&Conditions { steal_percent: 9.0, ..quiet });
        assert!(stolen.is_some_and(|why| why.contains("hypervisor")));
    }

    #[test]
    fn a_copy_that_is_cut_says_so() {
        let copied = Copied { bytes: 30, bytes_total: 120, ..Copied::default() };
        let copy = cut(12.0, copied);
        assert_eq!((copy.seconds, copy.bytes), (Some(48.0), 120));
        assert!(copy.cut.is_some_and(|why| why.starts_with("cut after 12 s with 25 % ")));
    }
}
