//! Lists of what still breaks a rule: they only get shorter. One is written anew where it did and that is asked
//! for, by the variable [`UPDATE`].

use crate::Tree;

/// The variable under which lists are written anew.
const UPDATE: &str = "UPDATE_LISTS";

/// The lines of a list without its head.
pub(crate) fn lines<'a>(tree: &'a Tree, path: &str) -> impl Iterator<Item = &'a str> {
    let text = tree.file(path).map_or("", |file| file.text.as_str());
    text.lines().filter(|line| !line.starts_with('#'))
}

/// What is to be said of a list at `path` that would be `found` now: `complaints` of what it does not allow, or
/// what `fell`, unless it is written anew.
pub(crate) fn shortened(
    tree: &Tree,
    path: &str,
    found: impl Iterator<Item = String>,
    complaints: Vec<String>,
    fell: &[String],
) -> Vec<String> {
    if fell.is_empty() || !complaints.is_empty() {
        return complaints;
    }
    if std::env::var_os(UPDATE).is_none() {
        return fell.iter().map(|what| format!("{what}: it fell, run with {UPDATE}=1")).collect();
    }
    let text = tree.file(path).map_or("", |file| file.text.as_str());
    let head = text.lines().take_while(|line| line.starts_with('#')).map(str::to_owned);
    let text: String = head.chain(found).map(|line| line + "\n").collect();
    match std::fs::write(tree.root.join(path), text) {
        Ok(()) => Vec::new(),
        Err(error) => vec![format!("{path}: {error}")],
    }
}
