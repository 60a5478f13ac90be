//! Lucene's classic query syntax: `field:word`, `"a phrase"~2`, `pre*`, `w?ld`, `/regex/`,
//! `word~1`, `[1 TO 5}`, `>=3`, `+must -not`, `AND`, `OR`, `NOT`, brackets and `^boost`.

use super::{DEPTH_MAX, Leaf, Node, Occur};

/// What may stand where a clause is expected, as Lucene's generated parser lists it.
const EXPECTED: &str = "Was expecting one of:\n    <NOT> ...\n    \"+\" ...\n    \"-\" ...\n    <BAREOPER> ...\n    \"(\" ...\n    \"*\" ...\n    <QUOTED> ...\n    <TERM> ...\n    <PREFIXTERM> ...\n    <WILDTERM> ...\n    <REGEXPTERM> ...\n    \"[\" ...\n    \"{\" ...\n    <NUMBER> ...\n    <TERM> ...\n    \"*\" ...\n    ";

/// Why a text is no query, in Lucene's words without `Cannot parse '…': ` before it. Columns count from the
/// first letter, which is 0 for what is unexpected and 1 for what does not end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum SyntaxError {
    /// Something else stands where a clause is expected; `found` as Lucene shows it.
    #[error("Encountered \"{found}\" at line 1, column {column}.\n{EXPECTED}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// Where.
        column: usize,
    },
    /// A phrase does not end.
    #[error("Lexical error at line 1, column {column}.  Encountered: <EOF> after : \"{phrase}\"")]
    OpenPhrase {
        /// Where the text ends.
        column: usize,
        /// The phrase, its quotes escaped.
        phrase: String,
    },
    /// There are too many brackets in each other.
    #[error("the query is nested too deeply")]
    TooDeep,
}

