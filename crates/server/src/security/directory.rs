//! The users, roles and keys that there are, as one reading of the metadata had them, and what each may do: looked
//! up by name, computed once. Pure: it is built anew when any of them changes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::acl::Acl;
use super::keys::Key;
use super::passwords::mark;
use super::principal::{OnRows, Principal, Via};
use super::privileges::ClusterPrivileges;
use super::role::{Rights, Role, SUPERUSER};
use super::user::{DEFAULT, ELASTIC, User, kept_name};

/// What one reading of the metadata had.
#[derive(Clone, Debug, Default)]
pub struct Directory {
    users: BTreeMap<String, User>,
    roles: BTreeMap<String, Role>,
    keys: HashMap<String, Key>,
    /// By the names that are given, of those who may log in.
    principals: HashMap<String, Named>,
    of_keys: HashMap<String, Arc<Principal>>,
    /// The first user by either name, for those who did not prove anything.
    firsts: Vec<Arc<Principal>>,
    /// The changes of users, roles and keys that it was read at.
    pub changes: [u64; 3],
}

/// A user that may log in.
#[derive(Clone, Debug)]
struct Named {
    /// Whatever its password.
    any: Arc<Principal>,
    /// By the mark of each password.
    by_password: Vec<(u64, Arc<Principal>)>,
}

impl Named {
    fn new(principal: Principal, passwords: &[String]) -> Self {
        let by_mark = |hash: &String| {
            let mark = mark(hash);
            (mark, Arc::new(Principal { via: Via::Password(Some(mark)), ..principal.clone() }))
        };
        let by_password = passwords.iter().map(by_mark).collect();
        Self { any: Arc::new(principal), by_password }
    }
}

impl Directory {
    /// Of the objects that are kept. What cannot be read is nobody, gives nothing and opens nothing, which is
    /// logged.
    #[must_use]
    pub fn read(
        users: Vec<(String, Value)>,
        roles: Vec<(String, Value)>,
        keys: Vec<Key>,
        changes: [u64; 3],
    ) -> Self {
        let users = users.into_iter().map(|(name, value)| {
            let user = serde_json::from_value::<User>(value).unwrap_or_else(|_| {
                tracing::error!(name, "a user in the metadata cannot be read: it may do nothing");
                User { enabled: false, ..User::new(&name) }
            });
            (name.clone(), User { name, ..user })
        });
        let roles = roles.into_iter().map(|(name, value)| {
            let role = Role::parse(&value).unwrap_or_else(|fault| {
                tracing::error!(name, %fault, "a role in the metadata cannot be read: it gives nothing");
                Role::default()
            });
            (name, role)
        });
        let keys = keys.into_iter().map(|key| (key.id.clone(), key)).collect();
        Self { users: users.collect(), roles: roles.collect(), keys, changes, ..Self::default() }
            .with_principals()
    }

    fn with_principals(mut self) -> Self {
        // They are there from the start.
        self.users.entry(DEFAULT.to_owned()).or_insert_with(User::first);
        self.roles.insert(SUPERUSER.to_owned(), Role::superuser());
        self.principals.clear();
        self.firsts.clear();
        for user in self.users.values().filter(|user| user.enabled) {
            let principal = self.principal(user);
            if user.name == DEFAULT {
                let elastic = Principal { name: ELASTIC.to_owned(), ..principal.clone() };
                for named in [&principal, &elastic] {
                    let first = Principal { via: Via::Anonymous, ..named.clone() };
                    self.firsts.push(Arc::new(first));
                }
                let elastic = Named::new(elastic, &user.passwords);
                self.principals.insert(ELASTIC.to_owned(), elastic);
            }
            let named = Named::new(principal, &user.passwords);
            self.principals.insert(user.name.clone(), named);
        }
        let of_keys = self
            .keys
            .values()
            .filter_map(|key| Some((key.id.clone(), Arc::new(self.principal_of_key(key)?))));
        self.of_keys = of_keys.collect();
        self
    }

