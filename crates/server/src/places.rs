//! The places for connections at one port: how many there are, by a setting and by the files that the process may
//! have open, and how many of them strangers from one address hold. A stranger is who has not shaken hands
//! yet, or not logged in where one has to. Where all places are held, a stranger gives way to who comes: the oldest
//! of the address that holds the most, so that many who never say who they are keep nobody out.
//!
//! It neither accepts connections nor ends them, and does not say how long a stranger may stay.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use plimsoll_cluster::{FILES_SHARES, SHARES_OF_COPIES, files_max};
use tokio::sync::Notify;

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
/// So many may be on their way out; for as long no other is told to go.
const LEAVING_MAX: usize = 16;

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
    /// Those of [`Self::leaving`] too.
    all: usize,
    strangers: HashMap<IpAddr, Strangers>,
    /// Who was told to go, so that another can come, and still holds its place.
    leaving: BTreeSet<u64>,
    /// The number of the place that is taken next.
    next: u64,
}

/// Those from one address.
#[derive(Debug, Default)]
struct Strangers {
    count: usize,
    /// Those of them that may be told to go, by their places.
    movable: BTreeMap<u64, Arc<Told>>,
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
        if held.strangers.get(&owner).is_some_and(|it| it.count >= strangers_max) {
            return Err(NoPlace::Strangers(strangers_max));
        }
        if !held.has_room(max) {
            return Err(NoPlace::Full(max));
        }
        let (number, told) = (held.next, Arc::<Told>::default());
        let strangers = held.strangers.entry(owner).or_default();
        strangers.count += 1;
        strangers.movable.insert(number, Arc::clone(&told));
        held.all += 1;
        held.next += 1;
        let is_stranger = AtomicBool::new(true);
        Ok(Place { places: Arc::clone(self), owner, number, is_stranger, told })
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
    /// Whether there is room for one more; a stranger may have to give way.
    fn has_room(&mut self, max: usize) -> bool {
        let staying = self.all - self.leaving.len();
        staying < max || (staying == max && self.move_one())
    }

    /// Tells a stranger to go, if there is one that may be told.
    fn move_one(&mut self) -> bool {
        if self.leaving.len() >= LEAVING_MAX {
            return false;
        }
        let oldest = |it: &Strangers| it.movable.first_key_value().map(|(number, _)| *number);
        let movable = self.strangers.values_mut().filter(|it| !it.movable.is_empty());
        let most = movable.max_by_key(|it| (it.movable.len(), Reverse(oldest(it))));
        let Some((number, told)) = most.and_then(|it| it.movable.pop_first()) else { return false };
        self.leaving.insert(number);
        told.end();
        true
    }

    fn forget_stranger(&mut self, owner: IpAddr, number: u64) {
        if let Some(strangers) = self.strangers.get_mut(&owner) {
            strangers.movable.remove(&number);
            strangers.count -= 1;
            if strangers.count == 0 {
                self.strangers.remove(&owner);
            }
        }
    }
}

/// What the task of a connection is told.
#[derive(Debug, Default)]
struct Told {
    to_end: AtomicBool,
    woken: Notify,
}

impl Told {
    fn end(&self) {
        self.to_end.store(true, Relaxed);
        self.woken.notify_one();
    }
}

/// One connection's place, for as long as this is there. One task waits for what it is told.
#[derive(Debug)]
pub(crate) struct Place {
    places: Arc<Places>,
    owner: IpAddr,
    number: u64,
    is_stranger: AtomicBool,
    told: Arc<Told>,
}

impl Place {
    /// Who holds it is a stranger no more.
    pub(crate) fn know(&self) {
        if self.is_stranger.load(Relaxed) && self.is_stranger.swap(false, Relaxed) {
            self.places.held.lock().forget_stranger(self.owner, self.number);
        }
    }

    /// Who holds it stays for as long as it likes, a stranger or not.
    pub(crate) fn keep(&self) {
        let mut held = self.places.held.lock();
        held.strangers.get_mut(&self.owner).map(|it| it.movable.remove(&self.number));
    }

