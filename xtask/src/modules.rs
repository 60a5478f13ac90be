//! Which module of a crate names which. Paths are followed as they are written (`crate::`, `super::`, `self::`,
//! or from a folder to what is in it) to the deepest file on the way; a name that the crate's root gives on stands
//! for where it comes from, and what another file re-exports counts as that file's own.

use std::collections::{BTreeMap, BTreeSet};

use crate::Tree;
use crate::taken::production;

/// Whether a link in a comment names a module.
#[derive(Clone, Copy)]
pub(crate) enum Comments {
    Count,
    PassOver,
}

/// The modules that each names: `node/coordinator` for a file, `node` for a folder's `mod.rs`. Tests and the
/// crate's root are left out.
pub(crate) fn needs(
    tree: &Tree,
    krate: &str,
    comments: Comments,
) -> BTreeMap<String, BTreeSet<String>> {
    let root = format!("crates/{krate}/src/");
    let module = |file: &crate::tree::SourceFile| module_of(file.path.strip_prefix(&root)?);
    let files = tree.files.iter().filter_map(|file| Some((module(file)?, &*file.text)));
    let files: BTreeMap<String, &str> = files.collect();
    let exported = exported(tree, &root);
    let needed = |(module, text): (&String, &&str)| {
        (module.clone(), needed(module, &code_of(text, comments), &files, &exported))
    };
    files.iter().map(needed).collect()
}

fn module_of(path: &str) -> Option<String> {
    let inner = path.strip_suffix(".rs")?;
    let is_test = inner.split('/').any(|part| part == "tests");
    (!is_test && inner != "lib" && inner != "main")
        .then(|| inner.trim_end_matches("/mod").to_owned())
}

/// The names that the crate's root gives on, each with the path that it comes from.
fn exported(tree: &Tree, root: &str) -> BTreeMap<String, Vec<String>> {
    let root = tree.file(&format!("{root}lib.rs")).map_or("", |file| file.text.as_str());
    let paths = root.split("pub use ").skip(1).flat_map(tree_of);
    paths.filter_map(|path| Some((path.last()?.clone(), path.clone()))).collect()
}

/// A file's text without its tests.
pub(crate) fn code_of(text: &str, comments: Comments) -> String {
    // Tests that others use have a visibility.
    let text = text.split("#[cfg(test)]\npub(super) mod tests").next().unwrap_or(text);
    let is_counted = |line: &&str| match comments {
        Comments::Count => true,
        Comments::PassOver => !line.trim_start().starts_with("//"),
    };
    production(text).lines().filter(is_counted).collect::<Vec<_>>().join("\n")
}

/// The modules that a file's code names.
fn needed(
    module: &str,
    code: &str,
    files: &BTreeMap<String, &str>,
    exported: &BTreeMap<String, Vec<String>>,
) -> BTreeSet<String> {
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
    let given_on = |(from, path): (&'_ [&'_ str], Vec<String>)| {
        let given = path.first().filter(|_| from.is_empty()).and_then(|name| exported.get(name));
        file_of(from, given.unwrap_or(&path), files)
    };
    paths.into_iter().filter_map(given_on).filter(|it| it != module).collect()
}

/// The paths of a use tree that begins here, or the one path of an expression.
fn tree_of(code: &str) -> Vec<Vec<String>> {
    let mut path = Vec::new();
    let mut rest = code;
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            // Behind the last comma there is none.
            let branches = branches(inner).into_iter().map(str::trim).filter(|it| !it.is_empty());
            let branches = branches.flat_map(tree_of);
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

    fn found(files: &[(&str, &str)], module: &str, comments: Comments) -> Vec<String> {
        let files: BTreeMap<String, &str> =
            files.iter().map(|(name, text)| ((*name).to_owned(), *text)).collect();
        let from = ["node", "coordinator", "Coordinator"].map(str::to_owned).to_vec();
        let exported = BTreeMap::from([("Coordinator".to_owned(), from)]);
        let code = code_of(files[module], comments);
        needed(module, &code, &files, &exported).into_iter().collect()
    }

    #[test]
    fn paths_are_followed_to_files() {
        let code = "//! [`crate::z`]\nmod c;\nuse c::C;\nuse super::{\n    b::{self, B},\n};\n
            use crate::{x::{y::Y, Z}, other};\npub(in crate::a) fn f() {}\nfn g() { super::super::x::h() }";
        let files = [
            ("a/b", ""),
            ("a/b/mine", code),
            ("a/b/mine/c", ""),
            ("a/b/b", ""),
            ("x", ""),
            ("x/y", ""),
            ("z", ""),
        ];
        let named = ["a/b/b", "a/b/mine/c", "x", "x/y", "z"];
        assert_eq!(found(&files, "a/b/mine", Comments::Count), named);
        assert_eq!(found(&files, "a/b/mine", Comments::PassOver), named[..4]);
    }

    #[test]
    fn names_of_the_root_stand_for_where_they_come_from() {
        let code = "use crate::Coordinator;\nuse crate::{metadata, Coordinator};
            let x = crate::node::answer::of(); use crate::node::Shared;";
        let names = ["metadata", "node", "node/answer", "node/coordinator"];
        let files: Vec<(&str, &str)> =
            names.iter().map(|it| (*it, "")).chain([("own", code)]).collect();
        assert_eq!(found(&files, "own", Comments::PassOver), names);
    }
}
