//! The places for connections at one port: how many there are, by a setting and by the files that the process may
//! have open, and how many of them strangers from one address hold. A stranger is who has not shaken hands
//! yet, or not logged in where one has to.
//!
//! It neither accepts connections nor says how long a stranger may stay.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use plimsoll_cluster::{FILES_SHARES, SHARES_OF_COPIES, files_max};

use crate::logins::owner;

/// The shares of the process's files ([`FILES_SHARES`]) that connections may take at a port for clients, and at those
/// for nodes and for other clusters.
pub(crate) const SHARES_OF_CLIENTS: usize = 8;
pub(crate) const SHARES_OF_NODES: usize = 2;
pub(crate) const SHARES_OF_CLUSTERS: usize = 1;
/// REST and RESP.
const PORTS_FOR_CLIENTS: usize = 2;
const _: () = assert!(
    PORTS_FOR_CLIENTS * SHARES_OF_CLIENTS + SHARES_OF_NODES + SHARES_OF_CLUSTERS + SHARES_OF_COPIES
        <= FILES_SHARES
);

/// The part of the places that strangers from one address may hold, one in so many.
const STRANGERS_PART: usize = 4;
/// So many they may hold in any case.
const STRANGERS_MIN: usize = 16;

/// Why a connection gets no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoPlace {
    /// All are taken.
    #[error("{0} connections are open, as many as there may be")]
    Full(usize),
    /// Strangers from its address hold as many as they may.
    #[error("{0} connections from its address have not said who they are")]
    Strangers(usize),
}

/// As many of `wanted` places as the files allow that the process may have open.
pub(crate) fn within_files(wanted: usize, shares: usize) -> usize {
    match usize::try_from(files_max()).unwrap_or(usize::MAX) {
        // It is not known.
        0 => wanted,
        files => wanted.min(files / FILES_SHARES * shares).max(1),
    }
}

/// The places of a port for clients, of which a setting wants so many. A node that has to do with fewer says so.
pub(crate) fn of_clients(setting: &str, wanted: usize) -> Arc<Places> {
    let max = within_files(wanted, SHARES_OF_CLIENTS);
    if max < wanted {
        let files = files_max();
        tracing::warn!(
            "{setting} is {max} rather than {wanted}: the process may have {files} files open \
             (ulimit -n, LimitNOFILE)"
        );
    }
    Places::new(max)
}

/// The places of one port.
#[derive(Debug)]
pub(crate) struct Places {
    max: AtomicUsize,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    all: usize,
    strangers: HashMap<IpAddr, usize>,
}

impl Places {
    /// So many, none of them held.
    pub(crate) fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max: AtomicUsize::new(max), held: Mutex::default() })
    }

    /// Takes one for a connection from there, a stranger's.
    pub(crate) fn take(self: &Arc<Self>, remote: IpAddr) -> Result<Place, NoPlace> {
        let (max, owner) = (self.max(), owner(remote));
        let strangers_max = (max / STRANGERS_PART).max(STRANGERS_MIN);
        let mut held = self.held.lock();
        if held.all >= max {
            return Err(NoPlace::Full(max));
        }
        let strangers = held.strangers.entry(owner).or_default();
        if *strangers >= strangers_max {
            return Err(NoPlace::Strangers(strangers_max));
        }
        *strangers += 1;
        held.all += 1;
        Ok(Place { places: Arc::clone(self), owner, is_stranger: AtomicBool::new(true) })
    }

    /// How many are held.
    pub(crate) fn held(&self) -> usize {
        self.held.lock().all
    }

    /// How many there are.
    pub(crate) fn max(&self) -> usize {
        self.max.load(Relaxed)
    }

    /// Changes that; who holds one keeps it.
    pub(crate) fn set_max(&self, max: usize) {
        self.max.store(max, Relaxed);
    }
}

impl Held {
    fn forget_stranger(&mut self, owner: IpAddr) {
        if let Some(strangers) = self.strangers.get_mut(&owner) {
            *strangers -= 1;
            if *strangers == 0 {
                self.strangers.remove(&owner);
            }
        }
    }
}

/// One connection's place, for as long as this is there.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    owner: IpAddr,
    is_stranger: AtomicBool,
}

impl Place {
    /// Who holds it is a stranger no more.
    pub(crate) fn know(&self) {
        if self.is_stranger.load(Relaxed) && self.is_stranger.swap(false, Relaxed) {
            self.places.held.lock().forget_stranger(self.owner);
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.know();
        self.places.held.lock().all -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn strangers_from_one_address_leave_places_to_others() {
        let places = Places::new(100);
        let mut strangers: Vec<_> = (0..25).map(|_| places.take(address(1)).unwrap()).collect();
        assert_eq!(places.take(address(1)).unwrap_err(), NoPlace::Strangers(25));
        let other = places.take(address(2)).unwrap();
        // Who is known counts no more among them, and once only.
        strangers[0].know();
        strangers[0].know();
        strangers.push(places.take(address(1)).unwrap());
        assert_eq!(places.take(address(1)).unwrap_err(), NoPlace::Strangers(25));
        assert_eq!(places.held(), 27);
        drop(strangers);
        assert_eq!(places.held(), 1);
        drop(other);
        assert!(places.held.lock().strangers.is_empty(), "nobody is remembered");
        let known: Vec<_> = (0..100)
            .map(|_| {
                let place = places.take(address(1)).unwrap();
                place.know();
                place
            })
            .collect();
        assert_eq!(places.take(address(2)).unwrap_err(), NoPlace::Full(100));
        places.set_max(101);
        assert!(places.take(address(2)).is_ok());
        drop(known);
    }

    #[test]
    fn few_places_are_anyone_s() {
        let places = Places::new(2);
        let both = [places.take(address(1)).unwrap(), places.take(address(1)).unwrap()];
        assert_eq!(places.take(address(1)).unwrap_err(), NoPlace::Full(2));
        drop(both);
    }

    #[test]
    fn files_bound_what_was_asked_for() {
        let files = usize::try_from(files_max()).unwrap();
        assert_eq!(within_files(1, SHARES_OF_CLIENTS), 1);
        if files > 0 {
            assert_eq!(within_files(usize::MAX, SHARES_OF_NODES), (files / 16).max(1));
        }
    }
}
