//! The streams of a log: their names, how they come to be, and what must be true of them.
//!
//! Group n of the cluster `c` is the stream `plimsoll_c_n`. The log's incarnation is a part of
//! each stream's only subject, `plimsoll.c.<incarnation>.n`, so that an append to a stream that
//! was deleted and made anew reaches nobody, and a record of another incarnation shows it.
//! Group 0 is made first and draws the incarnation; when all others are there its description
//! says so. A stream that is missing after that is a loss, and is not made again.

use std::time::{Duration, Instant};

use async_nats::Client;
use serde_json::json;

use super::api::{self, ApiError, StreamConfig, StreamInfo};
use super::options::Options;
use crate::{GroupId, Incarnation, LogError, RECORD_BYTES_MAX};

/// How long one request may take while the log is opened.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait before the next try.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);
/// How the description of group 0 begins, until all streams are there and after.
const MAKING: &str = "Plimsoll log, being made, groups ";
const MADE: &str = "Plimsoll log, groups ";

/// The name of a group's stream.
pub(super) fn stream_name(cluster: &str, group: GroupId) -> String {
    format!("plimsoll_{cluster}_{group}")
}

/// The only subject of a group's stream.
pub(super) fn subject(cluster: &str, incarnation: Incarnation, group: GroupId) -> String {
    format!("plimsoll.{cluster}.{incarnation}.{group}")
}

/// The incarnation in a stream's subject.
fn incarnation_of(cluster: &str, group: GroupId, config: &StreamConfig) -> Option<Incarnation> {
    let [subject] = config.subjects.as_slice() else { return None };
    let rest = subject.strip_prefix("plimsoll.")?.strip_prefix(cluster)?.strip_prefix('.')?;
    let (digits, of_group) = rest.split_once('.')?;
    let incarnation = u64::from_str_radix(digits, 16).ok()?;
    (of_group == group.to_string()).then_some(Incarnation(incarnation))
}

/// Opens the streams of a cluster's log, or makes them.
pub(super) struct Opening<'a> {
    pub client: &'a Client,
    pub cluster: &'a str,
    pub options: &'a Options,
    pub deadline: Instant,
}

impl Opening<'_> {
    /// Makes what is missing of a log that is not made, and checks everything. `fresh` becomes
    /// the incarnation where there is no log yet.
    pub async fn run(&self, fresh: Incarnation) -> Result<Incarnation, LogError> {
        let root = self.find_or_create(GroupId(0), fresh, MAKING).await?;
        let incarnation = self.incarnation(GroupId(0), &root)?;
        let groups = self.options.groups;
        if root.config.description == format!("{MAKING}{groups}") {
            for group in (1..groups).map(GroupId) {
                let info = self.find_or_create(group, incarnation, MADE).await?;
                self.check(group, incarnation, &info)?;
            }
            self.finish(incarnation).await?;
        } else if root.config.description != format!("{MADE}{groups}") {
            return Err(LogError::Failed(format!(
                "stream `{}` says `{}`, this node is set to {groups} groups",
                self.name(GroupId(0)),
                root.config.description
            )));
        }
        for group in (0..groups).map(GroupId) {
            let info = self.find(group).await?.ok_or_else(|| {
                LogError::Damaged(format!(
                    "stream `{}` of log {incarnation} is gone from the servers, and all that it \
                     held",
                    self.name(group)
                ))
            })?;
            self.check(group, incarnation, &info)?;
        }
        Ok(incarnation)
    }

    fn name(&self, group: GroupId) -> String {
        stream_name(self.cluster, group)
    }

    async fn find(&self, group: GroupId) -> Result<Option<StreamInfo>, LogError> {
        let name = self.name(group);
        loop {
            match api::stream_info(self.client, &name, REQUEST_TIMEOUT).await {
                Ok(info) => return Ok(Some(info)),
                Err(ApiError::Answered { number: api::STREAM_NOT_FOUND, .. }) => return Ok(None),
                Err(error) => self.wait(&error).await?,
            }
        }
    }

    async fn find_or_create(
        &self,
        group: GroupId,
        incarnation: Incarnation,
        description: &str,
    ) -> Result<StreamInfo, LogError> {
        loop {
            if let Some(info) = self.find(group).await? {
                return Ok(info);
            }
            match self.put("CREATE", group, incarnation, description).await {
                // Another node was first, and made it with the same or with its incarnation.
                Ok(()) | Err(ApiError::Answered { number: api::STREAM_NAME_IN_USE, .. }) => {}
                Err(error) => self.wait(&error).await?,
            }
        }
    }

    /// Says in group 0 that all streams are there.
    async fn finish(&self, incarnation: Incarnation) -> Result<(), LogError> {
        loop {
            match self.put("UPDATE", GroupId(0), incarnation, MADE).await {
                Ok(()) => return Ok(()),
                Err(error) => self.wait(&error).await?,
            }
        }
    }

    async fn put(
        &self,
        verb: &str,
        group: GroupId,
        incarnation: Incarnation,
        description: &str,
    ) -> Result<(), ApiError> {
        let name = self.name(group);
        let Options { groups, replicas, stream_bytes_max, .. } = *self.options;
        let config = api::stream_config(
            &name,
            &subject(self.cluster, incarnation, group),
            &format!("{description}{groups}"),
            replicas,
            stream_bytes_max,
        );
        let subject = format!("$JS.API.STREAM.{verb}.{name}");
        api::request(self.client, subject, &config, REQUEST_TIMEOUT).await.map(|_| ())
    }

    /// Waits a little where a failure may pass, until the time is over.
    async fn wait(&self, error: &ApiError) -> Result<(), LogError> {
        if Instant::now() >= self.deadline {
            return Err(LogError::Failed(format!(
                "the log of cluster `{}` cannot be opened: {error}",
                self.cluster
            )));
        }
        tracing::debug!(%error, "the log's streams are not there yet");
        tokio::time::sleep(RETRY_INTERVAL).await;
        Ok(())
    }

    fn incarnation(&self, group: GroupId, info: &StreamInfo) -> Result<Incarnation, LogError> {
        incarnation_of(self.cluster, group, &info.config).ok_or_else(|| {
            LogError::Failed(format!(
                "stream `{}` is none of a Plimsoll log: it takes {}",
                self.name(group),
                json!(info.config.subjects)
            ))
        })
    }

    fn check(
        &self,
        group: GroupId,
        expected: Incarnation,
        info: &StreamInfo,
    ) -> Result<(), LogError> {
        let found = self.incarnation(group, info)?;
        if found != expected {
            return Err(LogError::Damaged(format!(
                "stream `{}` belongs to log {found}, the log here is {expected}",
                self.name(group)
            )));
        }
        match unfit(&info.config, self.options.replicas) {
            None => Ok(()),
            Some(setting) => {
                Err(LogError::Failed(format!("stream `{}`: {setting}", self.name(group))))
            }
        }
    }
}

