//! What a connection is at this moment: its database, protocol, rights, transaction and the
//! replies that wait to be written. It reads and writes no socket.

use std::{sync::Arc, time::Instant};

use bytes::BytesMut;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::transaction::Transaction;
use crate::{clients::Client, commands::Entry, logins::Turn, node::Shared, resp::Protocol};

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
    /// Whether commands may run.
    pub is_authenticated: bool,
    /// When the password that comes next may be looked at.
    pub turn: Turn,
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
            is_authenticated: !shared.password.is_required(),
            shared,
            client,
            db: 0,
            protocol: Protocol::Resp2,
            turn: Turn::Now,
            replies: Replies::On,
            transaction: Transaction::default(),
            is_closing: false,
            output: BytesMut::new(),
        }
    }

    /// RESET: as if it had just connected.
    pub fn reset(&mut self) {
        self.is_authenticated = !self.shared.password.is_required();
        self.db = 0;
        self.protocol = Protocol::Resp2;
        self.replies = Replies::On;
        self.transaction = Transaction::default();
        self.client.rename(|names| names.name.clear());
    }

    /// Waits until a password may be looked at: failed logins from the client's address slow
    /// those that follow.
    ///
    /// # Errors
    /// Where too many wait already.
    pub async fn await_turn(&mut self) -> Result<(), ErrorReply> {
        // Who logged in before is no guesser.
        if self.is_authenticated || !self.shared.password.is_required() {
            return Ok(());
        }
        let from = self.client.remote.ip();
        self.turn = self.shared.logins.turn(from, Instant::now());
        match self.turn {
            Turn::Now => {}
            Turn::After(wait) => tokio::time::sleep(wait).await,
            Turn::Refused(wait) => {
                self.shared.logins.failed(from, self.turn, "resp.address", Instant::now());
                return Err(ErrorReply::err(format!(
                    "too many failed logins from this address; try again in {} s",
                    wait.as_secs() + 1
                )));
            }
        }
        Ok(())
    }

    /// Logs the client in, or notes that it failed.
    ///
    /// # Errors
    /// Redis' refusals.
    pub fn log_in(&mut self, user: Option<&[u8]>, password: &[u8]) -> Result<(), ErrorReply> {
        let turn = std::mem::replace(&mut self.turn, Turn::Now);
        let from = self.client.remote.ip();
        let checked = self.shared.password.check(user, password);
        if self.shared.password.is_required() {
            match checked {
                Ok(()) => self.shared.logins.passed(from, turn),
                Err(_) => self.shared.logins.failed(from, turn, "resp.address", Instant::now()),
            }
        }
        checked?;
        self.is_authenticated = true;
        Ok(())
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
