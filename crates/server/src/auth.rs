//! The password that the settings give to the user `default`; what is compared with what was offered.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use parking_lot::{Mutex, RwLock};
use subtle::ConstantTimeEq;

use crate::settings::PASSWORD_BYTES_MAX;

/// Whether clients need a password, and which.
#[derive(Debug)]
pub struct Password {
    required: AtomicBool,
    set: RwLock<Set>,
    /// One that is to be set, and lets nobody in yet.
    proposed: Mutex<Option<Padded>>,
}

/// A password as it was set.
#[derive(Clone, Copy, Debug)]
struct Set {
    padded: Padded,
    /// Which of all that were set it is.
    number: u64,
}

/// A password that was proposed, and is another than the one that is set.
#[derive(Debug)]
pub struct Proposed(Padded);

impl Proposed {
    /// Whether clients would need one; else it is to be none.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.0.len > 0
    }
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
            proposed: Mutex::new(None),
        };
        let is_taken = this.propose(password.unwrap_or_default().as_bytes());
        assert!(is_taken, "settings bound the password");
        if let Some(proposed) = this.take_proposed() {
            this.set(&proposed);
        }
        this
    }

    /// Keeps one that is to be set, in place of one that was proposed before; an empty one means that clients need
    /// none. False where it is too long.
    pub fn propose(&self, password: &[u8]) -> bool {
        let padded = Padded::new(password);
        *self.proposed.lock() = padded;
        padded.is_some()
    }

    /// The one that was proposed last; none where it is set already.
    #[must_use]
    pub fn take_proposed(&self) -> Option<Proposed> {
        let proposed = self.proposed.lock().take()?;
        (proposed != self.set.read().padded).then_some(Proposed(proposed))
    }

    /// Sets one: from now on it alone lets somebody in.
    pub fn set(&self, proposed: &Proposed) {
        let mut set = self.set.write();
        *set = Set { padded: proposed.0, number: set.number + 1 };
        self.required.store(proposed.is_required(), Relaxed);
    }

    /// Which of all that were set it is.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.set.read().number
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
        assert!(!set.propose(&[b'x'; PASSWORD_BYTES_MAX + 1]));
        assert!(set.take_proposed().is_none() && set.is(b"secret"));
        assert!(set.propose(b"") && set.is_required(), "it is only proposed");
        let none = set.take_proposed().unwrap();
        assert!(!none.is_required());
        set.set(&none);
        assert!(!set.is_required());
    }

    #[test]
    fn each_has_a_number_of_its_own() {
        let password = Password::new(Some("first"));
        let first = password.number();
        assert!(password.propose(b"first"));
        assert!(password.take_proposed().is_none(), "it is no other");
        for next in ["second", "first"] {
            let before = password.number();
            assert!(password.propose(next.as_bytes()) && !password.is(next.as_bytes()));
            password.set(&password.take_proposed().unwrap());
            assert!(password.is(next.as_bytes()));
            assert!(![before, first].contains(&password.number()));
        }
    }
}
