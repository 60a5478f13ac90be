//! The hierarchy of limits, with Elasticsearch's names, and what happens at one.
//!
//! `request` bounds what all requests hold together, `parent` the anonymous memory of the process
//! or its control group. `fielddata` and `accounting` count what lasts and only explain; bodies
//! that arrive are bounded where they do (`in_flight_requests`). At a limit the request that exceeds its share most is told to
//! stop ([`plimsoll_control::breakers::largest_overcommitter`]), not whoever asks next; the asker
//! waits for it, or is told itself where it is the one. The cluster's own work never is.
//!
//! The parent does not lag behind: what threads have told since the kernel was asked counts in full
//! ([`GROWN`]; frees do not, until the kernel has seen them), and so does what they may hold back and
//! what was granted a moment ago and is not touched yet. As long as that stays below a mark nobody
//! asks the kernel. Beyond it a request that holds [`ASKED_BYTES`] or more grows no further: where it
//! asks, and on the threads of searches in the allocator itself, it waits. What is small never does;
//! it has the watching thread look.

pub(crate) mod counting;
mod settings;
pub(crate) mod trip;

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use plimsoll_control::breakers::{Holder, largest_overcommitter};

use crate::account::{Account, Standing, Stop, find, open_accounts, request_sums};
use crate::ledger::{INDEX, Ledger, REQUEST_CACHE, REQUESTS};
use crate::local;
use crate::machine::machine;
use crate::marks::{
    self, GRANTED, GROWN, GROWN_MARK, REQUESTS_MARK, RESERVE, TOLD, claim, grant, is_over_asked,
    is_pressed, signed,
};
use crate::nudge::nudge;
use counting::TYPE;

pub use settings::{Limit, Settings, Type};
pub use trip::Trip;

/// How many of the largest requests a refusal names.
const NAMED: usize = 3;
/// What the parent tells to stop holds at least this, bytes: less would not help it.
const PARENT_VICTIM_BYTES_MIN: u64 = 1 << 20;
/// How long a request that was told to stop counts as on its way to give its bytes back.
const YIELD_TIME: Duration = Duration::from_millis(500);
/// How long an asker waits for others to give theirs back.
pub const WAIT_MAX: Duration = Duration::from_millis(500);
/// How long after a decision those who wait leave the next to the watching thread.
pub const WAIT_STEP: Duration = Duration::from_millis(5);
/// For about so long a large block that was granted counts beside what the kernel sees: it is not
/// touched yet.
const GRANT_TIME: Duration = Duration::from_millis(10);
/// A reading of the kernel's is good for this long, where somebody asks.
const READING_AGE_MAX: Duration = Duration::from_millis(1);
/// How often the allocator may be asked to give back what it keeps for later.
const RECLAIM_PAUSE: Duration = Duration::from_millis(50);
/// Of the parent's limit one part in so many is kept for what does not ask: small requests and writes are not
/// refused because large ones take all there is.
const RESERVE_PARTS: u64 = 64;
/// From here on of the parent's limit it is asked without a question, thousandths.
const RECLAIM_PERMILLE: u64 = 900;
const RECLAIM_PAUSE_EARLY: Duration = Duration::from_secs(1);
/// Growth of this size is asked for first.
const ASKED_BYTES: u64 = marks::ASKED_BYTES as u64;

/// The breakers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All of the process' memory.
    Parent,
    /// What requests hold.
    Request,
    /// Columns held in memory; they are read from mapped files here, so that there are none.
    Fielddata,
    /// What lasts: indices' readers, caches, what requests left behind, what RocksDB holds.
    Accounting,
}

impl Which {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Request, Self::Fielddata, Self::Accounting, Self::Parent];

    /// Its name in answers.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parent => "parent",
            Self::Request => "request",
            Self::Fielddata => "fielddata",
            Self::Accounting => "accounting",
        }
    }
}

#[derive(Clone, Copy)]
struct Reading {
    at: Instant,
    /// What the kernel says.
    anonymous: u64,
    /// With what has been granted and is not touched yet, and what is kept free for threads.
    committed: u64,
    /// Of that, what was granted a moment ago: it may be touched already, and counted twice.
    untouched: u64,
    /// [`GROWN`] then.
    grown: i64,
}

impl Reading {
    /// What the process may have come to since.
    fn now(&self) -> u64 {
        let since = GROWN.load(Relaxed).saturating_sub(self.grown);
        self.committed.saturating_add(u64::try_from(since).unwrap_or(0))
    }
}