/// Whether a stream still is the one of this incarnation.
pub(super) fn is_same(
    cluster: &str,
    group: GroupId,
    incarnation: Incarnation,
    info: &StreamInfo,
) -> bool {
    incarnation_of(cluster, group, &info.config) == Some(incarnation)
}

/// The first setting with which a stream would lose records or refuse them.
fn unfit(config: &StreamConfig, replicas: u8) -> Option<String> {
    let bytes_max = i64::try_from(RECORD_BYTES_MAX).unwrap_or(i64::MAX);
    let rules = [
        (config.retention == "limits", "`retention` must be `limits`".to_owned()),
        (config.storage == "file", "`storage` must be `file`".to_owned()),
        (config.discard == "new", "`discard` must be `new`, or it forgets what is old".to_owned()),
        (config.max_age == 0, "`max_age` must be 0".to_owned()),
        (config.max_msgs <= 0, "`max_msgs` must be unlimited".to_owned()),
        (config.max_msgs_per_subject <= 0, "`max_msgs_per_subject` must be unlimited".to_owned()),
        (
            config.max_msg_size <= 0 || config.max_msg_size >= bytes_max,
            format!("`max_msg_size` must be at least {bytes_max}"),
        ),
        (
            config.mirror.is_none() && config.sources.is_none(),
            "it must not copy other streams".to_owned(),
        ),
        (
            config.num_replicas >= replicas,
            format!("`num_replicas` is {}, this node asks for {replicas}", config.num_replicas),
        ),
    ];
    rules.into_iter().find_map(|(holds, rule)| (!holds).then_some(rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(change: impl FnOnce(&mut serde_json::Value)) -> StreamConfig {
        let subject = subject("west", Incarnation(0xabc), GroupId(3));
        let mut config = api::stream_config("n", &subject, "d", 3, 0);
        change(&mut config);
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn a_stream_tells_its_incarnation_by_its_subject() {
        let made = config(|_| {});
        let found = |cluster, group| incarnation_of(cluster, GroupId(group), &made);
        assert_eq!(found("west", 3), Some(Incarnation(0xabc)));
        assert_eq!(found("west", 4), None);
        assert_eq!(found("we", 3), None);
        assert_eq!(stream_name("west", GroupId(3)), "plimsoll_west_3");
    }

    #[test]
    fn a_stream_that_would_lose_records_is_refused_by_the_name_of_the_setting() {
        assert_eq!(unfit(&config(|_| {}), 3), None);
        for (setting, value) in [
            ("discard", json!("old")),
            ("storage", json!("memory")),
            ("retention", json!("interest")),
            ("max_age", json!(1)),
            ("max_msgs", json!(5)),
            ("max_msgs_per_subject", json!(1)),
            ("max_msg_size", json!(1 << 20)),
            ("num_replicas", json!(1)),
        ] {
            let reason = unfit(&config(|config| config[setting] = value), 3).unwrap();
            assert!(reason.contains(setting), "{reason}");
        }
    }
}
