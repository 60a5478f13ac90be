//! COMMAND: what commands there are, from the same table that runs them.

use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::spec::{Group, Spec, unknown_subcommand},
};

use super::{help, subcommand, text};
use crate::commands::{self, Entry};

/// Runs COMMAND or a subcommand that was checked.
///
/// # Errors
/// The refusal to answer with.
pub fn run(argv: &Argv) -> Result<Reply, ErrorReply> {
    if argv.len() == 1 {
        return Ok(Reply::Array(commands::all().iter().map(|entry| info(entry.spec)).collect()));
    }
    match &*subcommand(argv) {
        b"count" => Ok(Reply::Integer(i64::try_from(commands::all().len()).unwrap_or(i64::MAX))),
        b"info" => Ok(match named(argv) {
            None => Reply::Array(commands::all().iter().map(|entry| info(entry.spec)).collect()),
            Some(found) => {
                let known =
                    |entry: Option<&Entry>| entry.map_or(Reply::NilArray, |entry| info(entry.spec));
                Reply::Array(found.map(known).collect())
            }
        }),
        b"docs" => Ok(Reply::Map(match named(argv) {
            None => commands::all().iter().map(docs).collect(),
            Some(found) => found.flatten().map(docs).collect(),
        })),
        b"list" if argv.len() == 2 => {
            Ok(Reply::Array(commands::all().iter().map(|entry| text(entry.spec.name)).collect()))
        }
        b"list" => Err(plimsoll_storage::command::args::syntax_error()),
        b"getkeys" => get_keys(argv),
        b"help" => Ok(help(commands::find(b"command").map_or(&[], |entry| entry.spec.subcommands))),
        other => Err(unknown_subcommand("command", other)),
    }
}

/// The commands that the arguments name; none where there are no arguments.
fn named(argv: &Argv) -> Option<impl Iterator<Item = Option<&'static Entry>>> {
    (argv.len() > 2).then(|| argv.iter().skip(2).map(commands::find))
}

/// What COMMAND INFO says of a command: name, arity, flags, keys, categories, tips, key
/// specifications, subcommands.
fn info(spec: &Spec) -> Reply {
    let flags = spec.flag_names().map(Reply::Status).collect();
    let categories = spec.category_names().filter_map(category).collect();
    let subcommands = spec.subcommands.iter().map(info).collect();
    Reply::Array(vec![
        text(spec.name),
        Reply::Integer(spec.arity.into()),
        Reply::Set(flags),
        Reply::Integer(spec.keys.first.into()),
        Reply::Integer(spec.keys.last.into()),
        Reply::Integer(spec.keys.step.into()),
        Reply::Set(categories),
        Reply::Set(Vec::new()),
        Reply::Set(Vec::new()),
        Reply::Set(subcommands),
    ])
}

/// A category as it is shown.
fn category(name: &str) -> Option<Reply> {
    Some(Reply::Status(match name {
        "string" => "@string",
        "bitmap" => "@bitmap",
        "hash" => "@hash",
        "keyspace" => "@keyspace",
        "connection" => "@connection",
        "transaction" => "@transaction",
        "read" => "@read",
        "write" => "@write",
        "fast" => "@fast",
        "slow" => "@slow",
        "dangerous" => "@dangerous",
        _ => return None,
    }))
}

/// What COMMAND DOCS says: the group, which is what `redis-cli` needs to go on. Arguments and
/// summaries are in Redis' own documentation.
fn docs(entry: &Entry) -> (Reply, Reply) {
    let group = match entry.spec.group {
        Group::String => "string",
        Group::Bitmap => "bitmap",
        Group::Hash => "hash",
        Group::Generic => "generic",
        Group::Connection => "connection",
        Group::Server => "server",
        Group::Transactions => "transactions",
    };
    (text(entry.spec.name), Reply::Map(vec![(text("group"), text(group))]))
}

fn get_keys(argv: &Argv) -> Result<Reply, ErrorReply> {
    let parts: Vec<&[u8]> = argv.iter().skip(2).collect();
    let inner = Argv::of(&parts);
    let entry =
        commands::find(inner.name()).ok_or_else(|| ErrorReply::err("Invalid command specified"))?;
    let spec = entry
        .spec
        .check(&inner)
        .map_err(|_| ErrorReply::err("Invalid number of arguments specified for command"))?;
    let keys: Vec<Reply> =
        spec.key_positions(&inner).filter_map(|at| inner.get_bytes(at)).map(Reply::Bulk).collect();
    if keys.is_empty() {
        return Err(ErrorReply::err("The command has no key arguments"));
    }
    Ok(Reply::Array(keys))
}
