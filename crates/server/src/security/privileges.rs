//! What may be done to an index and to the cluster: sets of privileges, and the names that Elasticsearch gives
//! them. Which user has which is [`super::role`]'s to say, which route needs which the routes'.

use super::faults::Fault;

/// What may be done to an index. The names stand for sets: `write` is `index` and `delete`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexPrivileges(u16);

/// What may be done to the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClusterPrivileges(u16);

macro_rules! sets {
    ($set:ident) => {
        impl $set {
            /// Nothing.
            pub const NONE: Self = Self(0);

            /// Both together.
            #[must_use]
            pub const fn and(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// What is in both.
            #[must_use]
            pub const fn within(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// Whether everything of the other is in it.
            #[must_use]
            pub const fn has(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether anything of the other is in it.
            #[must_use]
            pub const fn has_any(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Whether there is nothing in it.
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0 == 0
            }

            /// The privilege of this name.
            ///
            /// # Errors
            /// Names those that there are.
            pub fn named(name: &str) -> Result<Self, Fault> {
                let found = Self::NAMES.iter().find(|(known, _)| *known == name);
                found.map(|(_, set)| *set).ok_or_else(|| Self::unknown(name))
            }

            /// The names of those that have all of it, between commas: what a refusal says would help.
            #[must_use]
            pub fn granting(self) -> String {
                let names = Self::NAMES.iter().filter(|(_, set)| set.has(self));
                names.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
            }

            /// The names that there are.
            #[must_use]
            pub fn all_names() -> Vec<&'static str> {
                Self::NAMES.iter().map(|(name, _)| *name).collect()
            }
        }
    };
}

sets!(IndexPrivileges);
sets!(ClusterPrivileges);

impl IndexPrivileges {
    /// Documents and rows are read and searched.
    pub const READ: Self = Self(1);
    /// Documents are put and changed, rows written.
    pub const INDEX: Self = Self(1 << 1);
    /// Documents and rows are deleted.
    pub const DELETE: Self = Self(1 << 2);
    /// The index is created.
    pub const CREATE_INDEX: Self = Self(1 << 3);
    /// The index is deleted.
    pub const DELETE_INDEX: Self = Self(1 << 4);
    /// Its mapping, settings and aliases are read.
    pub const VIEW_METADATA: Self = Self(1 << 5);
    /// Its figures are read.
    pub const MONITOR: Self = Self(1 << 6);
    /// It is refreshed, flushed and merged.
    pub const MAINTENANCE: Self = Self(1 << 7);
    /// Its mapping, settings and aliases are changed, it is opened and closed, it follows another.
    const ADMIN: Self = Self(1 << 8);
    /// All that is not a document: `manage`.
    pub const MANAGE: Self = Self::ADMIN
        .and(Self::MONITOR)
        .and(Self::VIEW_METADATA)
        .and(Self::MAINTENANCE)
        .and(Self::CREATE_INDEX)
        .and(Self::DELETE_INDEX);
    /// Documents are put, changed and deleted: `write`.
    pub const WRITE: Self = Self::INDEX.and(Self::DELETE);
    /// Everything.
    pub const ALL: Self = Self::MANAGE.and(Self::WRITE).and(Self::READ);

    const NAMES: &[(&'static str, Self)] = &[
        ("all", Self::ALL),
        ("create_index", Self::CREATE_INDEX),
        ("delete", Self::DELETE),
        ("delete_index", Self::DELETE_INDEX),
        ("index", Self::INDEX),
        ("maintenance", Self::MAINTENANCE),
        ("manage", Self::MANAGE),
        ("monitor", Self::MONITOR),
        ("none", Self::NONE),
        ("read", Self::READ),
        ("view_index_metadata", Self::VIEW_METADATA),
        ("write", Self::WRITE),
    ];

    fn unknown(name: &str) -> Fault {
        Fault(format!(
            "unknown index privilege [{name}]. a privilege must be one of the predefined fixed indices \
             privileges [{}]",
            Self::all_names().join(",")
        ))
    }
}

impl ClusterPrivileges {
    /// Nodes, health, settings, tasks and statistics are read.
    pub const MONITOR: Self = Self(1);
    /// Settings are changed, tasks cancelled, other clusters named.
    const ADMIN: Self = Self(1 << 1);
    /// Templates are changed.
    pub const TEMPLATES: Self = Self(1 << 2);
    /// Tables of other clusters are followed.
    pub const CCR: Self = Self(1 << 3);
    /// API keys of one's own are made and taken back.
    pub const OWN_API_KEYS: Self = Self(1 << 4);
    /// Those of all users.
    pub const API_KEYS: Self = Self(1 << 5).and(Self::OWN_API_KEYS);
    /// Users and roles are changed.
    pub const SECURITY: Self = Self(1 << 6).and(Self::API_KEYS);
    /// All but security: `manage`.
    pub const MANAGE: Self = Self::ADMIN.and(Self::MONITOR).and(Self::TEMPLATES).and(Self::CCR);
    /// Everything.
    pub const ALL: Self = Self::MANAGE.and(Self::SECURITY);

    const NAMES: &[(&'static str, Self)] = &[
        ("all", Self::ALL),
        ("manage", Self::MANAGE),
        ("manage_api_key", Self::API_KEYS),
        ("manage_ccr", Self::CCR),
        ("manage_index_templates", Self::TEMPLATES),
        ("manage_own_api_key", Self::OWN_API_KEYS),
        ("manage_security", Self::SECURITY),
        ("monitor", Self::MONITOR),
        ("none", Self::NONE),
    ];

    fn unknown(name: &str) -> Fault {
        Fault(format!(
            "unknown cluster privilege [{name}]. a privilege must be one of the predefined cluster \
             privilege names [{}]",
            Self::all_names().join(",")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_for_sets() {
        let index = |name| IndexPrivileges::named(name).unwrap();
        assert!(index("write").has(index("index")) && index("write").has(index("delete")));
        assert!(!index("write").has_any(index("read")) && !index("manage").has_any(index("write")));
        for (_, set) in IndexPrivileges::NAMES {
            assert!(index("all").has(*set));
        }
        let cluster = |name| ClusterPrivileges::named(name).unwrap();
        assert!(cluster("manage").has(cluster("monitor")));
        assert!(!cluster("manage").has_any(cluster("manage_security")));
        assert!(cluster("manage_security").has(cluster("manage_own_api_key")));
        for (_, set) in ClusterPrivileges::NAMES {
            assert!(cluster("all").has(*set));
        }
        assert!(index("none").is_none() && cluster("none").is_none());
    }

    #[test]
    fn refusals_say_what_would_help() {
        assert_eq!(IndexPrivileges::READ.granting(), "all,read");
        assert_eq!(IndexPrivileges::INDEX.granting(), "all,index,write");
        assert_eq!(ClusterPrivileges::MONITOR.granting(), "all,manage,monitor");
        let fault = IndexPrivileges::named("reed").unwrap_err();
        assert!(fault.0.starts_with("unknown index privilege [reed]") && fault.0.contains("read,"));
        assert!(ClusterPrivileges::named("manage_ml").is_err());
    }
}
