//! Clients that search an index of several partitions: the parts of a search arrive together, and
//! then the fetches. Where each asks again when it has its answer, that is no overload, whatever
//! their number; where they come faster than they can be served, it is.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::{MS, SECOND, arrival};
use crate::admission::{Admission, AdmissionRule, Arrival, Started};
use crate::load_line::Class;
use crate::random::Random;

const PARTITIONS: usize = 5;
const FETCH_NS: f64 = 0.1e6;
/// The limit that a search has by default.
const LIMIT_NS: u64 = 60 * SECOND;
const END_NS: u64 = 20 * SECOND;

/// What the clients ask for.
#[derive(Clone, Copy)]
struct Mix {
    part_ms: f64,
    heavy_share: f64,
    /// What a heavy search costs, in cheap ones.
    heavy: f64,
    /// What the first run of a kind on a partition costs, in later ones.
    cold: f64,
}

const CHEAP: Mix = Mix { part_ms: 1.0, heavy_share: 0.0, heavy: 1.0, cold: 20.0 };
const MIXED: Mix = Mix { heavy_share: 0.05, heavy: 30.0, ..CHEAP };
const SLOW: Mix = Mix { part_ms: 10.0, ..MIXED };

enum Event {
    Ask(usize),
    End(Started, u64),
}

#[derive(Clone, Copy, Default)]
struct Client {
    is_heavy: bool,
    is_fetching: bool,
    is_refused: bool,
    parts_left: usize,
    rank: u32,
    asked_ns: u64,
}

#[derive(Debug, Default)]
struct Outcome {
    /// Response times.
    answered_ns: Vec<u64>,
    refused: usize,
    retry_after_ns: u64,
}

struct Model {
    mix: Mix,
    is_closed: bool,
    admission: Admission,
    random: Random,
    /// By time, then by number.
    agenda: BinaryHeap<Reverse<(u64, usize)>>,
    events: Vec<Option<Event>>,
    clients: Vec<Client>,
    /// What a part is believed to cost: cheap and heavy, by partition.
    believed_ns: [[Option<u64>; PARTITIONS]; 2],
    now_ns: u64,
    outcome: Outcome,
}

impl Model {
    /// So many clients, evenly over the time in which they come; each goes on for ever in a closed
    /// loop, else it asks once.
    fn run(mix: Mix, workers: usize, clients: usize, come_ns: u64, is_closed: bool) -> Outcome {
        let mut model = Self {
            mix,
            is_closed,
            admission: Admission::new(AdmissionRule::LoadAware, workers, 0),
            random: Random::new(5),
            agenda: BinaryHeap::new(),
            events: Vec::new(),
            clients: vec![Client::default(); clients],
            believed_ns: [[None; PARTITIONS]; 2],
            now_ns: 0,
            outcome: Outcome::default(),
        };
        for client in 0..clients {
            model.at(come_ns * client as u64 / clients as u64, Event::Ask(client));
        }
        while let Some(Reverse((now_ns, event))) = model.agenda.pop().filter(|it| it.0.0 < END_NS) {
            model.now_ns = now_ns;
            match model.events[event].take().unwrap() {
                Event::Ask(client) => model.ask(client),
                Event::End(started, run_ns) => model.end(&started, run_ns),
            }
            model.fill();
        }
        model.outcome
    }

    fn at(&mut self, at_ns: u64, event: Event) {
        self.agenda.push(Reverse((at_ns, self.events.len())));
        self.events.push(Some(event));
    }

    fn ask(&mut self, client: usize) {
        let is_heavy = self.random.unit() < self.mix.heavy_share;
        let rank = u32::try_from(self.random.next_u64() >> 32).unwrap();
        let (parts_left, asked_ns) = (PARTITIONS, self.now_ns);
        self.clients[client] = Client { is_heavy, rank, parts_left, asked_ns, ..Client::default() };
        self.offer(client);
    }

    fn offer(&mut self, client: usize) {
        let one = self.clients[client];
        for part in 0..PARTITIONS {
            let id = (client * PARTITIONS + part) as u64;
            let class = if one.is_fetching { Class::Fetch } else { Class::Search };
            let believed_ns = self.believed_ns[usize::from(one.is_heavy)][part];
            let cost_ns = believed_ns.filter(|_| !one.is_fetching);
            let asked = arrival(id, class, self.now_ns + LIMIT_NS);
            let asked = Arrival { cost_ns, rank: one.rank, ..asked };
            if let Err(refusal) = self.admission.offer(self.now_ns, asked) {
                self.refused(client, refusal.retry_after_ns);
            }
        }
    }

