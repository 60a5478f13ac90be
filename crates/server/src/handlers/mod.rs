//! What the server's own commands answer. None of them touches rows or waits; those that do are
//! the connection's.

pub mod acl;
pub mod client;
pub mod command;
pub mod config;
pub mod hello;
pub mod info;
pub mod server;

use plimsoll_cluster::DATABASES;
use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::{
        args::{not_integer, parse_integer},
        spec::Spec,
    },
};

use crate::{commands::Own, connection::state::ConnectionState, node};

/// Runs a command whose number of arguments and subcommand were checked.
///
/// # Errors
/// The refusal to answer with.
pub fn run(state: &mut ConnectionState, own: Own, argv: &Argv) -> Result<Reply, ErrorReply> {
    match own {
        Own::Ping => ping(argv),
        Own::Echo => Ok(Reply::Bulk(argv.get_bytes(1).unwrap_or_default())),
        Own::Select => select(state, argv),
        Own::Quit => {
            state.is_closing = true;
            Ok(Reply::OK)
        }
        Own::Reset => {
            state.reset();
            Ok(Reply::Status("RESET"))
        }
        Own::Client => client::run(state, argv),
        Own::Command => command::run(argv),
        Own::Config => config::run(state, argv),
        Own::Info => info::run(state, argv),
        Own::Time => Ok(time()),
        Own::Discard => state.transaction.discard().map(|()| Reply::OK),
        Own::Unwatch => {
            state.transaction.unwatch();
            Ok(Reply::OK)
        }
        Own::Wait => server::wait(argv),
        Own::Lastsave => Ok(server::lastsave(state)),
        Own::Slowlog => server::slowlog(argv),
        Own::Latency => server::latency(argv),
        Own::Cluster => Err(ErrorReply::err("This instance has cluster support disabled")),
        Own::Bgsave => server::bgsave(state, argv),
        // The connection runs these, because they wait for rows, the disk or time, or are its own.
        Own::Hello
        | Own::Auth
        | Own::Acl
        | Own::Multi
        | Own::Exec
        | Own::Watch
        | Own::Readonly
        | Own::Readwrite
        | Own::Reads
        | Own::Flushall
        | Own::Debug
        | Own::Save => Err(ErrorReply::err("Command not allowed inside a transaction")),
    }
}

fn ping(argv: &Argv) -> Result<Reply, ErrorReply> {
    match argv.len() {
        1 => Ok(Reply::Status("PONG")),
        2 => Ok(Reply::Bulk(argv.get_bytes(1).unwrap_or_default())),
        _ => Err(plimsoll_storage::command::spec::wrong_arity("ping")),
    }
}

fn select(state: &mut ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let db = integer(argv, 1)?;
    let db = u32::try_from(db).ok().filter(|db| *db < DATABASES);
    state.db = db.ok_or_else(|| ErrorReply::err("DB index is out of range"))?;
    Ok(Reply::OK)
}

fn time() -> Reply {
    let now = node::unix_time();
    let [seconds, micros] = [now.as_secs(), u64::from(now.subsec_micros())];
    Reply::Array(vec![text(seconds.to_string()), text(micros.to_string())])
}

/// The subcommand's name, in lower case: what stands behind `|` in its spec.
fn subcommand(argv: &Argv) -> Vec<u8> {
    argv.get(1).unwrap_or_default().to_ascii_lowercase()
}

/// The argument at a position as a number.
fn integer(argv: &Argv, at: usize) -> Result<i64, ErrorReply> {
    argv.get(at).and_then(parse_integer).ok_or_else(not_integer)
}

/// Words as a bulk string.
fn text(words: impl Into<String>) -> Reply {
    Reply::bulk(words.into().into_bytes())
}

/// HELP: the subcommands by name.
fn help(subcommands: &'static [Spec]) -> Reply {
    let names = subcommands.iter().filter_map(|spec| spec.name.split_once('|'));
    let lines = [Reply::Status("Subcommands are:")];
    Reply::Array(lines.into_iter().chain(names.map(|(_, name)| Reply::Status(name))).collect())
}
