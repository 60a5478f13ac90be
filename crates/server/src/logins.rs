//! Failed logins: how fast one address may try passwords, and what the log says of it; and how fast
//! whoever has not logged in is told so. What is compared is [`crate::auth`]'s.
//!
//! Each address has a bucket of tries that fills up again by and by. A failed try takes one out.
//! While it is empty, whoever comes from there waits for the next before the password is looked
//! at: a wrong one is not told from a right one sooner. A right password costs nothing, and other
//! addresses have buckets of their own, so that nobody is locked out from elsewhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// How many tries may fail at once.
const BURST: f64 = 10.0;
/// How many may fail a second after that.
const PER_SECOND: f64 = 1.0;
/// The longest that a try waits. What would wait longer is refused unlooked at.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// The most addresses that are remembered.
const ADDRESSES_MAX: usize = 4096;
/// How often failures are logged.
const LOG_PAUSE: Duration = Duration::from_secs(1);

/// How many commands of one connection that has not logged in are answered at once.
const STRANGER_COMMANDS: u32 = 16;
/// What it waits before each further one. Thousands of such connections then leave the node to
/// those who log in.
const STRANGER_PAUSE: Duration = Duration::from_millis(250);

/// How long a connection waits that has not logged in and was answered so many commands.
#[must_use]
pub fn stranger_pause(answered: u32) -> Option<Duration> {
    (answered >= STRANGER_COMMANDS).then_some(STRANGER_PAUSE)
}

/// Who failed to log in, and how often lately.
#[derive(Debug, Default)]
pub struct Logins {
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    buckets: HashMap<IpAddr, Bucket>,
    logged_at: Option<Instant>,
    unlogged: u64,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// Tries that may fail at once; below zero where some wait.
    tries: f64,
    at: Instant,
}

impl Bucket {
    fn refilled(self, now: Instant) -> Self {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        Self { tries: (self.tries + since * PER_SECOND).min(BURST), at: now }
    }
}

/// When a password may be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Now.
    Now,
    /// After this time; the try is taken out already.
    After(Duration),
    /// Not at all: too many wait. There may be room after this time.
    Refused(Duration),
}

impl Logins {
    /// When a password from this address may be looked at.
    pub fn turn(&self, from: IpAddr, now: Instant) -> Turn {
        let mut book = self.book.lock();
        let Some(bucket) = book.buckets.get_mut(&owner(from)) else { return Turn::Now };
        *bucket = bucket.refilled(now);
        if bucket.tries >= 1.0 {
            return Turn::Now;
        }
        let wait = Duration::from_secs_f64((1.0 - bucket.tries) / PER_SECOND);
        if wait > WAIT_MAX {
            return Turn::Refused(wait - WAIT_MAX);
        }
        bucket.tries -= 1.0;
        Turn::After(wait)
    }

    /// A password was right.
    pub fn passed(&self, from: IpAddr, turn: Turn) {
        if let (Turn::After(_), Some(bucket)) =
            (turn, self.book.lock().buckets.get_mut(&owner(from)))
        {
            bucket.tries = (bucket.tries + 1.0).min(BURST);
        }
    }

    /// A password was wrong, or was not looked at; `port` is the setting where it arrived. Says
    /// so in the log, once a second at most.
    pub fn failed(&self, from: IpAddr, turn: Turn, port: &'static str, now: Instant) {
        let mut book = self.book.lock();
        if turn == Turn::Now {
            if !book.buckets.contains_key(&owner(from)) {
                book.make_room(now);
            }
            let bucket = book.buckets.entry(owner(from));
            let bucket = bucket.or_insert(Bucket { tries: BURST, at: now });
            *bucket = bucket.refilled(now);
            // However many: whoever comes from there later does not wait for ever.
            bucket.tries = (bucket.tries - 1.0).max(-WAIT_MAX.as_secs_f64() * PER_SECOND);
        }
        book.unlogged += 1;
        let is_due = book.logged_at.is_none_or(|at| now.duration_since(at) >= LOG_PAUSE);
        let count = book.unlogged;
        if is_due {
            book.logged_at = Some(now);
            book.unlogged = 0;
        }
        drop(book);
        if is_due {
            tracing::warn!(address = %from, port, count, "failed logins; the last is from there");
        }
    }
}

impl Book {
    /// Forgets addresses that may try as often as a new one, else the one that is nearest to it.
    fn make_room(&mut self, now: Instant) {
        if self.buckets.len() < ADDRESSES_MAX {
            return;
        }
        self.buckets.retain(|_, bucket| bucket.refilled(now).tries < BURST);
        if self.buckets.len() >= ADDRESSES_MAX {
            let fullest = self.buckets.iter().max_by(|a, b| a.1.tries.total_cmp(&b.1.tries));
            if let Some(address) = fullest.map(|(address, _)| *address) {
                self.buckets.remove(&address);
            }
        }
    }
}

/// Whose an address is: of version 6 one network has 2^64 of them.
pub(crate) fn owner(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = address.to_bits() >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from_bits(network))
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PORT: &str = "http.address";

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn guessing_is_slowed_and_nobody_else_is() {
        let logins = Logins::default();
        let (now, guesser) = (Instant::now(), address(1));
        for _ in 0..10 {
            assert_eq!(logins.turn(guesser, now), Turn::Now);
            logins.failed(guesser, Turn::Now, PORT, now);
        }
        // Many at once wait one behind the other, and then no more are taken.
        let mut waits = Vec::new();
        let refused = loop {
            match logins.turn(guesser, now) {
                Turn::After(wait) => waits.push(wait.as_secs()),
                other => break other,
            }
        };
        assert_eq!(waits, (1..=10).collect::<Vec<_>>());
        assert_eq!(refused, Turn::Refused(Duration::from_secs(1)));
        assert_eq!(logins.turn(address(2), now), Turn::Now);
        // A right password gives its try back.
        logins.passed(guesser, Turn::After(Duration::from_secs(10)));
        assert_eq!(logins.turn(guesser, now), Turn::After(Duration::from_secs(10)));
        // After a while it is as if nothing had been.
        assert_eq!(logins.turn(guesser, now + Duration::from_secs(30)), Turn::Now);
    }

    #[test]
    fn who_does_not_log_in_is_answered_slowly() {
        assert_eq!(stranger_pause(0), None);
        assert_eq!(stranger_pause(STRANGER_COMMANDS - 1), None);
        assert_eq!(stranger_pause(STRANGER_COMMANDS), Some(STRANGER_PAUSE));
    }

    #[test]
    fn the_book_is_bounded_and_a_network_of_version_6_is_one() {
        let logins = Logins::default();
        let now = Instant::now();
        for number in 0..20_000_u32 {
            logins.failed(IpAddr::from(number.to_be_bytes()), Turn::Now, PORT, now);
        }
        assert!(logins.book.lock().buckets.len() <= ADDRESSES_MAX);
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        for host in 0..10 {
            logins.failed(v6(&format!("2001:db8::{host}")), Turn::Now, PORT, now);
        }
        assert!(matches!(logins.turn(v6("2001:db8::ffff"), now), Turn::After(_)));
        assert_eq!(logins.turn(v6("2001:db8:1::1"), now), Turn::Now);
        assert_eq!(owner(v6("::ffff:10.0.0.1")), address(1));
    }
}
