//! Which part of `cluster` may know which. Its folders are layers, each of which knows those below it alone.

use crate::Tree;
use crate::modules::{self, Comments};

/// The folders from the lowest up.
const LAYERS: [&str; 13] = [
    "machine",
    "wire",
    "metadata",
    "settings",
    "pacing",
    "replication",
    "recovery",
    "routing",
    "rows",
    "documents",
    "copies",
    "following",
    "node",
];

/// Arrows that run up.
pub fn upward(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (module, needed) in modules::needs(tree, "cluster", Comments::Count) {
        let Some(own) = layer_of(&module) else {
            complaints.push(format!("{module}: of no layer"));
            continue;
        };
        let above = needed.iter().filter(|it| layer_of(it).is_some_and(|other| other > own));
        complaints.extend(above.map(|it| format!("{module} -> {it} runs up")));
    }
    complaints
}

/// The number of the layer that a module is of.
fn layer_of(module: &str) -> Option<usize> {
    let folder = module.split('/').next().unwrap_or(module);
    LAYERS.iter().position(|layer| *layer == folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_layer() {
        assert!(layer_of("wire/messages") < layer_of("node"));
        assert_eq!(layer_of("leader"), None);
    }
}
