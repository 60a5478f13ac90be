//! Users, roles and keys changed as they stand when that is written, by whom may still change them then; and what is never
//! taken away: the role that may do everything, and the last user that may change others.

use std::sync::Arc;

use plimsoll_index::Error;
use serde_json::{Map, Value};
use tokio::sync::RwLockWriteGuard;

use super::directory::Directory;
use super::faults::Fault;
use super::keys::{Credential, DRAWN_BYTES, Invalidated, Key, KeySpec, KeysError, Which};
use super::passwords::{SALT_BYTES, Unproven, check_hash};
use super::principal::{Principal, Via};
use super::privileges::ClusterPrivileges;
use super::role::{Role, SUPERUSER, check_name};
use super::store::{ATTEMPTS_MAX, Changes, KEYS, ROLES, Seen, USERS, others_change};
use super::user::{DEFAULT, User, UserSpec, check_password, kept_name};
use super::{Refused, Security};

/// The most users, and the most roles.
const OBJECTS_MAX: usize = 1000;

/// Why a change was not made.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// It makes no sense.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// Nobody would be left who may change users.
    #[error(
        "nobody would be left who may change users: another user with [manage_security] has to be there first"
    )]
    LastAdministrator,
    /// Who makes it is not there any more, or that cannot be found out.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Who makes it has other rights by now.
    #[error("the rights of the user were changed while the request came")]
    OtherRights,
    /// A key was not made.
    #[error(transparent)]
    Key(#[from] KeysError),
    /// A password cannot be hashed now.
    #[error(transparent)]
    Unproven(#[from] Unproven),
    /// The metadata cannot be written.
    #[error("{0}")]
    Failed(#[from] Error),
}

impl Security {
    fn draw_salt(&self) -> Result<[u8; SALT_BYTES], ChangeError> {
        let mut salt = [0; SALT_BYTES];
        let drawn = self.draw(&mut salt);
        drawn.map_err(|error| Error::internal(error.to_string()))?;
        Ok(salt)
    }

    /// The hash of a new password, as it is kept.
    ///
    /// # Errors
    /// Where it cannot be computed now.
    pub async fn hash(&self, password: String) -> Result<String, ChangeError> {
        Ok(self.passwords.hash(password, self.draw_salt()?).await?)
    }

    /// The hashes of a user that a password fits.
    ///
    /// # Errors
    /// Where it cannot be found out now.
    pub async fn fitting(&self, kept: &str, password: &[u8]) -> Result<Vec<String>, ChangeError> {
        let directory = self.directory();
        let mut fitting = Vec::new();
        for hash in directory.user(kept).map(|user| &user.passwords).into_iter().flatten() {
            if self.passwords.fits(std::slice::from_ref(hash), password).await?.is_some() {
                fitting.push(hash.clone());
            }
        }
        Ok(fitting)
    }

    /// Proposes another password for `default` on this node, where the metadata has none for it; an empty one: none.
    /// It lets nobody in yet. False where it is too long.
    #[must_use]
    pub fn propose_own_password(&self, password: &[u8]) -> bool {
        self.own_password.propose(password)
    }

    /// Nobody else changes who there is, or proposes a password, until the guard goes.
    pub async fn changing_alone(&self) -> RwLockWriteGuard<'_, ()> {
        self.changing.write().await
    }

    /// Takes no password that was proposed.
    pub fn forget_own_password(&self) {
        let _ = self.own_password.take_proposed();
    }

    /// Sets the password that was proposed; false where none was, or no other than there is. Whoever proposed it has to
    /// be there still, by what the whole cluster knows by then, and somebody who may change users.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn set_own_password(&self, by: &Principal) -> Result<bool, ChangeError> {
        let Some(proposed) = self.own_password.take_proposed() else { return Ok(false) };
        let opens = self.options.enabled && !proposed.is_required();
        if opens || by.is_kept() {
            self.hear().await?;
        }
        let directory = self.directory();
        if by.is_kept() {
            self.check_same(&directory, by)?;
        }
        if opens {
            let had = directory.has_administrator(self.default_has_way(&directory));
            check_left(had, directory.has_administrator(false))?;
        }
        self.own_password.set(&proposed);
        Ok(true)
    }

    /// Whom somebody is who has set it, and so has shown it; none where its own password is another.
    #[must_use]
    pub fn by_own_password(&self, by: &Principal) -> Option<Arc<Principal>> {
        let directory = self.directory();
        match by.via {
            Via::Settings(_) | Via::Anonymous => self.of_settings(&directory, &by.name),
            Via::Password(_) | Via::ApiKey(..) => None,
        }
    }

    /// Whether somebody is who it was, and may do what it might.
    fn check_same(&self, directory: &Directory, by: &Principal) -> Result<(), ChangeError> {
        let again = self.proven_in(directory, by)?;
        if *again == *by { Ok(()) } else { Err(ChangeError::OtherRights) }
    }

    /// To change users, roles and keys in the name of whoever asks.
    #[must_use]
    pub fn changing<'a>(&'a self, by: &'a Principal) -> Changing<'a> {
        Changing { security: self, by: Some(by) }
    }

    /// The same in the node's own name.
    #[must_use]
    pub fn changing_itself(&self) -> Changing<'_> {
        Changing { security: self, by: None }
    }

    fn check_administrator(
        &self,
        before: &Directory,
        after: &Directory,
    ) -> Result<(), ChangeError> {
        let had = before.has_administrator(self.default_has_way(before));
        let has = after.has_administrator(self.default_has_way(after));
        check_left(had, has)
    }
}

