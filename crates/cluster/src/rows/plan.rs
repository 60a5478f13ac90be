//! What is to be done with a request, before anything is read: which partition it goes to, or why it is refused.

use std::sync::Arc;

use bytes::Bytes;
use plimsoll_storage::command::{self, Command, Spec};
use plimsoll_storage::operation::{Operation, cost};
use plimsoll_storage::{Argv, ErrorReply, Reply};

use super::Rows;
use super::scatter::{self, Route};
use super::slices::Slices;
use crate::replication::tables::Copies;
use crate::routing::unavailable;
use crate::wire::request::Request;

/// What is to be done with a request.
pub(crate) enum Plan<'a> {
    Reply(Reply),
    Read(Option<&'a Arc<Copies>>, Command<'a>, &'a Argv),
    Write(usize, Bytes),
    Sliced(usize, Slices, &'a Argv),
    Scatter(Command<'a>, &'a Argv),
}

impl Rows {
    pub(crate) fn plan<'a>(&'a self, db: u32, request: &'a Request) -> Plan<'a> {
        match request {
            Request::Command(argv) => match command::parse(argv) {
                Ok(command) => match self.refusal(command.spec(), argv) {
                    None => self.plan_command(db, command, argv),
                    Some(refusal) => Plan::Reply(refusal.into()),
                },
                Err(error) => Plan::Reply(error.into()),
            },
            Request::Transaction { watched, commands } => {
                let mut known =
                    commands.iter().filter_map(|argv| Some((command::lookup(argv).ok()?, argv)));
                if let Some(refusal) = known.find_map(|(spec, argv)| self.refusal(spec, argv)) {
                    return Plan::Reply(refusal.into());
                }
                let count = self.partition_count(db);
                let ordinal_of = |key: &[u8]| self.ordinal_of(db, key);
                match scatter::transaction_ordinal(db, watched, commands, count, ordinal_of) {
                    Ok(ordinal) => {
                        let payload = scatter::transaction(watched, commands);
                        match cost::check(&payload) {
                            Ok(()) => Plan::Write(ordinal, payload),
                            Err(error) => Plan::Reply(error.into()),
                        }
                    }
                    Err(error) => Plan::Reply(error.into()),
                }
            }
        }
    }

    /// Why no such command is taken now, whatever it asks for.
    fn refusal(&self, spec: &'static Spec, argv: &Argv) -> Option<ErrorReply> {
        let since = spec.since_with(argv);
        if !self.router.replication.version.allows(since) {
            let option = if since == spec.since { "" } else { " with such an option" };
            return Some(ErrorReply::err(format!(
                "'{}'{option} is refused until every node of the cluster knows it: it came with \
                 version {since} of the cluster",
                spec.name
            )));
        }
        if !(self.router.replication.is_room_low() && command::grows(spec, argv)) {
            return None;
        }
        // There may be room again meanwhile.
        let room = self.router.replication.room.check();
        Some(
            room.err()
                .unwrap_or_else(|| unavailable("the disk was nearly full; try again".to_owned())),
        )
    }

    fn plan_command<'a>(&'a self, db: u32, command: Command<'a>, argv: &'a Argv) -> Plan<'a> {
        let ordinal_of = |key: &[u8]| self.ordinal_of(db, key);
        match scatter::route(&command, self.partition_count(db), ordinal_of) {
            Route::One(ordinal) if command.is_write() => match self.slices(db, ordinal, &command) {
                Some(slices) => Plan::Sliced(ordinal, slices, argv),
                None => Plan::Write(ordinal, Operation::Command(argv.clone()).encode()),
            },
            Route::One(ordinal) => {
                Plan::Read(self.table(db).map(|table| &table.copies()[ordinal]), command, argv)
            }
            Route::Several => Plan::Scatter(command, argv),
            Route::Refused(error) => Plan::Reply(error.into()),
        }
    }
}
