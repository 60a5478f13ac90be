//! Scenario `partitions`: writes and reads of one node whose table has 1, 64, 128 or 256 partitions, by clients
//! that wait for each answer and by clients that send several commands before they read. The study has the
//! last three, on five nodes.

use super::peers::Peer;
use super::plan::{self, Ask, Asked};
use super::source::Rows;
use super::store::fill_all;
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::options::LiveOptions;
use crate::published::ROWS;
use crate::result::Finding;

pub(super) const NAME: &str = "partitions";

const COUNTS: [u64; 4] = [1, 64, 128, 256];
const VALUE_BYTES: usize = 1_024;
const KEYS: u64 = 20_000;
const CLIENTS: usize = 24;
/// Commands that a client that pipelines sends at once.
const PIPELINED: usize = 16;
/// What writes of 64 partitions are to be at least of those of one.
const WRITES_MIN: f64 = 0.85;
/// Name, share of reads and commands of each part.
const PARTS: [(&str, f64, usize); 4] = [
    ("writes", 0.0, 1),
    ("reads", 1.0, 1),
    ("writes-pipelined", 0.0, PIPELINED),
    ("reads-pipelined", 1.0, PIPELINED),
];

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * COUNTS.len() * PARTS.len()
}

fn scenario(part: &str) -> String {
    format!("{NAME} {part}")
}

/// Runs the scenarios.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let mut peers = Vec::new();
    for count in COUNTS {
        context.progress.note(&format!("{NAME}: starting a node with {count}"));
        let folder = options.folder.join(format!("{NAME}-{count}"));
        let shards = format!("resp.number_of_shards={count}");
        let settings = ["cache.size=64mb", "logger.level=warn", shards.as_str()];
        let peer = Peer::nodes(&options.binary, &folder, 1, &settings)?;
        let rows = Rows::new(KEYS, VALUE_BYTES, 0.0, options.seed);
        fill_all(&peer.server().addresses()[0], &rows, KEYS, options.seed)?;
        peers.push(peer);
    }
    context.note(format!(
        "{NAME}: one node each, {KEYS} rows of 1 KB, {CLIENTS} clients in closed loops; those that pipeline send \
         {PIPELINED} commands at once, which count as one operation; nodes that are not asked idle"
    ));
    for (part, reads, commands) in PARTS {
        let rows = Rows::new(KEYS, VALUE_BYTES, reads, options.seed).pipelined(commands);
        let arms = COUNTS.iter().zip(&peers);
        let arms: Vec<Asked<'_>> = arms
            .map(|(count, peer)| (count.to_string(), Ask::closed(peer.server(), &rows, CLIENTS)))
            .collect();
        plan::run(context, found, &scenario(part), &arms)?;
    }
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

fn findings(found: &Found) -> Vec<Finding> {
    let published = |count: u64, is_read: bool| {
        let it = ROWS.partitions.iter().find(|it| it.count == count)?;
        Some(if is_read { it.reads_s } else { it.writes_s })
    };
    let mut told = Vec::new();
    for (part, reads, _) in PARTS {
        let name = scenario(part);
        let rate =
            |count: u64| plan::figure(found, &name, &count.to_string(), "throughput_ops_s.mean");
        let what = format!("{name}: 64 to 1, operations a second");
        told.push(match reads > 0.0 {
            true => plan::beside(what, rate(64), rate(1), None),
            false => plan::aim(what, rate(64), rate(1), (true, WRITES_MIN)),
        });
        for count in [128, 256] {
            let of = published(count, reads > 0.0).zip(published(64, reads > 0.0));
            let what = format!("{name}: {count} to 64, operations a second");
            told.push(plan::beside(what, rate(count), rate(64), of.map(|(of, to)| of / to)));
        }
        let per_cpu_s = |count: u64| plan::per_cpu_s(found, &name, &count.to_string());
        let what = format!("{name}: 64 to 1, operations a processor second");
        told.push(plan::beside(what, per_cpu_s(64), per_cpu_s(1), None));
    }
    told
}
