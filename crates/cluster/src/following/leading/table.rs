//! A table as its followers see it: what it is made of, and which nodes they can copy it from.

use plimsoll_log::PartitionId;

use super::{Leading, METADATA_TIME, unreachable};
use crate::following::remote::{LeaderDocuments, LeaderPartition, LeaderTable, RemoteError};
use crate::metadata;
use crate::metadata::placement::PartitionDefinition;
use crate::metadata::table::{DocumentsDefinition, TableDefinition};

impl Leading {
    /// A table by its name; `None` where there is none.
    ///
    /// # Errors
    /// [`RemoteError::Unreachable`] where the node cannot find out what there is now.
    pub async fn table(&self, name: &str) -> Result<Option<LeaderTable>, RemoteError> {
        if !self.here.router.pass_metadata(METADATA_TIME).await {
            return Err(unreachable("the node is cut off from its log"));
        }
        let found = metadata::definition(&self.here.metadata, name).map_err(unreachable)?;
        Ok(found.map(|(definition, _)| self.as_leader(name, definition)))
    }

    fn as_leader(&self, name: &str, definition: TableDefinition) -> LeaderTable {
        let partition = |(id, partition): (PartitionId, &PartitionDefinition)| LeaderPartition {
            nodes: self.nodes_of(id, partition),
        };
        LeaderTable {
            name: name.to_owned(),
            incarnation: definition.incarnation,
            log: self.here.replication.log.incarnation().0,
            partitions: definition.partitions().map(partition).collect(),
            is_follower: is_follower(&definition),
            documents: definition.documents.map(documents),
        }
    }

    /// The nodes whose copy is known to serve and whose port is open, this one first.
    fn nodes_of(&self, id: PartitionId, partition: &PartitionDefinition) -> Vec<String> {
        let here = &self.here;
        let (own, members) = (&here.members.own, here.members.all());
        let local = here.tables.copies(id).and_then(|copies| copies.local());
        let serves_here = local.is_some_and(|local| local.fault().is_none());
        let is_offered = serves_here && !here.members.record.remote.is_empty();
        let others = partition.copies.iter().filter(|copy| copy.node != *own);
        let others = others.filter_map(|copy| members.get(&copy.node)).filter(|member| {
            !here.replication.is_alone && member.serves(id) && !member.record.remote.is_empty()
        });
        let own = is_offered.then(|| own.clone()).into_iter();
        own.chain(others.map(|member| member.id.clone())).collect()
    }
}

/// Whether a table follows another cluster's: nobody follows it then.
fn is_follower(definition: &TableDefinition) -> bool {
    definition.follows.is_some()
}

fn documents(definition: DocumentsDefinition) -> LeaderDocuments {
    let DocumentsDefinition { settings, mapping, mapping_version, aliases, is_closed, .. } =
        definition;
    LeaderDocuments { settings, mapping, mapping_version, aliases, is_closed }
}
