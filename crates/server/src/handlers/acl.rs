//! ACL: users in Redis' words. They are the same users as REST's; what Redis' rules cannot say of one, its roles,
//! stays as it is.

use std::collections::BTreeSet;

use plimsoll_storage::{
    Argv, ErrorReply, Reply,
    command::args::{parse_integer, syntax_error},
};

use super::{help, subcommand, text};
use crate::{
    commands,
    connection::{
        permission,
        state::{ConnectionState, is_gone},
    },
    listen::check_exposure,
    node::unix_ms,
    security::{
        Security,
        acl::{self, Acl, RULES_MAX},
        audit::{Event, What},
        changes::ChangeError,
        faults::Fault,
        role::check_name,
        user::{DEFAULT, PASSWORDS_MAX, User, kept_name},
    },
    settings::{PASSWORD_BYTES_MAX, Settings},
};

/// Rules of one ACL SETUSER, at most: each is held against those before it.
const MODIFIERS_MAX: usize = 4 * RULES_MAX;
/// Entries of ACL LOG where it is not said how many.
const LOG_COUNT: i64 = 10;
/// Bits of ACL GENPASS where it is not said how many, and the most.
const PASSWORD_BITS: i64 = 256;
const PASSWORD_BITS_MAX: i64 = 4096;

/// Whether it changes users.
#[must_use]
pub fn is_change(argv: &Argv) -> bool {
    [&b"setuser"[..], b"deluser"].contains(&&*subcommand(argv))
}

/// Runs a subcommand that was checked.
///
/// # Errors
/// The refusal to answer with.
pub async fn run(state: &mut ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let arg = |at| String::from_utf8_lossy(argv.get(at).unwrap_or_default()).into_owned();
    let security = &state.shared.security;
    match &*subcommand(argv) {
        b"whoami" => {
            let name = state.principal.as_ref().map_or(DEFAULT, |principal| &principal.name);
            Ok(text(name))
        }
        b"users" => {
            let directory = security.directory();
            Ok(Reply::Array(directory.users().map(|user| text(&*user.name)).collect()))
        }
        b"list" => {
            let directory = security.directory();
            Ok(Reply::Array(directory.users().map(|user| text(line(user, security))).collect()))
        }
        b"getuser" => {
            Ok(security.directory().user(&arg(2)).map_or(Reply::Nil, |it| shown(it, security)))
        }
        b"setuser" => set_user(state, argv).await,
        b"deluser" => delete_users(state, argv).await,
        b"cat" => categories(argv),
        b"log" => log(security, argv),
        b"dryrun" => dry_run(state, argv),
        b"genpass" => generate(security, argv),
        b"load" | b"save" => Err(ErrorReply::err(
            "This instance is not configured to use an ACL file: users are kept in the cluster's metadata",
        )),
        _ => Ok(help(commands::find(b"acl").map_or(&[], |entry| entry.spec.subcommands))),
    }
}

/// What a user may do by the rules that it has; none where its roles decide.
fn rules_of(user: &User) -> Option<Acl> {
    let rules = user.acl.as_ref()?;
    Some(Acl::parse(rules.iter().map(String::as_str)).unwrap_or_else(|_| Acl::nothing()))
}

fn flags(user: &User, security: &Security) -> Vec<&'static str> {
    let mut flags = vec![if user.enabled { "on" } else { "off" }];
    if user.name == DEFAULT && security.is_open() {
        flags.push("nopass");
    }
    flags
}

/// A user as ACL LIST shows it. Hashes of passwords are shown to nobody.
fn line(user: &User, security: &Security) -> String {
    let mut words = vec!["user".to_owned(), user.name.clone()];
    words.extend(flags(user, security).into_iter().map(str::to_owned));
    match rules_of(user) {
        Some(acl) => words.extend(acl.rules()),
        None => words.push(format!("roles={}", user.roles.join(","))),
    }
    words.join(" ")
}

