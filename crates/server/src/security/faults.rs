//! Why a user, a role or a password is none: words for whoever sent it. Protocols say them in their own forms.

/// What is wrong with what was sent, in Elasticsearch's words where it has some.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

impl From<&str> for Fault {
    fn from(words: &str) -> Self {
        Self(words.to_owned())
    }
}
