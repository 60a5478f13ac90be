//! What a connection is at this moment: its database, protocol, rights, transaction and the
//! replies that wait to be written. It reads and writes no socket.

use std::sync::Arc;

use bytes::BytesMut;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::{permission, transaction::Transaction};
use crate::{
    clients::Client,
    commands::{self, Entry},
    logins::Attempt,
    node::Shared,
    resp::Protocol,
    security::{
        Refused,
        audit::What,
        principal::{Principal, Via},
        user::DEFAULT,
    },
};

/// The setting of the port, as the log names it.
const PORT: &str = "resp.address";
/// The longest name of a user that is looked at, bytes.
const NAME_BYTES_MAX: usize = 512;

/// What a client is told that has not logged in.
pub(super) fn no_auth() -> ErrorReply {
    ErrorReply::named("NOAUTH", "Authentication required.")
}

/// What a client is told that is not there any more, or where that cannot be found out.
pub fn is_gone(why: Refused) -> ErrorReply {
    match why {
        Refused::Unheard => ErrorReply::err(why.to_string()),
        _ => no_auth(),
    }
}

/// Which replies the client wants to see, as CLIENT REPLY says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replies {
    /// All of them.
    On,
    /// None until it says otherwise.
    Off,
    /// Not those of so many commands.
    Skip(u8),
}

/// A command that waits for EXEC.
#[derive(Debug)]
pub struct Queued {
    /// What is known of it.
    pub entry: &'static Entry,
    /// Its arguments.
    pub argv: Argv,
}

/// A connection's state.
pub struct ConnectionState {
    /// What all connections share.
    pub shared: Arc<Shared>,
    /// What others see of this one.
    pub client: Arc<Client>,
    /// The database that commands mean.
    pub db: u32,
    /// How replies are written.
    pub protocol: Protocol,
    /// Who is at the other end; none: no command may run.
    pub principal: Option<Arc<Principal>>,
    /// Which users there were when that was found out.
    users_version: u64,
    /// Whether the last password that it showed was wrong.
    has_failed: bool,
    /// Which replies are written.
    pub replies: Replies,
    /// MULTI, WATCH and what came since.
    pub transaction: Transaction<Queued>,
    /// Whether the connection ends after what waits to be written.
    pub is_closing: bool,
    /// Replies that wait to be written.
    pub output: BytesMut,
}

impl ConnectionState {
    /// A connection that has said nothing yet.
    #[must_use]
    pub fn new(shared: Arc<Shared>, client: Arc<Client>) -> Self {
        Self {
            users_version: shared.security.version(),
            principal: shared.security.anonymous(),
            shared,
            client,
            has_failed: false,
            db: 0,
            protocol: Protocol::Resp2,
            replies: Replies::On,
            transaction: Transaction::default(),
            is_closing: false,
            output: BytesMut::new(),
        }
    }

    /// RESET: as if it had just connected.
    pub fn reset(&mut self) {
        self.become_whom(self.shared.security.anonymous());
        self.db = 0;
        self.protocol = Protocol::Resp2;
        self.replies = Replies::On;
        self.transaction = Transaction::default();
        self.client.rename(|names| names.name.clear());
    }

    /// Whether commands may run.
    #[must_use]
    pub fn is_authenticated(&self) -> bool {
        self.principal.is_some()
    }

    /// Goes on as somebody, or as nobody.
    pub fn become_whom(&mut self, principal: Option<Arc<Principal>>) {
        let name = principal.as_ref().map_or(DEFAULT, |principal| &principal.name);
        self.client.rename(|names| name.clone_into(&mut names.user));
        if principal.is_none() {
            self.transaction = Transaction::default();
        }
        self.principal = principal;
    }

    /// Takes over what became of whom it is since: other rights, or none. What was queued under those that it had
    /// runs no more.
    pub fn follow_users(&mut self) {
        let Some(principal) = &self.principal else { return };
        let security = &self.shared.security;
        let version = security.version();
        let is_unheard = principal.is_kept() && security.check_heard().is_err();
        if version == self.users_version && !is_unheard {
            return;
        }
        self.users_version = version;
        let again = security.again(principal).ok();
        if again.as_deref() == Some(&**principal) {
            return;
        }
        // Who came by a password that was changed goes on with what it had queued.
        if !again.as_ref().is_some_and(|again| again.may_the_same(principal)) {
            self.transaction.poison();
        }
        self.become_whom(again);
    }

