//! What a run of the live lab is asked for. What each experiment makes of it is its own.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::LabError;

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LiveSize {
    /// Five laps of the arms that matter most, in less than ten minutes: what it finds is indicative.
    Quick,
    /// Ten laps of the same scenarios.
    #[default]
    Study,
    /// All scenarios and arms, ten laps, in less than ninety minutes.
    Full,
}

/// Asks for a run.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The experiment's name.
    pub experiment: String,
    /// How much of it.
    pub size: LiveSize,
    /// Laps of each arm; none for what the size says. 1 to 200.
    pub laps: Option<usize>,
    /// The arms, by name; none for what the size says.
    pub variants: Vec<String>,
    /// The scenarios, by name; none for what the size says.
    pub scenarios: Vec<String>,
    /// A server to run the workload on instead of nodes of its own: `http://host:port` with
    /// Elasticsearch's REST, or `redis://host:port`.
    pub target: Option<String>,
    /// Files of documents in the place of generated ones, each as `SHAPE=FILE` with the shape
    /// `geopoint`, `http_logs` or `pmc`: JSON objects, one a line, plain or in gzip or bzip2.
    pub corpora: Vec<String>,
    /// Of `breaker-overhead`, the binary without the allocator's layer; none for what the environment
    /// says (`PLIMSOLL_LAYERLESS`), without which that arm is left out.
    pub layerless: Option<PathBuf>,
    /// Of `breaker-overhead`, documents in the place of 2,000,000; at least 1.
    pub documents: Option<u64>,
    /// Where all chance comes from.
    pub seed: u64,
    /// The folder to write to; it is made if it is not there.
    pub out: PathBuf,
    /// Whether to go on with the run that left its files there.
    pub resume: bool,
    /// The binary of the nodes.
    pub binary: PathBuf,
    /// The folder of the nodes' data, made and removed again.
    pub folder: PathBuf,
    /// What counts for nothing at the beginning of a lap.
    pub warm_up: Duration,
    /// The measured part of a lap.
    pub window: Duration,
    /// Set from outside to end the run with what there is.
    pub stop: Arc<AtomicBool>,
}

/// Laps that may be asked for.
pub const LAPS: std::ops::RangeInclusive<usize> = 1..=200;

impl LiveOptions {
    /// The defaults of an experiment: laps of 8 s, the first of which counts for nothing; nodes of
    /// this very program, with their data in the system's folder for what is temporary.
    ///
    /// # Errors
    /// Where the system does not say what this program is.
    pub fn new(experiment: &str) -> Result<Self, LabError> {
        let binary = std::env::current_exe()
            .map_err(|error| LabError::live("find this program".to_owned(), error))?;
        Ok(Self {
            experiment: experiment.to_owned(),
            size: LiveSize::default(),
            laps: None,
            variants: Vec::new(),
            scenarios: Vec::new(),
            target: None,
            corpora: Vec::new(),
            layerless: None,
            documents: None,
            seed: 1,
            out: PathBuf::from("lab").join(experiment),
            resume: false,
            binary,
            folder: std::env::temp_dir().join(format!("plimsoll-lab-{}", std::process::id())),
            warm_up: Duration::from_secs(1),
            window: Duration::from_secs(7),
            stop: Arc::new(AtomicBool::new(false)),
        })
    }
}
