//! Two nodes, one of which stands still: what it takes when it goes on from those who are gone by then, or have other
//! rights.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use plimsoll_base::Tasks;
use plimsoll_index::Error;
use serde_json::{Value, json};

use super::audit::Audit;
use super::changes::ChangeError;
use super::keys::{KeySpec, Owner, Which};
use super::passwords::mark;
use super::principal::{Principal, Via};
use super::role::SUPERUSER;
use super::store::in_memory::InMemory;
use super::store::{Changes, KEYS, ROLES, Seen, Store, USERS};
use super::user::User;
use super::{Refused, Security, SecurityOptions};

/// What a node knows that stands still: the metadata as it was, until it has heard of it again.
struct Frozen {
    metadata: Arc<InMemory>,
    was: Mutex<Option<Was>>,
}

struct Was {
    position: u64,
    objects: Vec<(&'static str, Vec<(String, Value)>)>,
}

impl Frozen {
    fn freeze(&self) {
        let all = |kind| (kind, self.metadata.all(kind).unwrap());
        let objects = [USERS, ROLES, KEYS].map(all).to_vec();
        *self.was.lock() = Some(Was { position: self.metadata.position(), objects });
    }
}

impl Store for Frozen {
    fn position(&self) -> u64 {
        self.was.lock().as_ref().map_or_else(|| self.metadata.position(), |was| was.position)
    }

    fn change(&self, _: &'static str) -> Result<u64, Error> {
        Ok(self.position())
    }

    fn get(&self, kind: &'static str, name: &str) -> Option<Value> {
        let found = self.all(kind).unwrap().into_iter().find(|(it, _)| it == name);
        found.map(|(_, value)| value)
    }

    fn all(&self, kind: &'static str) -> Result<Vec<(String, Value)>, Error> {
        let was = self.was.lock();
        let Some(was) = &*was else { return self.metadata.all(kind) };
        Ok(was
            .objects
            .iter()
            .filter(|(it, _)| *it == kind)
            .flat_map(|(_, it)| it.clone())
            .collect())
    }

    fn put(
        &self,
        kind: &'static str,
        changes: Changes,
        seen: Seen,
    ) -> BoxFuture<'_, Result<bool, Error>> {
        let put = self.metadata.put(kind, changes, seen);
        // It comes back behind what others wrote.
        *self.was.lock() = None;
        put
    }

    fn unheard(&self) -> Duration {
        Duration::ZERO
    }

    fn hear(&self) -> BoxFuture<'_, bool> {
        *self.was.lock() = None;
        Box::pin(async { true })
    }

    fn now_ms(&self) -> u64 {
        self.metadata.now_ms()
    }
}

struct World {
    other: Security,
    node: Security,
    frozen: Arc<Frozen>,
}

/// Other bytes each time.
fn draw(bytes: &mut [u8]) -> io::Result<()> {
    static DRAWN: AtomicU8 = AtomicU8::new(0);
    bytes.fill(DRAWN.fetch_add(1, Ordering::Relaxed));
    Ok(())
}

fn world() -> World {
    let metadata = Arc::<InMemory>::default();
    let frozen = Arc::new(Frozen { metadata: Arc::clone(&metadata), was: Mutex::new(None) });
    let of = |store: Arc<dyn Store>| {
        let options = SecurityOptions {
            password: None,
            enabled: true,
            unheard_max: Duration::from_secs(1),
            draw,
            tasks: Tasks::of_the_machine(),
        };
        Security::new(store, Audit::open(None, 1 << 20, 1).unwrap(), options, 2).unwrap()
    };
    World { other: of(metadata), node: of(Arc::<Frozen>::clone(&frozen)), frozen }
}

/// As at the start.
fn set_password(of: &Security, password: &[u8]) {
    assert!(of.own_password.propose(password));
    of.own_password.set(&of.own_password.take_proposed().unwrap());
}

impl World {
    async fn put(&self, name: &str, roles: &[&str]) {
        let roles: Vec<String> = roles.iter().map(|it| (*it).to_owned()).collect();
        let user = User { roles, passwords: vec!["hash".to_owned()], ..User::new(name) };
        put(&self.other, None, name, user).await.unwrap();
    }

    /// Somebody as the node knows it by its password, which stands still from then on.
    fn known(&self, name: &str) -> Arc<Principal> {
        let known = self.node.directory().named_by(name, Some(mark("hash"))).cloned().unwrap();
        self.frozen.freeze();
        known
    }
}

