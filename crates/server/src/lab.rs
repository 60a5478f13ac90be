//! `plimsoll lab`: the lab's command line. It turns flags into options of the lab crate, shows how
//! far a simulation is on standard error, and prints reports on standard output. It decides
//! nothing about experiments.

use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_lab::{LabError, Progress, SimulateOptions, Size};

/// Where results go unless told otherwise, with the experiment's name after it.
const OUT: &str = "lab";
const SEED: u64 = 1;

/// What `plimsoll lab` can do.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Names the experiments.
    List,
    /// Runs an experiment in the simulator, over the controllers that a node runs.
    Simulate(SimulateArgs),
    /// Makes the reports of a folder again and prints the one for a terminal.
    Report(ReportArgs),
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
}

impl LabCommandError {
    /// Whether the command line is at fault.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Lab(LabError::UnknownExperiment { .. } | LabError::Nodes { .. }))
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

/// Does what the command line asks for.
///
/// # Errors
/// An unknown experiment, a folder that cannot be read or written, a closed standard output.
pub fn run(command: &LabCommand) -> Result<(), LabCommandError> {
    let printed = match command {
        LabCommand::List => print(&list()),
        LabCommand::Simulate(args) => {
            let options = args.options();
            let outcome = plimsoll_lab::simulate(&options, &mut Told::new())?;
            let files = options.out.iter().map(|out| {
                format!("results and report: {}\n", out.join(plimsoll_lab::PAGE_FILE).display())
            });
            print(&(outcome.text + &files.collect::<String>()))
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

fn list() -> String {
    let all = plimsoll_lab::list();
    let width = all.iter().map(|one| one.name.len()).max().unwrap_or(0);
    all.iter().map(|one| format!("{:width$}  {}\n", one.name, one.about)).collect()
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
            eprint!("\r\x1b[K{done} of {all} runs: {what}{end}");
        } else if tenth > self.tenth {
            eprintln!("{done} of {all} runs");
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
    fn the_list_names_what_can_be_simulated() {
        let list = list();
        for name in ["replica-selection", "admission-queue"] {
            assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        }
    }

    #[test]
    fn a_wrong_name_or_number_is_a_matter_of_usage() {
        let wrong = |words: &[&str]| run(&parse(words).unwrap()).unwrap_err();
        assert!(wrong(&["simulate", "nothing"]).is_usage());
        assert!(wrong(&["simulate", "scale", "--nodes", "2"]).is_usage());
        let missing = wrong(&["report", "/nonexistent"]);
        assert!(!missing.is_usage() && missing.to_string().contains("result.json"), "{missing}");
    }
}
