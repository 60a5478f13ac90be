//! A request that asks to be served, and what becomes of it: it starts, or is refused and says why.

use crate::load_line::Class;

/// Whose work it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tier {
    /// The cluster's own: never refused and served first.
    Control,
    /// Someone waits for it.
    Interactive,
    /// Nobody waits for it; it gets a quarter of an interactive class's turn.
    Background,
}

/// A request that asks to be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The caller's name for it.
    pub id: u64,
    /// Its kind of work.
    pub class: Class,
    /// Whose it is.
    pub tier: Tier,
    /// Predicted run time; where none is given, the class's average.
    pub cost_ns: Option<u64>,
    /// The moment at which its answer is worth nothing any more.
    pub deadline_ns: u64,
    /// Copies that its coordinator could still try elsewhere. A busy node sends such a request
    /// away earlier than one that has nowhere to go.
    pub alternatives: u32,
    /// A number that the coordinator draws at random for the whole request and gives to each part
    /// of it. In overload the higher goes first, so that all nodes refuse the same requests. Parts
    /// with the same are taken for one request.
    pub rank: u32,
}

/// Why a request was not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The queue holds all that it may.
    Full,
    /// It could not have been answered by its deadline.
    Hopeless,
    /// More arrives than can be served, and this is part of the excess.
    Overload,
    /// There is a queue here and another copy could serve it.
    Elsewhere,
}

/// A refusal and when to come back (429 and Retry-After; `-TRYAGAIN`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: Reason,
    /// When there may be room.
    pub retry_after_ns: u64,
}

/// A request that leaves the queue to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Started {
    /// The request.
    pub arrival: Arrival,
    /// How long it waited.
    pub waited_ns: u64,
    /// Whether it is heavy among its like, so that others should not wait for it; only the rule that
    /// tells them apart says so.
    pub heavy: bool,
}
