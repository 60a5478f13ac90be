//! What this cluster says of itself to its followers: its names, its nodes, its tables. It is read
//! from the coordinator when it is asked for; whom it may be said to is the port's to know.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use plimsoll_cluster::{Coordinator, NodeOverview};

use super::port::Leader;
use super::protocol::{Hello, NodeAddress, TableInfo};

/// This cluster, as its followers see it.
pub struct OwnCluster {
    coordinator: Arc<Coordinator>,
    uuid: String,
    name: String,
}

impl OwnCluster {
    /// With these names.
    #[must_use]
    pub fn new(coordinator: Arc<Coordinator>, uuid: String, name: String) -> Self {
        Self { coordinator, uuid, name }
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
        for index in self.coordinator.indices() {
            if let Some(table) = tables.get_mut(&index.name) {
                table.mapping_version = Some(index.mapping_version);
            }
        }
        tables.into_values().collect()
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
