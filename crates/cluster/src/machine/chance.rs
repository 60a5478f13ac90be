//! Numbers that nobody chose: from the operating system where others must not draw the same, from a
//! generator of each thread where that only has to be spread.

/// A number that no other process draws: from the operating system's generator.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    u64::from_le_bytes(bytes)
}

/// As [`cheap_random`], shorter.
pub(crate) fn random_u32() -> u32 {
    let [.., a, b, c, d] = cheap_random().to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// A number for commands that pick at random: cheap, and nothing is guarded by it.
pub(crate) fn cheap_random() -> u64 {
    use std::cell::Cell;
    use std::hash::{BuildHasher, RandomState};
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(0));
    }
    STATE.with(|state| {
        state.set(state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        state.get()
    })
}
