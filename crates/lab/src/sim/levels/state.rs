//! The state of a run of a store of levels: its nodes, what is under way, and the events to come. What a request
//! does is `requests.rs`'s, what flushes and compactions do `background.rs`'s; who gets which event is said in
//! `run.rs`.

use hdrhistogram::Histogram;
use plimsoll_control::Random;

use super::node::{Kind, Node};
use super::spec::{LevelsSpec, Second};
use crate::sim::agenda::Agenda;
use crate::sim::request::Slab;
use crate::sim::trace::Trace;

#[derive(Debug)]
pub(super) enum Event {
    /// A thread asks for something; none is the clock's.
    Issue {
        thread: Option<usize>,
    },
    /// A request is at its server; its connection's thread has read it; a write has been let in.
    Reach {
        request: usize,
    },
    Serve {
        request: usize,
    },
    LetIn {
        request: usize,
    },
    /// A batch is at one of its copies; it is to be carried out there; the copy's answer is back, and read.
    CopyReach {
        batch: usize,
        copy: usize,
    },
    CopyServe {
        batch: usize,
        copy: usize,
    },
    AckReach {
        batch: usize,
    },
    Acked {
        batch: usize,
    },
    /// A node's log is on its disk.
    Synced {
        node: usize,
    },
    /// An answer has been read by its client.
    Answer {
        request: usize,
    },
    /// A processor of a node has done what it was to do first, unless something changed since.
    End {
        node: usize,
        version: u64,
    },
    /// Background work goes on.
    Background {
        work: usize,
    },
    /// RocksDB's limiter hands out a tenth of a second.
    Refill {
        node: usize,
    },
    /// A second is over.
    Second,
}

/// What a node's processors do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Task {
    Read { request: usize },
    Prepare { batch: usize },
    Copy { batch: usize, copy: usize },
    Commit { batch: usize },
    Background(usize),
}

pub(super) struct Run<'a> {
    pub(super) spec: &'a LevelsSpec,
    pub(super) agenda: Agenda<Event>,
    pub(super) trace: Trace,
    pub(super) random: Random,
    pub(super) nodes: Vec<Node>,
    pub(super) tasks: Slab<(usize, Task)>,
    pub(super) works: Slab<Work>,
    pub(super) requests: Slab<Request>,
    pub(super) batches: Slab<Batch>,
    pub(super) partitions: Vec<Partition>,
    /// Up to which share of the requests each partition goes.
    pub(super) shares: Vec<f64>,
    /// When each thread of a client's machine that serves its connections is free.
    pub(super) client_free_ns: Vec<u64>,
    pub(super) found: Found,
}

/// What is measured on the way.
pub(super) struct Found {
    pub(super) reads_us: Histogram<u64>,
    pub(super) writes_us: Histogram<u64>,
    pub(super) second_us: Histogram<u64>,
    pub(super) refused: u64,
    pub(super) writes_waiting: u64,
    pub(super) since_ns: u64,
    pub(super) longest_gap_ns: u64,
    /// Bytes that had come in, and processor time, when the window began.
    pub(super) at_start: (f64, f64),
    pub(super) lay_at_first_bytes: f64,
    pub(super) course: Vec<Second>,
}

pub(super) struct Work {
    pub(super) node: usize,
    pub(super) store: usize,
    pub(super) kind: Kind,
    pub(super) all_bytes: f64,
    pub(super) left_bytes: f64,
    pub(super) piece_bytes: f64,
    /// Bytes written for each that is read.
    pub(super) ratio: f64,
    pub(super) unwritten_bytes: f64,
    pub(super) step: Step,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Read,
    /// Input that was counted waits for its turn.
    Held,
    Write,
    Written,
}

pub(super) struct Request {
    pub(super) thread: Option<usize>,
    pub(super) partition: usize,
    pub(super) is_read: bool,
    pub(super) issued_ns: u64,
    pub(super) is_refused: bool,
}

pub(super) struct Batch {
    pub(super) partition: usize,
    pub(super) writes: Vec<usize>,
    pub(super) bytes: f64,
    /// What is waited for before it is committed.
    pub(super) left: usize,
    pub(super) is_stopped: bool,
}

pub(super) struct Partition {
    /// Node and store of each copy.
    pub(super) copies: Vec<(usize, usize)>,
    pub(super) under_way: usize,
    pub(super) waiting: Vec<usize>,
}

impl Partition {
    pub(super) fn new(copies: Vec<(usize, usize)>) -> Self {
        Self { copies, under_way: 0, waiting: Vec::new() }
    }
}

impl Run<'_> {
    pub(super) fn note(&mut self, numbers: [u64; 3]) {
        self.trace.note(self.agenda.now_ns(), numbers, format_args!(""));
    }

    pub(super) fn start_task(&mut self, node: usize, task: Task, work_ns: f64) {
        let now_ns = self.agenda.now_ns();
        let token = self.tasks.insert((node, task));
        self.nodes[node].cpu.start(now_ns, token, work_ns);
        self.foresee(node);
    }

    pub(super) fn foresee(&mut self, node: usize) {
        let of = &mut self.nodes[node];
        of.version += 1;
        if let Some(end_ns) = of.cpu.next_end_ns() {
            self.agenda.at(end_ns, Event::End { node, version: of.version });
        }
    }
}
