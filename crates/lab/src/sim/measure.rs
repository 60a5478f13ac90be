//! What a run measures: response times, throughput, shares and queues, by stretches of time
//! ("windows") and over time. Response times go into an HdrHistogram of 3 digits.

use hdrhistogram::Histogram;

use super::spec::RunSpec;

/// Response times are recorded in µs up to an hour; a longer one counts as an hour.
const LATENCY_MAX_US: u64 = 3_600_000_000;
/// Points of a series over time; a run that is longer keeps its first ones.
const POINTS_MAX: usize = 20_000;

/// An empty histogram of µs.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, 3)
        .unwrap_or_else(|_| unreachable!("valid bounds"))
}

/// How a request ended for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Answered,
    /// Every copy refused it.
    Refused,
    /// The deadline passed, or every copy failed.
    Failed,
    /// It deserved an error and got it at once.
    Invalid,
}

/// One stretch of time. A request belongs to the one in which it was issued.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    pub(crate) from_ns: u64,
    pub(crate) latency_us: Histogram<u64>,
    pub(crate) issued: u64,
    pub(crate) answered: u64,
    pub(crate) refused: u64,
    pub(crate) failed: u64,
    pub(crate) invalid: u64,
    /// Of those answered, the ones of which a part is missing.
    pub(crate) partial: u64,
    /// Requests to nodes, by node, in the window in which they were sent.
    pub(crate) sent: Vec<u64>,
    /// Of them those beyond the first to a copy, because that one was late.
    pub(crate) hedges: u64,
    /// Answers that the clients still wanted, by the window in which they came.
    pub(crate) came: u64,
}

/// A point of the series over time.
#[derive(Clone, Debug)]
pub(crate) struct Point {
    pub(crate) at_ns: u64,
    /// Requests answered since the last point.
    pub(crate) answered: u64,
    /// Requests waiting, by node.
    pub(crate) queued: Vec<u32>,
}

/// One row of the table that a node's queue writes after every so many tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FrameRow {
    pub(crate) seconds: f64,
    pub(crate) task_ms: f64,
    pub(crate) tasks_s: f64,
    pub(crate) optimal: Option<u64>,
    pub(crate) capacity: Option<u64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct NodeCounts {
    pub(crate) completed: u64,
    pub(crate) rejected: u64,
    pub(crate) cpu_s: f64,
    /// The part of the processor time of all tasks begun that crowding has cost, in seconds.
    pub(crate) crowding_s: f64,
    /// Seconds of writes that were held back.
    pub(crate) stalled_s: f64,
    /// Processor time that the debt left at the end will still take, in seconds.
    pub(crate) owed_s: f64,
    pub(crate) frames: Vec<FrameRow>,
}

/// All that is known after a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) windows: Vec<Window>,
    pub(crate) points: Vec<Point>,
    pub(crate) nodes: Vec<NodeCounts>,
    /// When the last request ended.
    pub(crate) ended_ns: u64,
    pub(crate) checksum: u64,
    pub(crate) events: u64,
    /// The log's first lines, where they were asked for.
    #[cfg(test)]
    pub(crate) log: Vec<String>,
}

impl Outcome {
    /// Response times of the whole run.
    pub(crate) fn latency_us(&self) -> Histogram<u64> {
        let mut all = histogram();
        for window in &self.windows {
            // Both have the same bounds.
            let _ = all.add(&window.latency_us);
        }
        all
    }

    pub(crate) fn sum(&self, part: impl Fn(&Window) -> u64) -> u64 {
        self.windows.iter().map(part).sum()
    }
}

/// The measuring side of a run.
#[derive(Debug)]
pub(crate) struct Measure {
    windows: Vec<Window>,
    current: usize,
    points: Vec<Point>,
    answered_since: u64,
    ended_ns: u64,
}

impl Measure {
    pub(crate) fn new(spec: &RunSpec) -> Self {
        let window = |from_ns: &u64| Window {
            from_ns: *from_ns,
            latency_us: histogram(),
            issued: 0,
            answered: 0,
            refused: 0,
            failed: 0,
            invalid: 0,
            partial: 0,
            sent: vec![0; spec.cluster.nodes.len()],
            hedges: 0,
            came: 0,
        };
        let mut windows: Vec<Window> = spec.windows_ns.iter().map(window).collect();
        if windows.is_empty() {
            windows.push(window(&0));
        }
        Self { windows, current: 0, points: Vec::new(), answered_since: 0, ended_ns: 0 }
    }

    /// The window of now.
    fn window(&mut self, now_ns: u64) -> usize {
        while self.windows.get(self.current + 1).is_some_and(|next| next.from_ns <= now_ns) {
            self.current += 1;
        }
        self.current
    }

    /// A request is issued; the number is given back at its end.
    pub(crate) fn issue(&mut self, now_ns: u64) -> usize {
        let window = self.window(now_ns);
        self.windows[window].issued += 1;
        window
    }

    pub(crate) fn send(&mut self, now_ns: u64, node: usize, hedge: bool) {
        let window = self.window(now_ns);
        self.windows[window].sent[node] += 1;
        self.windows[window].hedges += u64::from(hedge);
    }

    pub(crate) fn end(
        &mut self,
        now_ns: u64,
        issued_ns: u64,
        window: usize,
        ending: Ending,
        missing: bool,
    ) {
        self.ended_ns = now_ns;
        let came = self.window(now_ns);
        let took_ns = now_ns.saturating_sub(issued_ns);
        match ending {
            Ending::Answered => {
                self.windows[came].came += 1;
                self.answered_since += 1;
                self.windows[window].answered += 1;
                self.windows[window].partial += u64::from(missing);
                self.windows[window].latency_us.saturating_record((took_ns / 1_000).max(1));
            }
            Ending::Invalid => {
                // Rally counts the time of an error like any other.
                self.windows[window].invalid += 1;
                self.windows[window].latency_us.saturating_record((took_ns / 1_000).max(1));
            }
            Ending::Refused => self.windows[window].refused += 1,
            Ending::Failed => self.windows[window].failed += 1,
        }
    }

    pub(crate) fn sample(&mut self, now_ns: u64, queued: Vec<u32>) {
        let answered = std::mem::take(&mut self.answered_since);
        if self.points.len() < POINTS_MAX {
            self.points.push(Point { at_ns: now_ns, answered, queued });
        }
    }

    pub(crate) fn finish(self, nodes: Vec<NodeCounts>, trace: &super::trace::Trace) -> Outcome {
        Outcome {
            windows: self.windows,
            points: self.points,
            nodes,
            ended_ns: self.ended_ns,
            checksum: trace.checksum(),
            events: trace.events(),
            #[cfg(test)]
            log: trace.lines().to_vec(),
        }
    }
}
