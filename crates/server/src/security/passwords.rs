//! Hashing and proving passwords: argon2id, few at a time, and what was proven remembered.
//!
//! A proof costs tens of milliseconds and 19 MiB on purpose, so it is the dearest thing that a stranger can ask
//! for: there is one at a time for two processors, behind a queue that has an end, and none at all while memory
//! is short. Who has proven a password once is known by a keyed hash of it after that, which costs a
//! microsecond. The key is drawn when the process starts; the hash is of the password and of what is kept of
//! it, so that a changed password is proven anew. Nothing of it is written anywhere.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use parking_lot::Mutex;
use plimsoll_base::Tasks;
use plimsoll_memory::breakers::is_parent_full;
use plimsoll_memory::carry;
use ring::digest::{SHA256, digest};
use ring::hmac;
use tokio::sync::{
    Mutex as AsyncMutex, MutexGuard as AsyncMutexGuard, OwnedSemaphorePermit, Semaphore,
};
use zeroize::Zeroizing;

use super::faults::Fault;
use crate::settings::PASSWORD_BYTES_MAX;

/// Memory of a hash, KiB: OWASP's second choice for argon2id (Password Storage Cheat Sheet), as are the passes.
const MEMORY_KIB: u32 = 19 << 10;
/// Passes over that memory.
const PASSES: u32 = 2;
/// What a hash kept elsewhere may ask for, KiB and passes: it is computed here at every first login.
const MEMORY_KIB_MAX: u32 = 64 << 10;
const PASSES_MAX: u32 = 8;
/// Random bytes of a salt.
pub const SALT_BYTES: usize = 16;
/// The longest hash as it is kept.
const HASH_BYTES_MAX: usize = 256;
/// Who waits for a proof, at the most.
const WAITING_MAX: usize = 256;
/// Who waits to change its own password, at the most.
const OWN_WAITING_MAX: usize = 64;
/// Names whose proven passwords are remembered, at the most.
const PROVEN_MAX: usize = 10_000;

/// Why a password was neither proven nor refuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unproven {
    /// Too many wait.
    #[error("too many passwords wait to be checked")]
    Queue,
    /// Memory is short.
    #[error("there is no memory to check a password")]
    Memory,
}

/// What checks passwords.
pub struct Passwords {
    turns: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
    /// Those who change their own password: who waits, and who stands in the queue.
    own_waiting: Arc<AtomicUsize>,
    own: AsyncMutex<()>,
    tasks: Tasks,
    key: hmac::Key,
    /// By name: what a proven password and the hash that it fits come to.
    proven: Mutex<HashMap<String, hmac::Tag>>,
    /// Proven for names that nobody has, so that they take as long as others.
    decoy: String,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Passwords").finish_non_exhaustive()
    }
}

fn argon2() -> Argon2<'static> {
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

/// The hash of a password, as it is kept: a PHC string. Takes tens of milliseconds.
///
/// # Errors
/// Where there is no memory for it.
pub fn hash(password: &str, salt: &[u8; SALT_BYTES]) -> Result<String, Fault> {
    let hash = argon2().hash_password_with_salt(password.as_bytes(), salt);
    hash.map(|hash| hash.to_string())
        .map_err(|error| Fault(format!("a password is not hashed: {error}")))
}

/// A hash that nobody knows a password of, and that costs as much to look at as any. It is not computed: a node that
/// starts would hold its 19 MiB for nothing.
fn decoy(key: &hmac::Key) -> String {
    let drawn = |of: &[u8]| hmac::sign(key, of);
    let salt = STANDARD_NO_PAD.encode(&drawn(b"salt").as_ref()[..SALT_BYTES]);
    let output = STANDARD_NO_PAD.encode(drawn(b"output"));
    format!("$argon2id$v=19$m={MEMORY_KIB},t={PASSES},p=1${salt}${output}")
}

/// Which password a hash is of, without being one: it tells apart those that a user has had.
#[must_use]
pub fn mark(hash: &str) -> u64 {
    let digest = digest(&SHA256, hash.as_bytes());
    digest.as_ref().iter().take(8).fold(0, |mark, byte| mark << 8 | u64::from(*byte))
}

/// Checks a hash that was made elsewhere.
///
/// # Errors
/// Where it is no argon2id, or would cost too much here.
pub fn check_hash(hash: &str) -> Result<(), Fault> {
    let wrong = || {
        Fault(format!(
            "[password_hash] is a PHC string of argon2id with at most m={MEMORY_KIB_MAX}, t={PASSES_MAX}, p=1"
        ))
    };
    if hash.len() > HASH_BYTES_MAX {
        return Err(wrong());
    }
    let parsed = PasswordHash::new(hash).map_err(|_| wrong())?;
    let params = Params::try_from(&parsed).map_err(|_| wrong())?;
    let is_cheap =
        params.m_cost() <= MEMORY_KIB_MAX && params.t_cost() <= PASSES_MAX && params.p_cost() == 1;
    let is_whole = parsed.salt.is_some() && parsed.hash.is_some();
    (parsed.algorithm.as_str() == "argon2id" && is_cheap && is_whole)
        .then_some(())
        .ok_or_else(wrong)
}

