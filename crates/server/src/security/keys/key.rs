//! What a key is: how it is made and kept, when it holds and what it opens: tables for followers, or requests in
//! the name of the user that made it. Pure: time and chance are handed in.
//!
//! A secret is 256 random bits, shown once and kept as its SHA-256. A slow hash, as passwords have,
//! would guard nothing: it is there for what people think up, and nobody tries 2^256 secrets. It would
//! cost every question of a follower milliseconds, and a stranger could keep the processors busy with it.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::digest::{SHA256, digest};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use subtle::ConstantTimeEq;

use crate::security::patterns::matches;

/// Random bytes of an id.
const ID_BYTES: usize = 15;
/// Random bytes of a secret.
const SECRET_BYTES: usize = 32;
/// What is drawn for a key: its id, then its secret.
pub const DRAWN_BYTES: usize = ID_BYTES + SECRET_BYTES;
/// Characters of a name, at the most. Elasticsearch's.
const NAME_CHARS_MAX: usize = 256;
/// Patterns of a key, at the most.
const PATTERNS_MAX: usize = 100;
/// Bytes of a pattern, at the most: as many as a table's name has.
const PATTERN_BYTES_MAX: usize = 255;
/// Bytes of what a user notes of a key, at the most, in JSON.
const METADATA_BYTES_MAX: usize = 16 << 10;
/// The longest `id:secret` in base64 that is looked at.
const ENCODED_BYTES_MAX: usize = 512;

/// What a key is asked for with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeySpec {
    /// For people; several keys may have one name.
    pub name: String,
    /// Which tables it opens: `*` stands for any characters, `?` for one.
    pub patterns: Vec<String>,
    /// What a user notes of it; nobody here reads it.
    pub metadata: Map<String, Value>,
    /// After how many milliseconds it holds no longer; none for never.
    pub expires_after_ms: Option<u64>,
    /// In whose name it opens REST; none where it is a follower's.
    pub owner: Option<Owner>,
}

/// In whose name a key opens REST, and how far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// The user's name, as it is kept.
    pub user: String,
    /// The user's id: another user of that name has not its keys.
    #[serde(default)]
    pub user_id: String,
    /// Roles that were asked for, as [`crate::security::role`] reads them; none: all that the user had.
    pub roles: Map<String, Value>,
    /// What the user had when the key was made: the key has no more.
    pub limited_by: Map<String, Value>,
}

impl KeySpec {
    /// What is wrong with it, in Elasticsearch's words where it has some; empty where nothing is.
    #[must_use]
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut fault = |is: bool, words: &str| {
            if is {
                faults.push(words.to_owned());
            }
        };
        let name = self.name.as_str();
        fault(name.is_empty(), "api key name is required");
        fault(
            name.chars().count() > NAME_CHARS_MAX,
            "api key name may not be more than 256 characters long",
        );
        fault(name != name.trim(), "api key name may not begin or end with whitespace");
        fault(name.starts_with('_'), "api key name may not begin with an underscore");
        fault(name.chars().any(char::is_control), "api key name may not have control characters");
        let is_of_follower = self.owner.is_none();
        fault(is_of_follower && self.patterns.is_empty(), "replication names are required");
        fault(self.patterns.len() > PATTERNS_MAX, "replication has more than 100 names");
        fault(
            self.patterns.iter().any(|it| it.is_empty() || it.len() > PATTERN_BYTES_MAX),
            "a name of replication has 1 to 255 bytes",
        );
        fault(
            self.patterns.iter().any(|it| it.starts_with('/')),
            "regular expressions are not supported as names of replication, use [*] and [?]",
        );
        fault(
            self.metadata.keys().any(|key| key.starts_with('_')),
            "API key metadata keys may not start with [_]",
        );
        let bytes = serde_json::to_vec(&self.metadata).map_or(usize::MAX, |json| json.len());
        fault(bytes > METADATA_BYTES_MAX, "API key metadata is larger than 16384 bytes");
        faults
    }
}

