//! What is said at the level `debug` of a request while it is answered, on the node that a client asked and on
//! those that it asks: each has a span with a number, and the spans of others' questions say whose they are.

use tracing::Span;

/// Goes with a question to another node: the name of the node that asks, and the number of its span.
pub const ASKED_BY: &str = "plimsoll-asked-by";

/// The span, which says its number in the field `id`, if anybody listens to it.
#[must_use]
pub fn numbered(span: Span) -> Span {
    if let Some(id) = span.id() {
        span.record("id", id.into_u64());
    }
    span
}

/// What [`ASKED_BY`] says of a question that is asked now; nothing where nobody listens.
#[must_use]
pub fn asked_by(node: &str) -> Option<String> {
    Span::current().id().map(|id| format!("{node}/{}", id.into_u64()))
}
