//! What the engine says to JetStream and what it hears: the requests of its API as JSON, and the
//! subjects of what it delivers. It decides nothing.
//!
//! Only what servers since 2.9 know is used.

use std::time::Duration;

use async_nats::{Client, Request, RequestErrorKind};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{AppendError, Lsn, RECORD_BYTES_MAX};

/// Errors of the API, by number.
pub(super) const STREAM_NOT_FOUND: u16 = 10_059;
pub(super) const STREAM_NAME_IN_USE: u16 = 10_058;
/// Errors of an append after which it does not stand in the log, as the server looks for them
/// before it proposes the record: insufficient resources, account limits (two), record too
/// large, headers too large, sealed stream.
const REFUSALS: [u16; 6] = [10_023, 10_002, 10_120, 10_054, 10_097, 10_109];
/// The record was not stored; why is only in the text.
const STORE_FAILED: u16 = 10_077;

/// Why a request of the API failed.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum ApiError {
    /// The server answered with this error.
    #[error("{description} ({number})")]
    Answered { number: u16, description: String },
    /// Nobody answers for JetStream: it is switched off, or has no leader now.
    #[error("JetStream does not answer: it is not enabled there, or has no leader now")]
    Nobody,
    /// No answer, or none that can be read.
    #[error("{0}")]
    Failed(String),
}

#[derive(Deserialize)]
struct Problem {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    err_code: u16,
    #[serde(default)]
    description: String,
}

/// Sends a request of the API; the answer as JSON.
pub(super) async fn request(
    client: &Client,
    subject: String,
    body: &Value,
    timeout: Duration,
) -> Result<Value, ApiError> {
    let payload = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::new().payload(payload.into()).timeout(Some(timeout));
    let answer =
        client.send_request(subject, request).await.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => ApiError::Nobody,
            _ => ApiError::Failed(error.to_string()),
        })?;
    let answer: Value = serde_json::from_slice(&answer.payload)
        .map_err(|error| ApiError::Failed(format!("the answer is not JSON: {error}")))?;
    match answer.get("error").cloned().map(serde_json::from_value::<Problem>) {
        None => Ok(answer),
        Some(Ok(problem)) => Err(ApiError::Answered {
            number: if problem.err_code == 0 { problem.code } else { problem.err_code },
            description: problem.description,
        }),
        Some(Err(error)) => Err(ApiError::Failed(format!("the error cannot be read: {error}"))),
    }
}

/// What is known of a stream.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct StreamInfo {
    pub config: StreamConfig,
    pub state: StreamState,
    #[serde(default)]
    pub cluster: Option<StreamCluster>,
}

/// The settings of a stream that matter here.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamConfig {
    pub subjects: Vec<String>,
    pub description: String,
    pub retention: String,
    pub discard: String,
    pub storage: String,
    pub num_replicas: u8,
    pub max_age: u64,
    pub max_msgs: i64,
    pub max_msgs_per_subject: i64,
    pub max_msg_size: i64,
    pub mirror: Option<Value>,
    pub sources: Option<Value>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct StreamState {
    pub first_seq: u64,
    pub last_seq: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct StreamCluster {
    /// The name of the server that leads.
    #[serde(default)]
    pub leader: Option<String>,
}

/// The stream as the API describes it. A hint: a server that was left behind describes the past.
pub(super) async fn stream_info(
    client: &Client,
    stream: &str,
    timeout: Duration,
) -> Result<StreamInfo, ApiError> {
    let subject = format!("$JS.API.STREAM.INFO.{stream}");
    let answer = request(client, subject, &Value::Null, timeout).await?;
    serde_json::from_value(answer)
        .map_err(|error| ApiError::Failed(format!("the stream's description: {error}")))
}

/// The settings of a group's stream.
pub(super) fn stream_config(
    name: &str,
    subject: &str,
    description: &str,
    replicas: u8,
    bytes_max: u64,
) -> Value {
    let bytes_max = if bytes_max == 0 { json!(-1) } else { json!(bytes_max) };
    json!({
        "name": name,
        "subjects": [subject],
        "description": description,
        "retention": "limits",
        "storage": "file",
        // What is full refuses, and never forgets.
        "discard": "new",
        "num_replicas": replicas,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": -1,
        "max_bytes": bytes_max,
        "max_age": 0,
        "max_msg_size": RECORD_BYTES_MAX,
        // Nothing is taken out of its middle; the beginning is purged by trims.
        "deny_delete": true,
        "deny_purge": false,
    })
}

/// Makes a reader's consumer. It lives in one server's memory, and only as long as it is used.
pub(super) async fn create_consumer(
    client: &Client,
    stream: &str,
    name: &str,
    from: Lsn,
    timeout: Duration,
) -> Result<(), ApiError> {
    let body = json!({
        "stream_name": stream,
        "config": {
            "name": name,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": from.0,
            "ack_policy": "none",
            "replay_policy": "instant",
            "num_replicas": 1,
            "mem_storage": true,
            "max_waiting": 8,
            "inactive_threshold": 30_000_000_000_u64,
        },
    });
    let subject = format!("$JS.API.CONSUMER.CREATE.{stream}.{name}");
    request(client, subject, &body, timeout).await.map(|_| ())
}

/// A request for the next messages of a consumer.
pub(super) fn pull(count: usize, bytes: usize, expires: Duration, heartbeat: Duration) -> Value {
    json!({
        "batch": count,
        "max_bytes": bytes,
        "expires": nanoseconds(expires),
        "idle_heartbeat": nanoseconds(heartbeat),
    })
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// What a delivered message's reply subject says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Delivery<'a> {
    pub stream: &'a str,
    pub consumer: &'a str,
    /// Its position in the stream.
    pub lsn: Lsn,
    /// Its number among the deliveries of the consumer, from 1.
    pub number: u64,
}

/// Reads `$JS.ACK.…`, in its form of nine words or in that with the domain and the account.
pub(super) fn delivery(reply: &str) -> Option<Delivery<'_>> {
    let words: Vec<&str> = reply.splitn(13, '.').collect();
    let begin = match words.len() {
        9 => 2,
        11.. => 4,
        _ => return None,
    };
    if words.first() != Some(&"$JS") || words.get(1) != Some(&"ACK") {
        return None;
    }
    Some(Delivery {
        stream: words.get(begin)?,
        consumer: words.get(begin + 1)?,
        lsn: Lsn(words.get(begin + 3)?.parse().ok()?),
        number: words.get(begin + 4)?.parse().ok()?,
    })
}

