//! Names that nobody gave: ids of documents that come without one, and random ones.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::node::unix_ms;

/// Makes ids of 20 URL-safe characters: milliseconds, the node's random bytes, a number. They
/// begin with what changes least, so that ids of one time lie together in an index.
#[derive(Debug)]
pub struct Ids {
    node: [u8; 6],
    next: AtomicU64,
}

impl Default for Ids {
    fn default() -> Self {
        let drawn = random_bytes::<9>();
        let mut node = [0; 6];
        node.copy_from_slice(&drawn[..6]);
        let start = u64::from_be_bytes([0, 0, 0, 0, 0, drawn[6], drawn[7], drawn[8]]);
        Self { node, next: AtomicU64::new(start) }
    }
}

impl Ids {
    /// An id that no other call returns, nor one on another node.
    #[must_use]
    pub fn next(&self) -> String {
        let millis = unix_ms().to_be_bytes();
        // Three bytes of it: unique as long as a millisecond brings fewer than 16 million.
        let number = self.next.fetch_add(1, Relaxed).to_be_bytes();
        let mut bytes = [0; 15];
        bytes[..6].copy_from_slice(&millis[2..]);
        bytes[6..12].copy_from_slice(&self.node);
        bytes[12..].copy_from_slice(&number[5..]);
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

/// 22 URL-safe characters that were never drawn before.
#[must_use]
pub fn random_uuid() -> String {
    URL_SAFE_NO_PAD.encode(random_bytes::<16>())
}

fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the system has random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_short_and_differ() {
        let ids = Ids::default();
        let drawn: std::collections::HashSet<String> = (0..1000).map(|_| ids.next()).collect();
        assert_eq!(drawn.len(), 1000);
        assert!(drawn.iter().all(|id| id.len() == 20));
        assert_eq!(random_uuid().len(), 22);
    }
}
