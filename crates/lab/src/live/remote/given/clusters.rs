//! Two clusters of the user's by their REST, and the two languages in which a follower may be asked to
//! follow: Elasticsearch's `_ccr` and OpenSearch's `_plugins/_replication`. The way between the two is
//! the user's; the lab finds its name, and makes and deletes tables of its own names.

use serde_json::{Value, json};

use crate::LabError;
use crate::live::context::TIMEOUT;
use crate::live::node;
use crate::live::remote::copying::Follower;
use crate::live::remote::index::{self, SHARDS};
use crate::live::remote::watched::{is_level, is_synced};
use crate::live::target::Target;
use crate::live::wire::{self, Protocol};

/// The leader's table, and the follower's.
pub(super) const LEADER_INDEX: &str = "plimsoll-lab";
pub(super) const FOLLOWER_INDEX: &str = "plimsoll-lab-copy";

const WRITE: &str = "remote-recovery takes http://leader:port,http://follower:port, and after a third \
                     comma the follower's name for the leader's cluster where it has several";

/// How a follower is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    /// `_ccr`.
    Ccr,
    /// `_plugins/_replication`.
    Replication,
}

impl Language {
    /// All of them; what a server speaks is looked for in this order.
    pub(super) const ALL: [Self; 2] = [Self::Ccr, Self::Replication];

    /// Its name, which is an arm's too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ccr => "_ccr",
            Self::Replication => "_plugins/_replication",
        }
    }
}

/// The two, as the user names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clusters {
    pub(super) leader: Target,
    pub(super) follower: Target,
    /// What the follower calls the leader's cluster; none where that is to be found.
    remote: Option<String>,
}

impl Clusters {
    /// `LEADER,FOLLOWER` or `LEADER,FOLLOWER,NAME`.
    ///
    /// # Errors
    /// Anything else.
    pub(super) fn parse(words: &str) -> Result<Self, LabError> {
        let bad = |why: &str| LabError::Target { url: words.to_owned(), why: why.to_owned() };
        let parts: Vec<&str> = words.split(',').map(str::trim).collect();
        let (leader, follower, remote) = match parts.as_slice() {
            [leader, follower] => (leader, follower, None),
            [leader, follower, name] if !name.is_empty() => (leader, follower, Some(*name)),
            _ => return Err(bad(WRITE)),
        };
        let (leader, follower) = (Target::parse(leader)?, Target::parse(follower)?);
        if [&leader, &follower].iter().any(|one| one.protocol != Protocol::Http) {
            return Err(bad(WRITE));
        }
        Ok(Self { leader, follower, remote: remote.map(str::to_owned) })
    }

    /// Finds the leader's name at the follower.
    ///
    /// # Errors
    /// It has none that is connected, several, or not the one that was named.
    pub(super) fn find_remote(&self) -> Result<String, LabError> {
        let told = self.follower.ask("GET", "/_remote/info", None)?;
        remote(&told, self.remote.as_deref())
            .map_err(|why| LabError::live(format!("find the leader at {}", self.follower), why))
    }

    /// Whether the follower knows a language.
    pub(super) fn speaks(&self, language: Language) -> bool {
        let path = match language {
            Language::Ccr => "/_ccr/stats".to_owned(),
            Language::Replication => format!("/_plugins/_replication/{FOLLOWER_INDEX}/_status"),
        };
        let told = wire::ask_json(&self.follower.address, "GET", &path, None, TIMEOUT);
        told.is_ok_and(|(status, told)| {
            status == 200 || told["error"]["type"] == "index_not_found_exception"
        })
    }

    /// Whether an index is there.
    ///
    /// # Errors
    /// The server says neither.
    pub(super) fn has(of: &Target, index: &str) -> Result<bool, LabError> {
        let what = || format!("look for index {index} at {of}");
        let told = wire::ask_json(&of.address, "GET", &format!("/{index}"), None, TIMEOUT)
            .map_err(|error| LabError::live(what(), error))?;
        match told {
            (200, _) => Ok(true),
            (404, _) => Ok(false),
            (status, told) => Err(LabError::live(what(), format!("{status} {told}"))),
        }
    }
}

/// The name of the only remote cluster that is connected, or of the one that is wanted.
fn remote(told: &Value, wanted: Option<&str>) -> Result<String, String> {
    let all = told.as_object().into_iter().flatten();
    let mut connected: Vec<&str> =
        all.filter(|(_, info)| info["connected"] == true).map(|(name, _)| name.as_str()).collect();
    connected.sort_unstable();
    match (wanted, connected.as_slice()) {
        (Some(name), _) if connected.contains(&name) => Ok(name.to_owned()),
        (Some(name), _) if told.get(name).is_some() => Err(format!("`{name}` is not connected")),
        (Some(name), _) => Err(format!("it has no remote cluster `{name}`")),
        (None, [name]) => Ok((*name).to_owned()),
        (None, []) => Err("it has no remote cluster that is connected".to_owned()),
        (None, several) => Err(format!("it has several; name one of {}", several.join(", "))),
    }
}

