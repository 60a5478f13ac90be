//! The coordinator: takes a client's requests in order, reads from the replica, gathers what
//! changes rows into submissions to the lead, and answers each request once.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_control::Class;
use plimsoll_log::Lsn;
use plimsoll_memory::local::patiently;
use plimsoll_memory::{Account, Action, Standing, Stop};
use plimsoll_storage::command::{self, Command, Spec};
use plimsoll_storage::execute;
use plimsoll_storage::operation::{Operation, cost, decode_reply};
use plimsoll_storage::partition::RECORD_BYTES_MAX;
use plimsoll_storage::rows::StoreError;
use plimsoll_storage::rows::key::order_hash;
use plimsoll_storage::rows::metered::Metered;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use crate::metadata::table::{Copies, Table};
use crate::node::Shared;
use crate::node::statistics::{DatabaseStatistics, Statistics};
use crate::replication::lead::Step;
use crate::replication::partition::Partition;
use crate::replication::reads::Reads;
use crate::replication::session::ClientSession;
use crate::routing::read_rows::{Found, RowsRead};
use crate::routing::selection::NodeSelection;
use crate::routing::{READ_DEADLINE, unavailable};
use crate::rows::beside::Together;
use crate::rows::scatter::{self, Route};
use crate::rows::slices::Slices;
use crate::wire::request::Preference;
use crate::wire::write_error::WriteError;
use crate::wire::{self, Freshness, Problem, Question};
use crate::{Request, Watched};

/// How long the metadata may take to say that a table does not exist.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);
/// For how long it is told that stores took no rows.
const STOPS_TOLD: Duration = Duration::from_secs(60);
/// The debt of a node whose stores take no more, in thousandths.
const OWES_ALL: u32 = 1_000;
/// Where a submission of several operations is cut, bytes.
const BATCH_BYTES: usize = 1 << 20;
/// The same, bytes that it is certain to change.
const BATCH_CHANGED_BYTES: u64 = RECORD_BYTES_MAX / 8;
/// What a read may hold on a thread that serves many connections, and for no account, bytes.
const SMALL_ANSWER_BYTES: usize = 1 << 20;
/// Beyond this a read lets others of its thread go first, bytes that it went through.
const SHORT_WORK_BYTES: usize = 64 << 10;
/// A larger read asks its account each time it is about to hold so much more, bytes.
const ASKED_AT_ONCE_BYTES: usize = 256 << 10;

/// The node that a client talks to.
pub struct Coordinator {
    shared: Arc<Shared>,
}

