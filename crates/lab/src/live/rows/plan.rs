//! Runs the laps of a scenario on stores of rows: one lap of load on one store, and the laps of several arms
//! in turns. The scenarios say what is asked, of whom, and what a result means; this file decides neither.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::course::{self, Answers};
use super::disk::SlowDisk;
use super::server::Server;
use super::source::{READS, WRITES};
use super::store::Figures;
use crate::LabError;
use crate::live::context::{Arm, Context, Stopping, TIMEOUT, comparisons, variants};
use crate::live::found::Found;
use crate::live::load::{self, Load, Pace, Source, Watch};
use crate::live::measure::{self, Measured, Moment, STOPPED};
use crate::live::options::{LiveOptions, LiveSize};
use crate::live::shares::Throttled;
use crate::live::wire::Protocol;
use crate::live::{method, processes};
use crate::result::{
    Conditions, FaultNote, Finding, Lap, LoadNote, NodeLap, RowsCourse, RowsLap, Scenario,
    over_laps,
};
use crate::sim::derive;
use crate::stats;

/// How long a lap of a closed loop is.
pub(super) const SHORT: Lengths =
    Lengths { warm_up: Duration::from_secs(1), window: Duration::from_secs(4) };
/// Laps of each arm of a quick run.
const LAPS_QUICK: usize = 3;
/// The time over which the disk's use is told, s.
const PEAK_S: usize = 5;

/// What counts for nothing of a lap, and what is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) warm_up: Duration,
    pub(super) window: Duration,
}

/// What a lap asks.
#[derive(Clone)]
pub(super) struct Ask<'a> {
    pub(super) server: &'a dyn Server,
    /// Those of the store's nodes that clients are at.
    pub(super) addresses: Vec<String>,
    /// What clients say first.
    pub(super) greeting: Vec<u8>,
    pub(super) requests: &'a dyn Source,
    pub(super) pace: Pace,
    pub(super) lengths: Lengths,
    /// The store is also looked at once a second.
    pub(super) looks: Option<Looks>,
}

/// What a store is looked at for.
#[derive(Clone, Default)]
pub(super) struct Looks {
    /// Holds its writes, where it is held.
    pub(super) disk: Option<Arc<SlowDisk>>,
    /// To how many bytes a second.
    pub(super) disk_bytes_s: Option<u64>,
    /// Keys and values of a write, bytes.
    pub(super) write_bytes: u64,
}

impl<'a> Ask<'a> {
    /// A closed loop of so many clients at all nodes of a store.
    pub(super) fn closed(server: &'a dyn Server, requests: &'a dyn Source, clients: usize) -> Self {
        Self {
            server,
            addresses: server.addresses(),
            greeting: Vec::new(),
            requests,
            pace: Pace::Closed { clients },
            lengths: SHORT,
            looks: None,
        }
    }
}

/// An arm of a scenario: its name, and what its laps ask.
pub(super) type Asked<'a> = (String, Ask<'a>);

/// An arm without settings that are switched while it runs.
pub(super) fn arm(name: &str) -> Arm {
    Arm { name: name.to_owned(), settings: BTreeMap::new() }
}

/// Laps of each arm in a run.
pub(super) fn laps_of(options: &LiveOptions) -> usize {
    options.laps.unwrap_or(match options.size {
        LiveSize::Quick => LAPS_QUICK,
        LiveSize::Study | LiveSize::Full => method::BLOCKS_MIN,
    })
}

