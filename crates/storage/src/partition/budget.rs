//! What one operation, and all operations of one record, may take at apply: bytes and steps. It is
//! a part of the log's format: the same record over the same rows takes the same on every replica,
//! so all of them refuse the same operations. A change of these numbers is a change of the format.
//!
//! Bytes are those of rows put and removed, each time they are, and of answers. Steps are time: a
//! row looked at or changed, its bytes, an entry of a table. Both are asked for before they are
//! taken, so that a record never holds more than its budget and one value.
//!
//! What follows from an operation's own length alone (a SET, a HSET of many fields) is its own and
//! never refused, whatever others in the record took. What goes beyond comes out of what all share.
//! Nothing that differs between replicas is counted: no cache, no touches, no size of a type in memory.

use std::cell::Cell;

use crate::rows::StoreError;
use crate::{ErrorKind, ErrorReply};

/// What one operation may take beyond its own, bytes.
pub const OPERATION_BYTES_MAX: u64 = 64 << 20;
/// The same, steps: about a second.
pub const OPERATION_STEPS_MAX: u64 = 64 << 20;
/// What all operations of a record may take together beyond their own, bytes.
pub const RECORD_BYTES_MAX: u64 = 2 * OPERATION_BYTES_MAX;
/// The same, steps.
pub const RECORD_STEPS_MAX: u64 = 2 * OPERATION_STEPS_MAX;

/// What is an operation's own: so much, and so much more for each of its bytes in the log. The
/// densest is a HSET of fields and values of one byte, whose rows take about 40 times as much.
const OWN_BYTES: u64 = 512;
const OWN_BYTES_EACH: u64 = 16;
const OWN_STEPS: u64 = 4096;
const OWN_STEPS_EACH: u64 = 64;

/// What a changed row takes beside its key and value.
const ROW_BYTES: u64 = 128;
/// What it costs to find, pass or change a row, beside its bytes.
const ROW_STEPS: u64 = 64;
/// So many bytes are copied in a step.
const STEP_BYTES: u64 = 16;

/// The cluster's version since which records have a budget.
pub const BUDGETED_SINCE: u32 = 2;

/// What may be done about an operation that exceeds its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// It is refused, with no effect: where every replica does so.
    Refuse,
    /// Apply stops before its record: where another replica may be of a version without a budget.
    Stop,
}

/// What was exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    OperationBytes,
    OperationSteps,
    RecordBytes,
    RecordSteps,
}

impl Limit {
    fn refusal(self) -> ErrorReply {
        let of_operation = |limit: u64, unit: &str| {
            ErrorReply::err(format!(
                "the command or transaction exceeds the limit of {limit} {unit} of work at once \
                 (rows changed and answers together); nothing of it was done"
            ))
        };
        let of_record = |limit: u64, unit: &str| {
            ErrorReply::new(
                ErrorKind::TryAgain,
                format!(
                    "commands written together exceed the limit of {limit} {unit} of work at \
                     once; nothing of this one was done"
                ),
            )
        };
        match self {
            Self::OperationBytes => of_operation(OPERATION_BYTES_MAX, "bytes"),
            Self::OperationSteps => of_operation(OPERATION_STEPS_MAX, "steps"),
            Self::RecordBytes => of_record(RECORD_BYTES_MAX, "bytes"),
            Self::RecordSteps => of_record(RECORD_STEPS_MAX, "steps"),
        }
    }
}

/// What is an operation's own, by its bytes in the log.
#[must_use]
pub fn own_bytes(payload_bytes: usize) -> u64 {
    OWN_BYTES + OWN_BYTES_EACH * payload_bytes as u64
}

/// The refusal of an operation whose arguments alone say that it takes too many bytes.
#[must_use]
pub fn too_many_bytes() -> ErrorReply {
    Limit::OperationBytes.refusal()
}

/// One kind of what is counted.
#[derive(Debug)]
struct Meter {
    /// What the running operation may still take; endless between operations.
    left: Cell<u64>,
    /// What it began with, and what of that is its own.
    given: u64,
    own: u64,
    /// What all operations share, and have left.
    shared: u64,
}

