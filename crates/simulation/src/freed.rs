//! What is freed stays in the process for what is asked for next. Each segment of an index begins with a table of
//! megabytes; glibc would give it back to the kernel each time, and the kernel clears every page of it anew: half of
//! a run's processor time.
#![expect(unsafe_code, reason = "glibc is told how to hand out memory")]

use std::sync::Once;

/// More than anything that is asked for at once; glibc takes no more for this.
#[cfg(target_env = "gnu")]
const KEPT_BYTES_MAX: libc::c_int = 32 << 20;
/// So much is taken from the kernel at once, and given back not before.
#[cfg(target_env = "gnu")]
const TAKEN_BYTES: libc::c_int = 64 << 20;

/// From now on, for the whole process. With another allocator nothing is changed.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        #[cfg(target_env = "gnu")]
        // SAFETY: it reads numbers, and may be called at any time.
        unsafe {
            libc::mallopt(libc::M_MMAP_THRESHOLD, KEPT_BYTES_MAX);
            libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
            libc::mallopt(libc::M_TOP_PAD, TAKEN_BYTES);
        }
    });
}