async fn put(
    security: &Security,
    by: Option<&Principal>,
    name: &str,
    user: User,
) -> Result<(), ChangeError> {
    let changing = by.map_or_else(|| security.changing_itself(), |by| security.changing(by));
    changing.change_user(name, |_| Ok((Some(user.clone()), ()))).await
}

fn superuser(name: &str) -> User {
    User { roles: vec![SUPERUSER.to_owned()], ..User::new(name) }
}

#[tokio::test]
async fn who_is_gone_makes_nobody() {
    let world = world();
    world.put("ann", &[SUPERUSER]).await;
    world.put("eve", &[SUPERUSER]).await;
    let eve = world.known("eve");
    world.other.changing_itself().delete_user("eve").await.unwrap();
    let made = put(&world.node, Some(&eve), "mallory", superuser("mallory")).await;
    assert!(matches!(made, Err(ChangeError::Refused(Refused::Unknown))), "{made:?}");
    assert!(world.other.directory().user("mallory").is_none());
    // Another of her name is not her.
    world.put("eve", &[SUPERUSER]).await;
    let made = world.node.changing(&eve).put_role("r", &json!({})).await;
    assert!(matches!(made, Err(ChangeError::Refused(Refused::Unknown))), "{made:?}");
}

#[tokio::test]
async fn who_is_gone_makes_no_key_and_takes_none_back() {
    let world = world();
    world.put("ann", &[SUPERUSER]).await;
    world.put("eve", &[SUPERUSER]).await;
    let of = |name: &str| KeySpec {
        name: "k".to_owned(),
        owner: Some(Owner { user: name.to_owned(), ..Owner::default() }),
        ..KeySpec::default()
    };
    let (ann, eve) = (world.known("ann"), world.known("eve"));
    let key = world.other.changing(&ann).make_key(of("ann")).await.unwrap().0;
    world.frozen.hear().await;
    world.frozen.freeze();
    world.other.changing_itself().delete_user("eve").await.unwrap();
    let made = world.node.changing(&eve).make_key(of("eve")).await;
    assert!(matches!(made, Err(ChangeError::Refused(Refused::Unknown))), "{made:?}");
    let which = Which { user: Some("ann".to_owned()), ..Which::default() };
    world.put("eve", &[]).await;
    let taken = world.node.changing(&eve).invalidate(&which).await;
    assert!(matches!(taken, Err(ChangeError::Refused(Refused::Unknown))), "{taken:?}");
    assert_eq!(world.other.keys.all().unwrap(), [key]);
}

#[tokio::test]
async fn a_key_that_was_taken_back_changes_nothing() {
    let world = world();
    world.put("ann", &[SUPERUSER]).await;
    let ann = world.known("ann");
    let limited_by = world.node.changing(&ann).descriptors().unwrap();
    let owner = Owner {
        user: ann.name.clone(),
        user_id: ann.user_id.clone(),
        limited_by,
        ..Owner::default()
    };
    let spec = KeySpec { name: "k".to_owned(), owner: Some(owner), ..KeySpec::default() };
    let credential = world.other.changing_itself().make_key(spec).await.unwrap().1;
    world.frozen.hear().await;
    let by_key = world.node.by_key(&credential).unwrap();
    put(&world.node, Some(&by_key), "bob", User::new("bob")).await.unwrap();
    world.frozen.freeze();
    let which = Which { ids: vec![credential.id.clone()], ..Which::default() };
    world.other.changing_itself().invalidate(&which).await.unwrap();
    let made = put(&world.node, Some(&by_key), "mallory", superuser("mallory")).await;
    assert!(matches!(made, Err(ChangeError::Refused(Refused::Unknown))), "{made:?}");
    assert!(world.other.directory().user("mallory").is_none());
}

#[tokio::test]
async fn rights_are_those_of_the_moment_when_it_is_written() {
    let world = world();
    world.put("ann", &[SUPERUSER]).await;
    let role = |cluster: &[&str]| json!({ "cluster": cluster });
    let other = world.other.changing_itself();
    other.put_role("keeper", &role(&["manage_security"])).await.unwrap();
    world.put("eve", &["keeper"]).await;
    let (ann, eve) = (world.known("ann"), world.known("eve"));
    other.put_role("keeper", &role(&["monitor"])).await.unwrap();
    let made = put(&world.node, Some(&eve), "mallory", superuser("mallory")).await;
    assert!(matches!(made, Err(ChangeError::OtherRights)), "{made:?}");
    // Who is as before goes on, with what others changed meanwhile.
    world.frozen.freeze();
    world.put("bob", &[]).await;
    let changing = world.node.changing(&ann);
    let found = changing.change_user("bob", |before| {
        let is_there = before.is_some();
        Ok((Some(superuser("bob")), is_there))
    });
    assert!(found.await.unwrap(), "by the second attempt the node knows of bob");
    assert_eq!(world.other.directory().user("bob").unwrap().roles, [SUPERUSER]);
}

