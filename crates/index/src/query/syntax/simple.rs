//! The syntax of `simple_query_string`: `+` and, `|` or, `-` not, `"phrase"~n`, `pre*`, `word~n`
//! and brackets. Whatever does not fit is taken for text; there are no errors.

use super::{DEPTH_MAX, Leaf, Node, Occur, flags};

/// Reads a text; `is_and` tells how words side by side are joined, `on` which operators are on.
pub(crate) fn parse(text: &str, is_and: bool, on: u32) -> Node {
    let letters: Vec<char> = text.chars().collect();
    let mut parser = Parser { letters: &letters, at: 0, is_and, on };
    parser.clauses(0)
}

struct Parser<'a> {
    letters: &'a [char],
    at: usize,
    is_and: bool,
    on: u32,
}

impl Parser<'_> {
    fn has(&self, flag: u32) -> bool {
        self.on & flag != 0
    }

    fn peek(&self) -> Option<char> {
        self.letters.get(self.at).copied()
    }

    fn clauses(&mut self, depth: usize) -> Node {
        let mut clauses: Vec<(Occur, Node)> = Vec::new();
        // The operator before the next clause, and whether it is denied.
        let (mut joint, mut is_not) = (None, false);
        while let Some(letter) = self.peek() {
            match letter {
                letter if letter.is_whitespace() => self.at += 1,
                '+' if self.has(flags::AND) => {
                    joint = Some(Occur::Must);
                    self.at += 1;
                }
                '|' if self.has(flags::OR) => {
                    joint = Some(Occur::Should);
                    self.at += 1;
                }
                '-' if self.has(flags::NOT) => {
                    is_not = !is_not;
                    self.at += 1;
                }
                ')' if self.has(flags::PRECEDENCE) => {
                    self.at += 1;
                    if depth > 0 {
                        break;
                    }
                }
                '(' if self.has(flags::PRECEDENCE) && depth < DEPTH_MAX => {
                    self.at += 1;
                    let inner = self.clauses(depth + 1);
                    let is_empty = matches!(&inner, Node::Bool(list) if list.is_empty());
                    if !is_empty {
                        self.add(&mut clauses, &mut joint, &mut is_not, inner);
                    }
                }
                '"' if self.has(flags::PHRASE) => {
                    if let Some(leaf) = self.phrase() {
                        self.add(&mut clauses, &mut joint, &mut is_not, Node::Leaf(None, leaf));
                    }
                }
                _ => {
                    if let Some(leaf) = self.word() {
                        self.add(&mut clauses, &mut joint, &mut is_not, Node::Leaf(None, leaf));
                    }
                }
            }
        }
        if clauses.len() == 1 && clauses[0].0 != Occur::MustNot {
            return clauses.remove(0).1;
        }
        Node::Bool(clauses)
    }

    fn add(
        &self,
        clauses: &mut Vec<(Occur, Node)>,
        joint: &mut Option<Occur>,
        is_not: &mut bool,
        node: Node,
    ) {
        let by_default = if self.is_and { Occur::Must } else { Occur::Should };
        let occur = joint.take().unwrap_or(by_default);
        // `a + b` asks for both, whatever the default.
        if let Some((last, _)) = clauses.last_mut()
            && *last != Occur::MustNot
            && occur == Occur::Must
        {
            *last = occur;
        }
        if std::mem::take(is_not) {
            // "Not this" beside "or that" means everything without this.
            let inner = Node::Bool(vec![(Occur::MustNot, node)]);
            clauses.push((occur, inner));
        } else {
            clauses.push((occur, node));
        }
    }

    fn phrase(&mut self) -> Option<Leaf> {
        self.at += 1;
        let mut text = String::new();
        let mut is_closed = false;
        while let Some(letter) = self.peek() {
            self.at += 1;
            match letter {
                '"' => {
                    is_closed = true;
                    break;
                }
                '\\' if self.has(flags::ESCAPE) => {
                    text.extend(self.peek());
                    self.at += 1;
                }
                _ => text.push(letter),
            }
        }
        if !is_closed {
            return (!text.trim().is_empty()).then_some(Leaf::Text(text));
        }
        let mut slop = None;
        if self.has(flags::SLOP) && self.peek() == Some('~') {
            self.at += 1;
            slop = self.digits().parse().ok();
        }
        (!text.is_empty()).then_some(Leaf::Phrase { text, slop })
    }

    fn word(&mut self) -> Option<Leaf> {
        let mut text = String::new();
        while let Some(letter) = self.peek() {
            match letter {
                letter if letter.is_whitespace() => break,
                '+' if self.has(flags::AND) => break,
                '|' if self.has(flags::OR) => break,
                '(' | ')' if self.has(flags::PRECEDENCE) => break,
                '"' if self.has(flags::PHRASE) => break,
                '\\' if self.has(flags::ESCAPE) => {
                    self.at += 1;
                    text.extend(self.peek());
                    self.at += 1;
                    continue;
                }
                '*' if self.has(flags::PREFIX) && self.is_end(self.at + 1) => {
                    self.at += 1;
                    return (!text.is_empty()).then_some(Leaf::Prefix(text));
                }
                '~' if self.has(flags::FUZZY) && !text.is_empty() => {
                    let start = self.at;
                    self.at += 1;
                    let edits = self.digits();
                    if self.is_end(self.at) {
                        let edits = edits.parse::<u32>().ok();
                        let edits = edits.map(|edits| u8::try_from(edits.min(2)).unwrap_or(2));
                        return Some(Leaf::Fuzzy { text, edits });
                    }
                    self.at = start;
                    text.push(letter);
                }
                _ => text.push(letter),
            }
            self.at += 1;
        }
        if text.is_empty() {
            // An operator alone, or a bracket where they are too deep: it is passed over.
            self.at += 1;
            return None;
        }
        Some(Leaf::Text(text))
    }

    fn digits(&mut self) -> String {
        let start = self.at;
        while self.peek().is_some_and(|letter| letter.is_ascii_digit()) {
            self.at += 1;
        }
        self.letters[start..self.at].iter().collect()
    }

    fn is_end(&self, at: usize) -> bool {
        self.letters
            .get(at)
            .is_none_or(|letter| letter.is_whitespace() || matches!(letter, ')' | '|' | '+' | '"'))
    }
}
