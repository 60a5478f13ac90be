//! Tables made, changed and deleted, through the metadata: how many copies they get and on which nodes, and
//! whether the nodes can hold them. This node's own copies are opened and closed by the node ([`LocalTables`]).

use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::time::Duration;

use plimsoll_index::Error;
use plimsoll_log::GroupId;
use plimsoll_storage::{ErrorKind, ErrorReply};
use serde_json::Map;

use super::Router;
use crate::machine::capacity;
use crate::metadata;
use crate::metadata::GROUPS;
use crate::metadata::index::{IndexMetadata, no_such_index, replicas};
use crate::metadata::placement::filter::Filter;
use crate::metadata::placement::{PartitionDefinition, groups_of_table, proposed};
use crate::metadata::table::{DocumentsDefinition, TableDefinition};
use crate::replication::tables::Table;
use crate::settings;
use crate::wire::write_error::failed;

/// The setting of how many copies beyond the first a table has that does not say.
const DEFAULT_REPLICAS: &str = "cluster.default_number_of_replicas";
/// How long a write waits for its database.
const CREATION_WAIT: Duration = Duration::from_secs(10);

/// What a node does with a table.
pub(crate) type Doing<T> = Pin<Box<dyn Future<Output = Result<T, ErrorReply>> + Send>>;

/// Who opens and closes the copies of tables on this node.
pub(crate) trait LocalTables: Send + Sync {
    /// Serves a table that the metadata has: its copies that are this node's and empty are opened.
    fn open(self: Arc<Self>, name: String, definition: TableDefinition) -> Doing<Arc<Table>>;
    /// Has the copies of a table of rows note what changes from now on, and indexes them.
    fn index(self: Arc<Self>, table: Arc<Table>) -> Doing<()>;
    /// Takes a table that the metadata no longer has off this node, files and all.
    fn close(self: Arc<Self>, table: Arc<Table>) -> Doing<()>;
}

/// Makes and changes tables.
pub(crate) struct TableChanges {
    pub router: Arc<Router>,
    /// The node goes before who asks for changes does.
    pub opener: Weak<dyn LocalTables>,
    /// Partitions of a database's table.
    pub database_partitions: u32,
    /// Held by who changes which tables there are, or what they are made of.
    pub changing: tokio::sync::Mutex<()>,
}

impl TableChanges {
    /// # Errors
    /// Where the node is gone.
    fn opener(&self) -> Result<Arc<dyn LocalTables>, ErrorReply> {
        self.opener.upgrade().ok_or_else(|| ErrorReply::err("the node is stopping"))
    }

    /// Serves a table that the metadata has.
    pub(crate) async fn open(
        &self,
        name: &str,
        definition: &TableDefinition,
    ) -> Result<Arc<Table>, ErrorReply> {
        self.opener()?.open(name.to_owned(), definition.clone()).await
    }

    /// Has the copies of a table of rows note what changes from now on, and indexes them.
    pub(crate) async fn index(&self, table: &Arc<Table>) -> Result<(), ErrorReply> {
        self.opener()?.index(Arc::clone(table)).await
    }

    async fn close(&self, table: Arc<Table>) -> Result<(), ErrorReply> {
        self.opener()?.close(table).await
    }

    /// A database's table, created where it is not there. Who waits too long for that goes: it is created
    /// nevertheless.
    pub(crate) async fn table_for_write(self: &Arc<Self>, db: u32) -> Result<&Table, ErrorReply> {
        if self.router.tables.get(db).is_none() {
            // It goes on to its end, and its copies with it.
            let (changes, opener) = (Arc::clone(self), self.opener()?);
            let create = async move {
                let created = changes.create_database(db).await;
                drop(opener);
                created
            };
            let created = self.router.world.tasks.spawn("create", create);
            let created =
                self.router.world.time.timeout(CREATION_WAIT, created).await.map_err(|_| {
                    ErrorReply::new(ErrorKind::TryAgain, "the database is still being created")
                })?;
            created.map_err(|error| ErrorReply::err(error.to_string()))??;
        }
        let table = self.router.tables.get(db);
        table.map(AsRef::as_ref).ok_or_else(|| ErrorReply::err("DB index is out of range"))
    }

    /// Creates a database's table where it is not there.
    async fn create_database(&self, db: u32) -> Result<(), ErrorReply> {
        let creating = self.changing.lock().await;
        if self.router.tables.get(db).is_some() {
            return Ok(());
        }
        self.check_capacity(self.database_partitions, 0, self.wanted_copies(None))
            .map_err(|error| ErrorReply::err(error.reason))?;
        let definition = self.new_definition(self.database_partitions, None).await?;
        let name = metadata::table_name(db);
        let definition = self.router.replication.create_table(&name, &definition).await?;
        self.open(&name, &definition).await?;
        drop(creating);
        self.router.tell_others().await;
        Ok(())
    }