/// A key as it is kept. Fields that only a newer version knows are kept as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Key {
    /// 20 URL-safe characters; also the name under which it is kept.
    #[serde(skip)]
    pub id: String,
    /// For people.
    pub name: String,
    /// The SHA-256 of its secret, hexadecimal.
    pub(super) hash: String,
    /// Which tables it opens to a follower.
    pub patterns: Vec<String>,
    /// In whose name it opens REST.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Owner>,
    /// What its user noted of it.
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// From when on it holds no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// When it was taken back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invalidated_ms: Option<u64>,
    #[serde(flatten)]
    pub(super) unknown: Map<String, Value>,
}

/// What a follower shows: the id of a key and its secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Credential {
    /// The key's id.
    pub id: String,
    pub(super) secret: String,
}

/// Without the secret, wherever it may be printed.
impl std::fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Credential").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Credential {
    /// Reads `id:secret` in base64, as it was answered when the key was made.
    #[must_use]
    pub fn decode(encoded: &[u8]) -> Option<Self> {
        if encoded.len() > ENCODED_BYTES_MAX {
            return None;
        }
        let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
        let (id, secret) = text.split_once(':')?;
        let is_word = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic());
        (is_word(id) && is_word(secret))
            .then(|| Self { id: id.to_owned(), secret: secret.to_owned() })
    }

    /// The same the other way round.
    #[must_use]
    pub fn encode(&self) -> String {
        STANDARD.encode(format!("{}:{}", self.id, self.secret))
    }

    /// The secret, to be shown once.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.secret
    }
}

impl Key {
    /// Makes a key of random bytes; gives what opens it, which is not kept.
    #[must_use]
    pub fn make(spec: KeySpec, drawn: &[u8; DRAWN_BYTES], now_ms: u64) -> (Self, Credential) {
        let (id, secret) = drawn.split_at(ID_BYTES);
        let [id, secret] = [id, secret].map(|bytes| URL_SAFE_NO_PAD.encode(bytes));
        let key = Self {
            id: id.clone(),
            name: spec.name,
            hash: hash(&secret),
            patterns: spec.patterns,
            owner: spec.owner,
            metadata: spec.metadata,
            created_ms: now_ms,
            expires_ms: spec.expires_after_ms.map(|after_ms| now_ms.saturating_add(after_ms)),
            invalidated_ms: None,
            unknown: Map::new(),
        };
        (key, Credential { id, secret })
    }

    /// A key as it was kept; one that cannot be read opens nothing, which is logged without what it holds.
    #[must_use]
    pub fn read(id: String, value: Value) -> Option<Self> {
        match serde_json::from_value::<Self>(value) {
            Ok(key) => Some(Self { id, ..key }),
            Err(_) => {
                tracing::error!(id, "a key in the metadata cannot be read: it opens nothing");
                None
            }
        }
    }

    /// Whether a secret is its own. The time it takes does not tell how much of it was right.
    #[must_use]
    pub fn is_opened_by(&self, secret: &str) -> bool {
        self.hash.as_bytes().ct_eq(hash(secret).as_bytes()).into()
    }

    /// Whether it may follow a table.
    #[must_use]
    pub fn may_follow(&self, table: &str) -> bool {
        self.patterns.iter().any(|pattern| matches(pattern, table))
    }

    /// Whether it opens REST in the name of this user.
    #[must_use]
    pub fn is_of(&self, user: &str) -> bool {
        self.owner.as_ref().is_some_and(|owner| owner.user == user)
    }

