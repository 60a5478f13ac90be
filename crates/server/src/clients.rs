//! The connections of RESP that are open: what CLIENT LIST shows of each, and how one is told to end. It does
//! not serve them.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::commands;
use crate::places::{NoPlace, Place, Places};
use crate::security::user::DEFAULT;

/// The longest name of a connection, or of a client library, in bytes.
pub const NAME_BYTES_MAX: usize = 512;

/// One connection as others see it.
#[derive(Debug)]
pub struct Client {
    /// Unique while the process lives, from 1.
    pub id: u64,
    /// Where it comes from.
    pub remote: SocketAddr,
    /// Where it arrived.
    pub local: SocketAddr,
    connected: Instant,
    /// Milliseconds from `connected` to the last request.
    active_ms: AtomicU64,
    names: Mutex<Names>,
    db: AtomicU32,
    protocol: AtomicU8,
    /// Commands queued, plus one; 0 outside of a transaction.
    queued: AtomicUsize,
    /// The last command's position among all commands, plus one; 0 before the first.
    command: AtomicUsize,
    /// Users were changed since it looked last whom it is.
    users_changed: AtomicBool,
    place: Place,
}

/// What a connection calls itself.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// CLIENT SETNAME.
    pub name: String,
    /// CLIENT SETINFO LIB-NAME.
    pub library: String,
    /// CLIENT SETINFO LIB-VER.
    pub library_version: String,
    /// Whom it is logged in as; empty before it is.
    pub user: String,
}

/// What a connection's task knows better than this registry; noted once for each batch.
#[derive(Clone, Copy, Debug)]
pub struct Noted {
    /// The database.
    pub db: u32,
    /// 2 or 3.
    pub protocol: u8,
    /// Commands queued in a transaction, if there is one.
    pub queued: Option<usize>,
    /// The last command's position among all commands.
    pub command: Option<usize>,
}

impl Names {
    /// Whom it is logged in as: `default` before it is.
    #[must_use]
    pub fn user(&self) -> &str {
        if self.user.is_empty() { DEFAULT } else { &self.user }
    }
}

impl Client {
    /// Notes the state after a batch of requests.
    pub fn note(&self, now: Instant, noted: Noted) {
        let active = now.saturating_duration_since(self.connected).as_millis();
        self.active_ms.store(u64::try_from(active).unwrap_or(u64::MAX), Relaxed);
        self.db.store(noted.db, Relaxed);
        self.protocol.store(noted.protocol, Relaxed);
        self.queued.store(noted.queued.map_or(0, |queued| queued + 1), Relaxed);
        self.command.store(noted.command.map_or(0, |command| command + 1), Relaxed);
    }

    /// What it calls itself.
    #[must_use]
    pub fn names(&self) -> Names {
        self.names.lock().clone()
    }

    /// Changes what it calls itself.
    pub fn rename(&self, change: impl FnOnce(&mut Names)) {
        change(&mut self.names.lock());
    }

    /// Notes that it is no stranger: it has logged in, or need not.
    pub fn know(&self) {
        self.place.know();
    }

    /// Tells its task to end; a batch that is running is answered first.
    pub fn kill(&self) {
        self.place.end();
    }

    /// Has its task look whom it is, also where nothing comes from the client.
    pub fn look_whom(&self) {
        self.users_changed.store(true, Relaxed);
        self.place.wake();
    }

    /// Whether it is to look whom it is; asked once.
    #[must_use]
    pub fn take_users_changed(&self) -> bool {
        self.users_changed.load(Relaxed) && self.users_changed.swap(false, Relaxed)
    }

    /// Completes when it may have been told something.
    pub fn woken(&self) -> impl Future<Output = ()> + '_ {
        self.place.woken()
    }

    /// Whether it was told to end.
    #[must_use]
    pub fn is_killed(&self) -> bool {
        self.place.is_ended()
    }

    /// Completes when it is told to end.
    pub fn killed(&self) -> impl Future<Output = ()> + Send + use<> {
        self.place.ended()
    }

    /// Its line of CLIENT LIST: the fields of Redis that have a meaning here.
    #[must_use]
    pub fn line(&self, now: Instant) -> String {
        let age = now.saturating_duration_since(self.connected);
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let idle_ms = age_ms.saturating_sub(self.active_ms.load(Relaxed));
        let queued = self.queued.load(Relaxed);
        let multi = if queued == 0 { "-1".to_owned() } else { (queued - 1).to_string() };
        let command = self.command.load(Relaxed).checked_sub(1);
        let command = command.and_then(|index| commands::all().get(index));
        let names = self.names();
        format!(
            "id={} addr={} laddr={} name={} age={} idle={} flags={} db={} sub=0 psub=0 ssub=0 \
             multi={multi} cmd={} user={} lib-name={} lib-ver={} resp={}",
            self.id,
            self.remote,
            self.local,
            names.name,
            age_ms / 1000,
            idle_ms / 1000,
            if queued == 0 { 'N' } else { 'x' },
            self.db.load(Relaxed),
            command.map_or("NULL", |entry| entry.spec.name),
            names.user(),
            names.library,
            names.library_version,
            self.protocol.load(Relaxed),
        )
    }
}

