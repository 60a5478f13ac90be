//! What nodes say of themselves while a seed is looked into, with the virtual time at which they do.

use std::cell::RefCell;
use std::fmt;

use plimsoll_base::Time;
use tracing::Level;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

thread_local! {
    /// The time of the run on this thread.
    static TIME: RefCell<Option<Time>> = const { RefCell::new(None) };
}

/// Writes messages of this level and those above it to the standard error from now on.
pub fn write(level: Level) {
    let messages = tracing_subscriber::fmt().with_max_level(level).with_timer(Virtual);
    messages.with_ansi(false).with_writer(std::io::stderr).init();
}

/// A run begins on this thread.
pub(crate) fn run_begins(time: &Time) {
    TIME.set(Some(time.clone()));
}

struct Virtual;

impl FormatTime for Virtual {
    fn format_time(&self, to: &mut Writer<'_>) -> fmt::Result {
        let now_ns = TIME.with_borrow(|time| time.as_ref().map_or(0, |time| time.now().0));
        write!(to, "{:>10.6}", now_ns as f64 / 1e9)
    }
}
