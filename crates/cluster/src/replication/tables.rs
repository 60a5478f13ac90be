//! Which tables exist as far as this node knows, where the copies of their partitions are, and its own copies.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arc_swap::{ArcSwap, ArcSwapOption};
use parking_lot::{Mutex, RwLock};
use plimsoll_control::Class;
use plimsoll_control::selection::{Ask, OwnLead};
use plimsoll_log::{GroupId, PartitionId};
use plimsoll_storage::rows::key::partition_of;

use crate::DATABASES;
use crate::metadata;
use crate::metadata::follows::Follows;
use crate::metadata::index::IndexMetadata;
use crate::metadata::placement::PartitionDefinition;
use crate::metadata::reports::{CopyReport, reason};
use crate::metadata::table::TableDefinition;
use crate::replication::partition::Partition;

/// The copies of one partition as this node knows them.
pub(crate) struct Copies {
    pub id: PartitionId,
    pub group: GroupId,
    /// The one on this node, while it serves.
    local: ArcSwapOption<Partition>,
    /// Why the one on this node cannot be opened, where no other can replace it.
    stopped: OnceLock<String>,
    definition: ArcSwap<PartitionDefinition>,
    /// They follow a partition of another cluster: nobody else's writes are taken.
    is_follower: AtomicBool,
    /// How long after it is made a key expires that nobody gives another expiry, ms; 0 is never.
    default_expiry_ms: AtomicU64,
    /// How the one on this node does as a lead of this node's writes.
    pub own_lead: Mutex<OwnLead>,
}

impl Copies {
    pub(crate) fn new(id: PartitionId, definition: &PartitionDefinition) -> Self {
        let group = GroupId(definition.group);
        let definition = ArcSwap::from_pointee(definition.clone());
        let (local, stopped) = (ArcSwapOption::empty(), OnceLock::new());
        let (is_follower, default_expiry_ms) = (AtomicBool::new(false), AtomicU64::new(0));
        let own_lead = Mutex::default();
        Self { id, group, local, stopped, definition, is_follower, default_expiry_ms, own_lead }
    }

    /// How long after it is made a key expires that nobody gives another expiry, ms; none is never.
    pub(crate) fn default_expiry_ms(&self) -> Option<u64> {
        Some(self.default_expiry_ms.load(Ordering::Acquire)).filter(|ms| *ms > 0)
    }

    /// Whether they follow a partition of another cluster: nobody else's writes are taken.
    pub(crate) fn is_follower(&self) -> bool {
        self.is_follower.load(Ordering::Acquire)
    }

    /// Whether there is nothing yet that could be read or copied: the first copy of a partition that
    /// follows is made of the leader's.
    pub(crate) fn is_first_to_come(&self) -> bool {
        self.is_follower() && self.definition().serving().next().is_none()
    }

    /// Whether a node has a copy from the table's beginning on: it is made of the log alone.
    pub(crate) fn begins_on(&self, node: &str) -> bool {
        let definition = self.definition();
        let is_there = definition.copy_on(node).is_some();
        !self.is_follower() && is_there && definition.epoch == 1
    }

    /// What selection is told of work of this class on one of the copies.
    pub(crate) fn ask(&self, class: Class) -> Ask {
        Ask { class, partition: self.id.table ^ u64::from(self.id.ordinal) }
    }

    /// The copy on this node, while it serves.
    pub(crate) fn local(&self) -> Option<Arc<Partition>> {
        self.local.load_full()
    }

    pub(crate) fn set_local(&self, partition: Option<Arc<Partition>>) {
        self.local.store(partition);
    }

    /// The copy on this node cannot be opened, and there is no other: it has stopped until the node
    /// is started again. Its files stay as they are.
    pub(crate) fn stop(&self, why: &str) {
        let why = format!("partition {} stopped: {why}", self.id);
        tracing::error!(why, "the node starts without the copy");
        let is_first = self.stopped.set(why).is_ok();
        assert!(is_first, "a copy is opened once");
    }

    /// Why the copy on this node stopped before it was opened, if so.
    pub(crate) fn stopped(&self) -> Option<&str> {
        self.stopped.get().map(String::as_str)
    }

    /// Why a node that is alone cannot ask its copy, where that is not [`Self::local`].
    pub(crate) fn why_not_local(&self) -> String {
        self.stopped().unwrap_or("the partition is being opened").to_owned()
    }

    /// What this node reports of its copy; `None` where it has none yet.
    pub(crate) fn report(&self) -> Option<CopyReport> {
        match (self.local(), self.stopped()) {
            (Some(local), _) => Some(local.report()),
            (None, Some(why)) => Some(CopyReport::Stopped { why: reason(why) }),
            (None, None) => None,
        }
    }

    /// As the metadata has it, as far as that is known here.
    pub(crate) fn definition(&self) -> Arc<PartitionDefinition> {
        self.definition.load_full()
    }

    pub(crate) fn set_definition(&self, definition: &PartitionDefinition) {
        if **self.definition.load() != *definition {
            self.definition.store(Arc::new(definition.clone()));
        }
    }
}

/// A table as this node knows it.
pub(crate) struct Table {
    name: String,
    incarnation: u64,
    copies: Vec<Arc<Copies>>,
    count: u32,
    is_index: AtomicBool,
    index: RwLock<Option<Arc<IndexMetadata>>>,
    follows: ArcSwapOption<Follows>,
}