    /// Who is at the other end.
    ///
    /// # Errors
    /// Where it has not logged in.
    pub fn known(&self) -> Result<&Arc<Principal>, ErrorReply> {
        self.principal.as_ref().ok_or_else(no_auth)
    }

    /// Looks whom the client is as the whole cluster knows now, and whether it may still run a command that operators
    /// run.
    ///
    /// # Errors
    /// Where it may not, or that cannot be found out.
    pub async fn confirm(&self, argv: &Argv) -> Result<(), ErrorReply> {
        let again = self.shared.security.confirm(self.known()?).await.map_err(is_gone)?;
        let entry = commands::find(&argv.get(0).unwrap_or_default().to_ascii_lowercase());
        entry.map_or(Ok(()), |entry| permission::check(&again, entry, argv, self.db))
    }

    /// Waits until a password for this user may be looked at: failed logins from the client's address slow those
    /// that follow.
    async fn attempt(&self, user: &[u8]) -> Result<Attempt, ErrorReply> {
        // Who logged in last as the same user is no guesser, unless it has another password by now.
        let is_same = |it: &Arc<Principal>| {
            it.via != Via::Anonymous
                && it.name.as_bytes() == user
                && self.shared.security.is_proven(it)
        };
        let (logins, from) = (&self.shared.logins, self.client.remote.ip());
        if !self.has_failed && self.principal.as_ref().is_some_and(is_same) {
            return Ok(logins.untaken(from, PORT));
        }
        logins.attempt(from, PORT).await.map_err(|wait| {
            ErrorReply::err(format!(
                "too many failed logins from this address; try again in {} s",
                wait.as_secs() + 1
            ))
        })
    }

    /// Logs the client in, or notes that it failed.
    ///
    /// # Errors
    /// Redis' refusals.
    pub async fn log_in(&mut self, user: Option<&[u8]>, password: &[u8]) -> Result<(), ErrorReply> {
        let shared = Arc::clone(&self.shared);
        if user.is_none() && shared.security.is_open() {
            return Err(ErrorReply::err(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        let user = user.unwrap_or(DEFAULT.as_bytes());
        let attempt = self.attempt(user).await?;
        let version = shared.security.version();
        let known = match std::str::from_utf8(user) {
            Ok(name) if name.len() <= NAME_BYTES_MAX => {
                shared.security.log_in(name, password).await
            }
            _ => Err(Refused::Unknown),
        };
        self.has_failed = known.is_err();
        match known {
            Ok(principal) => {
                attempt.passed();
                self.note(What::LoggedIn, &principal.named(), "AUTH".to_owned(), String::new());
                self.users_version = version;
                self.become_whom(Some(principal));
                Ok(())
            }
            Err(Refused::Unknown) => {
                // What comes from outside may be of any length.
                let name = String::from_utf8_lossy(&user[..user.len().min(NAME_BYTES_MAX)]);
                self.note(What::LoginFailed, &name, "AUTH".to_owned(), String::new());
                let words = "invalid username-password pair or user is disabled.";
                Err(ErrorReply::named("WRONGPASS", words))
            }
            Err(why) => {
                attempt.passed();
                Err(ErrorReply::err(why.to_string()))
            }
        }
    }

    /// Notes what happened, for whoever looks into the audit.
    pub fn note(&self, what: What, user: &str, request: String, detail: String) {
        self.shared.note(what, user, self.client.remote, request, detail);
    }

    /// Puts a reply behind those that wait, unless the client wants none.
    pub fn answer(&mut self, reply: &Reply) {
        match self.replies {
            Replies::On => self.protocol.encode(&mut self.output, reply),
            Replies::Off => {}
            Replies::Skip(0 | 1) => self.replies = Replies::On,
            Replies::Skip(left) => self.replies = Replies::Skip(left - 1),
        }
    }

    /// The same for a refusal of a command that did not run, which also spoils a transaction.
    pub fn refuse(&mut self, entry: Option<&Entry>, error: ErrorReply) {
        self.transaction.poison();
        self.shared.usage.rejected(entry.map(|entry| entry.index), &error);
        self.answer(&Reply::Error(error));
    }
}
