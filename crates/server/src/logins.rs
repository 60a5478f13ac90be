//! Failed logins: how fast one address may try passwords, and what the log says of it; and how fast
//! whoever has not logged in is told so. What is compared is [`crate::auth`]'s.
//!
//! Each address has a bucket of tries that fills up again by and by. Whoever comes from there takes one out
//! before the password is looked at; a right one gives it back. So a thousand guesses at once are ten, and the
//! others wait until one of these is decided. While all have failed, whoever comes waits for the next: a wrong
//! password is not told from a right one sooner. Other addresses have buckets of their own, so that nobody is locked
//! out from elsewhere.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use plimsoll_base::Time;
use plimsoll_base::time::Instant;
use tokio::sync::Notify;

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
pub struct Logins {
    time: Time,
    book: Mutex<Book>,
}

#[derive(Debug, Default)]
struct Book {
    buckets: HashMap<IpAddr, Bucket>,
    logged_at: Option<Instant>,
    unlogged: u64,
}

#[derive(Debug)]
struct Bucket {
    /// Tries that may begin at once; below zero where some wait.
    tries: f64,
    at: Instant,
    /// Those that began at once and are not decided.
    under_way: usize,
    /// Rung when one of these is.
    decided: Arc<Notify>,
}

impl Bucket {
    fn new(now: Instant) -> Self {
        Self { tries: BURST, at: now, under_way: 0, decided: Arc::default() }
    }

    fn tries(&self, now: Instant) -> f64 {
        let since = now.since(self.at).as_secs_f64();
        (self.tries + since * PER_SECOND).min(BURST)
    }

    fn refill(&mut self, now: Instant) {
        (self.tries, self.at) = (self.tries(now), now);
    }

    /// Has those that wait come again: one for each try that is there, and all where nothing is under way that they could
    /// wait for.
    fn ring(&self) {
        if self.under_way == 0 {
            self.decided.notify_waiters();
            return;
        }
        let mut tries = self.tries;
        while tries >= 1.0 {
            self.decided.notify_one();
            tries -= 1.0;
        }
    }
}

/// How a try came to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// At once.
    Now,
    /// It waited for the next.
    Later,
    /// Nothing was taken out: who tries has logged in before.
    Nothing,
}

/// When a password may be looked at.
#[derive(Debug)]
enum Turn {
    /// Now; the try is taken out.
    Now,
    /// After this time; the try is taken out already.
    After(Duration),
    /// Once one of the others is decided: ask again when this rings.
    Behind(Arc<Notify>),
    /// Not at all: too many wait. There may be room after this time.
    Refused(Duration),
}

/// A try to log in, which has failed unless it is said to have passed: who hangs up before that is known has tried
/// as well.
pub struct Attempt {
    logins: Arc<Logins>,
    from: IpAddr,
    port: &'static str,
    taken: Taken,
    is_decided: bool,
}

impl Attempt {
    /// The password was right, or was not looked at.
    pub fn passed(mut self) {
        self.is_decided = true;
        self.logins.passed(self.from, self.taken);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if !self.is_decided {
            self.logins.failed(self.from, self.taken);
            self.logins.say(self.from, self.port);
        }
    }
}

impl Logins {
    /// Nobody has failed yet.
    #[must_use]
    pub fn new(time: &Time) -> Self {
        Self { time: time.clone(), book: Mutex::default() }
    }

    /// Waits until a password from this address may be looked at; `port` is the setting where it arrived.
    ///
    /// # Errors
    /// After how long there may be room, where too many wait already.
    pub async fn attempt(
        self: &Arc<Self>,
        from: IpAddr,
        port: &'static str,
    ) -> Result<Attempt, Duration> {
        let taken = |taken| self.begun(from, port, taken);
        loop {
            // Whoever rings from here on is heard.
            let decided = match self.turn(from) {
                Turn::Now => return Ok(taken(Taken::Now)),
                Turn::After(wait) => {
                    let attempt = taken(Taken::Later);
                    self.time.sleep(wait).await;
                    return Ok(attempt);
                }
                Turn::Refused(wait) => {
                    self.say(from, port);
                    return Err(wait);
                }
                Turn::Behind(decided) => decided,
            };
            let ring = decided.notified();
            tokio::pin!(ring);
            ring.as_mut().enable();
            // It may have rung before this listened.
            if self.is_behind(from) {
                ring.await;
            }
        }
    }

