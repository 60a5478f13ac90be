//! One lap of an arm: the same bytes over the same link, by a follower or raw, watched from outside,
//! with the processor time of both nodes and whether something disturbed it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::arms::{RemoteArm, Way};
use super::copying::{self, Copy};
use super::course;
use super::pair::Pair;
use super::raw::RawCopy;
use crate::LabError;
use crate::live::measure::{self, Measured, Moment, STOPPED};
use crate::live::processes;
use crate::result::{Conditions, Lap, RecoveryLap};

/// The machine is left alone so long before a lap: files that were deleted, sockets that close.
const REST: Duration = Duration::from_millis(500);
/// A link that delivered later than this in one of a hundred cases was not in time, ms.
const LATE_MS_MAX: f64 = 5.0;

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
) -> Result<Measured, LabError> {
    pair.forget()?;
    pair.set(&arm.settings)?;
    thread::sleep(REST);
    for node in &pair.cluster.nodes {
        processes::reset_peak(node.process());
    }
    let _ = pair.wan.take_late_ms();
    let before = Moment::take(&pair.cluster.nodes);
    let carried = pair.wire_bytes();
    let copied: &Pair = pair;
    let (copy, course) = course::beside(copied, |there| match arm.way {
        Way::Raw { connections } => raw(copied, connections, bytes, there, stop),
        _ => copying::copy(copied, seconds_max, there, stop),
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
            time_left_off_percent: copy.time_left_off_percent,
        }),
        course: Some(course),
        nodes: measure::node_laps(&pair.cluster.nodes, &before, &after),
        ..Lap::default()
    };
    Ok(Measured::without_requests(lap, 0))
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

fn raw(
    pair: &Pair,
    connections: usize,
    bytes: u64,
    there: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Copy, LabError> {
    let copy = RawCopy {
        address: pair.raw_address()?,
        authority: &pair.authority(),
        connections,
        bytes,
        to: pair.cluster.folder().join("raw-copy"),
    };
    let copied = copy.run(there, stop)?;
    Ok(Copy {
        seconds: Some(copied.seconds),
        level_seconds: Some(copied.seconds),
        tail_seconds: Some(copied.tail_seconds),
        bytes,
        ..Copy::default()
    })
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
}
