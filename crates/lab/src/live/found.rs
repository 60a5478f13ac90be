//! What a run of the live lab has found so far; it starts with nothing.

use crate::result::{Mode, Plots, Results, SCHEMA_VERSION};

/// What a run has found so far.
pub(crate) struct Found {
    pub(crate) results: Results,
    pub(crate) plots: Plots,
}

impl Default for Found {
    fn default() -> Self {
        let results = Results {
            schema_version: SCHEMA_VERSION,
            experiment: String::new(),
            mode: Mode::Closed,
            host: String::new(),
            seed: 0,
            notes: Vec::new(),
            run: None,
            scenarios: Vec::new(),
            comparisons: Vec::new(),
        };
        Self { results, plots: Plots::default() }
    }
}
