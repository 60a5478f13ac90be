//! Who holds which bytes of the process, and who gives them back at a limit.
//!
//! - [`layer`]: the global allocator's layer. Every block carries its owner's ledger in front.
//! - [`ledger`]: what an owner holds; the owners that last as long as the process.
//! - `charge`: counts blocks, and asks at a limit; `marks`: what it compares with.
//! - [`local`]: what a thread counts before it tells a ledger, and for whom it works.
//! - [`account`]: a request's ledger, its description, its end, and being told to stop.
//! - [`charged`]: a future that works for an account whenever it is polled.
//! - [`breakers`]: limits, and who yields at one.
//! - [`machine`]: what the kernel says of memory.
//! - [`watch`]: the thread that looks at all of it, and checks that nothing is lost.
//!
//! There is one of everything: memory is the process', however many nodes a test runs in it. It
//! knows no request's words, no protocol and no async runtime.

#![expect(
    clippy::disallowed_methods,
    reason = "memory is the machine's, and a simulation shares it"
)]

pub mod account;
pub mod breakers;
mod charge;
pub mod charged;
pub mod layer;
pub mod ledger;
pub mod local;
pub mod machine;
mod marks;
mod nudge;
pub mod watch;

pub use account::{Account, Standing, Stop, TaskAction, carry, current};
pub use charged::Charged;
pub use layer::Counted;
pub use ledger::Ledger;
