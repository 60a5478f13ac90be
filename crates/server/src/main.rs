//! The binary `plimsoll`: parses the command line, sets messages up, runs what was asked for and
//! turns its outcome into an exit code.

#![expect(
    clippy::disallowed_methods,
    reason = "connections and requests are the machine's; a simulation asks the coordinator"
)]

use std::{
    ffi::{c_int, c_long},
    fmt::Display,
    process::ExitCode,
    time::SystemTime,
};

use clap::Parser;
use plimsoll_base::World;
use plimsoll_server::{
    certificates::command as certificates,
    cli::{Cli, Command, ServeArgs},
    lab,
    secure::{self, SecureError},
    serve::serve,
    settings::Settings,
    users,
};
use tracing::level_filters::LevelFilter;

#[cfg(not(feature = "layerless"))]
#[global_allocator]
static ALLOCATOR: plimsoll_memory::Counted<mimalloc::MiMalloc> =
    plimsoll_memory::Counted::new(mimalloc::MiMalloc);

#[cfg(feature = "layerless")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[expect(unsafe_code, reason = "mimalloc's own, which its crate does not show")]
unsafe extern "C" {
    safe fn mi_collect(force: bool);
    safe fn mi_option_get(option: c_int) -> c_long;
    safe fn mi_option_set_default(option: c_int, value: c_long);
}

/// `mi_option_purge_delay` of mimalloc's header: for how long pages that nobody uses are kept, ms.
const MI_OPTION_PURGE_DELAY: c_int = 15;
/// RocksDB's memtables and the log's buffers come and go every few seconds. With mimalloc's own second each had its
/// pages made and zeroed anew, which took a tenth of the processor time of writes of 1 KB.
const PURGE_DELAY_MS: c_long = 10_000;
const MIMALLOCS_PURGE_DELAY_MS: c_long = 1000;

/// Has the allocator keep pages for longer, where `MIMALLOC_PURGE_DELAY` does not say for how long.
fn keep_pages() {
    // Another version may have another option by this number.
    if mi_option_get(MI_OPTION_PURGE_DELAY) == MIMALLOCS_PURGE_DELAY_MS {
        mi_option_set_default(MI_OPTION_PURGE_DELAY, PURGE_DELAY_MS);
    }
}

/// Has the allocator give pages back that it keeps for later.
fn reclaim() {
    mi_collect(true);
}

/// The command line or a setting is wrong.
const USAGE: u8 = 2;

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Serve(args) => run_serve(&args),
        Command::Lab(command) => exit_code(lab::run(&command), |error| error.is_usage()),
        Command::Certificates(command) => {
            exit_code(certificates::run(&command, now()), |error| error.is_usage())
        }
        Command::Users(command) => {
            exit_code(users::run(&command, &World::of_the_machine()), |error| error.is_usage())
        }
    }
}

fn now() -> SystemTime {
    SystemTime::now()
}

/// Says what went wrong, and whether the command line or a setting is wrong, or the work was not done.
fn exit_code<E: Display>(done: Result<(), E>, is_usage: fn(&E) -> bool) -> ExitCode {
    let Err(error) = done else { return ExitCode::SUCCESS };
    eprintln!("plimsoll: {error}");
    if is_usage(&error) { USAGE.into() } else { ExitCode::FAILURE }
}

fn run_serve(args: &ServeArgs) -> ExitCode {
    keep_pages();
    let (settings, said) = match settings(args) {
        Ok(settings) => settings,
        Err(error) => {
            eprintln!("plimsoll: {error}");
            return USAGE.into();
        }
    };
    if let Some(said) = said {
        eprint!("{said}");
    }
    start_messages(&settings);
    plimsoll_memory::breakers::reclaim_with(reclaim);
    plimsoll_memory::charged::drop_with(plimsoll_cluster::aside);
    exit_code(serve(settings), |error| error.is_usage())
}

/// The settings, and what a node that has just made itself secure has to say.
fn settings(args: &ServeArgs) -> Result<(Settings, Option<String>), SecureError> {
    let mut raw = args.raw()?;
    let said = secure::prepare(&mut raw, now())?;
    Ok((Settings::resolve(&raw)?, said))
}

/// Messages go to standard error; standard output has the `ready` line alone.
fn start_messages(settings: &Settings) {
    let level = settings.logger_level.parse().unwrap_or(LevelFilter::INFO);
    let messages = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(false);
    if settings.logger_json {
        messages.json().init();
    } else {
        messages.init();
    }
}
