//! The password that the settings give to the user `default`; what is compared with what was offered.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use subtle::ConstantTimeEq;

use crate::settings::PASSWORD_BYTES_MAX;

/// Whether clients need a password, and which.
#[derive(Debug)]
pub struct Password {
    required: AtomicBool,
    /// The number of the last that was set.
    last: AtomicU64,
    set: RwLock<Set>,
}

/// A password as it was set.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    padded: Padded,
    /// Which of all that were set it is.
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
            last: AtomicU64::new(0),
            set: RwLock::new(Set {
                padded: Padded { bytes: [0; PASSWORD_BYTES_MAX], len: 0 },
                number: 0,
            }),
        };
        let is_set = this.set(password.unwrap_or_default().as_bytes());
        assert!(is_set, "settings bound the password");
        this
    }

    /// Changes it; an empty one means that clients need none. The one that is there already stays as it is. False where
    /// it is too long.
    pub fn set(&self, password: &[u8]) -> bool {
        let Some(padded) = Padded::new(password) else { return false };
        let mut set = self.set.write();
        if set.padded != padded {
            let number = self.last.fetch_add(1, Relaxed) + 1;
            self.put(&mut set, Set { padded, number });
        }
        true
    }

    fn put(&self, now: &mut Set, set: Set) {
        *now = set;
        self.required.store(set.padded.len > 0, Relaxed);
    }

    /// The password as it is set now.
    #[must_use]
    pub fn now(&self) -> Set {
        *self.set.read()
    }

    /// Which of all that were set it is.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.set.read().number
    }

    /// Puts back what was there before `set`, unless another came since.
    pub fn put_back(&self, before: &Set, set: &Set) {
        let mut now = self.set.write();
        if now.number == set.number {
            self.put(&mut now, *before);
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

    #[test]
    fn each_has_a_number_of_its_own() {
        let password = Password::new(Some("first"));
        let first = password.now();
        assert!(password.set(b"first"));
        assert_eq!(password.number(), first.number, "it is no other");
        assert!(password.set(b"second"));
        let second = password.now();
        password.put_back(&first, &second);
        assert!(password.is(b"first") && password.number() == first.number);
        assert!(password.set(b"third"));
        assert!(![first.number, second.number].contains(&password.number()));
        password.put_back(&first, &second);
        assert!(password.is(b"third"), "another came since");
    }
}
