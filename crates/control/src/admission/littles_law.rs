//! A queue's capacity by Little's law (Little 1961), as in "Stress run with queue
//! auto-adjustment" (Hinman 2017):
//!
//! ```text
//! L = lambda * W
//! lambda  = tasks / wall-clock seconds, over a frame of a set number of tasks
//! W       = the response time that the operator aims at
//! optimal = int(L)
//! capacity moves by the adjustment amount towards the optimum, only if the two differ by more
//! than it, and stays within its bounds
//! ```
//!
//! The other forms are the study's failed attempts and what was shipped later; they are kept to
//! show in simulation why they fail, and none of them is a default.

/// Which reading of the law.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LittlesLawForm {
    /// lambda measured by the wall clock, W set: the study's last and the one that worked.
    #[default]
    Target,
    /// lambda = tasks / sum of their times, as in Elasticsearch 6 and 7: then L is the target over
    /// the mean task time, whatever the parallelism and the arrivals.
    TaskTime,
    /// Both measured: L reports the queue instead of bounding it. The study's first attempt.
    Measured,
    /// The maximum less the measured L. The study's second attempt.
    MaxMinus,
}

/// The settings, under the study's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LittlesLawSettings {
    /// Least capacity.
    pub min_queue_size: u64,
    /// Greatest capacity.
    pub max_queue_size: u64,
    /// Capacity at the start.
    pub initial_queue_size: u64,
    /// The response time aimed at, ns.
    pub target_response_rate_ns: u64,
    /// Tasks in a frame, at least 1.
    pub frame_window: u64,
    /// How far the capacity moves at the end of a frame.
    pub adjustment_amount: u64,
}

impl Default for LittlesLawSettings {
    /// Those of the study's runs.
    fn default() -> Self {
        Self {
            min_queue_size: 10,
            max_queue_size: 1_000,
            initial_queue_size: 1_000,
            target_response_rate_ns: 5_000_000_000,
            frame_window: 2_000,
            adjustment_amount: 50,
        }
    }
}

/// The settings' names after `thread_pool.search.`: the study's, and the one that Elasticsearch
/// gave it later where it did. The adjustment amount never became a setting.
pub const SETTING_NAMES: [(&str, Option<&str>); 6] = [
    ("min_queue_size", Some("min_queue_size")),
    ("max_queue_size", Some("max_queue_size")),
    ("initial_queue_size", Some("queue_size")),
    ("target_response_rate", Some("target_response_time")),
    ("frame_window", Some("auto_queue_frame_size")),
    ("adjustment_amount", None),
];

/// What a frame measured and did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frame {
    /// Its length, s.
    pub seconds: f64,
    /// Mean time of its tasks, waiting and running, ms.
    pub avg_task_ms: f64,
    /// Tasks per second of wall clock.
    pub tasks_s: f64,
    /// The optimum that it found.
    pub optimal: u64,
    /// The capacity from then on.
    pub capacity: u64,
}

/// The controller: completions in, capacity out.
#[derive(Clone, Debug)]
pub struct QueueSizer {
    settings: LittlesLawSettings,
    form: LittlesLawForm,
    capacity: u64,
    frame_from_ns: u64,
    tasks: u64,
    task_ns: u64,
}

impl QueueSizer {
    /// A sizer whose first frame starts at `now_ns`.
    #[must_use]
    pub fn new(settings: LittlesLawSettings, form: LittlesLawForm, now_ns: u64) -> Self {
        let capacity = settings.initial_queue_size;
        Self { settings, form, capacity, frame_from_ns: now_ns, tasks: 0, task_ns: 0 }
    }

    /// How many may wait.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// A task ended; `task_ns` is its waiting and running. Returns the frame if it closed one.
    pub fn on_finish(&mut self, now_ns: u64, task_ns: u64) -> Option<Frame> {
        self.tasks += 1;
        self.task_ns = self.task_ns.saturating_add(task_ns);
        if self.tasks < self.settings.frame_window.max(1) {
            return None;
        }
        let seconds = now_ns.saturating_sub(self.frame_from_ns).max(1) as f64 / 1e9;
        let task_seconds = (self.task_ns.max(1)) as f64 / 1e9;
        let tasks = self.tasks as f64;
        let target = self.settings.target_response_rate_ns as f64 / 1e9;
        let measured = tasks / seconds * (task_seconds / tasks);
        let l = match self.form {
            LittlesLawForm::Target => tasks / seconds * target,
            LittlesLawForm::TaskTime => tasks / task_seconds * target,
            LittlesLawForm::Measured => measured,
            LittlesLawForm::MaxMinus => (self.settings.max_queue_size as f64 - measured).max(0.0),
        };
        let optimal = crate::average::whole(l.floor());
        self.move_towards(optimal);
        (self.tasks, self.task_ns, self.frame_from_ns) = (0, 0, now_ns);
        Some(Frame {
            seconds,
            avg_task_ms: task_seconds / tasks * 1e3,
            tasks_s: tasks / seconds,
            optimal,
            capacity: self.capacity,
        })
    }

    fn move_towards(&mut self, optimal: u64) {
        let LittlesLawSettings { min_queue_size, max_queue_size, adjustment_amount, .. } =
            self.settings;
        if optimal.abs_diff(self.capacity) <= adjustment_amount {
            return;
        }
        let moved = match optimal > self.capacity {
            true => self.capacity + adjustment_amount,
            false => self.capacity.saturating_sub(adjustment_amount),
        };
        self.capacity = moved.min(max_queue_size).max(min_queue_size);
    }
}
