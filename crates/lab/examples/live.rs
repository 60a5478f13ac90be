//! The live lab without the server's command line, for whoever works on the lab alone:
//!
//! ```text
//! cargo run --release -p plimsoll-lab --example live -- PLIMSOLL EXPERIMENT OUT [LAPS] [VARIANT …]
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use plimsoll_lab::Progress;
use plimsoll_lab::live::{self, LiveOptions, LiveSize};

struct Told;

impl Progress for Told {
    fn note(&mut self, what: &str) {
        eprintln!("{what}");
    }

    fn step(&mut self, done: usize, all: usize, what: &str) -> bool {
        eprintln!("{done} of {all}: {what}");
        true
    }
}

fn run() -> Result<String, String> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [binary, experiment, out, ..] = words.as_slice() else {
        return Err("PLIMSOLL EXPERIMENT OUT [LAPS] [VARIANT …]".to_owned());
    };
    let mut options = LiveOptions::new(experiment).map_err(|error| error.to_string())?;
    options.size = LiveSize::Quick;
    options.binary = PathBuf::from(binary);
    options.out = PathBuf::from(out);
    options.laps = words.get(3).and_then(|word| word.parse().ok());
    options.variants = words.iter().skip(4).cloned().collect();
    live::run(&options, &mut Told).map(|outcome| outcome.text).map_err(|error| error.to_string())
}

fn main() -> ExitCode {
    match run() {
        Ok(text) => {
            eprintln!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
