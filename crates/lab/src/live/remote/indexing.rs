//! The scenario `while-indexing`: the leader's table is written to and an index of the follower's own is
//! searched, by the clock, without a copy and while one is made. What that costs both is told by the
//! latency of their own work; what it costs the copy, by how long it takes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::thread;
use std::time::Duration;

use serde_json::json;

use super::arms::{OURS, RemoteArm, UNPACED, Way, arms};
use super::pair::{LEADER_INDEX, Pair};
use super::scenarios::Plan;
use super::{Run, copying, course};
use crate::LabError;
use crate::live::cluster;
use crate::live::context::{Stopping, TIMEOUT};
use crate::live::corpus::{Corpus, Shape};
use crate::live::load::{self, Load, Pace, Requests, Taken, Watch};
use crate::live::measure::{self, Measured, Moment, STOPPED};
use crate::live::method;
use crate::live::options::{LiveOptions, LiveSize};
use crate::live::wire::{self, Protocol};
use crate::result::{Finding, Foreground, Lap, LoadNote, RecoveryLap, over_laps};
use crate::sim::derive;
use crate::stats;

/// What runs without a copy.
const ALONE: &str = "alone";
/// The same documents, written by the follower's own clients to a table of its own, and no copy: what the
/// work of indexing them costs it, whoever sends them.
const WRITTEN: &str = "written-here";
/// The follower's own index, which is searched, and the one that is written to in that arm.
const LOCAL_INDEX: &str = "local";
const WRITTEN_INDEX: &str = "written";
const LOCAL_DOCUMENTS: usize = 20_000;
const WRITTEN_DOCUMENTS: usize = 1_000;
/// Requests a second of either side: enough for a 99th percentile.
const RATE_OPS_S: f64 = 100.0;
const CLIENTS: usize = 16;
const BULK_DOCUMENTS: usize = 10;
/// Different requests of a side; documents get ids of the leader's.
const REQUESTS: usize = 500;
const WARM_UP: Duration = Duration::from_secs(2);
const WINDOW: Duration = Duration::from_secs(16);
/// A copy is given up after so long.
const COPY_SECONDS_MAX: f64 = 120.0;
/// How much longer the work of either side may take while a copy is made.
const TIMES_MAX: f64 = 1.2;

/// What both sides are asked.
struct Work {
    leader: Requests,
    follower: Requests,
    /// Of [`WRITTEN`].
    written: Requests,
}

/// Runs the scenario.
pub(super) fn run(run: &mut Run<'_, '_>, plan: &Plan) -> Result<(), LabError> {
    let seed = run.context.options.seed;
    let wanted = arms(LiveSize::Quick, &[OURS.to_owned()], plan.link.rate_bytes_s);
    let ours = run.leave_out_unsupported(wanted).into_iter().find(|arm| arm.name == OURS);
    let ours = ours.ok_or_else(|| LabError::live("run while-indexing".to_owned(), "no arm"))?;
    let (leader, follower) = (run.pair.leader().http(), run.pair.follower().http());
    let work = Work {
        leader: bulks(&leader, LEADER_INDEX, seed),
        follower: searches(&run.pair),
        written: bulks(&follower, WRITTEN_INDEX, seed),
    };
    run.pair.cluster.unlimit()?;
    let shards = run.pair.shards;
    for (index, count, shards) in
        [(LOCAL_INDEX, LOCAL_DOCUMENTS, 1), (WRITTEN_INDEX, WRITTEN_DOCUMENTS, shards)]
    {
        let own = Corpus::of_seed(Shape::HttpLogs, count, seed ^ 2);
        cluster::load(&follower, index, &own, shards, 0)?;
    }
    run.pair.cluster.limit_to(plan.share)?;
    run.pair.await_rest(&run.context.options.stop);
    run.context.note(format!(
        "{}: the leader takes {RATE_OPS_S} bulk requests of {BULK_DOCUMENTS} documents a second into \
         the table that is copied, the follower answers {RATE_OPS_S} searches a second of an index of \
         its own; each lap is of {} s, and a copy begins with it",
        plan.name,
        WINDOW.as_secs()
    ));
    let alone = RemoteArm { name: ALONE, way: Way::Ours { plain: false }, settings: [].into() };
    let more = with_more(run.context.options)
        .then(|| [ours.unpaced(), RemoteArm { name: WRITTEN, ..alone.clone() }]);
    let arms: Vec<RemoteArm> =
        [alone, ours].into_iter().chain(more.into_iter().flatten()).collect();
    let mut all = vec![Vec::<Measured>::new(); arms.len()];
    for block in 0..plan.laps(run.context.options, run.context.laps()) {
        for at in method::order(arms.len(), block) {
            if run.context.is_stopped() {
                break;
            }
            let lap_seed = derive(seed, (block * arms.len() + at) as u64);
            let stop = Arc::clone(&run.context.options.stop);
            run.pair.set(&arms[at].settings)?;
            let mut lap = lap(&mut run.pair, &work, arms[at].name, lap_seed, &stop)?;
            if run.context.is_stopped() {
                break;
            }
            lap.block = block;
            all[at].push(lap);
            run.context.step(&format!("{} {} lap {}", plan.name, arms[at].name, block + 1));
        }
    }
    run.pair.forget()?;
    if all.iter().any(Vec::is_empty) {
        return Err(LabError::Stopped);
    }
    let fit = [("link_bytes_s", plan.link.rate_bytes_s as f64), ("processors", plan.share)];
    run.push(plan.name, LoadNote::RateOpsS(RATE_OPS_S * 2.0), &fit, &arms, &all);
    judge(run);
    Ok(())
}

