//! Whether somebody may run a command: by the rules that Redis has, or by what its roles give on the table of the
//! database. Pure.
//!
//! Where roles decide: reads need `read` on `db<n>`; writes need `read` and `write`, since most of them answer what
//! was there; what tells of the server or its clients needs `monitor` on the cluster, and what changes them
//! `manage`.

use plimsoll_storage::command::args::parse_integer;
use plimsoll_storage::command::spec::Access;
use plimsoll_storage::{Argv, ErrorReply};

use crate::commands::{Entry, Own, Runs};
use crate::security::acl::Denied;
use crate::security::principal::{OnRows, Principal};
use crate::security::privileges::{ClusterPrivileges, IndexPrivileges};

/// What writes need on a table.
const WRITING: IndexPrivileges = IndexPrivileges::READ.and(IndexPrivileges::WRITE);

/// Whether everything is allowed: nothing has to be looked at then.
#[must_use]
pub fn is_all(principal: &Principal) -> bool {
    match &principal.on_rows {
        OnRows::Acl(acl) => acl.is_all(),
        OnRows::Roles => principal.may_all,
    }
}

/// Whether a command may run in a database.
///
/// # Errors
/// Redis' `NOPERM`.
pub fn check(principal: &Principal, entry: &Entry, argv: &Argv, db: u32) -> Result<(), ErrorReply> {
    let refused = |denied: Denied| ErrorReply::named("NOPERM", words(principal, &denied));
    match &principal.on_rows {
        OnRows::Acl(acl) => acl.judge(entry, argv, db).map_err(refused),
        OnRows::Roles => by_roles(principal, entry, argv, db).map_err(refused),
    }
}

fn words(principal: &Principal, denied: &Denied) -> String {
    match denied {
        Denied::Command(name) => {
            format!("User {} has no permissions to run the '{name}' command", principal.name)
        }
        Denied::Key => "No permissions to access a key".to_owned(),
        Denied::Database(db) => {
            format!("User {} has no permissions to access database {db}", principal.name)
        }
    }
}

fn by_roles(principal: &Principal, entry: &Entry, argv: &Argv, db: u32) -> Result<(), Denied> {
    let on_table = |db: u32, wanted| {
        let is_granted = principal.may_on_index(&format!("db{db}"), wanted);
        if is_granted { Ok(()) } else { Err(Denied::Database(db)) }
    };
    let on_cluster = |wanted| {
        let is_granted = principal.may_on_cluster(wanted);
        if is_granted { Ok(()) } else { Err(Denied::Command(entry.spec.name)) }
    };
    match entry.runs {
        Runs::Rows if entry.spec.access == Access::Write => {
            on_table(db, WRITING)?;
            other_database(entry, argv).map_or(Ok(()), |other| on_table(other, WRITING))
        }
        Runs::Rows => on_table(db, IndexPrivileges::READ),
        Runs::Here(own) => match own {
            Own::Watch => on_table(db, IndexPrivileges::READ),
            // Every database at once.
            Own::Flushall if principal.may_all => Ok(()),
            Own::Flushall => Err(Denied::Command(entry.spec.name)),
            Own::Info | Own::Slowlog | Own::Latency | Own::Lastsave | Own::Cluster => {
                on_cluster(ClusterPrivileges::MONITOR)
            }
            // Whoever sets the password of the first user is it.
            Own::Config if sets_password(argv) => on_cluster(ClusterPrivileges::SECURITY),
            Own::Config | Own::Debug | Own::Save | Own::Bgsave => {
                on_cluster(ClusterPrivileges::MANAGE)
            }
            Own::Acl if is_own_acl(argv) => Ok(()),
            Own::Acl => on_cluster(ClusterPrivileges::SECURITY),
            Own::Client if is_of_others(argv) => on_cluster(ClusterPrivileges::MANAGE),
            Own::Ping
            | Own::Echo
            | Own::Hello
            | Own::Auth
            | Own::Select
            | Own::Quit
            | Own::Reset
            | Own::Client
            | Own::Command
            | Own::Time
            | Own::Wait
            | Own::Multi
            | Own::Exec
            | Own::Discard
            | Own::Unwatch
            | Own::Readonly
            | Own::Readwrite
            | Own::Reads => Ok(()),
        },
    }
}

