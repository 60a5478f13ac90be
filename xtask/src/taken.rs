//! What code takes by itself that it should be handed, so that a whole cluster can run under one seed: the
//! time, threads, chance. `taken.txt` says for each file how often it still does; the numbers only fall, and
//! a file that is not named there takes nothing. `crates/base` is who hands it out; tests, and the lab, which
//! measures real processes, are left out.

use std::collections::BTreeMap;

use crate::tree::SourceFile;
use crate::{Tree, lists};

/// Where the numbers are kept.
const LIST: &str = "xtask/taken.txt";

/// Crates whose code runs in a simulation, or shall.
const CRATES: [&str; 8] =
    ["cluster", "control", "index", "log", "memory", "server", "stdx", "storage"];

/// Words by which something is taken.
const KINDS: [(&str, &[&str]); 3] = [
    (
        "time",
        &["Instant::now(", ".elapsed()", "SystemTime::now(", "tokio::time::", "thread::sleep("],
    ),
    ("threads", &["thread::spawn(", "thread::Builder", "tokio::spawn(", "spawn_blocking("]),
    (
        "chance",
        &["random_u64(", "random_u32(", "RandomState", "getrandom", "fastrand::", "cheap_random("],
    ),
];

/// Files that take more than is listed, and those that take less while the list says more.
pub fn taken(tree: &Tree) -> Vec<String> {
    lists::only_falling(tree, LIST, &counts(tree), "takes of one's own", "have it handed in")
}

/// How often each file takes each kind, by `file kind`.
fn counts(tree: &Tree) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for file in tree.files.iter().filter(|file| is_watched(file)) {
        let code = production(&file.text);
        for (kind, words) in KINDS {
            let count: usize = words.iter().map(|word| code.matches(word).count()).sum();
            if count > 0 {
                counts.insert(format!("{} {kind}", file.path), count);
            }
        }
    }
    counts
}

fn is_watched(file: &SourceFile) -> bool {
    let inner = file.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"));
    let is_named_test = file.path.ends_with("_tests.rs");
    inner.is_some_and(|(owner, _)| CRATES.contains(&owner))
        && file.is_rust()
        && !file.is_test()
        && !is_named_test
}

/// The code of a file without its tests, which stand last.
pub(crate) fn production(text: &str) -> &str {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text)
}
