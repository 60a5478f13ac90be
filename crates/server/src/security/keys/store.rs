//! Where keys are kept and how one is found: made, listed, taken back, and checked when a follower
//! shows its credential.
//!
//! Keys that ended are kept for a week, so that their users see what became of them, or until there is no room
//! for another: those of the same user go first. So their number has a limit, whatever is made and taken back,
//! and who makes keys that end at once keeps nobody from making one.

use std::sync::Arc;

use plimsoll_index::Error;
use serde_json::Value;

use super::key::{Credential, DRAWN_BYTES, Key, KeySpec};
use crate::security::store::{ATTEMPTS_MAX, Changes, KEYS, Store, others_change};

/// The keys that are kept, those that ended included: of users, and as many of followers. Each change of one has every
/// node read all of them.
const OF_ALL: Room = Room { count: KEYS_MAX, bytes: 4 << 20 };
/// Those of them that one user has.
const OF_USER: Room = Room { count: KEYS_OF_USER_MAX, bytes: 512 << 10 };
const KEYS_MAX: usize = 1000;
const KEYS_OF_USER_MAX: usize = 200;
/// The most keys that ended a week ago which go with a new one.
const OLD_MAX: usize = 100;
/// How long keys are kept that ended, ms. Elasticsearch's.
const ENDED_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;

/// Why a key was not made.
#[derive(Debug)]
pub enum KeysError {
    /// What was asked for makes no sense; each fault in words.
    Faults(Vec<String>),
    /// There are too many that have not ended, or too large ones.
    TooMany,
    /// Its user has too many, or too large ones.
    TooManyOfUser,
    /// The metadata cannot be read or written.
    Failed(Error),
}

impl From<Error> for KeysError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Why a credential opens nothing. Words for the one who shows it: whether there is such a key is told
/// to nobody who does not know its secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No key, or another secret.
    #[error(
        "the key is not known here, or its secret is another: compare what credentials_file holds"
    )]
    Unknown,
    /// It was taken back.
    #[error("the key `{0}` was invalidated: make another")]
    Invalidated(String),
    /// Its time is over.
    #[error("the key `{0}` has expired: make another")]
    Expired(String),
}

/// Which keys are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Which {
    /// Those with these ids; none: whatever their ids.
    pub ids: Vec<String>,
    /// Those of this name.
    pub name: Option<String>,
    /// Those that open REST in the name of this user, as it is kept.
    pub user: Option<String>,
}

impl Which {
    fn means(&self, key: &Key) -> bool {
        (self.ids.is_empty() || self.ids.contains(&key.id))
            && self.name.as_ref().is_none_or(|name| key.name == *name)
            && self.user.as_ref().is_none_or(|user| key.is_of(user))
    }
}

/// What became of keys that were to be taken back, by their ids.
#[derive(Debug, Default)]
pub struct Invalidated {
    /// Those that are now.
    pub now: Vec<String>,
    /// Those that were already.
    pub before: Vec<String>,
    /// Those that could not be.
    pub failed: Vec<Error>,
}

/// The keys of a cluster.
pub struct Keys {
    store: Arc<dyn Store>,
}

