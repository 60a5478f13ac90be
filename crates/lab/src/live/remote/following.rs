//! The scenario `following`: the leader is written to at 70 % of what the link carries, and the
//! follower is asked how far behind it is. The link is narrower than for copies, because a node with
//! part of a processor indexes less than that link carries. How many bytes of the link a byte of a
//! bulk request becomes is measured first.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde_json::Value;

use super::arms::{OURS, arms};
use super::copying::Follower;
use super::lag::{Lag, follower_numbers, leader_numbers};
use super::pair::{LEADER_INDEX, Pair};
use super::scenarios::{FOLLOWING, LINK, Plan};
use super::{Run, copying, course, laps};
use crate::LabError;
use crate::live::corpus::{Corpus, Shape};
use crate::live::load::histogram;
use crate::live::measure::{self, Measured, Moment, STOPPED};
use crate::live::options::LiveSize;
use crate::live::wire::{self, Connection, Protocol};
use crate::result::{CopyCourse, Finding, Lap, LoadNote, over_laps};
use crate::stats;
use crate::wan::WanSettings;

/// The link of this scenario, as a part of that of the copies.
const LINK_PART: u64 = 10;
/// What is asked of it.
const LOAD: f64 = 0.7;
/// What is asked of it while the ratio is measured.
const LOAD_FIRST: f64 = 0.35;
/// Documents of a bulk request, and how many are drawn.
const BULK_DOCUMENTS: usize = 200;
const DOCUMENTS_MAX: usize = 100_000_000;
const FIRST: Duration = Duration::from_secs(5);
const WARM_UP: Duration = Duration::from_secs(4);
const WINDOW: Duration = Duration::from_secs(24);
const LOOK: Duration = Duration::from_millis(50);
const LAPS_MAX: usize = 3;
const TIMEOUT: Duration = Duration::from_secs(30);
/// How long a first copy may take over the narrow link.
const COPY_SECONDS_MAX: f64 = 300.0;
/// A writer that wrote less than this of what it should did not load the link.
const OFFERED_MIN: f64 = 0.95;
const LAG_MS_MAX: f64 = 1_000.0;

/// Laps of it where others have so many.
pub(super) fn laps(laps: usize) -> usize {
    laps.min(LAPS_MAX)
}

/// Runs the scenario.
pub(super) fn run(run: &mut Run<'_, '_>, plan: &Plan) -> Result<(), LabError> {
    let ours = arms(LiveSize::Quick, &[OURS.to_owned()], LINK.rate_bytes_s);
    let ours = run.leave_out_unsupported(ours);
    let ours: Vec<_> = ours.into_iter().filter(|arm| arm.name == OURS).collect();
    let stop = std::sync::Arc::clone(&run.context.options.stop);
    run.pair.forget()?;
    if let Some(arm) = ours.first() {
        run.pair.set(&arm.settings)?;
    }
    // The copy itself goes over the wide link.
    let copy = copying::copy(&run.pair, COPY_SECONDS_MAX, &AtomicU64::new(0), &stop)?;
    if copy.level_seconds.is_none() {
        return match run.context.is_stopped() {
            true => Err(LabError::Stopped),
            false => Err(LabError::live("follow".to_owned(), "the follower is not level")),
        };
    }
    let link = WanSettings { rate_bytes_s: LINK.rate_bytes_s / LINK_PART, ..LINK };
    run.pair.wan.change(link);
    let count = laps(plan.laps(run.context.options, run.context.laps()));
    let found = laps_of(run, &link, count, &stop);
    run.pair.wan.change(LINK);
    let (all, fit, rate_ops_s) = found?;
    if all.is_empty() {
        return Err(LabError::Stopped);
    }
    run.push(FOLLOWING, LoadNote::RateOpsS(rate_ops_s), &fit, &ours, &[all]);
    if let Some(scenario) = run.found.results.scenarios.last() {
        let limit = LAG_MS_MAX + 4.0 * LINK.delay.as_secs_f64() * 1e3;
        let p99 = scenario.variants.first().and_then(|it| over_laps(it, "lag_ms.p99"));
        run.found.plots.findings.push(Finding::compare(
            format!("{FOLLOWING}: lag at {:.0} % of the link, p99", LOAD * 100.0),
            format!("under 1 s + 2 trips ({limit:.0} ms)"),
            p99.map(|ms| format!("{ms:.0} ms")),
            p99.map(|ms| ms < limit),
        ));
        let told = scenario.variants.first().and_then(|it| over_laps(it, "lag_told_ms.p99"));
        run.found.plots.findings.push(Finding::told(
            format!("{FOLLOWING}: lag by the follower's own `lag_in_millis`, p99"),
            told.map(|ms| format!("{ms:.0} ms (from when it heard of a change)")),
        ));
    }
    run.pair.forget()
}

