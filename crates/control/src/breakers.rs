//! Memory breakers as a pure core: who holds how much, and who gives it back when the limit is
//! reached. An account belongs to one request; its bytes are charged by whoever allocates for it
//! (with a slack of its own, which is not this file's affair) and freed when the account closes,
//! so that an idle node holds nothing.
//!
//! At the limit it is not the next to allocate that is refused, but the account that exceeds its
//! share most (ClickHouse's overcommit tracker, with shares by weight):
//!
//! ```text
//! overcommit = held / share,  share = limit * weight / sum of weights
//! ```
//!
//! The victim is told to yield and the asker waits for the bytes; only where the asker is itself
//! the victim is it refused. The cluster's own work is charged, and never refused or told to
//! yield.

use std::collections::BTreeMap;

/// How many of the largest accounts a refusal names.
const TOP: usize = 3;
/// How many accounts may be open.
pub const ACCOUNTS_MAX: usize = 1 << 20;

/// An open account.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AccountId(u64);

/// Whose account it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The cluster's own work.
    Control,
    /// A request; an ordinary one has weight 1, and one of weight 2 may hold twice as much before
    /// it yields. 0 counts as 1.
    Request {
        /// The weight.
        weight: u32,
    },
}

/// What became of a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reservation {
    /// The bytes are charged.
    Granted,
    /// This account has to give its memory back (be cancelled, or spill); ask again when it has.
    Wait {
        /// Who yields.
        victim: AccountId,
    },
    /// The asker is the one that has to give way.
    Refused(Trip),
}

/// What a refusal says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trip {
    /// Bytes that were asked for.
    pub bytes_wanted: u64,
    /// The limit.
    pub bytes_limit: u64,
    /// Bytes held by all.
    pub bytes_used: u64,
    /// The accounts that hold most, with what they hold; the largest first.
    pub largest: Vec<(AccountId, u64)>,
}

#[derive(Clone, Copy, Debug)]
struct Account {
    weight: u64,
    control: bool,
    held: u64,
    yielding: bool,
}

/// An account as the choice of who yields sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder<Id> {
    /// Whose it is.
    pub id: Id,
    /// Its weight; 0 counts as 1.
    pub weight: u64,
    /// Bytes held; for the asker, with those that it asks for.
    pub held: u64,
    /// Whether it has been told to yield.
    pub is_yielding: bool,
}

impl<Id> Holder<Id> {
    fn rate(&self) -> f64 {
        self.held as f64 / self.weight.max(1) as f64
    }
}

/// Who gives its memory back: of those that hold anything, the one that exceeds its share most,
/// if it does so more than `asker`. Among equals one that yields already, then the oldest. `None`
/// where the asker is the one.
#[must_use]
pub fn largest_overcommitter<Id: Copy + Ord>(
    asker: Option<&Holder<Id>>,
    others: impl Iterator<Item = Holder<Id>>,
) -> Option<Id> {
    let own = asker.map_or(0.0, Holder::rate);
    others
        .filter(|other| other.held > 0)
        .max_by(|a, b| {
            let by_rate = a.rate().total_cmp(&b.rate());
            by_rate.then(a.is_yielding.cmp(&b.is_yielding)).then(b.id.cmp(&a.id))
        })
        .filter(|worst| worst.rate() > own)
        .map(|worst| worst.id)
}

/// All accounts under one limit.
#[derive(Clone, Debug)]
pub struct Breaker {
    limit: u64,
    used: u64,
    weights: u64,
    next: u64,
    accounts: BTreeMap<AccountId, Account>,
    trips: u64,
}

