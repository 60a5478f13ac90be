//! All nodes of the cluster as REST names them, here and in other answers, what is read of what each
//! says of its process, and which of them a filter means.

use std::net::SocketAddr;

use plimsoll_cluster::{CacheStatistics, ClusterStatistics, NodeOverview, NodeStatistics};
use serde_json::{Value, json};

use crate::rest::shared::Rest;
use crate::rest::stats::figures::Figures;
use crate::settings::ROLES;
use plimsoll_stdx::wildcard_matches;

/// A node and its names.
#[derive(Clone, Debug)]
pub struct NodeView {
    /// As the cluster knows it.
    pub member: NodeOverview,
    /// Its id in the answers of REST: 22 URL-safe characters.
    pub id: String,
}

impl NodeView {
    /// Its name, for people.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.member.record.name
    }

    /// Where REST clients connect.
    #[must_use]
    pub fn http(&self) -> &str {
        &self.member.record.http
    }

    /// Where other nodes ask it; of one that is alone, where REST clients connect.
    #[must_use]
    pub fn transport(&self) -> &str {
        match self.member.record.rpc.as_str() {
            "" => self.http(),
            rpc => rpc,
        }
    }

    /// The host of its address.
    #[must_use]
    pub fn ip(&self) -> String {
        match self.http().parse::<SocketAddr>() {
            Ok(address) => address.ip().to_string(),
            Err(_) => self.http().rsplit_once(':').map_or("", |(host, _)| host).to_owned(),
        }
    }

    /// The port of the address where other nodes ask it.
    #[must_use]
    pub fn port(&self) -> String {
        self.transport().rsplit_once(':').map_or("", |(_, port)| port).to_owned()
    }

    /// What it does for the cluster.
    #[must_use]
    pub fn roles(&self) -> &'static [&'static str] {
        if self.member.record.is_coordinating_only { &[] } else { &ROLES }
    }

    /// Whether a filter of nodes means it.
    #[must_use]
    pub fn is_meant(&self, filter: Option<&str>) -> bool {
        let Some(filter) = filter else { return true };
        let ip = self.ip();
        let mut is_meant = false;
        for part in filter.split(',') {
            let part = part.trim();
            if let Some((role, wanted)) = part.split_once(':') {
                let has = match role {
                    "data" => !self.member.record.is_coordinating_only,
                    "coordinating_only" => self.member.record.is_coordinating_only,
                    _ => ROLES.contains(&role) || role == "cluster_manager",
                };
                if has {
                    is_meant = wanted == "true";
                }
                continue;
            }
            is_meant |= match part {
                "_all" => true,
                "_local" => self.member.is_own,
                "_master" | "_cluster_manager" => self.member.is_manager,
                name => [self.name(), &self.id, &ip].iter().any(|it| wildcard_matches(name, it)),
            };
        }
        is_meant
    }
}

/// The nodes that are there, this one too, by name.
#[must_use]
pub fn there(rest: &Rest) -> Vec<NodeView> {
    let nodes = rest.node.coordinator.nodes().into_iter().filter(NodeOverview::is_there);
    let mut nodes: Vec<NodeView> = nodes.map(|member| view(rest, member)).collect();
    nodes.sort_by(|a, b| a.name().cmp(b.name()).then_with(|| a.id.cmp(&b.id)));
    nodes
}

/// The node that acts for all.
#[must_use]
pub fn manager(nodes: &[NodeView]) -> Option<&NodeView> {
    nodes.iter().find(|node| node.member.is_manager)
}

/// The node with this id of the cluster's own.
#[must_use]
pub fn find<'a>(nodes: &'a [NodeView], member: &str) -> Option<&'a NodeView> {
    nodes.iter().find(|node| node.member.id == member)
}

fn view(rest: &Rest, mut member: NodeOverview) -> NodeView {
    let id = if member.is_own {
        member.record.http = rest.address.to_string();
        member.record.name.clone_from(&rest.node.settings.node_name);
        rest.identity.node_id.clone()
    } else {
        let kept =
            rest.node.coordinator.stored("identity", &format!("node-{}", member.record.name));
        match kept {
            Some(Value::String(id)) => id,
            _ => member.id.clone(),
        }
    };
    NodeView { member, id }
}

/// A node as other answers name it.
#[must_use]
pub fn brief(rest: &Rest, node: &NodeView) -> Value {
    json!({
        "name": node.name(),
        "ephemeral_id": ephemeral_id(rest, node),
        "transport_address": node.transport(),
        "attributes": attributes(node),
    })
}

/// Another name at each start, as long as the lasting one.
pub(super) fn ephemeral_id(rest: &Rest, node: &NodeView) -> String {
    if node.member.is_own {
        return rest.node.run_id.get(..22).unwrap_or(&rest.node.run_id).to_owned();
    }
    format!("{:x}-{}", node.member.record.started_ms, node.member.id).chars().take(22).collect()
}

/// What was said of where a node stands.
#[must_use]
pub fn attributes(node: &NodeView) -> Value {
    match node.member.record.zone.as_str() {
        "" => json!({}),
        zone => json!({ "zone": zone }),
    }
}

/// This node, with its names.
#[must_use]
pub fn own(rest: &Rest) -> Option<NodeView> {
    there(rest).into_iter().find(|node| node.member.is_own)
}

/// This node as lists of tasks and figures begin with it.
#[must_use]
pub fn header(rest: &Rest) -> Value {
    let own = own(rest);
    let transport = own.as_ref().map(NodeView::transport).unwrap_or_default();
    json!({
        "name": rest.node.settings.node_name,
        "transport_address": transport,
        "host": rest.address.ip().to_string(),
        "ip": transport,
        "roles": own.as_ref().map_or(&[][..], NodeView::roles),
        "attributes": own.as_ref().map_or_else(|| json!({}), attributes),
    })
}

/// What all nodes say of themselves; reading files for it may take a while.
pub async fn statistics(rest: &Rest) -> ClusterStatistics {
    rest.node.coordinator.cluster_statistics().await
}

/// The sums over a node's copies, with what its searches share.
#[must_use]
pub fn figures(node: &NodeStatistics) -> Figures {
    let mut all = Figures::default();
    for copy in &node.copies {
        all.add(&Figures::of_partition(&copy.statistics));
    }
    let number = |list: &str, at: usize| node.process[list][at].as_u64().unwrap_or(0);
    all.contexts = (number("contexts", 0), number("contexts", 1));
    all.views = number("contexts", 2);
    all.cache = cache(node);
    all
}

/// The folder of a node's data.
#[must_use]
pub fn data_path(node: &NodeStatistics) -> &str {
    node.process["flat_settings"]["path.data"].as_str().unwrap_or_default()
}

/// What a node says of its request cache.
#[must_use]
pub fn cache(node: &NodeStatistics) -> CacheStatistics {
    let number = |at: usize| node.process["cache"][at].as_u64().unwrap_or(0);
    CacheStatistics { bytes: number(0), hits: number(1), misses: number(2) }
}