    fn refused(&mut self, client: usize, retry_after_ns: u64) {
        self.outcome.retry_after_ns = self.outcome.retry_after_ns.max(retry_after_ns);
        self.clients[client].is_refused = true;
        self.part_over(client);
    }

    fn fill(&mut self) {
        let mut dropped = Vec::new();
        while let Some(started) = self.admission.next(self.now_ns, &mut dropped) {
            let (client, part) = place(&started);
            let one = self.clients[client];
            let believed_ns = self.believed_ns[usize::from(one.is_heavy)][part];
            let mean_ns = match one.is_fetching {
                true => FETCH_NS,
                false => {
                    let kind = if one.is_heavy { self.mix.heavy } else { 1.0 };
                    let cold = if believed_ns.is_none() { self.mix.cold } else { 1.0 };
                    self.mix.part_ms * 1e6 * kind * cold
                }
            };
            let run_ns = crate::average::whole(mean_ns * (0.5 + self.random.unit()));
            self.at(self.now_ns + run_ns, Event::End(started, run_ns));
        }
        for (one, refusal) in dropped {
            let client = usize::try_from(one.id).unwrap() / PARTITIONS;
            self.refused(client, refusal.retry_after_ns);
        }
    }

    fn end(&mut self, started: &Started, run_ns: u64) {
        self.admission.on_finish(self.now_ns, started, run_ns);
        let (client, part) = place(started);
        let one = self.clients[client];
        if !one.is_fetching {
            let believed_ns = &mut self.believed_ns[usize::from(one.is_heavy)][part];
            *believed_ns = Some((believed_ns.unwrap_or(run_ns) * 3 + run_ns) / 4);
        }
        self.part_over(client);
    }

    fn part_over(&mut self, client: usize) {
        let one = &mut self.clients[client];
        one.parts_left -= 1;
        if one.parts_left > 0 {
            return;
        }
        if !one.is_refused && !one.is_fetching {
            (one.is_fetching, one.parts_left) = (true, PARTITIONS);
            self.offer(client);
            return;
        }
        match one.is_refused {
            true => self.outcome.refused += 1,
            false => self.outcome.answered_ns.push(self.now_ns - one.asked_ns),
        }
        if self.is_closed {
            self.at(self.now_ns + MS / 5, Event::Ask(client));
        }
    }
}

/// Whose part it is, and of which partition.
fn place(started: &Started) -> (usize, usize) {
    let id = usize::try_from(started.arrival.id).unwrap();
    (id / PARTITIONS, id % PARTITIONS)
}

#[test]
fn searches_over_several_partitions_in_a_closed_loop_are_not_refused() {
    for (name, mix) in [("cheap", CHEAP), ("mixed", MIXED), ("slow", SLOW)] {
        for (clients, come_ns) in [(8, 0), (50, 0), (50, 200 * MS), (200, 0), (200, 500 * MS)] {
            for workers in [2, 4] {
                let found = Model::run(mix, workers, clients, come_ns, true);
                assert_eq!(found.refused, 0, "{name} {clients} in {come_ns} by {workers}");
                assert!(!found.answered_ns.is_empty(), "{name} {clients} by {workers}");
            }
        }
    }
}

#[test]
fn more_searches_over_several_partitions_than_can_be_served_are_refused_whole() {
    for (name, mix) in [("cheap", CHEAP), ("mixed", Mix { heavy: 5.0, ..MIXED })] {
        for workers in [2, 4] {
            let kinds = 1.0 - mix.heavy_share + mix.heavy_share * mix.heavy;
            let search_ns = PARTITIONS as f64 * (mix.part_ms * 1e6 * kinds + FETCH_NS);
            let capacity = crate::average::whole(workers as f64 * END_NS as f64 / search_ns);
            let capacity = usize::try_from(capacity).unwrap();
            let found = Model::run(mix, workers, capacity * 14 / 10, END_NS, false);
            let mut answered_ns = found.answered_ns;
            answered_ns.sort_unstable();
            let (count, p99_ns) = (answered_ns.len(), answered_ns[answered_ns.len() * 99 / 100]);
            assert!(count * 10 > capacity * 9, "{name} by {workers}: {count} of {capacity}");
            assert!(p99_ns < 3 * SECOND, "{name} by {workers}: {p99_ns}");
            let retry_ns = found.retry_after_ns;
            assert!(found.refused > 0 && retry_ns < 5 * SECOND, "{name}: {retry_ns}");
        }
    }
}