struct BreakerState {
    settings: Settings,
    reading: Option<Reading>,
    /// [`GRANTED`] at two earlier readings, the older first.
    granted: [(Option<Instant>, i64); 2],
    reclaim: Option<fn()>,
    reclaimed_at: Option<Instant>,
}

impl BreakerState {
    const fn new(settings: Settings) -> Self {
        Self { settings, reading: None, granted: [(None, 0); 2], reclaim: None, reclaimed_at: None }
    }
}

static STATE: Mutex<Option<BreakerState>> = Mutex::new(None);
/// One decision at a time; when the last one was.
static DECIDING: Mutex<Option<Instant>> = Mutex::new(None);
/// Those that wait for room, and how they learn of it.
static WAITERS: AtomicUsize = AtomicUsize::new(0);
static ROOM_LOCK: Mutex<()> = Mutex::new(());
static ROOM: Condvar = Condvar::new();
/// What the kernel said last, thousandths of the parent's limit.
static PARENT_PERMILLE: AtomicU32 = AtomicU32::new(0);
static NATIVE: AtomicU64 = AtomicU64::new(0);
static TRIPPED: [AtomicU64; Which::ALL.len()] = [const { AtomicU64::new(0) }; Which::ALL.len()];

fn state<T>(work: impl FnOnce(&mut BreakerState) -> T) -> T {
    local::unasked(|| {
        let mut state = STATE.lock();
        work(state.get_or_insert_with(|| BreakerState::new(Settings::default())))
    })
}

/// What is set.
#[must_use]
pub fn settings() -> Settings {
    state(|state| state.settings)
}

/// Sets limits, from the next question on.
pub fn set(settings: Settings) {
    TYPE.store(settings.request_type as u8, Relaxed);
    state(|state| state.settings = settings);
    check();
}

/// Tells what libraries in other languages hold beside the counted blocks: RocksDB.
pub fn tell_native(bytes: u64) {
    NATIVE.store(bytes, Relaxed);
}

/// How the allocator is asked to give back pages that it keeps for later: they count as the
/// process', and nobody holds them.
pub fn reclaim_with(reclaim: fn()) {
    state(|state| state.reclaim = Some(reclaim));
}

/// Has the allocator give back what nobody holds, unless it was asked just now; then the reading is
/// a new one.
fn reclaim(pause: Duration) -> bool {
    let due = state(|state| {
        let is_due = state.reclaimed_at.is_none_or(|at| at.elapsed() >= pause);
        if is_due {
            state.reclaimed_at = Some(Instant::now());
        }
        state.reclaim.filter(|_| is_due)
    });
    due.is_some_and(|reclaim| {
        reclaim();
        state(|state| read(state, Duration::ZERO));
        true
    })
}

/// Asks the kernel, and sets the marks that threads compare with.
pub fn check() {
    let is_near = state(|state| {
        let limit = u128::from(state.settings.total.bytes());
        u128::from(read(state, Duration::ZERO).anonymous) * 1000
            > limit * u128::from(RECLAIM_PERMILLE)
    });
    if is_near {
        reclaim(RECLAIM_PAUSE_EARLY);
    }
}

/// What the kernel says, no older than `age_max`; sets the marks.
fn read(state: &mut BreakerState, age_max: Duration) -> Reading {
    if let Some(reading) = state.reading.filter(|it| it.at.elapsed() < age_max) {
        return reading;
    }
    // What is told from here on is not in what the kernel says, or counts twice.
    let grown = GROWN.load(Relaxed);
    let anonymous = machine().anonymous_bytes();
    let at = Instant::now();
    let granted = GRANTED.load(Relaxed);
    let untouched = granted.saturating_sub(state.granted[0].1).max(0);
    if state.granted[1].0.is_none_or(|then| at.duration_since(then) >= GRANT_TIME) {
        state.granted = [state.granted[1], (Some(at), granted)];
    }
    let seen = signed(anonymous).saturating_add(untouched).max(TOLD.load(Relaxed));
    let committed = u64::try_from(seen.saturating_add(local::reserve())).unwrap_or(0);
    let untouched = u64::try_from(untouched).unwrap_or(0);
    let reading = Reading { at, anonymous, committed, untouched, grown };
    state.reading = Some(reading);
    let settings = &state.settings;
    let limit = settings.total.bytes();
    let room = signed(limit).saturating_sub(signed(committed));
    GROWN_MARK.store(grown.saturating_add(room), Relaxed);
    RESERVE.store(signed(limit / RESERVE_PARTS), Relaxed);
    REQUESTS_MARK.store(signed(under(settings.request, settings.request_overhead)), Relaxed);
    PARENT_PERMILLE.store(permille(anonymous, limit), Relaxed);
    reading
}

