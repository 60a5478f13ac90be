//! Files that need each other. In `cluster` there are none: of two files one can be read without the other. Paths
//! are followed as they are written (`crate::`, `super::`, `self::`, or from a folder to what is in it); what a
//! file re-exports counts as its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::Tree;
use crate::taken::production;

const ROOT: &str = "crates/cluster/src/";

/// The circles, each named by its files.
pub fn circles(tree: &Tree) -> Vec<String> {
    let files = tree.files.iter().filter_map(|file| Some((module_of(&file.path)?, &*file.text)));
    let files: BTreeMap<String, &str> = files.collect();
    let needs: BTreeMap<&str, BTreeSet<String>> = files
        .iter()
        .map(|(module, text)| (module.as_str(), needed(module, text, &files)))
        .collect();
    let reached: BTreeMap<&str, BTreeSet<String>> =
        needs.keys().map(|module| (*module, reachable(module, &needs))).collect();
    let mut found = BTreeSet::new();
    for (module, all) in &reached {
        let back =
            |other: &&String| reached.get(other.as_str()).is_some_and(|it| it.contains(*module));
        let circle: BTreeSet<&String> = all.iter().filter(back).collect();
        if circle.len() > 1 {
            let names: Vec<&str> = circle.into_iter().map(String::as_str).collect();
            found.insert(format!("{} need each other", names.join(", ")));
        }
    }
    found.into_iter().collect()
}

/// `node/coordinator` of a file, `node` of a folder's `mod.rs`; none of tests and the root.
fn module_of(path: &str) -> Option<String> {
    let inner = path.strip_prefix(ROOT)?.strip_suffix(".rs")?;
    let is_test = inner.split('/').any(|part| part == "tests");
    (!is_test && inner != "lib").then(|| inner.trim_end_matches("/mod").to_owned())
}

/// All that a module needs, and what that needs, itself where it is on a circle.
fn reachable(module: &str, needs: &BTreeMap<&str, BTreeSet<String>>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut left = vec![module.to_owned()];
    while let Some(next) = left.pop() {
        let more = needs.get(next.as_str()).into_iter().flatten();
        left.extend(more.filter(|it| found.insert((*it).clone())).cloned());
    }
    found
}

/// The modules that a file names.
fn needed(module: &str, text: &str, files: &BTreeMap<String, &str>) -> BTreeSet<String> {
    // One that other tests use has a visibility.
    let text = text.split("#[cfg(test)]\npub(super) mod tests").next().unwrap_or(text);
    let code: Vec<&str> =
        production(text).lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let code = code.join("\n");
    let own: Vec<&str> = module.split('/').collect();
    let parent = &own[..own.len() - 1];
    let begins = [("crate::", &[][..]), ("super::", parent), ("self::", &own[..])];
    let mut paths = Vec::new();
    for (word, from) in begins {
        for (at, _) in code.match_indices(word) {
            // A visibility, or the end of another word.
            let before = code[..at].chars().next_back();
            if code[..at].ends_with("in ")
                || before.is_some_and(|c| c.is_alphanumeric() || c == ':')
            {
                continue;
            }
            paths.extend(tree_of(&code[at + word.len()..]).into_iter().map(|path| (from, path)));
        }
    }
    let uses = code.lines().filter_map(|line| line.trim_start().split_once("use "));
    for (visibility, rest) in uses {
        let child = rest.split("::").next().unwrap_or("");
        if (visibility.is_empty() || visibility.starts_with("pub"))
            && files.contains_key(&format!("{module}/{child}"))
        {
            paths.push((&own[..], vec![child.to_owned()]));
        }
    }
    let named = paths.into_iter().filter_map(|(from, path)| file_of(from, &path, files));
    named.filter(|it| it != module).collect()
}

/// The paths of a use tree that begins here, or the one path of an expression.
fn tree_of(code: &str) -> Vec<Vec<String>> {
    let mut path = Vec::new();
    let mut rest = code;
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            let branches = branches(inner).into_iter().flat_map(|it| tree_of(it.trim()));
            let whole = |branch: Vec<String>| path.iter().cloned().chain(branch).collect();
            return branches.map(whole).collect();
        }
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        path.push(name.to_owned());
        match after.strip_prefix("::") {
            Some(next) => rest = next,
            None => return vec![path],
        }
    }
}

/// The parts of a group up to its end, groups within kept whole.
fn branches(inner: &str) -> Vec<&str> {
    let (mut depth, mut begin, mut found) = (0, 0, Vec::new());
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                found.push(&inner[begin..at]);
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&inner[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The file that a path leads to from a module: the deepest that there is on the way.
fn file_of(from: &[&str], path: &[String], files: &BTreeMap<String, &str>) -> Option<String> {
    let mut at: Vec<&str> = from.to_vec();
    for name in path {
        match name.as_str() {
            "super" => drop(at.pop()),
            name => {
                at.push(name);
                if !files.contains_key(&at.join("/")) {
                    at.pop();
                    break;
                }
            }
        }
    }
    let module = at.join("/");
    files.contains_key(&module).then_some(module)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], module: &str) -> Vec<String> {
        let files: BTreeMap<String, &str> =
            files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect();
        needed(module, files[module], &files).into_iter().collect()
    }

    #[test]
    fn paths_are_followed_to_files() {
        let code = "//! [`crate::z`]\nmod c;\nuse c::C;\nuse super::b::{self, B};\n
            use crate::{x::{y::Y, Z}, other};\npub(in crate::a) fn f() {}\nfn g() { super::super::x::h() }";
        let files = [
            ("a/b/mine", code),
            ("a/b/mine/c", ""),
            ("a/b/b", ""),
            ("x", ""),
            ("x/y", ""),
            ("z", ""),
        ];
        assert_eq!(found(&files, "a/b/mine"), ["a/b/b", "a/b/mine/c", "x", "x/y"]);
    }

    #[test]
    fn what_reaches_itself_is_on_a_circle() {
        let set = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect();
        let needs = BTreeMap::from([("a", set(&["b"])), ("b", set(&["a", "c"])), ("c", set(&[]))]);
        assert_eq!(reachable("a", &needs), set(&["a", "b", "c"]));
        assert_eq!(reachable("c", &needs), set(&[]));
    }
}