/// A user as ACL GETUSER shows it.
fn shown(user: &User, security: &Security) -> Reply {
    let texts = |words: Vec<&str>| Reply::Array(words.into_iter().map(text).collect());
    let acl = rules_of(user);
    let of = |show: fn(&Acl) -> String| text(acl.as_ref().map_or_else(String::new, show));
    let pairs = [
        ("flags", texts(flags(user, security))),
        // How many there are.
        ("passwords", texts(user.passwords.iter().map(|_| "argon2id").collect())),
        ("commands", of(Acl::commands_text)),
        ("keys", of(Acl::keys_text)),
        ("channels", text("")),
        ("databases", of(Acl::databases_text)),
        ("selectors", Reply::Array(Vec::new())),
        ("roles", texts(user.roles.iter().map(String::as_str).collect())),
    ];
    Reply::Map(pairs.into_iter().map(|(key, value)| (text(key), value)).collect())
}

/// What ACL SETUSER asks for, in order, once passwords are hashed.
#[derive(Clone)]
enum Change {
    Enable(bool),
    AddPassword(String),
    RemovePassword(Vec<String>),
    ResetPasswords,
    NoPassword,
    Reset,
    Rule(String),
}

async fn set_user(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let security = &state.shared.security;
    let name = utf8(argv, 2)?;
    check_name("User", name).map_err(|fault| ErrorReply::err(fault.0))?;
    if name.contains(' ') {
        return Err(ErrorReply::err("Usernames can't contain spaces or null characters"));
    }
    let kept = kept_name(name);
    if argv.len() - 3 > MODIFIERS_MAX {
        return Err(ErrorReply::err(format!(
            "ACL SETUSER takes at most {MODIFIERS_MAX} rules at once"
        )));
    }
    // Each is hashed before the user is changed.
    let new = argv.iter().skip(3).filter(|rule| rule.starts_with(b">"));
    if new.collect::<BTreeSet<_>>().len() > PASSWORDS_MAX {
        return Err(ErrorReply::err(format!("a user has at most {PASSWORDS_MAX} passwords")));
    }
    let mut changes: Vec<Option<Change>> = Vec::new();
    if argv.iter().skip(3).any(|rule| rule.starts_with(b"<") || rule.starts_with(b">")) {
        // Passwords are compared with those that there are.
        security.hear().await.map_err(is_gone)?;
    }
    for at in 3..argv.len() {
        let rule = utf8(argv, at)?;
        // A password that is said twice is the same: each hash of it is another.
        let said = (3..at).find(|earlier| argv.get(*earlier) == argv.get(at));
        if let Some(change) = said.and_then(|earlier| changes.get(earlier - 3)).cloned() {
            changes.push(change);
            continue;
        }
        let change = read_rule(state, kept, rule).await;
        changes.push(change.map_err(|why| {
            let shown = if rule.starts_with(['>', '<']) { &rule[..1] } else { rule };
            ErrorReply::err(format!("Error in ACL SETUSER modifier '{shown}': {why}"))
        })?);
    }
    let changing = security.changing(state.known()?);
    let changed = changing.change_user(kept, |before| {
        let mut user = before.unwrap_or_else(|| User {
            enabled: false,
            acl: Some(Vec::new()),
            ..User::new(kept)
        });
        let had_password = !user.passwords.is_empty();
        for change in changes.iter().flatten() {
            apply(&mut user, change)?;
        }
        let opens = kept == DEFAULT && had_password && user.passwords.is_empty();
        if opens && !changes.iter().flatten().any(|change| matches!(change, Change::NoPassword)) {
            return Err(Fault("default would let everybody in: say nopass".to_owned()));
        }
        Ok((Some(user), ()))
    });
    changed.await.map_err(|error| failed(&error))?;
    Ok(Reply::OK)
}