    fn principal(&self, user: &User) -> Principal {
        let rights = Rights::of(user.roles.iter().filter_map(|name| self.roles.get(name)));
        let on_rows = user.acl.as_ref().map_or(OnRows::Roles, |rules| {
            let acl = Acl::parse(rules.iter().map(String::as_str)).unwrap_or_else(|error| {
                tracing::error!(user = user.name, %error, "rules of a user cannot be read: they allow nothing");
                Acl::nothing()
            });
            OnRows::Acl(acl)
        });
        Principal {
            name: user.name.clone(),
            roles: user.roles.clone(),
            may_all: rights.are_all(),
            rights,
            on_rows,
            via: Via::Password(None),
            user_id: user.id.clone(),
        }
    }

    /// None for a key of a follower, and for one whose user is not there or may not log in.
    fn principal_of_key(&self, key: &Key) -> Option<Principal> {
        let owner = key.owner.as_ref()?;
        self.named(&owner.user).filter(|user| user.user_id == owner.user_id)?;
        let read = |roles: &serde_json::Map<String, Value>| {
            let roles: Option<Vec<Role>> = roles.values().map(|it| Role::parse(it).ok()).collect();
            roles.map(|roles| Rights::of(roles.iter()))
        };
        let limit = read(&owner.limited_by)?;
        let rights =
            if owner.roles.is_empty() { limit } else { read(&owner.roles)?.limited_by(limit) };
        Some(Principal {
            name: owner.user.clone(),
            roles: Vec::new(),
            may_all: rights.are_all(),
            rights,
            on_rows: OnRows::Roles,
            via: Via::ApiKey(key.id.clone(), key.name.clone()),
            user_id: String::new(),
        })
    }

    /// A user by any of its names.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(kept_name(name))
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    /// A role.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name)
    }

    /// All roles, by name.
    pub fn roles(&self) -> impl Iterator<Item = (&String, &Role)> {
        self.roles.iter()
    }

    /// Who has this name, where it may log in.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<Principal>> {
        self.principals.get(name).map(|named| &named.any)
    }

    /// The same by the password with this mark; by none where it has no such password.
    #[must_use]
    pub fn named_by(&self, name: &str, mark: Option<u64>) -> Option<&Arc<Principal>> {
        let named = self.principals.get(name)?;
        let by_it = named.by_password.iter().find(|(it, _)| Some(*it) == mark);
        Some(by_it.map_or(&named.any, |(_, principal)| principal))
    }

    /// The first user under one of its names, as it comes without a password; none where it may not log in.
    #[must_use]
    pub fn first(&self, name: &str) -> Option<&Arc<Principal>> {
        self.firsts.iter().find(|first| first.name == name)
    }

    /// Who comes by the key of this id. Whether the key holds, and was shown with its secret, is not looked at.
    #[must_use]
    pub fn of_key(&self, id: &str) -> Option<(&Key, &Arc<Principal>)> {
        Some((self.keys.get(id)?, self.of_keys.get(id)?))
    }

    /// The same directory after one user was changed or taken away.
    #[must_use]
    pub fn with_user(&self, name: &str, user: Option<User>) -> Self {
        let mut changed = self.clone();
        match user {
            Some(user) => changed.users.insert(name.to_owned(), user),
            None => changed.users.remove(name),
        };
        changed.with_principals()
    }

    /// The same directory after one role was changed or taken away.
    #[must_use]
    pub fn with_role(&self, name: &str, role: Option<Role>) -> Self {
        let mut changed = self.clone();
        match role {
            Some(role) => changed.roles.insert(name.to_owned(), role),
            None => changed.roles.remove(name),
        };
        changed.with_principals()
    }

    /// Whether somebody can log in who may change users. `default_has_way`: whether `default` gets in without a
    /// password that is kept here.
    #[must_use]
    pub fn has_administrator(&self, default_has_way: bool) -> bool {
        self.users.values().any(|user| {
            let has_way = !user.passwords.is_empty() || (user.name == DEFAULT && default_has_way);
            let may = |it: &Arc<Principal>| it.may_on_cluster(ClusterPrivileges::SECURITY);
            has_way && self.named(&user.name).is_some_and(may)
        })
    }

    /// What the roles of somebody are now, as a key that it makes is limited by.
    #[must_use]
    pub fn descriptors(&self, principal: &Principal) -> serde_json::Map<String, Value> {
        let found = principal.roles.iter().filter_map(|name| Some((name, self.roles.get(name)?)));
        found.map(|(name, role)| (name.clone(), role.descriptor())).collect()
    }
}
