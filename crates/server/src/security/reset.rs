//! A way back for those who locked themselves out: a new password for the first user, left in the data folder by
//! somebody who may write there, and taken over by the node that runs on it. `plimsoll users reset` leaves one, and
//! so does a node that makes itself secure when it begins. What lies there is a hash.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use super::changes::ChangeError;
use super::passwords::{SALT_BYTES, check_hash, hash};
use super::role::SUPERUSER;
use super::user::{DEFAULT, User};
use super::{Draw, Security};

/// The file in the data folder.
const FILE: &str = "first_user_password";
/// What stands before a hash that is taken only where the first user has no password.
const ONLY_FIRST: &str = "first ";
/// Random bytes of a password that is drawn.
const DRAWN_BYTES: usize = 15;

fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Whether a name is that of the file, whole or half written.
#[must_use]
pub fn is_file(name: &str) -> bool {
    name.starts_with(FILE)
}

/// A password that was drawn: 20 URL-safe characters.
///
/// # Errors
/// Where the system has no random bytes.
pub fn draw(draw: Draw) -> io::Result<String> {
    use base64::Engine as _;
    let mut drawn = [0; DRAWN_BYTES];
    draw(&mut drawn)?;
    Ok(base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(drawn))
}

/// Leaves a new password for the node of this data folder; `only_first`: unless the first user has one by then. The
/// file belongs to whom the folder belongs to.
///
/// # Errors
/// Where it cannot be written.
pub fn leave(folder: &Path, password: &str, only_first: bool, draw: Draw) -> io::Result<()> {
    let mut salt = [0; SALT_BYTES];
    draw(&mut salt)?;
    let hash = hash(password, &salt).map_err(io::Error::other)?;
    let beside = path(folder).with_extension("new");
    let _ = fs::remove_file(&beside);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    let mark = if only_first { ONLY_FIRST } else { "" };
    file.write_all(format!("{mark}{hash}").as_bytes())?;
    file.sync_all()?;
    let owner = fs::metadata(folder)?;
    if owner.uid() != file.metadata()?.uid() {
        // By what is open: whoever owns the folder may have put something else in its place.
        std::os::unix::fs::fchown(&file, Some(owner.uid()), Some(owner.gid()))?;
    }
    fs::rename(beside, path(folder))
}

/// Whether one lies there that no node has taken over.
#[must_use]
pub fn is_left(folder: &Path) -> bool {
    path(folder).exists()
}

impl Security {
    /// Takes over what was left in the data folder: the first user has that password alone, may log in and may do
    /// everything. Says whether there was something.
    ///
    /// # Errors
    /// Where it is no hash, or the metadata cannot be written: it stays there then.
    pub async fn take_reset(&self, folder: &Path) -> Result<bool, ChangeError> {
        if !is_left(folder) {
            return Ok(false);
        }
        let failed = |error: io::Error| {
            ChangeError::Failed(plimsoll_index::Error::internal(error.to_string()))
        };
        let hash = fs::read_to_string(path(folder)).map_err(failed)?;
        let (hash, only_first) = match hash.trim().strip_prefix(ONLY_FIRST) {
            Some(hash) => (hash.to_owned(), true),
            None => (hash.trim().to_owned(), false),
        };
        check_hash(&hash)?;
        let first = |before: Option<User>| {
            let before = before.unwrap_or_else(User::first);
            if only_first && !before.passwords.is_empty() {
                tracing::warn!("the user `default` has a password already: it stays");
                return Ok((Some(before), ()));
            }
            let user = User {
                passwords: vec![hash.clone()],
                roles: vec![SUPERUSER.to_owned()],
                enabled: true,
                acl: None,
                ..before
            };
            Ok((Some(user), ()))
        };
        self.changing_itself().change_user(DEFAULT, first).await?;
        fs::remove_file(path(folder)).map_err(failed)?;
        Ok(true)
    }
}
