//! Scenario `multi-get`: batches of three hashes with three fields of 3 KB, twenty read for one written, as the
//! study's multi-get and batch-set, with a cache that has a tenth of them, and a sixth. The study read from
//! disks; what is not in the cache here mostly comes from the system's.

use super::peers::Peer;
use super::plan::{self, Ask, Asked, Looks};
use super::source::Hashes;
use super::store::fill_all;
use crate::LabError;
use crate::live::context::Context;
use crate::live::{Found, LiveOptions};
use crate::published::ROWS;
use crate::result::Finding;

pub(super) const NAME: &str = "multi-get";

/// The study's shares of reads from memory, %, each with its own threads.
const HITS_PERCENT: [u64; 2] = [10, 17];
const READS_PER_WRITE: f64 = 20.0;
const VALUE_BYTES: usize = 3_072;
const FIELDS: u64 = 3;
const KEYS: u64 = 9_000;
const CLIENTS: usize = 15;

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * HITS_PERCENT.len()
}

fn arm(percent: u64) -> String {
    format!("{percent}-percent")
}

/// Runs the scenario.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let share = READS_PER_WRITE / (READS_PER_WRITE + 1.0);
    let hashes = Hashes::new(KEYS, VALUE_BYTES, share, options.seed);
    let all_bytes = KEYS * FIELDS * VALUE_BYTES as u64;
    let mut peers = Vec::new();
    for percent in HITS_PERCENT {
        let folder = options.folder.join(format!("{NAME}-{percent}"));
        let cache = format!("cache.size={}b", all_bytes * percent / 100);
        // What was written is to be read from files.
        let settings = [cache.as_str(), "write_buffer.size=16mb", "logger.level=warn"];
        let peer = Peer::nodes(&options.binary, &folder, 1, &settings)?;
        fill_all(&peer.server().addresses()[0], &hashes, KEYS, options.seed)?;
        peers.push(peer);
    }
    context.note(format!(
        "{NAME}: {KEYS} hashes of {FIELDS} fields of 3 KB, each as often as another; an operation is HMGET or HSET of \
         three of them, sent at once; caches of {} and {} % of all bytes; shares of reads from memory are the node's \
         own count of rows",
        HITS_PERCENT[0], HITS_PERCENT[1]
    ));
    let arms: Vec<Asked<'_>> = HITS_PERCENT
        .iter()
        .zip(&peers)
        .map(|(percent, peer)| {
            let write_bytes = FIELDS * FIELDS * VALUE_BYTES as u64;
            let looks = Some(Looks { write_bytes, ..Looks::default() });
            let ask = Ask { looks, ..Ask::closed(peer.server(), &hashes, CLIENTS) };
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
