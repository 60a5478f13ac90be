//! The lab: experiments that reproduce published studies and go beyond them, on real nodes of this
//! machine ([`live`]) or in the simulator over the control crate's own code; and the reports. It
//! knows neither the command line nor a screen: callers pass options and a [`Progress`], and get
//! text.

#![expect(clippy::disallowed_methods, reason = "a lab measures real processes")]

#[cfg(test)]
mod determinism;
mod experiments;
mod files;
pub mod keys;
pub mod live;
mod published;
mod report;
pub mod result;
mod sim;
mod stats;
pub mod wan;

use std::path::{Path, PathBuf};

pub use experiments::Size;
use result::{Plots, Results};

/// The files of a run, in its folder.
pub const RESULT_FILE: &str = "result.json";
/// What the pictures need beyond the results.
pub const PLOTS_FILE: &str = "plots.json";
/// The page.
pub const PAGE_FILE: &str = "report.html";
/// The text.
pub const TEXT_FILE: &str = "report.txt";
/// Data nodes that may be asked for.
pub const NODES: std::ops::RangeInclusive<usize> = 3..=1_000;

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
    /// A number of nodes that is too small or too large.
    #[error("{nodes} nodes cannot be simulated; from {} to {} can", NODES.start(), NODES.end())]
    Nodes {
        /// The number.
        nodes: usize,
    },
    /// A number of laps that is too small or too large.
    #[error("{laps} laps cannot be run; from {} to {} can", live::LAPS.start(), live::LAPS.end())]
    Laps {
        /// The number.
        laps: usize,
    },
    /// No arm of the experiment has this name.
    #[error("no variant is called `{name}`; there are {known}")]
    UnknownVariant {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// No scenario of the experiment has this name, or none may be chosen.
    #[error("no scenario is called `{name}`; there are {known}")]
    UnknownScenario {
        /// The name.
        name: String,
        /// The names that exist.
        known: String,
    },
    /// A server that the lab cannot talk to.
    #[error("`{url}` is no target: {why}")]
    Target {
        /// The URL.
        url: String,
        /// Why not.
        why: String,
    },
    /// A run that cannot be gone on with.
    #[error("the run in `{dir}` cannot be gone on with: {why}")]
    Resume {
        /// Its folder.
        dir: PathBuf,
        /// Why not.
        why: String,
    },
    /// A file of documents that was asked for in a way that cannot be.
    #[error("`{given}` is no corpus: {why}")]
    Corpus {
        /// What was asked for.
        given: String,
        /// Why not.
        why: String,
    },
    /// A line of a file of documents is not one, or not one of the shape that was named.
    #[error("line {line} of `{path}`: {why}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        why: String,
    },
    /// A file of documents is empty, or has nothing but actions.
    #[error("`{path}` has no documents")]
    NoDocuments {
        /// The file.
        path: PathBuf,
    },
    /// Something that the live lab needs was refused or failed.
    #[error("cannot {what}: {why}")]
    Live {
        /// What was tried.
        what: String,
        /// What the system or a server said.
        why: String,
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

impl LabError {
    pub(crate) fn live(what: String, why: impl std::fmt::Display) -> Self {
        Self::Live { what, why: why.to_string() }
    }
}

/// Told how far a run or a simulation is.
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
    /// The folder to write to; it is made if it is not there. None writes nothing.
    pub out: Option<PathBuf>,
}

/// What a simulation found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What stands in `result.json`.
    pub results: Results,
    /// What stands in `plots.json`.
    pub plots: Plots,
    /// The report for a terminal.
    pub text: String,
}

/// An experiment by its name and in one sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: &'static str,
    /// What it asks.
    pub about: &'static str,
    /// Whether it can be run on real nodes.
    pub is_live: bool,
    /// Whether it can be simulated.
    pub is_simulated: bool,
}

/// The experiments.
#[must_use]
pub fn list() -> Vec<Listed> {
    let live = live::names();
    let listed = |one: &experiments::Experiment| Listed {
        name: one.name,
        about: one.about,
        is_live: live.contains(&one.name),
        is_simulated: true,
    };
    let mut all: Vec<Listed> = experiments::ALL.iter().map(listed).collect();
    let live_alone = [live::BREAKER_OVERHEAD, ("sick-node", live::SICK_NODE)];
    all.extend(live_alone.map(|(name, about)| Listed {
        name,
        about,
        is_live: true,
        is_simulated: false,
    }));
    all
}

/// Simulates an experiment and writes `result.json`, `plots.json`, `report.txt` and `report.html`
/// where a folder is given. The same options give the same files.
///
/// # Errors
/// An unknown experiment, a number of nodes out of range, a caller that asked to stop, or a file
/// that cannot be written.
pub fn simulate(
    options: &SimulateOptions,
    progress: &mut dyn Progress,
) -> Result<Outcome, LabError> {
    if let Some(nodes) = options.nodes.filter(|nodes| !NODES.contains(nodes)) {
        return Err(LabError::Nodes { nodes });
    }
    let (results, plots) = experiments::simulate(options, progress)?;
    let text = match &options.out {
        Some(dir) => leave(dir, &results, &plots)?,
        None => report::text(&results, &plots),
    };
    Ok(Outcome { results, plots, text })
}

/// Writes all files of a run; the text report.
pub(crate) fn leave(dir: &Path, results: &Results, plots: &Plots) -> Result<String, LabError> {
    let text = report::text(results, plots);
    let as_json = |source| LabError::Parse { path: dir.join(RESULT_FILE), source };
    let json = serde_json::to_string_pretty(results).map_err(as_json)?;
    files::write(dir, RESULT_FILE, &json)?;
    let json = serde_json::to_string(plots).map_err(as_json)?;
    files::write(dir, PLOTS_FILE, &json)?;
    files::write(dir, TEXT_FILE, &text)?;
    files::write(dir, PAGE_FILE, &report::page(results, plots))?;
    Ok(text)
}

/// Makes the reports of a folder again from its `result.json`, and `plots.json` if it is there;
/// returns the text.
///
/// # Errors
/// A file that is missing, is not a result, or cannot be written.
pub fn report(dir: &Path) -> Result<String, LabError> {
    let results: Results = files::read(dir, RESULT_FILE)?;
    let plots = match dir.join(PLOTS_FILE).exists() {
        true => files::read(dir, PLOTS_FILE)?,
        false => Plots::default(),
    };
    let text = report::text(&results, &plots);
    files::write(dir, TEXT_FILE, &text)?;
    files::write(dir, PAGE_FILE, &report::page(&results, &plots))?;
    Ok(text)
}
