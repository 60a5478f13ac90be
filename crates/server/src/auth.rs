//! The password that the settings give to the user `default`; what is compared with what was offered.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::RwLock;
use subtle::ConstantTimeEq;

use crate::settings::PASSWORD_BYTES_MAX;

/// Whether clients need a password, and which.
#[derive(Debug)]
pub struct Password {
    required: AtomicBool,
    set: RwLock<Set>,
}

/// A password as it was set.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    padded: Padded,
    /// How many were set before it.
    pub(crate) number: u64,
}

/// Padded with zeros, so that comparing takes the same time whatever is offered.
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
            set: RwLock::new(Set {
                padded: Padded { bytes: [0; PASSWORD_BYTES_MAX], len: 0 },
                number: 0,
            }),
        };
        let is_set = this.set(password.unwrap_or_default().as_bytes());
        assert!(is_set, "settings bound the password");
        this
    }

    /// Changes it; an empty one means that clients need none. False where it is too long.
    pub fn set(&self, password: &[u8]) -> bool {
        let Some(padded) = Padded::new(password) else { return false };
        self.put(&mut self.set.write(), padded);
        true
    }

    fn put(&self, set: &mut Set, padded: Padded) {
        *set = Set { padded, number: set.number + 1 };
        self.required.store(padded.len > 0, Relaxed);
    }

    /// The password as it is set now.
    #[must_use]
    pub fn now(&self) -> Set {
        *self.set.read()
    }

    /// How many were set before it.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.set.read().number
    }

    /// Puts back what was there before `set`, unless another came since.
    pub fn put_back(&self, before: &Set, set: &Set) {
        let mut now = self.set.write();
        if now.number == set.number {
            self.put(&mut now, before.padded);
        }
    }

    /// Whether clients need one.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.required.load(Relaxed)
    }

    /// Whether it is this one. The time it takes does not tell how much of it was right.
    #[must_use]
    pub fn is(&self, offered: &[u8]) -> bool {
        let wanted = self.set.read().padded;
        Padded::new(offered).is_some_and(|offered| {
            let same = offered.bytes.ct_eq(&wanted.bytes) & offered.len.ct_eq(&wanted.len);
            bool::from(same)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords() {
        assert!(!Password::new(None).is_required());
        let set = Password::new(Some("secret"));
        assert!(set.is_required() && set.is(b"secret"));
        for wrong in [&b""[..], b"secre", b"secret\0", b"secrets", &[b'x'; 9999]] {
            assert!(!set.is(wrong));
        }
        assert!(!set.set(&[b'x'; PASSWORD_BYTES_MAX + 1]));
        assert!(set.set(b"") && !set.is_required());
    }
}
