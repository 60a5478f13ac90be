//! Who may do what: users with passwords, roles, API keys, and what is decided by them, for REST and RESP alike.
//!
//! | file | owns |
//! |---|---|
//! | [`privileges`], [`role`], [`patterns`] | what may be done, to which names |
//! | [`user`], [`keys`] | who there is, and what is kept of it |
//! | [`acl`] | what Redis' rules allow |
//! | [`directory`], [`principal`] | one reading of all of them; who asks, and may what |
//! | [`passwords`] | hashing, proving, remembering |
//! | [`store`] | where all of it is kept: the cluster's metadata |
//! | [`changes`] | users and roles changed, and what is never taken away |
//! | [`audit`] | what is noted of it |
//! | [`reset`] | a way back for those who locked themselves out |
//!
//! [`Security`] finds out who asks. A decision reads nothing but the [`Directory`] that it holds, which is read
//! again when the metadata has changed. Protocols ask it and say refusals in their own forms; how often somebody
//! may try is [`crate::logins`]'.

pub mod acl;
pub mod audit;
pub mod changes;
#[cfg(test)]
mod changes_tests;
pub mod directory;
pub mod faults;
pub mod keys;
pub mod passwords;
pub mod patterns;
pub mod principal;
pub mod privileges;
pub mod reset;
pub mod role;
pub mod store;
pub mod user;

use std::io;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Release},
};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use plimsoll_base::Tasks;
use plimsoll_index::Error;
use zeroize::Zeroizing;

use crate::auth::Password;
use audit::Audit;
use directory::Directory;
use keys::{Credential, Keys};
use passwords::{Passwords, Unproven, mark};
use principal::{Principal, Via};
use store::{KEYS, ROLES, Store, USERS};
use user::{DEFAULT, kept_name};

/// Why somebody is not let in. Whether there is such a user or key is told to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// No such user, another password, or one that may not log in.
    #[error("unable to authenticate")]
    Unknown,
    /// This node does not know who there is: it has not heard of the metadata for too long.
    #[error("users are not known here: the log of the cluster's metadata has not been heard")]
    Unheard,
    /// A password cannot be checked now.
    #[error(transparent)]
    Unproven(#[from] Unproven),
}

/// What the settings say of it.
#[derive(Clone)]
pub struct SecurityOptions {
    /// The password of `default` where the metadata has none for it.
    pub password: Option<Zeroizing<String>>,
    /// Whether everybody has to be known, also while there is no password for `default`.
    pub enabled: bool,
    /// After how long without the metadata nobody is known.
    pub unheard_max: Duration,
    /// Where random bytes come from.
    pub draw: Draw,
    /// Where passwords are hashed, beside those who wait for it.
    pub tasks: Tasks,
}

/// Fills a slice with random bytes that nobody can guess.
pub type Draw = fn(&mut [u8]) -> io::Result<()>;

/// Who may do what in this cluster.
pub struct Security {
    store: Arc<dyn Store>,
    /// The keys that there are, of users and of followers.
    pub keys: Arc<Keys>,
    passwords: Passwords,
    /// The password of the settings.
    own_password: Password,
    /// What is noted of who came and what was changed.
    pub audit: Audit,
    options: SecurityOptions,
    /// The metadata's position, plus one, up to which the directory is known to hold.
    seen: AtomicU64,
    /// How often the directory changed.
    version: AtomicU64,
    directory: RwLock<Arc<Directory>>,
    /// The changes that the directory was read at. One reads for all.
    reading: Mutex<Option<[u64; 3]>>,
    /// Where others were faster one changes users, roles or keys at a time.
    again: tokio::sync::Mutex<()>,
    /// Held by all who change users, roles or keys, and alone by who sets the password of `default` on this node: each
    /// counts on what the other changes where it says who is left.
    changing: tokio::sync::RwLock<()>,
}

impl Security {
    /// Over the metadata, on a machine of so many processors.
    ///
    /// # Errors
    /// Where the metadata cannot be read, or nothing can be drawn.
    pub fn new(
        store: Arc<dyn Store>,
        audit: Audit,
        mut options: SecurityOptions,
        processors: usize,
    ) -> Result<Self, Error> {
        let mut drawn = [0; 32];
        (options.draw)(&mut drawn).map_err(|error| Error::internal(error.to_string()))?;
        let passwords = Passwords::new(&drawn, processors, options.tasks.clone());
        let password = options.password.take();
        let this = Self {
            keys: Arc::new(Keys::new(Arc::clone(&store))),
            store,
            passwords,
            own_password: Password::new(password.as_ref().map(|it| it.as_str())),
            audit,
            options,
            seen: AtomicU64::new(0),
            version: AtomicU64::new(0),
            directory: RwLock::default(),
            reading: Mutex::new(None),
            again: tokio::sync::Mutex::default(),
            changing: tokio::sync::RwLock::default(),
        };
        this.read(this.store.position())?;
        Ok(this)
    }