type Laps = (Vec<Measured>, Vec<(&'static str, f64)>, f64);

fn laps_of(
    run: &mut Run<'_, '_>,
    link: &WanSettings,
    count: usize,
    stop: &AtomicBool,
) -> Result<Laps, LabError> {
    let seed = run.context.options.seed;
    let rate = link.rate_bytes_s as f64;
    let mut writer = Writer::new(&run.pair, seed)?;
    // Idle, for what the two say to one another anyway; then written to.
    let from = run.pair.wan.carried_bytes()[1];
    writer.write(rate * LOAD_FIRST, FIRST, stop)?;
    await_idle(&run.pair, stop)?;
    let carried = run.pair.wan.carried_bytes()[1] - from;
    let ratio = carried as f64 / writer.bytes.max(1) as f64;
    let bulk_bytes_s = rate * LOAD / ratio.max(1e-3);
    run.context.note(format!(
        "{FOLLOWING}: the link carries {:.2} MB/s; a byte of a bulk request is {ratio:.2} on it, so \
         that {:.0} % of it are {:.2} MB/s of requests; the lag is \
         that of the follower's position in its leader's log behind the leader's, both asked for {} \
         times a second at most",
        rate / 1e6,
        LOAD * 100.0,
        bulk_bytes_s / 1e6,
        Duration::from_secs(1).as_millis() / LOOK.as_millis(),
    ));
    let mut all = Vec::new();
    let (mut documents, mut seconds) = (0, 0.0);
    for block in 0..count {
        if run.context.is_stopped() {
            break;
        }
        let before = writer.documents;
        let began = Instant::now();
        let mut lap = lap(&mut run.pair, &mut writer, bulk_bytes_s, rate, stop)?;
        if run.context.is_stopped() {
            break;
        }
        documents += writer.documents - before;
        seconds += began.elapsed().as_secs_f64();
        lap.block = block;
        all.push(lap);
        run.context.step(&format!("{FOLLOWING} {OURS} lap {}", block + 1));
    }
    let fit =
        vec![("link_bytes_s", rate), ("wire_per_bulk_byte", ratio), ("bulk_bytes_s", bulk_bytes_s)];
    Ok((all, fit, documents as f64 / f64::max(seconds, 1e-9)))
}

/// One lap: written to all the time, watched after a while.
fn lap(
    pair: &mut Pair,
    writer: &mut Writer,
    bulk_bytes_s: f64,
    link_bytes_s: f64,
    stop: &AtomicBool,
) -> Result<Measured, LabError> {
    writer.write(bulk_bytes_s, WARM_UP, stop)?;
    let _ = pair.wan.take_late_ms();
    let before = Moment::take(&pair.cluster.nodes);
    let (carried, began, written) = (pair.wan.carried_bytes()[1], Instant::now(), writer.bytes);
    let is_over = AtomicBool::new(false);
    let (behind, ended, course) = thread::scope(|scope| {
        let (pair, is_over) = (&*pair, &is_over);
        let watching = scope.spawn(move || watch(pair, is_over));
        let write = |_: &AtomicU64| writer.write(bulk_bytes_s, WINDOW, stop);
        let (ended, course) = course::beside(pair, write);
        is_over.store(true, Ordering::Relaxed);
        (watching.join(), ended, course)
    });
    ended?;
    // No files are copied.
    let course = CopyCourse { bytes: Vec::new(), ..course };
    let watched = |_| LabError::live("watch the follower".to_owned(), "a thread panicked");
    let behind = behind.map_err(watched)?;
    let seconds = began.elapsed().as_secs_f64();
    let wire_bytes = pair.wan.carried_bytes()[1] - carried;
    let after = Moment::take(&pair.cluster.nodes);
    let conditions = measure::conditions(pair.wan.take_late_ms(), &before, &after);
    let offered = (writer.bytes - written) as f64 / seconds / bulk_bytes_s;
    let gone = pair.cluster.ended();
    let reason = match () {
        () if stop.load(Ordering::Relaxed) => Some(STOPPED.to_owned()),
        () if !gone.is_empty() => Some(format!("the process of {} ended", gone.join(", "))),
        () if behind.seen_us.is_empty() => {
            Some("the follower did not say how far behind it is".to_owned())
        }
        () if offered < OFFERED_MIN => Some(format!(
            "the leader took {:.0} % of what was to be written; the link was {:.0} % used",
            offered * 100.0,
            wire_bytes as f64 / seconds / link_bytes_s * 100.0
        )),
        () => laps::disturbance(&conditions),
    };
    let lap = Lap {
        valid: reason.is_none(),
        reason,
        cpu_s: Some((after.cpu_s() - before.cpu_s()).max(0.0)),
        conditions: Some(conditions),
        lag_ms: Some(stats::quantiles(&behind.seen_us)),
        lag_told_ms: Some(stats::quantiles(&behind.told_us)),
        course: Some(course),
        nodes: measure::node_laps(&pair.cluster.nodes, &before, &after),
        ..Lap::default()
    };
    Ok(Measured::without_requests(lap, 0))
}

/// How far behind every partition was at every look, as seen from outside and as the follower says.
struct Behind {
    seen_us: Histogram<u64>,
    told_us: Histogram<u64>,
}

fn watch(pair: &Pair, is_over: &AtomicBool) -> Behind {
    let path = format!("/{LEADER_INDEX}/_stats/docs?level=shards");
    let mut behind = Behind { seen_us: histogram(), told_us: histogram() };
    let mut lag = Lag::default();
    let began = Instant::now();
    while !is_over.load(Ordering::Relaxed) {
        let looked = began.elapsed();
        let leader = pair.leader().ask("GET", &path, None, TIMEOUT).unwrap_or_default();
        let at = began.elapsed();
        for (shard, number) in leader_numbers(&leader, LEADER_INDEX) {
            lag.leader(shard, number, at);
        }
        let follower = pair.ask("_ccr/stats").unwrap_or_default();
        let at = began.elapsed();
        for (shard, number, told_ms) in follower_numbers(&follower) {
            let seen = lag.follower(shard, number, at).as_micros();
            behind.seen_us.saturating_record(u64::try_from(seen).unwrap_or(u64::MAX));
            if let Some(told_ms) = told_ms {
                behind.told_us.saturating_record(told_ms.saturating_mul(1_000));
            }
        }
        thread::sleep(LOOK.saturating_sub(began.elapsed() - looked));
    }
    behind
}

/// Waits until the follower has all that was written.
fn await_idle(pair: &Pair, stop: &AtomicBool) -> Result<(), LabError> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT && !stop.load(Ordering::Relaxed) {
        if pair.is_level()? {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
    match stop.load(Ordering::Relaxed) {
        true => Err(LabError::Stopped),
        false => Err(LabError::live("follow".to_owned(), "the follower is not level")),
    }
}

/// Writes new documents to the leader's table, by the clock.
struct Writer {
    address: String,
    connection: Connection,
    drawn: Box<dyn Iterator<Item = Value> + Send>,
    /// Bytes and documents that the leader took.
    bytes: u64,
    documents: u64,
}

/// Numbers of documents, which no two writers of a run share.
static NUMBER: AtomicU64 = AtomicU64::new(1_000_000_000);

impl Writer {
    fn new(pair: &Pair, seed: u64) -> Result<Self, LabError> {
        let address = pair.leader().http();
        let connection = Connection::open(&address, Protocol::Http, TIMEOUT)
            .map_err(|error| LabError::live("write to the leader".to_owned(), error))?;
        let corpus = Corpus::of_seed(Shape::HttpLogs, DOCUMENTS_MAX, seed ^ 1);
        let drawn = Box::new(corpus.generate());
        Ok(Self { address, connection, drawn, bytes: 0, documents: 0 })
    }

    /// Writes so many bytes a second for so long. What the leader is late with is not made good.
    fn write(&mut self, bytes_s: f64, length: Duration, stop: &AtomicBool) -> Result<(), LabError> {
        let began = Instant::now();
        let mut due = Duration::ZERO;
        while began.elapsed() < length && !stop.load(Ordering::Relaxed) {
            let now = began.elapsed();
            if due > now {
                thread::sleep((due - now).min(length.saturating_sub(now)));
                continue;
            }
            let lines = self.bulk();
            self.send(&lines)?;
            self.bytes += lines.len() as u64;
            due += Duration::from_secs_f64(lines.len() as f64 / bytes_s);
        }
        Ok(())
    }

    fn bulk(&mut self) -> Vec<u8> {
        let mut lines = Vec::new();
        for document in self.drawn.by_ref().take(BULK_DOCUMENTS) {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            lines.extend_from_slice(format!("{{\"index\":{{\"_id\":\"{number}\"}}}}\n").as_bytes());
            lines.extend_from_slice(document.to_string().as_bytes());
            lines.push(b'\n');
            self.documents += 1;
        }
        lines
    }

    fn send(&mut self, lines: &[u8]) -> Result<(), LabError> {
        let failed = |why: String| LabError::live("write to the leader".to_owned(), why);
        let request = wire::http("POST", &format!("/{LEADER_INDEX}/_bulk"), &self.address, lines);
        let status = self.connection.status(&request).map_err(|error| failed(error.to_string()))?;
        let body = &self.connection.body;
        match status == 200 && !body.windows(13).any(|part| part == b"\"errors\":true") {
            true => Ok(()),
            false => {
                let front = String::from_utf8_lossy(&body[..body.len().min(400)]).into_owned();
                Err(failed(format!("{status} {front}")))
            }
        }
    }
}