    /// Refuses to go from `before` to `after` copies of each of so many partitions where the nodes
    /// cannot hold them; a new table has none before.
    pub(crate) fn check_capacity(
        &self,
        partitions: u32,
        before: usize,
        after: usize,
    ) -> Result<(), Error> {
        let set = settings::cluster::shards_per_node_max(&self.router.metadata);
        let memory_bytes = plimsoll_memory::machine::machine().total_bytes;
        let capacity = capacity::capacity(set, memory_bytes, capacity::files_max());
        let nodes = self.router.members.data_nodes().max(1);
        let most = capacity.copies.saturating_mul(nodes as u64);
        let of = |partitions: usize, copies: usize| (partitions * copies.min(nodes)) as u64;
        let present = |table: &Arc<Table>| {
            of(table.copies().len(), self.wanted_copies_of(table.index().as_deref()))
        };
        let present: u64 = self.router.tables.all().iter().map(present).sum();
        let all = |copies: usize| of(partitions as usize, copies);
        let added = all(after).saturating_sub(all(before));
        if added == 0 || present + added <= most {
            return Ok(());
        }
        let reason = format!(
            "Validation Failed: 1: this action would add [{added}] shards, but this cluster \
             currently has [{present}]/[{most}] maximum shards open, set by {};",
            capacity.set_by
        );
        Err(Error::invalid("validation_exception", reason))
    }

    /// A table that is to be created: its partitions are spread over the log groups, and their
    /// copies over the nodes.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub(crate) async fn new_definition(
        &self,
        partitions: u32,
        documents: Option<DocumentsDefinition>,
    ) -> Result<TableDefinition, ErrorReply> {
        let incarnation = self.router.names.next_u64();
        let copies = self.wanted_copies(documents.as_ref());
        let mut places = self.router.members.places(0, 0, &self.wanted_nodes());
        if proposed(0, 1, &places).is_empty() {
            // Nobody is wanted: without a copy from the first it would never get one.
            places = self.router.members.places(0, 0, &Filter::default());
        }
        let first = u16::try_from(incarnation % u64::from(GROUPS)).unwrap_or(0);
        let groups = groups_of_table(partitions, copies, GROUPS, first, &places);
        let begins =
            self.router.replication.positions(&groups.iter().copied().map(GroupId).collect()).await;
        let begins = begins.map_err(|error| ErrorReply::err(error.to_string()))?;
        let partition = |group: u16| {
            let begin = begins.get(&GroupId(group)).copied();
            let begin = begin.unwrap_or_else(|| unreachable!("all groups have a position"));
            PartitionDefinition::new(group, begin, proposed(group, copies, &places))
        };
        let partitions = groups.into_iter().map(partition).collect();
        Ok(TableDefinition {
            incarnation,
            partitions,
            documents,
            follows: None,
            default_expiry_ms: None,
            unknown: Map::new(),
        })
    }

    /// Which nodes the cluster's settings want copies on.
    pub(crate) fn wanted_nodes(&self) -> Filter {
        Filter::of(&metadata::settings(&self.router.metadata))
    }

    /// Copies of each partition beyond the first that an index should have. A node that is alone asks for what
    /// its indices say: there is no default to follow.
    pub(crate) fn wanted_replicas(&self, index: &IndexMetadata) -> u32 {
        if self.router.replication.is_alone {
            return index.replicas;
        }
        let copies = self.wanted_copies_of(Some(index));
        u32::try_from(copies.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// How many copies each partition of a table should have.
    pub(crate) fn wanted_copies(&self, documents: Option<&DocumentsDefinition>) -> usize {
        let replicas = documents.and_then(|it| replicas(&it.settings).ok().flatten());
        self.copies_of(replicas)
    }

    /// As [`Self::wanted_copies`], of a table that is served.
    pub(crate) fn wanted_copies_of(&self, index: Option<&IndexMetadata>) -> usize {
        self.copies_of(index.and_then(|it| replicas(&it.settings).ok().flatten()))
    }

    fn copies_of(&self, replicas: Option<u32>) -> usize {
        replicas.unwrap_or_else(|| self.default_replicas()) as usize + 1
    }

    /// `cluster.default_number_of_replicas`: where it is not set, 1 as soon as two nodes hold copies. One
    /// that is away counts: its copies are not given up because it is.
    pub(crate) fn default_replicas(&self) -> u32 {
        let set = metadata::setting(&self.router.metadata, DEFAULT_REPLICAS);
        let set = set.and_then(|text| text.parse().ok());
        set.unwrap_or_else(|| u32::from(self.router.members.data_nodes_known() > 1))
    }

    /// Takes a table away with everything in it; the caller holds the lock of changes.
    pub(crate) async fn delete_table(&self, name: &str) -> Result<(), Error> {
        let table = self.router.tables.by_name(name).filter(|table| table.index().is_some());
        let table = table.ok_or_else(|| no_such_index(name))?;
        if metadata::is_database(name) {
            let reason = match table.follows() {
                Some(_) => format!(
                    "[{name}] is the table of a database that follows: after pause_follow and \
                     unfollow FLUSHDB empties it"
                ),
                None => format!("[{name}] is the table of a database: FLUSHDB empties it"),
            };
            return Err(Error::illegal_argument(reason));
        }
        let deleted = self.router.replication.write_metadata(metadata::delete_table(name)).await;
        deleted.map_err(failed)?;
        self.close(table).await.map_err(|error| Error::internal(error.message))
    }
}
