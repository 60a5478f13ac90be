//! What this cluster says of itself to its followers: its names, its nodes, its tables. It is read
//! from the coordinator when it is asked for, and what followers copy and follow from the cluster's
//! own [`Leading`]; whom it may be said to is the port's to know.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use plimsoll_cluster::following::{
    Asked, DifferenceAnswer, DifferenceAsk, FollowerPosition, Held, Hold, LeaderTable, Leading,
    Records,
};
use plimsoll_cluster::{Coordinator, NodeOverview};

use super::port::{Leader, no_table};
use super::protocol::{Hello, NodeAddress, TableInfo};
use crate::security::keys::Key;

/// This cluster, as its followers see it.
pub struct OwnCluster {
    coordinator: Arc<Coordinator>,
    leading: Arc<Leading>,
    uuid: String,
    name: String,
}

impl OwnCluster {
    /// With these names.
    #[must_use]
    pub fn new(
        coordinator: Arc<Coordinator>,
        leading: Arc<Leading>,
        uuid: String,
        name: String,
    ) -> Self {
        Self { coordinator, leading, uuid, name }
    }
}

/// The address that others are told of; none where the node listens on all of its addresses and was
/// not told by which it is reached.
fn usable(address: String) -> String {
    let is_any = address.parse::<SocketAddr>().is_ok_and(|it| it.ip().is_unspecified());
    if is_any { String::new() } else { address }
}

impl Leader for OwnCluster {
    fn own_node(&self) -> String {
        let own = self.coordinator.nodes().into_iter().find(|node| node.is_own);
        own.map(|node| node.id).unwrap_or_default()
    }

    fn peer(&self, node: &str) -> Option<String> {
        let mut nodes = self.coordinator.nodes().into_iter();
        let found = nodes.find(|it| it.id == node && it.is_there() && !it.record.remote.is_empty());
        found.map(|it| it.record.rpc).filter(|rpc| !rpc.is_empty())
    }

    fn hello(&self) -> Hello {
        let nodes = self.coordinator.nodes();
        let own = nodes.iter().find(|node| node.is_own).map(|node| node.id.clone());
        let open = nodes.into_iter().filter(|it| it.is_there() && !it.record.remote.is_empty());
        let address = |it: NodeOverview| NodeAddress {
            id: it.id,
            name: it.record.name,
            address: usable(it.record.remote),
        };
        Hello {
            cluster_uuid: self.uuid.clone(),
            cluster_name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            node: own.unwrap_or_default(),
            nodes: open.map(address).collect(),
        }
    }

    fn tables(&self) -> Vec<TableInfo> {
        let mut tables: BTreeMap<String, TableInfo> = BTreeMap::new();
        for partition in self.coordinator.copies_of_all() {
            let table = tables.entry(partition.table.clone()).or_insert_with(|| TableInfo {
                name: partition.table,
                uuid: partition.table_uuid,
                ..TableInfo::default()
            });
            table.shards += 1;
        }
        for index in self.coordinator.documents().indices() {
            if let Some(table) = tables.get_mut(&index.name) {
                table.mapping_version = Some(index.mapping_version);
            }
        }
        tables.into_values().collect()
    }

    fn table<'a>(&'a self, name: &'a str) -> Asked<'a, LeaderTable> {
        Box::pin(async move {
            let table = self.leading.table(name).await?;
            table.ok_or_else(|| no_table(name))
        })
    }

    fn follow(&self, hold: Hold) -> Asked<'_, LeaderTable> {
        Box::pin(self.leading.follow(hold))
    }

    fn hold(&self, hold: Hold) -> Asked<'_, Held> {
        Box::pin(self.leading.hold(hold))
    }

    fn files<'a>(&'a self, key: &'a Key, question: Bytes) -> BoxFuture<'a, Bytes> {
        // Nodes of two clusters may have one name: their keys differ.
        let asker = format!("ccr:{}", key.id);
        let may = |name: &str| key.may_follow(name);
        Box::pin(async move { self.leading.files(&asker, question, &may).await })
    }

    fn difference<'a>(&'a self, key: &'a Key, ask: DifferenceAsk) -> Asked<'a, DifferenceAnswer> {
        let may = |name: &str| key.may_follow(name);
        Box::pin(async move { self.leading.difference(&key.id, ask, &may).await })
    }

    fn names_of<'a>(&'a self, places: &'a [FollowerPosition]) -> Asked<'a, BTreeMap<u64, String>> {
        Box::pin(self.leading.names_of(places))
    }

    fn records(&self, places: Vec<FollowerPosition>) -> Asked<'_, Box<dyn Records>> {
        Box::pin(async move {
            let records: Box<dyn Records> = Box::new(self.leading.records(places).await?);
            Ok(records)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_leads_nowhere_is_not_told() {
        for (address, told) in [
            ("0.0.0.0:9443", ""),
            ("[::]:9443", ""),
            ("10.0.0.1:9443", "10.0.0.1:9443"),
            ("leader.example:9443", "leader.example:9443"),
        ] {
            assert_eq!(usable(address.to_owned()), told);
        }
    }
}