/// Changes users, roles and keys in somebody's name. A node that stood still knows nothing of whom others took away
/// meanwhile. So who asks is looked at in each attempt, and the change is written only where no user, role or key that
/// this stands on was changed since: what comes too late changes nothing.
#[derive(Clone, Copy)]
pub struct Changing<'a> {
    security: &'a Security,
    /// None: the node itself.
    by: Option<&'a Principal>,
}

impl Changing<'_> {
    /// What must be as it is in the directory when a change is written: whether somebody is left who may change users
    /// is a matter of users and roles alike, and so is what somebody may do.
    fn look(&self, directory: &Directory) -> Result<Seen, ChangeError> {
        let [users, roles, keys] = directory.changes;
        let mut seen = vec![(USERS, users), (ROLES, roles)];
        if let Some(by) = self.by {
            if matches!(by.via, Via::ApiKey(..)) {
                seen.push((KEYS, keys));
            }
            self.security.check_same(directory, by)?;
        }
        Ok(seen)
    }

    /// Writes what `plan` makes of everybody there is, as that stands when it is written; none: nothing is to be
    /// written. What is handed back is the plan's to say. That nothing has to be written, or may be, is said only when
    /// this node has heard what the others know.
    async fn write<T>(
        &self,
        kind: &'static str,
        plan: impl Fn(&Directory) -> Result<(Option<Changes>, T), ChangeError>,
    ) -> Result<T, ChangeError> {
        let security = self.security;
        let mut has_heard = self.by.is_none();
        let _changing = security.changing.read().await;
        let mut turn = None;
        for _ in 0..ATTEMPTS_MAX {
            let directory = security.directory();
            let planned = self.look(&directory).and_then(|seen| Ok((seen, plan(&directory)?)));
            match planned {
                Ok((seen, (Some(changes), outcome))) => {
                    if security.store.put(kind, changes, seen).await? {
                        return Ok(outcome);
                    }
                    // Others were faster: from here on one after the other.
                    has_heard = true;
                    if turn.is_none() {
                        turn = Some(security.again.lock().await);
                    }
                }
                said if has_heard => return said.map(|(_, (_, outcome))| outcome),
                _ => {
                    security.hear().await?;
                    has_heard = true;
                }
            }
        }
        Err(others_change().into())
    }

    /// The hash of a user's new password: the one that there is where it is no other, so that nobody who came by it has
    /// to come again. Who may change its own alone waits for others like it.
    async fn hash(&self, kept: &str, password: String) -> Result<String, ChangeError> {
        let directory = self.security.directory();
        let hashes = directory.user(kept).map_or(&[][..], |user| &user.passwords);
        let passwords = &self.security.passwords;
        let may_others = |by: &Principal| by.may_on_cluster(ClusterPrivileges::SECURITY);
        if let Some(place) = passwords.proven(kept, hashes, password.as_bytes()) {
            return Ok(hashes[place].clone());
        }
        let _own = match self.by.is_none_or(may_others) {
            true => None,
            false => Some(passwords.own_turn().await?),
        };
        match passwords.fits(hashes, password.as_bytes()).await? {
            Some(place) => Ok(hashes[place].clone()),
            None => self.security.hash(password).await,
        }
    }

    /// Puts a user, or changes one: says whether it is new. Not the first user, which Elasticsearch keeps apart too.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn put_user(&self, name: &str, mut spec: UserSpec) -> Result<bool, ChangeError> {
        check_name("User", name)?;
        let kept = kept_name(name);
        if kept == DEFAULT {
            let what = "its password and whether it is enabled may be changed";
            return Err(Fault(format!("User [{name}] is reserved: {what}")).into());
        }
        if let Some(hash) = &spec.password_hash {
            check_hash(hash)?;
        }
        let hash = match spec.password.take() {
            Some(password) => Some(self.hash(kept, password).await?),
            None => None,
        };
        self.change_user(kept, |before| {
            let is_new = before.is_none();
            Ok((Some(spec.clone().change(before, kept, hash.clone())?), is_new))
        })
        .await
    }

    /// Gives a user another password; the old ones hold no longer.
    ///
    /// # Errors
    /// See [`ChangeError`]; false where there is no such user.
    pub async fn set_password(&self, name: &str, password: String) -> Result<bool, ChangeError> {
        check_password(&password)?;
        let hash = self.hash(kept_name(name), password).await?;
        self.change_there(name, |user| user.passwords = vec![hash.clone()]).await
    }

    /// The same with a hash that was made elsewhere.
    ///
    /// # Errors
    /// See [`ChangeError`]; false where there is no such user.
    pub async fn set_hash(&self, name: &str, hash: String) -> Result<bool, ChangeError> {
        check_hash(&hash)?;
        self.change_there(name, |user| user.passwords = vec![hash.clone()]).await
    }

    /// Lets a user log in, or not.
    ///
    /// # Errors
    /// See [`ChangeError`]; false where there is no such user.
    pub async fn enable(&self, name: &str, enabled: bool) -> Result<bool, ChangeError> {
        self.change_there(name, |user| user.enabled = enabled).await
    }

    /// Takes a user away, and back the keys that it made.
    ///
    /// # Errors
    /// See [`ChangeError`]; false where there is no such user.
    pub async fn delete_user(&self, name: &str) -> Result<bool, ChangeError> {
        let kept = kept_name(name);
        if kept == DEFAULT {
            return Err(Fault(format!("user [{name}] is reserved and cannot be deleted")).into());
        }
        let found = self.change_user(kept, |before| Ok((None, before.is_some()))).await?;
        // Another of its name is not to have them.
        let of_user = Which { user: Some(kept.to_owned()), ..Which::default() };
        let ended = self.security.changing_itself().invalidate(&of_user).await?;
        match ended.failed.into_iter().next() {
            Some(error) => Err(ChangeError::Failed(error)),
            None => Ok(found),
        }
    }

    async fn change_there(
        &self,
        name: &str,
        change: impl Fn(&mut User),
    ) -> Result<bool, ChangeError> {
        let kept = kept_name(name);
        self.change_user(kept, |before| {
            let is_there = before.is_some();
            let changed = before.map(|mut user| {
                change(&mut user);
                user
            });
            Ok((changed, is_there))
        })
        .await
    }

    /// Changes a user as it stands when that is written; what is handed back is the caller's to say. Where there
    /// was none and is none, nothing is written.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn change_user<T>(
        &self,
        kept: &str,
        change: impl Fn(Option<User>) -> Result<(Option<User>, T), Fault>,
    ) -> Result<T, ChangeError> {
        let drawn = self.security.draw_salt()?;
        let id: String = drawn.iter().map(|byte| format!("{byte:02x}")).collect();
        self.write(USERS, |directory| {
            let before = directory.user(kept).cloned();
            let (mut after, outcome) = change(before.clone())?;
            if before == after {
                return Ok((None, outcome));
            }
            if before.is_none() {
                if directory.users().count() >= OBJECTS_MAX {
                    return Err(Fault(format!("there are {OBJECTS_MAX} users already")).into());
                }
                after = after.map(|user| User { id: id.clone(), ..user });
            }
            let changed = directory.with_user(kept, after.clone());
            self.security.check_administrator(directory, &changed)?;
            let value = after.map(serde_json::to_value).transpose();
            let value = value.map_err(|error| Error::internal(error.to_string()))?;
            Ok((Some(vec![(kept.to_owned(), value)]), outcome))
        })
        .await
    }

    /// Puts a role: says whether it is new.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn put_role(&self, name: &str, body: &Value) -> Result<bool, ChangeError> {
        check_name("Role", name)?;
        let role = Role::parse(body)?;
        self.change_role(name, Some(role)).await
    }

    /// Takes a role away: false where there is none.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn delete_role(&self, name: &str) -> Result<bool, ChangeError> {
        Ok(!self.change_role(name, None).await?)
    }

    /// Says whether there was none.
    async fn change_role(&self, name: &str, role: Option<Role>) -> Result<bool, ChangeError> {
        if name == SUPERUSER {
            return Err(Fault(format!("Role [{name}] is reserved and may not be used.")).into());
        }
        self.write(ROLES, |directory| {
            let is_new = directory.role(name).is_none();
            if is_new && role.is_none() {
                return Ok((None, true));
            }
            if is_new && directory.roles().count() >= OBJECTS_MAX {
                return Err(Fault(format!("there are {OBJECTS_MAX} roles already")).into());
            }
            let changed = directory.with_role(name, role.clone());
            self.security.check_administrator(directory, &changed)?;
            let value = role.as_ref().map(Role::to_json);
            Ok((Some(vec![(name.to_owned(), value)]), is_new))
        })
        .await
    }

    /// What the roles of whoever asks are now, as a key that it makes is limited by.
    ///
    /// # Errors
    /// Where it is not who it was.
    pub fn descriptors(&self) -> Result<Map<String, Value>, ChangeError> {
        let directory = self.security.directory();
        self.look(&directory)?;
        Ok(self.by.map(|by| directory.descriptors(by)).unwrap_or_default())
    }

    /// Makes a key; gives what opens it, which is not kept.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn make_key(&self, spec: KeySpec) -> Result<(Key, Credential), ChangeError> {
        let mut drawn = [0; DRAWN_BYTES];
        let drawing = self.security.draw(&mut drawn);
        drawing.map_err(|error| Error::internal(error.to_string()))?;
        let look = || self.look(&self.security.directory());
        self.security.keys.make(spec, &drawn, look).await
    }

    /// Takes keys back. Those that were already stay as they are.
    ///
    /// # Errors
    /// See [`ChangeError`].
    pub async fn invalidate(&self, which: &Which) -> Result<Invalidated, ChangeError> {
        // By the key that it takes back it may do nothing any more.
        let own = match self.by.map(|by| &by.via) {
            Some(Via::ApiKey(id, _)) => Some(&**id),
            _ => None,
        };
        if self.by.is_some() {
            // Which there are is to be known first.
            self.security.hear().await?;
        }
        let look = || self.look(&self.security.directory());
        self.security.keys.invalidate(which, own, look).await
    }
}

/// Nobody takes away the last one who may change users; where there is none already, everything helps.
fn check_left(had: bool, has: bool) -> Result<(), ChangeError> {
    if had && !has { Err(ChangeError::LastAdministrator) } else { Ok(()) }
}
