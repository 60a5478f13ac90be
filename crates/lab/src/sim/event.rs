//! What can happen in a run, and to whom.

use plimsoll_control::LoadLine;

/// What can happen.
#[derive(Debug)]
pub(crate) enum Event {
    /// A client of the closed loop issues its next request.
    Issue {
        client: usize,
    },
    /// A request of the open loop comes.
    Arrive,
    /// An attempt is at its node.
    Reach {
        attempt: usize,
    },
    /// The job that a node's processors were to end, unless something changed since.
    End {
        node: usize,
        version: u64,
    },
    /// A node's answer is at the coordinator.
    Answer {
        attempt: usize,
    },
    /// The coordinator refuses to understand a request.
    Invalid {
        request: usize,
        number: u64,
    },
    /// A request's deadline.
    Deadline {
        request: usize,
        number: u64,
    },
    /// An attempt has been under way for so long that a second copy may be asked.
    Late {
        attempt: usize,
        number: u64,
    },
    /// Word that nobody waits for an attempt is at its node.
    Cancel {
        attempt: usize,
        number: u64,
    },
    /// A question for a node's load line, its answer, and its absence.
    Probe {
        coordinator: usize,
        node: usize,
        number: u64,
    },
    Probed {
        coordinator: usize,
        node: usize,
        number: u64,
        line: Box<LoadLine>,
    },
    Unprobed {
        coordinator: usize,
        node: usize,
        number: u64,
    },
    /// A fault begins or ends.
    Edge {
        node: usize,
    },
    /// A pause begins or ends.
    Pause {
        node: usize,
    },
    /// A second of background work is over.
    Step {
        node: usize,
    },
    /// A node becomes known.
    Join,
    Sample,
}
