//! The patterns of KEYS and MATCH: `*`, `?`, `[a-z]`, `[^a-z]`, and `\` before what is meant as
//! it stands.

use crate::ErrorReply;

/// The longest pattern, bytes.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// A pattern, read once for all that it is compared with: every part but a `*` stands for one byte, so
/// that no length of it makes a comparison longer than the square of the text's.
#[derive(Clone, Debug)]
pub struct Glob(Vec<Part>);

#[derive(Clone, Debug)]
enum Part {
    Star,
    Any,
    Byte(u8),
    /// A bit for each byte that is in the class.
    Class([u64; 4]),
}

impl Part {
    fn takes(&self, byte: u8) -> bool {
        match self {
            Self::Star => false,
            Self::Any => true,
            Self::Byte(own) => *own == byte,
            Self::Class(bits) => bits[usize::from(byte >> 6)] >> (byte & 63) & 1 == 1,
        }
    }
}

impl Glob {
    /// Reads a pattern.
    ///
    /// # Errors
    /// Where it is longer than 64 KiB.
    pub fn new(mut pattern: &[u8]) -> Result<Self, ErrorReply> {
        if pattern.len() > PATTERN_BYTES_MAX {
            let words = format!("the pattern is longer than {PATTERN_BYTES_MAX} bytes");
            return Err(ErrorReply::err(words));
        }
        let mut parts = Vec::new();
        while let [first, rest @ ..] = pattern {
            pattern = rest;
            match (first, rest) {
                (b'*', _) if matches!(parts.last(), Some(Part::Star)) => {}
                (b'*', _) => parts.push(Part::Star),
                (b'?', _) => parts.push(Part::Any),
                (b'[', _) => {
                    let (class, after) = class(rest);
                    parts.push(Part::Class(class));
                    pattern = after;
                }
                (b'\\', [escaped, after @ ..]) => {
                    parts.push(Part::Byte(*escaped));
                    pattern = after;
                }
                (plain, _) => parts.push(Part::Byte(*plain)),
            }
        }
        Ok(Self(parts))
    }

    /// Whether all of `text` matches, and how many steps it took to say so.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> (bool, u64) {
        let (mut at, mut pos, mut steps) = (0, 0, 0);
        // Where the last `*` ended, and the first byte of the text that it did not take.
        let mut star: Option<(usize, usize)> = None;
        while let Some(byte) = text.get(pos) {
            steps += 1;
            match self.0.get(at) {
                Some(Part::Star) => {
                    at += 1;
                    star = Some((at, pos));
                }
                Some(part) if part.takes(*byte) => {
                    at += 1;
                    pos += 1;
                }
                _ => {
                    // The last `*` takes one more; those before it need not, as it can do as much.
                    let Some((after, taken)) = star else { return (false, steps) };
                    (at, pos) = (after, taken + 1);
                    star = Some((after, taken + 1));
                }
            }
        }
        let is_whole = self.0[at..].iter().all(|part| matches!(part, Part::Star));
        (is_whole, steps)
    }
}

/// The class that follows a `[`, and what comes after it; one that is never closed ends with the
/// pattern.
fn class(mut rest: &[u8]) -> ([u64; 4], &[u8]) {
    let mut bits = [0; 4];
    let mut add = |byte: u8| bits[usize::from(byte >> 6)] |= 1 << (byte & 63);
    let is_negated = rest.first() == Some(&b'^');
    if is_negated {
        rest = &rest[1..];
    }
    loop {
        rest = match rest {
            [] => break,
            [b'\\', escaped, after @ ..] => {
                add(*escaped);
                after
            }
            [b']', after @ ..] => {
                rest = after;
                break;
            }
            [from, b'-', to, after @ ..] => {
                (*from.min(to)..=*from.max(to)).for_each(&mut add);
                after
            }
            [plain, after @ ..] => {
                add(*plain);
                after
            }
        };
    }
    (if is_negated { bits.map(|bits: u64| !bits) } else { bits }, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        Glob::new(pattern).unwrap().matches(text).0
    }

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

    #[test]
    fn a_long_class_is_looked_through_once_and_a_long_pattern_refused() {
        let class = [b"*[".as_slice(), &b"a".repeat(60_000), b"]b"].concat();
        let (is_match, steps) = Glob::new(&class).unwrap().matches(&b"a".repeat(100));
        assert!(!is_match && steps <= 300, "{steps} steps");
        assert!(Glob::new(&b"a".repeat(PATTERN_BYTES_MAX + 1)).is_err());
    }
}
