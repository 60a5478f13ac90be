//! Reads of one partition: from this node's copy, from memory where that is little, or from another's.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytes::Bytes;
use plimsoll_control::Class;
use plimsoll_log::Lsn;
use plimsoll_memory::{Account, Standing, Stop, TaskAction};
use plimsoll_storage::command::{self, Command};
use plimsoll_storage::execute;
use plimsoll_storage::operation::decode_reply;
use plimsoll_storage::partition::CachedKey;
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::rows::key::order_hash;
use plimsoll_storage::rows::metered::{Grant, Metered};
use plimsoll_storage::{Argv, ErrorKind, ErrorReply, Reply};

use super::{Rows, context, scatter, store_failed};
use crate::replication::partition::Partition;
use crate::replication::reads::Reads;
use crate::replication::tables::Copies;
use crate::routing::file_reads::{Extent, Patience};
use crate::routing::read_rows::{Found, RowsRead};
use crate::routing::unavailable;
use crate::wire::request::{Preference, Watched};
use crate::wire::{self, Freshness, Problem, Question};

/// What a read may hold on a thread that serves many connections, and for no account, bytes.
const SMALL_ANSWER_BYTES: usize = 1 << 20;
/// Beyond this a read lets others of its thread go first, bytes that it went through.
const SHORT_WORK_BYTES: usize = 64 << 10;
/// A larger read asks its account each time it is about to hold so much more, bytes.
const ASKED_AT_ONCE_BYTES: usize = 256 << 10;

impl Rows {
    /// Notes a key's last change, for a transaction that is to run only if there is no later one.
    ///
    /// # Errors
    /// Where the row cannot be read.
    pub(crate) async fn watch(&self, db: u32, key: Bytes) -> Result<Watched, ErrorReply> {
        let Some(table) = self.router.tables.get(db) else {
            return Ok(Watched { db, key, change: execute::NEVER_THERE });
        };
        let copies = &table.copies()[table.ordinal_of(&key)];
        let (partition, freshness) = (copies.id.into(), Freshness::Strong);
        let question = Question::LastChange { partition, key: key.to_vec(), freshness };
        let preference = Preference::Best;
        let read = RowsRead { copies, class: Class::Get, freshness, preference, question };
        let here = |partition| {
            let key = key.clone();
            async move { self.last_change(&partition, key).await }
        };
        let change = match self.router.read_rows(&read, here).await {
            Ok(Found::Here(change)) => change?,
            Ok(Found::There(wire::Reply::LastChange(change))) => change,
            Ok(Found::There(reply)) => return Err(problem(reply)),
            Err(error) => return Err(unavailable(error.reason)),
        };
        Ok(Watched { db, key, change })
    }

    /// A key's last change in this node's copy.
    pub(crate) async fn last_change(
        &self,
        partition: &Arc<Partition>,
        key: Bytes,
    ) -> Result<u64, ErrorReply> {
        let now_ms = partition.read_time_ms();
        let change = match execute::last_change(&partition.store.cached_row(), &key, now_ms) {
            Err(StoreError::NotCached) => {
                let store = partition.store.clone();
                let read = move || execute::last_change(&store, &key, now_ms);
                self.router.file_reads.run(Extent::Few, read).await
            }
            outcome => outcome,
        };
        change.map_err(store_failed)
    }

    /// Reads one partition; none is an empty one.
    pub(crate) async fn read(
        &self,
        reads: &Reads,
        copies: Option<&Arc<Copies>>,
        command: &Command<'_>,
        argv: &Argv,
    ) -> Reply {
        let Some(copies) = copies else {
            let context = self.read_context(None);
            return execute::read(command, &scatter::NoRows, &context).unwrap_or_else(failed);
        };
        if self.router.replication.is_alone
            && let Some(partition) = copies.local()
        {
            let (reply, account) =
                self.read_local(&partition, command, argv, &reads.is_large).await;
            reads.hold(account);
            return reply;
        }
        let freshness = reads.freshness(copies.group);
        let (partition, argv_bytes) = (copies.id.into(), argv.iter().map(<[u8]>::to_vec).collect());
        let question = Question::Read { partition, argv: argv_bytes, freshness };
        let class = scatter::class_of(command);
        // The copy that gave a cursor of a large hash out knows its place without looking.
        let preference = match command.spec().name {
            "hscan" => {
                argv.get(1).map_or(Preference::Best, |key| Preference::Same(order_hash(key)))
            }
            _ => Preference::Best,
        };
        let read = RowsRead { copies, class, freshness, preference, question };
        let here = |partition| async move {
            self.read_local(&partition, command, argv, &reads.is_large).await
        };
        match self.router.read_rows(&read, here).await {
            Ok(Found::Here((reply, account))) => {
                reads.hold(account);
                reads.saw(copies.group, self.router.replication.seen(copies.group));
                reply
            }
            Ok(Found::There(wire::Reply::Replies { replies, seen })) => {
                reads.saw(copies.group, Lsn(seen));
                let reply = replies.into_iter().next().map(|it| decode_reply(&it.into()));
                reply.and_then(Result::ok).unwrap_or_else(|| unreadable().into())
            }
            Ok(Found::There(reply)) => problem(reply).into(),
            Err(error) => unavailable(error.reason).into(),
        }
    }

