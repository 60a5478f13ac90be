//! Commands that concern more than one partition: where each goes, how it is split, and how the
//! answers become one. A table of one partition never comes here.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bytes::Bytes;
use plimsoll_control::Class;
use plimsoll_storage::command::{self, Command, Group};
use plimsoll_storage::operation::Operation;
use plimsoll_storage::rows::{RowsRead, StoreError};
use plimsoll_storage::{Argv, ErrorKind, ErrorReply, Reply};

use super::Rows;
use crate::Watched;
use crate::replication::lead::Step;
use crate::replication::reads::Reads;
use crate::replication::session::ClientSession;

/// Bits of a scan's cursor that belong to the partition; those above are its ordinal.
const CURSOR_BITS: u32 = 52;

/// Where a command goes.
pub(crate) enum Route {
    /// To the partition of this ordinal.
    One(usize),
    /// To more than one.
    Several,
    /// Nowhere: its keys would have to be changed together, but lie apart.
    Refused(ErrorReply),
}

/// Says where a command goes in a table of `count` partitions.
pub(crate) fn route(
    command: &Command<'_>,
    count: usize,
    ordinal_of: impl Fn(&[u8]) -> usize,
) -> Route {
    if count == 1 {
        return Route::One(0);
    }
    let mut ordinals = command.keys().map(ordinal_of);
    match ordinals.next() {
        None => Route::Several,
        Some(first) if ordinals.all(|ordinal| ordinal == first) => Route::One(first),
        Some(_) if is_splittable(command) => Route::Several,
        Some(_) => Route::Refused(cross_slot()),
    }
}

/// The one partition that a transaction concerns.
///
/// # Errors
/// Where its keys lie in several, or a command concerns all.
pub(crate) fn transaction_ordinal(
    db: u32,
    watched: &[Watched],
    commands: &[Argv],
    count: usize,
    ordinal_of: impl Fn(&[u8]) -> usize,
) -> Result<usize, ErrorReply> {
    if watched.iter().any(|watched| watched.db != db) {
        return Err(ErrorReply::new(
            ErrorKind::CrossesPartitions,
            "Watched keys lie in another database",
        ));
    }
    let mut found = None;
    for watched in watched {
        join(&mut found, ordinal_of(&watched.key))?;
    }
    for argv in commands {
        // What cannot be parsed fails at apply, in its place among the replies.
        let Ok(command) = command::parse(argv) else { continue };
        match route(&command, count, &ordinal_of) {
            Route::One(ordinal) => join(&mut found, ordinal)?,
            Route::Several => return Err(cross_slot()),
            Route::Refused(error) => return Err(error),
        }
    }
    Ok(found.unwrap_or(0))
}

fn join(found: &mut Option<usize>, ordinal: usize) -> Result<(), ErrorReply> {
    if *found.get_or_insert(ordinal) == ordinal { Ok(()) } else { Err(cross_slot()) }
}

/// A transaction's operation, encoded.
pub(crate) fn transaction(watched: &[Watched], commands: &[Argv]) -> Bytes {
    let watched = watched.iter().map(|watched| (watched.key.clone(), watched.change)).collect();
    Operation::Transaction { watched, commands: commands.to_vec() }.encode()
}

/// Whether a command reads at most the single row of one key.
pub(crate) fn reads_one_row(command: &Command<'_>) -> bool {
    command.spec().group == Group::String && command.keys().nth(1).is_none()
}

/// The key of a command that reads the rows of one alone.
pub(crate) fn only_key<'a>(command: &Command<'a>) -> Option<&'a [u8]> {
    let mut keys = command.keys();
    let key = keys.next()?;
    keys.next().is_none().then_some(key)
}

/// Whether a command reads few rows, all of given keys.
pub(crate) fn is_short_read(command: &Command<'_>) -> bool {
    command.spec().fast && command.keys().next().is_some()
}