#[derive(Deserialize)]
struct Answer<'a> {
    #[serde(default)]
    stream: &'a str,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    duplicate: bool,
    error: Option<Problem>,
}

/// Reads the answer to an append to `stream`.
pub(super) fn append_answer(stream: &str, payload: &[u8]) -> Result<Lsn, AppendError> {
    let unknown = |reason: String| Err(AppendError::Unknown(reason));
    let answer: Answer<'_> = match serde_json::from_slice(payload) {
        Ok(answer) => answer,
        Err(error) => return unknown(format!("the answer cannot be read: {error}")),
    };
    if let Some(problem) = answer.error {
        let Problem { err_code: number, description, .. } = problem;
        // Every replica of the stream finds a full stream full at the same record.
        let is_full = number == STORE_FAILED
            && (description.contains("maximum bytes") || description.contains("maximum messages"));
        let reason = format!("{description} ({number})");
        return if is_full || REFUSALS.contains(&number) {
            Err(AppendError::Refused(reason))
        } else {
            unknown(reason)
        };
    }
    if answer.stream != stream || answer.seq == 0 || answer.duplicate {
        return unknown(format!(
            "the answer is of stream `{}`, position {}",
            answer.stream, answer.seq
        ));
    }
    Ok(Lsn(answer.seq))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_a_delivery_are_read() {
        let expected = Delivery { stream: "s", consumer: "c", lsn: Lsn(12), number: 3 };
        assert_eq!(delivery("$JS.ACK.s.c.1.12.3.1700000000.4"), Some(expected));
        assert_eq!(delivery("$JS.ACK.hub.hash.s.c.1.12.3.1700000000.4"), Some(expected));
        assert_eq!(delivery("$JS.ACK._.hash.s.c.1.12.3.1700000000.4.random"), Some(expected));
        for text in ["", "$JS.FC.s.c", "$JS.ACK.s.c.1.x.3.17.4", "a.b.c.d.e.f.g.h.i"] {
            assert_eq!(delivery(text), None, "{text}");
        }
    }

    #[test]
    fn an_answer_is_a_position_a_refusal_or_unknown() {
        let read = |text: &str| match append_answer("s", text.as_bytes()) {
            Ok(lsn) => format!("{lsn}"),
            Err(AppendError::Refused(_)) => "refused".to_owned(),
            Err(AppendError::Unknown(_)) => "unknown".to_owned(),
        };
        let error = |number: u16, text: &str| {
            let error = json!({"code": 400, "err_code": number, "description": text});
            read(&json!({"stream": "s", "seq": 0, "error": error}).to_string())
        };
        assert_eq!(read(r#"{"stream":"s","seq":7}"#), "7");
        assert_eq!(read(r#"{"stream":"s","domain":"d","seq":8}"#), "8");
        assert_eq!(read(r#"{"stream":"other","seq":7}"#), "unknown");
        assert_eq!(read(r#"{"stream":"s","seq":7,"duplicate":true}"#), "unknown");
        assert_eq!(read("+OK"), "unknown");
        assert_eq!(error(10_054, "message size exceeds maximum allowed"), "refused");
        assert_eq!(error(10_077, "maximum bytes exceeded"), "refused");
        assert_eq!(error(10_077, "no space left on device"), "unknown");
        assert_eq!(error(0, "raft: not leader"), "unknown");
    }
}
