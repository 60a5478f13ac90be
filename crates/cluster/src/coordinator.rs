//! The coordinator: takes a client's requests in order, reads from the replica, gathers what
//! changes rows into submissions to the lead, and answers each request once.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_storage::command::{self, Command};
use plimsoll_storage::execute;
use plimsoll_storage::operation::Operation;
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::{Argv, ErrorReply, Reply};
use tokio::sync::oneshot;

use crate::lead::{SUBMISSION_BYTES_MAX, Step, Submission, outcome_unknown};
use crate::node::Shared;
use crate::partition::Partition;
use crate::scatter::{self, Route};
use crate::session::ClientSession;
use crate::statistics::{DatabaseStatistics, Statistics};
use crate::table::Table;
use crate::{Request, Watched};

/// How long a write waits for the log and its apply before its outcome is called unknown.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// Where a submission of several operations is cut, bytes.
const BATCH_BYTES: usize = 1 << 20;

/// The node that a client talks to.
pub struct Coordinator {
    shared: Arc<Shared>,
}

impl Coordinator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// A run of operations for one connection.
    #[must_use]
    pub fn session(&self) -> ClientSession {
        self.shared.sessions.session()
    }

    /// Answers each request in order with one reply. Reads that need no disk complete without
    /// yielding; consecutive writes to one partition go together, and reads between them see
    /// what is before them.
    ///
    /// A database that nothing was written to is empty; `db` is below [`crate::DATABASES`].
    pub async fn execute(
        &self,
        session: &mut ClientSession,
        db: u32,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) {
        let mut rest = requests;
        let mut done = 0;
        for (at, error) in self.check_rows(db, requests).await {
            let (before, after) = rest.split_at(at - done);
            self.run(session, db, before, replies).await;
            replies.push(Reply::Error(error));
            rest = after.get(1..).unwrap_or_default();
            done = at + 1;
        }
        self.run(session, db, rest, replies).await;
    }

    async fn run(
        &self,
        session: &mut ClientSession,
        db: u32,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) {
        let mut rest = requests;
        while let Some((request, after)) = rest.split_first() {
            let taken = match self.plan(db, request) {
                Plan::Reply(reply) => {
                    replies.push(reply);
                    after
                }
                Plan::Read(partition, command, argv) => {
                    replies.push(self.read(partition, &command, argv).await);
                    after
                }
                Plan::Write(ordinal, payload) => {
                    self.write(session, db, ordinal, payload, after, replies).await
                }
                Plan::Scatter(command, argv) => {
                    replies.push(self.scatter(session, db, &command, argv).await);
                    after
                }
            };
            rest = taken;
        }
    }

    /// Notes a key's last change, for a transaction that is to run only if there is no later one.
    ///
    /// # Errors
    /// Where the row cannot be read.
    pub async fn watch(&self, db: u32, key: Bytes) -> Result<Watched, ErrorReply> {
        let Some(table) = self.shared.tables.get(db) else {
            return Ok(Watched { db, key, change: 0 });
        };
        let partition = &table.partitions()[table.ordinal_of(&key)];
        let now_ms = partition.read_time_ms();
        let change = match execute::last_change(&partition.store.cached_row(), &key, now_ms) {
            Err(StoreError::NotCached) => {
                let (store, key) = (partition.store.clone(), key.clone());
                blocking(move || execute::last_change(&store, &key, now_ms)).await
            }
            outcome => outcome,
        };
        Ok(Watched { db, key, change: change.map_err(store_failed)? })
    }

    /// Removes all keys of all databases.
    pub async fn flush_all(&self, session: &mut ClientSession) -> Reply {
        let databases: Vec<u32> = self.shared.tables.databases().map(|(db, _)| db).collect();
        let request = [Request::Command(Argv::of(&[b"FLUSHDB"]))];
        for db in databases {
            let mut replies = Vec::new();
            self.execute(session, db, &request, &mut replies).await;
            if let Some(error @ Reply::Error(_)) = replies.pop() {
                return error;
            }
        }
        Reply::OK
    }

    /// Makes everything that was acknowledged durable, of an `async` log too.
    ///
    /// # Errors
    /// Where the disk fails.
    pub async fn sync(&self) -> Result<(), ErrorReply> {
        let shared = Arc::clone(&self.shared);
        let synced = tokio::task::spawn_blocking(move || shared.log.sync()).await;
        let failed = |error: String| ErrorReply::err(format!("the log cannot be synced: {error}"));
        match synced {
            Ok(synced) => synced.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Partitions that have stopped, and why.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let partitions = self.shared.tables.partitions();
        let partitions = partitions.iter();
        partitions.filter_map(|partition| partition.fault()).collect()
    }

    /// The node's figures at this moment.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let shared = &self.shared;
        let partitions = shared.tables.partitions();
        let partitions = || partitions.iter();
        let database = |(db, table): (u32, &Arc<Table>)| DatabaseStatistics {
            db,
            keys: table.partitions().iter().map(|partition| partition.keys()).sum(),
            expires: table.partitions().iter().map(|partition| partition.expires()).sum(),
        };
        Statistics {
            databases: shared.tables.databases().map(database).collect(),
            log: shared.log.stats(),
            store: shared.resources.statistics(),
            files_bytes: partitions().map(|partition| partition.store.files_bytes()).sum(),
            queue_bytes: partitions().map(|partition| partition.lead.waiting_bytes()).sum(),
            faults: self.faults(),
        }
    }

    fn plan<'a>(&'a self, db: u32, request: &'a Request) -> Plan<'a> {
        match request {
            Request::Command(argv) => match command::parse(argv) {
                Ok(command) => self.plan_command(db, command, argv),
                Err(error) => Plan::Reply(error.into()),
            },
            Request::Transaction { watched, commands } => {
                let count = self.partition_count(db);
                let ordinal_of = |key: &[u8]| self.ordinal_of(db, key);
                match scatter::transaction_ordinal(db, watched, commands, count, ordinal_of) {
                    Ok(ordinal) => Plan::Write(ordinal, scatter::transaction(watched, commands)),
                    Err(error) => Plan::Reply(error.into()),
                }
            }
        }
    }

    fn plan_command<'a>(&'a self, db: u32, command: Command<'a>, argv: &'a Argv) -> Plan<'a> {
        let ordinal_of = |key: &[u8]| self.ordinal_of(db, key);
        match scatter::route(&command, self.partition_count(db), ordinal_of) {
            Route::One(ordinal) if command.is_write() => {
                Plan::Write(ordinal, Operation::Command(argv.clone()).encode())
            }
            Route::One(ordinal) => {
                Plan::Read(self.table(db).map(|table| &table.partitions()[ordinal]), command, argv)
            }
            Route::Several => Plan::Scatter(command, argv),
            Route::Refused(error) => Plan::Reply(error.into()),
        }
    }

    /// Reads one partition; none is an empty one.
    pub(crate) async fn read(
        &self,
        partition: Option<&Arc<Partition>>,
        command: &Command<'_>,
        argv: &Argv,
    ) -> Reply {
        let context = self.shared.read_context(partition.map(AsRef::as_ref));
        let Some(partition) = partition else {
            return execute::read(command, &scatter::NoRows, &context).unwrap_or_else(failed);
        };
        let store = &partition.store;
        let outcome = if scatter::reads_one_row(command) {
            execute::read(command, &store.cached_row(), &context)
        } else {
            store.cached().and_then(|rows| execute::read(command, &rows, &context))
        };
        match outcome {
            Ok(reply) => reply,
            Err(StoreError::NotCached) => self.read_blocking(partition, argv).await,
            Err(error) => failed(error),
        }
    }

    async fn read_blocking(&self, partition: &Arc<Partition>, argv: &Argv) -> Reply {
        let (shared, partition) = (Arc::clone(&self.shared), Arc::clone(partition));
        let argv = argv.clone();
        let read = move || {
            let command = match command::parse(&argv) {
                Ok(command) => command,
                Err(error) => return Ok(Reply::Error(error)),
            };
            let context = shared.read_context(Some(&partition));
            execute::read(&command, &partition.store.snapshot()?, &context)
        };
        blocking(read).await.unwrap_or_else(failed)
    }

    /// Writes `payload` and what of the requests after it goes with it; returns the rest.
    async fn write<'a>(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        payload: Bytes,
        after: &'a [Request],
        replies: &mut Vec<Reply>,
    ) -> &'a [Request] {
        let mut bytes = payload.len();
        let mut steps = vec![Step::Write(payload)];
        let mut rest = after;
        while let Some((request, after)) = rest.split_first() {
            let step = match (self.plan(db, request), request) {
                (Plan::Write(at, payload), _) if at == ordinal => Step::Write(payload),
                // What may take long must not hold the thread that applies everyone's writes.
                (Plan::Read(Some(partition), command, argv), _)
                    if scatter::is_short_read(&command) && self.is_at(db, ordinal, partition) =>
                {
                    Step::Read(argv.clone())
                }
                _ => break,
            };
            if let Step::Write(payload) = &step {
                bytes += payload.len();
                if bytes > BATCH_BYTES {
                    break;
                }
            }
            steps.push(step);
            rest = after;
        }
        let count = steps.len();
        match self.submit(session, db, ordinal, steps).await {
            Ok(answers) => {
                assert_eq!(answers.len(), count, "one reply for each step");
                replies.extend(answers);
            }
            Err(error) => replies.extend((0..count).map(|_| Reply::Error(error.clone()))),
        }
        rest
    }

    fn is_at(&self, db: u32, ordinal: usize, partition: &Arc<Partition>) -> bool {
        let table = self.shared.tables.get(db);
        table.is_some_and(|table| Arc::ptr_eq(&table.partitions()[ordinal], partition))
    }

    /// Has the lead of a partition carry the steps out; the first is a write.
    pub(crate) async fn submit(
        &self,
        session: &mut ClientSession,
        db: u32,
        ordinal: usize,
        steps: Vec<Step>,
    ) -> Result<Vec<Reply>, ErrorReply> {
        let table = self.shared.table_for_write(db).await?;
        let partition = &table.partitions()[ordinal];
        submit_to(partition, session, steps).await
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn table(&self, db: u32) -> Option<&Table> {
        self.shared.tables.get(db).map(AsRef::as_ref)
    }

    /// How many partitions a database's table has, or will have.
    pub(crate) fn partition_count(&self, db: u32) -> usize {
        self.shared.partition_count(self.table(db))
    }

    /// The ordinal of the partition that holds a key, or will.
    pub(crate) fn ordinal_of(&self, db: u32, key: &[u8]) -> usize {
        match self.table(db) {
            Some(table) => table.ordinal_of(key),
            None => self.shared.ordinal_in_new_table(key),
        }
    }
}