    /// Random bytes that nobody can guess.
    ///
    /// # Errors
    /// Where the system has none.
    pub fn draw(&self, bytes: &mut [u8]) -> io::Result<()> {
        (self.options.draw)(bytes)
    }

    /// Everybody there is, as far as the metadata is known here.
    #[must_use]
    pub fn directory(&self) -> Arc<Directory> {
        self.follow();
        Arc::clone(&self.directory.read())
    }

    /// What changes whenever somebody's rights may have: to ask [`Self::again`] by.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.follow();
        self.version.load(Acquire)
    }

    fn follow(&self) {
        let position = self.store.position();
        if self.seen.load(Acquire) != position + 1
            && let Err(error) = self.read(position)
        {
            // Who was there before still is: nobody gets in because nobody can be read.
            tracing::error!(%error, "users cannot be read");
        }
    }

    fn read(&self, position: u64) -> Result<(), Error> {
        let mut read = self.reading.lock();
        if self.seen.load(Acquire) > position {
            return Ok(());
        }
        let kinds = [USERS, ROLES, KEYS];
        let mut changes = [0; 3];
        // The changes first: what is newer than they are is read again.
        for (change, kind) in changes.iter_mut().zip(kinds) {
            *change = self.store.change(kind)?;
        }
        if *read != Some(changes) {
            let (users, roles) = (self.store.all(USERS)?, self.store.all(ROLES)?);
            let directory = Directory::read(users, roles, self.keys.all()?, changes);
            *self.directory.write() = Arc::new(directory);
            self.version.fetch_add(1, Release);
            *read = Some(changes);
        }
        self.seen.store(position + 1, Release);
        Ok(())
    }

    /// Who somebody is that says nothing of itself; none where everybody has to.
    #[must_use]
    pub fn anonymous(&self) -> Option<Arc<Principal>> {
        let directory = self.directory();
        self.anonymous_in(&directory, DEFAULT).cloned()
    }

    fn anonymous_in<'a>(&self, directory: &'a Directory, name: &str) -> Option<&'a Arc<Principal>> {
        directory.first(name).filter(|_| self.takes_anybody(directory))
    }

    fn takes_anybody(&self, directory: &Directory) -> bool {
        let has_password = directory.user(DEFAULT).is_some_and(|it| !it.passwords.is_empty());
        !self.options.enabled && !has_password && !self.own_password.is_required()
    }

    /// The first user by what the settings say: by their password where they have one, else by none.
    fn of_settings(&self, directory: &Directory, name: &str) -> Option<Arc<Principal>> {
        let number = self.own_password.number();
        match self.own_password.is_required() {
            true => by_settings(directory, name, Some(number)),
            false => self.anonymous_in(directory, name).cloned(),
        }
    }

    /// Whether nobody has to say who it is.
    #[must_use]
    pub fn is_open(&self) -> bool {
        let directory = self.directory();
        self.takes_anybody(&directory) && directory.named(DEFAULT).is_some()
    }

    /// Whether `default` gets in by what the settings say, and not by a password in the metadata.
    fn default_has_way(&self, directory: &Directory) -> bool {
        let has_kept = directory.user(DEFAULT).is_some_and(|it| !it.passwords.is_empty());
        !has_kept && (self.own_password.is_required() || !self.options.enabled)
    }

    /// Who has this name and this password.
    ///
    /// # Errors
    /// Says nothing of what of it was wrong; it takes as long for names that nobody has.
    pub async fn log_in(&self, name: &str, password: &[u8]) -> Result<Arc<Principal>, Refused> {
        let directory = self.directory();
        let kept = kept_name(name);
        let hashes = directory.user(kept).map(|user| user.passwords.clone()).unwrap_or_default();
        if kept == DEFAULT && hashes.is_empty() {
            // Whom it would be first: a password that is set meanwhile has another number.
            let found = self.of_settings(&directory, name);
            let is_right = !self.own_password.is_required() || self.own_password.is(password);
            return found.filter(|_| is_right).ok_or(Refused::Unknown);
        }
        self.check_heard()?;
        // Of somebody who may not log in no password is right.
        let hashes = if directory.named(name).is_some() { hashes } else { Vec::new() };
        let right = self.passwords.prove(kept, &hashes, password).await?;
        let right = right.and_then(|place| hashes.get(place)).ok_or(Refused::Unknown)?;
        directory.named_by(name, Some(mark(right))).cloned().ok_or(Refused::Unknown)
    }

    /// Who comes by an API key.
    ///
    /// # Errors
    /// Says nothing of what of it was wrong.
    pub fn by_key(&self, credential: &Credential) -> Result<Arc<Principal>, Refused> {
        self.check_heard()?;
        let directory = self.directory();
        let (key, principal) = directory.of_key(&credential.id).ok_or(Refused::Unknown)?;
        let holds = key.ended_ms(self.keys.now_ms()).is_none();
        (key.is_opened_by(credential.secret()) && holds)
            .then(|| Arc::clone(principal))
            .ok_or(Refused::Unknown)
    }

    /// The same somebody as everybody is now; by no password where the one that it came by holds no longer.
    ///
    /// # Errors
    /// Where it is not there any more or may not log in.
    pub fn again(&self, principal: &Principal) -> Result<Arc<Principal>, Refused> {
        self.again_in(&self.directory(), principal)
    }

    fn again_in(
        &self,
        directory: &Directory,
        principal: &Principal,
    ) -> Result<Arc<Principal>, Refused> {
        let again = match &principal.via {
            Via::Anonymous => self.anonymous_in(directory, &principal.name).cloned(),
            Via::Settings(number) => {
                let has_kept = directory.user(DEFAULT).is_some_and(|it| !it.passwords.is_empty());
                let holds = !has_kept && self.own_password.is_required();
                let number = number.filter(|it| holds && *it == self.own_password.number());
                by_settings(directory, &principal.name, number)
            }
            Via::Password(mark) => {
                self.check_heard()?;
                let again = directory.named_by(&principal.name, *mark);
                again.filter(|it| it.user_id == principal.user_id).cloned()
            }
            Via::ApiKey(id, _) => {
                self.check_heard()?;
                let now_ms = self.keys.now_ms();
                let again = directory.of_key(id).filter(|(key, _)| key.ended_ms(now_ms).is_none());
                again.map(|(_, again)| Arc::clone(again))
            }
        };
        again.ok_or(Refused::Unknown)
    }

    /// The same, where what it came by holds still.
    fn proven_in(
        &self,
        directory: &Directory,
        principal: &Principal,
    ) -> Result<Arc<Principal>, Refused> {
        let again = self.again_in(directory, principal)?;
        match again.via {
            Via::Settings(None) | Via::Password(None) => Err(Refused::Unknown),
            _ => Ok(again),
        }
    }

    /// Whether what somebody came by holds still.
    #[must_use]
    pub fn is_proven(&self, principal: &Principal) -> bool {
        self.proven_in(&self.directory(), principal).is_ok()
    }

    /// The same somebody as everybody is when this is asked, for what operators do: a node that stood still would take it
    /// from somebody who is gone, or by a password that holds no longer. Of those that the metadata has nothing of, what
    /// this node knows holds.
    ///
    /// # Errors
    /// Where it is not there any more or may not log in, or that cannot be found out now.
    pub async fn confirm(&self, principal: &Principal) -> Result<Arc<Principal>, Refused> {
        if principal.is_kept() {
            self.hear().await?;
        }
        self.proven_in(&self.directory(), principal)
    }

    /// Waits until all is known here that was acknowledged before this call.
    ///
    /// # Errors
    /// Where that cannot be found out now.
    pub async fn hear(&self) -> Result<(), Refused> {
        if self.store.hear().await { Ok(()) } else { Err(Refused::Unheard) }
    }

    /// # Errors
    /// Where this node does not know who there is.
    pub fn check_heard(&self) -> Result<(), Refused> {
        let is_heard = self.store.unheard() <= self.options.unheard_max;
        if is_heard { Ok(()) } else { Err(Refused::Unheard) }
    }
}

/// The first user by the password of the settings that has this number.
fn by_settings(directory: &Directory, name: &str, number: Option<u64>) -> Option<Arc<Principal>> {
    let first = directory.first(name)?;
    Some(Arc::new(Principal { via: Via::Settings(number), ..(**first).clone() }))
}
