//! Scenario `hot-key`: one key gets most of the reads, or most of the writes, beside YCSB's zipfian keys, on one
//! node and on three. Writes of one key are one after the other in its partition whatever comes.

use super::mixes::{ONE, THREE};
use super::peers::{DEFAULTS, Peer};
use super::plan::{self, Ask, Asked};
use super::source::Rows;
use super::store::fill_all;
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::options::LiveOptions;
use crate::result::Finding;

pub(super) const NAME: &str = "hot-key";

const EVEN: &str = "zipfian";
const HOT: &str = "hot";
/// The share of the commands that the hot key gets.
const SHARE: f64 = 0.9;
const VALUE_BYTES: usize = 1_024;
const KEYS: u64 = 20_000;
const CLIENTS: usize = 24;
/// Name and share of reads.
const PARTS: [(&str, f64); 2] = [("writes", 0.0), ("reads", 1.0)];
const STORES: [(&str, usize); 2] = [(ONE, 1), (THREE, 3)];

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * PARTS.len() * STORES.len() * 2
}

/// Runs the scenarios.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    context.note(format!(
        "{NAME}: {:.0} % of the commands go to one of {KEYS} keys of 1 KB in four partitions",
        SHARE * 100.0
    ));
    for (store, count) in STORES {
        let folder = options.folder.join(format!("{NAME}-{store}"));
        let settings = [&DEFAULTS[..], &["resp.number_of_shards=4"]].concat();
        let peer = Peer::nodes(&options.binary, &folder, count, &settings)?;
        for (part, reads) in PARTS {
            let even = Rows::new(KEYS, VALUE_BYTES, reads, options.seed);
            let hot = Rows::new(KEYS, VALUE_BYTES, reads, options.seed).hot(SHARE);
            fill_all(&peer.server().addresses()[0], &even, KEYS, options.seed)?;
            let ask = |rows| Ask::closed(peer.server(), rows, CLIENTS);
            let arms: [Asked<'_>; 2] = [(EVEN.to_owned(), ask(&even)), (HOT.to_owned(), ask(&hot))];
            let name = format!("{NAME} {part} {store}");
            plan::run(context, found, &name, &arms)?;
            let told = findings(found, &name);
            found.plots.findings.extend(told);
        }
    }
    Ok(())
}

fn findings(found: &Found, name: &str) -> Vec<Finding> {
    let of = |arm, path| plan::figure(found, name, arm, path);
    let paths = [
        ("operations a second", "throughput_ops_s.mean"),
        ("p99", "latency_ms.p99"),
        ("processor time of one", "cpu_s_per_op"),
    ];
    let told = paths.into_iter().map(|(words, path)| {
        plan::beside(
            format!("{name}: hot to zipfian, {words}"),
            of(HOT, path),
            of(EVEN, path),
            None,
        )
    });
    told.collect()
}
