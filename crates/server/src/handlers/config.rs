//! CONFIG: the few of Redis' parameters that mean something here, with what is true of them.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::args::{parse_integer, syntax_error},
    execute::Glob,
};

use super::{help, subcommand, text};
use crate::{
    commands,
    connection::state::ConnectionState,
    listen::{ListenError, check_exposure},
    places::{SHARES_OF_CLIENTS, within_files},
    resp::Limits,
    security::user::DEFAULT,
    settings::{Durability, PASSWORD_BYTES_MAX, Settings},
};

/// Why a parameter is not changed.
#[derive(Debug, thiserror::Error)]
enum NotSet {
    /// It has to be a number.
    #[error("argument must be a number of at least 0")]
    NoNumber,
    /// It is out of the range that `maxclients` has.
    #[error("argument must be between 1 and 1000000 inclusive")]
    ClientCount,
    /// The process may not have so many files open.
    #[error(
        "The operating system is not able to handle the specified number of clients, try with {0}"
    )]
    FileLimit(usize),
    /// Without a password the ports would be open to others.
    #[error(transparent)]
    Exposed(#[from] ListenError),
    /// Comparing it in constant time would not be cheap.
    #[error("the password is longer than {PASSWORD_BYTES_MAX} bytes")]
    PasswordTooLong,
    /// The whole cluster has another.
    #[error(
        "the user 'default' has a password in the whole cluster: change it by ACL SETUSER default"
    )]
    PasswordKept,
    /// It is fixed while the node runs.
    #[error("can't set immutable config")]
    Fixed,
}

/// Changes a parameter.
type Set = fn(&ConnectionState, &[u8]) -> Result<(), NotSet>;

/// A parameter: its name, what it is now, and how it is changed, if it can be.
struct Parameter {
    name: &'static str,
    get: fn(&ConnectionState) -> String,
    set: Option<Set>,
}

const fn fixed(name: &'static str, get: fn(&ConnectionState) -> String) -> Parameter {
    Parameter { name, get, set: None }
}

/// When Redis keeps a hash in one list: said back, and of no effect, as fields are rows here. Tools
/// set it when they start.
const fn listed(name: &'static str, which: Listed) -> Parameter {
    match which {
        Listed::Entries => Parameter {
            name,
            get: |state| state.shared.listed_entries.load(Relaxed).to_string(),
            set: Some(|state, text| keep(&state.shared.listed_entries, text)),
        },
        Listed::Value => Parameter {
            name,
            get: |state| state.shared.listed_value.load(Relaxed).to_string(),
            set: Some(|state, text| keep(&state.shared.listed_value, text)),
        },
    }
}

enum Listed {
    Entries,
    Value,
}

fn keep(held: &AtomicU64, text: &[u8]) -> Result<(), NotSet> {
    let number = parse_integer(text).and_then(|number| u64::try_from(number).ok());
    let number = number.ok_or(NotSet::NoNumber)?;
    held.store(number, Relaxed);
    Ok(())
}

