//! Time, in two kinds: a node's, which passes by itself, and a simulation's, which passes when it is
//! told to. What waits for it waits as a future.
//!
//! A node's waits are those of the role that waits where that has a thread without a runtime
//! ([`crate::Tasks::role`]), and tokio's elsewhere. A wall clock that is set back or forward moves
//! [`Time::wall_ms`] alone, that of one process without the others'.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

pub use crate::instant::Instant;

use crate::instant::nanos;
use crate::steady;
use crate::tasks::parked;
use crate::waits::Waits;

/// The time that passed before what was waited for came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Elapsed;

/// Tells the time and waits for it.
#[derive(Clone)]
pub struct Time(Kind);

#[derive(Clone)]
enum Kind {
    Machine { began: std::time::Instant },
    Simulated { clock: Arc<Mutex<Clock>>, wall: Arc<Wall> },
}

/// A simulation's clock.
#[derive(Default)]
struct Clock {
    now: Instant,
    waits: Waits,
}

/// Lets a simulation's time pass.
pub struct Passing(Arc<Mutex<Clock>>);

/// The wall clock of one process of a simulation.
pub struct Wall {
    /// What it said at the beginning, ms since 1970.
    began_ms: AtomicU64,
}

impl Wall {
    fn new(began_ms: u64) -> Arc<Self> {
        Arc::new(Self { began_ms: AtomicU64::new(began_ms) })
    }

    /// What it says at a moment.
    fn ms(&self, now: Instant) -> u64 {
        self.began_ms.load(Ordering::Relaxed).saturating_add(now.0 / 1_000_000)
    }

    /// Sets it: from `now` on it says `wall_ms`, ms since 1970, and what passes.
    pub fn set_ms(&self, now: Instant, wall_ms: u64) {
        self.began_ms.store(wall_ms.saturating_sub(now.0 / 1_000_000), Ordering::Relaxed);
    }
}

impl Time {
    /// The machine's.
    #[must_use]
    pub fn of_the_machine() -> Self {
        Self(Kind::Machine { began: std::time::Instant::now() })
    }

    /// A simulation's, whose wall clock says `wall_ms` at first; and who lets it pass.
    #[must_use]
    pub fn simulated(wall_ms: u64) -> (Self, Passing) {
        let clock: Arc<Mutex<Clock>> = Arc::default();
        let wall = Wall::new(wall_ms);
        (Self(Kind::Simulated { clock: Arc::clone(&clock), wall }), Passing(clock))
    }

    /// The same time, as a process has it whose wall clock is its own; it says now what this one does.
    ///
    /// # Panics
    /// Where the time is the machine's: nobody sets the machine's wall clock from here.
    #[must_use]
    pub fn of_a_process(&self) -> (Self, Arc<Wall>) {
        let Kind::Simulated { clock, wall } = &self.0 else { panic!("a simulation's time alone") };
        let wall = Wall::new(wall.began_ms.load(Ordering::Relaxed));
        (Self(Kind::Simulated { clock: Arc::clone(clock), wall: Arc::clone(&wall) }), wall)
    }

    /// Now. It never goes back.
    #[must_use]
    pub fn now(&self) -> Instant {
        match &self.0 {
            Kind::Machine { began } => Instant(nanos(began.elapsed())),
            Kind::Simulated { clock, .. } => clock.lock().now,
        }
    }

    /// What the wall clock says, ms since 1970. It may go back.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        match &self.0 {
            Kind::Machine { .. } => {
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
            }
            Kind::Simulated { clock, wall } => wall.ms(clock.lock().now),
        }
    }

    /// What a clock says that does not step, ms since any moment before; it goes on while the machine sleeps,
    /// which [`Self::now`] does not.
    #[must_use]
    pub fn steady_ms(&self) -> u64 {
        match &self.0 {
            Kind::Machine { .. } => steady::now_ms(),
            Kind::Simulated { clock, .. } => clock.lock().now.0 / 1_000_000,
        }
    }

    /// Waits for so long. Dropped, it waits no more.
    #[must_use]
    pub fn sleep(&self, duration: Duration) -> Sleep {
        Sleep(match &self.0 {
            Kind::Machine { .. } => match parked::timers() {
                Some(timers) => {
                    let key = timers.lock().key(timers.now() + duration);
                    Waiting::Parked { timers, key }
                }
                None => Waiting::Machine(Box::pin(tokio::time::sleep(duration))),
            },
            Kind::Simulated { clock, .. } => {
                let mut held = clock.lock();
                let due = held.now + duration;
                let key = held.waits.key(due);
                drop(held);
                Waiting::Simulated { clock: Arc::clone(clock), key }
            }
        })
    }

    /// Waits until a moment; not at all where that is over.
    #[must_use]
    pub fn sleep_until(&self, moment: Instant) -> Sleep {
        self.sleep(moment - self.now())
    }

    /// Waits for `future` for so long. Where both are ready at once, what it gives counts.
    ///
    /// # Errors
    /// [`Elapsed`]: it was dropped.
    pub async fn timeout<F: Future>(
        &self,
        duration: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let mut sleep = self.sleep(duration);
        let mut future = pin!(future);
        std::future::poll_fn(move |context| {
            if let Poll::Ready(output) = future.as_mut().poll(context) {
                return Poll::Ready(Ok(output));
            }
            Pin::new(&mut sleep).poll(context).map(|()| Err(Elapsed))
        })
        .await
    }
}

