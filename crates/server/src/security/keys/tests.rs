//! Tests of the keys of a cluster.

use std::sync::Arc;

use plimsoll_index::Error;
use serde_json::Value;

use super::key::{Credential, DRAWN_BYTES, Key, KeySpec};
use super::room::{KEYS_MAX, KEYS_OF_USER_MAX, OF_USER};
use super::store::{ENDED_KEPT_MS, Invalidated, Keys, KeysError, OLD_MAX, Refusal, Which};
use crate::security::keys::Owner;
use crate::security::store::in_memory::InMemory;
use crate::security::store::{KEYS, Store};

/// Keys, and the clock that they go by.
struct World {
    keys: Keys,
    store: Arc<InMemory>,
}

impl World {
    /// The keys, at that time.
    fn at(&self, now_ms: u64) -> At<'_> {
        self.store.set_now_ms(now_ms);
        At(&self.keys)
    }
}

/// Keys that are changed in nobody's name.
struct At<'a>(&'a Keys);

impl At<'_> {
    async fn make(
        &self,
        spec: KeySpec,
        drawn: &[u8; DRAWN_BYTES],
    ) -> Result<(Key, Credential), KeysError> {
        self.0.make(spec, drawn, || Ok(vec![])).await
    }

    async fn invalidate(&self, which: &Which) -> Result<Invalidated, Error> {
        self.0.invalidate(which, None, || Ok(vec![])).await
    }
}

impl std::ops::Deref for At<'_> {
    type Target = Keys;

    fn deref(&self) -> &Keys {
        self.0
    }
}

fn world() -> World {
    let store = Arc::<InMemory>::default();
    World { keys: Keys::new(Arc::<InMemory>::clone(&store)), store }
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
    let world = world();
    let (first, credential) = world.at(10).make(spec("first"), &drawn(1)).await.unwrap();
    let (_, other) = world.at(20).make(spec("other"), &drawn(2)).await.unwrap();
    assert_eq!(world.at(30).open(&credential), Ok(first.clone()));
    let crossed = Credential { id: first.id.clone(), secret: other.secret().to_owned() + "x" };
    assert_eq!(world.at(30).open(&crossed), Err(Refusal::Unknown));
    let nobody = Credential { id: "nobody".to_owned(), secret: "x".to_owned() };
    assert_eq!(world.at(30).open(&nobody), Err(Refusal::Unknown));
    assert_eq!(world.at(1020).open(&other), Err(Refusal::Expired(other.id.clone())));

    let which = Which { name: Some("first".to_owned()), ..Which::default() };
    let done = world.at(40).invalidate(&which).await.unwrap();
    assert_eq!((done.now, done.before.len(), done.failed.len()), (vec![first.id.clone()], 0, 0));
    let done = world.at(50).invalidate(&which).await.unwrap();
    assert_eq!((done.now.len(), done.before), (0, vec![first.id.clone()]));
    assert_eq!(world.at(60).open(&credential), Err(Refusal::Invalidated(first.id.clone())));
    // Who does not know the secret is not told that there was such a key.
    assert_eq!(world.at(60).open(&crossed), Err(Refusal::Unknown));
    assert_eq!(world.at(60).known(&first.id), Err(Refusal::Invalidated(first.id.clone())));
    assert!(world.at(60).known(&other.id).is_ok());
    assert_eq!(world.keys.all().unwrap()[0].invalidated_ms, Some(40), "the first time counts");
    assert!(world.at(60).open(&other).is_ok());
    let none = Which { ids: vec!["none".to_owned()], ..Which::default() };
    let done = world.at(70).invalidate(&none).await.unwrap();
    assert!(done.now.is_empty() && done.before.is_empty());
}

#[tokio::test]
async fn there_are_not_ever_more() {
    let world = world();
    for number in 0..KEYS_MAX {
        world.at(10).make(spec("x"), &drawn(number)).await.unwrap();
    }
    assert!(matches!(
        world.at(1009).make(spec("x"), &drawn(KEYS_MAX)).await,
        Err(KeysError::TooMany)
    ));
    // One that ended makes room, though it is not old.
    world.at(1010).make(spec("x"), &drawn(KEYS_MAX)).await.unwrap();
    assert_eq!(world.keys.all().unwrap().len(), KEYS_MAX);
    world.at(1010 + ENDED_KEPT_MS).make(spec("x"), &drawn(KEYS_MAX + 1)).await.unwrap();
    assert_eq!(world.keys.all().unwrap().len(), KEYS_MAX - OLD_MAX + 1, "a few go at a time");
    assert!(matches!(world.at(10).make(spec(""), &drawn(1)).await, Err(KeysError::Faults(_))));
}

