//! The password of the one user, `default`; what is compared with what was offered.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::RwLock;
use plimsoll_storage::ErrorReply;
use subtle::ConstantTimeEq;

use crate::settings::PASSWORD_BYTES_MAX;

/// The name of the one user.
pub const USER: &str = "default";

/// Whether clients need a password, and which.
#[derive(Debug)]
pub struct Password {
    required: AtomicBool,
    /// Padded with zeros, so that comparing takes the same time whatever is offered.
    padded: RwLock<Padded>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Padded {
    bytes: [u8; PASSWORD_BYTES_MAX],
    len: u64,
}

impl Padded {
    /// None where it is too long to be anyone's.
    fn new(password: &[u8]) -> Option<Self> {
        let mut bytes = [0; PASSWORD_BYTES_MAX];
        bytes.get_mut(..password.len())?.copy_from_slice(password);
        Some(Self { bytes, len: password.len() as u64 })
    }
}

impl Password {
    /// The password of the settings; none means that clients need none.
    ///
    /// # Panics
    /// Where it is longer than the settings allow.
    #[must_use]
    pub fn new(password: Option<&str>) -> Self {
        let this = Self {
            required: AtomicBool::new(false),
            padded: RwLock::new(Padded { bytes: [0; PASSWORD_BYTES_MAX], len: 0 }),
        };
        let is_set = this.set(password.unwrap_or_default().as_bytes());
        assert!(is_set, "settings bound the password");
        this
    }

    /// Changes it; an empty one means that clients need none. False where it is too long.
    pub fn set(&self, password: &[u8]) -> bool {
        let Some(padded) = Padded::new(password) else { return false };
        *self.padded.write() = padded;
        self.required.store(!password.is_empty(), Relaxed);
        true
    }

    /// Whether clients need one.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required.load(Relaxed)
    }

    /// Checks what a client offers: without a user's name, as Redis before version 6 had it, or
    /// with one.
    ///
    /// # Errors
    /// Redis' refusals. The time it takes does not tell how much of the password was right.
    pub fn check(&self, user: Option<&[u8]>, password: &[u8]) -> Result<(), ErrorReply> {
        if user.is_none() && !self.is_required() {
            return Err(ErrorReply::err(
                "AUTH <password> called without any password configured for the default user. \
                 Are you sure your configuration is correct?",
            ));
        }
        let user_is_right = user.is_none_or(|user| user == USER.as_bytes());
        let wanted = *self.padded.read();
        let password_is_right = Padded::new(password).is_some_and(|offered| {
            let same = offered.bytes.ct_eq(&wanted.bytes) & offered.len.ct_eq(&wanted.len);
            bool::from(same)
        });
        if user_is_right && (password_is_right || !self.is_required()) {
            return Ok(());
        }
        let words = "invalid username-password pair or user is disabled.";
        Err(ErrorReply::named("WRONGPASS", words))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_storage::ErrorKind;

    use super::*;

    #[test]
    fn passwords() {
        let none = Password::new(None);
        assert!(!none.is_required());
        assert_eq!(none.check(None, b"x").unwrap_err().kind, ErrorKind::General);
        assert_eq!(
            none.check(Some(b"u"), b"x").unwrap_err().kind,
            ErrorKind::Named("WRONGPASS".into())
        );
        assert!(none.check(Some(b"default"), b"anything").is_ok());

        let set = Password::new(Some("secret"));
        assert!(set.is_required());
        assert!(set.check(None, b"secret").is_ok());
        assert!(set.check(Some(b"default"), b"secret").is_ok());
        for wrong in [&b""[..], b"secre", b"secret\0", b"secrets", &[b'x'; 9999]] {
            assert!(set.check(None, wrong).is_err());
        }
        assert!(set.check(Some(b"other"), b"secret").is_err());
        assert!(!set.set(&[b'x'; PASSWORD_BYTES_MAX + 1]));
        assert!(set.set(b"") && !set.is_required());
    }
}