/// Reads a text; `is_and` tells how words side by side are joined.
///
/// # Errors
/// What was found where.
pub(crate) fn parse(text: &str, is_and: bool) -> Result<Node, SyntaxError> {
    let letters: Vec<char> = text.chars().collect();
    let mut parser = Parser { letters: &letters, at: 0, is_and, depth: 0 };
    let node = parser.clauses()?;
    if parser.at < letters.len() {
        return Err(parser.unexpected());
    }
    Ok(node)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Joint {
    None,
    And,
    Or,
}

struct Parser<'a> {
    letters: &'a [char],
    at: usize,
    is_and: bool,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.peek().is_some_and(char::is_whitespace) {
            self.at += 1;
        }
    }

    fn take(&mut self, letter: char) -> bool {
        let is_next = self.peek() == Some(letter);
        if is_next {
            self.at += 1;
        }
        is_next
    }

    /// Takes a word operator such as `AND`, which must end at a space or a bracket.
    fn take_word(&mut self, word: &str) -> bool {
        let end = self.at + word.len();
        let is_next =
            self.letters
                .get(self.at..end)
                .is_some_and(|found| found.iter().collect::<String>() == word)
                && self.letters.get(end).is_none_or(|next| {
                    next.is_whitespace() || matches!(next, '(' | '"' | '+' | '-')
                });
        if is_next {
            self.at = end;
        }
        is_next
    }

    fn unexpected(&self) -> SyntaxError {
        let found = match self.peek() {
            None => "<EOF>".to_owned(),
            Some(letter) => format!(" \"{letter}\" \"{letter} \""),
        };
        SyntaxError::Unexpected { found, column: self.at }
    }

    fn clauses(&mut self) -> Result<Node, SyntaxError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SyntaxError::TooDeep);
        }
        let mut clauses: Vec<(Occur, Node)> = Vec::new();
        loop {
            self.space();
            if matches!(self.peek(), None | Some(')')) {
                break;
            }
            let joint = self.joint();
            self.space();
            if joint != Joint::None
                && (clauses.is_empty() || matches!(self.peek(), None | Some(')')))
            {
                return Err(self.unexpected());
            }
            let modifier = self.modifier();
            self.space();
            let node = self.clause()?;
            add(&mut clauses, joint, modifier, node, self.is_and);
        }
        self.depth -= 1;
        if clauses.len() == 1 && clauses[0].0 != Occur::MustNot {
            return Ok(clauses.remove(0).1);
        }
        Ok(Node::Bool(clauses))
    }

    fn joint(&mut self) -> Joint {
        if self.take_word("AND") || self.take_sign("&&") {
            Joint::And
        } else if self.take_word("OR") || self.take_sign("||") {
            Joint::Or
        } else {
            Joint::None
        }
    }

    fn take_sign(&mut self, sign: &str) -> bool {
        let end = self.at + sign.len();
        let is_next = self
            .letters
            .get(self.at..end)
            .is_some_and(|found| found.iter().copied().eq(sign.chars()));
        if is_next {
            self.at = end;
        }
        is_next
    }

    fn modifier(&mut self) -> Option<Occur> {
        if self.take_word("NOT") || self.take('-') || self.take('!') {
            Some(Occur::MustNot)
        } else if self.take('+') {
            Some(Occur::Must)
        } else {
            None
        }
    }

    fn clause(&mut self) -> Result<Node, SyntaxError> {
        let start = self.at;
        let mut field = None;
        if let Some(name) = self.field_name() {
            field = Some(name);
            self.space();
        } else {
            self.at = start;
        }
        let node = match self.peek() {
            None | Some(')') => return Err(self.unexpected()),
            Some('(') => {
                self.at += 1;
                let inner = self.clauses()?;
                if !self.take(')') {
                    return Err(self.unexpected());
                }
                match &field {
                    Some(field) => with_field(inner, field),
                    None => inner,
                }
            }
            Some(_) => self.leaf(field)?,
        };
        if self.take('^') {
            let number = self.number();
            let boost = number.parse().ok().filter(|boost: &f32| *boost >= 0.0);
            return Ok(Node::Boosted(Box::new(node), boost.ok_or_else(|| self.unexpected())?));
        }
        Ok(node)
    }

    /// `name:`, where it is one.
    fn field_name(&mut self) -> Option<String> {
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                ':' => {
                    self.at += 1;
                    return (!name.is_empty()).then_some(name);
                }
                '\\' => {
                    self.at += 1;
                    name.push(self.peek()?);
                }
                letter if letter.is_whitespace() => return None,
                '(' | ')' | '"' | '[' | ']' | '{' | '}' | '^' | '~' | '/' | '>' | '<' => {
                    return None;
                }
                letter => name.push(letter),
            }
            self.at += 1;
        }
        None
    }

    fn leaf(&mut self, field: Option<String>) -> Result<Node, SyntaxError> {
        let leaf = match self.peek() {
            Some('"') => self.phrase()?,
            Some('/') => self.regexp()?,
            Some('[' | '{') => self.range()?,
            Some('>' | '<') if field.is_some() => self.comparison()?,
            _ => return self.word(field),
        };
        Ok(Node::Leaf(field, leaf))
    }

    fn phrase(&mut self) -> Result<Leaf, SyntaxError> {
        let start = self.at;
        self.at += 1;
        let mut text = String::new();
        loop {
            match self.peek() {
                None => {
                    let column = self.letters.len() + 1;
                    let rest: String = self.letters[start..].iter().collect();
                    let phrase = rest.replace('"', "\\\"");
                    return Err(SyntaxError::OpenPhrase { column, phrase });
                }
                Some('"') => break,
                Some('\\') => {
                    self.at += 1;
                    text.extend(self.peek());
                }
                Some(letter) => text.push(letter),
            }
            self.at += 1;
        }
        self.at += 1;
        let mut slop = None;
        if self.take('~') {
            slop = self.number().parse::<f32>().ok().map(to_u32);
        }
        Ok(Leaf::Phrase { text, slop })
    }

    fn regexp(&mut self) -> Result<Leaf, SyntaxError> {
        self.at += 1;
        let mut pattern = String::new();
        loop {
            match self.peek() {
                None => return Err(self.unexpected()),
                Some('/') => break,
                Some('\\') if self.letters.get(self.at + 1) == Some(&'/') => {
                    pattern.push('/');
                    self.at += 1;
                }
                Some(letter) => pattern.push(letter),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(Leaf::Regexp(pattern))
    }

    fn range(&mut self) -> Result<Leaf, SyntaxError> {
        let has_lower = self.take('[');
        if !has_lower {
            self.take('{');
        }
        self.space();
        let from = self.range_end()?;
        self.space();
        if !self.take_word("TO") {
            return Err(self.unexpected());
        }
        self.space();
        let to = self.range_end()?;
        self.space();
        let has_upper = self.take(']');
        if !has_upper && !self.take('}') {
            return Err(self.unexpected());
        }
        let end = |text: String, inclusive| (text != "*").then_some((text, inclusive));
        Ok(Leaf::Range { from: end(from, has_lower), to: end(to, has_upper) })
    }

    fn range_end(&mut self) -> Result<String, SyntaxError> {
        if self.peek() == Some('"') {
            return match self.phrase()? {
                Leaf::Phrase { text, .. } => Ok(text),
                _ => Err(self.unexpected()),
            };
        }
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                ']' | '}' => break,
                letter if letter.is_whitespace() => break,
                '\\' => {
                    self.at += 1;
                    text.extend(self.peek());
                }
                letter => text.push(letter),
            }
            self.at += 1;
        }
        if text.is_empty() { Err(self.unexpected()) } else { Ok(text) }
    }

    fn comparison(&mut self) -> Result<Leaf, SyntaxError> {
        let is_greater = self.take('>');
        if !is_greater {
            self.take('<');
        }
        let inclusive = self.take('=');
        self.space();
        let end = Some((self.range_end()?, inclusive));
        Ok(if is_greater {
            Leaf::Range { from: end, to: None }
        } else {
            Leaf::Range { from: None, to: end }
        })
    }

    fn word(&mut self, field: Option<String>) -> Result<Node, SyntaxError> {
        let start = self.at;
        let mut plain = String::new();
        let mut pattern = String::new();
        let mut stars = 0;
        let mut marks = 0;
        while let Some(letter) = self.peek() {
            match letter {
                letter if letter.is_whitespace() => break,
                '(' | ')' | '"' | '[' | ']' | '{' | '}' | '^' | '~' | ':' | '/' => break,
                '!' if self.at == start => break,
                '\\' => {
                    self.at += 1;
                    let Some(escaped) = self.peek() else {
                        return Err(self.unexpected());
                    };
                    plain.push(escaped);
                    if matches!(escaped, '*' | '?' | '\\') {
                        pattern.push('\\');
                    }
                    pattern.push(escaped);
                }
                letter => {
                    stars += usize::from(letter == '*');
                    marks += usize::from(letter == '?');
                    plain.push(letter);
                    pattern.push(letter);
                }
            }
            self.at += 1;
        }
        if self.at == start {
            return Err(self.unexpected());
        }
        if pattern == "*" {
            return Ok(match field {
                Some(name) if name == "*" => Node::All,
                Some(_) => Node::Leaf(field, Leaf::Exists),
                None => Node::All,
            });
        }
        let leaf = if stars == 1 && marks == 0 && pattern.ends_with('*') && !pattern.contains('\\')
        {
            Leaf::Prefix(pattern[..pattern.len() - 1].to_owned())
        } else if stars + marks > 0 {
            Leaf::Wildcard(pattern)
        } else if self.take('~') {
            let edits = self.number().parse::<f32>().ok();
            let edits = edits.map(|edits| if edits >= 2.0 { 2 } else { u8::from(edits >= 1.0) });
            Leaf::Fuzzy { text: plain, edits }
        } else {
            Leaf::Text(plain)
        };
        Ok(Node::Leaf(field, leaf))
    }

    fn number(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit() || letter == '.') {
            self.at += 1;
        }
        self.letters[start..self.at].iter().collect()
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast saturates")]
fn to_u32(number: f32) -> u32 {
    number as u32
}

