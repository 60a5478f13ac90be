//! What one run of a script may cost: steps, bytes of values that it builds, and how deep they
//! lie in each other. It counts before something is built and knows nothing of scripts.

use plimsoll_memory::{Account, current};
use serde_json::Value;

/// The most steps: expressions that are evaluated, items and characters that are looked through.
/// Painless stops loops after a million.
const STEPS_MAX: usize = 10_000_000;
/// The most bytes of values that one run may build, those that it throws away again included.
const BYTES_MAX: usize = 16 << 20;
/// How many levels of lists and objects a value may have, counted from the variable that holds
/// it. What reads documents stops at 128.
pub const DEPTH_MAX: usize = 100;
/// After how many bytes the request's account is asked.
const ASKED_BYTES: usize = 1 << 20;

/// Why a run ends before it costs more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    /// Too much is evaluated and looked through.
    #[error("the script takes more than {STEPS_MAX} steps")]
    Steps,
    /// Too much is built.
    #[error("the script builds more than {BYTES_MAX} bytes of values")]
    Bytes,
    /// A breaker wants the memory of the request.
    #[error("the request was told to give its memory back")]
    Memory,
}

/// What a run has cost so far.
#[derive(Debug, Default)]
pub struct Budget {
    steps: usize,
    bytes: usize,
    /// Of those, what the account was not asked for yet.
    unasked: usize,
}

impl Budget {
    /// Counts steps.
    ///
    /// # Errors
    /// Where the limit is passed.
    pub fn step(&mut self, steps: usize) -> Result<(), BudgetError> {
        self.steps = self.steps.saturating_add(steps);
        if self.steps > STEPS_MAX {
            return Err(BudgetError::Steps);
        }
        Ok(())
    }

    /// Counts bytes that are about to be built.
    ///
    /// # Errors
    /// Where the limit is passed, or the request has to stop.
    pub fn build(&mut self, bytes: usize) -> Result<(), BudgetError> {
        self.bytes = self.bytes.saturating_add(bytes);
        self.unasked = self.unasked.saturating_add(bytes);
        if self.bytes > BYTES_MAX {
            return Err(BudgetError::Bytes);
        }
        if self.unasked >= ASKED_BYTES {
            let asked = std::mem::take(&mut self.unasked);
            let account: Option<Account> = current();
            if account.is_some_and(|account| account.ask(asked as u64).is_err()) {
                return Err(BudgetError::Memory);
            }
        }
        Ok(())
    }

    /// A copy of a value; counted first.
    ///
    /// # Errors
    /// As [`Self::build`].
    pub fn copy(&mut self, value: &Value) -> Result<Value, BudgetError> {
        self.build(self.weight(value))?;
        Ok(value.clone())
    }

    /// Counts a value that is about to be written out or looked through.
    ///
    /// # Errors
    /// As [`Self::step`] and [`Self::build`].
    pub fn text(&mut self, value: &Value) -> Result<(), BudgetError> {
        let weight = self.weight(value);
        self.step(weight / size_of::<Value>())?;
        if value.is_string() { Ok(()) } else { self.build(weight) }
    }

    /// About how many bytes a value takes; no more of it is looked at than may still be built.
    fn weight(&self, value: &Value) -> usize {
        fn add(value: &Value, sum: &mut usize, enough: usize) {
            *sum = sum.saturating_add(size_of::<Value>());
            match value {
                Value::String(text) => *sum = sum.saturating_add(text.len()),
                Value::Array(items) => {
                    for item in items {
                        if *sum > enough {
                            return;
                        }
                        add(item, sum, enough);
                    }
                }
                Value::Object(object) => {
                    for (name, item) in object {
                        if *sum > enough {
                            return;
                        }
                        // The entry's hash and its place in the map beside the name.
                        *sum = sum.saturating_add(name.len() + size_of::<(String, u64, usize)>());
                        add(item, sum, enough);
                    }
                }
                _ => (),
            }
        }
        let mut sum = 0;
        add(value, &mut sum, BYTES_MAX - self.bytes.min(BYTES_MAX));
        sum
    }
}

/// How many levels of lists and objects a value has.
#[must_use]
pub fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(object) => 1 + object.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}
