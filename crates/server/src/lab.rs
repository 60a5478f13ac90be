//! `plimsoll lab`: the lab's command line. It turns flags into options of the lab crate, shows how
//! far a run is on standard error, prints reports on standard output, and makes of Ctrl-C the wish
//! for a report of what there is. It decides nothing about experiments.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::{Args, Subcommand};
use plimsoll_lab::live::{self, LiveOptions, LiveSize};
use plimsoll_lab::{LabError, Outcome, Progress, SimulateOptions, Size};
use tokio::signal::unix::{SignalKind, signal};

/// Where results go unless told otherwise, with the experiment's name after it.
const OUT: &str = "lab";
const SEED: u64 = 1;
/// The exit code after a second Ctrl-C, as shells have it.
const STOPPED_TWICE: i32 = 130;

const RUN_EXAMPLES: &str = "\
Examples:
  plimsoll lab run replica-selection --quick
  plimsoll lab run all --quick
  plimsoll lab run sick-node --full --corpus http_logs=documents-181998.json.bz2";

/// What `plimsoll lab` can do.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Names the experiments.
    List,
    /// Ninety seconds: three nodes, one gets sick, with protections off and on.
    Demo(DemoArgs),
    /// Runs an experiment on real nodes of this machine, or on a server that is there.
    #[command(after_help = RUN_EXAMPLES)]
    Run(RunArgs),
    /// Runs an experiment in the simulator, over the controllers that a node runs.
    Simulate(SimulateArgs),
    /// Makes the reports of a folder again and prints the one for a terminal.
    Report(ReportArgs),
}

/// The flags of `plimsoll lab demo`.
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Folder of result.json and report.html [default: lab/demo].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// The flags of `plimsoll lab run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// The experiment; `plimsoll lab list` names them. `all`: the five studies one after the other, and a
    /// page that sums them up.
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: String,
    /// Five laps, the arms that matter most, less than ten minutes: what it finds is indicative.
    #[arg(long, conflicts_with = "full")]
    pub quick: bool,
    /// All scenarios and arms, ten laps, less than ninety minutes.
    #[arg(long)]
    pub full: bool,
    /// Laps of each arm [default: 5 with --quick, else 10].
    #[arg(long, value_name = "N")]
    pub laps: Option<usize>,
    /// An arm; may be given several times. The baseline is always there.
    #[arg(long = "variant", value_name = "NAME")]
    pub variants: Vec<String>,
    /// Scenarios of replica-selection, remote-recovery, kv-throughput or breaker-overhead, with commas
    /// between them; only these run.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub scenarios: Vec<String>,
    /// A server to measure instead: http://host:port (Elasticsearch's REST) or redis://host:port. For
    /// remote-recovery two, LEADER,FOLLOWER, and the follower's name for the leader's cluster where it
    /// has several.
    #[arg(long, value_name = "URL")]
    pub target: Option<String>,
    /// A file of Rally's in the place of documents drawn from the seed; may be given several times.
    /// SHAPE is geopoint, http_logs or pmc; FILE has a JSON object on each line, plain or in gzip
    /// or bzip2.
    #[arg(long = "corpus", value_name = "SHAPE=FILE")]
    pub corpora: Vec<String>,
    /// Of breaker-overhead: a binary that was built without the allocator's layer, its third arm [default:
    /// what PLIMSOLL_LAYERLESS names, if anything].
    #[arg(long, value_name = "PATH")]
    pub layerless: Option<PathBuf>,
    /// Of breaker-overhead: so many documents [default: 2000000].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub documents: Option<u64>,
    /// Folder of result.json and report.html [default: lab/EXPERIMENT].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Goes on with a run of remote-recovery, kv-throughput, breaker-overhead or all that was interrupted
    /// and left its files in DIR: scenarios that are whole are kept. All other flags are to be those of that run.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["out", "target"])]
    pub resume: Option<PathBuf>,
    /// The number that corpora and requests are drawn from.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    pub seed: u64,
}

