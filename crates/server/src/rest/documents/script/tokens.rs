//! The text of a script as words, values and operators. What they mean together is the parser's.

use serde_json::{Value, json};

/// Operators, the longer before those that they begin with.
const OPERATORS: &[&str] = &[
    "===", "!==", "==", "!=", "<=", ">=", "&&", "||", "++", "--", "+=", "-=", "*=", "/=", "%=",
    "=", "+", "-", "*", "/", "%", "<", ">", "!", "?", ":", ".", ",", ";", "(", ")", "[", "]", "{",
    "}",
];
/// A piece of a script.
#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    /// A name or a keyword.
    Word(String),
    /// A number, a string, true, false or null.
    Value(Value),
    /// One of the operators and brackets.
    Operator(&'static str),
}

/// Takes a script apart.
///
/// # Errors
/// Says what is no token, or not closed.
pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if rest.starts_with("//") {
            length = rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            length = rest.find("*/").ok_or("a comment is not closed")? + 2;
        } else if first.is_alphabetic() || first == '_' || first == '$' {
            let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
            length = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            tokens.push(word(&rest[..length]));
        } else if first.is_ascii_digit() {
            length = number(rest, &mut tokens)?;
        } else if first == '\'' || first == '"' {
            length = string(rest, first, &mut tokens)?;
        } else if let Some(operator) = OPERATORS.iter().find(|known| rest.starts_with(**known)) {
            length = operator.len();
            tokens.push(Token::Operator(operator));
        } else {
            return Err(format!("unexpected character [{first}]"));
        }
        rest = rest[length..].trim_start();
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

fn number(rest: &str, tokens: &mut Vec<Token>) -> Result<usize, String> {
    let mut length = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let fraction = rest[length..].strip_prefix('.').map_or(0, |fraction| {
        fraction.find(|c: char| !c.is_ascii_digit()).unwrap_or(fraction.len())
    });
    if fraction > 0 {
        length += 1 + fraction;
    }
    let digits = &rest[..length];
    let wrong = || format!("[{digits}] is no number that fits");
    let value = if fraction > 0 {
        json!(digits.parse::<f64>().map_err(|_| wrong())?)
    } else {
        json!(digits.parse::<i64>().map_err(|_| wrong())?)
    };
    tokens.push(Token::Value(value));
    // `1L` and `1.0d` are numbers too.
    let suffix = rest[length..].starts_with(['l', 'L', 'f', 'F', 'd', 'D']);
    Ok(length + usize::from(suffix))
}

fn string(rest: &str, quote: char, tokens: &mut Vec<Token>) -> Result<usize, String> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some((_, 'n')) => text.push('\n'),
                Some((_, escaped)) => text.push(escaped),
                None => break,
            },
            c if c == quote => {
                tokens.push(Token::Value(Value::String(text)));
                return Ok(at + 1);
            }
            c => text.push(c),
        }
    }
    Err("a string is not closed".to_owned())
}
