//! Lists of what still breaks a rule: they only get shorter. One is written anew where it did and that is asked
//! for, by the variable [`UPDATE`].

use std::collections::BTreeMap;

use crate::Tree;

/// The variable under which lists are written anew.
const UPDATE: &str = "UPDATE_LISTS";

/// What is to be said of the list at `path`, which says how many of something each file has at most, where
/// `found` is how many they have. `things` names them, `remedy` says what is to be done about one more.
pub(crate) fn only_falling(
    tree: &Tree,
    path: &str,
    found: &BTreeMap<String, usize>,
    things: &str,
    remedy: &str,
) -> Vec<String> {
    let listed: BTreeMap<&str, usize> = lines(tree, path)
        .filter_map(|line| line.rsplit_once(' '))
        .filter_map(|(what, count)| Some((what, count.parse().ok()?)))
        .collect();
    let mut complaints = Vec::new();
    for (what, count) in found {
        let most = listed.get(what.as_str()).copied().unwrap_or(0);
        if *count > most {
            complaints.push(format!("{what}: {count} {things}, at most {most}: {remedy}"));
        }
    }
    let fell = |(what, most): &(&&str, &usize)| found.get(**what).copied().unwrap_or(0) < **most;
    let fell: Vec<String> =
        listed.iter().filter(fell).map(|(what, _)| (*what).to_owned()).collect();
    let lines = found.iter().map(|(what, count)| format!("{what} {count}"));
    shortened(tree, path, lines, complaints, &fell)
}

/// The lines of a list without its head.
fn lines<'a>(tree: &'a Tree, path: &str) -> impl Iterator<Item = &'a str> {
    let text = tree.file(path).map_or("", |file| file.text.as_str());
    text.lines().filter(|line| !line.starts_with('#'))
}

/// What is to be said of a list at `path` that would be `found` now: `complaints` of what it does not allow, or
/// what `fell`, unless it is written anew.
fn shortened(
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