/// The flags of `plimsoll lab simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The experiment; `plimsoll lab list` names them.
    #[arg(value_name = "EXPERIMENT")]
    pub experiment: String,
    /// Data nodes, 3 to 1000 [default: the experiment's own number].
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// More seeds, more nodes, longer.
    #[arg(long)]
    pub full: bool,
    /// Folder of result.json and report.html [default: lab/EXPERIMENT].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// The number that all chance comes from; the same one gives the same files.
    #[arg(long, value_name = "N", default_value_t = SEED)]
    pub seed: u64,
}

/// The flags of `plimsoll lab report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// A folder with a result.json.
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Why `plimsoll lab` failed.
#[derive(Debug, thiserror::Error)]
pub enum LabCommandError {
    /// The lab.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Standard output.
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
    /// What waits for Ctrl-C.
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
}

impl LabCommandError {
    /// Whether the command line is at fault.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Lab(
                LabError::UnknownExperiment { .. }
                    | LabError::UnknownVariant { .. }
                    | LabError::UnknownScenario { .. }
                    | LabError::Nodes { .. }
                    | LabError::Laps { .. }
                    | LabError::Target { .. }
                    | LabError::Resume { .. }
                    | LabError::Corpus { .. }
            )
        )
    }
}

impl SimulateArgs {
    fn options(&self) -> SimulateOptions {
        let out = self.out.clone().unwrap_or_else(|| PathBuf::from(OUT).join(&self.experiment));
        SimulateOptions {
            experiment: self.experiment.clone(),
            nodes: self.nodes,
            size: if self.full { Size::Full } else { Size::Study },
            seed: self.seed,
            out: Some(out),
        }
    }
}

impl DemoArgs {
    fn options(&self) -> Result<LiveOptions, LabError> {
        let mut options = LiveOptions::new(live::DEMO)?;
        if let Some(out) = &self.out {
            options.out.clone_from(out);
        }
        Ok(options)
    }
}

impl RunArgs {
    fn options(&self) -> Result<LiveOptions, LabError> {
        let mut options = LiveOptions::new(&self.experiment)?;
        options.size = match (self.quick, self.full) {
            (true, _) => LiveSize::Quick,
            (_, true) => LiveSize::Full,
            _ => LiveSize::Study,
        };
        options.laps = self.laps;
        options.variants.clone_from(&self.variants);
        options.scenarios.clone_from(&self.scenarios);
        options.target.clone_from(&self.target);
        options.corpora.clone_from(&self.corpora);
        options.layerless.clone_from(&self.layerless);
        options.documents = self.documents;
        options.seed = self.seed;
        options.resume = self.resume.is_some();
        if let Some(out) = self.resume.as_ref().or(self.out.as_ref()) {
            options.out.clone_from(out);
        }
        Ok(options)
    }
}

