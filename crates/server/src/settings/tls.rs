//! `http.tls.*`, `resp.tls.*` and `rpc.tls.*`: which ports have TLS, and the files that it shows and checks. The
//! port for other clusters has its own ([`super::remote`]), as it has TLS always.

use std::path::PathBuf;

use super::raw::{Raw, SettingsError};
use super::value::{parsed, text, words};
use super::value_error::ValueError;
use crate::tls::{Identity, ServerFiles};

/// The settings of a port that clients connect to.
struct Keys {
    enabled: &'static str,
    certificate: &'static str,
    key: &'static str,
    authorities: &'static str,
}

const HTTP: Keys = Keys {
    enabled: "http.tls.enabled",
    certificate: "http.tls.certificate",
    key: "http.tls.key",
    authorities: "http.tls.certificate_authorities",
};

const RESP: Keys = Keys {
    enabled: "resp.tls.enabled",
    certificate: "resp.tls.certificate",
    key: "resp.tls.key",
    authorities: "resp.tls.certificate_authorities",
};

const RPC: Keys = Keys {
    enabled: "rpc.tls.mode",
    certificate: "rpc.tls.certificate",
    key: "rpc.tls.key",
    authorities: "rpc.tls.certificate_authorities",
};

/// Between nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeTls {
    /// Whether nodes without TLS are let in too, and asked without where they have none: while a running
    /// cluster goes over to TLS.
    pub is_optional: bool,
    /// What the node shows, on both sides, and whose certificates it takes.
    pub files: ServerFiles,
}

/// `http.tls.*`; none where it is off.
pub(super) fn http(raw: &Raw) -> Result<Option<ServerFiles>, SettingsError> {
    port(raw, &HTTP)
}

/// `resp.tls.*`; none where it is off.
pub(super) fn resp(raw: &Raw) -> Result<Option<ServerFiles>, SettingsError> {
    port(raw, &RESP)
}

/// `rpc.tls.*`; none where it is off.
pub(super) fn rpc(raw: &Raw) -> Result<Option<NodeTls>, SettingsError> {
    let files = files(raw, &RPC)?;
    let mode = parsed(raw, RPC.enabled, |mode| {
        check(mode != "off", &files, &RPC)?;
        let lacks_authorities = mode != "off" && files.authorities.is_empty();
        if lacks_authorities {
            Err(ValueError::TlsWants(RPC.authorities))
        } else {
            Ok(mode.to_owned())
        }
    })?;
    if mode == "required" {
        // Certificates say who is a node; a secret that nobody asks for would be taken for a lock.
        for secret in ["rpc.secret", "rpc.secret_file"] {
            parsed(raw, secret, |given| match given {
                "" => Ok(()),
                _ => Err(ValueError::SecretBesideTls),
            })?;
        }
    }
    Ok((mode != "off").then_some(NodeTls { is_optional: mode == "optional", files }))
}

fn port(raw: &Raw, keys: &Keys) -> Result<Option<ServerFiles>, SettingsError> {
    let files = files(raw, keys)?;
    let is_enabled = parsed(raw, keys.enabled, |text| {
        let is_enabled = text == "true";
        check(is_enabled, &files, keys).map(|()| is_enabled)
    })?;
    Ok(is_enabled.then_some(files))
}

fn files(raw: &Raw, keys: &Keys) -> Result<ServerFiles, SettingsError> {
    let authorities = text(raw, keys.authorities)?;
    Ok(ServerFiles {
        identity: Identity {
            certificate: text(raw, keys.certificate)?.into(),
            key: text(raw, keys.key)?.into(),
        },
        authorities: words(&authorities).map(PathBuf::from).collect(),
    })
}

