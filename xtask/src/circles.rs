//! Files of `cluster` that need each other. There are none: of two files one can be read without the other.

use std::collections::{BTreeMap, BTreeSet};

use crate::Tree;
use crate::modules::{self, Comments};

/// The circles, each named by its files.
pub fn circles(tree: &Tree) -> Vec<String> {
    let needs = modules::needs(tree, Comments::PassOver);
    let reached: BTreeMap<&String, BTreeSet<&String>> =
        needs.keys().map(|module| (module, reachable(module, &needs))).collect();
    let mut found = BTreeSet::new();
    for (module, all) in &reached {
        let back = |other: &&&String| reached.get(**other).is_some_and(|it| it.contains(module));
        let circle: Vec<&str> = all.iter().filter(back).map(|it| it.as_str()).collect();
        if circle.len() > 1 {
            found.insert(format!("{} need each other", circle.join(", ")));
        }
    }
    found.into_iter().collect()
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
