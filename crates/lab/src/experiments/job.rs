//! What an experiment has to run, variant by variant. Carrying it out is `plan`'s.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::result::{FaultNote, LoadNote};
use crate::sim::RunSpec;

/// A scenario that a window of a run is measured for.
#[derive(Clone, Debug)]
pub(crate) struct Note {
    pub(crate) scenario: String,
    pub(crate) fault: FaultNote,
    pub(crate) load: LoadNote,
}

/// Runs of one variant: one for each lap.
#[derive(Clone, Debug)]
pub(crate) struct Job {
    pub(crate) variant: String,
    pub(crate) settings: BTreeMap<String, Value>,
    pub(crate) spec: RunSpec,
    /// For each window of the run its scenario; none for one that is not reported.
    pub(crate) notes: Vec<Option<Note>>,
    pub(crate) laps: u64,
    /// The number of the first lap, which is part of its seed.
    pub(crate) first_lap: u64,
}