fn is_subcommand(argv: &Argv, names: &[&str]) -> bool {
    let given = argv.get(1).unwrap_or_default();
    names.iter().any(|name| given.eq_ignore_ascii_case(name.as_bytes()))
}

fn sets_password(argv: &Argv) -> bool {
    let names = (2..argv.len()).step_by(2).filter_map(|at| argv.get(at));
    is_subcommand(argv, &["set"])
        && names.into_iter().any(|it| it.eq_ignore_ascii_case(b"requirepass"))
}

/// What everybody may ask of itself.
fn is_own_acl(argv: &Argv) -> bool {
    is_subcommand(argv, &["whoami", "cat", "genpass", "help"])
}

/// What tells of other connections, or does something to them.
fn is_of_others(argv: &Argv) -> bool {
    is_subcommand(argv, &["list", "kill", "pause", "unpause"])
}

/// The database that COPY writes to.
#[must_use]
pub fn other_database(entry: &Entry, argv: &Argv) -> Option<u32> {
    if entry.spec.name != "copy" {
        return None;
    }
    let at = (3..argv.len())
        .find(|at| argv.get(*at).is_some_and(|it| it.eq_ignore_ascii_case(b"db")))?;
    u32::try_from(parse_integer(argv.get(at + 1)?)?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::commands;
    use crate::security::role::Role;

    fn principal(role: Value) -> Principal {
        Principal::with_role(&role)
    }

    fn may(principal: &Principal, line: &str, db: u32) -> bool {
        let argv = Argv::of(&line.split(' ').collect::<Vec<_>>());
        check(principal, commands::find(argv.name()).unwrap(), &argv, db).is_ok()
    }

    #[test]
    fn roles_decide_by_the_table_of_the_database() {
        let reader = principal(json!({ "indices": [{ "names": "db1", "privileges": "read" }] }));
        assert!(may(&reader, "get a", 1) && may(&reader, "watch a", 1) && may(&reader, "ping", 0));
        assert!(
            !may(&reader, "get a", 0) && !may(&reader, "set a b", 1) && !may(&reader, "info", 1)
        );
        assert!(may(&reader, "acl whoami", 1) && !may(&reader, "acl list", 1));
        assert!(may(&reader, "client setname x", 1) && !may(&reader, "client kill id 7", 1));
        let both = json!({ "indices": [{ "names": "db?", "privileges": ["read", "write"] }] });
        let writer = principal(both);
        assert!(may(&writer, "set a b", 1) && may(&writer, "copy a b db 2", 1));
        assert!(!may(&writer, "copy a b db 12", 1) && !may(&writer, "copy a b replace DB 12", 1));
        assert!(!may(&writer, "flushall", 1) && !may(&writer, "config get x", 1));
        let operator = principal(json!({ "cluster": ["manage"] }));
        assert!(may(&operator, "info", 0) && may(&operator, "config get x", 0));
        assert!(!may(&operator, "get a", 0) && !may(&operator, "acl list", 0));
        assert!(may(&operator, "config set maxclients 9", 0));
        assert!(!may(&operator, "config set maxclients 9 RequirePass x", 0));
        assert!(is_all(&principal(Role::superuser().descriptor())));
    }

    #[test]
    fn nobody_without_rights_runs_what_is_the_servers_or_a_tables() {
        let nobody = principal(json!({}));
        let open: Vec<&str> = commands::all()
            .iter()
            .filter(|entry| check(&nobody, entry, &Argv::of(&[entry.spec.name]), 0).is_ok())
            .map(|entry| entry.spec.name)
            .collect();
        assert_eq!(
            open,
            [
                "ping",
                "multi",
                "exec",
                "unwatch",
                "discard",
                "select",
                "echo",
                "hello",
                "auth",
                "quit",
                "reset",
                "readonly",
                "readwrite",
                "plimsoll.reads",
                "client",
                "wait",
                "time",
                "command",
            ]
        );
    }
}
