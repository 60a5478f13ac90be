//! Reads of one partition: from this node's copy, from memory where that is little, or from another's.

use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use plimsoll_control::Class;
use plimsoll_log::Lsn;
use plimsoll_memory::local::patiently;
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
use crate::routing::file_reads::Extent;
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
            let (reply, account) = self.read_local(&partition, command, argv).await;
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
        let here = |partition| async move { self.read_local(&partition, command, argv).await };
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
    /// to be kept as long as the answer.
    pub(crate) async fn read_local(
        &self,
        partition: &Arc<Partition>,
        command: &Command<'_>,
        argv: &Argv,
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
                self.read_blocking(partition, argv, extent).await
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

    async fn read_blocking(
        &self,
        partition: &Arc<Partition>,
        argv: &Argv,
        extent: Extent,
    ) -> (Reply, Option<Account>) {
        let (router, cursors) = (Arc::clone(&self.router), Arc::clone(&self.cursors));
        let read_from = partition;
        let (partition, argv) = (Arc::clone(partition), argv.clone());
        // What does not come from memory may be large: it is a request of its own.
        let account = Account::open(TaskAction {
            name: "resp:read",
            description: String::from_utf8_lossy(argv.name()).into_owned(),
            standing: Standing::Read,
            opaque_id: None,
        });
        let asker = account.clone();
        let run = move || {
            let command = match command::parse(&argv) {
                Ok(command) => command,
                Err(error) => return Ok(Reply::Error(error)),
            };
            let context = context(&router, &cursors, Some(&partition));
            let unasked = Cell::new(0usize);
            let grant = |bytes: usize| {
                unasked.set(unasked.get().saturating_add(bytes));
                if unasked.get() < ASKED_AT_ONCE_BYTES {
                    return Ok(());
                }
                let granted = asker.ask(unasked.replace(0) as u64);
                granted.map_err(|stop| StoreError::Refused(out_of_memory(&stop)))
            };
            let rows = partition.store.snapshot()?;
            execute::read(&command, &Metered::new(&rows, &grant), &context)
        };
        let read = move || {
            let reply = patiently(|| account.work(run))?;
            Ok(match account.stop_reason() {
                None => (reply, Some(account)),
                Some(stop) => (Reply::Error(out_of_memory(&stop)), None),
            })
        };
        self.router.file_reads.run(extent, read).await.unwrap_or_else(|error| {
            read_from.note(&error);
            (failed(error), None)
        })
    }
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