impl Keys {
    /// Those that are kept there.
    #[must_use]
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// All of them, the oldest first.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub fn all(&self) -> Result<Vec<Key>, Error> {
        let kept = self.store.all(KEYS)?.into_iter();
        let mut keys: Vec<Key> = kept.filter_map(|(id, value)| Key::read(id, value)).collect();
        keys.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        Ok(keys)
    }

    /// Makes one; gives what opens it, which is not kept.
    ///
    /// # Errors
    /// See [`KeysError`].
    pub async fn make(
        &self,
        spec: KeySpec,
        drawn: &[u8; DRAWN_BYTES],
        now_ms: u64,
    ) -> Result<(Key, Credential), KeysError> {
        let faults = spec.faults();
        if !faults.is_empty() {
            return Err(KeysError::Faults(faults));
        }
        let (key, credential) = Key::make(spec, drawn, now_ms);
        let made = put(&key)?;
        for _ in 0..ATTEMPTS_MAX {
            // The change first: what is newer than it is seen again.
            let seen = self.store.change(KEYS)?;
            let (old, kept): (Vec<_>, Vec<_>) =
                self.all()?.into_iter().partition(|key| is_old(key, now_ms));
            let room = make_room(kept, &key, now_ms)?;
            let old = old.into_iter().take(OLD_MAX).map(|key| key.id);
            let gone = old.chain(room).map(|id| (id, None));
            let changes: Changes = gone.chain([made.clone()]).collect();
            if self.store.put(KEYS, changes, vec![(KEYS, seen)]).await? {
                return Ok((key, credential));
            }
        }
        Err(KeysError::Failed(others_change()))
    }

    /// Takes keys back. Those that were already stay as they are.
    ///
    /// # Errors
    /// Where the metadata cannot be read.
    pub async fn invalidate(&self, which: &Which, now_ms: u64) -> Result<Invalidated, Error> {
        let mut done = Invalidated::default();
        for key in self.all()?.into_iter().filter(|key| which.means(key)) {
            if key.invalidated_ms.is_some() {
                done.before.push(key.id);
                continue;
            }
            match self.invalidate_one(&key.id, now_ms).await {
                Ok(()) => done.now.push(key.id),
                Err(error) => done.failed.push(error),
            }
        }
        Ok(done)
    }

    /// Takes a key back as it stands when that is written. One that is gone meanwhile stays so.
    async fn invalidate_one(&self, id: &str, now_ms: u64) -> Result<(), Error> {
        for _ in 0..ATTEMPTS_MAX {
            let seen = self.store.change(KEYS)?;
            let Some(mut key) = self.find(id) else { return Ok(()) };
            key.invalidated_ms.get_or_insert(now_ms);
            if self.store.put(KEYS, vec![put(&key)?], vec![(KEYS, seen)]).await? {
                return Ok(());
            }
        }
        Err(others_change())
    }

    /// The key that a credential opens, as this node knows it now.
    ///
    /// # Errors
    /// Says why it opens nothing.
    pub fn open(&self, credential: &Credential, now_ms: u64) -> Result<Key, Refusal> {
        let key = self.find(&credential.id);
        // A key that opens REST opens nothing here.
        let key = key.filter(|key| key.is_opened_by(credential.secret()) && key.owner.is_none());
        holding(key.ok_or(Refusal::Unknown)?, now_ms)
    }

    /// The key of an id whose secret another node has checked, as this node knows it now.
    ///
    /// # Errors
    /// Says why it opens nothing.
    pub fn known(&self, id: &str, now_ms: u64) -> Result<Key, Refusal> {
        holding(self.find(id).ok_or(Refusal::Unknown)?, now_ms)
    }

    fn find(&self, id: &str) -> Option<Key> {
        Key::read(id.to_owned(), self.store.get(KEYS, id)?)
    }
}

/// The change that puts a key.
fn put(key: &Key) -> Result<(String, Option<Value>), Error> {
    let value = serde_json::to_value(key).map_err(|error| Error::internal(error.to_string()))?;
    Ok((key.id.clone(), Some(value)))
}

/// How many keys there may be, and how many bytes as they are kept.
#[derive(Clone, Copy, Debug)]
struct Room {
    count: usize,
    bytes: usize,
}

impl Room {
    /// The keys that go so that one more fits: of `keys`, each with its bytes, the first that have ended. None where
    /// that does not do.
    fn make<'a>(
        self,
        keys: impl Iterator<Item = &'a (Key, usize)>,
        bytes: usize,
        now_ms: u64,
    ) -> Option<Vec<String>> {
        let keys: Vec<_> = keys.collect();
        let mut left = Self {
            count: keys.len() + 1,
            bytes: keys.iter().fold(bytes, |sum, (_, bytes)| sum.saturating_add(*bytes)),
        };
        let mut gone = Vec::new();
        for (key, bytes) in keys {
            if left.count <= self.count && left.bytes <= self.bytes {
                break;
            }
            key.ended_ms(now_ms)?;
            (left.count, left.bytes) = (left.count - 1, left.bytes - bytes);
            gone.push(key.id.clone());
        }
        (left.count <= self.count && left.bytes <= self.bytes).then_some(gone)
    }
}

/// The keys that go so that there is room for one more.
fn make_room(kept: Vec<Key>, one: &Key, now_ms: u64) -> Result<Vec<String>, KeysError> {
    let bytes_of = |key: &Key| serde_json::to_vec(key).map_or(usize::MAX, |json| json.len());
    // Those of users and those of followers have room of their own.
    let alike = kept.into_iter().filter(|key| key.owner.is_some() == one.owner.is_some());
    let with_bytes = |key: Key| {
        let bytes = bytes_of(&key);
        (key, bytes)
    };
    let mut alike: Vec<_> = alike.map(with_bytes).collect();
    let is_own = |key: &Key| one.owner.as_ref().is_some_and(|owner| key.is_of(&owner.user));
    // Its own go first, what has not ended last.
    alike.sort_by_key(|(key, _)| match key.ended_ms(now_ms) {
        Some(ended_ms) => (false, !is_own(key), ended_ms),
        None => (true, false, 0),
    });
    let bytes = bytes_of(one);
    let mut gone = Vec::new();
    if one.owner.is_some() {
        let own = alike.iter().filter(|(key, _)| is_own(key));
        gone = OF_USER.make(own, bytes, now_ms).ok_or(KeysError::TooManyOfUser)?;
    }
    let others = alike.iter().filter(|(key, _)| !gone.contains(&key.id));
    let of_all = OF_ALL.make(others, bytes, now_ms).ok_or(KeysError::TooMany)?;
    gone.extend(of_all);
    Ok(gone)
}