impl Passwords {
    /// With a key that was drawn, for a machine of so many processors.
    #[must_use]
    pub fn new(drawn: &[u8; 32], processors: usize, tasks: Tasks) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, drawn);
        Self {
            turns: Arc::new(Semaphore::new((processors / 2).max(1))),
            waiting: Arc::default(),
            own_waiting: Arc::default(),
            own: AsyncMutex::default(),
            tasks,
            proven: Mutex::default(),
            decoy: decoy(&key),
            key,
        }
    }

    fn tag(&self, name: &str, hash: &str, password: &[u8]) -> hmac::Tag {
        let mut context = hmac::Context::with_key(&self.key);
        for part in [name.as_bytes(), hash.as_bytes(), password] {
            context.update(&part.len().to_le_bytes());
            context.update(part);
        }
        context.sign()
    }

    /// Which of a user's hashes the password was proven before to fit.
    #[must_use]
    pub fn proven(&self, name: &str, hashes: &[String], password: &[u8]) -> Option<usize> {
        let proven = self.proven.lock().get(name).copied()?;
        let is_it = |hash: &String| {
            let tag = self.tag(name, hash, password);
            bool::from(subtle::ConstantTimeEq::ct_eq(tag.as_ref(), proven.as_ref()))
        };
        hashes.iter().position(is_it)
    }

    /// Which of these hashes the password fits; where there are none, none does, which is said as late.
    ///
    /// # Errors
    /// Where it cannot be found out now.
    pub async fn prove(
        &self,
        name: &str,
        hashes: &[String],
        password: &[u8],
    ) -> Result<Option<usize>, Unproven> {
        if let Some(place) = self.proven(name, hashes, password) {
            return Ok(Some(place));
        }
        // So long is nobody's; how long it is was no secret of ours.
        if password.len() > PASSWORD_BYTES_MAX {
            return Ok(None);
        }
        let turn = self.turn().await?;
        // Of many connections of one user the first proves it for all.
        if let Some(place) = self.proven(name, hashes, password) {
            return Ok(Some(place));
        }
        let known = hashes.to_vec();
        let asked = if known.is_empty() { vec![self.decoy.clone()] } else { known };
        let fitting = self.look(turn, asked, password).await?;
        let Some((place, fitting)) = fitting.and_then(|it| Some((it, hashes.get(it)?))) else {
            return Ok(None);
        };
        let tag = self.tag(name, fitting, password);
        let mut proven = self.proven.lock();
        if proven.len() >= PROVEN_MAX && !proven.contains_key(name) {
            proven.clear();
        }
        proven.insert(name.to_owned(), tag);
        Ok(Some(place))
    }

    /// The turn of whoever may change nothing but its own password. One of those at a time stands in the queue of who
    /// logs in: they would fill it.
    ///
    /// # Errors
    /// Where too many wait for it.
    pub async fn own_turn(&self) -> Result<OwnTurn<'_>, Unproven> {
        let place = Place::take(&self.own_waiting, OWN_WAITING_MAX)?;
        Ok(OwnTurn { _own: self.own.lock().await, _place: place })
    }

    /// The hash of a new password.
    ///
    /// # Errors
    /// Where it cannot be computed now.
    pub async fn hash(&self, password: String, salt: [u8; SALT_BYTES]) -> Result<String, Unproven> {
        let password = Zeroizing::new(password);
        let turn = self.turn().await?;
        let hashed = self.run(turn, move || hash(&password, &salt)).await?;
        hashed.map_err(|_| Unproven::Memory)
    }

    /// Which of these hashes a password fits that nobody logs in by: nothing is remembered of it.
    ///
    /// # Errors
    /// Where it cannot be found out now.
    pub async fn fits(
        &self,
        hashes: &[String],
        password: &[u8],
    ) -> Result<Option<usize>, Unproven> {
        if hashes.is_empty() {
            return Ok(None);
        }
        let turn = self.turn().await?;
        self.look(turn, hashes.to_vec(), password).await
    }

    async fn look(
        &self,
        turn: Turn,
        hashes: Vec<String>,
        password: &[u8],
    ) -> Result<Option<usize>, Unproven> {
        let offered = Zeroizing::new(password.to_vec());
        let looked = self.run(turn, move || {
            let fits = |hash: &String| argon2().verify_password(&offered, hash.as_str()).is_ok();
            hashes.iter().position(fits)
        });
        looked.await
    }

    /// Runs one away from the threads of connections. Its turn lasts as long as the work, also where whoever asked
    /// for it has gone.
    async fn run<T: Send + 'static>(
        &self,
        turn: Turn,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unproven> {
        let work = carry(work);
        let done = self.tasks.blocking(move || {
            let done = work();
            drop(turn);
            done
        });
        done.await.map_err(|_| Unproven::Memory)
    }

    async fn turn(&self) -> Result<Turn, Unproven> {
        let place = Place::take(&self.waiting, WAITING_MAX)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await.map_err(|_| Unproven::Queue)?;
        if is_parent_full((MEMORY_KIB as usize) << 10) {
            Err(Unproven::Memory)
        } else {
            Ok(Turn { _turn: turn, _place: place })
        }
    }
}