#[tokio::test]
async fn who_is_confirmed_is_there_now() {
    let world = world();
    world.put("ann", &[SUPERUSER]).await;
    world.put("eve", &[SUPERUSER]).await;
    let eve = world.known("eve");
    world.other.changing_itself().delete_user("eve").await.unwrap();
    assert!(world.node.again(&eve).is_ok(), "a node that stands still does not know");
    assert_eq!(world.node.confirm(&eve).await, Err(Refused::Unknown));
}

#[tokio::test]
async fn a_password_that_was_changed_changes_nothing() {
    let world = world();
    world.put("ann", &[SUPERUSER]).await;
    world.put("eve", &[SUPERUSER]).await;
    let directory = world.node.directory();
    let eve = directory.named_by("eve", Some(mark("hash"))).unwrap();
    assert_eq!(eve.via, Via::Password(Some(mark("hash"))));
    world.frozen.freeze();
    let changed =
        User { passwords: vec!["other".to_owned()], ..directory.user("eve").unwrap().clone() };
    put(&world.other, None, "eve", changed).await.unwrap();
    let made = put(&world.node, Some(eve), "mallory", superuser("mallory")).await;
    assert!(matches!(made, Err(ChangeError::Refused(Refused::Unknown))), "{made:?}");
    assert_eq!(world.node.confirm(eve).await, Err(Refused::Unknown));
    // Who is connected stays, but as somebody who has shown nothing.
    let again = world.node.again(eve).unwrap();
    assert_eq!((&*again.name, &again.via), ("eve", &Via::Password(None)));
    assert_eq!(world.node.confirm(&again).await, Err(Refused::Unknown));
}

#[tokio::test]
async fn that_nothing_is_to_be_done_is_said_by_who_knows() {
    let world = world();
    set_password(&world.node, b"secret");
    let by = world.node.log_in("elastic", b"secret").await.unwrap();
    assert_eq!(by.via, Via::Settings(Some(world.node.own_password.number())));
    world.put("ann", &[SUPERUSER]).await;
    world.frozen.freeze();
    world.put("bob", &[]).await;
    world.other.changing_itself().put_role("r", &json!({})).await.unwrap();
    let changing = world.node.changing(&by);
    assert!(changing.enable("bob", false).await.unwrap());
    assert!(!world.other.directory().user("bob").unwrap().enabled);
    assert!(changing.delete_role("r").await.unwrap());
    world.frozen.freeze();
    world.put("carol", &[]).await;
    assert!(changing.delete_user("carol").await.unwrap());
    // What is not there is not there by then either.
    assert!(!changing.delete_user("carol").await.unwrap());
}

#[tokio::test]
async fn a_password_of_the_settings_stays_where_who_set_it_does() {
    let world = world();
    set_password(&world.node, b"first");
    world.put("eve", &[SUPERUSER]).await;
    let eve = world.known("eve");
    assert!(!world.node.set_own_password(&eve).await.unwrap(), "none was proposed");
    assert!(world.node.propose_own_password(b"eve's"));
    assert!(world.node.log_in("default", b"eve's").await.is_err(), "it is not set yet");
    world.other.changing_itself().delete_user("eve").await.unwrap_err();
    world.put("ann", &[SUPERUSER]).await;
    world.other.changing_itself().delete_user("eve").await.unwrap();
    let set = world.node.set_own_password(&eve).await;
    assert!(matches!(set, Err(ChangeError::Refused(Refused::Unknown))), "{set:?}");
    assert!(world.node.log_in("default", b"eve's").await.is_err());
    let by = world.node.log_in("default", b"first").await.unwrap();
    assert!(!world.node.set_own_password(&by).await.unwrap(), "nothing is left of it");
    // Without one somebody has to be left, once all is known that was changed meanwhile.
    world.frozen.freeze();
    assert!(world.node.propose_own_password(b""));
    let ann = world.other.directory().user("ann").unwrap().clone();
    let lesser = User { roles: vec![], ..ann };
    set_password(&world.other, b"other");
    put(&world.other, None, "ann", lesser).await.unwrap();
    let set = world.node.set_own_password(&by).await;
    assert!(matches!(set, Err(ChangeError::LastAdministrator)), "{set:?}");
    assert!(world.node.log_in("default", b"first").await.is_ok());
}
