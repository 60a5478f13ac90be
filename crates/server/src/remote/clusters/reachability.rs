//! How a remote cluster is reached now: its ways, and whose turn it is. Who makes the ways is
//! `keeper.rs`.

use plimsoll_cluster::following::RemoteError;

use super::lanes::{Carried, next};
use super::way::Way;

/// How it is reached now.
pub(super) struct Reachability {
    pub(super) ways: Vec<Way>,
    /// Whose turn it is.
    pub(super) next: usize,
    /// Over how many connections to one node files come.
    pub(super) lanes: usize,
    /// Whether the last look ended well.
    pub(super) is_reached: bool,
    /// Why it is not reached, once that was tried.
    pub(super) error: Option<String>,
}

impl Default for Reachability {
    fn default() -> Self {
        Self { ways: Vec::new(), next: 0, lanes: 1, is_reached: false, error: None }
    }
}

impl Reachability {
    /// The way that the next part of a file takes, of those to its node.
    pub(super) fn lane(&mut self, node: &str) -> Result<(Way, Option<Carried>), RemoteError> {
        let to_node = || self.ways.iter().filter(|way| way.node == node).take(self.lanes);
        match next(to_node().map(|way| &way.load)) {
            Some((at, carried)) => {
                let way = to_node()
                    .nth(at)
                    .cloned()
                    .ok_or_else(|| RemoteError::Unreachable("the connection is gone".to_owned()))?;
                Ok((way, Some(carried)))
            }
            None => Ok((self.way(Some(node))?, None)),
        }
    }

    /// The way to a node, else to any: whoever is reached hands a question on that names another.
    pub(super) fn way(&mut self, node: Option<&str>) -> Result<Way, RemoteError> {
        let leads = |way: &&Way| node.is_some_and(|node| way.node == node);
        if let Some(way) = self.ways.iter().find(leads) {
            return Ok(way.clone());
        }
        if self.ways.is_empty() {
            let why = self.error.clone().unwrap_or_else(|| "it was not reached yet".to_owned());
            return Err(RemoteError::Unreachable(why));
        }
        self.next = self.next.wrapping_add(1);
        Ok(self.ways[self.next % self.ways.len()].clone())
    }
}
