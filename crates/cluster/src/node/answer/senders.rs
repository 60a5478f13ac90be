//! What a node takes from another that showed which node it is: what that one's place in the metadata allows. Who
//! showed nothing (no TLS between nodes, or not yet) is not judged here. That a certificate is a node's of this
//! cluster is the port's to check.

use crate::metadata;
use crate::node::shared::Shared;
use crate::wire::{Envelope, PartitionName, Problem, Question};

/// Whether a node that showed the name `sender` may ask this.
///
/// # Errors
/// Where it asks in another node's name; where it is no member as far as is known here and asks for more than it
/// joins by; where it wants the files of a partition that it is not to have.
pub(super) fn check(shared: &Shared, sender: &str, envelope: &Envelope) -> Result<(), Problem> {
    let Envelope { from, question, .. } = envelope;
    match shared.members.get(from) {
        None if is_for_joining(question) => Ok(()),
        None => Err(Problem::NotHere(format!("node [{sender}] is no member that is known here"))),
        Some(member) if member.record.name != sender => Err(Problem::NotHere(format!(
            "node [{sender}], by its certificate, asks as node [{}]",
            member.record.name
        ))),
        Some(_) => match question {
            Question::OpenCheckpoint { partition } | Question::OpenCopy { partition } => {
                check_place(shared, from, *partition)
            }
            _ => Ok(()),
        },
    }
}

/// What is asked before the metadata knows the node: whether there are others, and what their metadata is.
fn is_for_joining(question: &Question) -> bool {
    match question {
        Question::OpenCheckpoint { partition } | Question::OpenCopy { partition } => {
            is_metadata(*partition)
        }
        Question::Chunk { .. }
        | Question::CopyChunk { .. }
        | Question::FileChecksums { .. }
        | Question::CloseCheckpoint { .. }
        | Question::Probe
        | Question::Clock
        | Question::Positions => true,
        _ => false,
    }
}

fn is_metadata(partition: PartitionName) -> bool {
    plimsoll_log::PartitionId::from(partition) == metadata::PARTITION
}

/// Every member has the metadata; the files of another partition those alone that have a copy of it, or are to.
fn check_place(shared: &Shared, from: &str, partition: PartitionName) -> Result<(), Problem> {
    if is_metadata(partition) {
        return Ok(());
    }
    let copies = shared.router.copies_named(partition.into())?;
    match copies.definition().copy_on(from) {
        Some(_) => Ok(()),
        None => Err(Problem::NotHere(format!(
            "partition {} has no copy on the node that asks, as far as is known here",
            copies.id
        ))),
    }
}