    /// The same for who logged in before as the same user, and is no guesser: its password is looked at in any case.
    pub fn untaken(self: &Arc<Self>, from: IpAddr, port: &'static str) -> Attempt {
        self.begun(from, port, Taken::Nothing)
    }

    fn begun(self: &Arc<Self>, from: IpAddr, port: &'static str, taken: Taken) -> Attempt {
        Attempt { logins: Arc::clone(self), from, port, taken, is_decided: false }
    }

    fn turn(&self, from: IpAddr) -> Turn {
        let mut book = self.book.lock();
        let bucket = book.bucket(from, self.time.now());
        if bucket.tries >= 1.0 {
            bucket.tries -= 1.0;
            bucket.under_way += 1;
            return Turn::Now;
        }
        if bucket.under_way > 0 {
            return Turn::Behind(Arc::clone(&bucket.decided));
        }
        let wait = Duration::from_secs_f64((1.0 - bucket.tries) / PER_SECOND);
        if wait > WAIT_MAX {
            return Turn::Refused(wait - WAIT_MAX);
        }
        bucket.tries -= 1.0;
        Turn::After(wait)
    }

    /// Whether whoever comes has to wait until another is decided.
    fn is_behind(&self, from: IpAddr) -> bool {
        let mut book = self.book.lock();
        let bucket = book.bucket(from, self.time.now());
        bucket.tries < 1.0 && bucket.under_way > 0
    }

    fn passed(&self, from: IpAddr, taken: Taken) {
        if taken == Taken::Nothing {
            return;
        }
        let mut book = self.book.lock();
        let bucket = book.bucket(from, self.time.now());
        bucket.tries = (bucket.tries + 1.0).min(BURST);
        bucket.under_way = bucket.under_way.saturating_sub(usize::from(taken == Taken::Now));
        bucket.ring();
    }

    fn failed(&self, from: IpAddr, taken: Taken) {
        let mut book = self.book.lock();
        let bucket = book.bucket(from, self.time.now());
        match taken {
            Taken::Now => {
                bucket.under_way = bucket.under_way.saturating_sub(1);
                bucket.ring();
            }
            Taken::Later => {}
            // However many: whoever comes from there later does not wait for ever.
            Taken::Nothing => {
                bucket.tries = (bucket.tries - 1.0).max(-WAIT_MAX.as_secs_f64() * PER_SECOND);
            }
        }
    }