    /// Reads this node's copy as it is. A large answer comes with the account that it is charged to,
    /// to be kept as long as the answer. `is_large`: see [`Reads::is_large`].
    pub(crate) async fn read_local(
        &self,
        partition: &Arc<Partition>,
        command: &Command<'_>,
        argv: &Argv,
        is_large: &AtomicBool,
    ) -> (Reply, Option<Account>) {
        let (found, work_bytes) = self.read_cached(partition, command);
        match found {
            Ok(reply) => {
                // Many in one pipeline hold up everybody else on this thread, otherwise.
                if work_bytes > SHORT_WORK_BYTES {
                    tokio::task::yield_now().await;
                }
                (reply, None)
            }
            Err(StoreError::NotCached) => {
                let extent = match scatter::is_short_read(command) {
                    true => Extent::Few,
                    false => Extent::Many,
                };
                self.read_blocking(partition, argv, extent, is_large).await
            }
            Err(error) => {
                partition.note(&error);
                (failed(error), None)
            }
        }
    }

    /// Reads what is in memory and small, and says how many bytes that went through.
    fn read_cached(
        &self,
        partition: &Arc<Partition>,
        command: &Command<'_>,
    ) -> (Result<Reply, StoreError>, usize) {
        let context = self.read_context(Some(partition));
        let store = &partition.store;
        let held = Cell::new(0usize);
        let grant = |bytes: usize| {
            held.set(held.get().saturating_add(bytes));
            if held.get() > SMALL_ANSWER_BYTES { Err(StoreError::NotCached) } else { Ok(()) }
        };
        // What is not fast may look at every byte, and others of this thread wait.
        let bytes_max = if command.spec().fast { usize::MAX } else { SMALL_ANSWER_BYTES };
        if scatter::reads_one_row(command) {
            let rows = store.cached_row();
            let rows = Metered::new(&rows, &grant).with_values_up_to(bytes_max);
            let found = execute::read(command, &rows, &context);
            return (found, rows.worked_bytes());
        }
        if let Some(found) = self.read_cached_key(partition, command, &grant, bytes_max) {
            return found;
        }
        held.set(0);
        let rows = match store.cached() {
            Ok(rows) => rows,
            Err(error) => return (Err(error), 0),
        };
        let rows = Metered::new(&rows, &grant)
            .with_values_up_to(bytes_max)
            .with_work_up_to(SMALL_ANSWER_BYTES);
        let found = execute::read(command, &rows, &context);
        (found, rows.worked_bytes().max(held.get()))
    }

    /// The same of a command that reads the rows of one key; none where that is to be read of one state of
    /// the store.
    fn read_cached_key(
        &self,
        partition: &Arc<Partition>,
        command: &Command<'_>,
        grant: Grant<'_>,
        bytes_max: usize,
    ) -> Option<(Result<Reply, StoreError>, usize)> {
        let key = scatter::only_key(command)?;
        let rows = CachedKey::new(&partition.store, key).ok()?;
        let metered = Metered::new(&rows, grant)
            .with_values_up_to(bytes_max)
            .with_work_up_to(SMALL_ANSWER_BYTES);
        let found = execute::read(command, &metered, &self.read_context(Some(partition)));
        let is_answer = !matches!(found, Err(StoreError::NotCached)) && rows.is_still();
        is_answer.then(|| (found, metered.worked_bytes()))
    }

