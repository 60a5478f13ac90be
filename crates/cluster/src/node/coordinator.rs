//! The coordinator: where clients' requests come in, and the figures that are told of the node. What is done
//! with requests of rows is `rows`', with documents `documents`'.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_storage::{Argv, ErrorReply, Reply};

use crate::documents::{Documents, PoolStatistics};
use crate::node::shared::Shared;
use crate::node::statistics::{DatabaseStatistics, Statistics};
use crate::replication::session::ClientSession;
use crate::replication::tables::Table;
use crate::routing::selection::{NodeSelection, SelectionStatistics};
use crate::routing::{READ_DEADLINE, unavailable};
use crate::rows::Rows;
use crate::wire::write_error::WriteError;
use crate::{Request, Watched};

/// For how long it is told that stores took no rows.
const STOPS_TOLD: Duration = Duration::from_secs(60);
/// The debt of a node whose stores take no more, in thousandths.
const OWES_ALL: u32 = 1_000;

/// The node that a client talks to.
pub struct Coordinator {
    shared: Arc<Shared>,
    rows: Rows,
    documents: Documents,
}

impl Coordinator {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        let rows = Rows {
            router: Arc::clone(&shared.router),
            changes: Arc::clone(&shared.copies.changes),
            cursors: Arc::clone(&shared.cursors),
        };
        let documents = Documents {
            router: Arc::clone(&shared.router),
            changes: Arc::clone(&shared.copies.changes),
            searching: Arc::clone(&shared.searching),
        };
        Self { shared, rows, documents }
    }

    /// A run of operations for one connection.
    #[must_use]
    pub fn session(&self) -> ClientSession {
        self.shared.replication.sessions.session()
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
        if self.rows.table(db).is_none() && !self.shared.router.pass_metadata(READ_DEADLINE).await {
            let why = unavailable("whether the table exists cannot be found out now".to_owned());
            replies.extend(requests.iter().map(|_| Reply::Error(why.clone())));
            return;
        }
        let mut rest = requests;
        let mut done = 0;
        for (at, error) in self.documents.check_rows(db, requests).await {
            let (before, after) = rest.split_at(at - done);
            self.rows.run(session, db, before, replies).await;
            if replies.len() < at {
                return;
            }
            replies.push(Reply::Error(error));
            rest = after.get(1..).unwrap_or_default();
            done = at + 1;
        }
        self.rows.run(session, db, rest, replies).await;
    }

    /// Notes a key's last change, for a transaction that is to run only if there is no later one.
    ///
    /// # Errors
    /// Where the row cannot be read.
    pub async fn watch(&self, db: u32, key: Bytes) -> Result<Watched, ErrorReply> {
        self.rows.watch(db, key).await
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
        let log = Arc::clone(&self.shared.replication.log);
        let synced = self.shared.world.tasks.blocking(move || log.sync()).await;
        let failed = |error: String| ErrorReply::err(format!("the log cannot be synced: {error}"));
        match synced {
            Ok(synced) => synced.map_err(|error| failed(error.to_string())),
            Err(error) => Err(failed(error.to_string())),
        }
    }

    /// Changes what caches of rows may hold from now on, bytes: blocks, no more than there could be at first, and
    /// single rows.
    pub fn resize_caches(&self, [block_cache_bytes, row_cache_bytes]: [usize; 2]) {
        self.shared.replication.resources.resize_caches(block_cache_bytes, row_cache_bytes);
    }

    /// Waits until this node knows all tables and indices that there were when somebody was told of them before
    /// this call; false where that cannot be found out now. Mostly it is known without asking.
    pub async fn become_current(&self) -> bool {
        self.shared.router.become_current().await
    }

    /// Whether it does, without waiting.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.shared.router.is_current()
    }

    /// Partitions that have stopped, and why; and what stops the whole node.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let partitions = self.shared.tables.partitions();
        let of_partitions = partitions.iter().filter_map(|partition| partition.fault());
        let clock = self.shared.replication.clock.check().err().map(|it| it.to_string());
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
        let nodes = self.shared.router.selection.nodes(self.shared.router.now_ns());
        let partitions = self.shared.tables.partitions();
        self.shared.replication.resources.were_stopped_within(STOPS_TOLD)
            || partitions.iter().any(|it| it.store.has_failed())
            || nodes.iter().any(|(_, node)| owes_all(node))
    }

    /// How this node chooses among copies.
    #[must_use]
    pub fn selection(&self) -> SelectionStatistics {
        self.shared.router.selection.statistics()
    }

    /// What this node believes about each that it asks, by the ids of nodes.
    #[must_use]
    pub fn selection_of_nodes(&self) -> Vec<(String, NodeSelection)> {
        let shared = &self.shared;
        let members = shared.members.all();
        let found = shared.router.selection.nodes(shared.router.now_ns()).into_iter();
        let named = |(number, node)| {
            let member = members.values().find(|member| member.number == number)?;
            Some((member.id.clone(), node))
        };
        found.filter_map(named).collect()
    }

    /// The figures of what this node's leads wrote: they have a queue, and no threads of their own.
    #[must_use]
    pub fn write_pool(&self) -> PoolStatistics {
        let mut sum = PoolStatistics::default();
        for partition in self.shared.tables.partitions() {
            let figures = partition.lead.figures();
            sum.queue += figures.waiting;
            sum.active += figures.in_log;
            sum.rejected += figures.refused;
            sum.completed += figures.applied;
        }
        sum
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
            log: shared.replication.log.stats(),
            groups_read: shared.replication.groups.all().len(),
            store: shared.replication.resources.statistics(),
            files_bytes: partitions().map(|partition| partition.store.files_bytes()).sum(),
            write_debt: shared.router.write_debt(),
            writes_refused: shared.router.admission.refused(),
            queue_bytes: partitions().map(|partition| partition.lead.waiting_bytes()).sum(),
            faults: self.faults(),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// What is asked of documents and indices.
    #[must_use]
    pub fn documents(&self) -> &Documents {
        &self.documents
    }

    pub(crate) fn rows(&self) -> &Rows {
        &self.rows
    }
}