/// Has the lead of a partition carry the steps out, and waits for the answers.
pub(crate) async fn submit_to(
    partition: &Partition,
    session: &mut ClientSession,
    steps: Vec<Step>,
) -> Result<Vec<Reply>, ErrorReply> {
    if let Some(fault) = partition.fault() {
        return Err(ErrorReply::err(fault));
    }
    let writes = steps.iter().filter(|step| matches!(step, Step::Write(_))).count();
    let (done, answered) = oneshot::channel();
    let acked = session.acked();
    let first = session.take(writes as u64);
    let submission = Submission { session: session.id(), first, acked, steps, done };
    if submission.bytes() > SUBMISSION_BYTES_MAX {
        session.settle();
        return Err(ErrorReply::err(format!(
            "the write takes over {SUBMISSION_BYTES_MAX} bytes in the log"
        )));
    }
    partition.lead.submit(submission);
    let Some(outcome) = session.wait(answered, WRITE_TIMEOUT).await else {
        // Too late, or the lead is gone because the node is stopping.
        session.renew();
        return Err(outcome_unknown());
    };
    if outcome.as_ref().is_err_and(|error| *error == outcome_unknown()) {
        session.renew();
    } else {
        session.settle();
    }
    outcome
}

/// What is to be done with a request.
enum Plan<'a> {
    Reply(Reply),
    Read(Option<&'a Arc<Partition>>, Command<'a>, &'a Argv),
    Write(usize, Bytes),
    Scatter(Command<'a>, &'a Argv),
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let outcome = tokio::task::spawn_blocking(read).await;
    outcome.unwrap_or_else(|error| Err(StoreError::Failed(error.to_string())))
}

fn failed(error: StoreError) -> Reply {
    Reply::Error(store_failed(error))
}

fn store_failed(error: StoreError) -> ErrorReply {
    ErrorReply::err(error.to_string())
}