    /// Reads where that may take long. A try that comes to more than its threads are for, or that finds no room for
    /// what it reads, is dropped and begun anew among the large ones. `is_large` says of a client whether it asked
    /// for much the last time: then nobody else waits for the first try.
    async fn read_blocking(
        &self,
        partition: &Arc<Partition>,
        argv: &Argv,
        extent: Extent,
        is_large: &AtomicBool,
    ) -> (Reply, Option<Account>) {
        // What does not come from memory may be large: it is a request of its own.
        let account = Account::open(TaskAction {
            name: "resp:read",
            description: String::from_utf8_lossy(argv.name()).into_owned(),
            standing: Standing::Read,
            opaque_id: None,
        });
        let mut extent = if is_large.load(Relaxed) { Extent::Large } else { extent };
        let mut patience = Patience::default();
        loop {
            let attempt = self.attempt(partition, argv, (extent, patience.is_over()), &account);
            let outcome = self.router.file_reads.run(extent, attempt).await;
            if let Some(stop) = account.stop_reason() {
                return (Reply::Error(out_of_memory(&stop)), None);
            }
            match outcome {
                Ok(Attempt::Done(reply)) => {
                    let was_large = account.bytes() > SMALL_ANSWER_BYTES as u64;
                    is_large.store(was_large, Relaxed);
                    return (reply, Some(account));
                }
                Ok(Attempt::TooLarge) => {}
                Ok(Attempt::NoRoom { bytes }) => {
                    is_large.store(true, Relaxed);
                    let room = self.router.file_reads.room(&account, bytes, &mut patience);
                    if let Err(stop) = room.await {
                        return (Reply::Error(out_of_memory(&stop)), None);
                    }
                }
                Err(error) => {
                    partition.note(&error);
                    return (failed(error), None);
                }
            }
            extent = Extent::Large;
        }
    }

    /// One try of a read, on a thread of its kind; the last one does not look for room any more, it is refused.
    fn attempt(
        &self,
        partition: &Arc<Partition>,
        argv: &Argv,
        (extent, is_last): (Extent, bool),
        account: &Account,
    ) -> impl FnOnce() -> Result<Attempt, StoreError> + Send + 'static {
        let (router, cursors) = (Arc::clone(&self.router), Arc::clone(&self.cursors));
        let (partition, argv, account) = (Arc::clone(partition), argv.clone(), account.clone());
        let work_bytes_max = if extent == Extent::Large { usize::MAX } else { SMALL_ANSWER_BYTES };
        let read = move |asker: &Account| {
            let command = match command::parse(&argv) {
                Ok(command) => command,
                Err(error) => return Ok(Attempt::Done(Reply::Error(error))),
            };
            let context = context(&router, &cursors, Some(&partition));
            let (unasked, refused) = (Cell::new(0usize), Cell::new(None));
            let grant = |bytes: usize| {
                unasked.set(unasked.get().saturating_add(bytes));
                if unasked.get() < ASKED_AT_ONCE_BYTES {
                    return Ok(());
                }
                let bytes = unasked.replace(0) as u64;
                match asker.try_ask(bytes) {
                    Ok(false) if is_last => asker.stop_waiting(bytes),
                    Ok(false) => {
                        refused.set(Some(bytes));
                        return Err(StoreError::NotCached);
                    }
                    asked => asked.map(drop),
                }
                .map_err(|stop| StoreError::Refused(out_of_memory(&stop)))
            };
            let rows = partition.store.snapshot()?;
            let rows = Metered::new(&rows, &grant).with_work_up_to(work_bytes_max);
            match (execute::read(&command, &rows, &context), refused.get()) {
                (Ok(reply), _) => Ok(Attempt::Done(reply)),
                (Err(StoreError::NotCached), Some(bytes)) => Ok(Attempt::NoRoom { bytes }),
                (Err(StoreError::NotCached), None) => Ok(Attempt::TooLarge),
                (Err(error), _) => Err(error),
            }
        };
        move || account.work(|| read(&account))
    }
}

/// What a try to read comes to.
enum Attempt {
    Done(Reply),
    /// To more work than its threads are for.
    TooLarge,
    /// Others have to give so many bytes back first.
    NoRoom {
        bytes: u64,
    },
}

/// What a command is answered that had to stop.
fn out_of_memory(stop: &Stop) -> ErrorReply {
    match stop {
        Stop::Tripped(trip) => ErrorReply::new(ErrorKind::OutOfMemory, trip.to_string()),
        Stop::Cancelled(why) => ErrorReply::err(format!("the command was cancelled: {why}")),
    }
}

/// What another node says instead of an answer.
fn problem(reply: wire::Reply) -> ErrorReply {
    match reply {
        wire::Reply::Problem(Problem::Row { kind, message }) => ErrorReply::new(kind, message),
        _ => unreadable(),
    }
}

fn unreadable() -> ErrorReply {
    ErrorReply::err("another node's answer cannot be read")
}

fn failed(error: StoreError) -> Reply {
    Reply::Error(store_failed(error))
}
