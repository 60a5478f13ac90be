//! What a search holds is its request's: how an aggregation asks for memory, and what a request
//! that had to stop is answered. Who has to stop is `plimsoll_memory`'s to say.

use plimsoll_index::Error;
use plimsoll_index::aggregation::Memory;
use plimsoll_memory::breakers::Trip;
use plimsoll_memory::ledger::{Heir, NODE};
use plimsoll_memory::local::{enter, patiently};
use plimsoll_memory::{Account, Standing, Stop};
use std::panic::AssertUnwindSafe;
use std::sync::LazyLock;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{Semaphore, oneshot};

use crate::machine::low_priority::LowPriority;
use crate::wire::CIRCUIT_BREAKING;

/// The account that the thread works for, as aggregations ask it. What they take is counted where
/// it is allocated; here they learn in time that it is too much.
pub(super) struct OfRequest(pub Option<Account>);

impl OfRequest {
    /// Refuses where the request has to stop.
    pub(super) fn check(&self) -> Result<(), Error> {
        self.0.as_ref().map_or(Ok(()), |account| account.check().map_err(|stop| stopped(&stop)))
    }
}

impl Memory for OfRequest {
    fn take(&self, bytes: u64) -> Result<(), Error> {
        let Some(account) = &self.0 else { return Ok(()) };
        account.ask(bytes).map_err(|stop| stopped(&stop))
    }

    fn give(&self, _: u64) {}
}

/// Says that what a request that reads leaves behind are rows, kept for the next that reads them.
pub(super) fn leaves_rows() {
    if let Some(account) = plimsoll_memory::current()
        && account.standing() == Standing::Read
    {
        account.leave_to(Heir::Rows);
    }
}

/// From here on of what a request holds, work on it is long enough to hold others up, bytes.
const LARGE_BYTES: u64 = 1 << 20;

/// Large pieces of work, as many at once as there are processors: each makes many times what it is
/// made of, and more of them at once take longer and more memory together, not less.
static APART: LazyLock<(Semaphore, Option<LowPriority>)> = LazyLock::new(|| {
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // They are everyone's, though a request is the first to want them.
    let _node = enter(&NODE);
    let aside = LowPriority::start(threads);
    if aside.is_none() {
        tracing::error!("the system has no room for threads that long work is done on");
    }
    (Semaphore::new(threads), aside)
});

/// Does work on what a request holds. Where that is much it is done in its turn and after what is
/// answered soon, so that point reads do not wait for a reduction of many buckets.
pub async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if !is_large() {
        return work();
    }
    let (turns, aside) = &*APART;
    // It is never closed.
    let turn = turns.acquire().await;
    let Some(aside) = aside else {
        // The thread is this request's alone meanwhile.
        let here = || patiently(work);
        return if is_aside_possible() { tokio::task::block_in_place(here) } else { here() };
    };
    let (done, answered) = oneshot::channel();
    let work = plimsoll_memory::carry(work);
    aside.give(move || {
        let ended = std::panic::catch_unwind(AssertUnwindSafe(work));
        // It is over where it is done, whether or not somebody waits for it still.
        drop(turn);
        let _ = done.send(ended);
    });
    match answered.await {
        Ok(Ok(answer)) => answer,
        // A fault of ours in it is this request's, as it was where it was done.
        Ok(Err(panic)) => std::panic::resume_unwind(panic),
        Err(_) => unreachable!("what is handed over is done"),
    }
}

fn is_large() -> bool {
    plimsoll_memory::current().is_some_and(|it| it.bytes() >= LARGE_BYTES)
}

fn is_aside_possible() -> bool {
    let flavor = Handle::try_current().map(|handle| handle.runtime_flavor());
    matches!(flavor, Ok(RuntimeFlavor::MultiThread))
}

/// Gives back what a request holds. Where that is much, the thread's other tasks go on elsewhere
/// meanwhile; it waits for nobody.
pub fn aside(work: &mut dyn FnMut()) {
    if is_large() && is_aside_possible() { tokio::task::block_in_place(work) } else { work() }
}

/// What a request that had to stop is answered.
#[must_use]
pub fn stopped(stop: &Stop) -> Error {
    match stop {
        Stop::Tripped(trip) => refused(trip),
        Stop::Cancelled(why) => {
            Error::invalid("task_cancelled_exception", format!("task cancelled [{why}]"))
        }
    }
}

/// What a request is answered that a breaker refused.
#[must_use]
pub fn refused(trip: &Trip) -> Error {
    Error::overloaded(CIRCUIT_BREAKING, trip.to_string())
        .with("bytes_wanted", trip.bytes_wanted)
        .with("bytes_limit", trip.bytes_limit)
        .with("durability", trip.durability())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_clients_read() {
        let trip = Trip {
            breaker: "request",
            label: "7 indices:data/read/search[indices[a]]".to_owned(),
            bytes_wanted: 3 << 20,
            bytes_limit: 2 << 20,
            bytes_new: 1 << 20,
            largest: vec![("7 indices:data/read/search[indices[a]]".to_owned(), 2 << 20)],
            is_transient: true,
        };
        let error = stopped(&Stop::Tripped(trip));
        assert_eq!(error.class, plimsoll_index::ErrorClass::Overloaded);
        let cause = &error.rooted_json()["root_cause"][0];
        assert_eq!(cause["type"], "circuit_breaking_exception");
        assert_eq!(cause["bytes_wanted"], 3 << 20);
        assert_eq!(cause["bytes_limit"], 2 << 20);
        assert_eq!(cause["durability"], "TRANSIENT");
        assert_eq!(
            cause["reason"],
            "[request] Data too large, data for [7 indices:data/read/search[indices[a]]] would be \
             [3145728/3mb], which is larger than the limit of [2097152/2mb], new bytes reserved: \
             [1048576/1mb], largest: [7 indices:data/read/search[indices[a]]=2097152/2mb]"
        );
        assert_eq!(
            stopped(&Stop::Cancelled("x".to_owned())).class,
            plimsoll_index::ErrorClass::Invalid
        );
    }
}