/// Arms of a run: without a copy, and with one; and where it has time, with one that makes no way, and
/// with as much to index as a follower has.
pub(super) fn arms_of(options: &LiveOptions) -> usize {
    2 + 2 * usize::from(with_more(options))
}

fn with_more(options: &LiveOptions) -> bool {
    match options.variants.is_empty() {
        true => options.size != LiveSize::Quick,
        false => options.variants.iter().any(|name| name == UNPACED),
    }
}

/// What both sides' own work and the copy came to.
fn judge(run: &mut Run<'_, '_>) {
    let Some(scenario) = run.found.results.scenarios.last() else { return };
    let of = |name: &str, path: &str| {
        let variant = scenario.variants.iter().find(|variant| variant.name == name)?;
        over_laps(variant, path)
    };
    let mut found = Vec::new();
    for side in ["leader", "follower"] {
        let path = format!("foreground.{side}_ms.p99");
        let compared = |name: &str| {
            let (alone, with) = of(ALONE, &path).zip(of(name, &path))?;
            let times = with / alone.max(1e-9);
            Some((times, format!("{times:.2} times ({with:.1} ms, {alone:.1} ms)")))
        };
        let what =
            format!("{}: p99 of the {side}'s own work, with a copy and alone", scenario.name);
        let (times, words) = compared(OURS).unzip();
        let aim = format!("at most {TIMES_MAX} times");
        found.push(Finding::compare(what.clone(), aim, words, times.map(|it| it <= TIMES_MAX)));
        for (name, how) in [(UNPACED, "without pacing"), (WRITTEN, "no copy, but as much to index")]
        {
            if let Some((_, words)) = compared(name) {
                found.push(Finding::told(format!("{what}: {how}"), Some(words)));
            }
        }
    }
    let laps = scenario.variants.iter().filter(|variant| variant.name == OURS);
    let is_level = |lap: &Lap| lap.recovery.is_some_and(|it| it.level_seconds.is_some());
    let level: Vec<bool> = laps.flat_map(|variant| &variant.laps).map(is_level).collect();
    let count = level.iter().filter(|is_level| **is_level).count();
    found.push(Finding::compare(
        format!("{}: level at the end", scenario.name),
        "every lap".to_owned(),
        Some(format!("{count} of {}", level.len())),
        Some(count == level.len()),
    ));
    run.found.plots.findings.extend(found);
}

