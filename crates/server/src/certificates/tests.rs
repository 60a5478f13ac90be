//! Certificates as they are made, as files, and as OpenSSL reads them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command as Process;

use clap::Parser;

use super::command::{CertificatesCommand, CommandError, EXAMPLES};
use super::*;
use crate::cli::{Cli, Command};

/// Does what `plimsoll certificates …` does; gives what that says.
fn run(words: &[&str]) -> Result<String, CommandError> {
    let words = ["plimsoll", "certificates"].iter().chain(words);
    let Command::Certificates(command) = Cli::try_parse_from(words).unwrap().command else {
        unreachable!("certificates was given")
    };
    command::make(&command, SystemTime::now())
}

fn is_refused_by_the_parser(words: &[&str]) -> bool {
    let words = ["plimsoll", "certificates"].iter().chain(words);
    Cli::try_parse_from(words).is_err_and(|error| error.exit_code() == 2)
}

/// An authority, a node and a client in one folder.
fn all_in(folder: &Path) -> String {
    let dir = folder.to_str().unwrap().to_owned();
    let said = run(&["ca", "--out", &dir]).unwrap();
    assert!(said.contains("ca.crt") && said.contains("ca.key") && said.contains("valid until"));
    let node = ["node", "--ca", &dir, "--out", &dir, "--name", "n", "--dns", "search.example"];
    run(&[&node[..], &["--ip", "127.0.0.1", "--ip", "::1"]].concat()).unwrap();
    run(&["client", "--ca", &dir, "--out", &dir, "--name", "c"]).unwrap();
    dir
}