/// How Lucene's classic parser gives each clause its place, one after the other.
fn add(
    clauses: &mut Vec<(Occur, Node)>,
    joint: Joint,
    modifier: Option<Occur>,
    node: Node,
    is_and: bool,
) {
    if let Some((last, _)) = clauses.last_mut()
        && *last != Occur::MustNot
    {
        if joint == Joint::And {
            *last = Occur::Must;
        } else if is_and && joint == Joint::Or {
            *last = Occur::Should;
        }
    }
    let occur = match modifier {
        Some(occur) => occur,
        None if joint == Joint::And || (is_and && joint != Joint::Or) => Occur::Must,
        None => Occur::Should,
    };
    clauses.push((occur, node));
}

/// `field:(…)` gives its field to what is inside.
fn with_field(node: Node, field: &str) -> Node {
    match node {
        Node::Leaf(None, leaf) => Node::Leaf(Some(field.to_owned()), leaf),
        Node::All => Node::Leaf(Some(field.to_owned()), Leaf::Exists),
        Node::Bool(clauses) => Node::Bool(
            clauses.into_iter().map(|(occur, node)| (occur, with_field(node, field))).collect(),
        ),
        Node::Boosted(inner, boost) => Node::Boosted(Box::new(with_field(*inner, field)), boost),
        other => other,
    }
}
