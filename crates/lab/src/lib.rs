//! The lab: experiments that reproduce published studies and go beyond them, the simulator that
//! runs them over the control crate's own code, and the reports. It knows neither the command
//! line nor a screen: callers pass options and a [`Progress`], and get text.

mod experiments;
mod published;
pub mod result;
mod sim;
mod stats;

use std::path::PathBuf;

pub use experiments::Size;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// No experiment has this name.
    #[error("no experiment is called `{name}`; there are {known}")]
    UnknownExperiment {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// The caller asked to stop.
    #[error("stopped before the end")]
    Stopped,
    /// A file could not be read.
    #[error("cannot read `{path}`: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file is larger than any result.
    #[error("`{path}` has {bytes} bytes, which is more than a result can have")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// A file is not a result.
    #[error("`{path}` is not a result of the lab: {source}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Why.
        source: serde_json::Error,
    },
    /// A file could not be written.
    #[error("cannot write `{path}`: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
}

/// Told how far a simulation is.
pub trait Progress {
    /// A remark before the first step.
    fn note(&mut self, what: &str);
    /// `done` of `all` runs are made, the last of them `what`. False asks to stop.
    fn step(&mut self, done: usize, all: usize, what: &str) -> bool;
}

/// Asks for a simulation.
#[derive(Clone, Debug)]
pub struct SimulateOptions {
    /// The experiment's name.
    pub experiment: String,
    /// Data nodes; none for the experiment's own number. 3 to 1,000.
    pub nodes: Option<usize>,
    /// How much of it.
    pub size: Size,
    /// Where all chance comes from.
    pub seed: u64,
}