/// A port has TLS with its files, or neither: who named files would take it for encrypted.
fn check(is_enabled: bool, files: &ServerFiles, keys: &Keys) -> Result<(), ValueError> {
    let Identity { certificate, key } = &files.identity;
    let named = [
        (keys.certificate, !certificate.as_os_str().is_empty()),
        (keys.key, !key.as_os_str().is_empty()),
    ];
    let lacks = named.into_iter().find(|(_, is_named)| !is_named);
    let also = (keys.authorities, !files.authorities.is_empty());
    let idle = named.into_iter().chain([also]).find(|(_, is_named)| *is_named);
    match (is_enabled, lacks, idle) {
        (true, Some((name, _)), _) => Err(ValueError::TlsWants(name)),
        (false, _, Some((name, _))) => Err(ValueError::TlsIsOff(name)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::settings::tests::resolve;

    #[test]
    fn a_port_has_tls_with_its_files_or_neither() {
        let off = resolve(&[]).unwrap();
        assert!(off.http_tls.is_none() && off.resp_tls.is_none() && off.rpc_tls.is_none());
        let [on, certificate, key] =
            ["http.tls.enabled=true", "http.tls.certificate=/c", "http.tls.key=/k"];
        let authorities = "http.tls.certificate_authorities=/a, /b";
        let files = resolve(&[on, certificate, key, authorities]).unwrap().http_tls.unwrap();
        assert_eq!(files.identity, Identity { certificate: "/c".into(), key: "/k".into() });
        assert_eq!(files.authorities, [PathBuf::from("/a"), PathBuf::from("/b")]);
        for (words, wanted) in [
            (&[on][..], "http.tls.certificate"),
            (&[on, certificate], "http.tls.key"),
            (&[certificate], "http.tls.enabled"),
            (&[authorities], "http.tls.enabled"),
            (&["resp.tls.key=/k"], "resp.tls.enabled"),
            (&["rpc.tls.key=/k"], "rpc.tls.mode"),
            (&["rpc.tls.mode=maybe"], "required"),
        ] {
            let refused = resolve(words).unwrap_err();
            assert!(refused.contains(wanted), "{words:?}: {refused}");
        }
    }

    #[test]
    fn names_of_elasticsearch_mean_the_same() {
        let words = ["enabled=true", "certificate=/c", "key=/k"]
            .map(|it| format!("xpack.security.http.ssl.{it}"));
        let words: Vec<_> = words.iter().map(String::as_str).collect();
        assert!(resolve(&words).unwrap().http_tls.is_some());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("n.yml");
        let text = "xpack.security.transport.ssl:\n  enabled: true\n  certificate: /c\n  key: /k\n  \
                    certificate_authorities: [/a, /b]\n";
        std::fs::write(&file, text).unwrap();
        let mut raw = Raw::default();
        raw.file(&file).unwrap();
        let tls = Settings::resolve(&raw).unwrap().rpc_tls.unwrap();
        assert!(!tls.is_optional);
        assert_eq!(tls.files.authorities, [PathBuf::from("/a"), PathBuf::from("/b")]);
    }

    #[test]
    fn nodes_show_certificates_and_check_them() {
        let files = ["rpc.tls.certificate=/c", "rpc.tls.key=/k"];
        let authorities = "rpc.tls.certificate_authorities=/a";
        let with =
            |mode: &str, authorities: &str| resolve(&[&files[..], &[mode, authorities]].concat());
        let refused = with("rpc.tls.mode=required", "cluster.name=x").unwrap_err();
        assert!(refused.contains("rpc.tls.certificate_authorities"), "{refused}");
        let files_and_authorities = [&files[..], &[authorities]].concat();
        let with_secret =
            |mode: &str| resolve(&[&files_and_authorities[..], &[mode, "rpc.secret=s"]].concat());
        assert!(with_secret("rpc.tls.mode=optional").is_ok());
        let refused = with_secret("rpc.tls.mode=required").unwrap_err();
        assert!(refused.contains("rpc.secret"), "{refused}");
        for (mode, is_optional) in [("required", false), ("optional", true)] {
            let tls = with(&format!("rpc.tls.mode={mode}"), authorities).unwrap().rpc_tls.unwrap();
            assert_eq!(tls.is_optional, is_optional);
        }
    }
}