/// One lap of an arm: both sides work, and where it copies, the table is copied from the window's
/// beginning on.
fn lap(
    pair: &mut Pair,
    work: &Work,
    arm: &str,
    seed: u64,
    stop: &Arc<AtomicBool>,
) -> Result<Measured, LabError> {
    pair.forget()?;
    let _ = pair.wan.take_late_ms();
    let carried = pair.wire_bytes();
    let watch = Stopping(Arc::clone(stop));
    let (leader, follower) = (pair.leader().http(), pair.follower().http());
    let load = |address: &str, requests: &Requests, seed: u64| {
        let addresses = [address.to_owned()];
        load::run(
            &Load {
                addresses: &addresses,
                protocol: Protocol::Http,
                greeting: b"",
                requests,
                pace: Pace::Open { rate_ops_s: RATE_OPS_S, clients: CLIENTS },
                warm_up: WARM_UP,
                window: WINDOW,
                timeout: TIMEOUT,
                seed,
            },
            &watch,
        )
    };
    let copies = arm.starts_with(OURS);
    let (took, copy, before, after) = thread::scope(|scope| {
        let (load, pair) = (&load, &*pair);
        let mut works = vec![(&leader, &work.leader, seed), (&follower, &work.follower, seed ^ 1)];
        if arm == WRITTEN {
            works.push((&follower, &work.written, seed ^ 2));
        }
        let works: Vec<_> = works
            .into_iter()
            .map(|(address, requests, seed)| scope.spawn(move || load(address, requests, seed)))
            .collect();
        thread::sleep(WARM_UP);
        let before = Moment::take(&pair.cluster.nodes);
        let follow = |there: &AtomicU64| copying::copy(pair, COPY_SECONDS_MAX, there, stop);
        let copy = copies.then(|| course::beside(pair, follow));
        let failed = |_| Err(std::io::Error::other("a thread panicked"));
        let took: Result<Vec<Taken>, _> =
            works.into_iter().map(|work| work.join().unwrap_or_else(failed)).collect();
        (took, copy, before, Moment::take(&pair.cluster.nodes))
    });
    let failed = |error| LabError::live("start the load".to_owned(), error);
    let mut took = took.map_err(failed)?.into_iter();
    let none = || LabError::live("read the load".to_owned(), "there is none");
    let leader = took.next().ok_or_else(none)?;
    let follower = took.next().ok_or_else(none)?;
    let written = took.next();
    let wire_bytes = pair.wire_bytes() - carried;
    let (copy, course) = match copy.filter(|_| !watch.is_stopped()) {
        Some((copy, course)) => (Some(copy?), Some(course)),
        None => (None, None),
    };
    let late_ms = [&leader, &follower].map(|it| it.late_us.value_at_quantile(0.99) as f64 / 1e3);
    let conditions = measure::conditions(late_ms[0].max(late_ms[1]), &before, &after);
    let ended = pair.cluster.ended();
    let reason = match () {
        () if watch.is_stopped() => Some(STOPPED.to_owned()),
        () if !ended.is_empty() => Some(format!("the process of {} ended", ended.join(", "))),
        () => measure::disturbance(&conditions),
    };
    // What is written here counts where it fails; its times are nobody's.
    let mut all = leader.clone();
    for other in std::iter::once(&follower).chain(&written) {
        all.add(other);
    }
    let lap = Lap {
        valid: reason.is_none(),
        reason: reason.or_else(|| copy.as_ref()?.cut.clone()),
        n: all.issued,
        error_rate: all.failures() as f64 / all.issued.max(1) as f64,
        refused_rate: all.refused as f64 / all.issued.max(1) as f64,
        errors: all.failed,
        cpu_s: Some((after.cpu_s() - before.cpu_s()).max(0.0)),
        conditions: Some(conditions),
        recovery: copy.and_then(|copy| {
            copy.seconds.map(|seconds| RecoveryLap {
                recovery_seconds: seconds,
                share_of_raw: 0.0,
                wire_bytes,
                tail_seconds: copy.tail_seconds,
                level_seconds: copy.level_seconds,
                time_left_off_percent: copy.time_left_off_percent,
            })
        }),
        foreground: Some(foreground(&leader, &follower)),
        course,
        nodes: measure::node_laps(&pair.cluster.nodes, &before, &after),
        ..Lap::default()
    };
    Ok(Measured::without_requests(lap, 0))
}

fn foreground(leader: &Taken, follower: &Taken) -> Foreground {
    let mut both = leader.latency_us.clone();
    both.add(&follower.latency_us).unwrap_or_else(|e| unreachable!("the same bounds: {e}"));
    Foreground {
        latency_ms: stats::quantiles(&both),
        leader_ms: stats::quantiles(&leader.latency_us),
        follower_ms: stats::quantiles(&follower.latency_us),
    }
}

/// Bulk requests of new documents for a table.
fn bulks(address: &str, index: &str, seed: u64) -> Requests {
    let mut drawn =
        Corpus::of_seed(Shape::HttpLogs, REQUESTS * BULK_DOCUMENTS, seed ^ 3).generate();
    let bulk = |_| {
        let mut lines = Vec::new();
        for document in drawn.by_ref().take(BULK_DOCUMENTS) {
            lines.extend_from_slice(b"{\"index\":{}}\n");
            lines.extend_from_slice(document.to_string().as_bytes());
            lines.push(b'\n');
        }
        wire::http("POST", &format!("/{index}/_bulk"), address, &lines)
    };
    Requests::of_one_kind((0..REQUESTS).map(bulk).collect())
}

/// Searches of the follower's own index.
fn searches(pair: &Pair) -> Requests {
    let address = pair.follower().http();
    let search = |number: usize| {
        let page = format!("page_{number}.gif");
        let body = json!({ "size": 10, "query": { "match": { "request": page } } }).to_string();
        wire::http("POST", &format!("/{LOCAL_INDEX}/_search"), &address, body.as_bytes())
    };
    Requests::of_one_kind((0..REQUESTS).map(search).collect())
}
