//! What the documents owe the tree: they exist, name every crate, have one title each, and speak
//! of nothing outside the repository.

use crate::Tree;

const REQUIRED: [&str; 10] = [
    "LICENSE",
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "docs/redis.md",
    "docs/elasticsearch.md",
    "docs/operating.md",
    "docs/lab.md",
];

/// Names of places and papers that a reader of the repository cannot open; in two halves so that
/// this file does not find itself.
const PRIVATE_WORDS: [&str; 6] = [
    concat!("/work/", "shared"),
    concat!("/work/", "main"),
    concat!("house-", "style"),
    concat!("design", ".md"),
    concat!("facts/", "mechanisms"),
    concat!("facts/", "api-surface"),
];

/// The files that a newcomer looks for.
pub fn documents_exist(tree: &Tree) -> Vec<String> {
    let missing = REQUIRED.iter().filter(|path| tree.file(path).is_none());
    missing.map(|path| format!("{path} is missing")).collect()
}

/// The code map names every crate.
pub fn crates_in_architecture(tree: &Tree) -> Vec<String> {
    let Some(document) = tree.file("ARCHITECTURE.md") else { return Vec::new() };
    let words: Vec<&str> =
        document.text.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').collect();
    let absent = tree.crates().filter(|name| !words.contains(name));
    absent.map(|name| format!("ARCHITECTURE.md does not name the crate `{name}`")).collect()
}

/// One page, one title: more of them means two pages in one file.
pub fn titles(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        let mut fenced = false;
        let mut count = 0;
        for line in file.text.lines() {
            fenced ^= line.trim_start().starts_with("```");
            count += usize::from(!fenced && line.starts_with("# "));
        }
        if count != 1 {
            complaints.push(format!("{}: {count} titles, expected one", file.path));
        }
    }
    complaints
}

/// No file speaks of a place or a task that only its authors had.
pub fn private_words(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in &tree.files {
        for (number, line) in file.text.lines().enumerate() {
            let word = PRIVATE_WORDS.iter().find(|word| line.contains(**word)).copied();
            if let Some(what) = word.or_else(|| task_number(line)) {
                complaints.push(format!("{}:{}: `{what}`", file.path, number + 1));
            }
        }
    }
    complaints
}

/// The word for a task followed by its number: trackers of other projects are cited by address.
fn task_number(line: &str) -> Option<&str> {
    const WORD: &str = concat!("iss", "ue ");
    let start = line.find(WORD)?;
    let rest = &line[start + WORD.len()..];
    let digits = rest.trim_start_matches('#');
    digits.starts_with(|c: char| c.is_ascii_digit()).then_some(&line[start..start + WORD.len()])
}
