//! What a rule keeps for each node.

use super::node_id::NodeId;

/// Per-node state in a vector, because node numbers are dense and iteration must not depend on a
/// hash.
#[derive(Clone, Debug)]
pub(super) struct ByNode<T>(Vec<Option<Box<T>>>);

impl<T> Default for ByNode<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> ByNode<T> {
    pub(super) fn get(&self, node: NodeId) -> Option<&T> {
        self.0.get(node.slot())?.as_deref()
    }

    pub(super) fn get_mut(&mut self, node: NodeId) -> Option<&mut T> {
        self.0.get_mut(node.slot())?.as_deref_mut()
    }

    pub(super) fn get_or(&mut self, node: NodeId, new: impl FnOnce() -> T) -> &mut T {
        let slot = node.slot();
        if slot >= self.0.len() {
            self.0.resize_with(slot + 1, || None);
        }
        self.0[slot].get_or_insert_with(|| Box::new(new()))
    }

    pub(super) fn remove(&mut self, node: NodeId) {
        if let Some(entry) = self.0.get_mut(node.slot()) {
            *entry = None;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().flatten().count()
    }
}
