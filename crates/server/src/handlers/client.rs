//! CLIENT: connections by name, and how they end.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::args::{not_integer, parse_integer, syntax_error},
};

use super::{help, integer, subcommand, text};
use crate::{
    clients::{Client, NAME_BYTES_MAX, Paused},
    commands,
    connection::state::{ConnectionState, Replies},
    security::user::kept_name,
};

/// Runs a subcommand that was checked.
///
/// # Errors
/// The refusal to answer with.
pub fn run(state: &mut ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let arg = |at| argv.get(at).unwrap_or_default();
    match &*subcommand(argv) {
        b"id" => Ok(Reply::Integer(i64::try_from(state.client.id).unwrap_or(i64::MAX))),
        b"getname" => {
            let name = state.client.names().name;
            Ok(if name.is_empty() { Reply::Nil } else { text(name) })
        }
        b"setname" => set_name(state, arg(2)).map(|()| Reply::OK),
        b"setinfo" => set_info(state, arg(2), arg(3)),
        b"info" => {
            note(state);
            Ok(Reply::Verbatim(format!("{}\n", state.client.line(Instant::now()))))
        }
        b"list" => {
            note(state);
            list(state, argv)
        }
        b"kill" => kill(state, argv),
        b"no-evict" => on_or_off(arg(2)).map(|_| Reply::OK),
        b"reply" => reply(state, arg(2)),
        b"pause" => pause(state, argv),
        b"unpause" => {
            state.shared.clients.unpause();
            Ok(Reply::OK)
        }
        _ => Ok(help(commands::find(b"client").map_or(&[], |entry| entry.spec.subcommands))),
    }
}

/// What the registry shows of this connection is otherwise noted after its batch.
fn note(state: &ConnectionState) {
    let noted = crate::clients::Noted {
        db: state.db,
        protocol: state.protocol.number(),
        queued: state.transaction.queued(),
        command: commands::find(b"client").map(|entry| entry.index),
    };
    state.client.note(Instant::now(), noted);
}

/// Names the connection; an empty name takes it away.
///
/// # Errors
/// A name with spaces or unprintable bytes, which would break CLIENT LIST, or one that is long.
pub fn set_name(state: &ConnectionState, name: &[u8]) -> Result<(), ErrorReply> {
    let name =
        printable(name, "Client names cannot contain spaces, newlines or special characters.")?;
    state.client.rename(|names| names.name = name);
    Ok(())
}

fn printable(name: &[u8], refusal: &'static str) -> Result<String, ErrorReply> {
    if name.len() > NAME_BYTES_MAX || !name.iter().all(u8::is_ascii_graphic) {
        return Err(ErrorReply::err(refusal));
    }
    Ok(String::from_utf8_lossy(name).into_owned())
}

fn set_info(state: &ConnectionState, attribute: &[u8], value: &[u8]) -> Result<Reply, ErrorReply> {
    let is_name = attribute.eq_ignore_ascii_case(b"lib-name");
    if !is_name && !attribute.eq_ignore_ascii_case(b"lib-ver") {
        let attribute = String::from_utf8_lossy(attribute);
        return Err(ErrorReply::err(format!("Unrecognized option '{attribute}'")));
    }
    let refusal = if is_name {
        "lib-name cannot contain spaces, newlines or special characters."
    } else {
        "lib-ver cannot contain spaces, newlines or special characters."
    };
    let value = printable(value, refusal)?;
    state.client.rename(|names| {
        *(if is_name { &mut names.library } else { &mut names.library_version }) = value;
    });
    Ok(Reply::OK)
}

fn on_or_off(word: &[u8]) -> Result<bool, ErrorReply> {
    match &*word.to_ascii_lowercase() {
        b"on" => Ok(true),
        b"off" => Ok(false),
        _ => Err(syntax_error()),
    }
}

fn reply(state: &mut ConnectionState, mode: &[u8]) -> Result<Reply, ErrorReply> {
    state.replies = match (&*mode.to_ascii_lowercase(), state.replies) {
        (b"on", _) => Replies::On,
        (b"off", _) => Replies::Off,
        // Neither this command's reply nor that of the next.
        (b"skip", Replies::On | Replies::Skip(_)) => Replies::Skip(2),
        (b"skip", Replies::Off) => Replies::Off,
        _ => return Err(syntax_error()),
    };
    Ok(Reply::OK)
}

/// PAUSE ms \[WRITE | ALL\], of this node's clients.
fn pause(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let what = match argv.get(3).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None | Some(b"all") => Paused::All,
        Some(b"write") => Paused::Writes,
        Some(_) => return Err(ErrorReply::err("CLIENT PAUSE mode must be WRITE or ALL")),
    };
    if argv.len() > 4 {
        return Err(syntax_error());
    }
    let ms = argv.get(2).and_then(parse_integer);
    let ms = ms.ok_or_else(|| ErrorReply::err("timeout is not an integer or out of range"))?;
    let ms = u64::try_from(ms).map_err(|_| ErrorReply::err("timeout is negative"))?;
    let until = Instant::now().checked_add(Duration::from_millis(ms));
    let until = until.ok_or_else(|| ErrorReply::err("timeout is out of range"))?;
    state.shared.clients.pause(until, what);
    Ok(Reply::OK)
}

