//! Sending appends and hearing what became of them: one task a group that sends, one for all that
//! listens, and one that ends what has waited too long. The [window](super::window) decides.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_nats::{Message, StatusCode, Subscriber};
use futures_util::StreamExt;

use super::api;
use super::core::{Core, Group};
use super::window::{Acked, Next};
use crate::{AppendError, Lsn};

/// How often appends are looked at that have waited too long.
const TICK_INTERVAL: Duration = Duration::from_millis(50);
/// How often a group looks whether there is a connection again.
const OFFLINE_INTERVAL: Duration = Duration::from_millis(20);

/// Sends a group's appends until the log is closed.
pub(super) async fn send(core: Arc<Core>, group: Arc<Group>) {
    while !core.is_closed() {
        // What is handed to the client without a connection goes who knows when: it stays here.
        if !core.is_connected() {
            tokio::time::sleep(OFFLINE_INTERVAL).await;
            continue;
        }
        let next = group.window.lock().next(group.seen(), Instant::now());
        let (number, record) = match next {
            Next::Send(number, record) => (number, record),
            Next::Wait(None) => {
                group.wake.notified().await;
                continue;
            }
            Next::Wait(Some(until)) => {
                tokio::time::sleep_until(until.into()).await;
                continue;
            }
        };
        let answer_to = format!("{}.{}.{number}", core.inbox, group.id);
        let subject = group.subject.clone();
        if let Err(error) = core.client.publish_with_reply(subject, answer_to, record).await {
            // The client did not take it, so nothing was sent.
            let told = group.window.lock().refused(number, &error.to_string(), Instant::now());
            group.tell(told);
        }
    }
}

/// Hears the servers' answers until the log is closed.
pub(super) async fn listen(core: Arc<Core>, mut answers: Subscriber) {
    while let Some(answer) = answers.next().await {
        let Some((group, number)) = addressee(&core, &answer) else { continue };
        answered(&group, number, &answer);
        group.wake.notify_one();
    }
}

/// Ends appends that have waited too long, until the log is closed.
pub(super) async fn tick(core: Arc<Core>) {
    while !core.is_closed() {
        tokio::time::sleep(TICK_INTERVAL).await;
        for group in &core.groups {
            let told = group.window.lock().tick(Instant::now());
            if !told.is_empty() {
                group.tell(told);
                group.wake.notify_one();
            }
        }
    }
}

/// Whose answer it is: `<inbox>.<group>.<number>`.
fn addressee(core: &Core, answer: &Message) -> Option<(Arc<Group>, u64)> {
    let rest = answer.subject.as_str().strip_prefix(core.inbox.as_str())?.strip_prefix('.')?;
    let (group, number) = rest.split_once('.')?;
    let group: usize = group.parse().ok()?;
    Some((Arc::clone(core.groups.get(group)?), number.parse().ok()?))
}

fn answered(group: &Group, number: u64, answer: &Message) {
    let now = Instant::now();
    if answer.status == Some(StatusCode::NO_RESPONDERS) {
        let told = group.window.lock().bounced(number, now);
        return group.tell(told);
    }
    match api::append_answer(&group.stream, &answer.payload) {
        Ok(lsn) => acked(group, number, lsn, now),
        Err(AppendError::Refused(reason)) => {
            let told = group.window.lock().refused(number, &reason, now);
            group.tell(told);
        }
        Err(AppendError::Unknown(reason)) => {
            let told = group.window.lock().unknown(number, &reason, now);
            group.tell(told);
        }
    }
}

fn acked(group: &Group, number: u64, lsn: Lsn, now: Instant) {
    let mut window = group.window.lock();
    let acked = window.acked(number, lsn, now);
    let bounced = window.requeue_bounced(now);
    drop(window);
    match acked {
        Acked::Done((done, outcome), record, took) => {
            group.saw(lsn);
            group.stats.lock().appended(record.len(), took);
            group.interval.lock().add(took);
            let outcome = match group.recognise(lsn, &record) {
                Ok(()) => outcome,
                Err(forked) => {
                    group.stop(&forked.to_string());
                    Err(AppendError::Unknown(forked.to_string()))
                }
            };
            group.tell(vec![(done, outcome)]);
        }
        Acked::Rewound(told, floor) => {
            // First, so that who is told finds it stopped.
            group.stop(&format!(
                "log group {} lost its end: an append was given position {lsn}, but {floor} was \
                 given away before it was sent",
                group.id
            ));
            group.tell(vec![told]);
        }
        // It may have been told to be unknown, but it says where the log is.
        Acked::Late => group.saw(lsn),
    }
    group.tell(bounced);
}
