//! What the cluster is made of, for those who show it: its nodes, and the copies of partitions
//! with what is missing of them and why. Nothing is decided here, and no other node is asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::Coordinator;
use crate::metadata::index::{IndexMetadata, uuid};
use crate::metadata::members::{Member, NodeRecord};
use crate::metadata::placement::CopyState;
use crate::metadata::reports::CopyReport;
use crate::node::shared::Shared;
use crate::replication::tables::{Copies, Table};
use crate::settings;

/// A node as this one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOverview {
    /// Its id, which its data folder keeps.
    pub id: String,
    /// What it says of itself.
    pub record: NodeRecord,
    /// When it left, in log time, ms; none while it is there.
    pub left_ms: Option<u64>,
    /// Whether it is the node that is asked.
    pub is_own: bool,
    /// Whether it acts for all: it notes who has left, and where copies should be. The first of
    /// those that are there does.
    pub is_manager: bool,
}

impl NodeOverview {
    /// Whether it is there.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.left_ms.is_none()
    }
}

/// Why a copy that is wanted is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Fewer nodes that hold copies are there than copies are wanted.
    TooFewNodes,
    /// Its node left.
    NodeLeft {
        /// The id of the node.
        node: String,
        /// When it left, in log time, ms.
        left_ms: u64,
        /// Until when it is waited for, in log time, ms; none where that time is over.
        until_ms: Option<u64>,
    },
    /// It is to be made as soon as nodes have room for it.
    ToBeMade,
    /// It has stopped.
    Stopped {
        /// The id of the node.
        node: String,
        /// What was wrong; of one on another node, that there is something.
        reason: String,
    },
}

/// How a copy is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyStatus {
    /// It can be asked.
    Serving {
        /// The id of its node.
        node: String,
    },
    /// It is being made.
    Initializing {
        /// The id of its node.
        node: String,
    },
    /// There is none.
    Unassigned(Missing),
}

impl CopyStatus {
    /// The id of the node that it is on.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        match self {
            Self::Serving { node } | Self::Initializing { node } => Some(node),
            Self::Unassigned(_) => None,
        }
    }

    /// Whether it can be asked.
    #[must_use]
    pub fn is_serving(&self) -> bool {
        matches!(self, Self::Serving { .. })
    }
}

/// A partition and its copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionOverview {
    /// The table that it is of.
    pub table: String,
    /// Tells the table from an earlier one of the same name: 22 URL-safe characters.
    pub table_uuid: String,
    /// Whether the table is an index.
    pub is_index: bool,
    /// Its place among the partitions of the table.
    pub ordinal: u32,
    /// Its log group.
    pub group: u16,
    /// One more at each change of its copies.
    pub epoch: u64,
    /// Copies that it should have.
    pub wanted: u32,
    /// Whether its first copy is being made of a leader's: there was never anything to lose.
    pub is_bootstrapping: bool,
    /// Its copies, those missing included. The first serves if any does; searches treat all alike.
    pub copies: Vec<CopyStatus>,
}

impl PartitionOverview {
    /// Copies that can be asked.
    #[must_use]
    pub fn serving(&self) -> u32 {
        self.count(CopyStatus::is_serving)
    }

    /// Copies that are being made, those that only move included.
    fn being_made(&self) -> u32 {
        self.count(|copy| matches!(copy, CopyStatus::Initializing { .. }))
    }

    /// Copies that are being made to take the place of others.
    #[must_use]
    pub fn relocating(&self) -> u32 {
        let made = self.being_made();
        (self.serving() + made).saturating_sub(self.wanted).min(made)
    }

    /// Copies that are being made because there are too few.
    #[must_use]
    pub fn initializing(&self) -> u32 {
        self.being_made() - self.relocating()
    }

    /// Copies that are wanted and not there.
    #[must_use]
    pub fn unassigned(&self) -> u32 {
        self.count(|copy| matches!(copy, CopyStatus::Unassigned(_)))
    }

