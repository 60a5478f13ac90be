//! What all requests share: the node behind them, who it says it is, and the memory and threads that they take.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use plimsoll_index::Error;

use super::body::InFlight;
use super::browsers::Doors;
use super::documents::ids::Ids;
use super::identity::Identity;
use super::large::LargeRequests;
use super::types::Types;
use crate::node::Shared;
use crate::places::{self, Places};
use crate::remote::Remote;

/// What all requests share.
pub struct Rest {
    /// The node behind them.
    pub node: Arc<Shared>,
    /// Who the cluster and the node say they are.
    pub identity: Identity,
    /// Whether answers name the types of documents.
    pub types: Types,
    /// Where the port really is.
    pub address: std::net::SocketAddr,
    /// Which web pages may ask.
    pub doors: Doors,
    /// Where large requests are answered.
    pub large: LargeRequests,
    /// Memory that bodies hold.
    pub in_flight: Arc<InFlight>,
    /// The way to and from other clusters.
    pub remote: Arc<Remote>,
    /// Ids for documents that come without one.
    pub ids: Ids,
    /// The places of connections that are open.
    pub(crate) places: Arc<Places>,
    /// Connections that there ever were.
    pub connections_total: AtomicU64,
}

impl Rest {
    /// REST over a node that is open.
    ///
    /// # Errors
    /// Where the node cannot keep who it is, or has no room for threads.
    pub async fn new(
        node: Arc<Shared>,
        remote: Arc<Remote>,
        address: std::net::SocketAddr,
    ) -> Result<Self, Error> {
        let identity = Identity::load(&node.coordinator, &node.settings.node_name).await?;
        let in_flight = Arc::clone(&node.in_flight);
        let large = LargeRequests::start()
            .map_err(|error| Error::internal(format!("no threads for large requests: {error}")))?;
        Ok(Self {
            large,
            types: Types::of(&node.settings),
            places: places::of_clients("http.max_clients", node.settings.http_max_clients),
            doors: Doors::new(&node.settings),
            node,
            identity,
            address,
            in_flight,
            remote,
            ids: Ids::default(),
            connections_total: AtomicU64::new(0),
        })
    }

    /// Connections that are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.places.held()
    }
}

/// The error as it can be said here: that an index is not there is not known where the log of the metadata does
/// not answer. Also of one item among others, which is answered by itself.
pub fn as_known(rest: &Rest, error: Error) -> Error {
    if error.kind != "index_not_found_exception" || rest.node.coordinator.is_current() {
        return error;
    }
    let name = error.extra.get("index").and_then(serde_json::Value::as_str).unwrap_or_default();
    let reason = format!(
        "blocked by: [SERVICE_UNAVAILABLE/2/no master]; whether the index [{name}] exists is not \
         known here: the log of the cluster's metadata does not answer"
    );
    Error::unavailable("cluster_block_exception", reason)
}
