//! HELLO and AUTH: who the client is and which protocol it speaks.

use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::args::{parse_integer, syntax_error},
};

use super::{client, text};
use crate::{connection::state::ConnectionState, resp::Protocol};

/// The version of Redis that we say we are, for clients that choose commands by it. Hash fields
/// with an expiry came in 7.4, and HGETEX, HSETEX and HGETDEL with 7.9, the last before 8.0; both
/// families are here. 8.0 brought more that is not.
pub const REDIS_VERSION: &str = "7.9.0";

/// HELLO \[protocol \[AUTH user password\] \[SETNAME name\]\].
///
/// # Errors
/// Redis' refusals; nothing has changed then but the authentication.
pub async fn hello(state: &mut ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let protocol = match argv.get(1) {
        None => state.protocol,
        Some(version) => match parse_integer(version) {
            Some(2) => Protocol::Resp2,
            Some(3) => Protocol::Resp3,
            Some(_) => return Err(ErrorReply::named("NOPROTO", "unsupported protocol version")),
            None => {
                return Err(ErrorReply::err("Protocol version is not an integer or out of range"));
            }
        },
    };
    let mut name = None;
    let mut at = 2;
    while let Some(option) = argv.get(at) {
        let left = argv.len() - at - 1;
        if option.eq_ignore_ascii_case(b"auth") && left >= 2 {
            let arg = |at| argv.get(at).unwrap_or_default();
            state.log_in(Some(arg(at + 1)), arg(at + 2)).await?;
            at += 3;
        } else if option.eq_ignore_ascii_case(b"setname") && left >= 1 {
            name = argv.get(at + 1);
            at += 2;
        } else {
            let option = String::from_utf8_lossy(option);
            return Err(ErrorReply::err(format!("Syntax error in HELLO option '{option}'")));
        }
    }
    if !state.is_authenticated() {
        return Err(ErrorReply::named(
            "NOAUTH",
            "HELLO must be called with the client already authenticated, otherwise the HELLO \
             <proto> AUTH <user> <pass> option can be used to authenticate the client and select \
             the RESP protocol version at the same time",
        ));
    }
    if let Some(name) = name {
        client::set_name(state, name)?;
    }
    state.protocol = protocol;
    let id = i64::try_from(state.client.id).unwrap_or(i64::MAX);
    let pairs = [
        ("server", text("redis")),
        ("version", text(REDIS_VERSION)),
        ("proto", Reply::Integer(protocol.number().into())),
        ("id", Reply::Integer(id)),
        ("mode", text("standalone")),
        ("role", text("master")),
        ("modules", Reply::Array(Vec::new())),
    ];
    Ok(Reply::Map(pairs.into_iter().map(|(key, value)| (text(key), value)).collect()))
}

/// AUTH \[user\] password.
///
/// # Errors
/// Redis' refusals.
pub async fn auth(state: &mut ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let arg = |at| argv.get(at).unwrap_or_default();
    match argv.len() {
        2 => state.log_in(None, arg(1)).await?,
        3 => state.log_in(Some(arg(1)), arg(2)).await?,
        _ => return Err(syntax_error()),
    }
    Ok(Reply::OK)
}
