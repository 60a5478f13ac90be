//! The patterns of KEYS and MATCH: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before what is meant as
//! it stands.

/// Whether all of `text` matches a pattern. Takes time of the product of their lengths at most.
#[must_use]
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut pos) = (0, 0);
    // Where the last `*` ended, and the first byte of the text that it did not take.
    let mut star: Option<(usize, usize)> = None;
    while pos < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, pos));
            continue;
        }
        match one(&pattern[at..], text[pos]) {
            Some(used) => {
                at += used;
                pos += 1;
            }
            None => {
                // The last `*` takes one more; those before it need not, as it can do as much.
                let Some((after, taken)) = star else { return false };
                (at, pos) = (after, taken + 1);
                star = Some((after, taken + 1));
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Matches one byte against the front of a pattern that is no `*`: how much of the pattern that
/// took, or `None`.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (is_in, used) = in_class(class, byte);
            is_in.then_some(used + 1)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [plain, ..] => (*plain == byte).then_some(1),
    }
}

/// Whether a byte is in the class that follows a `[`, and how long the class is with its `]`;
/// one that is never closed ends with the pattern.
fn in_class(class: &[u8], byte: u8) -> (bool, usize) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut is_in = false;
    loop {
        match class[at..] {
            [] => break,
            [b'\\', escaped, ..] => {
                is_in |= escaped == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [from, b'-', to, ..] => {
                is_in |= (from.min(to)..=from.max(to)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                is_in |= plain == byte;
                at += 1;
            }
        }
    }
    (is_in != negated, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_they_do_in_redis() {
        for (pattern, yes, no) in [
            ("*", vec!["", "a", "abc"], vec![]),
            ("", vec![""], vec!["a"]),
            ("a*c", vec!["ac", "abc", "abcbc"], vec!["ab", "abcd"]),
            ("*a*b*", vec!["ab", "xaxbx", "aab"], vec!["ba", "a"]),
            ("h?llo", vec!["hello", "hallo"], vec!["hllo", "heello"]),
            ("h[ae]llo", vec!["hello", "hallo"], vec!["hillo"]),
            ("h[^e]llo", vec!["hallo"], vec!["hello"]),
            ("h[a-c]llo", vec!["hallo", "hcllo"], vec!["hdllo"]),
            ("h[c-a]llo", vec!["hbllo"], vec!["hdllo"]),
            (r"\*", vec!["*"], vec!["a", r"\*"]),
            (r"[\]]", vec!["]"], vec!["a"]),
            ("[ab", vec!["a", "b"], vec!["c"]),
            (r"a\", vec![r"a\"], vec!["a"]),
            ("a**", vec!["a", "ab"], vec!["b"]),
        ] {
            for text in yes {
                assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
            }
            for text in no {
                assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
            }
        }
    }

    #[test]
    fn many_stars_do_not_take_forever() {
        let pattern = b"a*".repeat(500);
        let text = [b"a".repeat(5000), b"b".to_vec()].concat();
        assert!(matches(&pattern, &text));
        assert!(!matches(&[pattern.as_slice(), b"c"].concat(), &text));
    }
}
