//! Looks at the groups' leaders now and then, and asks one that is slow to step down. Which one
//! is for the [judge](super::leaders) to say. What servers say of leaders is a hint: a wrong one
//! costs an election, no record.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::api;
use super::core::{Core, Group};
use super::leaders::{Judge, Sample};
use crate::GroupId;

/// How often leaders are judged.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Every how many looks a group's leader is asked for anew.
const LEADER_LOOKS: u64 = 5;
/// How long a request may take.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Watches until the log is closed.
pub(super) async fn watch(core: Arc<Core>, moves_leaders: bool) {
    let mut judge = Judge::default();
    for observe in 0_u64.. {
        tokio::time::sleep(LOOK_INTERVAL).await;
        if core.is_closed() {
            return;
        }
        let mut samples = Vec::new();
        for (index, group) in core.groups.iter().enumerate() {
            let interval = std::mem::take(&mut *group.interval.lock());
            group.stats.lock().append_expected = interval.expected();
            let stats = group.stats();
            // Who does not append does not care who leads.
            let is_used = moves_leaders && (interval.appends > 0 || stats.queue_length > 0);
            // Each group at a observe of its own, so that requests come evenly.
            let is_due = (observe + index as u64).is_multiple_of(LEADER_LOOKS);
            if !is_used {
                continue;
            }
            let Some(leader) = leader(&core, group, is_due).await else { continue };
            samples.push(Sample {
                group: group.id,
                leader,
                appends: interval.appends,
                append: stats.append_expected,
                oldest: stats.queue_age,
            });
        }
        for group in judge.observe(core.opened.elapsed(), &samples) {
            let judged = samples.iter().find(|sample| sample.group == group);
            if let Some(sample) = judged {
                step_down(&core, group, &sample.leader).await;
            }
        }
    }
}

/// Who leads the group, as far as known.
async fn leader(core: &Core, group: &Group, asks: bool) -> Option<String> {
    let known = group.stats.lock().leader.clone();
    if asks || known.is_empty() {
        let info = api::stream_info(&core.client, &group.stream, REQUEST_TIMEOUT).await.ok()?;
        let leader = info.cluster?.leader?;
        group.stats.lock().leader.clone_from(&leader);
        return Some(leader);
    }
    Some(known)
}

/// Asks the group's leader to step down, if it still is the one that was judged.
async fn step_down(core: &Core, group: GroupId, judged: &str) {
    let Ok(group) = core.group(group) else { return };
    if leader(core, group, true).await.as_deref() != Some(judged) {
        return;
    }
    let subject = format!("$JS.API.STREAM.LEADER.STEPDOWN.{}", group.stream);
    let asked = api::request(&core.client, subject, &Value::Null, REQUEST_TIMEOUT).await;
    match asked {
        Ok(_) => {
            group.stats.lock().leader_moves += 1;
            tracing::warn!(group = %group.id, judged, "a slow log leader steps down");
        }
        Err(error) => {
            tracing::warn!(group = %group.id, judged, %error, "a slow log leader does not go");
        }
    }
}
