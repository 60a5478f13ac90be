//! API keys. A follower's opens the port for other clusters, and that alone, for the tables that its patterns
//! name; any other opens REST in the name of the user that made it. [`key`] owns what a key is, [`store`] keeps
//! keys and finds them, [`room`] says how many there may be; what REST says of them is `rest/security`.

mod key;
mod room;
mod store;
#[cfg(test)]
mod tests;

pub use key::{Credential, DRAWN_BYTES, Key, KeySpec, Owner};
pub use store::{Invalidated, Keys, KeysError, Refusal, Which};