    /// Those of them that a node which left may bring back soon.
    #[must_use]
    pub fn delayed(&self) -> u32 {
        self.count(|copy| {
            let CopyStatus::Unassigned(Missing::NodeLeft { until_ms, .. }) = copy else {
                return false;
            };
            until_ms.is_some()
        })
    }

    fn count(&self, is: impl Fn(&CopyStatus) -> bool) -> u32 {
        u32::try_from(self.copies.iter().filter(|copy| is(copy)).count()).unwrap_or(u32::MAX)
    }
}

impl Coordinator {
    /// The nodes of the cluster, by their ids, also those that left and were not forgotten.
    #[must_use]
    pub fn nodes(&self) -> Vec<NodeOverview> {
        self.shared().router.follow_members_or_warn();
        let members = &self.shared().members;
        let all = members.all();
        let manager = all.values().find(|member| member.is_alive()).map(|member| &member.id);
        let overview = |member: &Arc<Member>| NodeOverview {
            id: member.id.clone(),
            record: member.record.clone(),
            left_ms: member.left_ms,
            is_own: member.id == members.own,
            is_manager: manager == Some(&member.id),
        };
        all.values().map(overview).collect()
    }

    /// Whether no other node can join.
    #[must_use]
    pub fn is_alone(&self) -> bool {
        self.shared().replication.is_alone
    }

    /// The partitions of all tables with their copies, by table and ordinal.
    #[must_use]
    pub fn copies_of_all(&self) -> Vec<PartitionOverview> {
        let look = Look::new(self.shared());
        self.shared().tables.all().iter().flat_map(|table| look.table(table)).collect()
    }

    /// The partitions of a table with their copies; none where there is no such table.
    #[must_use]
    pub fn copies_of(&self, table: &str) -> Vec<PartitionOverview> {
        let table = self.shared().tables.by_name(table);
        table.map_or_else(Vec::new, |table| Look::new(self.shared()).table(&table))
    }

    /// The databases of rows alone that are there, by name.
    #[must_use]
    pub fn databases_of_rows(&self) -> Vec<String> {
        let tables = self.shared().tables.all();
        tables.iter().filter(|it| !it.is_index()).map(|it| it.name().to_owned()).collect()
    }

    /// Copies of each partition beyond the first that an index should have.
    #[must_use]
    pub fn wanted_replicas(&self, index: &IndexMetadata) -> u32 {
        self.shared().copies.changes.wanted_replicas(index)
    }
}

/// What does not change from one partition to the next.
struct Look<'a> {
    shared: &'a Shared,
    members: Arc<BTreeMap<String, Arc<Member>>>,
    log_time_ms: u64,
    default_copies: usize,
    delayed_ms: u64,
    there: usize,
}

impl<'a> Look<'a> {
    fn new(shared: &'a Shared) -> Self {
        // A node that has just left, or damaged a copy, is not called well.
        shared.router.follow_members_or_warn();
        let members = shared.members.all();
        let there = shared.members.data_nodes();
        let log_time_ms = shared.metadata.log_time_ms();
        let default_copies = shared.copies.changes.wanted_copies_of(None);
        let delayed_ms = settings::cluster::delayed_ms(&shared.metadata);
        Self { shared, members, log_time_ms, default_copies, delayed_ms, there }
    }

    fn table(&self, table: &Table) -> Vec<PartitionOverview> {
        let index = table.index();
        let wanted = match &index {
            Some(index) => self.shared.copies.changes.wanted_replicas(index) as usize + 1,
            None => self.default_copies,
        };
        let wait_ms = index.as_ref().and_then(|it| it.delayed_ms()).unwrap_or(self.delayed_ms);
        let partition = |copies: &Arc<Copies>| {
            let definition = copies.definition();
            PartitionOverview {
                table: table.name().to_owned(),
                table_uuid: uuid(table.incarnation()),
                is_index: index.is_some(),
                ordinal: copies.id.ordinal,
                group: definition.group,
                epoch: definition.epoch,
                wanted: u32::try_from(wanted).unwrap_or(u32::MAX),
                is_bootstrapping: copies.is_first_to_come(),
                copies: self.copies(copies, wanted, wait_ms),
            }
        };
        table.copies().iter().map(partition).collect()
    }

