//! The simulator: discrete events, one thread, one seed. Nodes, networks and clients are models;
//! every decision is taken by the very code of the control crate that a node runs. The same
//! specification and seed give the same run, event by event.

mod agenda;
#[cfg(test)]
mod tests;
mod ask;
mod cpu;
mod dist;
mod measure;
mod node;
mod request;
mod run;
mod serve;
mod spec;
mod trace;

pub(crate) use dist::derive;
pub(crate) use measure::{FrameRow, NodeCounts, Outcome, Window, histogram};
pub(crate) use run::run;
pub(crate) use spec::{
    Cluster, Fault, FaultKind, Load, MS_NS, NodeSpec, Operation, Policy, RunSpec, SECOND_NS,
    Spread, Stop,
};
