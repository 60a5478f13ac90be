//! One reader's consumer of one group: made anew whenever a server dies, hangs, falls behind or
//! loses something, from the last record read on. What a server says of a stream decides nothing
//! here but when to look elsewhere, and how an error is worded; the [tail](super::tail) judges
//! every message itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode, Subscriber};
use futures_util::StreamExt;

use super::api::{self, ApiError};
use super::core::{Core, Group};
use super::streams;
use super::tail::{Step, Tail};
use crate::buffer::Buffer;
use crate::{Entry, LogError, Lsn, RECORD_BYTES_MAX};

/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// How often a server says that a pull still waits, and after how long without anything the
/// consumer is given up.
const HEARTBEAT: Duration = Duration::from_millis(500);
const SILENCE_MAX: Duration = Duration::from_millis(1_700);
/// How long one pull may wait.
const PULL_EXPIRES: Duration = Duration::from_secs(20);
/// Messages of one pull.
const PULL_COUNT: usize = 1024;
/// Bytes of the first pull, of the largest where much is to be fetched, and of one whose next
/// record alone is larger.
const PULL_BYTES: usize = 1 << 20;
const PULL_BYTES_MAX: usize = 4 << 20;
const PULL_BYTES_LARGE: usize = RECORD_BYTES_MAX + (64 << 10);
/// Waits before a consumer is made anew: the first, and the longest.
const RETRY_MIN: Duration = Duration::from_millis(50);
const RETRY_MAX: Duration = Duration::from_secs(1);
/// How often what is missing must be missing, each time with another consumer: servers differ.
const GAPS_MAX: u32 = 4;
/// For how long a stream must not be found before it is gone: servers that start up know less.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// For how long a consumer may stay behind what is known to be in the log.
const BEHIND_MAX: Duration = Duration::from_secs(3);
/// For how long a stream must end before the last record read, by what its leader says and by
/// what every new consumer delivers: one that was left behind learns sooner what it missed.
const REWOUND_AFTER: Duration = Duration::from_secs(10);

/// Why a consumer has ended.
enum End {
    /// Nobody reads any more.
    Closed,
    /// Make another one.
    Again(String),
    /// Reading cannot go on.
    Failed(LogError),
}

/// Reads a group into the buffer from `from` on, until the reader or the log is closed.
pub(super) async fn read(core: Arc<Core>, group: Arc<Group>, from: Lsn, buffer: Arc<Buffer>) {
    let mut reading = Reading {
        core,
        group,
        buffer,
        tail: Tail::new(from),
        gaps: 0,
        gone_since: None,
        short_since: None,
    };
    let mut wait = RETRY_MIN;
    loop {
        let expected = reading.tail.expected();
        match reading.consume().await {
            End::Closed => return,
            End::Failed(failure) => {
                reading.fail(failure);
                return;
            }
            End::Again(reason) => {
                reading.group.stats.lock().reader_restarts += 1;
                tracing::debug!(group = %reading.group.id, reason, "a reader begins anew");
            }
        }
        wait =
            if reading.tail.expected() > expected { RETRY_MIN } else { (wait * 2).min(RETRY_MAX) };
        tokio::time::sleep(wait).await;
    }
}

struct Reading {
    core: Arc<Core>,
    group: Arc<Group>,
    buffer: Arc<Buffer>,
    tail: Tail,
    /// How often the wanted record was missing.
    gaps: u32,
    gone_since: Option<Instant>,
    /// Since when the stream ends before the last record read.
    short_since: Option<Instant>,
}

impl Reading {
    /// Makes a consumer and reads from it until it ends.
    async fn consume(&mut self) -> End {
        if let Err(end) = self.check_stream().await {
            return end;
        }
        let (client, stream) = (&self.core.client, &self.group.stream);
        let inbox = client.new_inbox();
        let messages = match client.subscribe(inbox.clone()).await {
            Ok(messages) => messages,
            Err(error) => return End::Again(error.to_string()),
        };
        // A name of its own each time: whether an earlier one was made does not matter.
        let name = inbox.rsplit('.').next().unwrap_or(&inbox).to_owned();
        let from = self.tail.begin();
        if let Err(error) = api::create_consumer(client, stream, &name, from, REQUEST_TIMEOUT).await
        {
            return self.api_failed(&error);
        }
        self.gone_since = None;
        let mut pulling = Pulling {
            inbox,
            subject: format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"),
            name,
            messages,
            left: 0,
            bytes: PULL_BYTES,
            advanced: Instant::now(),
            is_recognised: self.tail.last_read().is_none(),
        };
        loop {
            // Woken in any case now and then: the log may be closed meanwhile.
            while !self.has_room_within(HEARTBEAT).await {
                pulling.advanced = Instant::now();
                if self.core.is_closed() {
                    return End::Closed;
                }
            }
            if let Err(end) = self.pull(&mut pulling).await {
                return end;
            }
        }
    }

