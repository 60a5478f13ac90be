//! A run of a store of levels: how it begins, who gets which event, and what is told at the end. The same
//! specification and seed give the same run, event by event.

use plimsoll_control::Random;
use plimsoll_control::average::whole;

use super::brake::Brake;
use super::limiter::REFILL_NS;
use super::node::Node;
use super::requests::{IO_THREADS, zipfian};
use super::spec::{Asked, LevelsSpec, Outcome, Second};
use super::state::{Event, Found, Partition, Run, Task};
use super::store::Store;
use crate::sim::agenda::Agenda;
use crate::sim::dist::{derive, exponential_ns};
use crate::sim::measure::histogram;
use crate::sim::request::Slab;
use crate::sim::trace::Trace;
use crate::stats;

const SECOND_NS: u64 = 1_000_000_000;
/// Seconds over which the disk's use is told.
const PEAK_S: usize = 5;

/// Runs a specification.
pub(crate) fn run(spec: &LevelsSpec, seed: u64) -> Outcome {
    let mut run = Run::new(spec, seed);
    run.begin();
    let end_ns = spec.warm_up_ns + spec.window_ns;
    let mut has_begun = spec.warm_up_ns == 0;
    while let Some(event) = run.agenda.next() {
        if run.agenda.now_ns() > end_ns {
            break;
        }
        if !has_begun && run.agenda.now_ns() >= spec.warm_up_ns {
            has_begun = true;
            run.found.at_start = run.so_far();
        }
        run.handle(event);
    }
    run.finish()
}

impl<'a> Run<'a> {
    fn new(spec: &'a LevelsSpec, seed: u64) -> Self {
        let mut random = Random::new(derive(seed, 7));
        let mut stores: Vec<Vec<Store>> = vec![Vec::new(); spec.nodes];
        let partitions: Vec<Partition> = (0..spec.partitions)
            .map(|partition| {
                let mut copies = Vec::new();
                for node in placed(partition, spec.nodes, spec.copies) {
                    let at = [random.unit(), random.unit(), random.unit()];
                    copies.push((node, stores[node].len()));
                    stores[node].push(Store::written_to_for_long(spec.shape, at));
                }
                Partition::new(copies)
            })
            .collect();
        let nodes: Vec<Node> =
            stores.into_iter().map(|stores| Node::new(spec, IO_THREADS, stores)).collect();
        let shares = match spec.is_zipfian {
            true => zipfian(spec.partitions, &mut Random::new(derive(seed, 8))),
            false => (1..=spec.partitions).map(|at| at as f64 / spec.partitions as f64).collect(),
        };
        let found = Found {
            reads_us: histogram(),
            writes_us: histogram(),
            second_us: histogram(),
            refused: 0,
            writes_waiting: 0,
            since_ns: 0,
            longest_gap_ns: 0,
            at_start: (0.0, 0.0),
            lay_at_first_bytes: nodes.iter().map(lies).sum(),
            course: Vec::new(),
        };
        Self {
            spec,
            agenda: Agenda::new(),
            trace: Trace::new(false),
            random: Random::new(derive(seed, 9)),
            nodes,
            tasks: Slab::new(),
            works: Slab::new(),
            requests: Slab::new(),
            batches: Slab::new(),
            partitions,
            shares,
            client_free_ns: vec![0; spec.client_machines * IO_THREADS],
            found,
        }
    }

    fn begin(&mut self) {
        for node in 0..self.nodes.len() {
            self.employ(node);
            if matches!(self.nodes[node].brake, Brake::Limiter(_)) {
                self.agenda.at(0, Event::Refill { node });
            }
        }
        self.agenda.at(SECOND_NS, Event::Second);
        match self.spec.asked {
            Asked::Closed { threads } => {
                for thread in 0..threads {
                    self.agenda.at(thread as u64 * 1_000, Event::Issue { thread: Some(thread) });
                }
            }
            Asked::Open { .. } => self.agenda.at(0, Event::Issue { thread: None }),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Issue { thread } => {
                if let Asked::Open { rate_s } = self.spec.asked {
                    let gap_ns = exponential_ns(&mut self.random, 1e9 / rate_s);
                    self.agenda.after(gap_ns, Event::Issue { thread: None });
                }
                self.issue(thread);
            }
            Event::Reach { request } => self.reach(request),
            Event::Serve { request } => self.serve(request),
            Event::LetIn { request } => self.let_in(request),
            Event::CopyReach { batch, copy } => self.copy_reach(batch, copy),
            Event::CopyServe { batch, copy } => self.copy_serve(batch, copy),
            Event::AckReach { batch } => self.ack_reach(batch),
            Event::Acked { batch } => self.acked(batch),
            Event::Synced { node } => self.synced(node),
            Event::Answer { request } => self.answer(request),
            Event::End { node, version } => self.end_task(node, version),
            Event::Background { work } => self.go_on(work),
            Event::Refill { node } => {
                let served = match &mut self.nodes[node].brake {
                    Brake::Limiter(limiter) => limiter.refill(),
                    _ => Vec::new(),
                };
                served.into_iter().for_each(|work| self.go_on(work));
                self.agenda.after(REFILL_NS, Event::Refill { node });
            }
            Event::Second => self.second(),
        }
    }