    /// Says in the log that a password was wrong, or was not looked at, once a second at most.
    fn say(&self, from: IpAddr, port: &'static str) {
        let now = self.time.now();
        let mut book = self.book.lock();
        book.unlogged += 1;
        let is_due = book.logged_at.is_none_or(|at| now.since(at) >= LOG_PAUSE);
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
    /// The bucket of an address, with what has come since.
    fn bucket(&mut self, from: IpAddr, now: Instant) -> &mut Bucket {
        let owner = owner(from);
        if !self.buckets.contains_key(&owner) {
            self.make_room(now);
        }
        let bucket = self.buckets.entry(owner).or_insert_with(|| Bucket::new(now));
        bucket.refill(now);
        bucket
    }

    /// Forgets addresses that may try as often as a new one, else the one that is nearest to it. Those that have
    /// something under way stay: they are no more than connections.
    fn make_room(&mut self, now: Instant) {
        if self.buckets.len() < ADDRESSES_MAX {
            return;
        }
        self.buckets.retain(|_, bucket| bucket.under_way > 0 || bucket.tries(now) < BURST);
        if self.buckets.len() >= ADDRESSES_MAX {
            let idle = self.buckets.iter().filter(|(_, bucket)| bucket.under_way == 0);
            let fullest = idle.max_by(|a, b| a.1.tries.total_cmp(&b.1.tries));
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
    use std::sync::atomic::{AtomicUsize, Ordering};

    use plimsoll_base::time::Passing;
    use tokio::task::JoinSet;

    use super::*;

    const PORT: &str = "http.address";

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    fn logins() -> (Arc<Logins>, Passing) {
        let (time, passing) = Time::simulated(0);
        (Arc::new(Logins::new(&time)), passing)
    }

    fn pass(logins: &Logins, passing: &Passing, seconds: u64) {
        passing.pass_until(logins.time.now() + Duration::from_secs(seconds));
    }

    #[test]
    fn guessing_is_slowed_and_nobody_else_is() {
        let ((logins, passing), guesser) = (logins(), address(1));
        for _ in 0..10 {
            assert!(matches!(logins.turn(guesser), Turn::Now));
            logins.failed(guesser, Taken::Now);
        }
        // Many at once wait one behind the other, and then no more are taken.
        let mut waits = Vec::new();
        let refused = loop {
            match logins.turn(guesser) {
                Turn::After(wait) => waits.push(wait.as_secs()),
                other => break other,
            }
        };
        assert_eq!(waits, (1..=10).collect::<Vec<_>>());
        assert!(matches!(refused, Turn::Refused(wait) if wait == Duration::from_secs(1)));
        assert!(matches!(logins.turn(address(2)), Turn::Now));
        // A right password gives its try back.
        logins.passed(guesser, Taken::Later);
        let after = logins.turn(guesser);
        assert!(matches!(after, Turn::After(wait) if wait == Duration::from_secs(10)));
        // After a while it is as if nothing had been.
        pass(&logins, &passing, 30);
        assert!(matches!(logins.turn(guesser), Turn::Now));
    }

    #[tokio::test]
    async fn guesses_at_once_are_no_more_than_one_after_the_other() {
        let (logins, passing) = logins();
        let looked_at = Arc::new(AtomicUsize::new(0));
        let mut guesses = JoinSet::new();
        for _ in 0..1000 {
            let (logins, looked_at) = (Arc::clone(&logins), Arc::clone(&looked_at));
            guesses.spawn(async move {
                let Ok(attempt) = logins.attempt(address(1), PORT).await else { return };
                looked_at.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
                drop(attempt);
            });
        }
        for _ in 0..990 {
            guesses.join_next().await.unwrap().unwrap();
        }
        assert_eq!((guesses.len(), looked_at.load(Ordering::Relaxed)), (10, 10));
        pass(&logins, &passing, 3);
        for _ in 0..3 {
            guesses.join_next().await.unwrap().unwrap();
        }
        assert_eq!((guesses.len(), looked_at.load(Ordering::Relaxed)), (7, 13), "one a second");
    }

    #[tokio::test]
    async fn all_of_a_pool_get_in_at_once() {
        let (logins, _passing) = logins();
        let mut pool = JoinSet::new();
        for _ in 0..1000 {
            let logins = Arc::clone(&logins);
            pool.spawn(async move {
                let attempt = logins.attempt(address(1), PORT).await.unwrap();
                tokio::task::yield_now().await;
                let under_way = logins.book.lock().buckets[&address(1)].under_way;
                assert!(under_way <= 10, "{under_way} at once");
                attempt.passed();
            });
        }
        pool.join_all().await;
        let tries = || logins.book.lock().buckets[&address(1)].tries;
        assert_eq!(tries(), BURST);
        // Who hangs up has tried.
        drop(logins.attempt(address(1), PORT).await);
        assert_eq!(tries(), BURST - 1.0);
        // Whoever logged in before waits for nobody, and pays for what was wrong.
        logins.untaken(address(1), PORT).passed();
        drop(logins.untaken(address(1), PORT));
        assert_eq!(tries(), BURST - 2.0);
    }

    #[test]
    fn who_does_not_log_in_is_answered_slowly() {
        assert_eq!(stranger_pause(0), None);
        assert_eq!(stranger_pause(STRANGER_COMMANDS - 1), None);
        assert_eq!(stranger_pause(STRANGER_COMMANDS), Some(STRANGER_PAUSE));
    }

    #[test]
    fn the_book_is_bounded_and_a_network_of_version_6_is_one() {
        let (logins, _passing) = logins();
        for number in 0..20_000_u32 {
            logins.failed(IpAddr::from(number.to_be_bytes()), Taken::Nothing);
        }
        assert!(logins.book.lock().buckets.len() <= ADDRESSES_MAX);
        let v6 = |text: &str| text.parse::<IpAddr>().unwrap();
        for host in 0..10 {
            logins.failed(v6(&format!("2001:db8::{host}")), Taken::Nothing);
        }
        assert!(matches!(logins.turn(v6("2001:db8::ffff")), Turn::After(_)));
        assert!(matches!(logins.turn(v6("2001:db8:1::1")), Turn::Now));
        assert_eq!(owner(v6("::ffff:10.0.0.1")), address(1));
    }
}