    fn copies(&self, copies: &Copies, wanted: usize, wait_ms: u64) -> Vec<CopyStatus> {
        let mut found = Vec::new();
        let mut missing = Vec::new();
        for copy in &copies.definition().copies {
            let node = copy.node.clone();
            let member = self.members.get(&node);
            // One that is not known was forgotten.
            if let Some(left_ms) = member.map_or(Some(0), |it| it.left_ms) {
                let until_ms = left_ms.saturating_add(wait_ms);
                let until_ms = Some(until_ms).filter(|until_ms| self.log_time_ms < *until_ms);
                missing.push(Missing::NodeLeft { node, left_ms, until_ms });
                continue;
            }
            let is_own = self.shared.replication.is_alone || *node == *self.shared.members.own;
            let told = member.and_then(|it| it.reports.of(copies.id));
            // What this node told before it was started again is not true of a copy that it has to make
            // first; a node that is alone tells nobody.
            let own = is_own.then(|| copies.report()).flatten();
            let report = match &own {
                Some(own) => Some(own),
                None => told.filter(|told| !is_own || told.why().is_some()),
            };
            match report {
                Some(CopyReport::Serving { .. }) if copy.state == CopyState::Serving => {
                    found.push(CopyStatus::Serving { node });
                }
                Some(report) if report.why().is_some() => {
                    let reason = report.why().unwrap_or_default().to_owned();
                    missing.push(Missing::Stopped { node, reason });
                }
                _ => found.push(CopyStatus::Initializing { node }),
            }
        }
        found.sort_by_key(|copy| !copy.is_serving());
        let is_stopped = |it: &Missing| matches!(it, Missing::Stopped { .. });
        let stopped = missing.iter().filter(|it| is_stopped(it)).count();
        missing.sort_by_key(|it| !is_stopped(it));
        // One of a node that left is missed only where there are too few without it.
        missing.truncate(wanted.saturating_sub(found.len()).max(stopped));
        while found.len() + missing.len() < wanted {
            let has_room = found.len() + missing.len() < self.there;
            missing.push(if has_room { Missing::ToBeMade } else { Missing::TooFewNodes });
        }
        found.into_iter().chain(missing.into_iter().map(CopyStatus::Unassigned)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(wanted: u32, copies: &str) -> PartitionOverview {
        let node = || "n".to_owned();
        let copy = |letter| match letter {
            's' => CopyStatus::Serving { node: node() },
            'i' => CopyStatus::Initializing { node: node() },
            'd' => {
                let until_ms = Some(1);
                CopyStatus::Unassigned(Missing::NodeLeft { node: node(), left_ms: 0, until_ms })
            }
            _ => CopyStatus::Unassigned(Missing::TooFewNodes),
        };
        PartitionOverview {
            table: "t".to_owned(),
            table_uuid: "u".to_owned(),
            is_index: true,
            ordinal: 0,
            group: 1,
            epoch: 1,
            wanted,
            is_bootstrapping: false,
            copies: copies.chars().map(copy).collect(),
        }
    }

    #[test]
    fn a_copy_that_takes_the_place_of_another_only_moves() {
        let counts = |wanted, copies| {
            let it = partition(wanted, copies);
            (it.serving(), it.relocating(), it.initializing(), it.unassigned(), it.delayed())
        };
        assert_eq!(counts(2, "ss"), (2, 0, 0, 0, 0));
        assert_eq!(counts(2, "si"), (1, 0, 1, 0, 0));
        assert_eq!(counts(2, "ssi"), (2, 1, 0, 0, 0));
        assert_eq!(counts(2, "sii"), (1, 1, 1, 0, 0), "of two, one makes up for what is missing");
        assert_eq!(counts(3, "sdu"), (1, 0, 0, 2, 1));
        assert_eq!(counts(1, "ii"), (0, 1, 1, 0, 0));
    }
}