/// What kind of work a command that reads is.
pub(crate) fn class_of(command: &Command<'_>) -> Class {
    if is_short_read(command) { Class::Get } else { Class::Scan }
}

fn is_splittable(command: &Command<'_>) -> bool {
    matches!(command.spec().name, "del" | "unlink" | "exists" | "touch" | "mget" | "mset")
}

fn cross_slot() -> ErrorReply {
    ErrorReply::new(ErrorKind::CrossesPartitions, "Keys in request don't hash to the same slot")
}

impl Rows {
    /// Carries out a command that concerns several partitions.
    pub(crate) async fn scatter(
        &self,
        session: &mut ClientSession,
        db: u32,
        command: &Command<'_>,
        argv: &Argv,
    ) -> Reply {
        let outcome = match command.spec().name {
            "scan" => self.scan(session.reads(), db, command, argv).await,
            "keys" => self.gather(session, db, argv).await.map(concatenated),
            "dbsize" => self.gather(session, db, argv).await.map(summed),
            "randomkey" => self
                .gather(session, db, argv)
                .await
                .map(|replies| any_key(replies, self.router.chance.next_u64())),
            "flushdb" => self.gather(session, db, argv).await.map(first_error_or_ok),
            "mget" => self.mget(session, db, argv).await,
            "mset" => self.split(session, db, argv, 2).await.map(first_error_or_ok),
            _ => self.split(session, db, argv, 1).await.map(summed),
        };
        outcome.unwrap_or_else(Reply::Error)
    }

    /// Asks every partition the same.
    async fn gather(
        &self,
        session: &mut ClientSession,
        db: u32,
        argv: &Argv,
    ) -> Result<Vec<Reply>, ErrorReply> {
        let each = (0..self.partition_count(db)).map(|ordinal| (ordinal, argv.clone()));
        self.ask_each(session, db, each.collect()).await
    }

    /// Asks each partition about its own keys of `argv`, whose arguments come `step` to a key.
    async fn split(
        &self,
        session: &mut ClientSession,
        db: u32,
        argv: &Argv,
        step: usize,
    ) -> Result<Vec<Reply>, ErrorReply> {
        let part = |(ordinal, positions): (usize, Vec<usize>)| {
            let arguments = positions.iter().flat_map(|at| *at..*at + step);
            let parts: Vec<&[u8]> =
                std::iter::once(0).chain(arguments).filter_map(|at| argv.get(at)).collect();
            (ordinal, Argv::of(&parts))
        };
        let each = self.positions(db, argv, step).into_iter().map(part).collect();
        self.ask_each(session, db, each).await
    }

    async fn mget(
        &self,
        session: &mut ClientSession,
        db: u32,
        argv: &Argv,
    ) -> Result<Reply, ErrorReply> {
        let positions = self.positions(db, argv, 1);
        let part = |(ordinal, positions): (&usize, &Vec<usize>)| {
            let keys = positions.iter().filter_map(|at| argv.get(*at));
            let parts: Vec<&[u8]> = std::iter::once(argv.name()).chain(keys).collect();
            (*ordinal, Argv::of(&parts))
        };
        let each = positions.iter().map(part).collect();
        let replies = self.ask_each(session, db, each).await?;
        let mut values = vec![Reply::Nil; argv.len() - 1];
        for (positions, reply) in positions.values().zip(replies) {
            match reply {
                Reply::Array(found) => {
                    for (at, value) in positions.iter().zip(found) {
                        values[*at - 1] = value;
                    }
                }
                Reply::Error(error) => return Err(error),
                other => return Ok(other),
            }
        }
        Ok(Reply::Array(values))
    }

    /// The positions of the keys in `argv` by the partition that each lies in.
    fn positions(&self, db: u32, argv: &Argv, step: usize) -> BTreeMap<usize, Vec<usize>> {
        let mut positions: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for at in (1..argv.len()).step_by(step) {
            if let Some(key) = argv.get(at) {
                positions.entry(self.ordinal_of(db, key)).or_default().push(at);
            }
        }
        positions
    }

