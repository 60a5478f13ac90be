//! Numbers that nobody may guess: from the operating system. What is drawn where nothing hangs on that comes from
//! the `Random` that a node is handed.

#![expect(clippy::disallowed_methods, reason = "what the machine has is asked here alone")]

/// A number that no other process draws: from the operating system's generator.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u64::from_le_bytes(bytes)
}