    /// Waits for room in the buffer, up to `timeout`; says whether there is some.
    async fn has_room_within(&self, timeout: Duration) -> bool {
        let room = std::future::poll_fn(|context| self.buffer.poll_room(self.group.id, context));
        tokio::time::timeout(timeout, room).await.is_ok()
    }

    /// One pull, until it ends.
    async fn pull(&mut self, pulling: &mut Pulling) -> Result<(), End> {
        let body = api::pull(PULL_COUNT, pulling.bytes, PULL_EXPIRES, HEARTBEAT).to_string();
        let client = &self.core.client;
        let sent = client
            .publish_with_reply(pulling.subject.clone(), pulling.inbox.clone(), body.into())
            .await;
        sent.map_err(|error| End::Again(error.to_string()))?;
        pulling.left = PULL_COUNT;
        while pulling.left > 0 {
            let message = tokio::time::timeout(SILENCE_MAX, pulling.messages.next()).await;
            if let Some(fault) = self.group.fault() {
                return Err(End::Failed(LogError::Damaged(fault)));
            }
            if self.buffer.is_closed() || self.core.is_closed() {
                return Err(End::Closed);
            }
            match message {
                Err(_) => return Err(End::Again("the server is silent".to_owned())),
                Ok(None) => return Err(End::Again("the connection is closed".to_owned())),
                Ok(Some(message)) if message.status.is_some() => {
                    if !self.status(pulling, &message)? {
                        return Ok(());
                    }
                }
                Ok(Some(message)) => {
                    pulling.left -= 1;
                    pulling.bytes = pulling.bytes.min(PULL_BYTES_MAX);
                    self.take(pulling, message)?;
                }
            }
            self.check_behind(pulling)?;
        }
        Ok(())
    }

    /// What the server says instead of a record: whether the pull goes on.
    fn status(&self, pulling: &mut Pulling, message: &Message) -> Result<bool, End> {
        let status = message.status.map_or(0, |status| status.as_u16());
        let text = message.description.clone().unwrap_or_default();
        let pending = message.headers.as_ref().and_then(|headers| {
            headers
                .get("Nats-Pending-Messages")
                .and_then(|left| left.as_str().parse::<usize>().ok())
        });
        match status {
            100 => Ok(true),
            404 | 408 => Ok(false),
            // All that was asked for was delivered: counted here already.
            409 if pending == Some(0) => Ok(true),
            409 if text.contains("MaxBytes") || text.contains("Batch Completed") => {
                pulling.bytes = if pulling.left == PULL_COUNT {
                    PULL_BYTES_LARGE
                } else {
                    (pulling.bytes * 2).min(PULL_BYTES_MAX)
                };
                Ok(false)
            }
            _ if message.status == Some(StatusCode::NO_RESPONDERS) => {
                Err(End::Again("the consumer is gone".to_owned()))
            }
            _ => Err(End::Again(format!("the server says {status} {text}"))),
        }
    }

