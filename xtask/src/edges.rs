//! Which crate may stand on what. Dependencies point inwards; the negatives are what keeps the
//! controllers testable in a simulator and RocksDB out of their build.

use std::collections::BTreeSet;
use std::process::Command;

use crate::{Tree, TreeError};

/// A crate of the workspace and the packages that must not be below it, directly or through others.
struct Rule {
    owner: &'static str,
    banned: &'static [&'static str],
}

/// The outside: frameworks and formats that only the binary's crate speaks.
const OUTSIDE: [&str; 5] = ["axum", "clap", "hyper", "plimsoll-server", "redis-protocol"];
/// Networks, which the state of a partition knows nothing of.
const NETWORK: [&str; 3] = ["tonic", "async-nats", "plimsoll-cluster"];

const RULES: [Rule; 9] = [
    Rule {
        owner: "plimsoll-control",
        banned: &[
            "tokio",
            "rand",
            "serde",
            "serde_json",
            "rust-rocksdb",
            "plimsoll-log",
            "plimsoll-storage",
            "tracing",
            "parking_lot",
        ],
    },
    Rule {
        owner: "plimsoll-memory",
        banned: &["tokio", "serde", "rust-rocksdb", "plimsoll-log", "plimsoll-storage"],
    },
    Rule { owner: "plimsoll-stdx", banned: &["tokio", "serde", "rust-rocksdb", "plimsoll-log"] },
    Rule { owner: "plimsoll-log", banned: &["plimsoll-storage", "plimsoll-cluster"] },
    Rule { owner: "plimsoll-storage", banned: &NETWORK },
    Rule { owner: "plimsoll-index", banned: &NETWORK },
    Rule { owner: "plimsoll-base", banned: &["plimsoll-log", "plimsoll-storage", "serde"] },
    Rule { owner: "plimsoll-cluster", banned: &["plimsoll-lab", "plimsoll-simulation"] },
    Rule { owner: "plimsoll-lab", banned: &["plimsoll-cluster"] },
];

/// Packages whose versions the separately built library and the workspace must share: the one
/// holds their symbols, the other their headers.
const SHARED_NATIVE: [&str; 3] = ["rust-librocksdb-sys", "lz4-sys", "zstd-sys"];

/// Dependencies that point outwards.
///
/// # Errors
/// Where `cargo tree` fails.
pub fn forbidden_edges(tree: &Tree) -> Result<Vec<String>, TreeError> {
    let mut complaints = Vec::new();
    for rule in &RULES {
        for package in packages_below(tree, rule.owner)? {
            let (name, features) = package.split_once(' ').unwrap_or((&package, ""));
            if rule.banned.contains(&name) || OUTSIDE.contains(&name) {
                complaints.push(format!("{} depends on {name}", rule.owner));
            }
            let state_of_a_partition = rule.banned == NETWORK;
            if state_of_a_partition && name == "tokio" && features.split(',').any(|f| f == "net") {
                complaints.push(format!("{} depends on tokio with its sockets", rule.owner));
            }
        }
    }
    Ok(complaints)
}

/// The packages below one crate, each as its name and its features.
fn packages_below(tree: &Tree, owner: &str) -> Result<BTreeSet<String>, TreeError> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}|{f}", "--package", owner])
        .current_dir(&tree.root)
        .output()
        .map_err(|e| TreeError::new(format!("cannot run cargo tree: {e}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(TreeError::new(format!("cargo tree for {owner}: {why}")));
    }
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let packages = text.lines().filter_map(|line| {
        let (package, features) = line.trim_end_matches(" (*)").split_once('|')?;
        let name = package.split(' ').next()?;
        Some(format!("{name} {features}"))
    });
    Ok(packages.filter(|package| package.split(' ').next() != Some(owner)).collect())
}

/// The library that is built once per machine fits what the workspace links and binds.
pub fn rocksdb_agreement(tree: &Tree) -> Vec<String> {
    let text = |path: &str| tree.file(path).map_or("", |file| file.text.as_str());
    let (ours, theirs) = (text("Cargo.lock"), text("build/rocksdb/Cargo.lock"));
    let mut complaints = Vec::new();
    for package in SHARED_NATIVE {
        let (a, b) = (locked_version(ours, package), locked_version(theirs, package));
        if a.is_none() || a != b {
            complaints.push(format!(
                "{package} is {a:?} in Cargo.lock and {b:?} in build/rocksdb/Cargo.lock"
            ));
        }
    }
    let mut a = features_of(text("Cargo.toml"), "rust-rocksdb");
    // Of the binding alone: the library is the same without.
    a.remove("raw-ptr");
    let b = features_of(text("build/rocksdb/Cargo.toml"), "rust-librocksdb-sys");
    if a.is_empty() || a != b {
        complaints
            .push(format!("RocksDB's features are {a:?} in the workspace, {b:?} in its build"));
    }
    complaints
}

fn locked_version<'a>(lock: &'a str, package: &str) -> Option<&'a str> {
    let start = lock.find(&format!("name = \"{package}\"\nversion = \""))?;
    lock[start..].lines().nth(1)?.split('"').nth(1)
}

fn features_of<'a>(manifest: &'a str, package: &str) -> BTreeSet<&'a str> {
    let line = manifest.lines().find(|line| {
        line.strip_prefix(package).is_some_and(|rest| rest.trim_start().starts_with('='))
    });
    let list = line.and_then(|line| line.split("features = [").nth(1)).unwrap_or("");
    let list = list.split(']').next().unwrap_or("");
    list.split(',').map(|f| f.trim().trim_matches('"')).filter(|f| !f.is_empty()).collect()
}