    fn second(&mut self) {
        let now_ns = self.agenda.now_ns();
        let debts = self.nodes.iter_mut().map(|node| node.second(now_ns));
        let worst = debts.fold(0.0, f64::max);
        let p99_ms = self.found.second_us.value_at_quantile(0.99) as f64 / 1e3;
        let writes = self.found.second_us.len();
        self.found.second_us.reset();
        // What the disk wrote in it is known when it is over for the disk too.
        let stores = self.nodes.iter().flat_map(|node| &node.stores);
        let space_bytes = whole(stores.map(Store::files_bytes).sum());
        let second = Second { written_bytes: 0, writes, p99_ms, debt: worst, space_bytes };
        self.found.course.push(second);
        self.agenda.after(SECOND_NS, Event::Second);
    }

    fn end_task(&mut self, node: usize, version: u64) {
        if self.nodes[node].version != version {
            return;
        }
        let now_ns = self.agenda.now_ns();
        let Some(token) = self.nodes[node].cpu.end(now_ns) else { return };
        let Some((_, task)) = self.tasks.remove(token) else { return };
        self.foresee(node);
        match task {
            Task::Read { request } => self.reply(request),
            Task::Prepare { batch } => self.prepared(batch),
            Task::Copy { batch, copy } => self.copied(batch, copy),
            Task::Commit { batch } => self.apply(batch),
            Task::Background(work) => self.piece_done(work),
        }
    }

    /// Bytes that came in at all copies, and processor seconds, until now.
    fn so_far(&self) -> (f64, f64) {
        let came_in = self.nodes.iter().map(|node| node.came_in_bytes).sum();
        (came_in, self.nodes.iter().map(|node| node.cpu.used_s()).sum())
    }

    fn finish(self) -> Outcome {
        let (came_in_bytes, cpu_s) = self.so_far();
        let from_s = usize::try_from(self.spec.warm_up_ns / SECOND_NS).unwrap_or(0);
        let until_s = from_s + usize::try_from(self.spec.window_ns / SECOND_NS).unwrap_or(0);
        let disks = || self.nodes.iter().flat_map(|node| &node.disks);
        let in_window = |disk: &super::disk::Disk| -> Vec<f64> {
            let seconds = disk.by_second().iter().copied().chain(std::iter::repeat(0.0));
            seconds.skip(from_s).take(until_s - from_s).collect()
        };
        let written: f64 = disks().flat_map(in_window).sum();
        let all_bytes_s = self.spec.machine.disk_bytes_s * disks().count() as f64;
        let mut by_second = vec![0.0; until_s - from_s];
        for bytes in disks().map(in_window) {
            by_second.iter_mut().zip(bytes).for_each(|(sum, bytes)| *sum += bytes);
        }
        let over = PEAK_S.min(by_second.len()).max(1);
        let peak = by_second.windows(over).map(|of| of.iter().sum::<f64>() / over as f64);
        let disk_peak = peak.fold(0.0, f64::max) / all_bytes_s;
        let came_in_window = came_in_bytes - self.found.at_start.0;
        let seconds = self.found.course.iter().take(until_s).skip(from_s);
        let space: Vec<f64> = seconds.map(|it| it.space_bytes as f64).collect();
        let stores = || self.nodes.iter().flat_map(|node| &node.stores);
        Outcome {
            refused: self.found.refused,
            window_s: self.spec.window_ns as f64 / 1e9,
            longest_gap_ns: self.found.longest_gap_ns,
            written_per_byte: (came_in_window > 0.0).then(|| written / came_in_window),
            disk_peak,
            space_bytes: stats::mean(&space),
            debt_left: self.nodes.iter().map(Node::debt).fold(0.0, f64::max),
            debt_peak: self.nodes.iter().map(|node| node.debt_peak).fold(0.0, f64::max),
            stops: self.nodes.iter().map(|node| node.stops).sum(),
            level_0_max: self.nodes.iter().map(|node| node.level_0_max).max().unwrap_or(0),
            cpu_s: cpu_s - self.found.at_start.1,
            came_in_bytes,
            lies_bytes: self.nodes.iter().map(lies).sum(),
            lay_at_first_bytes: self.found.lay_at_first_bytes,
            replaced_bytes: stores().map(|store| store.replaced_bytes).sum(),
            course: self.course(),
            checksum: self.trace.checksum(),
            events: self.trace.events(),
            reads_us: self.found.reads_us,
            writes_us: self.found.writes_us,
        }
    }

    fn course(&self) -> Vec<Second> {
        let written = |at: usize| -> f64 {
            let disks = self.nodes[0].disks.iter();
            disks.filter_map(|disk| disk.by_second().get(at)).sum()
        };
        let seconds = self.found.course.iter().enumerate();
        seconds.map(|(at, it)| Second { written_bytes: whole(written(at)), ..*it }).collect()
    }
}

fn lies(node: &Node) -> f64 {
    node.unflushed_bytes + node.stores.iter().map(Store::files_bytes).sum::<f64>()
}

/// The nodes of a partition's copies, the first of which takes its requests: in turns, and the others so
/// that every node is beside every other.
fn placed(partition: usize, nodes: usize, copies: usize) -> Vec<usize> {
    let (first, round) = (partition % nodes, partition / nodes);
    let others = nodes.saturating_sub(1).max(1);
    let other = |copy: usize| (first + 1 + (round + copy) % others) % nodes;
    std::iter::once(first).chain((0..copies.min(nodes) - 1).map(other)).collect()
}