/// Runs an experiment; the first Ctrl-C or SIGTERM asks it to end with what there is, the second
/// one ends the program.
fn run_live(options: &LiveOptions) -> Result<Outcome, LabCommandError> {
    let stop = Arc::clone(&options.stop);
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    let runtime = runtime.map_err(LabCommandError::Signals)?;
    runtime.spawn(async move {
        let terminated = async {
            match signal(SignalKind::terminate()) {
                Ok(mut signal) => signal.recv().await,
                Err(_) => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminated => {}
        }
        eprintln!("\nending this lap, then the report; once more ends the program");
        stop.store(true, Ordering::Relaxed);
        let _ = tokio::signal::ctrl_c().await;
        std::process::exit(STOPPED_TWICE);
    });
    let outcome = live::run(options, &mut Told::new());
    runtime.shutdown_background();
    Ok(outcome?)
}

/// Does what the command line asks for.
///
/// # Errors
/// An unknown experiment, a folder that cannot be read or written, a closed standard output.
pub fn run(command: &LabCommand) -> Result<(), LabCommandError> {
    let printed = match command {
        LabCommand::List => print(&list()),
        LabCommand::Demo(args) => {
            let options = args.options()?;
            let outcome = run_live(&options)?;
            print(&(conclusion(&outcome) + &files(&options.out)))
        }
        LabCommand::Run(args) => {
            let options = args.options()?;
            let outcome = run_live(&options)?;
            let conclusion = options.target.as_ref().map(|_| conclusion(&outcome));
            print(&(outcome.text + &conclusion.unwrap_or_default() + &files(&options.out)))
        }
        LabCommand::Simulate(args) => {
            let options = args.options();
            let outcome = plimsoll_lab::simulate(&options, &mut Told::new())?;
            let files = options.out.as_deref().map(files).unwrap_or_default();
            print(&(outcome.text + &files))
        }
        LabCommand::Report(args) => print(&plimsoll_lab::report(&args.dir)?),
    };
    match printed {
        // Whoever reads only the first lines has what it wanted.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// The sentence that a demo and a run against another server end with.
fn conclusion(outcome: &plimsoll_lab::Outcome) -> String {
    outcome.results.notes.last().map(|last| format!("\n{last}\n")).unwrap_or_default()
}

fn files(out: &Path) -> String {
    format!("results and report: {}\n", out.join(plimsoll_lab::PAGE_FILE).display())
}

/// Every experiment, where it can be run (`run`, `simulate` or both), and what it asks.
fn list() -> String {
    let all = plimsoll_lab::list();
    let width = all.iter().map(|one| one.name.len()).max().unwrap_or(0);
    let line = |one: &plimsoll_lab::Listed| {
        let places = match (one.is_live, one.is_simulated) {
            (true, true) => "run, simulate",
            (true, false) => "run",
            _ => "simulate",
        };
        format!("{:width$}  {places:13}  {}\n", one.name, one.about)
    };
    all.iter().map(line).collect()
}

/// How far it is: one line that is written over on a screen, one for each tenth in a file.
struct Told {
    screen: bool,
    tenth: usize,
}

impl Told {
    fn new() -> Self {
        Self { screen: io::stderr().is_terminal(), tenth: 0 }
    }
}

impl Progress for Told {
    fn note(&mut self, what: &str) {
        eprintln!("{what}");
    }

    fn step(&mut self, done: usize, all: usize, what: &str) -> bool {
        let tenth = done * 10 / all.max(1);
        if self.screen {
            let end = if done == all { "\n" } else { "" };
            eprint!("\r\x1b[K{done} of {all}: {what}{end}");
        } else if tenth > self.tenth {
            eprintln!("{done} of {all}: {what}");
        }
        self.tenth = tenth;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(subcommand)]
        command: LabCommand,
    }

    fn parse(words: &[&str]) -> Result<LabCommand, clap::Error> {
        Cli::try_parse_from(["lab"].iter().chain(words)).map(|cli| cli.command)
    }

    fn options(words: &[&str]) -> SimulateOptions {
        let LabCommand::Simulate(args) = parse(words).unwrap() else { unreachable!("simulate") };
        args.options()
    }

    #[test]
    fn flags_become_options() {
        let plain = options(&["simulate", "scale"]);
        assert_eq!((plain.size, plain.seed, plain.nodes), (Size::Study, SEED, None));
        assert_eq!(plain.out, Some(PathBuf::from("lab/scale")));
        let words =
            ["simulate", "scale", "--nodes", "40", "--full", "--out", "/tmp/x", "--seed", "9"];
        let all = options(&words);
        assert_eq!((all.size, all.seed, all.nodes), (Size::Full, 9, Some(40)));
        assert_eq!(all.out, Some(PathBuf::from("/tmp/x")));
        assert!(parse(&["simulate"]).is_err());
        assert!(parse(&["simulate", "scale", "--seed", "x"]).is_err());
    }

    #[test]
    fn flags_of_a_run_become_options() {
        let run = |words: &[&str]| {
            let LabCommand::Run(args) = parse(words).unwrap() else { unreachable!("run") };
            args.options().unwrap()
        };
        let plain = run(&["run", "replica-selection"]);
        assert_eq!((plain.size, plain.laps, plain.seed), (LiveSize::Study, None, SEED));
        assert_eq!(plain.out, PathBuf::from("lab/replica-selection"));
        let words = ["run", "x", "--quick", "--laps", "3", "--variant", "c3", "--variant", "ours"];
        let quick = run(&words);
        assert_eq!((quick.size, quick.laps), (LiveSize::Quick, Some(3)));
        assert_eq!(quick.variants, ["c3", "ours"]);
        let some = run(&["run", "x", "--scenarios", "pmc,round-robin", "--scenarios", "pmc-x"]);
        assert_eq!(some.scenarios, ["pmc", "round-robin", "pmc-x"]);
        let there = run(&["run", "x", "--full", "--target", "http://h:1", "--out", "/tmp/x"]);
        assert_eq!((there.size, there.target.as_deref()), (LiveSize::Full, Some("http://h:1")));
        assert!(parse(&["run", "x", "--quick", "--full"]).is_err());
        let again = run(&["run", "x", "--quick", "--resume", "/tmp/y"]);
        assert!(again.resume && !there.resume);
        assert_eq!(again.out, PathBuf::from("/tmp/y"));
        assert!(parse(&["run", "x", "--resume", "y", "--out", "z"]).is_err());
        let breakers = run(&["run", "x", "--layerless", "/b", "--documents", "9"]);
        assert_eq!((breakers.layerless, breakers.documents), (Some("/b".into()), Some(9)));
        assert!(parse(&["run", "x", "--documents", "0"]).is_err());
        let files = run(&["run", "x", "--corpus", "pmc=a.bz2", "--corpus", "geopoint=b"]);
        assert_eq!(files.corpora, ["pmc=a.bz2", "geopoint=b"]);
    }

    #[test]
    fn the_list_names_all_five_studies() {
        let list = list();
        let studies = [
            "replica-selection",
            "admission-queue",
            "breaker-overhead",
            "remote-recovery",
            "kv-throughput",
        ];
        for name in studies {
            assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        }
    }

    #[test]
    fn a_wrong_name_or_number_is_a_matter_of_usage() {
        let wrong = |words: &[&str]| run(&parse(words).unwrap()).unwrap_err();
        assert!(wrong(&["simulate", "nothing"]).is_usage());
        assert!(wrong(&["simulate", "scale", "--nodes", "2"]).is_usage());
        assert!(wrong(&["run", "nothing"]).is_usage());
        assert!(wrong(&["run", "replica-selection", "--variant", "no"]).is_usage());
        assert!(wrong(&["run", "replica-selection", "--target", "ftp://x"]).is_usage());
        let scenario = wrong(&["run", "replica-selection", "--scenarios", "pmc,no"]);
        assert!(scenario.is_usage() && scenario.to_string().contains("`no`"), "{scenario}");
        assert!(scenario.to_string().contains("one-replica-loaded-open"), "{scenario}");
        assert!(wrong(&["run", "all", "--scenarios", "pmc"]).is_usage());
        let none = wrong(&["run", "sick-node", "--scenarios", "pmc"]);
        assert!(none.is_usage() && none.to_string().contains("none to choose from"), "{none}");
        let target = "http://localhost:1";
        let words = ["run", "replica-selection", "--scenarios", "pmc", "--target", target];
        assert!(wrong(&words).is_usage());
        assert!(wrong(&["run", "sick-node", "--full", "--corpus", "logs=x"]).is_usage());
        assert!(wrong(&["run", "sick-node", "--corpus", "http_logs=x"]).is_usage());
        let no_file = wrong(&["run", "sick-node", "--full", "--corpus", "http_logs=/nonexistent"]);
        assert!(!no_file.is_usage() && no_file.to_string().contains("/nonexistent"), "{no_file}");
        let missing = wrong(&["report", "/nonexistent"]);
        assert!(!missing.is_usage() && missing.to_string().contains("result.json"), "{missing}");
    }
}
