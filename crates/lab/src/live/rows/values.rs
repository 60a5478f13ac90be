//! Scenario `values`: values of 320 B to 20 KB on three nodes with two and with three copies, in the mixes in
//! which the study has them. What is compared is processor time for an operation; its rates stand beside as
//! ratios within a column.

use std::collections::BTreeMap;

use serde_json::json;

use super::peers::{DEFAULTS, Peer};
use super::plan::{self, Ask, Asked};
use super::source::Rows;
use super::store::{await_copies, fill_all};
use crate::LabError;
use crate::live::context::Context;
use crate::live::found::Found;
use crate::live::options::LiveOptions;
use crate::published::ROWS;
use crate::result::Finding;

pub(super) const NAME: &str = "values";

/// Bytes of values, with the version of which the study has them.
const SIZES: [(usize, &str); 4] =
    [(320, "1.12.3"), (1_024, "1.12.3"), (10_240, "1.11.1"), (20_480, "1.11.1")];
const COPIES: [usize; 2] = [2, 3];
const MIXES: [(u32, u32); 4] = [(0, 1), (1, 3), (30, 1), (1, 0)];
const CLIENTS: usize = 24;
/// Bytes of all values, so that all are read from memory, and the most keys.
const ALL_BYTES: usize = 20 << 20;
const KEYS_MAX: usize = 20_000;

/// Laps of a run.
pub(super) fn laps(options: &LiveOptions) -> usize {
    plan::laps_of(options) * SIZES.len() * MIXES.len() * COPIES.len()
}

fn scenario(value_bytes: usize, (reads, writes): (u32, u32)) -> String {
    format!("{NAME} {value_bytes} B {reads}:{writes}")
}

fn arm(copies: usize) -> String {
    format!("{copies}-copies")
}

/// Runs the scenarios.
pub(super) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let mut peers = Vec::new();
    for copies in COPIES {
        let folder = options.folder.join(arm(copies));
        let peer = Peer::nodes(&options.binary, &folder, 3, &DEFAULTS)?;
        if let Peer::Nodes(nodes) = &peer {
            let replicas = ("cluster.default_number_of_replicas".to_owned(), json!(copies - 1));
            nodes.set(&BTreeMap::from([replicas]))?;
        }
        peers.push(peer);
    }
    context.note(format!(
        "{NAME}: three nodes, {} MB of values, {CLIENTS} clients in closed loops",
        ALL_BYTES >> 20
    ));
    for (value_bytes, _) in SIZES {
        let keys = (ALL_BYTES / value_bytes).min(KEYS_MAX) as u64;
        for (peer, copies) in peers.iter().zip(COPIES) {
            let rows = Rows::new(keys, value_bytes, 0.0, options.seed);
            fill_all(&peer.server().addresses()[0], &rows, keys, options.seed)?;
            if let Peer::Nodes(nodes) = peer {
                await_copies(nodes, copies)?;
            }
        }
        for mix in MIXES {
            let share = f64::from(mix.0) / f64::from(mix.0 + mix.1);
            let rows = Rows::new(keys, value_bytes, share, options.seed);
            let both = COPIES.iter().zip(&peers);
            let arms: Vec<Asked<'_>> = both
                .map(|(copies, peer)| (arm(*copies), Ask::closed(peer.server(), &rows, CLIENTS)))
                .collect();
            plan::run(context, found, &scenario(value_bytes, mix), &arms)?;
        }
    }
    let told = findings(found);
    found.plots.findings.extend(told);
    Ok(())
}

/// Sizes against 1 KB (10 KB where the study has no other), and copies against each other, of each mix.
fn findings(found: &Found) -> Vec<Finding> {
    let per_cpu_s = |value_bytes, mix, copies| {
        plan::per_cpu_s(found, &scenario(value_bytes, mix), &arm(copies))
    };
    let ratio = |of: Option<f64>, to: Option<f64>| of.zip(to).map(|(of, to)| of / to);
    let mut told = Vec::new();
    for mix in MIXES {
        for ((value_bytes, version), copies) in
            SIZES.into_iter().flat_map(|it| COPIES.map(|copies| (it, copies)))
        {
            let to = if version == "1.11.1" { 10_240 } else { 1_024 };
            if value_bytes == to {
                continue;
            }
            let theirs = |bytes: usize| ROWS.rate_s(version, (bytes as u64, copies as u64), mix);
            told.push(plan::beside(
                format!(
                    "{}, to {to} B, operations a processor second, {}",
                    scenario(value_bytes, mix),
                    arm(copies)
                ),
                per_cpu_s(value_bytes, mix, copies),
                per_cpu_s(to, mix, copies),
                ratio(theirs(value_bytes), theirs(to)),
            ));
        }
        for (value_bytes, version) in SIZES {
            let theirs = |copies| ROWS.rate_s(version, (value_bytes as u64, copies), mix);
            let name = scenario(value_bytes, mix);
            told.push(plan::beside(
                format!("{name}, 3 copies to 2, operations a processor second"),
                per_cpu_s(value_bytes, mix, 3),
                per_cpu_s(value_bytes, mix, 2),
                ratio(theirs(3), theirs(2)),
            ));
        }
    }
    told
}
