//! What an operation takes at apply as far as its arguments alone say, so that it is refused, or
//! kept apart from others, before the log has it. What it takes beyond that depends on rows, and is
//! counted at apply ([`crate::partition::OverBudget`]).

use bytes::Bytes;

use super::{KIND_COMMAND, KIND_DEFAULT_EXPIRY, KIND_TRANSACTION, Operation};
use crate::command::{self, Body, Command, Write, bitfield};
use crate::partition::{self, OPERATION_BYTES_MAX};
use crate::{Argv, ErrorReply};

/// The fewest bytes that an operation writes where all of it is carried out; 0 where its arguments
/// do not say. Cheap for all but transactions.
#[must_use]
pub fn least_bytes(payload: &Bytes) -> u64 {
    match payload.first() {
        Some(&KIND_COMMAND) if !is_far_write(payload) => 0,
        Some(&(KIND_COMMAND | KIND_TRANSACTION | KIND_DEFAULT_EXPIRY)) => {
            Operation::decode(payload).map_or(0, |operation| of_operation(&operation))
        }
        _ => 0,
    }
}

fn of_operation(operation: &Operation) -> u64 {
    match operation {
        Operation::Command(argv) => of_command(argv),
        Operation::Transaction { commands, .. } => {
            commands.iter().map(of_command).fold(0, u64::saturating_add)
        }
        Operation::WithDefaultExpiry { operation, .. } => of_operation(operation),
        _ => 0,
    }
}

/// The refusal of an operation that cannot be carried out whatever the rows hold.
///
/// # Errors
/// It, in words that name the limit.
pub fn check(payload: &Bytes) -> Result<(), ErrorReply> {
    if least_bytes(payload) > OPERATION_BYTES_MAX + partition::own_bytes(payload.len()) {
        return Err(partition::too_many_bytes());
    }
    Ok(())
}

/// Whether it may be a SETBIT, SETRANGE or BITFIELD: of less than 128 arguments, whose number is a
/// byte then, as is the length of the name.
fn is_far_write(payload: &[u8]) -> bool {
    match payload {
        [_, 4, 6, name @ ..] => name.get(..6).is_some_and(|it| it.eq_ignore_ascii_case(b"setbit")),
        [_, 4, 8, name @ ..] => {
            name.get(..8).is_some_and(|it| it.eq_ignore_ascii_case(b"setrange"))
        }
        [_, _, 8, name @ ..] => {
            name.get(..8).is_some_and(|it| it.eq_ignore_ascii_case(b"bitfield"))
        }
        _ => false,
    }
}

fn of_command(argv: &Argv) -> u64 {
    match command::parse(argv) {
        Ok(Command { body: Body::Write(write), .. }) => of_write(&write),
        _ => 0,
    }
}

fn of_write(write: &Write<'_>) -> u64 {
    match write {
        Write::SetBit { offset, .. } => offset / 8 + 1,
        Write::BitField { steps, .. } => bitfield::steps(*steps)
            .filter(|step| step.change != bitfield::Change::Get)
            .map(|step| step.end().div_ceil(8))
            .max()
            .unwrap_or(0),
        Write::SetRange { offset, value, .. } if !value.is_empty() => {
            (*offset as u64).saturating_add(value.len() as u64)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argv(words: &str) -> Argv {
        Argv::of(&words.split(' ').collect::<Vec<_>>())
    }

    #[test]
    fn arguments_say_how_far_a_string_reaches() {
        for (words, bytes) in [
            ("SETBIT k 67108863 1", 8 << 20),
            ("setbit k 0 1", 1),
            ("SETRANGE k 1000 abc", 1003),
            ("SETRANGE k 1000 ", 0),
            ("BITFIELD k GET u8 0 SET u8 8000 1 INCRBY i5 17 1", 1001),
            ("BITFIELD k GET u8 8000", 0),
            ("SETNX k v", 0),
            ("APPEND k v", 0),
            ("SETBIT k x 1", 0),
        ] {
            let payload = Operation::Command(argv(words)).encode();
            assert_eq!(least_bytes(&payload), bytes, "{words}");
        }
        assert_eq!(least_bytes(&Operation::Sweep { limit: 1 }.encode()), 0);
        assert_eq!(least_bytes(&Bytes::new()), 0);
    }

    #[test]
    fn a_transaction_is_the_sum_of_its_commands() {
        let of = |count: usize| {
            let commands = (0..count).map(|at| argv(&format!("SETBIT k{at} 67108863 1")));
            Operation::Transaction { watched: Vec::new(), commands: commands.collect() }.encode()
        };
        assert_eq!(least_bytes(&of(3)), 24 << 20);
        assert!(check(&of(8)).is_ok());
        let refused = check(&of(700)).unwrap_err();
        assert!(refused.message.contains("67108864 bytes"), "{refused}");
    }
}