    /// Whether its time is over.
    #[must_use]
    pub fn is_expired(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    /// When it stopped holding, if it did.
    pub fn ended_ms(&self, now_ms: u64) -> Option<u64> {
        let expired_ms = self.expires_ms.filter(|it| *it <= now_ms);
        [self.invalidated_ms, expired_ms].into_iter().flatten().min()
    }
}

fn hash(secret: &str) -> String {
    let digest = digest(&SHA256, secret.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec(patterns: &[&str]) -> KeySpec {
        let patterns = patterns.iter().map(|it| (*it).to_owned()).collect();
        KeySpec { name: "follower".to_owned(), patterns, ..KeySpec::default() }
    }

    #[test]
    fn a_key_is_opened_by_its_secret_and_keeps_only_a_hash() {
        let (key, credential) = Key::make(spec(&["logs-*"]), &[7; DRAWN_BYTES], 1000);
        assert_eq!((key.id.len(), credential.secret().len()), (20, 43));
        assert!(key.is_opened_by(credential.secret()));
        for wrong in ["", "x", &credential.secret()[1..], &key.hash] {
            assert!(!key.is_opened_by(wrong));
        }
        let kept = serde_json::to_string(&key).unwrap();
        assert!(!kept.contains(credential.secret()) && kept.contains(&key.hash));
        assert!(!format!("{credential:?}").contains(credential.secret()));
        // `printf x | sha256sum`
        assert_eq!(hash("x"), "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881");
        let (other, _) = Key::make(spec(&["logs-*"]), &[8; DRAWN_BYTES], 1000);
        assert!(other.id != key.id && !other.is_opened_by(credential.secret()));
    }

    #[test]
    fn credentials_are_read_as_they_were_shown() {
        let (_, credential) = Key::make(spec(&["*"]), &[7; DRAWN_BYTES], 0);
        assert_eq!(Credential::decode(credential.encode().as_bytes()), Some(credential));
        for wrong in ["", "no base64", "eA==", "Og==", "OmE=", "YTo=", "YSA6Yg=="] {
            assert_eq!(Credential::decode(wrong.as_bytes()), None, "{wrong}");
        }
        let long = STANDARD.encode(format!("a:{}", "b".repeat(1000)));
        assert_eq!(Credential::decode(long.as_bytes()), None);
    }

    #[test]
    fn what_a_newer_version_adds_stays() {
        let (key, _) = Key::make(spec(&["a"]), &[1; DRAWN_BYTES], 5);
        let mut kept = serde_json::to_value(&key).unwrap();
        kept["search"] = json!([{ "names": ["x"] }]);
        let again: Key = serde_json::from_value(kept.clone()).unwrap();
        assert_eq!(serde_json::to_value(&again).unwrap(), kept);
    }

    #[test]
    fn keys_end() {
        let with_end = KeySpec { expires_after_ms: Some(10), ..spec(&["a"]) };
        let (mut key, _) = Key::make(with_end, &[1; DRAWN_BYTES], 5);
        assert!(!key.is_expired(14) && key.is_expired(15));
        assert_eq!((key.ended_ms(14), key.ended_ms(20)), (None, Some(15)));
        key.invalidated_ms = Some(7);
        assert_eq!((key.ended_ms(7), key.ended_ms(20)), (Some(7), Some(7)));
        let (key, _) = Key::make(spec(&["a"]), &[1; DRAWN_BYTES], 5);
        assert!(!key.is_expired(u64::MAX));
    }

    #[test]
    fn a_key_opens_what_its_patterns_name() {
        let (key, _) = Key::make(spec(&["a", "b*"]), &[1; DRAWN_BYTES], 5);
        assert!(key.may_follow("a") && key.may_follow("bc") && !key.may_follow("ab"));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        assert!(spec(&["a*", "?b"]).faults().is_empty());
        for (change, words) in [
            (KeySpec { name: String::new(), ..spec(&["a"]) }, "is required"),
            (KeySpec { name: "x".repeat(257), ..spec(&["a"]) }, "256 characters"),
            (KeySpec { name: " x".to_owned(), ..spec(&["a"]) }, "whitespace"),
            (KeySpec { name: "_x".to_owned(), ..spec(&["a"]) }, "underscore"),
            (KeySpec { name: "x\n y".to_owned(), ..spec(&["a"]) }, "control"),
            (spec(&[]), "names are required"),
            (spec(&[""]), "1 to 255 bytes"),
            (spec(&[&"x".repeat(256)]), "1 to 255 bytes"),
            (spec(&["x"; 101]), "more than 100"),
            (spec(&["/x.*/"]), "regular expressions"),
        ] {
            let faults = change.faults();
            assert!(faults.len() == 1 && faults[0].contains(words), "{words}: {faults:?}");
        }
        let metadata = |key: &str, value: &str| {
            let metadata = Map::from_iter([(key.to_owned(), json!(value))]);
            KeySpec { metadata, ..spec(&["a"]) }.faults()
        };
        assert!(metadata("a", "b").is_empty());
        assert_eq!(metadata("_a", "b").len(), 1);
        assert_eq!(metadata("a", &"b".repeat(20_000)).len(), 1);
    }
}
