//! What a route needs of whoever asks: one of these stands beside each route, so that none is without. Whether a
//! privilege is there is decided before a body is read; indices that a body names are judged one by one.

use std::sync::Arc;

use plimsoll_index::Error;

use super::call::Parts;
use crate::security::principal::{Grant, Principal};
use crate::security::privileges::{ClusterPrivileges, IndexPrivileges};

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// That it is known who asks.
    Known,
    /// This on the cluster.
    Cluster(ClusterPrivileges),
    /// To have tables of other clusters followed, and the index of the path managed.
    Following,
    /// This on each index that the path names, or else on each that is reached.
    Index(IndexPrivileges),
    /// Any of these on some index; each item of the body says what it needs.
    Items(IndexPrivileges),
}

/// Whoever is known.
pub const KNOWN: Needs = Needs::Known;
/// Figures, health and settings of the cluster are read.
pub const CLUSTER_MONITOR: Needs = Needs::Cluster(ClusterPrivileges::MONITOR);
/// The cluster's settings and work are changed.
pub const CLUSTER_MANAGE: Needs = Needs::Cluster(ClusterPrivileges::MANAGE);
/// Templates are changed.
pub const CLUSTER_TEMPLATES: Needs = Needs::Cluster(ClusterPrivileges::TEMPLATES);
/// Tables of other clusters are followed.
pub const CLUSTER_CCR: Needs = Needs::Cluster(ClusterPrivileges::CCR);
/// An index follows one of another cluster.
pub const INDEX_FOLLOWING: Needs = Needs::Following;
/// Users and roles are changed.
pub const CLUSTER_SECURITY: Needs = Needs::Cluster(ClusterPrivileges::SECURITY);
/// API keys, one's own at least.
pub const CLUSTER_API_KEYS: Needs = Needs::Cluster(ClusterPrivileges::OWN_API_KEYS);
/// Documents are read and searched.
pub const INDEX_READ: Needs = Needs::Index(IndexPrivileges::READ);
/// Documents are put and changed.
pub const INDEX_PUT: Needs = Needs::Index(IndexPrivileges::INDEX);
/// Documents are deleted.
pub const INDEX_DELETE: Needs = Needs::Index(IndexPrivileges::DELETE);
/// Documents are searched, and those that are found put anew.
pub const INDEX_UPDATE_FOUND: Needs =
    Needs::Index(IndexPrivileges::READ.and(IndexPrivileges::INDEX));
/// Documents are searched, and those that are found deleted.
pub const INDEX_DELETE_FOUND: Needs =
    Needs::Index(IndexPrivileges::READ.and(IndexPrivileges::DELETE));
/// The index is created.
pub const INDEX_CREATE: Needs = Needs::Index(IndexPrivileges::CREATE_INDEX);
/// The index is deleted.
pub const INDEX_DROP: Needs = Needs::Index(IndexPrivileges::DELETE_INDEX);
/// Its mapping, settings and aliases are read.
pub const INDEX_VIEW: Needs = Needs::Index(IndexPrivileges::VIEW_METADATA);
/// Its figures are read.
pub const INDEX_MONITOR: Needs = Needs::Index(IndexPrivileges::MONITOR);
/// It is refreshed, flushed, merged.
pub const INDEX_MAINTAIN: Needs = Needs::Index(IndexPrivileges::MAINTENANCE);
/// Its mapping, settings and aliases are changed.
pub const INDEX_MANAGE: Needs = Needs::Index(IndexPrivileges::MANAGE);
/// Documents are written as each item of the body says.
pub const ITEMS_WRITE: Needs = Needs::Items(IndexPrivileges::WRITE);
/// Documents are read from where the body says.
pub const ITEMS_READ: Needs = Needs::Items(IndexPrivileges::READ);

impl Needs {
    /// Whether somebody may use the route at all, for the index that the path names.
    ///
    /// # Errors
    /// 403, naming the privilege.
    pub fn check(
        self,
        principal: &Arc<Principal>,
        action: &'static str,
        parts: &Parts,
    ) -> Result<(), Error> {
        if principal.may_all {
            return Ok(());
        }
        let index =
            parts.iter().find(|(name, _)| *name == "index").map(|(_, value)| value.as_str());
        if self == Self::Following {
            CLUSTER_CCR.check(principal, action, parts)?;
            return INDEX_MANAGE.check(principal, action, parts);
        }
        let (is_there, wanted) = match self {
            Self::Known | Self::Following => return Ok(()),
            Self::Cluster(wanted) if principal.may_on_cluster(wanted) => return Ok(()),
            Self::Cluster(wanted) => {
                return Err(denied(format!(
                    "action [{action}] is unauthorized for {}, this action is granted by the cluster \
                     privileges [{}]",
                    principal.words(),
                    wanted.granting()
                )));
            }
            Self::Index(wanted) => (principal.rights.somewhere(wanted), wanted),
            Self::Items(wanted) => (principal.rights.somewhere_any(wanted), wanted),
        };
        let grant = Grant::new(Arc::clone(principal), wanted, action);
        let is_judged = matches!(self, Self::Index(_));
        match index {
            _ if !is_there => Err(denied(grant.refusal(index.unwrap_or("*")))),
            Some(name) if is_judged && is_plain(name) => check(&grant, name),
            _ => Ok(()),
        }
    }

