//! What became of operations in doubt: a fence's verdict as a reply, and back. Whichever of the
//! fence and the operation is applied first wins, on every replica and for good.

use plimsoll_log::rules::sessions::{Outcome, Verdict};
use plimsoll_storage::Reply;
use plimsoll_storage::operation::decode_reply;

/// What became of an operation that was fenced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Settled {
    /// It never ran and never will.
    NeverRuns,
    /// It ran and answered this.
    Ran(Reply),
    /// It ran; its answer was not kept.
    RanUnkept,
    /// Too long ago to tell.
    Unknown,
}

/// A verdict as the reply of a step.
pub(crate) fn reply_of(verdict: Verdict) -> Reply {
    match verdict {
        Verdict::Fresh | Verdict::Superseded | Verdict::Known(Outcome::Fenced) => Reply::Nil,
        Verdict::Known(Outcome::Ran(reply)) => Reply::Bulk(reply),
        Verdict::Known(Outcome::RanUnkept) => Reply::OK,
        Verdict::Forgotten | Verdict::TooOld => Reply::NilArray,
    }
}

/// The same reply as what it says.
pub(crate) fn settled(reply: &Reply) -> Settled {
    match reply {
        Reply::Nil => Settled::NeverRuns,
        Reply::Bulk(bytes) => decode_reply(bytes).map_or(Settled::RanUnkept, Settled::Ran),
        Reply::Status(_) => Settled::RanUnkept,
        _ => Settled::Unknown,
    }
}
