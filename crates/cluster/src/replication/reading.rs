//! Waits for a log's reader.

use std::time::Duration;

use plimsoll_base::Time;
use plimsoll_log::{Entry, LogError, Reader};

/// Takes what is there; where that is nothing, waits for something up to `timeout`, and may add nothing.
///
/// # Errors
/// As [`Reader::take`].
pub(crate) async fn next(
    time: &Time,
    reader: &mut dyn Reader,
    entries: &mut Vec<Entry>,
    bytes_max: usize,
    timeout: Duration,
) -> Result<(), LogError> {
    let (before, end) = (entries.len(), time.now() + timeout);
    loop {
        reader.take(entries, bytes_max)?;
        if entries.len() > before {
            return Ok(());
        }
        let ready = std::future::poll_fn(|context| reader.poll_ready(context));
        if time.timeout(end - time.now(), ready).await.is_err() {
            return Ok(());
        }
    }
}
