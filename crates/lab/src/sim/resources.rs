//! Memory and disk of a node, for experiments about breakers and pacing. Requests hold memory
//! while they run; more than the limit makes the node swap. Writes leave debt that background work
//! pays off, and background work wants processors.
//!
//! Without breakers everyone gets what it asks for, and a node over its limit is slow. Without
//! pacing background work begins at a tenth of the debt that stalls writes and runs at full speed
//! until none is left.

use std::collections::BTreeMap;

use plimsoll_control::Class;
use plimsoll_control::breakers::{AccountId, Breaker, Reservation, Standing};
use plimsoll_control::pacing::debt::REFUSED_FROM;
use plimsoll_control::pacing::{DiskState, Pacer};

use super::spec::{Policy, Resources, SECOND_NS};

/// Beyond its memory a node runs at a tenth of its speed.
pub(super) const SWAPPING: f64 = 0.1;
const GREEDY_FROM: f64 = 0.1;

/// What a request's memory needs before it can run.
pub(super) enum Memory {
    Granted,
    /// This attempt has to be given up first.
    Victim(usize),
    Refused,
}

pub(super) struct Holdings {
    spec: Resources,
    breaker: Option<Breaker>,
    pacer: Option<Pacer>,
    /// What each running attempt holds.
    held: BTreeMap<usize, (Option<AccountId>, u64)>,
    names: BTreeMap<AccountId, usize>,
    used: u64,
    debt_bytes: f64,
    background_bytes_s: f64,
    /// None lets all in.
    admitted_bytes_s: Option<f64>,
    latencies_ns: Vec<u64>,
    /// Seconds of writes that were held back.
    pub(super) stalled_s: f64,
}

impl Holdings {
    pub(super) fn new(spec: Resources, policy: &Policy) -> Self {
        Self {
            breaker: policy.breakers.then(|| Breaker::new(spec.memory_bytes)),
            pacer: policy.pacing.then(Pacer::default),
            held: BTreeMap::new(),
            names: BTreeMap::new(),
            used: 0,
            debt_bytes: 0.0,
            background_bytes_s: 0.0,
            admitted_bytes_s: None,
            latencies_ns: Vec::new(),
            stalled_s: 0.0,
            spec,
        }
    }

    /// An attempt wants to run with so many bytes.
    pub(super) fn reserve(&mut self, attempt: usize, bytes: u64) -> Memory {
        let Some(breaker) = self.breaker.as_mut() else {
            self.hold(attempt, None, bytes);
            return Memory::Granted;
        };
        let Some(account) = breaker.open(Standing::Request { weight: 1 }) else {
            return Memory::Refused;
        };
        match breaker.reserve(account, bytes) {
            Reservation::Granted => {
                self.names.insert(account, attempt);
                self.hold(attempt, Some(account), bytes);
                Memory::Granted
            }
            Reservation::Wait { victim } => {
                breaker.close(account);
                self.names.get(&victim).map_or(Memory::Refused, |victim| Memory::Victim(*victim))
            }
            Reservation::Refused(_) => {
                breaker.close(account);
                Memory::Refused
            }
        }
    }

    fn hold(&mut self, attempt: usize, account: Option<AccountId>, bytes: u64) {
        self.held.insert(attempt, (account, bytes));
        self.used += bytes;
    }

    /// An attempt no longer runs.
    pub(super) fn free(&mut self, attempt: usize) {
        let Some((account, bytes)) = self.held.remove(&attempt) else { return };
        self.used -= bytes;
        if let Some((account, breaker)) = account.zip(self.breaker.as_mut()) {
            self.names.remove(&account);
            breaker.close(account);
        }
    }

    pub(super) fn is_swapping(&self) -> bool {
        self.used > self.spec.memory_bytes
    }

    pub(super) fn memory_debt_permille(&self) -> u32 {
        let permille = self.used.saturating_mul(1_000) / self.spec.memory_bytes.max(1);
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    pub(super) fn write_debt_permille(&self) -> u32 {
        let permille = plimsoll_control::average::whole(self.debt() * 1e3);
        u32::try_from(permille).unwrap_or(u32::MAX)
    }

    fn debt(&self) -> f64 {
        (self.debt_bytes / self.spec.stall_bytes).clamp(0.0, 1.0)
    }

    /// Processor time that it will take to pay the debt, in seconds.
    pub(super) fn owed_s(&self) -> f64 {
        self.debt_bytes / self.spec.disk_bytes_s as f64 * self.spec.background_threads
    }

    /// Threads that background work keeps busy.
    pub(super) fn competitors(&self) -> f64 {
        self.background_bytes_s / self.spec.disk_bytes_s as f64 * self.spec.background_threads
    }

    pub(super) fn completed(&mut self, task_ns: u64) {
        self.latencies_ns.push(task_ns);
    }

    /// A second has passed, in which a thread had `share` of a processor: debt grows and is paid,
    /// and the pace of the next one is set.
    pub(super) fn step(&mut self, now_ns: u64, share: f64) {
        let offered = self.spec.ingest_bytes_s(now_ns);
        let room = self.debt() < 1.0;
        let slowed = self.admitted_bytes_s.map_or(1.0, |it| (it / offered.max(1.0)).min(1.0));
        let admitted = if room { slowed } else { 0.0 };
        self.stalled_s += 1.0 - admitted;
        let ingest = offered * admitted;
        // Background work waits for its processors like any other.
        let paid = self.background_bytes_s * share;
        self.debt_bytes = (self.debt_bytes + ingest * self.spec.amplification - paid).max(0.0);
        self.latencies_ns.sort_unstable();
        let high = self.latencies_ns.len() * 99 / 100;
        // The classes of work are not told apart here.
        let mut latencies_ns = [None; Class::COUNT];
        latencies_ns[Class::Search.slot()] = self.latencies_ns.get(high).copied();
        self.latencies_ns.clear();
        let disk = DiskState {
            ingest_bytes_s: ingest,
            write_amplification: self.spec.amplification,
            background_bytes_s: paid,
            drained_bytes_s: paid / self.spec.amplification,
            room_bytes: (REFUSED_FROM - self.debt()).max(0.0) * self.spec.stall_bytes
                / self.spec.amplification,
            debt: self.debt(),
            latencies_ns,
        };
        let full = self.spec.disk_bytes_s as f64;
        let greedy = disk.debt > GREEDY_FROM;
        self.background_bytes_s = match self.pacer.as_mut() {
            Some(pacer) => {
                let pace = pacer.step(now_ns, &disk);
                self.admitted_bytes_s = pace.admitted_bytes_s.map(|it| it as f64);
                // Work that is not there is not done.
                let may = pace.background_bytes_s.map_or(full, |it| full.min(it as f64));
                may.min(self.debt_bytes)
            }
            None if greedy => full,
            None if self.background_bytes_s > 0.0 => full.min(self.debt_bytes),
            None => 0.0,
        };
    }

    pub(super) const STEP_NS: u64 = SECOND_NS;
}