/// What one rule asks for.
async fn read_rule(
    state: &ConnectionState,
    kept: &str,
    rule: &str,
) -> Result<Option<Change>, Fault> {
    let security = &state.shared.security;
    let unknown = |error: ChangeError| Fault(error.to_string());
    if let Some(password) = rule.strip_prefix('>') {
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return Err(Fault(format!("a password has 1 to {PASSWORD_BYTES_MAX} bytes")));
        }
        // One that there is already stays what it is.
        let fitting = security.fitting(kept, password.as_bytes()).await;
        if let Some(hash) = fitting.map_err(unknown)?.into_iter().next() {
            return Ok(Some(Change::AddPassword(hash)));
        }
        let hash = security.hash(password.to_owned()).await.map_err(unknown)?;
        return Ok(Some(Change::AddPassword(hash)));
    }
    if let Some(password) = rule.strip_prefix('<') {
        let hashes = security.fitting(kept, password.as_bytes()).await.map_err(unknown)?;
        if hashes.is_empty() {
            let words = "The password you are trying to remove from the user does not exist";
            return Err(words.into());
        }
        return Ok(Some(Change::RemovePassword(hashes)));
    }
    if rule.starts_with(['#', '!']) {
        return Err("hashes of passwords are not taken: they are kept as argon2id".into());
    }
    match rule.to_ascii_lowercase().as_str() {
        "on" => Ok(Some(Change::Enable(true))),
        "off" => Ok(Some(Change::Enable(false))),
        "resetpass" => Ok(Some(Change::ResetPasswords)),
        "reset" => Ok(Some(Change::Reset)),
        "nopass" if kept == DEFAULT => {
            // As at the start: without a password only this machine may reach the ports.
            let open = Settings {
                password: None,
                security_enabled: false,
                ..state.shared.settings.clone()
            };
            check_exposure(&open).map_err(|error| Fault(error.to_string()))?;
            Ok(Some(Change::NoPassword))
        }
        "nopass" => Err("a user without a password would let everybody in".into()),
        // There are no selectors, and payloads are looked at always.
        "clearselectors" | "sanitize-payload" => Ok(None),
        _ => Ok(Some(Change::Rule(rule.to_owned()))),
    }
}

fn apply(user: &mut User, change: &Change) -> Result<(), Fault> {
    match change {
        Change::Enable(enabled) => user.enabled = *enabled,
        Change::AddPassword(hash) if user.passwords.contains(hash) => {}
        Change::AddPassword(hash) => {
            if user.passwords.len() >= PASSWORDS_MAX {
                return Err(Fault(format!(
                    "a user has at most {PASSWORDS_MAX} passwords: take one away first (resetpass, <old)"
                )));
            }
            user.passwords.push(hash.clone());
        }
        Change::RemovePassword(hashes) => {
            let before = user.passwords.len();
            user.passwords.retain(|it| !hashes.contains(it));
            if user.passwords.len() == before {
                let words = "the passwords of the user are changed at the same time: come again";
                return Err(words.into());
            }
        }
        Change::ResetPasswords | Change::NoPassword => user.passwords.clear(),
        Change::Reset => {
            user.passwords.clear();
            user.enabled = false;
            user.acl = Some(Vec::new());
        }
        Change::Rule(rule) => {
            let mut acl = match rules_of(user) {
                Some(acl) => acl,
                // Whose roles allow everything goes on from there.
                None if user.name == DEFAULT => Acl::everything(),
                None => Acl::nothing(),
            };
            acl.apply(rule).map_err(|error| {
                Fault(format!("Error in ACL SETUSER modifier '{rule}': {error}"))
            })?;
            user.acl = Some(acl.rules());
        }
    }
    Ok(())
}

async fn delete_users(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let changing = state.shared.security.changing(state.known()?);
    let mut deleted = 0;
    for at in 2..argv.len() {
        let name = utf8(argv, at)?;
        if kept_name(name) == DEFAULT {
            return Err(ErrorReply::err("The 'default' user cannot be removed"));
        }
        deleted += i64::from(changing.delete_user(name).await.map_err(|error| failed(&error))?);
    }
    Ok(Reply::Integer(deleted))
}

/// What a client is told where a change was not made.
pub fn failed(error: &ChangeError) -> ErrorReply {
    match error {
        ChangeError::Refused(why) => is_gone(*why),
        ChangeError::OtherRights => ErrorReply::named("NOPERM", error.to_string()),
        _ => ErrorReply::err(error.to_string()),
    }
}

fn utf8(argv: &Argv, at: usize) -> Result<&str, ErrorReply> {
    std::str::from_utf8(argv.get(at).unwrap_or_default()).map_err(|_| syntax_error())
}

