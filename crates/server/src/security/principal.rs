//! Who asks, and what may be done in its name. Rights are those of the moment when it was found out who it is; whoever
//! keeps a principal for longer asks [`super::Security`] again when the users have changed.

use std::sync::Arc;

use super::acl::Acl;
use super::privileges::{ClusterPrivileges, IndexPrivileges};
use super::role::Rights;
use super::user::kept_name;

/// How it was found out who somebody is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// Nobody asked: the node takes everybody.
    Anonymous,
    /// By the password of the settings: its number (`auth::Password`); none where that holds no longer.
    Settings(Option<u64>),
    /// By a password that the metadata has: its mark (`passwords::mark`); none where that was taken away since.
    Password(Option<u64>),
    /// By an API key: its id and its name.
    ApiKey(String, String),
}

/// What somebody may do by RESP.
#[derive(Clone, Debug, PartialEq)]
pub enum OnRows {
    /// What the rules say that it was given.
    Acl(Acl),
    /// In each database what the roles give on the table of its name.
    Roles,
}

/// Who asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Principal {
    /// Its name, as it was given.
    pub name: String,
    /// The names of its roles.
    pub roles: Vec<String>,
    /// What it may do.
    pub rights: Rights,
    /// What it may do by RESP.
    pub on_rows: OnRows,
    /// Whether it may do everything, everywhere.
    pub may_all: bool,
    /// How it came.
    pub via: Via,
    /// Which user it is: one of the same name that is made later is another.
    pub user_id: String,
}

#[cfg(test)]
impl Principal {
    /// The user `bob` with the one role `r`, which gives this.
    pub(crate) fn with_role(role: &serde_json::Value) -> Self {
        let role = super::role::Role::parse(role).expect("a role");
        let rights = Rights::of([&role].into_iter());
        Self {
            name: "bob".to_owned(),
            roles: vec!["r".to_owned()],
            may_all: rights.are_all(),
            rights,
            on_rows: OnRows::Roles,
            via: Via::Password(None),
            user_id: String::new(),
        }
    }
}

impl Principal {
    /// Whether it may do this to the cluster.
    #[must_use]
    pub fn may_on_cluster(&self, wanted: ClusterPrivileges) -> bool {
        self.may_all || self.rights.cluster().has(wanted)
    }

    /// Whether it may do this to the index or the alias of this name.
    #[must_use]
    pub fn may_on_index(&self, name: &str, wanted: IndexPrivileges) -> bool {
        self.may_all || self.rights.on_index(name).has(wanted)
    }

    /// Whether it may do this to every index whose name fits the pattern.
    #[must_use]
    pub fn may_on_all(&self, pattern: &str, wanted: IndexPrivileges) -> bool {
        self.may_all || self.rights.on_pattern(pattern).has(wanted)
    }

    /// Whether it may do the same as another, whatever they came by.
    #[must_use]
    pub fn may_the_same(&self, other: &Self) -> bool {
        *self == Self { via: self.via.clone(), ..other.clone() }
    }

    /// Whether the metadata has what it came by.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        matches!(self.via, Via::Password(_) | Via::ApiKey(..))
    }

    /// As the owner of what it leaves here between two requests: a key is not its user, and another user of that
    /// name not the one before.
    #[must_use]
    pub fn owner(&self) -> String {
        match &self.via {
            Via::ApiKey(id, _) => format!("_key/{id}"),
            _ => format!("{}/{}", kept_name(&self.name), self.user_id),
        }
    }

    /// As the audit names it.
    #[must_use]
    pub fn named(&self) -> String {
        match &self.via {
            Via::ApiKey(id, _) => format!("{} (API key {id})", self.name),
            _ => self.name.clone(),
        }
    }

    /// In the words of a refusal.
    #[must_use]
    pub fn words(&self) -> String {
        let roles = self.roles.join(",");
        match &self.via {
            Via::ApiKey(id, _) => format!("API key id [{id}] of user [{}]", self.name),
            _ => format!("user [{}] with effective roles [{roles}]", self.name),
        }
    }
}

/// What a request may do to indices: who asks, and what its route does to them.
#[derive(Clone, Debug)]
pub struct Grant {
    principal: Arc<Principal>,
    wanted: IndexPrivileges,
    action: &'static str,
}

impl Grant {
    /// For an action that does this to an index; none: the indices are not judged one by one.
    #[must_use]
    pub fn new(principal: Arc<Principal>, wanted: IndexPrivileges, action: &'static str) -> Self {
        Self { principal, wanted, action }
    }

    /// The same for another thing that is done on the way, under its own name.
    #[must_use]
    pub fn to(&self, wanted: IndexPrivileges, action: &'static str) -> Self {
        Self { principal: Arc::clone(&self.principal), wanted, action }
    }

    /// Who asks.
    #[must_use]
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Whether it holds for the index or the alias of this name.
    #[must_use]
    pub fn holds_for(&self, name: &str) -> bool {
        self.wanted.is_none() || self.principal.may_on_index(name, self.wanted)
    }

    /// Why it does not, in Elasticsearch's words.
    #[must_use]
    pub fn refusal(&self, name: &str) -> String {
        format!(
            "action [{}] is unauthorized for {} on indices [{name}], this action is granted by the index \
             privileges [{}]",
            self.action,
            self.principal.words(),
            self.wanted.granting()
        )
    }
}
