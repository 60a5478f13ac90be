//! Who the client says it is, each time it connects: what stands in a file is read then, so that a file that
//! was replaced counts from the next connection on.
//!
//! It opens no connection. What stands in a file is repeated nowhere.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use async_nats::Auth;
use nkeys::KeyPair;

/// The largest file that is read.
const FILE_BYTES_MAX: u64 = 64 << 10;

/// How the client shows who it is.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Login {
    Nobody,
    Token(String),
    TokenFile(PathBuf),
    Password {
        user: String,
        password: String,
    },
    PasswordFile {
        user: String,
        file: PathBuf,
    },
    /// A JWT and the seed of a user's NKey, as `nsc` writes them.
    Credentials(PathBuf),
    /// The seed of an NKey alone.
    Nkey(PathBuf),
}

/// Why a client cannot say who it is.
#[derive(Debug, thiserror::Error)]
#[error("cannot log in to the log's servers by {}: {why}", .file.display())]
pub(super) struct LoginError {
    file: PathBuf,
    why: String,
}

impl Login {
    /// Whether there is anything to say.
    pub(super) fn is_anybody(&self) -> bool {
        *self != Self::Nobody
    }

    /// What is said to a server that asks with this nonce.
    pub(super) fn show(&self, nonce: &[u8]) -> Result<Auth, LoginError> {
        let mut auth = Auth::new();
        match self {
            Self::Nobody => {}
            Self::Token(token) => auth.token = Some(token.clone()),
            Self::TokenFile(file) => auth.token = Some(secret(file)?),
            Self::Password { user, password } => {
                (auth.username, auth.password) = (Some(user.clone()), Some(password.clone()));
            }
            Self::PasswordFile { user, file } => {
                (auth.username, auth.password) = (Some(user.clone()), Some(secret(file)?));
            }
            Self::Credentials(file) => {
                let text = read(file)?;
                let jwt = framed(&text, "JWT").ok_or_else(|| wrong(file, "has no JWT"))?;
                let seed = framed(&text, "SEED").ok_or_else(|| wrong(file, "has no seed"))?;
                auth.signature = Some(sign(file, &key(file, seed)?, nonce)?);
                auth.jwt = Some(jwt.to_owned());
            }
            Self::Nkey(file) => {
                let text = read(file)?;
                let seed = text.lines().map(str::trim).find(|line| line.starts_with('S'));
                let key = key(file, seed.ok_or_else(|| wrong(file, "has no seed"))?)?;
                auth.signature = Some(sign(file, &key, nonce)?);
                auth.nkey = Some(key.public_key());
            }
        }
        Ok(auth)
    }
}

fn wrong(file: &Path, why: &str) -> LoginError {
    LoginError { file: file.to_owned(), why: why.to_owned() }
}

fn read(file: &Path) -> Result<String, LoginError> {
    let mut text = String::new();
    let read =
        File::open(file).and_then(|it| it.take(FILE_BYTES_MAX + 1).read_to_string(&mut text));
    match read {
        Ok(bytes) if bytes as u64 > FILE_BYTES_MAX => Err(wrong(file, "is larger than 64 KiB")),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Err(wrong(file, "is no text")),
        Err(error) => Err(wrong(file, &error.to_string())),
    }
}

/// What a file says without its line end.
fn secret(file: &Path) -> Result<String, LoginError> {
    let text = read(file)?;
    match text.trim_end_matches(['\r', '\n']) {
        "" => Err(wrong(file, "is empty")),
        secret => Ok(secret.to_owned()),
    }
}

/// The line behind `-----BEGIN … KIND-----`.
fn framed<'a>(text: &'a str, kind: &str) -> Option<&'a str> {
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with("---") && line.contains("BEGIN") && line.contains(kind))?;
    lines.find(|line| !line.is_empty()).filter(|line| !line.starts_with("---"))
}

fn key(file: &Path, seed: &str) -> Result<KeyPair, LoginError> {
    KeyPair::from_seed(seed).map_err(|_| wrong(file, "its seed is none of an NKey"))
}

fn sign(file: &Path, key: &KeyPair, nonce: &[u8]) -> Result<Vec<u8>, LoginError> {
    key.sign(nonce).map_err(|_| wrong(file, "its seed signs nothing"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_stands_in_files_is_said_and_repeated_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let file = |text: &str| {
            let path = folder.path().join("login");
            fs::write(&path, text).unwrap();
            path
        };
        let key = KeyPair::new_user();
        let seed = key.seed().unwrap();
        let creds = format!(
            "-----BEGIN NATS USER JWT-----\nj.w.t\n------END NATS USER JWT------\n\nsecret\n\
             -----BEGIN USER NKEY SEED-----\n{seed}\n------END USER NKEY SEED------\n"
        );
        let shown = Login::Credentials(file(&creds)).show(b"nonce").unwrap();
        assert_eq!((shown.jwt.as_deref(), shown.nkey), (Some("j.w.t"), None));
        key.verify(b"nonce", &shown.signature.unwrap()).unwrap();
        let shown = Login::Nkey(file(&format!("# a seed\n{seed}\n"))).show(b"nonce").unwrap();
        assert_eq!(shown.nkey, Some(key.public_key()));
        key.verify(b"nonce", &shown.signature.unwrap()).unwrap();
        let login = Login::PasswordFile { user: "ann".to_owned(), file: file("s crt\r\n") };
        let shown = login.show(b"").unwrap();
        assert_eq!(
            (shown.username.as_deref(), shown.password.as_deref()),
            (Some("ann"), Some("s crt"))
        );
        fs::write(folder.path().join("login"), "next\n").unwrap();
        assert_eq!(login.show(b"").unwrap().password.as_deref(), Some("next"), "it is read anew");

        for (login, text, why) in [
            (Login::TokenFile as fn(PathBuf) -> Login, "\n", "is empty"),
            (Login::Nkey, "geheim", "has no seed"),
            (Login::Nkey, "SUgeheim", "none of an NKey"),
            (Login::Credentials, "geheim", "has no JWT"),
            (Login::Credentials, "-----BEGIN NATS USER JWT-----\ngeheim\n", "has no seed"),
        ] {
            let refused = login(file(text)).show(b"").err().unwrap().to_string();
            assert!(refused.contains(why) && !refused.contains("geheim"), "{refused}");
        }
        let refused = Login::TokenFile(folder.path().join("none")).show(b"").err().unwrap();
        assert!(refused.to_string().contains("none"), "{refused}");
    }
}