fn categories(argv: &Argv) -> Result<Reply, ErrorReply> {
    let texts = |names: Vec<&str>| Reply::Array(names.into_iter().map(text).collect());
    match argv.len() {
        2 => Ok(texts(acl::categories().collect())),
        3 => {
            let category = utf8(argv, 2)?;
            let found = acl::commands_of(category).map(texts);
            found.ok_or_else(|| ErrorReply::err(format!("Unknown category '{category}'")))
        }
        _ => Err(syntax_error()),
    }
}

fn log(security: &Security, argv: &Argv) -> Result<Reply, ErrorReply> {
    let count = match argv.get(2) {
        Some(word) if word.eq_ignore_ascii_case(b"reset") => {
            security.audit.forget_refusals();
            return Ok(Reply::OK);
        }
        Some(word) => parse_integer(word).ok_or_else(syntax_error)?,
        None => LOG_COUNT,
    };
    let refusals = security.audit.refusals().into_iter();
    let count = usize::try_from(count).unwrap_or(0);
    let now_ms = unix_ms();
    Ok(Reply::Array(refusals.take(count).map(|event| entry(&event, now_ms)).collect()))
}

fn entry(event: &Event, now_ms: u64) -> Reply {
    let at_ms = i64::try_from(event.at_ms).unwrap_or(i64::MAX);
    let age_ms = now_ms.saturating_sub(event.at_ms);
    let pairs = [
        ("count", Reply::Integer(1)),
        ("reason", text(if event.what == What::LoginFailed { "auth" } else { "command" })),
        ("context", text("toplevel")),
        ("object", text(&*event.request)),
        ("username", text(&*event.user)),
        ("age-seconds", text(format!("{}.{:03}", age_ms / 1000, age_ms % 1000))),
        ("client-info", text(format!("addr={}", event.origin))),
        ("entry-id", Reply::Integer(at_ms)),
        ("timestamp-created", Reply::Integer(at_ms)),
        ("timestamp-last-updated", Reply::Integer(at_ms)),
    ];
    Reply::Map(pairs.into_iter().map(|(key, value)| (text(key), value)).collect())
}

fn dry_run(state: &ConnectionState, argv: &Argv) -> Result<Reply, ErrorReply> {
    let name = utf8(argv, 2)?;
    let directory = state.shared.security.directory();
    let unknown = || ErrorReply::err(format!("User '{name}' not found"));
    directory.user(name).ok_or_else(unknown)?;
    let tried = Argv::of(&(3..argv.len()).filter_map(|at| argv.get(at)).collect::<Vec<_>>());
    let entry = commands::find(tried.name()).ok_or_else(|| {
        ErrorReply::err(format!("Command '{}' not found", String::from_utf8_lossy(tried.name())))
    })?;
    entry.spec.check(&tried)?;
    // Who may not log in runs nothing.
    let Some(principal) = directory.named(kept_name(name)) else {
        return Ok(text(format!("User {name} is disabled")));
    };
    match permission::check(principal, entry, &tried, state.db) {
        _ if entry.is_open_to_all() => Ok(Reply::OK),
        Ok(()) => Ok(Reply::OK),
        Err(error) => Ok(text(error.message)),
    }
}

fn generate(security: &Security, argv: &Argv) -> Result<Reply, ErrorReply> {
    let refused = || {
        ErrorReply::err(format!(
            "ACL GENPASS argument must be the number of bits for the output password, a positive number up to \
             {PASSWORD_BITS_MAX}"
        ))
    };
    let bits = argv.get(2).map_or(Some(PASSWORD_BITS), parse_integer);
    let bits = bits.filter(|bits| (1..=PASSWORD_BITS_MAX).contains(bits)).ok_or_else(refused)?;
    let digits = usize::try_from((bits + 3) / 4).map_err(|_| refused())?;
    let mut drawn = vec![0; digits.div_ceil(2)];
    security.draw(&mut drawn).map_err(|error| ErrorReply::err(error.to_string()))?;
    let mut word: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
    word.truncate(digits);
    Ok(text(word))
}
