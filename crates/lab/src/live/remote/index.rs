//! The lab's index in one of two clusters: how many partitions it has, and its end. How it is filled and followed
//! is not done here.

use crate::LabError;
use crate::live::context::TIMEOUT;
use crate::live::wire;

/// Partitions of the table, as in the study.
pub(crate) const SHARDS: usize = 3;

/// Deletes an index of the lab's, if it is there.
pub(super) fn delete(address: &str, index: &str) -> Result<(), LabError> {
    let what = || format!("delete {index} at {address}");
    let told = wire::ask_json(address, "DELETE", &format!("/{index}"), None, TIMEOUT);
    match told.map_err(|error| LabError::live(what(), error))? {
        (200 | 404, _) => Ok(()),
        (status, told) => Err(LabError::live(what(), format!("{status} {told}"))),
    }
}
