//! The load line of this node: the searches' joined with that of rows, and what the node owes.

use std::sync::atomic::Ordering;

use plimsoll_control::average::whole;
use plimsoll_control::load_line::Job;
use plimsoll_control::pacing::{Foreground, debt};
use plimsoll_control::{Class, LoadLine, Outside};
use plimsoll_memory::breakers::debt_permille;

use super::LINE_NS_MAX;
use crate::routing::Router;

/// Work on rows that is under way: it counts in the line until this goes.
pub(crate) struct Working<'a> {
    router: &'a Router,
    job: Option<Job>,
    began_ns: u64,
}

impl Working<'_> {
    /// It is done; says how long it took, ns.
    pub(crate) fn done(mut self) -> u64 {
        let now_ns = self.router.now_ns();
        let took_ns = now_ns.saturating_sub(self.began_ns);
        if let Some(job) = self.job.take() {
            let mut state = self.router.load.state.lock();
            state.rows.finish(now_ns, job, true);
            state.felt.add(now_ns, job.class, took_ns);
        }
        took_ns
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        if let Some(job) = self.job.take() {
            let now_ns = self.router.now_ns();
            self.router.load.state.lock().rows.finish(now_ns, job, false);
        }
    }
}

impl Router {
    /// Work on rows begins.
    pub(crate) fn work(&self, class: Class) -> Working<'_> {
        let now_ns = self.now_ns();
        let mut state = self.load.state.lock();
        let mut job = state.rows.arrive(now_ns, class);
        state.rows.start(now_ns, &mut job);
        Working { router: self, job: Some(job), began_ns: now_ns }
    }

    /// What clients felt of this node since this was asked last.
    pub(crate) fn felt(&self) -> Foreground {
        let rows = self.load.state.lock().felt.take(self.now_ns());
        rows.join(&self.load.searches.felt())
    }

    /// The node's load line now.
    pub(crate) fn line(&self) -> LoadLine {
        let now_ns = self.now_ns();
        let mut state = self.load.state.lock();
        if let Some((at_ns, line)) = state.line
            && now_ns.saturating_sub(at_ns) <= LINE_NS_MAX
        {
            return line;
        }
        let searching = &self.load.searches;
        let cpu_demand_permille = state.demand.permille(now_ns, || searching.scheduled());
        let outside = Outside {
            cpus: state.demand.cpus(),
            cpu_demand_permille,
            memory_debt_permille: debt_permille(),
            write_debt_permille: u32::try_from(whole(self.write_debt() * 1e3)).unwrap_or(u32::MAX),
        };
        let searches = searching.line(&outside);
        state.rows.set_workers(searches.workers);
        let line = searches.join(&state.rows.line(now_ns, None, &outside));
        state.line = Some((now_ns, line));
        line
    }

    /// How far the store that has put off most is towards the point where it takes no more.
    pub(crate) fn write_debt(&self) -> f64 {
        let (held, budget) = self.replication.resources.write_buffers();
        let of_memory = debt::of_node(held as u64, budget as u64);
        f64::from(self.load.owed_permille.load(Ordering::Relaxed)).max(of_memory * 1e3) / 1e3
    }
}