impl Meter {
    fn new(shared: u64) -> Self {
        Self { left: Cell::new(u64::MAX), given: u64::MAX, own: 0, shared }
    }

    fn begin(&mut self, own: u64, operation_max: u64) {
        self.own = own;
        self.given = own + operation_max.min(self.shared);
        self.left.set(self.given);
    }

    fn take(&self, amount: u64) -> bool {
        match self.left.get().checked_sub(amount) {
            Some(left) => {
                self.left.set(left);
                true
            }
            None => false,
        }
    }

    /// What was taken beyond the operation's own; all that it gave counts from now on for nobody.
    fn end(&mut self) -> u64 {
        let taken = self.given - self.left.replace(u64::MAX);
        taken.saturating_sub(self.own)
    }

    /// Whether the operation had less than it could have had in a record of its own.
    fn is_short(&self, operation_max: u64) -> bool {
        self.given < self.own + operation_max
    }
}

/// The budget of one record.
#[derive(Debug)]
pub(super) struct Budget {
    bytes: Meter,
    steps: Meter,
    /// Steps that the node takes and the log's format does not know of: no operation is charged for
    /// them.
    passed: Cell<u64>,
    exceeded: Cell<Option<Limit>>,
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            bytes: Meter::new(RECORD_BYTES_MAX),
            steps: Meter::new(RECORD_STEPS_MAX),
            passed: Cell::new(0),
            exceeded: Cell::new(None),
        }
    }
}

impl Budget {
    /// An operation of so many bytes in the log begins.
    pub fn begin(&mut self, payload_bytes: usize) {
        let length = payload_bytes as u64;
        self.bytes.begin(own_bytes(payload_bytes), OPERATION_BYTES_MAX);
        self.steps.begin(OWN_STEPS + OWN_STEPS_EACH * length, OPERATION_STEPS_MAX);
        self.exceeded.set(None);
    }

    /// It ended. One that was refused leaves nothing behind but the time that it took.
    pub fn end(&mut self, is_kept: bool) {
        let bytes = self.bytes.end();
        if is_kept {
            self.bytes.shared = self.bytes.shared.saturating_sub(bytes);
        }
        self.steps.shared = self.steps.shared.saturating_sub(self.steps.end());
        self.exceeded.set(None);
    }

    /// What all operations so far took of what they share, thousandths, and what the node took beside
    /// that: it may be more than all.
    pub fn shared_permille(&self) -> u64 {
        let used = |meter: &Meter, max: u64| (max - meter.shared) * 1000 / max;
        let steps = used(&self.steps, RECORD_STEPS_MAX);
        let passed = self.passed.get().saturating_mul(1000) / RECORD_STEPS_MAX;
        used(&self.bytes, RECORD_BYTES_MAX).max(steps.saturating_add(passed))
    }

    /// Why the running operation is refused, if it is.
    pub fn refusal(&self) -> Option<ErrorReply> {
        self.exceeded.get().map(Limit::refusal)
    }

    /// Whether the running operation has less than a quarter left.
    pub fn is_pressed(&self) -> bool {
        let is_low = |meter: &Meter| meter.left.get() < meter.given / 4;
        is_low(&self.bytes) || is_low(&self.steps)
    }

    /// Asks for bytes of an answer.
    pub fn hold(&self, bytes: usize) -> Result<(), StoreError> {
        self.check()?;
        self.take(bytes as u64, 1 + bytes as u64 / STEP_BYTES)
    }

    /// Asks for steps.
    pub fn work(&self, steps: u64) -> Result<(), StoreError> {
        self.check()?;
        self.take(0, steps)
    }

    /// Asks for a look at a row of so many bytes.
    pub fn count_read(&self, bytes: usize) -> Result<(), StoreError> {
        self.check()?;
        self.take(0, ROW_STEPS + bytes as u64 / STEP_BYTES)
    }

