//! `_security`: users, roles, API keys, and who asks, in Elasticsearch's shapes. What they are and where they are
//! kept is [`crate::security`]'s.

mod api_keys;
mod roles;
mod users;
mod who;

use plimsoll_index::Error;

use super::access::{self, busy};
use super::call::Call;
use super::documents::write::validation;
use super::needs::{CLUSTER_API_KEYS, CLUSTER_SECURITY, KNOWN};
use super::route::{Route, Verb, route};
use crate::security::changes::{ChangeError, Changing};
use crate::security::keys::KeysError;
use Verb::{Delete, Get, Post, Put};

/// When a change is seen by searches: it is at once.
const REFRESH: &[&str] = &["refresh"];

/// The routes of this module.
pub const ROUTES: &[Route] = &[
    route(&[Get], "/_security/_authenticate", &[], KNOWN, |call| Box::pin(who::authenticate(call))),
    route(&[Get, Post], "/_security/user/_has_privileges", &[], KNOWN, |call| {
        Box::pin(who::has_privileges(call))
    }),
    route(&[Get, Post], "/_security/user/{name}/_has_privileges", &[], CLUSTER_SECURITY, |call| {
        Box::pin(who::has_privileges_of(call))
    }),
    route(&[Get], "/_security/privilege/_builtin", &[], CLUSTER_SECURITY, |call| {
        Box::pin(who::builtin(call))
    }),
    route(&[Get], "/_security/user", &[], CLUSTER_SECURITY, |call| Box::pin(users::get(call))),
    route(&[Get], "/_security/user/{name}", &[], CLUSTER_SECURITY, |call| {
        Box::pin(users::get(call))
    }),
    route(&[Put, Post], "/_security/user/{name}", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(users::put(call))
    }),
    route(&[Delete], "/_security/user/{name}", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(users::delete(call))
    }),
    route(&[Put, Post], "/_security/user/_password", &[REFRESH], KNOWN, |call| {
        Box::pin(users::own_password(call))
    }),
    route(&[Put, Post], "/_security/user/{name}/_password", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(users::password(call))
    }),
    route(&[Put, Post], "/_security/user/{name}/_enable", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(users::enable(call, true))
    }),
    route(&[Put, Post], "/_security/user/{name}/_disable", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(users::enable(call, false))
    }),
    route(&[Get], "/_security/role", &[], CLUSTER_SECURITY, |call| Box::pin(roles::get(call))),
    route(&[Get], "/_security/role/{name}", &[], CLUSTER_SECURITY, |call| {
        Box::pin(roles::get(call))
    }),
    route(&[Put, Post], "/_security/role/{name}", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(roles::put(call))
    }),
    route(&[Delete], "/_security/role/{name}", &[REFRESH], CLUSTER_SECURITY, |call| {
        Box::pin(roles::delete(call))
    }),
    route(&[Post], "/_security/cross_cluster/api_key", &[], CLUSTER_SECURITY, |call| {
        Box::pin(api_keys::create_for_follower(call))
    }),
    route(&[Put, Post], "/_security/api_key", &[REFRESH], CLUSTER_API_KEYS, |call| {
        Box::pin(api_keys::create(call))
    }),
    route(
        &[Get],
        "/_security/api_key",
        &[&["id", "name", "active_only", "owner", "username"]],
        CLUSTER_API_KEYS,
        |call| Box::pin(api_keys::get(call)),
    ),
    route(&[Delete], "/_security/api_key", &[], CLUSTER_API_KEYS, |call| {
        Box::pin(api_keys::invalidate(call))
    }),
];

/// Why a change was not made, as REST says it.
fn failed(call: &Call, error: ChangeError) -> Error {
    match error {
        ChangeError::Fault(fault) => Error::illegal_argument(fault),
        ChangeError::LastAdministrator => Error::illegal_argument(error),
        ChangeError::Refused(why) => access::is_gone(why, &call.principal),
        ChangeError::OtherRights => Error::forbidden("security_exception", error),
        ChangeError::Key(KeysError::Faults(faults)) => {
            validation(&faults.iter().map(String::as_str).collect::<Vec<_>>())
        }
        ChangeError::Key(why @ (KeysError::TooMany | KeysError::TooManyOfUser)) => {
            Error::illegal_argument(why)
        }
        ChangeError::Unproven(why) => busy(why),
        ChangeError::Failed(error) | ChangeError::Key(KeysError::Failed(error)) => error,
    }
}

/// Changes users, roles and keys in the name of whoever asks.
fn changing(call: &Call) -> Changing<'_> {
    call.rest.node.security.changing(&call.principal)
}
