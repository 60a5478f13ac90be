//! Where keys are kept and how one is found: made, listed, taken back, and checked when a follower
//! shows its credential.
//!
//! Keys that ended are kept for a week, so that their users see what became of them; then they go with
//! the next key that is made. So their number has a limit, whatever is made and taken back.

use plimsoll_index::Error;

use super::key::{Credential, DRAWN_BYTES, Key, KeySpec};
use crate::objects::Objects;

/// The most keys that are kept, those that ended included.
const KEYS_MAX: usize = 1000;
/// How long keys are kept that ended, ms. Elasticsearch's.
const ENDED_KEPT_MS: u64 = 7 * 24 * 3600 * 1000;

/// Why a key was not made.
#[derive(Debug)]
pub enum KeysError {
    /// What was asked for makes no sense; each fault in words.
    Faults(Vec<String>),
    /// There are too many.
    TooMany,
    /// The metadata cannot be written.
    Failed(Error),
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
    objects: Box<dyn Objects>,
}

impl Keys {
    /// Those that are kept there.
    #[must_use]
    pub fn new(objects: Box<dyn Objects>) -> Self {
        Self { objects }
    }

    /// All of them, the oldest first.
    #[must_use]
    pub fn all(&self) -> Vec<Key> {
        let mut keys: Vec<Key> =
            self.objects.all().into_iter().filter_map(|(id, value)| Key::read(id, value)).collect();
        keys.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        keys
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
        let keys = self.all();
        let (old, kept): (Vec<_>, Vec<_>) = keys.into_iter().partition(|key| {
            let ended_ms = key.ended_ms(now_ms);
            ended_ms.is_some_and(|ended_ms| ended_ms.saturating_add(ENDED_KEPT_MS) <= now_ms)
        });
        for key in old {
            self.objects.put(key.id, None).await.map_err(KeysError::Failed)?;
        }
        // Those of users and those of followers have room of their own.
        let alike = kept.iter().filter(|key| key.owner.is_some() == spec.owner.is_some());
        if alike.count() >= KEYS_MAX {
            return Err(KeysError::TooMany);
        }
        let (key, credential) = Key::make(spec, drawn, now_ms);
        self.put(&key).await.map_err(KeysError::Failed)?;
        Ok((key, credential))
    }

    /// Takes keys back. Those that were already stay as they are.
    pub async fn invalidate(&self, which: &Which, now_ms: u64) -> Invalidated {
        let mut done = Invalidated::default();
        for mut key in self.all().into_iter().filter(|key| which.means(key)) {
            if key.invalidated_ms.is_some() {
                done.before.push(key.id);
                continue;
            }
            key.invalidated_ms = Some(now_ms);
            match self.put(&key).await {
                Ok(()) => done.now.push(key.id),
                Err(error) => done.failed.push(error),
            }
        }
        done
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
        Key::read(id.to_owned(), self.objects.get(id)?)
    }

    async fn put(&self, key: &Key) -> Result<(), Error> {
        let value =
            serde_json::to_value(key).map_err(|error| Error::internal(error.to_string()))?;
        self.objects.put(key.id.clone(), Some(value)).await
    }
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
    use std::collections::BTreeMap;

    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;

    use serde_json::Value;

    use super::*;

    /// Objects in memory.
    #[derive(Default)]
    struct Kept(Mutex<BTreeMap<String, Value>>);

    impl Objects for Kept {
        fn get(&self, name: &str) -> Option<Value> {
            self.0.lock().get(name).cloned()
        }

        fn all(&self) -> Vec<(String, Value)> {
            self.0.lock().clone().into_iter().collect()
        }

        fn put(&self, name: String, value: Option<Value>) -> BoxFuture<'_, Result<(), Error>> {
            let mut kept = self.0.lock();
            match value {
                Some(value) => kept.insert(name, value),
                None => kept.remove(&name),
            };
            Box::pin(async { Ok(()) })
        }
    }

    fn keys() -> Keys {
        Keys::new(Box::<Kept>::default())
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
        let done = keys.invalidate(&which, 40).await;
        assert_eq!(
            (done.now, done.before.len(), done.failed.len()),
            (vec![first.id.clone()], 0, 0)
        );
        let done = keys.invalidate(&which, 50).await;
        assert_eq!((done.now.len(), done.before), (0, vec![first.id.clone()]));
        assert_eq!(keys.open(&credential, 60), Err(Refusal::Invalidated(first.id.clone())));
        // Who does not know the secret is not told that there was such a key.
        assert_eq!(keys.open(&crossed, 60), Err(Refusal::Unknown));
        assert_eq!(keys.known(&first.id, 60), Err(Refusal::Invalidated(first.id.clone())));
        assert!(keys.known(&other.id, 60).is_ok());
        assert_eq!(keys.all()[0].invalidated_ms, Some(40), "the first time counts");
        assert!(keys.open(&other, 60).is_ok());
        let done =
            keys.invalidate(&Which { ids: vec!["none".to_owned()], ..Which::default() }, 70).await;
        assert!(done.now.is_empty() && done.before.is_empty());
    }

    #[tokio::test]
    async fn there_are_not_ever_more() {
        let keys = keys();
        for number in 0..KEYS_MAX {
            keys.make(spec("x"), &drawn(number), 10).await.unwrap();
        }
        assert!(matches!(
            keys.make(spec("x"), &drawn(KEYS_MAX), 1010 + ENDED_KEPT_MS - 1).await,
            Err(KeysError::TooMany)
        ));
        keys.make(spec("x"), &drawn(KEYS_MAX), 1010 + ENDED_KEPT_MS).await.unwrap();
        assert_eq!(keys.all().len(), 1);
        assert!(matches!(keys.make(spec(""), &drawn(1), 10).await, Err(KeysError::Faults(_))));
    }

    #[tokio::test]
    async fn what_cannot_be_read_opens_nothing() {
        let kept = Kept::default();
        kept.put("bad".to_owned(), Some(Value::Null)).await.unwrap();
        let keys = Keys::new(Box::new(kept));
        let credential = Credential { id: "bad".to_owned(), secret: "x".to_owned() };
        assert_eq!(keys.open(&credential, 0), Err(Refusal::Unknown));
        assert!(keys.all().is_empty());
    }
}