/// Which commands CLIENT PAUSE has wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// Those that may change rows.
    Writes,
    /// All but CLIENT itself, so that someone can end it.
    All,
}

/// What CLIENT PAUSE asked for.
#[derive(Debug, Default)]
struct Pause {
    /// 0 none, 1 writes, 2 all: a hint that costs a load, to be looked into where it is not 0.
    hint: AtomicU8,
    until: Mutex<Option<(Instant, Paused)>>,
    over: Notify,
}

/// All connections.
#[derive(Debug)]
pub struct Clients {
    open: Mutex<BTreeMap<u64, Arc<Client>>>,
    next: AtomicU64,
    places: Arc<Places>,
    /// Connections taken since the start.
    pub accepted: AtomicU64,
    /// Connections refused because there were too many.
    pub refused: AtomicU64,
    pause: Pause,
}

impl Clients {
    /// No connections yet, as many at most as there are places.
    #[must_use]
    pub(crate) fn new(places: Arc<Places>) -> Self {
        Self {
            open: Mutex::default(),
            next: AtomicU64::new(1),
            places,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            pause: Pause::default(),
        }
    }

    /// CLIENT PAUSE: has commands wait until a moment. Of two that overlap the later end counts, and
    /// the larger part of the commands.
    pub fn pause(&self, until: Instant, what: Paused) {
        let mut held = self.pause.until.lock();
        let before = held.filter(|(until, _)| *until > Instant::now());
        let (until, what) =
            before.map_or((until, what), |(was_until, was)| (was_until.max(until), was.max(what)));
        *held = Some((until, what));
        self.pause.hint.store(1 + u8::from(what == Paused::All), Relaxed);
    }

    /// CLIENT UNPAUSE: who waits goes on.
    pub fn unpause(&self) {
        *self.pause.until.lock() = None;
        self.pause.hint.store(0, Relaxed);
        self.pause.over.notify_waiters();
    }

    /// Whether commands may have to wait; costs a load.
    #[must_use]
    pub fn may_be_paused(&self) -> bool {
        self.pause.hint.load(Relaxed) != 0
    }

    /// Until when a command has to wait, if it has to.
    fn paused_until(&self, writes: bool) -> Option<Instant> {
        let mut held = self.pause.until.lock();
        let (until, what) = (*held)?;
        if until <= Instant::now() {
            *held = None;
            self.pause.hint.store(0, Relaxed);
            return None;
        }
        (writes || what == Paused::All).then_some(until)
    }

    /// Waits for as long as a command has to wait.
    pub async fn pass_pause(&self, writes: bool) {
        loop {
            let over = self.pause.over.notified();
            let Some(until) = self.paused_until(writes) else { return };
            tokio::select! {
                () = over => {}
                () = tokio::time::sleep_until(until.into()) => {}
            }
        }
    }

    /// Takes a connection in.
    pub(crate) fn add(
        &self,
        remote: SocketAddr,
        local: SocketAddr,
    ) -> Result<Arc<Client>, NoPlace> {
        let place = self.places.take(remote.ip()).inspect_err(|_| {
            self.refused.fetch_add(1, Relaxed);
        })?;
        self.accepted.fetch_add(1, Relaxed);
        let client = Arc::new(Client {
            id: self.next.fetch_add(1, Relaxed),
            remote,
            local,
            connected: Instant::now(),
            active_ms: AtomicU64::new(0),
            names: Mutex::default(),
            db: AtomicU32::new(0),
            protocol: AtomicU8::new(2),
            queued: AtomicUsize::new(0),
            command: AtomicUsize::new(0),
            users_changed: AtomicBool::new(false),
            place,
        });
        self.open.lock().insert(client.id, Arc::clone(&client));
        Ok(client)
    }

    /// Forgets a connection that ended.
    pub fn remove(&self, client: &Client) {
        self.open.lock().remove(&client.id);
    }

    /// All of them, the oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Client>> {
        self.open.lock().values().cloned().collect()
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open.lock().len()
    }

    /// How many there may be.
    #[must_use]
    pub fn count_max(&self) -> usize {
        self.places.max()
    }

    /// Changes how many there may be; those that are open stay.
    pub fn set_count_max(&self, count_max: usize) {
        self.places.set_max(count_max);
    }
}
