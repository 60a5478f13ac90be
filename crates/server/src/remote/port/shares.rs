//! How many of something each key has, so that one key leaves others theirs. How many there may be is for who asks to
//! say.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

/// How many of each key run: streams, questions, or connections.
#[derive(Default)]
pub(super) struct Shares(Mutex<HashMap<String, usize>>);

/// One of them.
pub(super) struct Share {
    shares: Arc<Shares>,
    key: String,
}

impl Shares {
    /// Takes one; `None` where a key has as many as it may.
    pub(super) fn take(self: &Arc<Self>, key: &str, of_key_max: usize) -> Option<Share> {
        let mut taken = self.0.lock();
        let count = taken.get(key).copied().unwrap_or_default();
        if count >= of_key_max {
            return None;
        }
        taken.insert(key.to_owned(), count + 1);
        Some(Share { shares: Arc::clone(self), key: key.to_owned() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.0.lock();
        if let Some(count) = taken.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_has_its_own() {
        let shares = Arc::<Shares>::default();
        let one = shares.take("a", 1).unwrap();
        assert!(shares.take("a", 1).is_none() && shares.take("b", 0).is_none());
        let _other = shares.take("b", 1).unwrap();
        drop(one);
        assert!(shares.take("a", 1).is_some());
        assert_eq!(shares.0.lock().len(), 1, "who has none is not remembered");
    }
}