impl Breaker {
    /// A breaker of `limit_bytes`.
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        let accounts = BTreeMap::new();
        Self { limit: limit_bytes, used: 0, weights: 0, next: 0, accounts, trips: 0 }
    }

    /// Moves the limit; what is held stays held.
    pub fn set_limit(&mut self, limit_bytes: u64) {
        self.limit = limit_bytes;
    }

    /// Opens an account; none where too many are open.
    pub fn open(&mut self, standing: Standing) -> Option<AccountId> {
        let (weight, control) = match standing {
            Standing::Control => (1, true),
            Standing::Request { weight } => (u64::from(weight.max(1)), false),
        };
        if self.accounts.len() >= ACCOUNTS_MAX && !control {
            return None;
        }
        let id = AccountId(self.next);
        self.next += 1;
        self.weights += weight;
        self.accounts.insert(id, Account { weight, control, held: 0, yielding: false });
        Some(id)
    }

    /// Charges bytes to an account, or says who has to yield first.
    #[must_use]
    pub fn reserve(&mut self, id: AccountId, bytes: u64) -> Reservation {
        let account = self.account(id);
        if account.control || self.used.saturating_add(bytes) <= self.limit {
            self.account_mut(id).held += bytes;
            self.used += bytes;
            return Reservation::Granted;
        }
        let holder = |id: AccountId, account: &Account, more: u64| Holder {
            id,
            weight: account.weight,
            held: account.held.saturating_add(more),
            is_yielding: account.yielding,
        };
        // The asker is weighed with what it asks for.
        let asker = holder(id, &account, bytes);
        let others = self.accounts.iter().filter(|(other, o)| **other != id && !o.control);
        let worst = largest_overcommitter(Some(&asker), others.map(|(id, o)| holder(*id, o, 0)));
        match worst {
            Some(victim) if bytes <= self.limit => {
                self.account_mut(victim).yielding = true;
                Reservation::Wait { victim }
            }
            _ => {
                self.trips += 1;
                Reservation::Refused(self.trip(bytes))
            }
        }
    }

    /// Gives bytes back. More than is held is a bug of the caller's.
    pub fn release(&mut self, id: AccountId, bytes: u64) {
        let account = self.account_mut(id);
        assert!(account.held >= bytes, "an account gives back what it holds");
        account.held -= bytes;
        account.yielding &= account.held > 0;
        self.used -= bytes;
    }

    /// Closes an account with all that it holds.
    pub fn close(&mut self, id: AccountId) {
        let account = self.accounts.remove(&id);
        assert!(account.is_some(), "an account closes once");
        if let Some(account) = account {
            self.used -= account.held;
            self.weights -= account.weight;
        }
    }

    /// Whether the account has been told to yield.
    #[must_use]
    pub fn must_yield(&self, id: AccountId) -> bool {
        self.accounts.get(&id).is_some_and(|account| account.yielding)
    }

    /// How far the account exceeds its share: 1 is all of it.
    #[must_use]
    pub fn overcommit(&self, id: AccountId) -> f64 {
        let account = self.account(id);
        let share = self.limit as f64 * account.weight as f64 / self.weights.max(1) as f64;
        account.held as f64 / share.max(1.0)
    }

    /// Bytes held by all.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The load line's memory debt: bytes held, in thousandths of the limit.
    #[must_use]
    pub fn debt_permille(&self) -> u32 {
        let permille = u128::from(self.used) * 1_000 / u128::from(self.limit.max(1));
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    /// Reservations refused so far.
    #[must_use]
    pub fn trips(&self) -> u64 {
        self.trips
    }

    fn trip(&self, bytes_wanted: u64) -> Trip {
        let mut largest: Vec<_> = self.accounts.iter().map(|(id, a)| (*id, a.held)).collect();
        largest.sort_by_key(|(id, held)| (std::cmp::Reverse(*held), *id));
        largest.truncate(TOP);
        Trip { bytes_wanted, bytes_limit: self.limit, bytes_used: self.used, largest }
    }

    fn account(&self, id: AccountId) -> Account {
        match self.accounts.get(&id) {
            Some(account) => *account,
            None => unreachable!("an account is open while it is used"),
        }
    }

    fn account_mut(&mut self, id: AccountId) -> &mut Account {
        match self.accounts.get_mut(&id) {
            Some(account) => account,
            None => unreachable!("an account is open while it is used"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ORDINARY: Standing = Standing::Request { weight: 1 };

    #[test]
    fn the_largest_overcommitter_yields_and_not_the_next_to_ask() {
        let mut breaker = Breaker::new(100);
        let big = breaker.open(ORDINARY).unwrap();
        let small = breaker.open(ORDINARY).unwrap();
        assert_eq!(breaker.reserve(big, 90), Reservation::Granted);
        assert_eq!(breaker.reserve(small, 20), Reservation::Wait { victim: big });
        assert!(breaker.must_yield(big) && !breaker.must_yield(small));
        breaker.close(big);
        assert_eq!(breaker.reserve(small, 20), Reservation::Granted);
    }

    #[test]
    fn the_asker_is_refused_where_it_is_the_largest_and_the_error_names_the_holders() {
        let mut breaker = Breaker::new(100);
        let (a, b) = (breaker.open(ORDINARY).unwrap(), breaker.open(ORDINARY).unwrap());
        assert_eq!(breaker.reserve(a, 30), Reservation::Granted);
        assert_eq!(breaker.reserve(b, 60), Reservation::Granted);
        let Reservation::Refused(trip) = breaker.reserve(b, 20) else { panic!("granted") };
        assert_eq!((trip.bytes_wanted, trip.bytes_limit, trip.bytes_used), (20, 100, 90));
        assert_eq!(trip.largest, [(b, 60), (a, 30)]);
        assert_eq!(breaker.trips(), 1);
    }

    #[test]
    fn weight_is_room() {
        let mut breaker = Breaker::new(100);
        let heavy = breaker.open(Standing::Request { weight: 4 }).unwrap();
        let light = breaker.open(ORDINARY).unwrap();
        assert_eq!(breaker.reserve(heavy, 60), Reservation::Granted);
        assert_eq!(breaker.reserve(light, 30), Reservation::Granted);
        // 80 of 4 is less than 30 of 1.
        assert_eq!(breaker.reserve(heavy, 20), Reservation::Wait { victim: light });
        assert!(breaker.overcommit(light) > breaker.overcommit(heavy));
    }

    #[test]
    fn the_clusters_own_work_is_neither_refused_nor_a_victim() {
        let mut breaker = Breaker::new(100);
        let control = breaker.open(Standing::Control).unwrap();
        assert_eq!(breaker.reserve(control, 150), Reservation::Granted);
        let request = breaker.open(ORDINARY).unwrap();
        assert!(matches!(breaker.reserve(request, 1), Reservation::Refused(_)));
        assert_eq!(breaker.debt_permille(), 1_500);
    }

    proptest! {
        #[test]
        fn what_is_used_is_the_sum_of_what_is_held_and_idle_is_nothing(
            steps in prop::collection::vec((0usize..6, 0u64..60, any::<bool>()), 1..100),
        ) {
            let mut breaker = Breaker::new(100);
            let mut held: Vec<(AccountId, u64)> = Vec::new();
            for (which, bytes, give) in steps {
                if held.len() <= which {
                    held.push((breaker.open(ORDINARY).unwrap(), 0));
                    continue;
                }
                let (id, has) = held[which];
                if give {
                    let back = bytes.min(has);
                    breaker.release(id, back);
                    held[which].1 -= back;
                } else {
                    match breaker.reserve(id, bytes) {
                        Reservation::Granted => held[which].1 += bytes,
                        Reservation::Wait { victim } => {
                            prop_assert!(victim != id);
                            let its = held.iter().find(|(v, _)| *v == victim).unwrap().1;
                            prop_assert!(its > has + bytes, "the victim holds more");
                        }
                        Reservation::Refused(_) => {
                            let largest = held.iter().map(|(_, h)| *h).max().unwrap();
                            prop_assert!(has + bytes >= largest || bytes > 100);
                        }
                    }
                }
                prop_assert_eq!(breaker.used(), held.iter().map(|(_, h)| h).sum::<u64>());
                prop_assert!(breaker.used() <= 100);
            }
            held.iter().for_each(|(id, _)| breaker.close(*id));
            prop_assert_eq!(breaker.used(), 0);
        }
    }
}