fn list(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let mut clients = state.shared.clients.list();
    match argv.get(2).map(<[u8]>::to_ascii_lowercase).as_deref() {
        None => {}
        Some(b"type") if argv.len() == 4 => {
            let kind = argv.get(3).unwrap_or_default();
            clients.retain(|_| kind.eq_ignore_ascii_case(b"normal"));
            check_type(kind)?;
        }
        Some(b"id") if argv.len() >= 4 => {
            let ids: Vec<i64> =
                (3..argv.len()).map(|at| integer(argv, at)).collect::<Result<_, _>>()?;
            clients.retain(|client| ids.iter().any(|id| u64::try_from(*id) == Ok(client.id)));
        }
        Some(_) => return Err(syntax_error()),
    }
    let now = Instant::now();
    let lines: String = clients.iter().map(|client| format!("{}\n", client.line(now))).collect();
    Ok(Reply::Verbatim(lines))
}

fn check_type(kind: &[u8]) -> Result<(), ErrorReply> {
    match &*kind.to_ascii_lowercase() {
        b"normal" | b"master" | b"replica" | b"slave" | b"pubsub" => Ok(()),
        _ => {
            let kind = String::from_utf8_lossy(kind);
            Err(ErrorReply::err(format!("Unknown client type '{kind}'")))
        }
    }
}

/// Which connections CLIENT KILL means: those that pass all conditions.
#[derive(Default)]
struct Conditions {
    id: Option<u64>,
    remote: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
    /// No connection is of this type or user.
    nobody: bool,
    /// Whom it is logged in as.
    user: Option<String>,
    spares_self: bool,
}

impl Conditions {
    /// The options of the newer form: names and values take turns.
    fn parse(argv: &Argv) -> Result<Self, ErrorReply> {
        let mut this = Self { spares_self: true, ..Self::default() };
        for at in (2..argv.len()).step_by(2) {
            let value = argv.get(at + 1).ok_or_else(syntax_error)?;
            match &*argv.get(at).unwrap_or_default().to_ascii_lowercase() {
                b"id" => {
                    let id = parse_integer(value).ok_or_else(not_integer)?;
                    let id = u64::try_from(id).ok().filter(|id| *id > 0);
                    this.id =
                        Some(id.ok_or_else(|| {
                            ErrorReply::err("client-id should be greater than 0")
                        })?);
                }
                b"addr" => this.remote = Some(value.to_vec()),
                b"laddr" => this.local = Some(value.to_vec()),
                b"type" => {
                    check_type(value)?;
                    this.nobody |= !value.eq_ignore_ascii_case(b"normal");
                }
                b"user" => this.user = Some(String::from_utf8_lossy(value).into_owned()),
                b"skipme" => this.spares_self = yes_or_no(value)?,
                _ => return Err(syntax_error()),
            }
        }
        Ok(this)
    }

    fn hold(&self, client: &Client, own: &Arc<Client>) -> bool {
        let same = |wanted: &Option<Vec<u8>>, address: std::net::SocketAddr| {
            wanted.as_ref().is_none_or(|wanted| address.to_string().as_bytes() == wanted)
        };
        !self.nobody
            && self
                .user
                .as_ref()
                .is_none_or(|user| kept_name(client.names().user()) == kept_name(user))
            && self.id.is_none_or(|id| id == client.id)
            && same(&self.remote, client.remote)
            && same(&self.local, client.local)
            && !(self.spares_self && client.id == own.id)
    }
}

fn yes_or_no(word: &[u8]) -> Result<bool, ErrorReply> {
    match &*word.to_ascii_lowercase() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err(syntax_error()),
    }
}

fn kill(state: &mut ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let is_old_form = argv.len() == 3;
    let conditions = if is_old_form {
        Conditions { remote: argv.get(2).map(<[u8]>::to_vec), ..Conditions::default() }
    } else {
        Conditions::parse(argv)?
    };
    let clients = state.shared.clients.list();
    let mut count = 0;
    for client in clients.iter().filter(|client| conditions.hold(client, &state.client)) {
        if client.id == state.client.id {
            // Its own reply comes first.
            state.is_closing = true;
        } else {
            client.kill();
        }
        count += 1;
    }
    match (is_old_form, count) {
        (true, 0) => Err(ErrorReply::err("No such client")),
        (true, _) => Ok(Reply::OK),
        (false, count) => Ok(Reply::Integer(count)),
    }
}
