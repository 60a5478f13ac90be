//! What clusters say to each other: a question and its answer, each one message of gRPC with JSON in
//! it. Here is what may stand in them, and the limits within which it is read. The stream of records
//! has messages of its own ([`super::stream`]).
//!
//! | part | is |
//! |---|---|
//! | method | `/plimsoll.Remote/Ask`, one question, one answer |
//! | header `authorization` | `ApiKey ` and the key as it was shown when it was made, with every question |
//! | question | `{"node": "ID", "ask": …}`; without `node` whoever reads it answers |
//! | `ask` | `"hello"`, or `{"tables": {"after": "NAME"}}` for those behind that name |
//! | | `{"table": {"name": "NAME"}}`: all that a follower has to know of one |
//! | | `{"follow": {"hold": {…}}}`: the same, and its log is kept for the follower from now on |
//! | | `{"hold": {"hold": {…}}}`: how far a follower has come |
//! | | `{"files": {"question": "BASE64"}}`: a question of recovery, in the nodes' own form |
//! | | `{"difference": {"ask": {…}}}`: what differs from a copy that the log does not reach |
//! | answer | `{"hello": {…}}`, `{"tables": {…}}`, `{"table": {…}}`, `{"held": {…}}` |
//! | | to `files` a zero, to `difference` a one, and the bytes of the answer |
//! | | otherwise a status of gRPC ([`super::refusal`]) |
//!
//! A question with a field or name that is not known is refused: a newer follower learns so what its
//! leader cannot do. In answers unknown fields are passed over: a newer leader may say more.

use bytes::Bytes;
use plimsoll_cluster::following::{
    DifferenceAnswer, DifferenceAsk, Held, Hold, HoldChange, LeaderTable, PLACES_MAX,
};
use plimsoll_log::record::RecordError;
use serde::{Deserialize, Serialize};

/// The method of questions.
pub const METHOD: &str = "/plimsoll.Remote/Ask";
/// The header that carries the key.
pub const AUTHORIZATION: &str = "authorization";
/// What stands in it before the key. Elasticsearch's word.
pub const SCHEME: &str = "ApiKey ";
/// The largest question, bytes: a thousand places take most.
pub const QUESTION_BYTES_MAX: usize = 256 << 10;
/// The largest answer, bytes: a chunk of a file and a table's mapping have up to 4 MiB.
pub const ANSWER_BYTES_MAX: usize = 6 << 20;
/// The longest name in a question, bytes: as long as a table's may be.
const NAME_BYTES_MAX: usize = 255;
/// The longest in an answer, bytes: also addresses stand there.
const ANSWER_NAME_BYTES_MAX: usize = 512;
/// What an answer begins with that is no JSON.
const FILES: u8 = 0;
/// The same, to what differs.
const DIFFERENCE: u8 = 1;
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
    /// What a table is made of.
    Table {
        /// Its name.
        name: String,
    },
    /// What a table is made of, and keeps its log for a follower: one trip for the two that following begins
    /// with.
    Follow {
        /// For whom; which table of that name it is, is not asked.
        hold: Hold,
    },
    /// Keeps the log for a follower.
    Hold {
        /// For whom, and from where on.
        hold: Hold,
    },
    /// Copies a table's files.
    Files {
        /// As nodes of one cluster ask it.
        #[serde(with = "base64_bytes")]
        question: Bytes,
    },
    /// Levels a copy that the log does not reach.
    Difference {
        /// A snapshot, or a part of one.
        ask: DifferenceAsk,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Hello`].
    Hello(Hello),
    /// To [`Ask::Tables`].
    Tables(Tables),
    /// To [`Ask::Table`] and [`Ask::Follow`].
    Table(LeaderTable),
    /// To [`Ask::Hold`].
    Held(Held),
    /// To [`Ask::Files`]: as nodes of one cluster answer it.
    #[serde(skip)]
    Files(Bytes),
    /// To [`Ask::Difference`], in bytes of its own.
    #[serde(skip)]
    Difference(DifferenceAnswer),
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
    /// They name no partition, or more than they may.
    #[error("{0} partitions are named, 1 to {PLACES_MAX} may be")]
    Places(usize),
    /// A record in them is damaged.
    #[error("a carried record: {0}")]
    Record(RecordError),
    /// A record in them is none that is carried.
    #[error("a record that carries nothing")]
    NotCarried,
    /// What differs cannot be read.
    #[error("what differs: {0}")]
    Difference(RecordError),
    /// What differs is asked for without bounds.
    #[error("a key or a list is longer than any may be")]
    Unbounded,
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
        let node = question.node.as_ref().map_or(0, String::len);
        let longest = node.max(match &question.ask {
            Ask::Hello | Ask::Files { .. } => 0,
            Ask::Difference { ask } if ask.is_bounded() => 0,
            Ask::Difference { .. } => return Err(ProtocolError::Unbounded),
            Ask::Tables { after } => after.len(),
            Ask::Table { name } => name.len(),
            Ask::Follow { hold } | Ask::Hold { hold } => {
                if let HoldChange::Positions(positions) = &hold.change
                    && positions.len() > PLACES_MAX
                {
                    return Err(ProtocolError::Places(positions.len()));
                }
                let names = [&hold.name, &hold.cluster_uuid, &hold.follower];
                names.into_iter().map(String::len).max().unwrap_or(0)
            }
        });
        if longest > NAME_BYTES_MAX { Err(ProtocolError::Name(longest)) } else { Ok(question) }
    }
}

impl Answer {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Files(bytes) => [&[FILES], &**bytes].concat(),
            Self::Difference(answer) => [&[DIFFERENCE], &*answer.encode()].concat(),
            json => serde_json::to_vec(json).expect("an answer is plain data"),
        }
    }

    /// Reads one that came from outside.
    ///
    /// # Errors
    /// See [`ProtocolError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, ProtocolError> {
        if bytes.len() <= ANSWER_BYTES_MAX
            && let Some((kind @ (&FILES | &DIFFERENCE), answer)) = bytes.split_first()
        {
            let answer = Bytes::copy_from_slice(answer);
            return if *kind == FILES {
                Ok(Self::Files(answer))
            } else {
                let answer = DifferenceAnswer::decode(&answer);
                answer.map(Self::Difference).map_err(ProtocolError::Difference)
            };
        }
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
            Self::Table(table) if !(1..=PLACES_MAX).contains(&table.partitions.len()) => {
                return Err(ProtocolError::Places(table.partitions.len()));
            }
            Self::Table(table) => {
                let nodes = table.partitions.iter().flat_map(|it| &it.nodes);
                nodes.chain([&table.name]).map(String::len).max()
            }
            Self::Held(held) if held.positions.len() > PLACES_MAX => {
                return Err(ProtocolError::Places(held.positions.len()));
            }
            Self::Held(_) | Self::Files(_) | Self::Difference(_) => None,
        };
        match longest {
            Some(longest) if longest > ANSWER_NAME_BYTES_MAX => Err(ProtocolError::Name(longest)),
            _ => Ok(answer),
        }
    }
}