const PARAMETERS: &[Parameter] = &[
    listed("hash-max-listpack-entries", Listed::Entries),
    listed("hash-max-listpack-value", Listed::Value),
    listed("hash-max-ziplist-entries", Listed::Entries),
    listed("hash-max-ziplist-value", Listed::Value),
    // The log is an append-only file in Redis' words, and there are no snapshots to schedule.
    fixed("save", |_| String::new()),
    fixed("appendonly", |_| "yes".to_owned()),
    fixed("appendfsync", |state| {
        match state.shared.settings.durability {
            Durability::Request => "always",
            Durability::Async => "everysec",
        }
        .to_owned()
    }),
    fixed("bind", |state| state.shared.settings.resp.ip().to_string()),
    fixed("port", |state| state.shared.resp_port.to_string()),
    fixed("dir", |state| state.shared.settings.data.display().to_string()),
    fixed("databases", |_| plimsoll_cluster::DATABASES.to_string()),
    fixed("maxmemory", |_| "0".to_owned()),
    fixed("maxmemory-policy", |_| "noeviction".to_owned()),
    fixed("proto-max-bulk-len", |_| Limits::FULL.bulk_bytes_max.to_string()),
    fixed("timeout", |_| "0".to_owned()),
    fixed("cluster-enabled", |_| "no".to_owned()),
    Parameter {
        name: "maxclients",
        get: |state| state.shared.clients.count_max().to_string(),
        set: Some(|state, text| {
            let count = parse_integer(text).and_then(|count| usize::try_from(count).ok());
            match count {
                Some(count @ 1..=1_000_000) => {
                    let most = within_files(count, SHARES_OF_CLIENTS);
                    if count > most {
                        return Err(NotSet::FileLimit(most));
                    }
                    state.shared.clients.set_count_max(count);
                    Ok(())
                }
                _ => Err(NotSet::ClientCount),
            }
        }),
    },
    Parameter {
        name: "requirepass",
        // Nobody needs to read it back.
        get: |_| String::new(),
        set: Some(|state, text| {
            if text.is_empty() {
                // As at the start: without a password only this machine may reach the ports.
                let open = Settings { password: None, ..state.shared.settings.clone() };
                check_exposure(&open)?;
            }
            let security = &state.shared.security;
            if security.directory().user(DEFAULT).is_some_and(|user| !user.passwords.is_empty()) {
                return Err(NotSet::PasswordKept);
            }
            match security.propose_own_password(text) {
                true => Ok(()),
                false => Err(NotSet::PasswordTooLong),
            }
        }),
    },
];

/// Runs a subcommand that was checked.
///
/// # Errors
/// The refusal to answer with.
pub fn run(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    match &*subcommand(argv) {
        b"get" => get(state, argv),
        b"set" => set(state, argv),
        b"resetstat" => {
            state.shared.usage.reset();
            Ok(Reply::OK)
        }
        b"rewrite" => Err(ErrorReply::err("The server is running without a config file")),
        _ => Ok(help(commands::find(b"config").map_or(&[], |entry| entry.spec.subcommands))),
    }
}

fn get(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let pattern = |pattern: &[u8]| Glob::new(&pattern.to_ascii_lowercase());
    let patterns: Vec<Glob> = argv.iter().skip(2).map(pattern).collect::<Result<_, _>>()?;
    let wanted = |parameter: &&Parameter| {
        patterns.iter().any(|pattern| pattern.matches(parameter.name.as_bytes()).0)
    };
    let pair = |parameter: &Parameter| (text(parameter.name), text((parameter.get)(state)));
    Ok(Reply::Map(PARAMETERS.iter().filter(wanted).map(pair).collect()))
}

/// All parameters are found before the first is changed; a value that is refused leaves those before it changed, but
/// for a password, which is only proposed here.
fn set(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    if !argv.len().is_multiple_of(2) {
        return Err(syntax_error());
    }
    let mut changes = Vec::new();
    for at in (2..argv.len()).step_by(2) {
        let [name, value] = [at, at + 1].map(|at| argv.get(at).unwrap_or_default());
        let parameter = PARAMETERS
            .iter()
            .find(|parameter| parameter.name.as_bytes().eq_ignore_ascii_case(name));
        let Some(parameter) = parameter else {
            let name = String::from_utf8_lossy(name);
            return Err(ErrorReply::err(format!(
                "Unknown option or number of arguments for CONFIG SET - '{name}'"
            )));
        };
        changes.push((parameter, value));
    }
    for (parameter, value) in changes {
        change(state, parameter, value).map_err(|why| failed(parameter.name, &why))?;
    }
    Ok(Reply::OK)
}

/// What a client is told where a parameter was not changed.
pub fn failed(parameter: &str, why: &dyn fmt::Display) -> ErrorReply {
    ErrorReply::err(format!(
        "CONFIG SET failed (possibly related to argument '{parameter}') - {why}"
    ))
}

fn change(state: &ConnectionState, parameter: &Parameter, value: &[u8]) -> Result<(), NotSet> {
    match parameter.set {
        Some(set) => set(state, value),
        // To say what is already so changes nothing.
        None if (parameter.get)(state).as_bytes().eq_ignore_ascii_case(value) => Ok(()),
        None => Err(NotSet::Fixed),
    }
}