/// See [`Passwords::own_turn`].
pub struct OwnTurn<'a> {
    _own: AsyncMutexGuard<'a, ()>,
    _place: Place,
}

/// A turn, and the place in the queue that it was waited for in.
struct Turn {
    _turn: OwnedSemaphorePermit,
    _place: Place,
}

/// A place in the queue.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(waiting: &Arc<AtomicUsize>, max: usize) -> Result<Self, Unproven> {
        let taken = waiting.fetch_add(1, Relaxed);
        let place = Self(Arc::clone(waiting));
        if taken < max { Ok(place) } else { Err(Unproven::Queue) }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_password_is_proven_once_and_remembered() {
        let passwords = Passwords::new(&[7; 32], 2, Tasks::of_the_machine());
        let kept = passwords.hash("secret".to_owned(), [1; SALT_BYTES]).await.unwrap();
        assert!(kept.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{kept}");
        assert!(check_hash(&kept).is_ok() && !kept.contains("secret"));
        let hashes = vec![kept];
        assert_eq!(passwords.proven("bob", &hashes, b"secret"), None);
        assert_eq!(passwords.prove("bob", &hashes, b"wrong!").await, Ok(None));
        assert_eq!(passwords.prove("bob", &hashes, b"secret").await, Ok(Some(0)));
        assert_eq!(passwords.proven("bob", &hashes, b"secret"), Some(0));
        assert_eq!(passwords.proven("bob", &hashes, b"secrets"), None);
        assert_eq!(passwords.proven("eve", &hashes, b"secret"), None);
        // Another hash of it is another: it has to be proven anew.
        let other = vec![passwords.hash("secret".to_owned(), [2; SALT_BYTES]).await.unwrap()];
        assert_eq!(passwords.proven("bob", &other, b"secret"), None);
        let both = [hashes, other].concat();
        assert_eq!(passwords.prove("bob", &both, b"secret").await, Ok(Some(0)));
        // Nobody has no password, not even an empty one; its hash is looked at as any.
        assert_eq!(check_hash(&passwords.decoy), Ok(()));
        assert_eq!(passwords.decoy.len(), both[0].len());
        assert_eq!(passwords.prove("nobody", &[], b"").await, Ok(None));
        assert_eq!(passwords.prove("nobody", &[], b"x").await, Ok(None));
    }

    #[tokio::test]
    async fn the_queue_has_an_end() {
        let passwords = Passwords::new(&[7; 32], 2, Tasks::of_the_machine());
        let held: Vec<_> = (0..WAITING_MAX)
            .map(|_| Place::take(&passwords.waiting, WAITING_MAX).unwrap())
            .collect();
        assert_eq!(passwords.prove("bob", &[], b"x").await, Err(Unproven::Queue));
        drop(held);
        assert_eq!(passwords.prove("bob", &[], b"x").await, Ok(None));
        // New passwords have an end of their own, which those who log in do not feel.
        let held: Vec<_> = (0..OWN_WAITING_MAX)
            .map(|_| Place::take(&passwords.own_waiting, OWN_WAITING_MAX).unwrap())
            .collect();
        assert_eq!(passwords.own_turn().await.err(), Some(Unproven::Queue));
        assert_eq!(passwords.prove("bob", &[], b"x").await, Ok(None));
        assert!(passwords.hash("x".to_owned(), [1; SALT_BYTES]).await.is_ok());
        drop(held);
        assert!(passwords.own_turn().await.is_ok());
    }

    #[test]
    fn hashes_from_elsewhere_are_looked_at() {
        let good = hash("x", &[3; SALT_BYTES]).unwrap();
        assert!(check_hash(&good).is_ok());
        for wrong in [
            String::new(),
            "secret".to_owned(),
            "$2a$10$abcdefghijklmnopqrstuv".to_owned(),
            good.replace("argon2id", "argon2i"),
            good.replace("m=19456", "m=4000000"),
            good.replace("t=2", "t=200"),
            good.replace("p=1", "p=9"),
            "$argon2id$v=19$m=19456,t=2,p=1".to_owned(),
            "x".repeat(1000),
        ] {
            assert!(check_hash(&wrong).is_err(), "{wrong}");
        }
    }
}