    /// Notes that a row of so many bytes is passed over that is not there for the running operation:
    /// it is never refused for it.
    pub fn pass(&self, bytes: usize) {
        let steps = ROW_STEPS + bytes as u64 / STEP_BYTES;
        self.passed.set(self.passed.get().saturating_add(steps));
    }

    /// Asks for the change of a row of so many bytes; false where it must not be made. Once that
    /// was said, everything is refused until the operation ends.
    pub fn change(&self, bytes: usize) -> bool {
        let bytes = bytes as u64;
        self.exceeded.get().is_none()
            && self.take(ROW_BYTES + bytes, ROW_STEPS + bytes / STEP_BYTES).is_ok()
    }

    /// Bytes and steps that the running operation may still take.
    #[cfg(test)]
    pub fn left(&self) -> [u64; 2] {
        [&self.bytes, &self.steps].map(|meter| meter.left.get())
    }

    fn check(&self) -> Result<(), StoreError> {
        self.exceeded.get().map_or(Ok(()), |limit| Err(limit.refusal().into()))
    }

    fn take(&self, bytes: u64, steps: u64) -> Result<(), StoreError> {
        let limit = if !self.bytes.take(bytes) {
            match self.bytes.is_short(OPERATION_BYTES_MAX) {
                true => Limit::RecordBytes,
                false => Limit::OperationBytes,
            }
        } else if !self.steps.take(steps) {
            match self.steps.is_short(OPERATION_STEPS_MAX) {
                true => Limit::RecordSteps,
                false => Limit::OperationSteps,
            }
        } else {
            return Ok(());
        };
        self.exceeded.set(Some(limit));
        Err(limit.refusal().into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_counted_between_operations() {
        let mut budget = Budget::default();
        assert!(budget.change(usize::MAX / 2) && budget.hold(1 << 40).is_ok());
        budget.begin(0);
        budget.end(true);
        assert!(budget.hold(1 << 40).is_ok());
        assert_eq!(budget.shared_permille(), 0);
    }

    fn refusal(held: Result<(), StoreError>) -> ErrorReply {
        match held {
            Err(StoreError::Refused(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_operation_has_its_own_and_a_share() {
        let max = usize::try_from(OPERATION_BYTES_MAX).unwrap();
        let mut budget = Budget::default();
        budget.begin(10);
        assert!(budget.hold(max).is_ok());
        assert!(budget.is_pressed());
        let refused = refusal(budget.hold(2 * 1024));
        assert_eq!(refused.kind, ErrorKind::General);
        assert!(refused.message.contains("67108864 bytes"), "{refused}");
        assert!(!budget.change(1), "once refused, all is refused");
        assert!(budget.work(1).is_err());
        budget.end(false);
        assert_eq!(budget.bytes.shared, RECORD_BYTES_MAX, "it left nothing");
        assert!(budget.steps.shared < RECORD_STEPS_MAX, "but it took time");
    }

    #[test]
    fn what_is_its_own_is_never_refused() {
        let max = usize::try_from(OPERATION_BYTES_MAX).unwrap();
        let mut budget = Budget::default();
        for _ in 0..2 {
            budget.begin(0);
            assert!(budget.hold(max).is_ok());
            budget.end(true);
        }
        assert!(budget.shared_permille() > 990);
        for _ in 0..1000 {
            budget.begin(30);
            assert!(budget.count_read(50).is_ok() && budget.change(50) && budget.hold(60).is_ok());
            budget.end(true);
        }
        budget.begin(0);
        let refused = refusal(budget.hold(1 << 20));
        assert_eq!(refused.kind, ErrorKind::TryAgain);
        assert!(refused.message.contains("134217728"), "{refused}");
    }

    #[test]
    fn steps_are_bounded_too() {
        let mut budget = Budget::default();
        budget.begin(0);
        let rows = (0..).take_while(|_| budget.count_read(0).is_ok()).count() as u64;
        assert_eq!(rows, (OPERATION_STEPS_MAX + OWN_STEPS) / ROW_STEPS);
        assert!(budget.refusal().unwrap().message.contains("67108864 steps"));
    }
}
