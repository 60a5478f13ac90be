//! The simulator: discrete events, one thread, one seed. Nodes, networks and clients are models;
//! every decision is taken by the very code of the control crate that a node runs. The same
//! specification and seed give the same run, event by event.

mod agenda;
mod ask;
mod clients;
mod cpu;
mod dist;
mod event;
mod faults;
pub(crate) mod levels;
mod measure;
mod node;
mod request;
mod resources;
mod run;
mod serve;
mod spec;
mod trace;

#[cfg(test)]
pub(crate) mod tests;

pub(crate) use dist::derive;
pub(crate) use measure::histogram;
pub(crate) use measure::{FrameRow, NodeCounts, Outcome, Window};
pub(crate) use run::run;
pub(crate) use spec::{
    Cluster, Fault, FaultKind, Load, MS_NS, NodeSpec, Operation, Policy, Resources, RunSpec,
    SECOND_NS, Spread, Stop,
};
