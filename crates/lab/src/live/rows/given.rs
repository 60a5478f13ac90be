//! A server of somebody else's with the protocol of Redis, for `--target`: its database has to be empty, and is
//! empty again at the end. Its processes are out of reach, so that nothing is said of processor time.

use std::sync::Arc;

use super::disk::SlowDisk;
use super::server::Server;
use super::store::Told;
use crate::LabError;
use crate::keys::name;
use crate::live::context::TIMEOUT;
use crate::live::shares::Throttled;
use crate::live::wire::{Connection, Ended, Protocol, command};

/// Keys that are removed at once.
const REMOVED_AT_ONCE: usize = 1_000;

/// The server.
pub(super) struct Given {
    address: String,
    /// How many keys the lab writes there.
    keys: u64,
}

impl Given {
    /// A server that may be written to.
    ///
    /// # Errors
    /// It does not answer, or has keys.
    pub(super) fn open(address: &str, keys: u64) -> Result<Self, LabError> {
        let failed = |error| LabError::live(format!("ask {address}"), error);
        let mut open = Connection::open(address, Protocol::Resp, TIMEOUT).map_err(failed)?;
        let ended = open.ask(&command(&[b"DBSIZE"])).map_err(failed)?;
        if ended != Ended::Answered || open.body != b"0" {
            let said = String::from_utf8_lossy(&open.body).into_owned();
            let why = format!("its database has to be empty, and DBSIZE says `{said}`");
            return Err(LabError::live(format!("write to {address}"), why));
        }
        Ok(Self { address: address.to_owned(), keys })
    }

    fn remove(&self) -> std::io::Result<()> {
        let mut open = Connection::open(&self.address, Protocol::Resp, TIMEOUT)?;
        let names: Vec<String> = (0..self.keys).map(name).collect();
        for names in names.chunks(REMOVED_AT_ONCE) {
            let mut words: Vec<&[u8]> = vec![b"DEL"];
            words.extend(names.iter().map(String::as_bytes));
            open.ask(&command(&words))?;
        }
        Ok(())
    }
}

impl Server for Given {
    fn addresses(&self) -> Vec<String> {
        vec![self.address.clone()]
    }

    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }

    fn throttled(&self) -> Vec<Option<Throttled>> {
        Vec::new()
    }

    fn told(&self, disk: Option<Arc<SlowDisk>>) -> Told {
        Told { process: 0, address: self.address.clone(), disk }
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}
