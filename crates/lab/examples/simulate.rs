//! Runs an experiment of the lab without the server's binary and prints its verdict, one line a
//! finding: `cargo run --release -p plimsoll-lab --example simulate -- EXPERIMENT [SEED]
//! [quick|study] [DIR]`. Into the folder, where one is given, it writes what `plimsoll lab simulate`
//! does.

use std::io::Write;

use plimsoll_lab::{Progress, SimulateOptions, Size};

/// Says nothing and stops nothing.
struct Quiet;

impl Progress for Quiet {
    fn note(&mut self, _: &str) {}

    fn step(&mut self, _: usize, _: usize, _: &str) -> bool {
        true
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let experiment = words.next().unwrap_or_else(|| "overload-step".to_owned());
    let seed = words.next().map_or(Ok(1), |word| word.parse())?;
    let size = match words.next().as_deref() {
        Some("quick") => Size::Quick,
        None | Some("study") => Size::Study,
        Some(word) => return Err(format!("`{word}` is neither quick nor study").into()),
    };
    let out = words.next().map(std::path::PathBuf::from);
    let options = SimulateOptions { experiment, nodes: None, size, seed, out };
    let outcome = plimsoll_lab::simulate(&options, &mut Quiet)?;
    let mut out = std::io::stdout().lock();
    for found in &outcome.plots.findings {
        let verdict = match found.reached {
            Some(true) => "ok  ",
            Some(false) => "MISS",
            None => "    ",
        };
        writeln!(out, "{verdict} {} | aim {} | {}", found.what, found.aim, found.measured)?;
    }
    Ok(())
}
