//! Requests under way: what a client asked, its parts, and each attempt to have a part served.
//! They live in slabs, whose slots are used again; a number that is never used again tells an
//! event that comes too late.

use plimsoll_control::admission::Started;
use plimsoll_control::selection::{FailureKind, Flight};
use plimsoll_control::{Class, Job, LoadLine};

/// What a client asked.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) coordinator: usize,
    pub(crate) client: Option<usize>,
    pub(crate) issued_ns: u64,
    pub(crate) window: usize,
    /// By which nodes in overload agree on whom to refuse.
    pub(crate) rank: u32,
    pub(crate) parts: Vec<Part>,
    pub(crate) parts_left: usize,
    /// Whether the second round is under way.
    pub(crate) fetching: bool,
    /// Whether the client has its answer, or has given up.
    pub(crate) over: bool,
    /// Whether a part of the answer is missing.
    pub(crate) missing: bool,
    /// Attempts that still refer to it.
    pub(crate) attempts: usize,
}

/// One partition's part of a request.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) partition: usize,
    pub(crate) work_ns: f64,
    /// Memory that it holds while it runs.
    pub(crate) bytes: u64,
    /// Places among the partition's candidates that have been asked, in order.
    pub(crate) tried: Vec<usize>,
    pub(crate) under_way: Vec<usize>,
    pub(crate) done: bool,
    pub(crate) served_by: usize,
}

/// One try to have a part served by one node.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) number: u64,
    pub(crate) request: usize,
    pub(crate) part: usize,
    pub(crate) node: usize,
    pub(crate) class: Class,
    /// The coordinator's handle; gone once it no longer waits.
    pub(crate) flight: Option<Flight>,
    /// Whether the node has been told that nobody waits.
    pub(crate) cancelled: bool,
    /// When the node took it in, and when it began to run.
    pub(crate) reached_ns: u64,
    pub(crate) started_ns: u64,
    pub(crate) job: Option<Job>,
    /// Admission's handle while it runs.
    pub(crate) started: Option<Started>,
    pub(crate) answer: Option<Answer>,
}

impl Attempt {
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancelled
    }
}

/// What a node said.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Why not, if not.
    pub(crate) failure: Option<FailureKind>,
    /// How long the node had it.
    pub(crate) server_ns: u64,
    pub(crate) line: LoadLine,
}

/// Slots that are used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        if let Some(slot) = self.free.pop() {
            self.slots[slot] = Some(value);
            return slot;
        }
        self.slots.push(Some(value));
        self.slots.len() - 1
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&T> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<T> {
        let value = self.slots.get_mut(slot)?.take()?;
        self.free.push(slot);
        Some(value)
    }
}

impl<T> std::ops::Index<usize> for Slab<T> {
    type Output = T;

    fn index(&self, slot: usize) -> &T {
        self.get(slot).expect("a slot in use")
    }
}

impl<T> std::ops::IndexMut<usize> for Slab<T> {
    fn index_mut(&mut self, slot: usize) -> &mut T {
        self.get_mut(slot).expect("a slot in use")
    }
}
