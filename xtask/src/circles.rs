//! Files of a crate that need each other. In `cluster` there are none: of two files one can be read without the
//! other. `circles.txt` says of each file elsewhere on how many others it hangs so; the numbers only fall.

use std::collections::{BTreeMap, BTreeSet};

use crate::modules::{self, Comments};
use crate::{Tree, lists};

/// Where the numbers are kept.
const LIST: &str = "xtask/circles.txt";

/// Files that need more of those which need them than are listed, and fewer while the list says more.
pub fn circles(tree: &Tree) -> Vec<String> {
    let mut found = BTreeMap::new();
    for krate in crates(tree) {
        for circle in of_crate(tree, krate) {
            for module in &circle {
                let others: Vec<&str> =
                    circle.iter().filter(|it| *it != module).map(String::as_str).collect();
                found.insert(format!("{krate}: {module}"), others.join(" "));
            }
        }
    }
    let counted = found.iter().map(|(file, others)| (file.clone(), others.split(' ').count()));
    let counted = counted.collect();
    let complaints = lists::only_falling(tree, LIST, &counted, "others", "have one need the other");
    let named = |complaint: String| {
        let file = found.iter().find(|(file, _)| complaint.starts_with(&format!("{file}: ")));
        file.map_or(complaint.clone(), |(_, others)| format!("{complaint} ({others})"))
    };
    complaints.into_iter().map(named).collect()
}

/// The crates that have sources.
fn crates(tree: &Tree) -> BTreeSet<&str> {
    let inner = tree.files.iter().filter_map(|file| file.path.strip_prefix("crates/"));
    inner.filter_map(|path| Some(path.split_once("/src/")?.0)).collect()
}

/// The circles of a crate, each by its modules.
fn of_crate(tree: &Tree, krate: &str) -> BTreeSet<BTreeSet<String>> {
    let needs = modules::needs(tree, krate, Comments::PassOver);
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|module| (module, reachable(module, &needs))).collect();
    let circle = |(module, all): (&&String, &BTreeSet<&String>)| {
        let back = |other: &&&String| reached.get(**other).is_some_and(|it| it.contains(module));
        all.iter().filter(back).map(|it| (*it).clone()).collect::<BTreeSet<_>>()
    };
    reached.iter().map(circle).filter(|circle| circle.len() > 1).collect()
}

/// All that a module needs, and what that needs, itself where it is on a circle.
fn reachable<'a>(
    module: &'a str,
    needs: &'a BTreeMap<String, BTreeSet<String>>,
) -> BTreeSet<&'a String> {
    let mut found = BTreeSet::new();
    let mut left = vec![module];
    while let Some(next) = left.pop() {
        let more = needs.get(next).into_iter().flatten();
        left.extend(more.filter(|it| found.insert(*it)).map(String::as_str));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_reaches_itself_is_on_a_circle() {
        let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let needs = [("a", set(&["b"])), ("b", set(&["a", "c"])), ("c", set(&[]))];
        let needs: BTreeMap<String, BTreeSet<String>> =
            needs.into_iter().map(|(name, needed)| (name.to_owned(), needed)).collect();
        let reached = |module| reachable(module, &needs).into_iter().cloned().collect();
        assert_eq!(set(&["a", "b", "c"]), reached("a"));
        assert_eq!(set(&[]), reached("c"));
    }
}