pub(super) fn read<'a, T: Deserialize<'a>>(
    bytes: &'a [u8],
    bytes_max: usize,
) -> Result<T, ProtocolError> {
    if bytes.len() > bytes_max {
        return Err(ProtocolError::TooLong(bytes.len(), bytes_max));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| ProtocolError::Unknown(error.line(), error.column()))
}

/// Bytes in JSON.
mod base64_bytes {
    use base64::{Engine, engine::general_purpose::STANDARD};
    use bytes::Bytes;
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &Bytes, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(from)?;
        STANDARD.decode(&*text).map(Bytes::from).map_err(|_| D::Error::custom("no base64"))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_cluster::following::{LeaderDocuments, LeaderPartition};

    use super::*;

    #[test]
    fn questions_are_these_bytes() {
        for (question, text) in [
            (Question::of_any(Ask::Hello), r#"{"ask":"hello"}"#),
            (
                Question { node: Some("n".to_owned()), ask: Ask::Tables { after: "a".to_owned() } },
                r#"{"node":"n","ask":{"tables":{"after":"a"}}}"#,
            ),
            (
                Question::of_any(Ask::Table { name: "a".to_owned() }),
                r#"{"ask":{"table":{"name":"a"}}}"#,
            ),
            (
                Question::of_any(Ask::Files { question: Bytes::from_static(b"\x00\xff") }),
                r#"{"ask":{"files":{"question":"AP8="}}}"#,
            ),
            (
                Question::of_any(Ask::Follow {
                    hold: Hold { change: HoldChange::Begin, ..hold(Vec::new()) },
                }),
                concat!(
                    r#"{"ask":{"follow":{"hold":{"name":"a","table":5,"cluster_uuid":"u","#,
                    r#""follower":"b","follower_incarnation":6,"change":"begin"}}}}"#
                ),
            ),
            (
                Question::of_any(Ask::Hold { hold: hold(vec![7, 8]) }),
                concat!(
                    r#"{"ask":{"hold":{"hold":{"name":"a","table":5,"cluster_uuid":"u","#,
                    r#""follower":"b","follower_incarnation":6,"change":{"positions":[7,8]}}}}}"#
                ),
            ),
        ] {
            assert_eq!(question.encode(), text.as_bytes());
            assert_eq!(Question::decode(text.as_bytes()), Ok(question));
        }
        let all = Question::of_any(Ask::Tables { after: String::new() });
        assert_eq!(Question::decode(br#"{"ask":{"tables":{}}}"#), Ok(all));
    }

    fn hold(positions: Vec<u64>) -> Hold {
        Hold {
            name: "a".to_owned(),
            table: 5,
            cluster_uuid: "u".to_owned(),
            follower: "b".to_owned(),
            follower_incarnation: 6,
            change: HoldChange::Positions(positions),
            key: String::new(),
        }
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
            r#"{"ask":{"table":{}}}"#,
            r#"{"ask":{"files":{"question":"secret!"}}}"#,
            r#"{"ask":{"hold":{"hold":{"name":"rows"}}}}"#,
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
    fn followers_questions_have_bounds() {
        let longest = Ask::Hold { hold: hold(vec![u64::MAX; PLACES_MAX]) };
        let longest = Question::of_any(longest);
        assert_eq!(Question::decode(&longest.encode()), Ok(longest));
        let many = Question::of_any(Ask::Hold { hold: hold(vec![1; PLACES_MAX + 1]) });
        assert_eq!(Question::decode(&many.encode()), Err(ProtocolError::Places(1025)));
        let named = Hold { cluster_uuid: "x".repeat(256), ..hold(vec![]) };
        let named = Question::of_any(Ask::Hold { hold: named });
        assert_eq!(Question::decode(&named.encode()), Err(ProtocolError::Name(256)));
        let named = Question::of_any(Ask::Table { name: "x".repeat(256) });
        assert_eq!(Question::decode(&named.encode()), Err(ProtocolError::Name(256)));
        // Checksums of as many files as are asked for at once, in the longest form.
        let files = Question::of_any(Ask::Files { question: vec![7; 60_000].into() });
        assert_eq!(Question::decode(&files.encode()), Ok(files));
    }

    #[test]
    fn answers_to_followers_have_bounds_too() {
        let chunk = Answer::Files(vec![7; (4 << 20) + 1000].into());
        assert_eq!(Answer::decode(&chunk.encode()), Ok(chunk));
        let longer = vec![0; ANSWER_BYTES_MAX + 1];
        assert!(matches!(Answer::decode(&longer), Err(ProtocolError::TooLong(..))));
        let mapping = serde_json::json!({ "properties": { "x": { "type": "x".repeat(4 << 20) } } });
        let documents = Some(LeaderDocuments { mapping, ..LeaderDocuments::default() });
        let partitions = vec![LeaderPartition { nodes: vec!["n".to_owned()] }; PLACES_MAX];
        let table = LeaderTable { partitions, documents, ..LeaderTable::default() };
        let whole = Answer::Table(table.clone());
        assert_eq!(Answer::decode(&whole.encode()), Ok(whole));
        let none = Answer::Table(LeaderTable { partitions: vec![], ..table });
        assert_eq!(Answer::decode(&none.encode()), Err(ProtocolError::Places(0)));
        let held = Answer::Held(Held { positions: vec![1, 2], is_dropped: false });
        assert_eq!(held.encode(), br#"{"held":{"positions":[1,2],"is_dropped":false}}"#);
        assert_eq!(Answer::decode(&held.encode()), Ok(held));
        assert!(Answer::decode(br#"{"files":[1]}"#).is_err(), "that has another form");
    }

    #[test]
    fn what_differs_has_a_form_and_bounds() {
        let follower = |len: usize| {
            Question::of_any(Ask::Difference {
                ask: DifferenceAsk::Open {
                    table: 5,
                    ordinal: 1,
                    log: 7,
                    follower: "f".repeat(len),
                },
            })
        };
        let text = concat!(
            r#"{"ask":{"difference":{"ask":{"open":{"table":5,"ordinal":1,"log":7,"#,
            r#""follower":"f"}}}}}"#
        );
        assert_eq!(follower(1).encode(), text.as_bytes());
        assert_eq!(Question::decode(text.as_bytes()), Ok(follower(1)));
        assert_eq!(Question::decode(&follower(256).encode()), Err(ProtocolError::Unbounded));
        let answer = Answer::Difference(DifferenceAnswer::Closed);
        assert_eq!(answer.encode(), b"\x01\x05");
        assert_eq!(Answer::decode(&answer.encode()), Ok(answer));
        assert!(matches!(Answer::decode(b"\x01\x09"), Err(ProtocolError::Difference(_))));
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