/// Whether it ended so long ago that it need not be shown any more.
fn is_old(key: &Key, now_ms: u64) -> bool {
    let ended_ms = key.ended_ms(now_ms);
    ended_ms.is_some_and(|ended_ms| ended_ms.saturating_add(ENDED_KEPT_MS) <= now_ms)
}

/// The key, unless it has ended.
fn holding(key: Key, now_ms: u64) -> Result<Key, Refusal> {
    if key.invalidated_ms.is_some() {
        return Err(Refusal::Invalidated(key.id));
    }
    if key.is_expired(now_ms) {
        return Err(Refusal::Expired(key.id));
    }
    Ok(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::security::keys::Owner;
    use crate::security::store::in_memory::InMemory;

    fn keys() -> Keys {
        Keys::new(Arc::new(InMemory::default()))
    }

    fn spec(name: &str) -> KeySpec {
        KeySpec {
            name: name.to_owned(),
            patterns: vec!["*".to_owned()],
            expires_after_ms: Some(1000),
            ..KeySpec::default()
        }
    }

    fn drawn(number: usize) -> [u8; DRAWN_BYTES] {
        let mut drawn = [0; DRAWN_BYTES];
        drawn[..8].copy_from_slice(&number.to_le_bytes());
        drawn
    }

    #[tokio::test]
    async fn a_key_opens_until_it_ends() {
        let keys = keys();
        let (first, credential) = keys.make(spec("first"), &drawn(1), 10).await.unwrap();
        let (_, other) = keys.make(spec("other"), &drawn(2), 20).await.unwrap();
        assert_eq!(keys.open(&credential, 30), Ok(first.clone()));
        let crossed = Credential { id: first.id.clone(), secret: other.secret().to_owned() + "x" };
        assert_eq!(keys.open(&crossed, 30), Err(Refusal::Unknown));
        let nobody = Credential { id: "nobody".to_owned(), secret: "x".to_owned() };
        assert_eq!(keys.open(&nobody, 30), Err(Refusal::Unknown));
        assert_eq!(keys.open(&other, 1020), Err(Refusal::Expired(other.id.clone())));

        let which = Which { name: Some("first".to_owned()), ..Which::default() };
        let done = keys.invalidate(&which, 40).await.unwrap();
        assert_eq!(
            (done.now, done.before.len(), done.failed.len()),
            (vec![first.id.clone()], 0, 0)
        );
        let done = keys.invalidate(&which, 50).await.unwrap();
        assert_eq!((done.now.len(), done.before), (0, vec![first.id.clone()]));
        assert_eq!(keys.open(&credential, 60), Err(Refusal::Invalidated(first.id.clone())));
        // Who does not know the secret is not told that there was such a key.
        assert_eq!(keys.open(&crossed, 60), Err(Refusal::Unknown));
        assert_eq!(keys.known(&first.id, 60), Err(Refusal::Invalidated(first.id.clone())));
        assert!(keys.known(&other.id, 60).is_ok());
        assert_eq!(keys.all().unwrap()[0].invalidated_ms, Some(40), "the first time counts");
        assert!(keys.open(&other, 60).is_ok());
        let none = Which { ids: vec!["none".to_owned()], ..Which::default() };
        let done = keys.invalidate(&none, 70).await.unwrap();
        assert!(done.now.is_empty() && done.before.is_empty());
    }

    #[tokio::test]
    async fn there_are_not_ever_more() {
        let keys = keys();
        for number in 0..KEYS_MAX {
            keys.make(spec("x"), &drawn(number), 10).await.unwrap();
        }
        assert!(matches!(
            keys.make(spec("x"), &drawn(KEYS_MAX), 1009).await,
            Err(KeysError::TooMany)
        ));
        // One that ended makes room, though it is not old.
        keys.make(spec("x"), &drawn(KEYS_MAX), 1010).await.unwrap();
        assert_eq!(keys.all().unwrap().len(), KEYS_MAX);
        keys.make(spec("x"), &drawn(KEYS_MAX + 1), 1010 + ENDED_KEPT_MS).await.unwrap();
        assert_eq!(keys.all().unwrap().len(), KEYS_MAX - OLD_MAX + 1, "a few go at a time");
        assert!(matches!(keys.make(spec(""), &drawn(1), 10).await, Err(KeysError::Faults(_))));
    }

    #[tokio::test]
    async fn one_user_has_not_all_of_them() {
        let keys = keys();
        let of = |user: &str, expires_after_ms| KeySpec {
            owner: Some(Owner { user: user.to_owned(), ..Owner::default() }),
            expires_after_ms,
            ..spec("x")
        };
        let mut number = 0;
        let mut make = async |spec: KeySpec, now_ms| {
            number += 1;
            keys.make(spec, &drawn(number), now_ms).await.map(drop)
        };
        make(of("bob", Some(1)), 10).await.unwrap();
        // Those of one that end at once push out its own alone.
        for at_ms in 20..20 + 4 * KEYS_OF_USER_MAX as u64 {
            make(of("ann", Some(1)), at_ms).await.unwrap();
        }
        let count = |user: &str| keys.all().unwrap().iter().filter(|it| it.is_of(user)).count();
        assert_eq!((count("bob"), count("ann")), (1, KEYS_OF_USER_MAX));
        for _ in 0..KEYS_OF_USER_MAX {
            make(of("ann", None), 1_040).await.unwrap();
        }
        assert!(matches!(make(of("ann", None), 1_050).await, Err(KeysError::TooManyOfUser)));
        make(of("bob", None), 1_050).await.unwrap();
        let which = Which { user: Some("ann".to_owned()), ..Which::default() };
        keys.invalidate(&which, 1_060).await.unwrap();
        make(of("ann", None), 1_070).await.unwrap();
        assert_eq!((count("bob"), count("ann")), (2, KEYS_OF_USER_MAX));
        // Where all places are taken, an own one that ended goes before an older one of another.
        for user in ["c", "d", "e"] {
            for _ in 0..KEYS_OF_USER_MAX {
                make(of(user, None), 1_080).await.unwrap();
            }
        }
        while keys.all().unwrap().len() < KEYS_MAX {
            make(of("f", Some(1)), 1_090).await.unwrap();
        }
        make(of("f", None), 1_100).await.unwrap();
        assert_eq!((count("bob"), count("ann")), (2, KEYS_OF_USER_MAX));
        assert_eq!(keys.all().unwrap().len(), KEYS_MAX);
        // Who has none that ended takes the place of the one that ended first.
        make(of("g", None), 1_110).await.unwrap();
        assert_eq!((count("bob"), count("g")), (1, 1));
    }

    #[tokio::test]
    async fn large_keys_are_few() {
        let keys = keys();
        let of = |user: &str, expires_after_ms| KeySpec {
            owner: Some(Owner { user: user.to_owned(), ..Owner::default() }),
            metadata: [("m".to_owned(), Value::from("x".repeat(15 << 10)))].into_iter().collect(),
            expires_after_ms,
            ..spec("x")
        };
        let mut made = 0;
        let mut make = async |user: &str, expires_after_ms, now_ms| {
            made += 1;
            keys.make(of(user, expires_after_ms), &drawn(made), now_ms).await.map(drop)
        };
        let count = || keys.all().unwrap().len();
        while make("ann", Some(10), 10).await.is_ok() {
            assert!(count() < KEYS_OF_USER_MAX);
        }
        let most = count();
        assert!((most + 1) * (15 << 10) > OF_USER.bytes - (15 << 10), "{most}");
        assert!(matches!(make("ann", None, 10).await, Err(KeysError::TooManyOfUser)));
        make("bob", None, 10).await.unwrap();
        // Those that ended make room.
        make("ann", None, 20).await.unwrap();
        assert_eq!(count(), most + 1);
        let mut user = 0;
        while make(&format!("u{user}"), None, 20).await.is_ok() {
            user += 1;
            assert!(user < KEYS_MAX);
        }
        assert!(keys.all().unwrap().iter().all(|key| key.ended_ms(20).is_none()));
        assert!(matches!(make("u", None, 20).await, Err(KeysError::TooMany)));
    }

    #[tokio::test]
    async fn what_cannot_be_read_opens_nothing() {
        let store = InMemory::default();
        let bad = vec![("bad".to_owned(), Some(Value::Null))];
        assert!(store.put(KEYS, bad, vec![]).await.unwrap());
        let keys = Keys::new(Arc::new(store));
        let credential = Credential { id: "bad".to_owned(), secret: "x".to_owned() };
        assert_eq!(keys.open(&credential, 0), Err(Refusal::Unknown));
        assert!(keys.all().unwrap().is_empty());
    }
}