#[test]
fn files_are_for_their_owner_and_are_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let dir = all_in(&folder.path().join("deep/certs"));
    let path = |name: &str| Path::new(&dir).join(name);
    for (name, mode) in [("ca.key", 0o600), ("n.key", 0o600), ("c.key", 0o600), ("n.crt", 0o644)] {
        assert_eq!(path(name).metadata().unwrap().permissions().mode() & 0o777, mode, "{name}");
    }
    assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 6, "nothing is left beside them");

    let old = std::fs::read(path("n.key")).unwrap();
    let node = ["node", "--ca", &dir, "--out", &dir, "--name", "n", "--ip", "127.0.0.1"];
    for words in [&node[..], &["ca", "--out", &dir]] {
        let refused = run(words).unwrap_err();
        assert!(refused.is_usage() && refused.to_string().contains("--force"), "{refused}");
        assert!(refused.to_string().contains(&dir), "{refused}");
    }
    // A key alone is enough, and nothing is written beside it.
    std::fs::remove_file(path("n.crt")).unwrap();
    assert!(run(&node).unwrap_err().to_string().contains("n.key"));
    assert!(!path("n.crt").exists());
    assert_eq!(std::fs::read(path("n.key")).unwrap(), old);
    run(&[&node[..], &["--force"]].concat()).unwrap();
    assert_ne!(std::fs::read(path("n.key")).unwrap(), old);
    assert_eq!(path("n.key").metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Names that the new one lacks are said: clients that use them will not connect.
    let other =
        ["node", "--ca", &dir, "--out", &dir, "--name", "n", "--dns", "n.example", "--force"];
    assert!(run(&other).unwrap().contains("no longer for 127.0.0.1"));
    let both = run(&[&other[..], &["--ip", "::1", "--ip", "10.0.0.1"]].concat()).unwrap();
    assert!(!both.contains("no longer"), "{both}");
    let said = run(&other).unwrap();
    assert!(said.contains("no longer for ::1") && said.contains("for 10.0.0.1"), "{said}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dir = all_in(folder.path());
    let signed = ["--ca", &dir, "--out", &dir, "--name"];
    let with = |first: &[&'static str], rest: &[&'static str]| {
        let words = [&first[..1], &signed[..], &first[1..], rest].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    for (first, rest) in [
        (["node", "x"], &[][..]),
        (["node", "x"], &["--ip", "nowhere"]),
        (["node", "../x"], &["--ip", "::1"]),
        (["node", ""], &["--ip", "::1"]),
        (["client", "ca"], &[]),
        (["client", "-x"], &[]),
        (["client", "x"], &["--days", "0"]),
        (["client", "x"], &["--days", "40000"]),
    ] {
        let words = with(&first, rest);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        assert!(is_refused_by_the_parser(&words), "{words:?}");
    }
    for name in ["two words", "10.0.0.1", "*.*.x", ""] {
        let words = [&["node"], &signed[..], &["x", "--dns", name]].concat();
        assert!(run(&words).unwrap_err().is_usage(), "{name}");
    }
    assert!(run(&["ca", "--out", &dir, "--force", "--name", &"x".repeat(65)]).is_err());
    // What is no authority signs nothing.
    let other = tempfile::tempdir().unwrap();
    let [from, to] = [folder.path(), other.path()];
    for (crt, key, why) in [
        ("n.crt", "n.key", "not an authority's"),
        ("ca.crt", "n.key", "does not belong"),
        ("ca.key", "ca.key", "certificate is damaged"),
        ("ca.crt", "ca.crt", "key is damaged"),
    ] {
        std::fs::copy(from.join(crt), to.join("ca.crt")).unwrap();
        std::fs::copy(from.join(key), to.join("ca.key")).unwrap();
        let ca = to.to_str().unwrap();
        let words = ["client", "--ca", ca, "--out", ca, "--name", "x"];
        let refused = run(&words).unwrap_err();
        assert!(!refused.is_usage() && refused.to_string().contains(why), "{refused}");
    }
    let missing = ["client", "--ca", "/nonexistent", "--out", &dir, "--name", "x"];
    assert!(run(&missing).unwrap_err().to_string().contains("/nonexistent/ca.crt"));
}

#[test]
fn certificates_do_not_outlive_their_authority() {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
    let day = Duration::from_secs(86_400);
    let ca = make_ca("x", 10, now).unwrap();
    assert_eq!(ca.until, now + 10 * day);
    let authority = Authority::read(&ca.certificate, &ca.key).unwrap();
    let make = |days, now| authority.make("y", &Purpose::Client, days, now);
    assert_eq!(make(5, now).unwrap().until, now + 5 * day);
    assert_eq!(make(500, now).unwrap().until, now + 10 * day);
    assert!(make(1, now + 10 * day).is_err());
    let made = make(500, now).unwrap();
    let der = CertificateDer::from_pem_slice(made.certificate.as_bytes()).unwrap();
    let (_, parsed) = X509Certificate::from_der(&der).unwrap();
    let until: SystemTime = parsed.validity().not_after.to_datetime().into();
    assert_eq!(until, made.until);
    let from: SystemTime = parsed.validity().not_before.to_datetime().into();
    assert_eq!(from, now - BACKDATED);
    let usage = parsed.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.client_auth && !usage.server_auth && !parsed.is_ca());
}

/// Also what others see in the certificates: chain, purposes, names.
#[test]
fn openssl_verifies_the_chain() {
    let openssl = |words: &[&str]| Process::new("openssl").args(words).output();
    if openssl(&["version"]).is_err() {
        eprintln!("openssl is not here: passed over");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let dir = all_in(folder.path());
    let other = tempfile::tempdir().unwrap();
    let other = all_in(other.path());
    let path = |dir: &str, name: &str| format!("{dir}/{name}");
    let verify = |ca: &str, words: &[&str], leaf: &str| {
        let (ca, leaf) = (path(ca, "ca.crt"), path(&dir, leaf));
        let words = [&["verify", "-x509_strict", "-CAfile", &ca], words, &[&leaf]].concat();
        openssl(&words).unwrap().status.success()
    };
    assert!(verify(&dir, &["-purpose", "sslserver", "-verify_ip", "127.0.0.1"], "n.crt"));
    assert!(verify(&dir, &["-purpose", "sslclient", "-verify_ip", "::1"], "n.crt"));
    assert!(verify(
        &dir,
        &["-purpose", "sslserver", "-verify_hostname", "search.example"],
        "n.crt"
    ));
    assert!(!verify(&dir, &["-verify_hostname", "other.example"], "n.crt"));
    assert!(verify(&dir, &["-purpose", "sslclient"], "c.crt"));
    assert!(!verify(&dir, &["-purpose", "sslserver"], "c.crt"));
    assert!(!verify(&other, &[], "n.crt") && verify(&dir, &[], "ca.crt"));
    // The authority's stands behind a node's own: clients look for its SHA-256 among what the node shows.
    let [of_ca, of_node] =
        ["ca.crt", "n.crt"].map(|name| std::fs::read_to_string(path(&dir, name)).unwrap());
    assert!(of_node.ends_with(&of_ca) && of_node.matches("BEGIN CERTIFICATE").count() == 2);
    let text = openssl(&["x509", "-noout", "-text", "-in", &path(&dir, "ca.crt")]).unwrap().stdout;
    let text = String::from_utf8(text).unwrap();
    for part in ["CA:TRUE, pathlen:0", "Certificate Sign", "prime256v1", "CN = Plimsoll CA"] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(
        openssl(&["ec", "-noout", "-check", "-in", &path(&dir, "n.key")]).unwrap().status.success()
    );
}

#[test]
fn examples_parse() {
    let joined = EXAMPLES.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| line.starts_with("plimsoll "));
    let mut count = 0;
    for line in lines {
        let Command::Certificates(command) =
            Cli::try_parse_from(line.split_whitespace()).unwrap().command
        else {
            unreachable!("certificates was given")
        };
        count += usize::from(!matches!(command, CertificatesCommand::Client(_)));
    }
    assert_eq!(count, 4);
}
