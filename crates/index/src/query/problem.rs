//! Errors of parsing that know where they are. A parser works on a JSON tree, which has no
//! positions; a problem therefore remembers the node that it is about, and the position is looked
//! up in the text when the error leaves the crate.

use serde_json::Value;

use crate::error::Error;

/// What is wrong with a request, and at which node of it.
#[derive(Debug)]
pub(crate) struct Problem {
    /// The error, without position.
    pub error: Error,
    /// The address of the node, as a mark only: it is compared, never followed.
    node: usize,
}

/// What a parser gives.
pub(crate) type Parsed<T> = Result<T, Box<Problem>>;

impl Problem {
    /// A `parsing_exception` at a node.
    pub(crate) fn parsing(node: &Value, reason: impl ToString) -> Box<Self> {
        Self::at(node, Error::parsing(reason))
    }

    /// An `illegal_argument_exception`, which has no position.
    pub(crate) fn illegal(reason: impl ToString) -> Box<Self> {
        Box::new(Self { error: Error::illegal_argument(reason), node: 0 })
    }

    /// An error at a node: it gets `line` and `col`.
    pub(crate) fn at(node: &Value, error: Error) -> Box<Self> {
        Box::new(Self { error, node: std::ptr::from_ref(node) as usize })
    }

    /// The error, with its position in `text`, which is what `root` was read from.
    pub(crate) fn locate(self, root: &Value, text: &str) -> Error {
        if self.node == 0 {
            return self.error;
        }
        let mut path = Vec::new();
        if !find(root, self.node, &mut path) {
            return self.error;
        }
        let (line, col) = Scanner::new(text).position(&path);
        let mut error = self.error;
        if error.kind == "parsing_exception" {
            error = error.with("line", line).with("col", col);
        } else if error.kind == "x_content_parse_exception" {
            error.reason = format!("[{line}:{col}] {}", error.reason);
        }
        if let Some(cause) = &mut error.caused_by
            && cause.kind == "named_object_not_found_exception"
        {
            cause.reason = format!("[{line}:{col}] {}", cause.reason);
        }
        error
    }
}

impl From<Error> for Box<Problem> {
    fn from(error: Error) -> Self {
        Box::new(Problem { error, node: 0 })
    }
}

/// One step from a node to its child.
enum Step<'a> {
    Key(&'a str),
    Index(usize),
}

fn find<'a>(at: &'a Value, node: usize, path: &mut Vec<Step<'a>>) -> bool {
    if std::ptr::from_ref(at) as usize == node {
        return true;
    }
    match at {
        Value::Object(map) => {
            for (key, child) in map {
                path.push(Step::Key(key));
                if find(child, node, path) {
                    return true;
                }
                path.pop();
            }
        }
        Value::Array(items) => {
            for (index, child) in items.iter().enumerate() {
                path.push(Step::Index(index));
                if find(child, node, path) {
                    return true;
                }
                path.pop();
            }
        }
        _ => {}
    }
    false
}

/// Walks valid JSON text to a node.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn new(text: &'a str) -> Self {
        Self { text: text.as_bytes(), at: 0 }
    }

    fn position(mut self, path: &[Step<'_>]) -> (u64, u64) {
        for step in path {
            self.space();
            let found = match step {
                Step::Key(key) => self.enter_key(key),
                Step::Index(index) => self.enter_index(*index),
            };
            if !found {
                break;
            }
        }
        self.space();
        let before = &self.text[..self.at.min(self.text.len())];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        (line as u64, (before.len() - start + 1) as u64)
    }

    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn space(&mut self) {
        while self.byte().is_some_and(|byte| byte.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn enter_key(&mut self, wanted: &str) -> bool {
        if self.byte() != Some(b'{') {
            return false;
        }
        self.at += 1;
        loop {
            self.space();
            if self.byte() != Some(b'"') {
                return false;
            }
            let start = self.at;
            self.string();
            let key = std::str::from_utf8(&self.text[start..self.at]).unwrap_or("");
            let is_wanted = serde_json::from_str::<String>(key).is_ok_and(|key| key == wanted);
            self.space();
            self.at += 1;
            if is_wanted {
                return true;
            }
            self.skip();
            self.space();
            if self.byte() != Some(b',') {
                return false;
            }
            self.at += 1;
        }
    }

    fn enter_index(&mut self, wanted: usize) -> bool {
        if self.byte() != Some(b'[') {
            return false;
        }
        self.at += 1;
        for _ in 0..wanted {
            self.skip();
            self.space();
            if self.byte() != Some(b',') {
                return false;
            }
            self.at += 1;
        }
        true
    }

    fn string(&mut self) {
        self.at += 1;
        while let Some(byte) = self.byte() {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => return,
                _ => {}
            }
        }
    }

    /// Over one value, whatever it is.
    fn skip(&mut self) {
        let mut depth = 0usize;
        self.space();
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => {
                    self.string();
                    if depth == 0 {
                        return;
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => {
                    if depth == 0 {
                        return;
                    }
                    depth -= 1;
                    if depth == 0 {
                        self.at += 1;
                        return;
                    }
                }
                b',' if depth == 0 => return,
                _ => {}
            }
            self.at += 1;
        }
    }
}
