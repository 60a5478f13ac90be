//! The text of a script as words, values and operators. What they mean together is the parser's.

use serde_json::{Value, json};

use super::fault::Fault;

/// Operators, the longer before those that they begin with.
const OPERATORS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=",
    "=", "+", "-", "*", "/", "%", "<", ">", "!", "?", ":", ".", ",", ";", "(", ")", "[", "]", "{",
    "}",
];

/// A piece of a script.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    /// A name or a keyword.
    Word(String),
    /// A number, a string, true, false or null.
    Value(Value),
    /// One of the operators and brackets.
    Operator(&'static str),
}

/// The tokens of a text, each with the byte that it begins at.
///
/// # Errors
/// Says what is no token, or not closed.
pub(super) fn tokens(text: &str) -> Result<Vec<(usize, Token)>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length;
        if first.is_whitespace() {
            length = first.len_utf8();
        } else if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/");
            length = end.ok_or_else(|| Fault::new(at, "a comment is not closed"))? + 4;
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            tokens.push((at, word(&rest[..length])));
        } else if first.is_ascii_digit() || (first == '.' && begins_fraction(rest)) {
            let number;
            (number, length) = self::number(rest).map_err(|reason| Fault::new(at, reason))?;
            tokens.push((at, Token::Value(number)));
        } else if first == '\'' || first == '"' {
            let found = string(rest, first);
            let text;
            (text, length) = found.ok_or_else(|| Fault::new(at, "a string is not closed"))?;
            tokens.push((at, Token::Value(Value::String(text))));
        } else if let Some(operator) = OPERATORS.iter().find(|known| rest.starts_with(**known)) {
            length = operator.len();
            tokens.push((at, Token::Operator(operator)));
        } else {
            return Err(Fault::new(at, format!("unexpected character [{first}]")));
        }
        at += length;
    }
    Ok(tokens)
}

fn word(text: &str) -> Token {
    match text {
        "true" => Token::Value(json!(true)),
        "false" => Token::Value(json!(false)),
        "null" => Token::Value(Value::Null),
        _ => Token::Word(text.to_owned()),
    }
}

fn begins_fraction(rest: &str) -> bool {
    rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit)
}

/// Digits that are no number of 64 bits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("[{0}] is no number that fits")]
struct NoNumber(String);

/// A number, and how long its text is: digits, a fraction, an exponent, and the letter of a type as in `1.0f`
/// or `5L`.
fn number(rest: &str) -> Result<(Value, usize), NoNumber> {
    let digits_from = |at: usize| {
        let digits = rest[at..].bytes().take_while(u8::is_ascii_digit).count();
        at + digits
    };
    let whole_end = digits_from(0);
    let mut end = whole_end;
    // In `1.toString()` the point is none of the number's.
    if let Some(fraction) = rest[end..].strip_prefix('.')
        && !fraction.starts_with(|c: char| c.is_alphabetic() || c == '_')
    {
        end = digits_from(end + 1);
    }
    if let Some(exponent) = rest[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits_end = digits_from(end + 1 + sign);
        if digits_end > end + 1 + sign {
            end = digits_end;
        }
    }
    let digits = &rest[..end];
    let letter = rest[end..].chars().next().filter(|letter| "lLfFdD".contains(*letter));
    let is_whole = end == whole_end && letter.is_none_or(|letter| "lL".contains(letter));
    let value = match is_whole {
        true => digits.parse::<i64>().map(Value::from).ok(),
        false => digits.parse::<f64>().ok().filter(|it| it.is_finite()).map(Value::from),
    };
    let value = value.ok_or_else(|| NoNumber(digits.to_owned()))?;
    Ok((value, end + usize::from(letter.is_some())))
}

/// A string in quotes, and how long its text is; none where it is not closed.
fn string(rest: &str, quote: char) -> Option<(String, usize)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, escaped)) => text.push(escaped),
                None => break,
            },
            c if c == quote => return Some((text, at + c.len_utf8())),
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_whole_or_not() {
        for (text, value, length) in [
            ("1", json!(1), 1),
            ("5L", json!(5), 2),
            ("1.5", json!(1.5), 3),
            (".5+1", json!(0.5), 2),
            ("1e3", json!(1000.0), 3),
            ("2E-1f", json!(0.2), 5),
            ("3d", json!(3.0), 2),
            ("1.a", json!(1), 1),
            ("1.)", json!(1.0), 2),
            ("1e", json!(1), 1),
        ] {
            assert_eq!(number(text), Ok((value, length)), "{text}");
        }
        assert!(number("99999999999999999999").is_err() && number("1e999").is_err());
    }

    #[test]
    fn places_are_bytes_of_the_text() {
        let found = tokens("a /* é */ + 'x\\'y' // z").unwrap();
        let wanted = [
            (0, Token::Word("a".to_owned())),
            (11, Token::Operator("+")),
            (13, Token::Value(json!("x'y"))),
        ];
        assert_eq!(found, wanted);
        assert_eq!(tokens("a #").unwrap_err(), Fault::new(2, "unexpected character [#]"));
        assert!(tokens("'a").is_err() && tokens("/* a").is_err() && tokens("/*/ 1").is_err());
    }
}
