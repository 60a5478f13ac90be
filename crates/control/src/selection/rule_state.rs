//! The interface that all rules of selection have: what a rule sees and what it is told.

use super::book::{Book, Flight};
use super::node_id::NodeId;
use super::request::{Ask, Candidate, Failure};
use crate::load_line::LoadLine;
use crate::random::Random;

/// What a rule sees when it decides.
pub(super) struct Scene<'a> {
    pub(super) now_ns: u64,
    pub(super) ask: Ask,
    pub(super) candidates: &'a [Candidate],
    pub(super) book: &'a Book,
}

/// A rule's state. Every call comes with the time of the receiver's clock, which does not go back.
pub(super) trait RuleState: Send {
    /// The index of the candidate to use; there is at least one.
    fn pick(&mut self, scene: &Scene<'_>, random: &mut Random) -> usize;

    /// How bad a candidate looks, to order those after the picked one.
    fn cost(&self, scene: &Scene<'_>, candidate: Candidate) -> f64;

    /// A request went out.
    fn on_send(&mut self, _now_ns: u64, _flight: &Flight) {}

    /// A request was answered; `book` no longer holds it. `server_ns` is the part of the time
    /// that the node reports to have spent on it.
    fn on_reply(&mut self, _now_ns: u64, _reply: &Reply<'_>, _book: &Book) {}

    /// A request failed.
    fn on_failure(&mut self, _now_ns: u64, _flight: &Flight, _failure: &Failure, _book: &Book) {}

    /// A request was given up because another copy had answered.
    fn on_cancel(&mut self, _now_ns: u64, _flight: &Flight, _book: &Book) {}

    /// A probe was answered.
    fn on_probe(&mut self, _now_ns: u64, _node: NodeId, _line: &LoadLine, _book: &Book) {}

    /// A probe was not.
    fn on_probe_lost(&mut self, _now_ns: u64, _node: NodeId) {}

    /// Whom to probe after a pick; appends to `out`.
    fn probes(&mut self, _scene: &Scene<'_>, _random: &mut Random, _out: &mut Vec<NodeId>) {}

    /// A node left; forget it.
    fn forget(&mut self, _node: NodeId) {}
}

/// An answer as the rules see it.
pub(super) struct Reply<'a> {
    pub(super) flight: &'a Flight,
    pub(super) response_ns: u64,
    pub(super) server_ns: Option<u64>,
    pub(super) line: Option<&'a LoadLine>,
}