fn permille(used: u64, limit: u64) -> u32 {
    let permille = u128::from(used) * 1000 / u128::from(limit.max(1));
    u32::try_from(permille).unwrap_or(u32::MAX)
}

/// The bytes that come to a limit once the overhead is on them.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn under(limit: Limit, overhead: f64) -> u64 {
    (limit.bytes() as f64 / overhead.max(f64::MIN_POSITIVE)) as u64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn over(bytes: u64, overhead: f64) -> u64 {
    (bytes as f64 * overhead) as u64
}

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// There is room.
    Room,
    /// Others were told to give theirs back, and have not yet.
    Wait,
    /// The asker was told to stop, or there is nobody to tell.
    Refused,
}

/// A thread has told a ledger of growth, or is about to allocate a large block for it, and a limit
/// may have been passed. `is_patient`: the thread may wait.
pub(crate) fn press(ledger: &Ledger, bytes: u64, is_patient: bool) {
    let held = u64::try_from(ledger.bytes()).unwrap_or(0);
    if held.saturating_add(bytes) < ASKED_BYTES || ledger.request().is_none() {
        grant(signed(bytes));
        return nudge();
    }
    local::unasked(|| {
        let asker = ledger.request().and_then(find);
        let Some(asker) = asker.filter(|it| it.standing() != Standing::Control) else {
            grant(signed(bytes));
            return nudge();
        };
        let may_wait = is_patient && asker.standing() == Standing::Read && !asker.is_stopped();
        if may_wait {
            // Where it waited in vain it goes on: an allocator cannot refuse.
            make_room(&asker, bytes);
            return;
        }
        decide_at_once(&asker, bytes);
        grant(signed(bytes));
    });
}

/// Tells requests to stop, unless someone is deciding that already; waits for nobody.
fn decide_at_once(asker: &Account, bytes: u64) -> Verdict {
    let Some(mut last) = DECIDING.try_lock() else {
        nudge();
        return Verdict::Wait;
    };
    let verdict = decide(Some(asker), bytes);
    *last = Some(Instant::now());
    verdict
}

/// What the watching thread does: looks, and tells requests to stop as far as limits ask for it.
pub(crate) fn watch() {
    local::unasked(|| {
        check();
        if is_pressed() {
            let mut last = DECIDING.lock();
            decide(None, 0);
            *last = Some(Instant::now());
        }
        if WAITERS.load(Relaxed) > 0 && !is_pressed() {
            drop(ROOM_LOCK.lock());
            ROOM.notify_all();
        }
    });
}

/// Whether somebody waits for room.
pub(crate) fn is_awaited() -> bool {
    WAITERS.load(Relaxed) > 0
}

impl Account {
    /// Asks for bytes before they are allocated. Where others have to give theirs back first, it
    /// waits for them if the thread can ([`local::patiently`]).
    ///
    /// # Errors
    /// Where this account is the one that has to stop.
    pub fn ask(&self, bytes: u64) -> Result<(), Stop> {
        self.check()?;
        if self.is_asked_of() {
            ask(self, bytes)?;
        }
        Ok(())
    }

    /// Asks for bytes before they are allocated, and never waits: false where others have to give theirs back
    /// first, and were told to.
    ///
    /// # Errors
    /// Where this account is the one that has to stop.
    pub fn try_ask(&self, bytes: u64) -> Result<bool, Stop> {
        self.check()?;
        if !self.is_asked_of() || !is_over_asked(signed(bytes)) {
            return Ok(true);
        }
        if is_small(self, bytes) {
            nudge();
            return Ok(true);
        }
        let verdict = local::unasked(|| decide_at_once(self, bytes));
        self.check().map(|()| verdict != Verdict::Wait)
    }

    /// Waited long enough, [`WAIT_MAX`], for bytes that others have to give back: stops if they have not.
    ///
    /// # Errors
    /// Where there is no room all the same.
    pub fn stop_waiting(&self, bytes: u64) -> Result<(), Stop> {
        if self.is_asked_of() {
            local::unasked(|| refuse(self, bytes));
        }
        self.check()
    }

