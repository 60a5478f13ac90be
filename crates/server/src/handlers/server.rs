//! Commands about the server as a whole that need few words: durability, pauses, and the logs of
//! slowness that are not kept here.

use std::{sync::Arc, time::Duration};

use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::{args::syntax_error, spec::unknown_subcommand},
};

use super::{help, integer, subcommand};
use crate::{commands, connection::state::ConnectionState, node, settings::Durability};

/// FLUSHALL takes ASYNC or SYNC; both return when all is gone.
///
/// # Errors
/// Anything else.
pub fn check_flush_mode(argv: &Argv) -> Result<(), ErrorReply> {
    let known = |mode: &[u8]| [&b"async"[..], b"sync"].iter().any(|m| mode.eq_ignore_ascii_case(m));
    match (argv.len(), argv.get(1)) {
        (1, _) => Ok(()),
        (2, Some(mode)) if known(mode) => Ok(()),
        _ => Err(syntax_error()),
    }
}

/// How long DEBUG SLEEP pauses this connection; others go on, unlike in Redis.
///
/// # Errors
/// Any other subcommand, or no number of seconds.
pub fn debug_sleep(argv: &Argv) -> Result<Duration, ErrorReply> {
    let name = argv.get(1).unwrap_or_default();
    if !name.eq_ignore_ascii_case(b"sleep") || argv.len() != 3 {
        return Err(unknown_subcommand("debug", name));
    }
    let seconds = argv.get(2).and_then(|text| std::str::from_utf8(text).ok()?.parse::<f64>().ok());
    // Redis reads what is no number as 0.
    Ok(Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default())
}

/// WAIT: no other node has replicas in this version, so none acknowledges.
///
/// # Errors
/// Arguments that are no numbers, or a negative timeout.
pub fn wait(argv: &Argv) -> Result<Reply, ErrorReply> {
    integer(argv, 1)?;
    let timeout = integer(argv, 2)
        .map_err(|_| ErrorReply::err("timeout is not an integer or out of range"))?;
    if timeout < 0 {
        return Err(ErrorReply::err("timeout is negative"));
    }
    Ok(Reply::Integer(0))
}

/// BGSAVE: as SAVE, which has the log synced; nobody waits for it here.
///
/// # Errors
/// Arguments that are not SCHEDULE.
pub fn bgsave(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    match (argv.len(), argv.get(1)) {
        (1, _) => {}
        (2, Some(word)) if word.eq_ignore_ascii_case(b"schedule") => {}
        _ => return Err(syntax_error()),
    }
    // What was acknowledged is on disk already, if the log syncs before it answers.
    if state.shared.settings.durability == Durability::Async {
        let coordinator = Arc::clone(&state.shared.coordinator);
        tokio::spawn(async move {
            if let Err(error) = coordinator.sync().await {
                tracing::error!(%error, "BGSAVE failed");
            }
        });
    }
    Ok(Reply::Status("Background saving started"))
}

/// LASTSAVE: the second up to which everything acknowledged is on disk.
#[must_use]
pub fn lastsave(state: &ConnectionState) -> Reply {
    let now = node::unix_time();
    let moment = match state.shared.settings.durability {
        Durability::Request => now,
        Durability::Async => now.saturating_sub(state.shared.settings.sync_interval * 2),
    };
    Reply::Integer(i64::try_from(moment.as_secs()).unwrap_or(i64::MAX))
}

/// SLOWLOG: none is kept.
///
/// # Errors
/// A count that is no number.
pub fn slowlog(argv: &Argv) -> Result<Reply, ErrorReply> {
    match &*subcommand(argv) {
        b"get" if argv.len() > 3 => Err(syntax_error()),
        b"get" => {
            if argv.len() == 3 {
                integer(argv, 2)?;
            }
            Ok(Reply::Array(Vec::new()))
        }
        b"len" => Ok(Reply::Integer(0)),
        b"reset" => Ok(Reply::OK),
        _ => Ok(help(commands::find(b"slowlog").map_or(&[], |entry| entry.spec.subcommands))),
    }
}

/// LATENCY: no events are kept; the metrics have histograms.
///
/// # Errors
/// None in this version.
pub fn latency(argv: &Argv) -> Result<Reply, ErrorReply> {
    match &*subcommand(argv) {
        b"latest" | b"history" => Ok(Reply::Array(Vec::new())),
        b"reset" => Ok(Reply::Integer(0)),
        _ => Ok(help(commands::find(b"latency").map_or(&[], |entry| entry.spec.subcommands))),
    }
}