/// Waits for a moment.
pub struct Sleep(Waiting);

enum Waiting {
    Machine(Pin<Box<tokio::time::Sleep>>),
    Parked { timers: Arc<parked::Timers>, key: (Instant, u64) },
    Simulated { clock: Arc<Mutex<Clock>>, key: (Instant, u64) },
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Waiting::Machine(sleep) => sleep.as_mut().poll(context),
            Waiting::Parked { timers, key } => timers.lock().poll(timers.now(), *key, context),
            Waiting::Simulated { clock, key } => {
                let mut clock = clock.lock();
                let now = clock.now;
                clock.waits.poll(now, *key, context)
            }
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        match &self.0 {
            Waiting::Machine(_) => {}
            Waiting::Parked { timers, key } => timers.lock().forget(*key),
            Waiting::Simulated { clock, key } => clock.lock().waits.forget(*key),
        }
    }
}

impl Passing {
    /// When the next who waits is due; `None` where nobody waits.
    #[must_use]
    pub fn next_due(&self) -> Option<Instant> {
        self.0.lock().waits.next_due()
    }

    /// Lets time pass up to a moment and wakes who is due, in the order in which they are. One that is
    /// over changes nothing.
    pub fn pass_until(&self, moment: Instant) {
        let due = {
            let mut clock = self.0.lock();
            clock.now = clock.now.max(moment);
            clock.waits.take_due(moment)
        };
        // Without the lock: who is woken may wait again at once.
        due.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Counts how often it was woken.
    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn poll<F: Future + Unpin>(future: &mut F, wakes: &Arc<Wakes>) -> Poll<F::Output> {
        let waker = Waker::from(Arc::clone(wakes));
        Pin::new(future).poll(&mut Context::from_waker(&waker))
    }

    #[test]
    fn simulated_time_passes_when_told_and_wakes_who_is_due() {
        let (time, passing) = Time::simulated(5_000);
        let (began, wakes) = (time.now(), Arc::new(Wakes::default()));
        let mut short = time.sleep(SECOND);
        let mut long = time.sleep(2 * SECOND);
        assert!(poll(&mut short, &wakes).is_pending() && poll(&mut long, &wakes).is_pending());
        assert_eq!(passing.next_due(), Some(began + SECOND));
        passing.pass_until(began + SECOND);
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert!(poll(&mut short, &wakes).is_ready() && poll(&mut long, &wakes).is_pending());
        assert_eq!((time.now().since(began), time.wall_ms()), (SECOND, 6_000));
        // What is over does not come back.
        passing.pass_until(began);
        assert_eq!(time.now(), began + SECOND);
        drop(long);
        assert_eq!(passing.next_due(), None, "who was dropped waits no more");
    }

    #[test]
    fn the_wall_clock_of_one_process_alone_can_be_set() {
        let (time, passing) = Time::simulated(5_000);
        let (own, wall) = time.of_a_process();
        passing.pass_until(Instant::default() + 3 * SECOND);
        assert_eq!(own.wall_ms(), 8_000);
        wall.set_ms(own.now(), 4_000);
        assert_eq!((own.wall_ms(), own.now()), (4_000, Instant::default() + 3 * SECOND));
        passing.pass_until(time.now() + SECOND);
        assert_eq!((own.wall_ms(), time.wall_ms()), (5_000, 9_000));
    }

    #[test]
    fn a_timeout_gives_what_comes_in_time() {
        let (time, passing) = Time::simulated(0);
        let wakes = Arc::new(Wakes::default());
        let wait = |for_long: Duration| {
            let inner = time.clone();
            let slow = async move { inner.sleep(2 * SECOND).await };
            let time = time.clone();
            Box::pin(async move { time.timeout(for_long, slow).await })
        };
        let (mut early, mut same, mut late) = (wait(SECOND), wait(2 * SECOND), wait(3 * SECOND));
        for future in [&mut early, &mut same, &mut late] {
            assert!(poll(future, &wakes).is_pending());
        }
        passing.pass_until(Instant::default() + SECOND);
        assert_eq!(poll(&mut early, &wakes), Poll::Ready(Err(Elapsed)));
        passing.pass_until(Instant::default() + 2 * SECOND);
        assert_eq!(poll(&mut same, &wakes), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut late, &wakes), Poll::Ready(Ok(())));
        assert_eq!(passing.next_due(), None);
    }

    #[test]
    fn the_machines_time_passes_by_itself() {
        let time = Time::of_the_machine();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let before = time.now();
        let waited = runtime.block_on(async {
            time.timeout(Duration::from_millis(5), std::future::pending::<()>()).await
        });
        assert_eq!(waited, Err(Elapsed));
        assert!(time.now().since(before) >= Duration::from_millis(5));
        assert!(time.wall_ms() > 1_700_000_000_000);
    }
}