#[tokio::test]
async fn one_user_has_not_all_of_them() {
    let world = world();
    let of = |user: &str, expires_after_ms| KeySpec {
        owner: Some(Owner { user: user.to_owned(), ..Owner::default() }),
        expires_after_ms,
        ..spec("x")
    };
    let mut number = 0;
    let mut make = async |spec: KeySpec, now_ms| {
        number += 1;
        world.at(now_ms).make(spec, &drawn(number)).await.map(drop)
    };
    make(of("bob", Some(1)), 10).await.unwrap();
    // Those of one that end at once push out its own alone.
    for at_ms in 20..20 + 4 * KEYS_OF_USER_MAX as u64 {
        make(of("ann", Some(1)), at_ms).await.unwrap();
    }
    let count = |user: &str| world.keys.all().unwrap().iter().filter(|it| it.is_of(user)).count();
    assert_eq!((count("bob"), count("ann")), (1, KEYS_OF_USER_MAX));
    for _ in 0..KEYS_OF_USER_MAX {
        make(of("ann", None), 1_040).await.unwrap();
    }
    assert!(matches!(make(of("ann", None), 1_050).await, Err(KeysError::TooManyOfUser)));
    make(of("bob", None), 1_050).await.unwrap();
    let which = Which { user: Some("ann".to_owned()), ..Which::default() };
    world.at(1_060).invalidate(&which).await.unwrap();
    make(of("ann", None), 1_070).await.unwrap();
    assert_eq!((count("bob"), count("ann")), (2, KEYS_OF_USER_MAX));
    // Where all places are taken, an own one that ended goes before an older one of another.
    for user in ["c", "d"] {
        for _ in 0..KEYS_OF_USER_MAX {
            make(of(user, None), 1_080).await.unwrap();
        }
    }
    let mut now_ms = 1_080;
    while world.keys.all().unwrap().len() < KEYS_MAX {
        let number = now_ms % 3;
        make(of(&format!("e{number}"), Some(1)), now_ms).await.unwrap();
        now_ms += 2;
    }
    make(of("e0", None), now_ms).await.unwrap();
    assert_eq!((count("bob"), count("ann")), (2, KEYS_OF_USER_MAX));
    assert_eq!(world.keys.all().unwrap().len(), KEYS_MAX);
    // Who has none that ended takes the place of the one that ended first.
    make(of("g", None), now_ms).await.unwrap();
    assert_eq!((count("bob"), count("g")), (1, 1));
}

#[tokio::test]
async fn who_takes_all_it_may_leaves_as_much() {
    let world = world();
    let mut made = 0;
    for user in 0..50 {
        let user = format!("u{user}");
        let mut own = 0;
        let refused = loop {
            let owner = Some(Owner { user: user.clone(), ..Owner::default() });
            made += 1;
            match world.at(10).make(KeySpec { owner, ..spec("x") }, &drawn(made)).await {
                Ok(_) => own += 1,
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, KeysError::TooManyOfUser));
        assert!(own > 0 && own <= KEYS_OF_USER_MAX, "{user} has {own}");
        let left = KEYS_MAX - world.keys.all().unwrap().len();
        if own < KEYS_OF_USER_MAX {
            assert!(own.abs_diff(left) <= 1, "{user} has {own}, {left} are left");
        }
        if left <= 1 {
            return;
        }
    }
    panic!("there is always room left");
}

#[tokio::test]
async fn large_keys_are_few() {
    let world = world();
    let of = |user: &str, expires_after_ms| KeySpec {
        owner: Some(Owner { user: user.to_owned(), ..Owner::default() }),
        metadata: [("m".to_owned(), Value::from("x".repeat(15 << 10)))].into_iter().collect(),
        expires_after_ms,
        ..spec("x")
    };
    let mut made = 0;
    let mut make = async |user: &str, expires_after_ms, now_ms| {
        made += 1;
        world.at(now_ms).make(of(user, expires_after_ms), &drawn(made)).await.map(drop)
    };
    let count = || world.keys.all().unwrap().len();
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
    assert!(world.keys.all().unwrap().iter().all(|key| key.ended_ms(20).is_none()));
    assert!(matches!(make("u", None, 20).await, Err(KeysError::TooMany)));
}

#[tokio::test]
async fn what_cannot_be_read_opens_nothing() {
    let store = InMemory::default();
    let bad = vec![("bad".to_owned(), Some(Value::Null))];
    assert!(store.put(KEYS, bad, vec![]).await.unwrap());
    let keys = Keys::new(Arc::new(store));
    let credential = Credential { id: "bad".to_owned(), secret: "x".to_owned() };
    assert_eq!(keys.open(&credential), Err(Refusal::Unknown));
    assert!(keys.all().unwrap().is_empty());
}
