//! What both sides of the way between nodes agree on: the method, its headers, the secret in them, and how much may
//! be on the way.

use base64::{Engine, engine::general_purpose::STANDARD};

/// The one method.
pub(super) const METHOD: &str = "/plimsoll.Node/Ask";
/// The header that carries the secret.
pub(super) const AUTHORIZATION: &str = "authorization";
pub(super) const SCHEME: &str = "Bearer ";
/// Goes with a refusal that came before anything was done.
pub(super) const REFUSED: &str = "plimsoll-refused";
/// What one message may have on its way without a word from the receiver: an answer of 4 MiB
/// goes out in one go.
pub(super) const STREAM_WINDOW_BYTES: u32 = 8 << 20;
/// The same for a connection, which many messages share.
pub(super) const CONNECTION_WINDOW_BYTES: u32 = 32 << 20;
/// The longest piece of a message: one of 16 KiB, the least there may be, costs a long message
/// more than the wait costs the short ones behind it.
pub(super) const FRAME_BYTES_MAX: u32 = 128 << 10;
/// Calls at once on one connection; more wait in the node that asks.
pub(super) const STREAMS_MAX: u32 = 1024;

/// What the header says for a secret, which may hold anything.
pub(super) fn authorization(secret: &str) -> String {
    format!("{SCHEME}{}", STANDARD.encode(secret))
}

/// The secret that a header says.
pub(super) fn secret_of(header: &[u8]) -> Option<Vec<u8>> {
    STANDARD.decode(header.strip_prefix(SCHEME.as_bytes())?).ok()
}