/// The follower, asked in one language.
pub(super) struct Asked<'a> {
    pub(super) address: &'a str,
    pub(super) remote: &'a str,
    pub(super) language: Language,
}

impl Asked<'_> {
    fn ask(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, LabError> {
        node::ask(self.address, method, path, body, TIMEOUT)
    }

    /// Ends following and deletes the follower's table, if it is there.
    ///
    /// # Errors
    /// It is there still.
    pub(super) fn forget(&self) -> Result<(), LabError> {
        // Each refuses where nothing follows; and a table that follows may not be deleted everywhere.
        let _ = match self.language {
            Language::Ccr => {
                self.ask("POST", &format!("/{FOLLOWER_INDEX}/_ccr/pause_follow"), None)
            }
            Language::Replication => {
                let path = format!("/_plugins/_replication/{FOLLOWER_INDEX}/_stop");
                self.ask("POST", &path, Some(&json!({})))
            }
        };
        index::delete(self.address, FOLLOWER_INDEX)
    }
}

impl Follower for Asked<'_> {
    fn follow(&self) -> Result<(), LabError> {
        let (path, body) = match self.language {
            Language::Ccr => (
                format!("/{FOLLOWER_INDEX}/_ccr/follow?wait_for_active_shards=0"),
                json!({ "remote_cluster": self.remote, "leader_index": LEADER_INDEX }),
            ),
            Language::Replication => (
                format!("/_plugins/_replication/{FOLLOWER_INDEX}/_start"),
                json!({ "leader_alias": self.remote, "leader_index": LEADER_INDEX }),
            ),
        };
        self.ask("PUT", &path, Some(&body)).map(drop)
    }

    fn recovery(&self) -> Result<(Value, &str), LabError> {
        let path = format!("/{FOLLOWER_INDEX}/_recovery?active_only=false");
        let told = wire::ask_json(self.address, "GET", &path, None, TIMEOUT);
        let what = || format!("ask {} for GET {path}", self.address);
        match told.map_err(|error| LabError::live(what(), error))? {
            (200, told) => Ok((told, FOLLOWER_INDEX)),
            // The table is made a little later than the answer to the order.
            (404, _) => Ok((Value::Null, FOLLOWER_INDEX)),
            (status, told) => Err(LabError::live(what(), format!("{status} {told}"))),
        }
    }

    fn is_level(&self) -> Result<bool, LabError> {
        match self.language {
            Language::Ccr => {
                let told = self.ask("GET", &format!("/{FOLLOWER_INDEX}/_ccr/stats"), None)?;
                Ok(is_level(&told, SHARDS))
            }
            Language::Replication => {
                let path = format!("/_plugins/_replication/{FOLLOWER_INDEX}/_status");
                Ok(is_synced(&self.ask("GET", &path, None)?))
            }
        }
    }

    fn shards(&self) -> usize {
        SHARDS
    }

    fn has_our_clock(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_addresses_and_perhaps_a_name_are_taken() {
        let of = |words: &str| Clusters::parse(words).map_err(|error| error.to_string());
        let two = of("http://a:1, http://b").unwrap();
        assert_eq!((two.leader.address.as_str(), two.follower.address.as_str()), ("a:1", "b:9200"));
        assert_eq!(two.remote, None);
        assert_eq!(of("http://a,http://b,west").unwrap().remote.as_deref(), Some("west"));
        for words in ["http://a", "http://a,http://b,", "http://a,http://b,c,d"] {
            assert!(
                of(words).unwrap_err().contains("http://leader:port,http://follower"),
                "{words}"
            );
        }
        assert!(of("http://a,redis://b").unwrap_err().contains("http://leader:port"));
        assert!(of("http://a,https://b").unwrap_err().contains("TLS"));
    }

    #[test]
    fn the_remote_cluster_is_the_only_one_or_the_one_that_is_named() {
        let info = |connected: bool| json!({ "connected": connected });
        let one = json!({ "west": info(true), "east": info(false) });
        assert_eq!(remote(&one, None).as_deref(), Ok("west"));
        assert_eq!(remote(&one, Some("west")).as_deref(), Ok("west"));
        assert!(remote(&one, Some("east")).unwrap_err().contains("not connected"));
        assert!(remote(&one, Some("north")).unwrap_err().contains("no remote cluster `north`"));
        let two = json!({ "west": info(true), "east": info(true) });
        assert!(remote(&two, None).unwrap_err().contains("name one of east, west"));
        assert!(remote(&json!({}), None).unwrap_err().contains("no remote cluster that is"));
    }
}
