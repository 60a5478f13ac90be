//! Names with wildcards, as roles and keys have them: `*` stands for any characters, `?` for one. Regular
//! expressions between slashes are none of them; whoever reads patterns refuses those.

/// Whether a name fits a pattern: `*` stands for any characters, `?` for one. At most as many steps
/// as the product of their lengths.
#[must_use]
pub fn matches(pattern: &str, name: &str) -> bool {
    let (mut pattern_left, mut name_left) = (pattern.chars(), name.chars());
    // What comes after the last `*`, and the name from where that stands for nothing more.
    let mut star: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (mut after, mut rest) = (pattern_left.clone(), name_left.clone());
        match (after.next(), rest.next()) {
            (None, None) => return true,
            (Some('*'), _) => {
                star = Some((after.clone(), name_left.clone()));
                pattern_left = after;
            }
            (Some(sign), Some(letter)) if sign == '?' || sign == letter => {
                (pattern_left, name_left) = (after, rest);
            }
            _ => {
                // The last `*` stands for one character more.
                let Some((after, from)) = &mut star else { return false };
                if from.next().is_none() {
                    return false;
                }
                (pattern_left, name_left) = (after.clone(), from.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_name_tables() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("*", "db0", true),
            ("logs-*", "logs-", true),
            ("logs-*", "log", false),
            ("*-2024", "a-2024-2024", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("?*?", "ab", true),
            ("?*?", "a", false),
            ("a*b*c", "a1b2c3", false),
            ("db?", "db1", true),
            ("ü*", "ünder", true),
            ("?", "ü", true),
            ("", "", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    /// The same by recursion.
    fn matches_plainly(pattern: &[char], name: &[char]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            (['*', rest @ ..], _) => (0..=name.len()).any(|at| matches_plainly(rest, &name[at..])),
            (['?', pattern @ ..], [_, name @ ..]) => matches_plainly(pattern, name),
            ([sign, pattern @ ..], [letter, name @ ..]) if sign == letter => {
                matches_plainly(pattern, name)
            }
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn patterns_mean_what_they_say(pattern in "[ab*?]{0,8}", name in "[ab]{0,10}") {
            let plain: (Vec<char>, Vec<char>) = (pattern.chars().collect(), name.chars().collect());
            prop_assert_eq!(matches(&pattern, &name), matches_plainly(&plain.0, &plain.1));
        }
    }
}
