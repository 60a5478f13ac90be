//! Who is told of the memory that an aggregation takes. How much is too much is the breaker's to say.

use std::cell::Cell;

use crate::Error;

/// A counter of bytes that may refuse.
pub trait Memory {
    /// Asks for more bytes, before or right after they are taken. With none it is asked whether to
    /// go on.
    ///
    /// # Errors
    /// The breaker's own, such as 429 `circuit_breaking_exception`; then the bytes are not counted.
    fn take(&self, bytes: u64) -> Result<(), Error>;
    /// Gives bytes back that were granted.
    fn give(&self, bytes: u64);
}

/// Memory without a limit, for tests and tools.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unlimited;

impl Memory for Unlimited {
    fn take(&self, _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn give(&self, _: u64) {}
}

/// Bytes are asked for in steps of this size, so that many small growths cost one question.
const STEP_BYTES: u64 = 32 << 10;

/// The memory of one run; what was granted is given back when it is dropped.
pub(super) struct Account<'a> {
    memory: &'a dyn Memory,
    granted: Cell<u64>,
    used: Cell<u64>,
}

impl<'a> Account<'a> {
    pub(super) fn new(memory: &'a dyn Memory) -> Self {
        Self { memory, granted: Cell::new(0), used: Cell::new(0) }
    }

    /// Counts `bytes` more.
    pub(super) fn grow(&self, bytes: usize) -> Result<(), Error> {
        let used = self.used.get().saturating_add(bytes as u64);
        if used > self.granted.get() {
            let step = (used - self.granted.get()).next_multiple_of(STEP_BYTES);
            self.memory.take(step)?;
            self.granted.set(self.granted.get() + step);
        }
        self.used.set(used);
        Ok(())
    }

    /// Refuses where the run has to stop; to be asked for every bucket of a result.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.memory.take(0)
    }

    /// Sets what a part of the run holds now; `before` is what it held when it last said so.
    pub(super) fn adjust(&self, before: &mut usize, now: usize) -> Result<(), Error> {
        if now > *before {
            self.grow(now - *before)?;
        } else {
            self.used.set(self.used.get().saturating_sub((*before - now) as u64));
        }
        *before = now;
        Ok(())
    }
}

impl Drop for Account<'_> {
    fn drop(&mut self) {
        self.memory.give(self.granted.get());
    }
}