    fn is_asked_of(&self) -> bool {
        self.is_counted() && self.standing() != Standing::Control
    }
}

/// The small do not wait: what they take does not matter, and how long they take does.
fn is_small(asker: &Account, bytes: u64) -> bool {
    asker.bytes().saturating_add(bytes) < ASKED_BYTES
}

/// Asks for bytes that a request is about to allocate, and waits where others give theirs back and the
/// thread can.
fn ask(asker: &Account, bytes: u64) -> Result<(), Stop> {
    if !is_over_asked(signed(bytes)) {
        return Ok(());
    }
    if is_small(asker, bytes) {
        nudge();
        return Ok(());
    }
    let may_wait = local::is_patient();
    local::unasked(|| {
        if !may_wait {
            decide_at_once(asker, bytes);
        } else if !make_room(asker, bytes) {
            // Whoever was told cannot stop yet. There is no room all the same.
            refuse(asker, bytes);
        }
    });
    asker.check()
}

/// Has others give memory back until there is room for `bytes`, which are granted then. False where
/// that takes longer than [`WAIT_MAX`]; true also where the asker has to stop, or there is nobody to
/// tell.
fn make_room(asker: &Account, bytes: u64) -> bool {
    let began = Instant::now();
    let decision = |last: &mut Option<Instant>| {
        let verdict = decide(Some(asker), bytes);
        *last = Some(Instant::now());
        verdict
    };
    // Never behind a lock: whoever decides may wait for one that this thread holds.
    let mut verdict = match DECIDING.try_lock() {
        Some(mut last) => decision(&mut last),
        None => Verdict::Wait,
    };
    while verdict == Verdict::Wait && !asker.is_stopped() {
        if began.elapsed() > WAIT_MAX {
            grant(signed(bytes));
            return false;
        }
        pause();
        if claim(bytes) {
            return true;
        }
        let lock = DECIDING.try_lock();
        if let Some(mut last) = lock
            && last.is_none_or(|at| at.elapsed() >= WAIT_STEP)
        {
            verdict = decision(&mut last);
        }
    }
    grant(signed(bytes));
    true
}

fn pause() {
    WAITERS.fetch_add(1, Relaxed);
    nudge();
    ROOM.wait_for(&mut ROOM_LOCK.lock(), WAIT_STEP);
    WAITERS.fetch_sub(1, Relaxed);
}

/// The two limits that requests are told to stop for, with what is held now.
///
/// `asks`: whether somebody asks, for whom the reserve is not.
fn questions(bytes: u64, asks: bool) -> [Question; 2] {
    let settings = state(|state| state.settings);
    let requests = u64::try_from(REQUESTS.load(Relaxed)).unwrap_or(0);
    let by_request = Question {
        which: Which::Request,
        used: requests,
        untouched: 0,
        limit: under(settings.request, settings.request_overhead),
        reserve: 0,
        overhead: settings.request_overhead,
        victim_min: 1,
    };
    let limit = settings.total.bytes();
    let reserve = if asks { limit / RESERVE_PARTS } else { 0 };
    let is_over = |used: u64| used.saturating_add(bytes).saturating_add(reserve) > limit;
    let read_now = |age_max| {
        let reading = state(|state| read(state, age_max));
        (reading.now(), reading.untouched)
    };
    let (mut used, mut untouched) = read_now(READING_AGE_MAX);
    if is_over(used) {
        // Some of what was told since was freed again.
        (used, untouched) = read_now(Duration::ZERO);
    }
    if is_over(used) && reclaim(RECLAIM_PAUSE) {
        (used, untouched) = read_now(READING_AGE_MAX);
    }
    let by_parent = Question {
        which: Which::Parent,
        used,
        untouched,
        limit,
        reserve,
        overhead: 1.0,
        victim_min: PARENT_VICTIM_BYTES_MIN,
    };
    [by_request, by_parent]
}

/// To be called by one thread at a time.
fn decide(asker: Option<&Account>, bytes: u64) -> Verdict {
    let asker = asker.filter(|it| it.standing() != Standing::Control);
    let questions = questions(bytes, asker.is_some());
    let verdicts = questions.map(|question| question.relieve(asker, bytes));
    verdicts.into_iter().find(|verdict| *verdict != Verdict::Room).unwrap_or(Verdict::Room)
}