impl Coordinator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Reads what may have to come from the disk.
    pub(crate) async fn blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let outcome = self.shared.world.tasks.blocking(plimsoll_memory::carry(read)).await;
        outcome.unwrap_or_else(|lost| Err(StoreError::Failed(lost.to_string())))
    }

    /// A run of operations for one connection.
    #[must_use]
    pub fn session(&self) -> ClientSession {
        self.shared.sessions.session()
    }

    /// Answers each request in order with one reply. Reads that need no disk complete without
    /// yielding; writes to one partition go together, and reads between them see what is before them;
    /// requests for different partitions run side by side. Where answers come to much, it ends after
    /// one of them: they are to be written, [`ClientSession::answers_written`] is to be called, and
    /// then the rest is to be asked.
    ///
    /// A database that nothing was written to is empty; `db` is below [`crate::DATABASES`].
    pub async fn execute(
        &self,
        session: &mut ClientSession,
        db: u32,
        requests: &[Request],
        replies: &mut Vec<Reply>,
    ) {
        // It may have been created elsewhere, and then it is not empty.
        if self.table(db).is_none() && !self.shared.pass_metadata(READ_DEADLINE).await {
            let why = unavailable("whether the table exists cannot be found out now".to_owned());
            replies.extend(requests.iter().map(|_| Reply::Error(why.clone())));
            return;
        }
        let mut rest = requests;
        let mut done = 0;
        for (at, error) in self.check_rows(db, requests).await {
            let (before, after) = rest.split_at(at - done);
            self.run(session, db, before, replies).await;
            if replies.len() < at {
                return;
            }
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
        while !rest.is_empty() {
            let count = match self.together(db, rest) {
                Together::Beside(count, places) => {
                    let answers = self.run_beside(session, db, &rest[..count], places).await;
                    replies.extend(answers);
                    count
                }
                Together::InOrder(count) => {
                    let wanted = replies.len() + count;
                    self.run_in_order(session, db, &rest[..count], replies).await;
                    if replies.len() < wanted {
                        return;
                    }
                    count
                }
            };
            rest = &rest[count..];
            if session.reads().is_full() {
                return;
            }
        }
    }

    /// Answers each request in order, and ends where answers come to much.
    pub(crate) async fn run_in_order(
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
                Plan::Read(copies, command, argv) => {
                    replies.push(self.read(session.reads(), copies, &command, argv).await);
                    after
                }
                Plan::Write(ordinal, payload) => {
                    self.write(session, db, ordinal, payload, after, replies).await
                }
                Plan::Sliced(ordinal, slices, argv) => {
                    let reply = self.copy_in_slices(session, db, ordinal, &slices, argv).await;
                    replies.push(reply);
                    after
                }
                Plan::Scatter(command, argv) => {
                    replies.push(self.scatter(session, db, &command, argv).await);
                    after
                }
            };
            rest = taken;
            if session.reads().is_full() {
                return;
            }
        }
    }

    /// Notes a key's last change, for a transaction that is to run only if there is no later one.
    ///
    /// # Errors
    /// Where the row cannot be read.
    pub async fn watch(&self, db: u32, key: Bytes) -> Result<Watched, ErrorReply> {
        let Some(table) = self.shared.tables.get(db) else {
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
        let change = match self.shared.read_rows(&read, here).await {
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
                self.blocking(move || execute::last_change(&store, &key, now_ms)).await
            }
            outcome => outcome,
        };
        change.map_err(store_failed)
    }

    /// Removes all keys of all databases.
    pub async fn flush_all(&self, session: &mut ClientSession) -> Reply {
        let is_follower = |table: &Table| table.follows().is_some();
        if self.shared.tables.databases().any(|(_, table)| is_follower(table)) {
            // Before any is flushed.
            return Reply::Error(WriteError::read_only().into());
        }
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
        let log = Arc::clone(&self.shared.log);
        let synced = self.shared.world.tasks.blocking(move || log.sync()).await;
        let failed = |error: String| ErrorReply::err(format!("the log cannot be synced: {error}"));
        match synced {
            Ok(synced) => synced.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Whether this node knows all tables that were created before this call; false where that
    /// cannot be found out within 5 s, because the node is cut off from the log.
    pub async fn knows_all_tables(&self) -> bool {
        self.shared.pass_metadata(METADATA_TIMEOUT).await
    }

    /// Partitions that have stopped, and why; and what stops the whole node.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let partitions = self.shared.tables.partitions();
        let of_partitions = partitions.iter().filter_map(|partition| partition.fault());
        let clock = self.shared.clock.check().err();
        clock.into_iter().chain(of_partitions).chain(self.shared.tables.stopped()).collect()
    }

    /// Whether stores of this node took no rows within the last minute, because files were not written
    /// fast enough: whoever applies waited with them; or cannot write files now; or another node said within
    /// that time, when it was heard last, that its stores can take no more.
    #[must_use]
    pub fn stores_were_stopped(&self) -> bool {
        let owes_all = |node: &NodeSelection| {
            node.line.is_some_and(|(line, age_ns)| {
                line.write_debt_permille >= OWES_ALL && Duration::from_nanos(age_ns) <= STOPS_TOLD
            })
        };
        let nodes = self.shared.selection.nodes(self.shared.now_ns());
        let partitions = self.shared.tables.partitions();
        self.shared.resources.were_stopped_within(STOPS_TOLD)
            || partitions.iter().any(|it| it.store.has_failed())
            || nodes.iter().any(|(_, node)| owes_all(node))
    }

    /// The node's figures at this moment.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let shared = &self.shared;
        let partitions = shared.tables.partitions();
        let partitions = || partitions.iter();
        let database = |(db, table): (u32, &Arc<Table>)| DatabaseStatistics {
            db,
            keys: table.local().map(|(_, partition)| partition.keys()).sum(),
            expires: table.local().map(|(_, partition)| partition.expires()).sum(),
        };
        Statistics {
            databases: shared.tables.databases().map(database).collect(),
            log: shared.log.stats(),
            groups_read: shared.groups.all().len(),
            store: shared.resources.statistics(),
            files_bytes: partitions().map(|partition| partition.store.files_bytes()).sum(),
            write_debt: shared.write_debt(),
            writes_refused: shared.admission.refused(),
            queue_bytes: partitions().map(|partition| partition.lead.waiting_bytes()).sum(),
            faults: self.faults(),
        }
    }

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
        if !self.shared.version.allows(since) {
            let option = if since == spec.since { "" } else { " with such an option" };
            return Some(ErrorReply::err(format!(
                "'{}'{option} is refused until every node of the cluster knows it: it came with \
                 version {since} of the cluster",
                spec.name
            )));
        }
        if !(self.shared.is_room_low() && command::grows(spec, argv)) {
            return None;
        }
        // There may be room again meanwhile.
        let room = self.shared.room.check();
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

    /// Reads one partition; none is an empty one.
    pub(crate) async fn read(
        &self,
        reads: &Reads,
        copies: Option<&Arc<Copies>>,
        command: &Command<'_>,
        argv: &Argv,
    ) -> Reply {
        let Some(copies) = copies else {
            let context = self.shared.read_context(None);
            return execute::read(command, &scatter::NoRows, &context).unwrap_or_else(failed);
        };
        if self.shared.is_alone
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
        match self.shared.read_rows(&read, here).await {
            Ok(Found::Here((reply, account))) => {
                reads.hold(account);
                reads.saw(copies.group, self.shared.seen(copies.group));
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
            Err(StoreError::NotCached) => self.read_blocking(partition, argv).await,
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
        let context = self.shared.read_context(Some(partition));
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

    async fn read_blocking(
        &self,
        partition: &Arc<Partition>,
        argv: &Argv,
    ) -> (Reply, Option<Account>) {
        let (shared, read_from) = (Arc::clone(&self.shared), partition);
        let (partition, argv) = (Arc::clone(partition), argv.clone());
        // What does not come from memory may be large: it is a request of its own.
        let account = Account::open(Action {
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
            let context = shared.read_context(Some(&partition));
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
        self.blocking(read).await.unwrap_or_else(|error| {
            read_from.note(&error);
            (failed(error), None)
        })
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
        let mut changed_bytes = cost::least_bytes(&payload);
        let mut steps = vec![Step::Write(payload)];
        let mut rest = after;
        while let Some((request, after)) = rest.split_first() {
            let step = match (self.plan(db, request), request) {
                (Plan::Write(at, payload), _) if at == ordinal => Step::Write(payload),
                // What may take long must not hold the thread that applies everyone's writes.
                (Plan::Read(Some(copies), command, argv), _)
                    if scatter::is_short_read(&command) && self.is_at(db, ordinal, copies) =>
                {
                    Step::Read(argv.clone())
                }
                _ => break,
            };
            if let Step::Write(payload) = &step {
                bytes += payload.len();
                changed_bytes = changed_bytes.saturating_add(cost::least_bytes(payload));
                if bytes > BATCH_BYTES || changed_bytes > BATCH_CHANGED_BYTES {
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

    fn is_at(&self, db: u32, ordinal: usize, copies: &Arc<Copies>) -> bool {
        let table = self.shared.tables.get(db);
        table.is_some_and(|table| Arc::ptr_eq(&table.copies()[ordinal], copies))
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
        let replies = self.shared.submit(&table.copies()[ordinal], session, steps).await;
        replies.map_err(ErrorReply::from)
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

/// What is to be done with a request.
pub(crate) enum Plan<'a> {
    Reply(Reply),
    Read(Option<&'a Arc<Copies>>, Command<'a>, &'a Argv),
    Write(usize, Bytes),
    Sliced(usize, Slices, &'a Argv),
    Scatter(Command<'a>, &'a Argv),
}

/// What a command is answered that had to stop.
fn out_of_memory(stop: &Stop) -> ErrorReply {
    match stop {
        Stop::Tripped(trip) => ErrorReply::new("OOM", trip.to_string()),
        Stop::Cancelled(why) => ErrorReply::err(format!("the command was cancelled: {why}")),
    }
}

/// What another node says instead of an answer.
fn problem(reply: wire::Reply) -> ErrorReply {
    match reply {
        wire::Reply::Problem(Problem::Row { code, message }) => {
            ErrorReply { code: code.into(), message: message.into() }
        }
        _ => unreadable(),
    }
}

fn unreadable() -> ErrorReply {
    ErrorReply::err("another node's answer cannot be read")
}

fn failed(error: StoreError) -> Reply {
    Reply::Error(store_failed(error))
}

pub(crate) fn store_failed(error: StoreError) -> ErrorReply {
    ErrorReply::err(error.to_string())
}