impl Table {
    /// # Panics
    /// Where there is no partition: a definition has at least one.
    pub(crate) fn new(
        name: &str,
        definition: &TableDefinition,
        index: Option<Arc<IndexMetadata>>,
    ) -> Self {
        assert!(!definition.partitions.is_empty(), "a table has a partition");
        let copies = definition.partitions().map(|(id, it)| Arc::new(Copies::new(id, it)));
        let copies: Vec<Arc<Copies>> = copies.collect();
        let count = u32::try_from(copies.len()).expect("partitions are counted in 32 bits");
        let is_index = AtomicBool::new(index.is_some());
        let (name, index) = (name.to_owned(), RwLock::new(index));
        let incarnation = definition.incarnation;
        let follows = ArcSwapOption::empty();
        let table = Self { name, incarnation, copies, count, is_index, index, follows };
        table.follow(definition);
        table
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation
    }

    /// The copies of each partition, in the order of their ordinals.
    pub(crate) fn copies(&self) -> &[Arc<Copies>] {
        &self.copies
    }

    /// The copies that this node serves, each with its ordinal.
    pub(crate) fn local(&self) -> impl Iterator<Item = (usize, Arc<Partition>)> {
        self.copies.iter().enumerate().filter_map(|(at, copies)| Some((at, copies.local()?)))
    }

    /// The ordinal of the partition that holds `key`.
    pub(crate) fn ordinal_of(&self, key: &[u8]) -> usize {
        if self.count == 1 { 0 } else { partition_of(key, self.count) as usize }
    }

    /// What it is as an index; `None` for rows alone.
    pub(crate) fn index(&self) -> Option<Arc<IndexMetadata>> {
        self.index.read().clone()
    }

    /// What it follows in another cluster; `None` for a table of its own.
    pub(crate) fn follows(&self) -> Option<Arc<Follows>> {
        self.follows.load_full()
    }

    /// What it follows from now on, nobody writing to a table that follows, and the expiry that its keys
    /// have where nobody gives them another.
    pub(crate) fn follow(&self, definition: &TableDefinition) {
        let follows = definition.follows.as_ref();
        if self.follows.load().as_deref() != follows {
            self.follows.store(follows.cloned().map(Arc::new));
        }
        let default_expiry_ms = definition.default_expiry_ms();
        for copies in &self.copies {
            copies.is_follower.store(follows.is_some(), Ordering::Release);
            copies.default_expiry_ms.store(default_expiry_ms, Ordering::Release);
        }
    }

    /// Whether it is an index as well.
    pub(crate) fn is_index(&self) -> bool {
        self.is_index.load(Ordering::Acquire)
    }

    /// What it is as an index from now on.
    pub(crate) fn set_index(&self, index: Arc<IndexMetadata>) {
        for (_, partition) in self.local() {
            if let Some(own) = partition.index() {
                own.set_metadata(Arc::clone(&index));
            }
        }
        *self.index.write() = Some(index);
        self.is_index.store(true, Ordering::Release);
    }
}

/// The tables that exist. Those of databases are found without a lock, and stay for good.
#[derive(Default)]
pub(crate) struct Tables {
    databases: [OnceLock<Arc<Table>>; DATABASES as usize],
    named: RwLock<BTreeMap<String, Arc<Table>>>,
}

impl Tables {
    /// The table of a database.
    pub(crate) fn get(&self, db: u32) -> Option<&Arc<Table>> {
        self.databases.get(db as usize)?.get()
    }

    pub(crate) fn by_name(&self, name: &str) -> Option<Arc<Table>> {
        self.named.read().get(name).cloned()
    }

    /// Adds a table, once.
    pub(crate) fn insert(&self, table: Table) -> Arc<Table> {
        let table = Arc::new(table);
        if let Some(db) = metadata::database_of(&table.name)
            && let Some(database) = self.databases.get(db as usize)
        {
            let is_new = database.set(Arc::clone(&table)).is_ok();
            assert!(is_new, "a database's table is opened once");
        }
        self.named.write().insert(table.name.clone(), Arc::clone(&table));
        table
    }

    /// Forgets a table that is no database's.
    pub(crate) fn remove(&self, name: &str) -> Option<Arc<Table>> {
        self.named.write().remove(name)
    }

    /// All tables, by name.
    pub(crate) fn all(&self) -> Vec<Arc<Table>> {
        self.named.read().values().cloned().collect()
    }

    /// The number and table of each database that exists.
    pub(crate) fn databases(&self) -> impl Iterator<Item = (u32, &Arc<Table>)> {
        (0..).zip(&self.databases).filter_map(|(db, table)| Some((db, table.get()?)))
    }

    /// The copies of all tables that this node serves.
    pub(crate) fn partitions(&self) -> Vec<Arc<Partition>> {
        let tables = self.named.read();
        tables.values().flat_map(|table| table.local().map(|(_, partition)| partition)).collect()
    }

    /// Why copies of this node stopped before they were opened.
    pub(crate) fn stopped(&self) -> Vec<String> {
        let tables = self.named.read();
        let copies = tables.values().flat_map(|table| &table.copies);
        copies.filter_map(|copies| copies.stopped().map(str::to_owned)).collect()
    }

    /// What the table of this incarnation is as an index.
    pub(crate) fn index_of(&self, incarnation: u64) -> Option<Arc<IndexMetadata>> {
        let tables = self.named.read();
        tables.values().find(|table| table.incarnation == incarnation)?.index()
    }

    /// What the table of this incarnation follows.
    pub(crate) fn follows_of(&self, incarnation: u64) -> Option<Arc<Follows>> {
        let tables = self.named.read();
        tables.values().find(|table| table.incarnation == incarnation)?.follows()
    }

    /// The copies of a partition.
    pub(crate) fn copies(&self, id: PartitionId) -> Option<Arc<Copies>> {
        let tables = self.named.read();
        let table = tables.values().find(|table| table.incarnation == id.table)?;
        table.copies.get(id.ordinal as usize).cloned()
    }
}