/// Makes the laps of all arms in turns, and tells of them as a scenario of this name.
///
/// # Errors
/// The run is to end, or the load cannot be started.
pub(super) fn run(
    context: &mut Context<'_>,
    found: &mut Found,
    name: &str,
    arms: &[Asked<'_>],
) -> Result<(), LabError> {
    let options = context.options;
    let named: Vec<Arm> = arms.iter().map(|(name, _)| arm(name)).collect();
    let one = |at: usize, block| lap(options, &arms[at].1, block);
    let all = paired(context, name, &named, laps_of(options), one)?;
    if context.is_stopped() {
        return Err(LabError::Stopped);
    }
    let pace = arms.first().map_or(Pace::Closed { clients: 0 }, |(_, ask)| ask.pace);
    tell(context, found, Heading { name, fault: no_fault(), pace }, &named, &all);
    Ok(())
}

/// Makes so many laps of each arm in turns; when the run is to end, what there is.
///
/// # Errors
/// Those of a lap.
pub(super) fn paired(
    context: &mut Context<'_>,
    name: &str,
    arms: &[Arm],
    laps: usize,
    mut one: impl FnMut(usize, usize) -> Result<Measured, LabError>,
) -> Result<Vec<Vec<Measured>>, LabError> {
    let mut all: Vec<Vec<Measured>> = arms.iter().map(|_| Vec::new()).collect();
    for block in 0..laps {
        for at in method::order(arms.len(), block) {
            if context.is_stopped() {
                return Ok(all);
            }
            all[at].push(one(at, block)?);
            context.step(&format!("{name} {} lap {}", arms[at].name, block + 1));
        }
    }
    Ok(all)
}

/// What a scenario is called, what is wrong in it, and how it is loaded.
pub(super) struct Heading<'a> {
    pub(super) name: &'a str,
    pub(super) fault: FaultNote,
    pub(super) pace: Pace,
}

/// Where nothing is wrong.
pub(super) fn no_fault() -> FaultNote {
    FaultNote { kind: "none".to_owned(), fit: BTreeMap::new() }
}

/// Where a disk takes so many bytes a second.
pub(super) fn held_disk(bytes_s: u64) -> FaultNote {
    let fit = [("disk_bytes_s".to_owned(), bytes_s as f64)].into();
    FaultNote { kind: "disk".to_owned(), fit }
}

/// Adds a scenario with its laps to what was found.
pub(super) fn tell(
    context: &Context<'_>,
    found: &mut Found,
    heading: Heading<'_>,
    arms: &[Arm],
    laps: &[Vec<Measured>],
) {
    let Heading { name, fault, pace } = heading;
    let load = match pace {
        Pace::Closed { clients } => LoadNote::Clients(clients),
        Pace::Open { rate_ops_s, .. } => LoadNote::RateOpsS(rate_ops_s),
    };
    let variants = variants(arms, laps, None);
    found.results.scenarios.push(Scenario { name: name.to_owned(), fault, load, variants });
    let seed = context.options.seed;
    let compared = comparisons(name, arms, laps, seed, |_, _, _| Vec::new());
    found.results.comparisons.extend(compared);
    let series = arms.iter().zip(laps);
    found.plots.series.extend(series.filter_map(|(a, l)| measure::series(name, &a.name, l)));
}

/// A figure of an arm over its laps, by the path of the metric; none where there is none.
pub(super) fn figure(found: &Found, scenario: &str, arm: &str, path: &str) -> Option<f64> {
    let scenario = found.results.scenarios.iter().find(|it| it.name == scenario)?;
    let variant = scenario.variants.iter().find(|it| it.name == arm)?;
    over_laps(variant, path)
}

/// Operations for a second of processor of an arm, all its processes together.
pub(super) fn per_cpu_s(found: &Found, scenario: &str, arm: &str) -> Option<f64> {
    figure(found, scenario, arm, "cpu_s_per_op").map(|cpu_s| 1.0 / cpu_s)
}

/// One figure over another, beside what the study has of it.
pub(super) fn beside(
    what: String,
    of: Option<f64>,
    to: Option<f64>,
    published: Option<f64>,
) -> Finding {
    let ratio = of.zip(to).map(|(of, to)| format!("{:.2}", of / to));
    let aim = published.map_or_else(|| "-".to_owned(), |it| format!("{it:.2} (Pegasus)"));
    Finding { aim, ..Finding::told(what, ratio) }
}

