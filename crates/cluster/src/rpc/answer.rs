//! What a node answers to the questions of others.

use bytes::Bytes;

use super::messages::{Envelope, FORMAT, Problem, Question, Reply, decode, encode_reply};
use crate::Coordinator;

impl Coordinator {
    /// Answers another node's question. Dropping the future stops the work on it.
    pub async fn answer(&self, question: Bytes) -> Bytes {
        let reply = match decode::<Envelope>(&question) {
            Ok(envelope) => self.answer_to(envelope).await,
            Err(Problem::Format(_)) => Reply::Problem(Problem::Format(FORMAT)),
            Err(problem) => Reply::Problem(problem),
        };
        encode_reply(&reply)
    }

    async fn answer_to(&self, envelope: Envelope) -> Reply {
        match envelope.question {
            Question::Probe => Reply::Done,
            _ => Reply::Problem(Problem::NotHere("this node serves no others".to_owned())),
        }
    }
}