/// Tells the one that asks to stop, where there is still no room for what it asks.
fn refuse(asker: &Account, bytes: u64) {
    for question in questions(bytes, true) {
        let wanted = question.wanted(bytes);
        if wanted > question.limit {
            let trip = question.trip(&open_accounts(), wanted, bytes);
            question.tell(asker, trip);
        }
    }
}

struct Question {
    which: Which,
    used: u64,
    /// Of that, what makes others wait and stops nobody.
    untouched: u64,
    limit: u64,
    /// Of the limit, what is not for whoever asks.
    reserve: u64,
    overhead: f64,
    victim_min: u64,
}

impl Question {
    /// What it would come to with so many bytes more.
    fn wanted(&self, bytes: u64) -> u64 {
        self.used.saturating_add(bytes).saturating_add(self.reserve)
    }

    fn relieve(&self, asker: Option<&Account>, bytes: u64) -> Verdict {
        let wanted = self.wanted(bytes);
        let Some(excess) = wanted.checked_sub(self.limit).filter(|excess| *excess > 0) else {
            return Verdict::Room;
        };
        let Some(excess) = excess.checked_sub(self.untouched).filter(|excess| *excess > 0) else {
            return Verdict::Wait;
        };
        let open = open_accounts();
        let asker_number = asker.map_or(0, Account::number);
        let mut holders: Vec<(Holder<u64>, &Account)> = Vec::new();
        // What those that were told already are about to give back.
        let mut coming = 0u64;
        for account in open.iter().filter(|it| it.standing() != Standing::Control) {
            let held = account.bytes();
            match account.stopped_for() {
                Some(time) if time < YIELD_TIME => coming = coming.saturating_add(held),
                Some(_) => {}
                None if account.number() == asker_number => {}
                None => {
                    let number = account.number();
                    let holder = Holder { id: number, weight: 1, held, is_yielding: false };
                    holders.push((holder, account));
                }
            }
        }
        let asking = asker.map(|asker| Holder {
            id: asker_number,
            weight: 1,
            held: asker.bytes().saturating_add(bytes),
            is_yielding: asker.is_stopped(),
        });
        let mut trip = None;
        while coming < excess {
            let able = holders.iter().map(|(holder, _)| *holder);
            let able = able.filter(|holder| holder.held >= self.victim_min);
            match largest_overcommitter(asking.as_ref(), able) {
                Some(victim) => {
                    let Some(at) = holders.iter().position(|(it, _)| it.id == victim) else {
                        return Verdict::Wait;
                    };
                    let (holder, account) = holders.swap_remove(at);
                    coming = coming.saturating_add(holder.held);
                    let trip = trip.get_or_insert_with(|| self.trip(&open, wanted, bytes));
                    self.tell(account, trip.clone());
                }
                None => {
                    let Some(asker) = asker else { return Verdict::Refused };
                    if self.is_kept_alone(bytes) {
                        return Verdict::Wait;
                    }
                    let grows = asking.is_some_and(|it| it.held >= self.victim_min);
                    if grows {
                        let trip = trip.unwrap_or_else(|| self.trip(&open, wanted, bytes));
                        self.tell(asker, trip);
                    }
                    return Verdict::Refused;
                }
            }
        }
        Verdict::Wait
    }

    /// Whether there would be room if the allocator gave back what nobody holds: it is asked to every now and then.
    fn is_kept_alone(&self, bytes: u64) -> bool {
        let told = u64::try_from(TOLD.load(Relaxed)).unwrap_or(0);
        let held = told.saturating_add(NATIVE.load(Relaxed));
        let wanted = held.saturating_add(bytes).saturating_add(self.reserve);
        self.which == Which::Parent && wanted <= self.limit
    }

    fn tell(&self, account: &Account, mut trip: Trip) {
        trip.label = account.title();
        let (title, bytes) = (account.title(), account.bytes());
        if account.stop(Stop::Tripped(trip)) {
            count(self.which);
            tracing::warn!(
                breaker = self.which.name(),
                request = title,
                bytes,
                used = self.used,
                limit = self.limit,
                "a request has to give its memory back"
            );
        }
    }

    fn trip(&self, open: &[Account], wanted: u64, bytes: u64) -> Trip {
        Trip {
            breaker: self.which.name(),
            label: String::new(),
            bytes_wanted: over(wanted, self.overhead),
            bytes_limit: over(self.limit, self.overhead),
            bytes_new: bytes,
            largest: largest(open),
            is_transient: self.which != Which::Parent || is_transient(),
        }
    }
}