/// One figure over another, which is to be at least (`at_least`) or at most so much.
pub(super) fn aim(
    what: String,
    of: Option<f64>,
    to: Option<f64>,
    (is_least, bound): (bool, f64),
) -> Finding {
    let ratio = of.zip(to).map(|(of, to)| of / to);
    let word = if is_least { "at least" } else { "at most" };
    let is_reached = ratio.map(|it| if is_least { it >= bound } else { it <= bound });
    let told = ratio.zip(of.zip(to));
    let told = told.map(|(it, (of, to))| format!("{it:.2} ({of:.1} to {to:.1})"));
    Finding::compare(what, format!("{word} {bound}"), told, is_reached)
}

/// One lap. Several may be made at once, on the same store: each then counts all of its processes.
///
/// # Errors
/// The load cannot be started.
pub(super) fn lap(
    options: &LiveOptions,
    ask: &Ask<'_>,
    block: usize,
) -> Result<Measured, LabError> {
    let Lengths { warm_up, window } = ask.lengths;
    let load = Load {
        addresses: &ask.addresses,
        protocol: Protocol::Resp,
        greeting: &ask.greeting,
        requests: ask.requests,
        pace: ask.pace,
        warm_up,
        window,
        timeout: TIMEOUT,
        // All arms of a block meet the same requests.
        seed: derive(options.seed, block as u64),
    };
    let processes = ask.server.processes();
    processes.iter().copied().for_each(processes::reset_peak);
    let Some(looks) = &ask.looks else {
        let watch = Stopping(Arc::clone(&options.stop));
        let ends = Ends::of(ask, &load, &watch)?;
        return Ok(ends.measured(ask, &processes, &watch, RowsLap::default(), block));
    };
    let answers = Answers::new(warm_up, Arc::clone(&options.stop));
    let told = ask.server.told(looks.disk.clone());
    let (ends, (course, first, last)) = thread::scope(|scope| {
        let watching = scope.spawn(|| course::watch(&answers, window, &|| told.figures()));
        let ends = Ends::of(ask, &load, &answers)?;
        Ok::<_, LabError>((ends, watching.join().unwrap_or_default()))
    })?;
    let mut of_rows = ends.seen(looks, &course, (first, last));
    of_rows.longest_gap_ms = Some(answers.longest_gap().as_secs_f64() * 1e3);
    of_rows.course = course;
    Ok(ends.measured(ask, &processes, &answers, of_rows, block))
}

/// What the load saw, and counters at both ends of the window.
struct Ends {
    taken: load::Taken,
    before: Moment,
    after: Moment,
    /// Of each node, over all of the lap.
    throttled: Vec<Option<Throttled>>,
}

impl Ends {
    fn of(ask: &Ask<'_>, load: &Load<'_>, watch: &dyn Watch) -> Result<Self, LabError> {
        let (server, processes) = (ask.server, ask.server.processes());
        let throttled = server.throttled();
        let look = || Moment::of_processes(&processes);
        let (taken, before, after) = measure::between(load, watch, &look)?;
        let pairs = server.throttled().into_iter().zip(throttled);
        let throttled = pairs.map(|(a, b)| a.zip(b).map(|(a, b)| a.since(b))).collect();
        Ok(Self { taken, before, after, throttled })
    }

    /// What a store that was looked at did.
    fn seen(&self, looks: &Looks, course: &RowsCourse, ends: (Figures, Figures)) -> RowsLap {
        let (first, last) = ends;
        let writes = self.taken.by_kind_us.get(&WRITES).map_or(0, |it| it.len());
        let taken_bytes = writes * looks.write_bytes;
        let written = last.written_bytes.saturating_sub(first.written_bytes);
        let peak = |of: &[u64]| {
            let takes = of.len() as u64 * looks.disk_bytes_s?;
            Some(of.iter().sum::<u64>() as f64 / takes as f64)
        };
        let peaks = course.written_bytes.windows(PEAK_S).filter_map(peak);
        let mean = |of: &[u64]| of.iter().sum::<u64>().checked_div(of.len() as u64);
        RowsLap {
            written_per_byte: (taken_bytes > 0).then(|| written as f64 / taken_bytes as f64),
            disk_peak: peaks.reduce(f64::max),
            space_bytes: mean(&course.space_bytes),
            debt_left: last.debt,
            debt_peak: course.debt.iter().copied().reduce(f64::max),
            stops: last.stops.zip(first.stops).map(|(last, first)| last.saturating_sub(first)),
            hits_share: last.hits_since(first),
            ..RowsLap::default()
        }
    }

