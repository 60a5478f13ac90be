//! What clusters say to each other: a question and its answer, each one message of gRPC with JSON in
//! it. Here is what may stand in them, and the limits within which it is read.
//!
//! | part | is |
//! |---|---|
//! | method | `/plimsoll.Remote/Ask`, one question, one answer |
//! | header `authorization` | `ApiKey ` and the key as it was shown when it was made, with every question |
//! | question | `{"node": "ID", "ask": …}`; without `node` whoever reads it answers |
//! | `ask` | `"hello"`, or `{"tables": {"after": "NAME"}}` for those behind that name |
//! | answer | `{"hello": {…}}`, `{"tables": {…}}`; otherwise a status of gRPC, in words |
//!
//! A question with a field or name that is not known is refused: a newer follower learns so what its
//! leader cannot do. In answers unknown fields are passed over: a newer leader may say more.

use serde::{Deserialize, Serialize};

/// The one method.
pub const METHOD: &str = "/plimsoll.Remote/Ask";
/// The header that carries the key.
pub const AUTHORIZATION: &str = "authorization";
/// What stands in it before the key. Elasticsearch's word.
pub const SCHEME: &str = "ApiKey ";
/// The largest question, bytes.
pub const QUESTION_BYTES_MAX: usize = 64 << 10;
/// The largest answer, bytes: a page of tables with the longest names has a tenth of it.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// The longest name in a question, bytes: as long as a table's may be.
const NAME_BYTES_MAX: usize = 255;
/// The longest in an answer, bytes: also addresses stand there.
const ANSWER_NAME_BYTES_MAX: usize = 512;
/// Tables in one answer, at the most.
pub const TABLES_MAX: usize = 1000;

/// What is asked, and of whom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Question {
    /// The node that is to answer; whoever is reached where none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// What is asked.
    pub ask: Ask,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Who the cluster is, and which nodes it has.
    Hello,
    /// Which tables the key may follow.
    Tables {
        /// Those whose names come after this one; all where it is empty.
        #[serde(default)]
        after: String,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Hello`].
    Hello(Hello),
    /// To [`Ask::Tables`].
    Tables(Tables),
}

/// Who a cluster is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The cluster's id.
    pub cluster_uuid: String,
    /// Its name.
    pub cluster_name: String,
    /// The version that the node runs which answers.
    pub version: String,
    /// The id of the node that answers.
    pub node: String,
    /// The nodes that are there and have the port open.
    pub nodes: Vec<NodeAddress>,
}

/// A node, and where its port for other clusters is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// Its id.
    pub id: String,
    /// Its name.
    pub name: String,
    /// `host:port`; empty where the node does not know by which others reach it.
    pub address: String,
}

/// Tables by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Those that the key may follow.
    pub tables: Vec<TableInfo>,
    /// Whether there are more behind the last.
    pub has_more: bool,
}

/// A table, as a follower sees it first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableInfo {
    /// Its name.
    pub name: String,
    /// Tells it from an earlier table of the same name.
    pub uuid: String,
    /// How many partitions it has.
    pub shards: u32,
    /// One more at each change of its mapping; none where it has no mapping, rows alone.
    pub mapping_version: Option<u64>,
}

/// Why bytes are no message. What stands in them is not repeated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// They are more than a message has.
    #[error("a message of {0} bytes is over {1}")]
    TooLong(usize, usize),
    /// A name is longer than any may be.
    #[error("a name of {0} bytes is longer than any may be")]
    Name(usize),
    /// An answer has more tables than any may.
    #[error("a page of {0} tables is over {TABLES_MAX}")]
    TooMany(usize),
    /// They are not what is wanted.
    #[error("no question that is known here: at line {0}, column {1}")]
    Unknown(usize, usize),
}

impl Question {
    /// Of whoever is reached.
    #[must_use]
    pub fn of_any(ask: Ask) -> Self {
        Self { node: None, ask }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("a question is plain data")
    }

    /// Reads one that came from outside.
    ///
    /// # Errors
    /// See [`ProtocolError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let question: Self = read(bytes, QUESTION_BYTES_MAX)?;
        let after = match &question.ask {
            Ask::Hello => "",
            Ask::Tables { after } => after,
        };
        let longest = after.len().max(question.node.as_ref().map_or(0, String::len));
        if longest > NAME_BYTES_MAX { Err(ProtocolError::Name(longest)) } else { Ok(question) }
    }
}