/// Whether more is held by requests than by what lasts.
fn is_transient() -> bool {
    let requests = u64::try_from(REQUESTS.load(Relaxed)).unwrap_or(0);
    requests >= used(Which::Accounting)
}

/// The requests that hold most and what they hold, bytes; three at most, the largest first.
#[must_use]
pub fn largest_open() -> Vec<(String, u64)> {
    largest(&open_accounts())
}

fn largest(open: &[Account]) -> Vec<(String, u64)> {
    let mut held: Vec<(&Account, u64)> = open.iter().map(|it| (it, it.bytes())).collect();
    held.sort_by_key(|(account, bytes)| (std::cmp::Reverse(*bytes), account.number()));
    held.iter().take(NAMED).map(|(account, bytes)| (account.title(), *bytes)).collect()
}

fn count(which: Which) {
    TRIPPED[which as usize].fetch_add(1, Relaxed);
}

/// Whether the process holds all the memory that it may: work that only adds so many bytes to it is refused
/// then. Two loads as long as there is room. For little it goes by what the kernel sees alone: what others were
/// granted a moment ago, or have freed again, is nothing that a small request is refused for.
#[must_use]
pub fn is_parent_full(bytes: usize) -> bool {
    let is_over = || GROWN.load(Relaxed) > GROWN_MARK.load(Relaxed);
    is_over() && {
        let (reading, limit) =
            state(|state| (read(state, READING_AGE_MAX), state.settings.total.bytes()));
        if bytes < marks::ASKED_BYTES { reading.anonymous >= limit } else { is_over() }
    }
}

/// Has those that hold most give memory back, for whoever is about to find [`is_parent_full`] again.
pub fn call_for_room() {
    nudge();
}

/// How much is held of what may be, thousandths: of the parent's limit or the requests', whichever
/// is nearer. By the last look.
#[must_use]
pub fn debt_permille() -> u32 {
    let limit = u64::try_from(REQUESTS_MARK.load(Relaxed)).unwrap_or(0);
    let requests = permille(used(Which::Request), limit);
    PARENT_PERMILLE.load(Relaxed).max(requests)
}

/// A refusal of work that asks the parent for bytes when it is full.
#[must_use]
pub fn parent_trip(label: &str) -> Trip {
    count(Which::Parent);
    let (limit, used) = (settings().total.bytes(), used(Which::Parent));
    Trip {
        breaker: Which::Parent.name(),
        label: label.to_owned(),
        // Others may have given some back since it was refused.
        bytes_wanted: used.max(limit.saturating_add(1)),
        bytes_limit: limit,
        bytes_new: 0,
        largest: largest_open(),
        is_transient: is_transient(),
    }
}

/// What is told of a breaker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Which.
    pub which: Which,
    /// Bytes that may be held.
    pub limit: u64,
    /// Bytes that are held, with the overhead.
    pub used: u64,
    /// What bytes are multiplied with.
    pub overhead: f64,
    /// How often someone was told to stop, or refused.
    pub tripped: u64,
}

fn used(which: Which) -> u64 {
    let unsigned = |bytes: i64| u64::try_from(bytes).unwrap_or(0);
    match which {
        Which::Parent => state(|state| read(state, READING_AGE_MAX).anonymous),
        Which::Request => unsigned(REQUESTS.load(Relaxed)),
        Which::Fielddata => 0,
        Which::Accounting => {
            let left: i64 = request_sums().left.iter().sum();
            let kept = INDEX.bytes() + REQUEST_CACHE.bytes() + left;
            unsigned(kept) + NATIVE.load(Relaxed)
        }
    }
}

/// The figures of a breaker.
#[must_use]
pub fn figures(which: Which) -> Figures {
    let settings = settings();
    let (limit, overhead) = match which {
        Which::Parent => (settings.total, 1.0),
        Which::Request => (settings.request, settings.request_overhead),
        Which::Fielddata => (settings.fielddata, settings.fielddata_overhead),
        Which::Accounting => (settings.accounting, settings.accounting_overhead),
    };
    let tripped = TRIPPED[which as usize].load(Relaxed);
    Figures { which, limit: limit.bytes(), used: over(used(which), overhead), overhead, tripped }
}