    fn measured(
        self,
        ask: &Ask<'_>,
        processes: &[u32],
        watch: &dyn Watch,
        of_rows: RowsLap,
        block: usize,
    ) -> Measured {
        let Self { taken, before, after, throttled } = self;
        let late_ms = taken.late_us.value_at_quantile(0.99) as f64 / 1e3;
        let conditions = measure::conditions(late_ms, &before, &after);
        // Then the load is part of what the store takes.
        let is_within = processes.contains(&std::process::id());
        let is_there = processes.iter().all(|process| processes::is_running(*process));
        let reason = match (watch.is_stopped(), is_there) {
            (true, _) => Some(STOPPED.to_owned()),
            (false, false) => Some("a process of the store ended".to_owned()),
            (false, true) => measure::disturbance(&Conditions {
                // Clients that call a store take the processors themselves: they wait for nobody, so late they are
                // never, however late the thread wakes that looks after them.
                generator_late_ms: if is_within { 0.0 } else { conditions.generator_late_ms },
                ..conditions
            }),
        };
        let of_kind = |kind| taken.by_kind_us.get(&kind).map(stats::quantiles).unwrap_or_default();
        let window_s = taken.seconds.max(1e-9);
        let ((machine, own), (machine_before, own_before)) = (after.around_s(), before.around_s());
        let of_rows = RowsLap {
            reads_ms: of_kind(READS),
            writes_ms: of_kind(WRITES),
            machine_processors: Some(machine.since(machine_before).busy_s / window_s),
            load_processors: (!is_within).then(|| (own - own_before) / window_s),
            ..of_rows
        };
        let used =
            after.cpu_s_each().zip(before.cpu_s_each()).zip(throttled).zip(ask.server.names());
        let nodes = used.map(|(((after, before), throttled), name)| NodeLap {
            name,
            cpu_s: Some((after - before).max(0.0)),
            periods: throttled.map(|it| it.periods),
            nr_throttled: throttled.map(|it| it.throttled),
            ..NodeLap::default()
        });
        let peaks = processes.iter().filter_map(|it| processes::resident_bytes_peak(*it));
        let lap = Lap {
            // Of a server elsewhere nothing is known.
            cpu_s: (!processes.is_empty()).then(|| (after.cpu_s() - before.cpu_s()).max(0.0)),
            rss_peak_bytes: (!processes.is_empty() && !is_within).then(|| peaks.sum()),
            nodes: nodes.collect(),
            rows: Some(of_rows),
            ..measure::of_load(&taken, conditions, reason)
        };
        let load::Taken { latency_us, service_us, .. } = taken;
        Measured { lap, latency_us, service_us, block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_reached_on_its_side_of_the_bound() {
        let of = |to, bound| aim("x".to_owned(), Some(3.0), to, bound).reached;
        assert_eq!(of(Some(2.0), (true, 1.5)), Some(true));
        assert_eq!(of(Some(2.0), (false, 1.4)), Some(false));
        // What is not known is not reached.
        assert_eq!(of(None, (false, 1.4)), Some(false));
        let told = beside("x".to_owned(), Some(3.0), Some(2.0), Some(1.39));
        assert_eq!((told.aim.as_str(), told.measured.as_str()), ("1.39 (Pegasus)", "1.50"));
        assert_eq!(told.reached, None);
    }
}