    /// Whether it is needed for what operators do: to the cluster, to indices as a whole, to users.
    #[must_use]
    pub fn is_of_operator(self) -> bool {
        match self {
            Self::Cluster(_) | Self::Following => true,
            Self::Index(wanted) => {
                let admin = [INDEX_CREATE, INDEX_DROP, INDEX_MANAGE];
                admin.contains(&Self::Index(wanted))
            }
            Self::Known | Self::Items(_) => false,
        }
    }

    /// What the route's work on indices is judged by.
    #[must_use]
    pub fn grant(self, principal: &Arc<Principal>, action: &'static str) -> Grant {
        let wanted = match self {
            Self::Index(wanted) | Self::Items(wanted) => wanted,
            Self::Following => IndexPrivileges::MANAGE,
            Self::Known | Self::Cluster(_) => IndexPrivileges::NONE,
        };
        Grant::new(Arc::clone(principal), wanted, action)
    }
}

/// Whether it is the name of one index, as it is.
fn is_plain(name: &str) -> bool {
    name != "_all" && !name.contains(['*', ',', '<'])
}

/// Whether the index of this name may be used so.
///
/// # Errors
/// 403, naming the privilege.
pub fn check(grant: &Grant, name: &str) -> Result<(), Error> {
    if grant.holds_for(name) { Ok(()) } else { Err(denied(grant.refusal(name))) }
}

/// 403, in these words.
#[must_use]
pub fn denied(words: String) -> Error {
    Error::forbidden("security_exception", words)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::rest::routes;
    use crate::security::role::Role;

    fn principal(role: serde_json::Value) -> Arc<Principal> {
        Arc::new(Principal::with_role(&role))
    }

    fn index(name: &str) -> Parts {
        vec![("index", name.to_owned())]
    }

    #[test]
    fn a_refusal_names_the_privilege() {
        let reader = principal(json!({ "indices": [{ "names": "logs-*", "privileges": "read" }] }));
        assert!(INDEX_READ.check(&reader, "a", &index("logs-1")).is_ok());
        assert!(INDEX_READ.check(&reader, "a", &index("*")).is_ok());
        assert!(INDEX_READ.check(&reader, "a", &Parts::new()).is_ok());
        let refused =
            |needs: Needs, parts: &Parts| needs.check(&reader, "act", parts).unwrap_err().reason;
        assert_eq!(
            refused(INDEX_READ, &index("other")),
            "action [act] is unauthorized for user [bob] with effective roles [r] on indices [other], this \
             action is granted by the index privileges [all,read]"
        );
        assert!(refused(INDEX_PUT, &index("logs-1")).ends_with("[all,index,write]"));
        assert!(refused(ITEMS_WRITE, &Parts::new()).contains("on indices [*]"));
        assert!(
            refused(CLUSTER_MONITOR, &Parts::new())
                .ends_with("cluster privileges [all,manage,monitor]")
        );
        assert!(KNOWN.check(&reader, "a", &Parts::new()).is_ok());
        let all = principal(Role::superuser().descriptor());
        assert!(CLUSTER_SECURITY.check(&all, "a", &Parts::new()).is_ok());
    }

    /// Every route against somebody who may nothing, and against each who may one thing.
    #[test]
    fn a_route_opens_to_what_it_needs_and_to_nothing_less() {
        let parts = |path: &str| {
            if path.contains("{index}") { index("a") } else { Parts::new() }
        };
        let nobody = principal(json!({}));
        let cluster = ClusterPrivileges::all_names().into_iter().map(|name| {
            let wanted = ClusterPrivileges::named(name).unwrap();
            (principal(json!({ "cluster": [name] })), wanted, IndexPrivileges::NONE)
        });
        let on_index = IndexPrivileges::all_names().into_iter().map(|name| {
            let wanted = IndexPrivileges::named(name).unwrap();
            let role = json!({ "indices": [{ "names": "a", "privileges": [name] }] });
            (principal(role), ClusterPrivileges::NONE, wanted)
        });
        let others: Vec<_> = cluster.chain(on_index).collect();
        for route in routes::all() {
            let opens = |principal: &Arc<Principal>| {
                route.needs.check(principal, "act", &parts(route.path)).is_ok()
            };
            assert_eq!(opens(&nobody), route.needs == KNOWN, "{}", route.path);
            for (principal, on_cluster, on_index) in &others {
                let expected = match route.needs {
                    Needs::Known => true,
                    Needs::Following => false,
                    Needs::Cluster(wanted) => on_cluster.has(wanted),
                    Needs::Index(wanted) => on_index.has(wanted),
                    Needs::Items(wanted) => on_index.has_any(wanted),
                };
                assert_eq!(
                    opens(principal),
                    expected,
                    "{} {on_cluster:?} {on_index:?}",
                    route.path
                );
            }
        }
    }

    #[test]
    fn every_route_says_what_it_needs() {
        // What nobody but who is known needs nothing for tells of nobody but who asks.
        let open: Vec<&str> =
            routes::all().filter(|route| route.needs == KNOWN).map(|route| route.path).collect();
        assert_eq!(
            open,
            [
                "/_analyze",
                "/_search/scroll",
                "/_search/scroll/{scroll_id}",
                "/_search/scroll",
                "/_search/scroll/{scroll_id}",
                "/_search/point_in_time",
                "/_pit",
                "/_render/template",
                "/_security/_authenticate",
                "/_security/user/_has_privileges",
                "/_security/user/_password",
            ]
        );
        // What names an index in its path is judged by it, or by the cluster.
        for route in routes::all() {
            let names_index = route.path.starts_with("/{index}");
            assert!(!names_index || route.needs != KNOWN, "{}", route.path);
        }
    }
}
