//! `plimsoll users`: what is done to users on the machine itself, by whoever may write the node's data folder.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use plimsoll_base::World;

use crate::node::draw;
use crate::security::reset;
use crate::security::user::check_password;

/// Shown behind the help.
pub const EXAMPLES: &str = "\
Examples:
  plimsoll users reset --data /var/lib/plimsoll
      A new password for elastic (REST) and default (RESP), printed once: the
      node of this folder takes it over, within seconds if it runs.
  plimsoll users reset --data ./data --password-file new-password
      The first line of the file instead of one that is drawn.";

/// How long a node that runs is waited for.
const WAIT: Duration = Duration::from_secs(10);
const WAIT_PAUSE: Duration = Duration::from_millis(100);

/// What `plimsoll users` can do.
#[derive(Debug, Subcommand)]
pub enum UsersCommand {
    /// Gives the first user a new password, and every right, for those who locked themselves out.
    #[command(after_help = EXAMPLES)]
    Reset(ResetArgs),
}

/// The flags of `plimsoll users reset`.
#[derive(Debug, Args)]
pub struct ResetArgs {
    /// The data folder of a node of the cluster.
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub data: PathBuf,
    /// A file whose first line is the password; without it one is drawn and printed.
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
}

/// Why `plimsoll users` failed.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// There is no such data folder.
    #[error("{} is no data folder of a node", .0.display())]
    NoData(PathBuf),
    /// The password does not do.
    #[error("{0}")]
    Password(String),
    /// A file, or standard output.
    #[error("{0}")]
    System(#[from] io::Error),
}

impl UsersError {
    /// Whether the command line is at fault.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::System(_))
    }
}

/// Does what was asked for, and says on standard output what was done.
///
/// # Errors
/// Where there is no such folder, or it cannot be written.
pub fn run(command: &UsersCommand, world: &World) -> Result<(), UsersError> {
    let UsersCommand::Reset(args) = command;
    if !args.data.is_dir() {
        return Err(UsersError::NoData(args.data.clone()));
    }
    let (password, is_drawn) = match &args.password_file {
        Some(file) => {
            let text = std::fs::read_to_string(file)?;
            (text.lines().next().unwrap_or_default().to_owned(), false)
        }
        None => (reset::draw(draw)?, true),
    };
    check_password(&password).map_err(|fault| UsersError::Password(fault.0))?;
    reset::leave(&args.data, &password, false, draw)?;
    let mut out = io::stdout().lock();
    if is_drawn {
        writeln!(out, "password of elastic (REST) and default (RESP): {password}")?;
    }
    out.flush()?;
    let began = world.time.now();
    while reset::is_left(&args.data) && world.time.now() - began < WAIT {
        world.tasks.block_for(WAIT_PAUSE);
    }
    let said = match reset::is_left(&args.data) {
        true => "it holds once the node of this folder runs and reaches the cluster's metadata",
        false => "it holds now",
    };
    writeln!(out, "{said}")?;
    Ok(())
}
