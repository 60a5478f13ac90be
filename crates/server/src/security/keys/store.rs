//! Where keys are kept and how one is found: made, listed, taken back, and checked when a follower
//! shows its credential. How many there may be is `room`'s.
//!
//! Keys that ended are kept for a week, so that their users see what became of them, or until there is no room
//! for another.

use std::sync::Arc;

use plimsoll_index::Error;
use serde_json::Value;

use super::key::{Credential, DRAWN_BYTES, Key, KeySpec};
use super::room::{NoRoom, make_room};
use crate::security::store::{ATTEMPTS_MAX, Changes, KEYS, Seen, Store, others_change};

/// The most keys that ended a week ago which go with a new one.
pub(super) const OLD_MAX: usize = 100;
/// How long keys are kept that ended, ms. Elasticsearch's.
pub(super) const ENDED_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;

/// Why a key was not made.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// What was asked for makes no sense; each fault in words.
    #[error("{}", .0.join("; "))]
    Faults(Vec<String>),
    /// There are too many that have not ended, or too large ones.
    #[error("there are 1000 keys, or 4mb of them, that neither were invalidated nor have expired")]
    TooMany,
    /// Its user has too many, or too large ones: as many as one may have, or as are left for others.
    #[error(
        "the user has 200 keys, or 512kb of them, or as many as are left for others, that neither were invalidated nor \
         have expired"
    )]
    TooManyOfUser,
    /// The metadata cannot be read or written.
    #[error("{0}")]
    Failed(#[from] Error),
}

impl From<NoRoom> for KeysError {
    fn from(none: NoRoom) -> Self {
        match none {
            NoRoom::OfAll => Self::TooMany,
            NoRoom::OfUser => Self::TooManyOfUser,
        }
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

    /// Makes one; gives what opens it, which is not kept. `look` says in each attempt what else has to be as it is when
    /// it is written.
    ///
    /// # Errors
    /// See [`KeysError`]; those of `look`.
    pub async fn make<E: From<KeysError>>(
        &self,
        spec: KeySpec,
        drawn: &[u8; DRAWN_BYTES],
        look: impl Fn() -> Result<Seen, E>,
    ) -> Result<(Key, Credential), E> {
        let faults = spec.faults();
        if !faults.is_empty() {
            return Err(KeysError::Faults(faults).into());
        }
        let now_ms = self.now_ms();
        let (key, credential) = Key::make(spec, drawn, now_ms);
        for _ in 0..ATTEMPTS_MAX {
            let mut seen = look()?;
            let changes = self.with(&key, now_ms, &mut seen)?;
            if self.store.put(KEYS, changes, seen).await.map_err(KeysError::from)? {
                return Ok((key, credential));
            }
        }
        Err(KeysError::Failed(others_change()).into())
    }

    /// The changes by which there is one more, and room for it.
    fn with(&self, key: &Key, now_ms: u64, seen: &mut Seen) -> Result<Changes, KeysError> {
        // The change first: what is newer than it is seen again.
        seen.push((KEYS, self.store.change(KEYS)?));
        let (old, kept): (Vec<_>, Vec<_>) =
            self.all()?.into_iter().partition(|key| is_old(key, now_ms));
        let room = make_room(kept, key, now_ms)?;
        let old = old.into_iter().take(OLD_MAX).map(|key| key.id);
        let gone = old.chain(room).map(|id| (id, None));
        Ok(gone.chain([put(key)?]).collect())
    }

    /// Takes keys back, `last` after the others. Those that were already stay as they are. `look` says before each what
    /// else has to be as it is when that is written.
    ///
    /// # Errors
    /// Where the metadata cannot be read; those of `look`.
    pub async fn invalidate<E: From<Error>>(
        &self,
        which: &Which,
        last: Option<&str>,
        look: impl Fn() -> Result<Seen, E>,
    ) -> Result<Invalidated, E> {
        let mut done = Invalidated::default();
        let mut keys = self.all()?;
        keys.sort_by_key(|key| Some(&*key.id) == last);
        for key in keys.into_iter().filter(|key| which.means(key)) {
            if key.invalidated_ms.is_some() {
                done.before.push(key.id);
                continue;
            }
            match self.invalidate_one(&key.id, &look).await? {
                Ok(()) => done.now.push(key.id),
                Err(error) => done.failed.push(error),
            }
        }
        Ok(done)
    }

    /// Takes a key back as it stands when that is written. One that is gone meanwhile stays so.
    async fn invalidate_one<E>(
        &self,
        id: &str,
        look: impl Fn() -> Result<Seen, E>,
    ) -> Result<Result<(), Error>, E> {
        let now_ms = self.now_ms();
        for _ in 0..ATTEMPTS_MAX {
            let seen = look()?;
            match self.try_invalidate(id, now_ms, seen).await {
                Ok(false) => {}
                Ok(true) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
        }
        Ok(Err(others_change()))
    }

    async fn try_invalidate(&self, id: &str, now_ms: u64, mut seen: Seen) -> Result<bool, Error> {
        seen.push((KEYS, self.store.change(KEYS)?));
        let Some(mut key) = self.find(id) else { return Ok(true) };
        key.invalidated_ms.get_or_insert(now_ms);
        self.store.put(KEYS, vec![put(&key)?], seen).await
    }

    /// The key that a credential opens, as this node knows it now.
    ///
    /// # Errors
    /// Says why it opens nothing.
    pub fn open(&self, credential: &Credential) -> Result<Key, Refusal> {
        let key = self.find(&credential.id);
        // A key that opens REST opens nothing here.
        let key = key.filter(|key| key.is_opened_by(credential.secret()) && key.owner.is_none());
        holding(key.ok_or(Refusal::Unknown)?, self.now_ms())
    }

    /// The key of an id whose secret another node has checked, as this node knows it now.
    ///
    /// # Errors
    /// Says why it opens nothing.
    pub fn known(&self, id: &str) -> Result<Key, Refusal> {
        holding(self.find(id).ok_or(Refusal::Unknown)?, self.now_ms())
    }

    /// The time by which they end, ms since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.store.now_ms()
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
