//! Cuts a script's text into tokens.

use super::parser::Fault;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// Its value, and whether it is written as a whole number.
    Number(f64, bool),
    Name(String),
    Text(String),
    /// An operator or a bracket, as written.
    Sign(&'static str),
    End,
}

/// Longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 33] = [
    "==", "!=", "<=", ">=", "&&", "||", "+=", "-=", "*=", "/=", "++", "--", "?:", "?.", "+", "-",
    "*", "/", "%", "<", ">", "!", "?", ":", "(", ")", "[", "]", "{", "}", ",", ".", ";",
];

/// The tokens with their places, the last of which is [`Token::End`].
pub(super) fn tokens(source: &str) -> Result<Vec<(usize, Token)>, Fault> {
    let bytes = source.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if byte.is_ascii_whitespace() {
            at += 1;
        } else if source[at..].starts_with("//") {
            at = source[at..].find('\n').map_or(bytes.len(), |end| at + end);
        } else if source[at..].starts_with("/*") {
            let end = source[at..].find("*/");
            at = end.map(|end| at + end + 2).ok_or_else(|| Fault::new(at, "unclosed comment"))?;
        } else if byte.is_ascii_digit()
            || (byte == b'.' && bytes.get(at + 1).is_some_and(u8::is_ascii_digit))
        {
            let end = number_end(bytes, at);
            let value = source[at..end].parse();
            let value = value.map_err(|_| Fault::new(at, "invalid number"))?;
            // A type's letter, as in 1.0f or 5L.
            let letter = bytes.get(end).filter(|letter| b"fFdDlL".contains(letter));
            let is_whole = source[at..end].bytes().all(|byte| byte.is_ascii_digit())
                && letter.is_none_or(|letter| b"lL".contains(letter));
            found.push((at, Token::Number(value, is_whole)));
            at = end + usize::from(letter.is_some());
        } else if byte.is_ascii_alphabetic() || byte == b'_' || byte == b'$' {
            let end = bytes[at..]
                .iter()
                .position(|b| !(b.is_ascii_alphanumeric() || *b == b'_' || *b == b'$'))
                .map_or(bytes.len(), |length| at + length);
            found.push((at, Token::Name(source[at..end].to_owned())));
            at = end;
        } else if byte == b'\'' || byte == b'"' {
            let (text, end) = text(source, at)?;
            found.push((at, Token::Text(text)));
            at = end;
        } else if let Some(sign) = sign(&source[at..]) {
            found.push((at, Token::Sign(sign)));
            at += sign.len();
        } else {
            let letter = source[at..].chars().next().unwrap_or(' ');
            return Err(Fault::new(at, format!("unexpected character [{letter}].")));
        }
    }
    found.push((bytes.len(), Token::End));
    Ok(found)
}

fn sign(rest: &str) -> Option<&'static str> {
    if rest.starts_with('=') && !rest.starts_with("==") {
        return Some("=");
    }
    SIGNS.iter().copied().find(|sign| rest.starts_with(sign))
}

fn number_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while at < bytes.len() {
        let byte = bytes[at];
        let is_exponent_sign =
            matches!(byte, b'+' | b'-') && matches!(bytes[at - 1], b'e' | b'E') && at > start;
        if !(byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E') || is_exponent_sign) {
            break;
        }
        at += 1;
    }
    at
}

fn text(source: &str, start: usize) -> Result<(String, usize), Fault> {
    let quote = source[start..].chars().next();
    let mut found = String::new();
    let mut letters = source[start + 1..].char_indices();
    while let Some((offset, letter)) = letters.next() {
        if Some(letter) == quote {
            return Ok((found, start + 1 + offset + 1));
        }
        if letter == '\\' {
            if let Some((_, escaped)) = letters.next() {
                found.push(escaped);
            }
        } else {
            found.push(letter);
        }
    }
    Err(Fault::new(start, "unclosed string"))
}
