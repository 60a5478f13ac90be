//! The cluster of both studies and of `sick-node`, as much smaller as this machine is: five data nodes,
//! a node that only coordinates, and the generator, each with its share of two processors. What is
//! asked of it is each experiment's own.

use super::cluster::{Cluster, ClusterSpec};
use super::context::Context;
use crate::LabError;

pub(crate) const DATA_NODES: usize = 5;
/// Processors of each.
pub(crate) const DATA_SHARE: f64 = 0.24;
/// With half of that it set the pace of all rules alike: throttled in 98 % of periods, while the data
/// nodes were in 60 %.
pub(crate) const COORDINATOR_SHARE: f64 = 0.5;
pub(crate) const GENERATOR_SHARE: f64 = 0.25;
/// Documents of the complex query.
pub(crate) const PLACES: usize = 60_000;

/// Starts it; shares are taken up by [`Cluster::limit`], once the corpus is loaded.
pub(crate) fn start(context: &mut Context<'_>) -> Result<Cluster, LabError> {
    let spec = ClusterSpec {
        data_nodes: DATA_NODES,
        data_share: DATA_SHARE,
        coordinator_share: Some(COORDINATOR_SHARE),
        settings: super::node_settings(),
    };
    context.progress.note("starting five data nodes, a coordinator and a keeper of the log");
    Cluster::start(&spec, &context.options.binary, &context.options.folder)
}
