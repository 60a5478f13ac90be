//! The keys of followers: each opens the port for other clusters, and that alone, for the tables that
//! its patterns name. [`key`] owns what a key is, [`store`] keeps keys and finds them; what REST says of
//! them is `rest/security.rs`.

mod key;
mod store;

pub use key::{Credential, DRAWN_BYTES, Key, KeySpec};
pub use store::{Invalidated, Keys, KeysError, Refusal, Which};
