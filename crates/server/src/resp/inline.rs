//! Inline commands: a line of words, for people at a terminal. The quoting rules are Redis'.
//!
//! It does not find the line; [`super::decode`] does.

/// The words of a line. Double quotes take `\n`, `\r`, `\t`, `\b`, `\a` and `\xHH`, single
/// quotes only `\'`; a closing quote must end the word. None where quotes do not balance.
#[must_use]
pub fn split(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        let start = rest.iter().position(|byte| !is_space(*byte)).unwrap_or(rest.len());
        rest = &rest[start..];
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        rest = take_word(rest, &mut word)?;
        words.push(word);
    }
}

/// What C's `isspace` says.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}

/// Appends one word to `word`; what stands after it.
fn take_word<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        match rest {
            [] => return Some(rest),
            [byte, ..] if is_space(*byte) => return Some(rest),
            [quote @ (b'"' | b'\''), after @ ..] => {
                let after = if *quote == b'"' {
                    take_double_quoted(after, word)?
                } else {
                    take_single_quoted(after, word)?
                };
                // Nothing but a space may follow a closing quote.
                return after.first().is_none_or(|byte| is_space(*byte)).then_some(after);
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn take_double_quoted<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        match rest {
            [] => return None,
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'x', high, low, after @ ..]
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                word.push(hex(*high) << 4 | hex(*low));
                rest = after;
            }
            [b'\\', escaped, after @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 0x08,
                    b'a' => 0x07,
                    other => *other,
                });
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

fn take_single_quoted<'a>(line: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    let mut rest = line;
    loop {
        match rest {
            [] => return None,
            [b'\'', after @ ..] => return Some(after),
            [b'\\', b'\'', after @ ..] => {
                word.push(b'\'');
                rest = after;
            }
            [byte, after @ ..] => {
                word.push(*byte);
                rest = after;
            }
        }
    }
}

/// The value of a hexadecimal digit.
fn hex(digit: u8) -> u8 {
    match digit {
        b'0'..=b'9' => digit - b'0',
        b'a'..=b'f' => digit - b'a' + 10,
        _ => digit - b'A' + 10,
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[track_caller]
    fn check(line: &str, words: Option<&[&str]>) {
        let got = split(line.as_bytes());
        let want = words.map(|words| words.iter().map(|w| w.as_bytes().to_vec()).collect());
        assert_eq!(got, want, "{line}");
    }

    #[test]
    fn words_and_quotes() {
        check("", Some(&[]));
        check("  \t ", Some(&[]));
        check("SET a  b ", Some(&["SET", "a", "b"]));
        check(r#"SET "a b" 'c d'"#, Some(&["SET", "a b", "c d"]));
        check(r#""\x41\n\q\xZZ""#, Some(&["A\nqxZZ"]));
        check(r#"'it\'s' '\n'"#, Some(&["it's", r"\n"]));
        check(r#""" ''"#, Some(&["", ""]));
        // A word may run into a quote, but a quote must end the word.
        check(r#"a"b""#, Some(&["ab"]));
        check(r#""a"b"#, None);
        check(r#""open"#, None);
        check("'open", None);
        check(r#""open\""#, None);
    }
}
