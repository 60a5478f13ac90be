//! Results whose error is a bare text. A caller can neither decide by it nor find its cause, so errors are
//! types beside the code that makes them, and become text where a protocol answers or a line is logged.
//! `untyped.txt` says for each file how many are left; the numbers only fall. Tests are left out.

use std::collections::BTreeMap;

use crate::modules::{Comments, code_of};
use crate::{Tree, lists};

/// Where the numbers are kept.
const LIST: &str = "xtask/untyped.txt";

/// Files with more results of that kind than are listed, and those with fewer while the list says more.
pub fn untyped(tree: &Tree) -> Vec<String> {
    let is_watched = |path: &str| path.starts_with("crates/") && path.contains("/src/");
    let files = tree.files.iter().filter(|it| it.is_rust() && !it.is_test());
    let counted = files.filter(|it| is_watched(&it.path)).map(|file| {
        let count = count(&code_of(&file.text, Comments::PassOver));
        (file.path.clone(), count)
    });
    let found: BTreeMap<String, usize> = counted.filter(|(_, count)| *count > 0).collect();
    lists::only_falling(tree, LIST, &found, "errors that are texts", "name the cases in a type")
}

/// How many types `Result<…, String>` a text has.
fn count(code: &str) -> usize {
    code.match_indices("Result<").filter(|(at, word)| has_text(&code[at + word.len()..])).count()
}

/// Whether the second argument is `String`, of the arguments that a text begins with.
fn has_text(arguments: &str) -> bool {
    let mut depth = 0_usize;
    for (at, letter) in arguments.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            // The `>` of an arrow closes nothing.
            '>' if arguments[..at].ends_with('-') => {}
            '>' | ')' | ']' if depth == 0 => return false,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                let rest = arguments[at + 1..].trim_start().strip_prefix("String");
                return rest.is_some_and(|it| it.trim_start().starts_with(['>', ',']));
            }
            _ => {}
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_counts_and_not_what_is_in_the_result() {
        for (code, expected) in [
            ("fn f() -> Result<u8, String> {", 1),
            ("Result<\n    Vec<(String, u8)>,\n    String,\n>", 1),
            ("Vec<Result<Box<dyn Fn() -> u8>, String>>", 1),
            ("Result<BTreeMap<u64, String>, Error>", 0),
            ("Result<(u8, String), Error>", 0),
            ("io::Result<String>", 0),
            ("Result<(), StringError>", 0),
            ("Result<Result<(), String>, String>", 2),
        ] {
            assert_eq!(count(code), expected, "{code}");
        }
    }
}