    fn take(&mut self, pulling: &mut Pulling, message: Message) -> Result<(), End> {
        let Some(delivery) = message.reply.as_ref().and_then(|reply| api::delivery(reply)) else {
            return Err(End::Again("a message is no delivery".to_owned()));
        };
        if delivery.consumer != pulling.name || delivery.stream != self.group.stream {
            return Err(End::Again("a delivery of another consumer".to_owned()));
        }
        let (group, lsn) = (self.group.id, delivery.lsn);
        if message.subject != self.group.subject {
            return Err(End::Failed(LogError::Damaged(format!(
                "stream `{}` holds `{}` at {lsn}, which is not of log {}",
                self.group.stream, message.subject, self.core.incarnation
            ))));
        }
        match self.tail.offer(delivery.number, lsn, &message.payload) {
            Step::Take => {
                self.gaps = 0;
                pulling.is_recognised = true;
                pulling.advanced = Instant::now();
                self.group.saw(lsn);
                if let Err(forked) = self.group.recognise(lsn, &message.payload) {
                    return Err(End::Failed(LogError::Damaged(forked.to_string())));
                }
                self.group.stats.lock().read_bytes += message.payload.len() as u64;
                self.buffer.push(Entry { group, lsn, record: message.payload });
                Ok(())
            }
            Step::Skip => {
                if self.tail.last_read() == Some(lsn) {
                    pulling.is_recognised = true;
                    self.short_since = None;
                }
                Ok(())
            }
            Step::Lost => Err(End::Again("a delivery was lost".to_owned())),
            Step::Gap(first) => {
                self.gaps += 1;
                let asked = self.tail.expected();
                if self.gaps < GAPS_MAX {
                    return Err(End::Again(format!("{asked} is missing before {first}")));
                }
                Err(End::Failed(LogError::Trimmed { group, first, asked }))
            }
            Step::OtherPast(lsn) => Err(End::Failed(LogError::Damaged(format!(
                "log group {group} has another past: position {lsn} holds another record than \
                 was read there; stream `{}` was deleted and made anew, or lost its end",
                self.group.stream
            )))),
        }
    }

    /// A consumer that stays behind what is known to be in the log sits on a server that was
    /// left behind itself.
    fn check_behind(&self, pulling: &mut Pulling) -> Result<(), End> {
        if pulling.is_recognised && self.group.seen() < self.tail.expected() {
            pulling.advanced = Instant::now();
        }
        if pulling.advanced.elapsed() > BEHIND_MAX {
            return Err(End::Again("the consumer is behind the log".to_owned()));
        }
        Ok(())
    }

    /// Whether the stream still is the log's.
    async fn check_stream(&mut self) -> Result<(), End> {
        let Core { client, cluster, incarnation, .. } = &*self.core;
        match api::stream_info(client, &self.group.stream, REQUEST_TIMEOUT).await {
            Ok(info) if streams::is_same(cluster, self.group.id, *incarnation, &info) => {
                self.check_end(Lsn(info.state.last_seq))
            }
            Ok(info) => Err(End::Failed(LogError::Damaged(format!(
                "stream `{}` is not of log {incarnation} any more: it takes `{}`",
                self.group.stream,
                info.config.subjects.join(" ")
            )))),
            Err(error) => Err(self.api_failed(&error)),
        }
    }

    /// Whether the stream still reaches to the last record read. That one is never trimmed.
    fn check_end(&mut self, last: Lsn) -> Result<(), End> {
        let Some(read) = self.tail.last_read().filter(|read| *read > last) else { return Ok(()) };
        let since = *self.short_since.get_or_insert_with(Instant::now);
        if since.elapsed() < REWOUND_AFTER {
            return Ok(());
        }
        Err(End::Failed(LogError::Damaged(format!(
            "log group {} lost its end: stream `{}` reaches to {last}, but {read} was read here",
            self.group.id, self.group.stream
        ))))
    }

    fn api_failed(&mut self, error: &ApiError) -> End {
        let ApiError::Answered { number: api::STREAM_NOT_FOUND, .. } = error else {
            return End::Again(error.to_string());
        };
        let since = *self.gone_since.get_or_insert_with(Instant::now);
        if since.elapsed() < GONE_AFTER {
            return End::Again(error.to_string());
        }
        End::Failed(LogError::Damaged(format!(
            "stream `{}` of log {} is gone from the servers",
            self.group.stream, self.core.incarnation
        )))
    }

    /// Ends the reader; a log with another past is not written to any more either.
    fn fail(&self, failure: LogError) {
        if let LogError::Damaged(reason) = &failure {
            self.group.stop(reason);
        }
        self.buffer.fail(failure);
    }
}

/// What belongs to one consumer.
struct Pulling {
    inbox: String,
    /// Where pulls go.
    subject: String,
    name: String,
    messages: Subscriber,
    /// Messages that the current pull may still bring.
    left: usize,
    /// Bytes that the next pull asks for.
    bytes: usize,
    /// When the reader last was where the log is known to be, or came nearer.
    advanced: Instant,
    /// Whether the last record read came again, or more.
    is_recognised: bool,
}
