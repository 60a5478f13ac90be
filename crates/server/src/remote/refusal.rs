//! Why a question has no answer, on its way from one cluster to another: a status of gRPC with its
//! kind beside it. The code is for people and other programs; the kind is what a follower goes by,
//! since the machinery between has its own uses for some of the codes.

use plimsoll_cluster::following::RemoteError;
use serde::{Deserialize, Serialize};
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The header, or trailer, that names the kind.
const KIND: &str = "plimsoll-why";

/// A refusal without a status: what nodes of one cluster hand on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    kind: Kind,
    words: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    Unreachable,
    Denied,
    NoTable,
    Trimmed,
    Forked,
    Refused,
}

impl Kind {
    const ALL: [Self; 6] = [
        Self::Unreachable,
        Self::Denied,
        Self::NoTable,
        Self::Trimmed,
        Self::Forked,
        Self::Refused,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::Denied => "denied",
            Self::NoTable => "no_table",
            Self::Trimmed => "trimmed",
            Self::Forked => "forked",
            Self::Refused => "refused",
        }
    }

    fn code(self) -> Code {
        match self {
            Self::Unreachable => Code::Unavailable,
            Self::Denied => Code::PermissionDenied,
            Self::NoTable => Code::NotFound,
            Self::Trimmed => Code::OutOfRange,
            Self::Forked => Code::DataLoss,
            Self::Refused => Code::InvalidArgument,
        }
    }

    /// What a status is that says no kind: one of a proxy, of gRPC itself, or of the port before it
    /// has read the question.
    fn of_code(code: Code) -> Self {
        match code {
            Code::Unauthenticated | Code::PermissionDenied => Self::Denied,
            Code::InvalidArgument | Code::Unimplemented | Code::NotFound | Code::OutOfRange => {
                Self::Refused
            }
            _ => Self::Unreachable,
        }
    }

    fn error(self, words: String) -> RemoteError {
        match self {
            Self::Unreachable => RemoteError::Unreachable(words),
            Self::Denied => RemoteError::Denied(words),
            Self::NoTable => RemoteError::NoTable(words),
            Self::Trimmed => RemoteError::Trimmed(words),
            Self::Forked => RemoteError::Forked(words),
            Self::Refused => RemoteError::Refused(words),
        }
    }
}

impl From<RemoteError> for Refusal {
    fn from(error: RemoteError) -> Self {
        let kind = match error {
            RemoteError::Unreachable(_) => Kind::Unreachable,
            RemoteError::Denied(_) => Kind::Denied,
            RemoteError::NoTable(_) => Kind::NoTable,
            RemoteError::Trimmed(_) => Kind::Trimmed,
            RemoteError::Forked(_) => Kind::Forked,
            RemoteError::Refused(_) => Kind::Refused,
        };
        Self { kind, words: error.to_string() }
    }
}

impl From<Refusal> for RemoteError {
    fn from(refusal: Refusal) -> Self {
        refusal.kind.error(refusal.words)
    }
}

/// As it goes to another cluster.
#[must_use]
pub fn status_of(error: RemoteError) -> Status {
    let Refusal { kind, words } = error.into();
    let mut metadata = MetadataMap::new();
    metadata.insert(KIND, MetadataValue::<Ascii>::from_static(kind.name()));
    Status::with_metadata(kind.code(), words, metadata)
}

/// What a status of another cluster means, in the words given for it.
#[must_use]
pub fn error_of(status: &Status, words: String) -> RemoteError {
    let named = status.metadata().get(KIND).and_then(|value| value.to_str().ok());
    let named = Kind::ALL.into_iter().find(|kind| Some(kind.name()) == named);
    named.unwrap_or_else(|| Kind::of_code(status.code())).error(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_way() {
        for kind in Kind::ALL {
            let error = kind.error("why".to_owned());
            let status = status_of(error.clone());
            assert_eq!(status.code(), kind.code());
            assert_eq!(error_of(&status, status.message().to_owned()), error);
            let refusal = Refusal::from(error.clone());
            let bytes = serde_json::to_vec(&refusal).unwrap();
            let read: Refusal = serde_json::from_slice(&bytes).unwrap();
            assert_eq!(RemoteError::from(read), error);
        }
    }

    #[test]
    fn what_others_say_is_neither_a_trim_nor_a_fork() {
        // gRPC says so of a message that is too long.
        let long = Status::out_of_range("message length too large");
        assert!(matches!(error_of(&long, String::new()), RemoteError::Refused(_)));
        for status in [Status::data_loss(""), Status::resource_exhausted(""), Status::aborted("")] {
            assert!(matches!(error_of(&status, String::new()), RemoteError::Unreachable(_)));
        }
        let unauthenticated = Status::unauthenticated("");
        assert!(matches!(error_of(&unauthenticated, String::new()), RemoteError::Denied(_)));
    }
}
