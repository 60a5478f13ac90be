//! Which part of `cluster` may know which. Its folders are layers, each of which knows those below it alone.

use std::collections::{BTreeMap, BTreeSet};

use crate::Tree;
use crate::taken::production;

const ROOT: &str = "crates/cluster/src/";

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
    let exported = exported(tree);
    for file in &tree.files {
        let Some(module) = module_of(&file.path) else { continue };
        let Some(own) = layer_of(&module) else {
            complaints.push(format!("{}: of no layer", file.path));
            continue;
        };
        let named = mentioned(production(&file.text), &exported);
        let above = named.iter().filter(|it| layer_of(it).is_some_and(|other| other > own));
        complaints.extend(above.map(|it| format!("{module} -> {it} runs up")));
    }
    complaints
}

/// `lead` of `crates/cluster/src/lead.rs`, `rpc/answer` of a file in a folder; none of tests and the root.
fn module_of(path: &str) -> Option<String> {
    let inner = path.strip_prefix(ROOT)?.strip_suffix(".rs")?;
    let is_test = inner.split('/').any(|part| part == "tests");
    if is_test || inner == "lib" {
        return None;
    }
    Some(inner.trim_end_matches("/mod").to_owned())
}

/// The number of the layer that a module is of.
fn layer_of(module: &str) -> Option<usize> {
    let folder = module.split('/').next().unwrap_or(module);
    LAYERS.iter().position(|layer| *layer == folder)
}

/// The names that the crate's root gives on, each with the module that it comes from.
fn exported(tree: &Tree) -> BTreeMap<String, String> {
    let root = tree.file("crates/cluster/src/lib.rs").map_or("", |file| file.text.as_str());
    let mut exported = BTreeMap::new();
    for item in root.split("pub use ").skip(1) {
        let item = item.split(';').next().unwrap_or("");
        let Some((module, names)) = item.rsplit_once("::") else { continue };
        for name in names.split(|c: char| !c.is_alphanumeric() && c != '_') {
            exported.insert(name.to_owned(), module.to_owned());
        }
    }
    exported
}

/// The modules that code names by `crate::`, as `folder/module`.
fn mentioned(code: &str, exported: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut modules = BTreeSet::new();
    for rest in code.split("crate::").skip(1) {
        // In a group each name stands by itself.
        let group = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        let names: Vec<&str> =
            group.map_or_else(|| vec![rest], |group| group.split(", ").collect());
        for name in names {
            let mut parts = name.split(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
            let path = parts.next().unwrap_or("");
            let path = match exported.get(path.split("::").next().unwrap_or("")) {
                Some(from) => from.clone(),
                None => path.to_owned(),
            };
            let modules_of_path = path.split("::").take(2);
            // A type or a function is named with its folder alone.
            let is_module = |name: &&str| name.chars().next().is_some_and(char::is_lowercase);
            let named: Vec<&str> = modules_of_path.take_while(is_module).collect();
            if !named.is_empty() {
                modules.insert(named.join("/"));
            }
        }
    }
    modules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_a_layer() {
        assert!(layer_of("wire/messages") < layer_of("node"));
        assert_eq!(layer_of("leader"), None);
    }

    #[test]
    fn names_of_the_root_stand_for_where_they_come_from() {
        let exported = BTreeMap::from([("Coordinator".to_owned(), "node::coordinator".to_owned())]);
        let code = "use crate::Coordinator;\nuse crate::{metadata, Coordinator};
            let x = crate::node::answer::of(); use crate::node::Shared;";
        let found = mentioned(code, &exported);
        let expected = ["metadata", "node", "node/answer", "node/coordinator"];
        assert_eq!(found.iter().collect::<Vec<_>>(), expected);
    }
}