    /// Tells the connection's task to end.
    pub(crate) fn end(&self) {
        self.told.end();
    }

    /// Whether it was told to end.
    pub(crate) fn is_ended(&self) -> bool {
        self.told.to_end.load(Relaxed)
    }

    /// Completes when it is told to end.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let told = Arc::clone(&self.told);
        async move {
            while !told.to_end.load(Relaxed) {
                told.woken.notified().await;
            }
        }
    }

    /// Has [`Self::woken`] complete.
    pub(crate) fn wake(&self) {
        self.told.woken.notify_one();
    }

    /// Completes when there may be something new to look at.
    pub(crate) fn woken(&self) -> impl Future<Output = ()> + '_ {
        self.told.woken.notified()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut held = self.places.held.lock();
        if self.is_stranger.load(Relaxed) {
            held.forget_stranger(self.owner, self.number);
        }
        held.leaving.remove(&self.number);
        held.all -= 1;
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
    fn the_oldest_stranger_of_the_address_with_the_most_gives_way() {
        let places = Places::new(64);
        let take = |last: u8, count: usize| -> Vec<_> {
            (0..count).map(|_| places.take(address(last)).unwrap()).collect()
        };
        let (one, two, three, mut known) = (take(1, 15), take(2, 16), take(3, 15), take(4, 16));
        known.iter().for_each(Place::know);
        known.extend(take(4, 2));
        known.iter().for_each(Place::know);
        let new = places.take(address(5)).unwrap();
        assert!(two[0].is_ended() && !two[1].is_ended());
        let is_any_ended = |of: &[Place]| of.iter().any(Place::is_ended);
        assert!(!is_any_ended(&one) && !is_any_ended(&three) && !is_any_ended(&known));
        // Now three addresses have as many: the oldest of all goes. Who is to stay does.
        one[0].keep();
        one[1].keep();
        let _newer = (places.take(address(6)).unwrap(), places.take(address(6)).unwrap());
        assert!(two[1].is_ended() && three[0].is_ended() && !is_any_ended(&one));
        // Who was told holds its place until it is gone, and so does who is known.
        assert_eq!(places.held(), 67);
        drop((one, two, three));
        assert_eq!(places.held(), 21);
        known.extend(take(4, 14));
        assert_eq!(places.held(), 35);
        assert!(!new.is_ended() && !is_any_ended(&known), "there is room again");
    }

    #[test]
    fn few_are_told_to_go_at_once() {
        let places = Places::new(100);
        let strangers: Vec<_> =
            (0..100).map(|index| places.take(address(index / 25)).unwrap()).collect();
        let come = || places.take(address(200));
        let came: Vec<_> = (0..LEAVING_MAX).map(|_| come().unwrap()).collect();
        assert_eq!(come().unwrap_err(), NoPlace::Full(100));
        assert_eq!(strangers.iter().filter(|it| it.is_ended()).count(), LEAVING_MAX);
        assert_eq!(places.held(), 100 + LEAVING_MAX);
        drop(strangers);
        assert!(come().is_ok());
        // Where there are more than there may be, who comes moves nobody.
        places.set_max(LEAVING_MAX - 1);
        let full = NoPlace::Full(LEAVING_MAX - 1);
        assert_eq!(places.take(address(201)).unwrap_err(), full);
        assert!(!came.iter().any(Place::is_ended));
    }

    #[tokio::test]
    async fn who_waits_is_told() {
        let places = Places::new(1);
        let place = places.take(address(1)).unwrap();
        let ended = place.ended();
        place.wake();
        place.woken().await;
        assert!(!place.is_ended());
        let other = places.take(address(2)).unwrap();
        ended.await;
        drop(place);
        other.know();
        assert!(places.take(address(3)).is_err());
    }

    #[test]
    fn few_places_are_anyone_s() {
        let places = Places::new(2);
        let both = [places.take(address(1)).unwrap(), places.take(address(1)).unwrap()];
        both.iter().for_each(Place::know);
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
