//! What every Rust file keeps to: a header, a size that fits in a head, no leftovers, a place in
//! the module tree.

use std::collections::HashSet;

use crate::Tree;

/// Lines of a production file, its own tests included, beyond which it has to be split.
const LINES_MAX: usize = 800;
/// Lines beyond which a production file is named in the test's output.
const LINES_SOFT: usize = 500;

/// Written in two halves so that this file does not find itself.
const LEFTOVERS: [&str; 6] = [
    concat!("FIX", "ME"),
    concat!("XX", "X"),
    concat!("dbg", "!("),
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("#[ign", "ore"),
];

/// Every Rust file opens by saying what it owns.
pub fn file_headers(tree: &Tree) -> Vec<String> {
    let rust = tree.files.iter().filter(|file| file.is_rust());
    rust.filter(|file| !file.text.starts_with("//!"))
        .map(|file| format!("{}: does not open with `//!`", file.path))
        .collect()
}

/// Production files stay short; names the long ones on standard error before they are too long.
pub fn file_sizes(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        let lines = file.text.lines().count();
        if lines > LINES_MAX {
            complaints.push(format!("{}: {lines} lines, at most {LINES_MAX}", file.path));
        } else if lines > LINES_SOFT {
            eprintln!("{}: {lines} lines, close to the limit of {LINES_MAX}", file.path);
        }
    }
    complaints
}

/// Nothing that says "later" is left in the code.
pub fn leftovers(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.is_rust()) {
        for (number, line) in file.text.lines().enumerate() {
            if let Some(word) = LEFTOVERS.iter().find(|word| line.contains(*word)) {
                complaints.push(format!("{}:{}: `{word}`", file.path, number + 1));
            }
        }
    }
    complaints
}

/// Every source file below a crate's `src` is a module of it: rustc is silent about one that is not.
pub fn orphans(tree: &Tree) -> Vec<String> {
    let declared: HashSet<(&str, &str)> = tree
        .files
        .iter()
        .filter_map(|file| Some((crate_of(&file.path)?, file)))
        .flat_map(|(owner, file)| declarations(&file.text).map(move |name| (owner, name)))
        .collect();
    let mut complaints = Vec::new();
    for file in &tree.files {
        let Some(owner) = crate_of(&file.path) else { continue };
        let Some(inner) = file.path.strip_prefix(owner).and_then(|p| p.strip_prefix("/src/"))
        else {
            continue;
        };
        let mut parts = inner.rsplit('/');
        let (last, folder) = (parts.next().unwrap_or(inner), parts.next());
        let name = match last {
            "lib.rs" | "main.rs" if folder.is_none() => continue,
            "mod.rs" => folder.unwrap_or_default(),
            other => other.trim_end_matches(".rs"),
        };
        if !inner.starts_with("bin/") && !declared.contains(&(owner, name)) {
            complaints.push(format!("{}: no `mod {name};` names it", file.path));
        }
    }
    complaints
}

fn crate_of(path: &str) -> Option<&str> {
    if !path.ends_with(".rs") {
        return None;
    }
    path.find("/src/").map(|end| &path[..end])
}

fn declarations(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let line = line.trim_start();
        let line = line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub ")).unwrap_or(line);
        line.strip_prefix("mod ")?.strip_suffix(';')
    })
}
