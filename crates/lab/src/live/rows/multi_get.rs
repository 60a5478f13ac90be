//! Scenario `multi-get`: batches of three hashes with three fields of 3 KB, twenty read for one written, as the
//! study's multi-get and batch-set, of as many hashes that a tenth is in the cache of rows, and a sixth. The study
//! read from disks; what is not in that cache here mostly comes from the system's.

use super::peers::Peer;
use super::plan::{self, Ask, Asked, Looks};
use super::source::Hashes;
use super::store::fill_all;
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::options::LiveOptions;
use crate::published::ROWS;
use crate::result::Finding;

pub(super) const NAME: &str = "multi-get";

/// The study's shares of reads from memory, %, each with its own threads.
const HITS_PERCENT: [u64; 2] = [10, 17];
const READS_PER_WRITE: f64 = 20.0;
const VALUE_BYTES: usize = 3_072;
const FIELDS: u64 = 3;
/// What a node keeps of rows that were read: a quarter of the `cache.size` below.
const ROWS_CACHED_BYTES: u64 = 8 << 20;
const CLIENTS: usize = 15;

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * HITS_PERCENT.len()
}

fn arm(percent: u64) -> String {
    format!("{percent}-percent")
}

/// Hashes of which so many are in memory.
fn keys(percent: u64) -> u64 {
    ROWS_CACHED_BYTES * 100 / percent / (FIELDS * VALUE_BYTES as u64)
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let share = READS_PER_WRITE / (READS_PER_WRITE + 1.0);
    let mut stores = Vec::new();
    for percent in HITS_PERCENT {
        context.progress.note(&format!("{NAME}: writing {} hashes", keys(percent)));
        let hashes = Hashes::new(keys(percent), VALUE_BYTES, share, options.seed);
        let folder = options.folder.join(format!("{NAME}-{percent}"));
        // What was written is to be read from files.
        let settings = ["cache.size=32mb", "write_buffer.size=16mb", "logger.level=warn"];
        let peer = Peer::nodes(&options.binary, &folder, 1, &settings)?;
        fill_all(&peer.server().addresses()[0], &hashes, keys(percent), options.seed)?;
        stores.push((peer, hashes));
    }
    context.note(format!(
        "{NAME}: {} and {} hashes of {FIELDS} fields of 3 KB, each as often as another, of which {} and {} % are to be in \
         memory; an operation is HMGET or HSET of three of them, sent at once; shares of reads from memory are the \
         node's own count of rows",
        keys(HITS_PERCENT[0]),
        keys(HITS_PERCENT[1]),
        HITS_PERCENT[0],
        HITS_PERCENT[1]
    ));
    let arms: Vec<Asked<'_>> = HITS_PERCENT
        .iter()
        .zip(&stores)
        .map(|(percent, (peer, hashes))| {
            let write_bytes = FIELDS * FIELDS * VALUE_BYTES as u64;
            let looks = Some(Looks { write_bytes, ..Looks::default() });
            let ask = Ask { looks, ..Ask::closed(peer.server(), hashes, CLIENTS) };
            (arm(*percent), ask)
        })
        .collect();
    plan::run(context, found, NAME, &arms)?;
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

fn findings(found: &Found) -> Vec<Finding> {
    let of = |percent, path| plan::figure(found, NAME, &arm(percent), path);
    let mut told = Vec::new();
    for percent in HITS_PERCENT {
        let hits = of(percent, "rows.hits_share").map(|it| format!("{:.1} %", it * 100.0));
        let what = format!("{NAME}: reads from memory, {}", arm(percent));
        told.push(Finding { aim: format!("{percent} % meant"), ..Finding::told(what, hits) });
    }
    let [few, more] = HITS_PERCENT;
    let study = |percent| ROWS.rows.iter().find(|it| it.hits_percent == Some(percent));
    // Its rows differ in threads too, so that rates are told for each thread.
    let each = |percent| study(percent).map(|it| (it.reads_s + it.writes_s) / it.threads as f64);
    let theirs = each(more).zip(each(few)).map(|(more, few)| more / few);
    let rate = |percent| of(percent, "throughput_ops_s.mean");
    told.push(plan::beside(
        format!("{NAME}: {more} % to {few} %, operations a second of each client"),
        rate(more),
        rate(few),
        theirs,
    ));
    for (words, path) in [("reads", "rows.reads_ms.p99"), ("writes", "rows.writes_ms.p99")] {
        let what = format!("{NAME}: {more} % to {few} %, p99 of {words}");
        told.push(plan::beside(what, of(more, path), of(few, path), None));
    }
    told
}
