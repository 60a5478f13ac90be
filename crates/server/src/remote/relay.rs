//! A follower's question, handed on from the node that it reached to the node that it is meant for.
//!
//! It goes over the nodes' own way (`rpc`), which is there in any case: nodes need no keys and no
//! certificates for each other. The node that was reached has checked the secret; the one that answers
//! looks up the key by its id again, and answers for that key's tables alone. A question is handed on
//! once: whoever gets it this way answers it itself.
//!
//! What nodes ask each other otherwise begins with the number of its format; what is handed on begins
//! with [`MARK`], which is no such number.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use plimsoll_cluster::following::RemoteError;
use plimsoll_cluster::{Coordinator, Peers};
use serde::{Deserialize, Serialize};

use super::port::{Leader, answer};
use super::protocol::{ANSWER_BYTES_MAX, Answer, Ask, QUESTION_BYTES_MAX};
use super::refusal::Refusal;
use crate::rpc::Answers;
use crate::security::keys::Keys;

/// What a question begins with that is handed on.
const MARK: u8 = b'R';
/// What of a handed question is not the question, bytes at the most.
const KEY_BYTES_MAX: usize = 1 << 10;
/// How long the other node has.
const TIME: Duration = Duration::from_secs(20);

/// A question on its way.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Handed {
    /// The id of the key that was shown.
    key: String,
    ask: Ask,
}

/// What comes back, in JSON; an answer that is none comes in its own bytes.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Returned {
    Answer(Box<Answer>),
    /// The question was not answered; in words.
    Refused(String),
    /// The leader refuses it.
    Error(Refusal),
}

/// Why there is no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The other node gives none; in words, for this cluster alone.
    Silent(String),
    /// It does, and it is this.
    Refused(RemoteError),
}

/// Hands a question to the node that listens at `address` for others of its cluster.
///
/// # Errors
/// Says why there is no answer.
pub async fn hand_on(
    peers: &dyn Peers,
    address: &str,
    key: &str,
    ask: &Ask,
) -> Result<Answer, Unanswered> {
    let handed = Handed { key: key.to_owned(), ask: ask.clone() };
    let mut question = vec![MARK];
    question.extend(serde_json::to_vec(&handed).expect("a question is plain data"));
    let returned = peers.call(address, question.into(), TIME).await;
    let returned = returned.map_err(|error| Unanswered::Silent(error.to_string()))?;
    match returned_of(&returned).map_err(|error| Unanswered::Silent(error.to_string()))? {
        Returned::Answer(answer) => Ok(*answer),
        Returned::Refused(words) => Err(Unanswered::Silent(words)),
        Returned::Error(refusal) => Err(Unanswered::Refused(refusal.into())),
    }
}

/// What a node answers is none of what is known here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the node answers something else")]
struct Unreadable;

fn returned_of(bytes: &[u8]) -> Result<Returned, Unreadable> {
    let body = bytes.strip_prefix(&[MARK]).filter(|it| it.len() <= ANSWER_BYTES_MAX);
    let read = body.and_then(|body| match Answer::decode(body) {
        Ok(own @ (Answer::Files(_) | Answer::Difference(_))) => {
            Some(Returned::Answer(Box::new(own)))
        }
        _ => serde_json::from_slice(body).ok(),
    });
    read.ok_or(Unreadable)
}

fn bytes_of(returned: &Returned) -> Bytes {
    let mut bytes = vec![MARK];
    bytes.extend(match returned {
        Returned::Answer(answer)
            if matches!(**answer, Answer::Files(_) | Answer::Difference(_)) =>
        {
            answer.encode()
        }
        json => serde_json::to_vec(json).expect("an answer is plain data"),
    });
    bytes.into()
}

/// What a node answers to the others of its cluster: the cluster's own questions, and those that
/// are handed on.
pub struct NodeAnswers {
    coordinator: Arc<Coordinator>,
    keys: Arc<Keys>,
    leader: Arc<dyn Leader>,
}

impl NodeAnswers {
    /// For a node.
    #[must_use]
    pub fn new(coordinator: Arc<Coordinator>, keys: Arc<Keys>, leader: Arc<dyn Leader>) -> Self {
        Self { coordinator, keys, leader }
    }

    async fn handed(&self, body: &[u8]) -> Returned {
        let handed = Some(body).filter(|it| it.len() <= QUESTION_BYTES_MAX + KEY_BYTES_MAX);
        let handed = handed.and_then(|body| serde_json::from_slice::<Handed>(body).ok());
        let Some(Handed { key, ask }) = handed else {
            return Returned::Refused("no question that is known here".to_owned());
        };
        match self.keys.known(&key) {
            Ok(key) => match answer(ask, &key, &*self.leader).await {
                Ok(answer) => Returned::Answer(Box::new(answer)),
                Err(error) => Returned::Error(error.into()),
            },
            Err(refusal) => Returned::Refused(refusal.to_string()),
        }
    }
}

impl Answers for NodeAnswers {
    async fn answer(&self, question: Bytes, sender: Option<&str>) -> Bytes {
        let Some(body) = question.strip_prefix(&[MARK]) else {
            return self.coordinator.answer(question, sender).await;
        };
        bytes_of(&self.handed(body).await)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_cluster::following::DifferenceAnswer;

    use super::*;
    use crate::remote::protocol::Hello;

    #[test]
    fn what_comes_back_is_read_or_refused() {
        let answer = Returned::Answer(Box::new(Answer::Hello(Hello::default())));
        let files = Answer::Files(Bytes::from_static(b"{\"refused\":\"no\"}"));
        let files = Returned::Answer(Box::new(files));
        let differs = Answer::Difference(DifferenceAnswer::Closed);
        let differs = Returned::Answer(Box::new(differs));
        let error = Returned::Error(RemoteError::Trimmed("gone".to_owned()).into());
        for returned in [answer, files, differs, error, Returned::Refused("no".to_owned())] {
            assert_eq!(returned_of(&bytes_of(&returned)), Ok(returned));
        }
        // An older node takes the mark for the number of a format that it does not know.
        for bytes in [&b""[..], b"R", b"\x01problem", b"R{}", b"R{\"answer\":{}}"] {
            assert!(returned_of(bytes).is_err());
        }
    }
}
