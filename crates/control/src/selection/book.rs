//! The book of a coordinator's own requests that are not answered: how many are out at each node
//! and since when. It is the one signal that a stopped node cannot colour.

use std::collections::BTreeMap;

use super::by_node::ByNode;
use super::node_id::NodeId;
use crate::load_line::Class;

/// A request under way. Small, and given back when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flight {
    /// Where it went.
    pub node: NodeId,
    /// Its class.
    pub class: Class,
    /// When it was sent.
    pub sent_ns: u64,
    number: u64,
}

#[derive(Clone, Debug, Default)]
struct Out {
    count: u32,
    /// Number to time of sending; numbers grow with time, so the first is the oldest.
    by_class: [BTreeMap<u64, u64>; Class::COUNT],
}

/// Requests sent and not answered, by node.
#[derive(Clone, Debug, Default)]
pub struct Book {
    next: u64,
    nodes: ByNode<Out>,
}

impl Book {
    /// How many are out at the node.
    #[must_use]
    pub fn outstanding(&self, node: NodeId) -> u32 {
        self.nodes.get(node).map_or(0, |out| out.count)
    }

    /// When the oldest one of the class that is out at the node was sent.
    #[must_use]
    pub fn oldest_sent_ns(&self, node: NodeId, class: Class) -> Option<u64> {
        let sent = &self.nodes.get(node)?.by_class[class.slot()];
        sent.first_key_value().map(|(_, sent_ns)| *sent_ns)
    }

    pub(super) fn send(&mut self, now_ns: u64, class: Class, node: NodeId) -> Flight {
        let number = self.next;
        self.next += 1;
        let out = self.nodes.get_or(node, Out::default);
        out.count += 1;
        out.by_class[class.slot()].insert(number, now_ns);
        Flight { node, class, sent_ns: now_ns, number }
    }

    pub(super) fn end(&mut self, flight: &Flight) {
        let out = self.nodes.get_mut(flight.node);
        let known = out.is_some_and(|out| {
            let was_out = out.by_class[flight.class.slot()].remove(&flight.number).is_some();
            out.count -= u32::from(was_out);
            was_out
        });
        assert!(known, "a request ends once");
    }
}