impl Answer {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("an answer is plain data")
    }

    /// Reads one that came from outside.
    ///
    /// # Errors
    /// See [`ProtocolError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        let answer: Self = read(bytes, ANSWER_BYTES_MAX)?;
        let longest = match &answer {
            Self::Hello(hello) => {
                let own = [&hello.cluster_uuid, &hello.cluster_name, &hello.version, &hello.node];
                let nodes = hello.nodes.iter().flat_map(|it| [&it.id, &it.name, &it.address]);
                own.into_iter().chain(nodes).map(String::len).max()
            }
            Self::Tables(page) if page.tables.len() > TABLES_MAX => {
                return Err(ProtocolError::TooMany(page.tables.len()));
            }
            Self::Tables(page) => {
                page.tables.iter().flat_map(|it| [&it.name, &it.uuid]).map(String::len).max()
            }
        };
        match longest {
            Some(longest) if longest > ANSWER_NAME_BYTES_MAX => Err(ProtocolError::Name(longest)),
            _ => Ok(answer),
        }
    }
}

fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8], bytes_max: usize) -> Result<T, ProtocolError> {
    if bytes.len() > bytes_max {
        return Err(ProtocolError::TooLong(bytes.len(), bytes_max));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ProtocolError::Unknown(error.line(), error.column()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_these_bytes() {
        for (question, text) in [
            (Question::of_any(Ask::Hello), r#"{"ask":"hello"}"#),
            (
                Question { node: Some("n".to_owned()), ask: Ask::Tables { after: "a".to_owned() } },
                r#"{"node":"n","ask":{"tables":{"after":"a"}}}"#,
            ),
        ] {
            assert_eq!(question.encode(), text.as_bytes());
            assert_eq!(Question::decode(text.as_bytes()), Ok(question));
        }
        let all = Question::of_any(Ask::Tables { after: String::new() });
        assert_eq!(Question::decode(br#"{"ask":{"tables":{}}}"#), Ok(all));
    }

    #[test]
    fn what_is_no_question_is_refused_without_repeating_it() {
        for text in [
            "",
            "null",
            "{}",
            r#"{"ask":"rows"}"#,
            r#"{"ask":"hello","secret":"x"}"#,
            r#"{"ask":{"tables":{"before":"x"}}}"#,
            r#"{"ask":"hello"} x"#,
            r#"{"ask":"hello","ask":"hello"}"#,
            "\u{0}\u{1}",
        ] {
            let refused = Question::decode(text.as_bytes()).unwrap_err().to_string();
            assert!(refused.starts_with("no question that is known here"), "{text}: {refused}");
            assert!(!refused.contains("secret") && !refused.contains("rows"), "{refused}");
        }
        let deep = "[".repeat(QUESTION_BYTES_MAX);
        assert!(matches!(Question::decode(deep.as_bytes()), Err(ProtocolError::Unknown(..))));
        let long = format!(r#"{{"ask":{{"tables":{{"after":"{}"}}}}}}"#, "x".repeat(256));
        assert_eq!(Question::decode(long.as_bytes()), Err(ProtocolError::Name(256)));
        let longer = vec![b' '; QUESTION_BYTES_MAX + 1];
        assert!(matches!(Question::decode(&longer), Err(ProtocolError::TooLong(..))));
    }

    #[test]
    fn an_answer_has_bounds_too() {
        let table = |name: String| TableInfo { name, ..TableInfo::default() };
        let page = |tables| Answer::Tables(Tables { tables, has_more: true });
        let long = page(vec![table("x".repeat(ANSWER_NAME_BYTES_MAX + 1))]);
        assert_eq!(Answer::decode(&long.encode()), Err(ProtocolError::Name(513)));
        let many = page(vec![table("x".to_owned()); TABLES_MAX + 1]);
        assert_eq!(Answer::decode(&many.encode()), Err(ProtocolError::TooMany(1001)));
        let hello = Hello { cluster_name: "x".repeat(513), ..Hello::default() };
        assert!(Answer::decode(&Answer::Hello(hello).encode()).is_err());
        let whole = page(vec![table("x".repeat(255)); TABLES_MAX]);
        assert_eq!(Answer::decode(&whole.encode()), Ok(whole));
    }

    #[test]
    fn a_newer_leader_may_say_more() {
        let text = r#"{"hello":{"cluster_uuid":"u","cluster_name":"c","version":"9","node":"n",
            "nodes":[{"id":"n","name":"a","address":"h:1","zone":"z"}],"clock_ms":7}}"#;
        let Ok(Answer::Hello(hello)) = Answer::decode(text.as_bytes()) else { panic!() };
        assert_eq!((hello.cluster_uuid.as_str(), hello.nodes.len()), ("u", 1));
        let answer = Answer::Hello(hello);
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
    }
}
