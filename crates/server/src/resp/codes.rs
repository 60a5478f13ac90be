//! The upper-case word that begins an error of RESP, for each kind of refusal. Programs read it;
//! the words are Redis'.

use plimsoll_storage::ErrorKind;

/// The word of a kind.
#[must_use]
pub fn error_code(kind: &ErrorKind) -> &str {
    match kind {
        ErrorKind::General => "ERR",
        ErrorKind::WrongType => "WRONGTYPE",
        ErrorKind::ReadOnly => "READONLY",
        ErrorKind::TryAgain => "TRYAGAIN",
        ErrorKind::DiskFull => "MISCONF",
        ErrorKind::OutOfMemory => "OOM",
        ErrorKind::CrossesPartitions => "CROSSSLOT",
        ErrorKind::OutcomeUnknown => "TIMEOUT",
        ErrorKind::Named(name) => name,
    }
}
