//! What a node takes from another that showed which node it is: what that one's place in the metadata allows. Who
//! showed nothing (no TLS between nodes, or not yet) is not judged here. That a certificate is a node's of this
//! cluster is the port's to check.

use crate::metadata;
use crate::node::shared::Shared;
use crate::wire::{Envelope, Problem, Question};

/// Whether a node that showed the name `sender` may ask this.
///
/// # Errors
/// Where it asks in another node's name; where it is no member as far as is known here and asks for more than it
/// joins by; where it wants the files of a partition that it is not to have.
pub(super) fn check(shared: &Shared, sender: &str, envelope: &Envelope) -> Result<(), Problem> {
    let Envelope { from, question, .. } = envelope;
    if from != sender {
        return Err(Problem::NotHere(format!(
            "node [{sender}], by its certificate, asks as node [{from}]"
        )));
    }
    // A node that was set up anew has another id, and its old one may still be a member's.
    let members = shared.members.all();
    let mut ids = members.values().filter(|it| it.record.name == *sender).map(|it| &*it.id);
    match question {
        _ if is_for_joining(question) => Ok(()),
        Question::OpenCheckpoint { partition } | Question::OpenCopy { partition } => {
            let copies = shared.router.copies_named((*partition).into())?;
            let definition = copies.definition();
            let has_copy = ids.any(|id| definition.copy_on(id).is_some());
            has_copy.then_some(()).ok_or_else(|| {
                let why =
                    format!("node [{sender}] has no copy of {} that is known here", copies.id);
                Problem::NotHere(why)
            })
        }
        _ => ids.next().map(drop).ok_or_else(|| {
            Problem::NotHere(format!("node [{sender}] is no member that is known here"))
        }),
    }
}

/// What is asked before the metadata knows the node: whether there are others, and what their metadata is.
fn is_for_joining(question: &Question) -> bool {
    match question {
        Question::OpenCheckpoint { partition } | Question::OpenCopy { partition } => {
            plimsoll_log::PartitionId::from(*partition) == metadata::PARTITION
        }
        Question::Chunk { .. }
        | Question::CopyChunk { .. }
        | Question::FileChecksums { .. }
        | Question::CloseCheckpoint { .. }
        | Question::Probe
        | Question::Await { .. }
        | Question::Clock
        | Question::Positions => true,
        _ => false,
    }
}