    /// Asks one partition.
    pub(crate) async fn ask(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        argv: Argv,
    ) -> Result<Reply, ErrorReply> {
        let command = command::parse(&argv)?;
        if command.is_write() {
            let steps = vec![Step::Write(Operation::Command(argv.clone()).encode())];
            let replies = self.submit(session, db, ordinal, steps).await?;
            return Ok(replies.into_iter().next().unwrap_or(Reply::Nil));
        }
        let copies = self.table(db).and_then(|table| table.copies().get(ordinal));
        Ok(self.read(session.reads(), copies, &command, &argv).await)
    }

    /// Scans one partition after the other; the ordinal stands above the partition's cursor.
    async fn scan(
        &self,
        reads: &Reads,
        db: u32,
        command: &Command<'_>,
        argv: &Argv,
    ) -> Result<Reply, ErrorReply> {
        let cursor = command.scan_cursor().unwrap_or_default();
        let ordinal = usize::try_from(cursor >> CURSOR_BITS).unwrap_or(usize::MAX);
        let local = cursor & ((1 << CURSOR_BITS) - 1);
        let partitions = match self.table(db) {
            Some(table) => table.copies(),
            None => &[],
        };
        let end = Ok(Reply::Array(vec![Reply::bulk("0"), Reply::Array(Vec::new())]));
        let Some(copies) = partitions.get(ordinal) else { return end };
        let local = local.to_string();
        let parts = argv.iter().enumerate();
        let parts: Vec<&[u8]> =
            parts.map(|(at, part)| if at == 1 { local.as_bytes() } else { part }).collect();
        let argv = Argv::of(&parts);
        let command = command::parse(&argv)?;
        let mut page = match self.read(reads, Some(copies), &command, &argv).await {
            Reply::Array(page) => page,
            error => return Ok(error),
        };
        if let Some(Reply::Bulk(next)) = page.first_mut() {
            let local: u64 =
                std::str::from_utf8(next).ok().and_then(|s| s.parse().ok()).unwrap_or(0);
            let ordinal = if local == 0 { ordinal + 1 } else { ordinal };
            let is_end = ordinal == partitions.len();
            let cursor = if is_end { 0 } else { ((ordinal as u64) << CURSOR_BITS) | local };
            *next = cursor.to_string().into();
        }
        Ok(Reply::Array(page))
    }
}

fn summed(replies: Vec<Reply>) -> Reply {
    let mut sum = 0;
    for reply in replies {
        match reply {
            Reply::Integer(number) => sum += number,
            other => return other,
        }
    }
    Reply::Integer(sum)
}

fn concatenated(replies: Vec<Reply>) -> Reply {
    let mut items = Vec::new();
    for reply in replies {
        match reply {
            Reply::Array(more) => items.extend(more),
            other => return other,
        }
    }
    Reply::Array(items)
}

/// One of the partitions' random keys, drawn so that a full partition is not always the first.
fn any_key(mut replies: Vec<Reply>, drawn: u64) -> Reply {
    replies.retain(|reply| *reply != Reply::Nil);
    let at = drawn % (replies.len() as u64).max(1);
    usize::try_from(at).ok().and_then(|at| replies.into_iter().nth(at)).unwrap_or(Reply::Nil)
}

fn first_error_or_ok(replies: Vec<Reply>) -> Reply {
    replies.into_iter().find(|reply| matches!(reply, Reply::Error(_))).unwrap_or(Reply::OK)
}

/// The rows of a table that does not exist.
pub(crate) struct NoRows;

impl RowsRead for NoRows {
    fn get(&self, _key: &[u8]) -> Result<Option<Bytes>, StoreError> {
        Ok(None)
    }

    fn scan(
        &self,
        _from: &[u8],
        _to: &[u8],
        _visit: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        Ok(())
    }
}
