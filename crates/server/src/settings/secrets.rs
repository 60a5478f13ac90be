//! Where secrets come from: the environment as a way beside files, and what is to be said of those that others on the
//! machine can read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use super::raw::{Raw, SettingsError};

/// Settings that are secrets, the file that holds one instead, and the variable of the environment.
const SECRETS: [(&str, &str, &str); 2] = [
    ("resp.password", "resp.password_file", "PLIMSOLL_RESP_PASSWORD"),
    ("rpc.secret", "rpc.secret_file", "PLIMSOLL_RPC_SECRET"),
];
/// Settings that name files with secrets.
const FILES: [&str; 10] = [
    "resp.password_file",
    "rpc.secret_file",
    "http.tls.key",
    "resp.tls.key",
    "rpc.tls.key",
    "log.tls.key",
    "log.credentials_file",
    "log.nkey_seed_file",
    "log.password_file",
    "xpack.security.remote_cluster_server.ssl.key",
];
/// Modes of a file that let others read it.
const OTHERS: u32 = 0o077;

/// Takes over secrets that stand in the environment and were not given otherwise.
///
/// # Errors
/// None that can happen: the keys are in the table.
pub fn take_environment(
    raw: &mut Raw,
    variable: impl Fn(&str) -> Option<String>,
) -> Result<(), SettingsError> {
    for (key, file_key, name) in SECRETS {
        if raw.get(file_key).is_none()
            && let Some(value) = variable(name).filter(|value| !value.is_empty())
        {
            raw.set_unless_given(key, &value, name)?;
        }
    }
    Ok(())
}

/// What others on the machine can read, in sentences: secrets in the command line, files with open modes.
pub(super) fn exposed(raw: &Raw) -> Vec<String> {
    let in_line = SECRETS.iter().filter_map(|(key, file_key, name)| {
        let given = raw.get(key).filter(|given| given.origin == "--set")?;
        (!given.text.is_empty()).then(|| {
            format!(
                "`{key}` stands in the command line, where `ps` shows it: use {file_key} or {name}"
            )
        })
    });
    let log = raw.get("log.engine").filter(|given| given.origin.starts_with("--"));
    let log = log.filter(|given| has_secret(&given.text)).map(|_| {
        "the address of the log has a login in the command line, where `ps` shows it: use log.password_file or \
         log.credentials_file"
            .to_owned()
    });
    let open = FILES.iter().filter_map(|key| {
        let path = &raw.get(key)?.text;
        let mode = fs::metadata(path).ok()?.permissions().mode();
        (mode & OTHERS != 0).then(|| {
            format!(
                "{path} (`{key}`) can be read by others (mode {:04o}): chmod 600",
                mode & 0o7777
            )
        })
    });
    let folder = PathBuf::from(raw.text_or_default("path.data"));
    let has_users = raw.text_or_default("security.enabled") == "true"
        || SECRETS[0..1]
            .iter()
            .any(|(key, file_key, _)| raw.get(key).or(raw.get(file_key)).is_some());
    let mode = fs::metadata(&folder).ok().filter(|_| has_users).map(|it| it.permissions().mode());
    let open_folder = mode.filter(|mode| mode & OTHERS != 0).map(|mode| {
        format!(
            "{} (`path.data`) can be read by others (mode {:04o}), with documents and hashes of passwords: chmod 700",
            folder.display(),
            mode & 0o7777
        )
    });
    in_line.chain(log).chain(open).chain(open_folder).collect()
}

/// Whether an address has a password or a token before its host.
fn has_secret(addresses: &str) -> bool {
    addresses.split(',').any(|address| {
        let rest = address.split_once("://").map_or(address, |(_, rest)| rest);
        rest.split_once('@').is_some_and(|(login, _)| !login.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_come_by_the_environment_too() {
        let variable = |name: &str| (name == "PLIMSOLL_RESP_PASSWORD").then(|| "x".to_owned());
        let mut raw = Raw::default();
        take_environment(&mut raw, variable).unwrap();
        assert_eq!(raw.get("resp.password").unwrap().text, "x");
        assert!(raw.get("rpc.secret").is_none() && exposed(&raw).is_empty());
        // What was given otherwise goes before.
        for given in ["resp.password=y", "resp.password_file=/nowhere"] {
            let mut raw = Raw::default();
            raw.assignment(given).unwrap();
            take_environment(&mut raw, variable).unwrap();
            assert_ne!(raw.get("resp.password").map(|it| it.text.as_str()), Some("x"), "{given}");
        }
    }

    #[test]
    fn what_others_can_read_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        fs::write(&path, "x").unwrap();
        let mut raw = Raw::default();
        raw.assignment(&format!("resp.password_file={}", path.display())).unwrap();
        for (mode, expected) in [(0o600, 0), (0o400, 0), (0o640, 1), (0o644, 1)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(exposed(&raw).len(), expected, "{mode:o}");
        }
        let mut raw = Raw::default();
        raw.assignment("resp.password=lion").unwrap();
        let said = exposed(&raw);
        let mut of_log = Raw::default();
        of_log.set("log.engine", "nats://a,nats://pl:secret@b", "--log").unwrap();
        let about = exposed(&of_log);
        assert!(about.len() == 1 && about[0].contains("log.password_file"), "{about:?}");
        of_log.set("log.engine", "nats://a,nats://b", "--log").unwrap();
        assert!(exposed(&of_log).is_empty());
        assert!(said.len() == 1 && said[0].contains("ps") && !said[0].contains("lion"), "{said:?}");
    }
}
