//! Scenarios `write-curve` and `read-curve`: how many operations a second there are for how many clients, with
//! the study's numbers of threads, of one node and of three. The knee is the last point that adds a tenth at
//! least for each half of clients more.

use super::mixes::{ONE, THREE};
use super::peers::{DEFAULTS, Peer};
use super::plan::{self, Ask, Asked};
use super::source::Rows;
use super::store::fill_all;
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::options::LiveOptions;
use crate::published::{CurvePoint, ROWS};
use crate::result::Finding;

pub(super) const WRITES: &str = "write-curve";
pub(super) const READS: &str = "read-curve";

const VALUE_BYTES: usize = 1_024;
const KEYS: u64 = 20_000;
/// Points of the study's picture of other numbers of nodes: its curve of writes ends before.
const MORE_WRITES: [usize; 3] = [90, 120, 150];
/// What a point has to add for half as many clients more.
const KNEE: f64 = 0.1;

/// The numbers of clients of a curve.
fn points(name: &str) -> Vec<usize> {
    let of = |curve: &[CurvePoint]| curve.iter().map(|it| it.threads).collect::<Vec<_>>();
    match name {
        READS => of(&ROWS.read_curve),
        _ => of(&ROWS.write_curve).into_iter().chain(MORE_WRITES).collect(),
    }
}

/// Laps of a run of `write-curve`.
pub(super) fn laps_of_writes(options: &LiveOptions) -> usize {
    plan::laps_of(options) * points(WRITES).len() * 2
}

/// Laps of a run of `read-curve`.
pub(super) fn laps_of_reads(options: &LiveOptions) -> usize {
    plan::laps_of(options) * points(READS).len() * 2
}

/// Runs `write-curve`.
pub(super) fn run_writes(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    run(context, found, WRITES, 0.0)
}

/// Runs `read-curve`.
pub(super) fn run_reads(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    run(context, found, READS, 1.0)
}

fn run(
    context: &mut Context<'_>,
    found: &mut Found,
    name: &str,
    reads: f64,
) -> Result<(), LabError> {
    let options = context.options;
    let rows = Rows::new(KEYS, VALUE_BYTES, reads, options.seed);
    let points = points(name);
    context.note(format!(
        "{name}: {KEYS} rows of 1 KB, zipfian, closed loops; the study's threads, of three clients on machines of \
         their own, are threads of this machine here"
    ));
    for (arm, count) in [(ONE, 1), (THREE, 3)] {
        let folder = options.folder.join(format!("{name}-{arm}"));
        let peer = Peer::nodes(&options.binary, &folder, count, &DEFAULTS)?;
        fill_all(&peer.server().addresses()[0], &rows, KEYS, options.seed)?;
        let arms: Vec<Asked<'_>> = points
            .iter()
            .map(|clients| (clients.to_string(), Ask::closed(peer.server(), &rows, *clients)))
            .collect();
        plan::run(context, found, &format!("{name} {arm}"), &arms)?;
        let told = findings(found, name, arm, &points);
        found.plots.findings.extend(told);
    }
    Ok(())
}

/// The study's rate and p99 with so many threads.
fn published(name: &str, clients: usize) -> Option<(f64, f64)> {
    let curve = if name == READS { &ROWS.read_curve } else { &ROWS.write_curve };
    curve.iter().find(|it| it.threads == clients).map(|it| (it.rate_s, it.p99_us))
}

fn findings(found: &Found, name: &str, arm: &str, points: &[usize]) -> Vec<Finding> {
    let scenario = format!("{name} {arm}");
    let of = |clients: usize, path| plan::figure(found, &scenario, &clients.to_string(), path);
    let rate = |clients| of(clients, "throughput_ops_s.mean");
    let Some(first) = points.first().copied() else { return Vec::new() };
    let mut told = Vec::new();
    for clients in points.iter().copied().skip(1) {
        let ratio = |of: fn((f64, f64)) -> f64| {
            published(name, clients).zip(published(name, first)).map(|(a, b)| of(a) / of(b))
        };
        let what = format!("{scenario}: {clients} clients to {first}, operations a second");
        told.push(plan::beside(what, rate(clients), rate(first), ratio(|it| it.0)));
        let per_cpu_s = |clients: usize| plan::per_cpu_s(found, &scenario, &clients.to_string());
        let what =
            format!("{scenario}: {clients} clients to {first}, operations a processor second");
        told.push(plan::beside(what, per_cpu_s(clients), per_cpu_s(first), None));
        let p99 = |clients| of(clients, "latency_ms.p99");
        let what = format!("{scenario}: {clients} clients to {first}, p99");
        told.push(plan::beside(what, p99(clients), p99(first), ratio(|it| it.1)));
    }
    let here: Vec<_> = points.iter().filter_map(|it| Some((*it, rate(*it)?))).collect();
    let theirs: Vec<_> =
        points.iter().filter_map(|it| Some((*it, published(name, *it)?.0))).collect();
    let words = |it: Option<usize>| it.map(|clients| format!("{clients} clients"));
    told.push(Finding {
        aim: words(knee(&theirs)).map_or_else(|| "-".to_owned(), |it| format!("{it} (Pegasus)")),
        ..Finding::told(format!("{scenario}: the knee"), words(knee(&here)))
    });
    told
}

/// The last point that is worth its clients beside the last before it that was; none where there is no curve.
/// One that is not does not end the curve: single laps are noisy.
fn knee(curve: &[(usize, f64)]) -> Option<usize> {
    let (mut knee, mut best) = curve.first().copied()?;
    for (clients, rate) in curve.iter().copied().skip(1) {
        let halves = (clients as f64 / knee as f64).ln() / 1.5_f64.ln();
        if (rate / best - 1.0) / halves.max(1e-9) >= KNEE {
            (knee, best) = (clients, rate);
        }
    }
    Some(knee)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_knee_is_where_more_clients_add_little() {
        let curve = [(10, 100.0), (15, 140.0), (30, 190.0), (45, 120.0), (60, 200.0)];
        assert_eq!((knee(&curve), knee(&[])), (Some(30), None));
        // The study's own.
        let of = |curve: &[CurvePoint]| -> Vec<_> {
            curve.iter().map(|it| (it.threads, it.rate_s)).collect()
        };
        assert_eq!(knee(&of(&ROWS.write_curve)), Some(45));
        assert_eq!(knee(&of(&ROWS.read_curve)), Some(210));
    }
}
