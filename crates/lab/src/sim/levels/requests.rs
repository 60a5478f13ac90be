//! Clients, and reads and writes on their way through the cluster. The path is Pegasus': a client's threads
//! serve its connections, so do a server's; the first copy prepares a write, the others take it in at the
//! same time, and when all of them have it, it is committed and answered. What comes to a partition while
//! as many batches are under way as may be waits, and becomes one batch.
//!
//! ```text
//! read  = trip + connection's thread + processors + trip + client's thread
//! write = trip + connection's thread + processors (prepare) + the slower of
//!           the own log's sync, where it is waited for
//!           each other copy: trip + connection's thread + processors (+ its log's sync) + trip
//!                            + connection's thread
//!         + processors (commit) + trip + client's thread
//! ```

use plimsoll_control::average::whole;
use plimsoll_control::{Class, Random};

use super::costs::{ACK_IO, COMMIT, COPY, COPY_IO, PREPARE, READ_IO, WRITE_IO};
use super::node::Logged;
use super::spec::Asked;
use super::state::{Batch, Event, Request, Run, Task};
use crate::sim::dist::exponential_ns;

/// Threads that serve connections, of a server (Pegasus' `io_service_worker_count`) and of each client's
/// process (its `async_workers`).
pub(super) const IO_THREADS: usize = 4;
/// One way over 10 GbE through two kernels, with the threads that wake up at its ends.
const TRIP_NS: u64 = 50_000;
/// Batches of a partition under way at once (Pegasus' `staleness_for_commit`).
const UNDER_WAY_MAX: usize = 10;
/// What each further write of a batch costs, of the first.
const FURTHER: f64 = 0.5;
/// Part of the reads that find their block not in memory while files are rewritten, and what they read.
const MISSES: f64 = 0.04;
const BLOCK_BYTES: f64 = 16_384.0;
/// A thread whose write was refused asks again after this.
const AGAIN_NS: u64 = 10_000_000;
/// Bytes of a key, and of what a row has beside key and value.
const KEY_BYTES: f64 = 40.0;
/// YCSB draws of so many keys, and spreads them by a hash; its sum of Zipf's law over them at 0.99.
const ZETA: f64 = 26.469_028_201_783_02;
/// Of those, so many have a share that is worth being drawn; the others are spread evenly.
const HOT_KEYS: u32 = 10_000;

/// Up to which share of the requests each partition goes, where keys are drawn as YCSB's scrambled Zipf
/// draws them: the hottest is one request in 26. Which partition it lies in is drawn.
pub(super) fn zipfian(partitions: usize, random: &mut Random) -> Vec<f64> {
    let mut shares = vec![0.0; partitions];
    let mut hot = 0.0;
    for rank in 1..=HOT_KEYS {
        let share = f64::from(rank).powf(-0.99) / ZETA;
        shares[random.below(partitions)] += share;
        hot += share;
    }
    let mut all = 0.0;
    for share in &mut shares {
        all += *share + (1.0 - hot) / partitions as f64;
        *share = all;
    }
    shares
}

impl Run<'_> {
    pub(super) fn issue(&mut self, thread: Option<usize>) {
        let now_ns = self.agenda.now_ns();
        let at = self.random.unit();
        let partition = self.shares.partition_point(|share| *share <= at);
        let partition = partition.min(self.partitions.len() - 1);
        let is_read = self.random.unit() < self.spec.reads;
        if !is_read {
            if self.found.writes_waiting == 0 {
                self.found.since_ns = now_ns;
            }
            self.found.writes_waiting += 1;
        }
        let request = Request { thread, partition, is_read, issued_ns: now_ns, is_refused: false };
        let request = self.requests.insert(request);
        self.note([1, partition as u64, u64::from(is_read)]);
        self.agenda.after(TRIP_NS, Event::Reach { request });
    }

    /// A thread of a node's connections takes so long, on average, for what comes now.
    fn connection(&mut self, node: usize, mean_us: f64) -> u64 {
        let now_ns = self.agenda.now_ns();
        let took_ns = exponential_ns(&mut self.random, mean_us * 1e3);
        let thread = self.random.below(IO_THREADS);
        self.nodes[node].serve(now_ns, thread, took_ns)
    }

    pub(super) fn reach(&mut self, request: usize) {
        let one = &self.requests[request];
        let node = self.partitions[one.partition].copies[0].0;
        let costs = &self.spec.costs;
        let mean_us = if one.is_read { READ_IO * costs.read_us } else { WRITE_IO * costs.write_us };
        let done_ns = self.connection(node, mean_us);
        self.agenda.at(done_ns, Event::Serve { request });
    }

    pub(super) fn serve(&mut self, request: usize) {
        let now_ns = self.agenda.now_ns();
        let one = &self.requests[request];
        let node = self.partitions[one.partition].copies[0].0;
        if one.is_read {
            let work_ns = (1.0 - READ_IO) * self.spec.costs.read_us * 1e3;
            return self.start_task(node, Task::Read { request }, work_ns);
        }
        let bytes = self.spec.value_bytes + KEY_BYTES;
        match self.nodes[node].brake.admit(now_ns, bytes) {
            Some(0) => self.let_in(request),
            Some(wait_ns) => self.agenda.after(wait_ns, Event::LetIn { request }),
            None => {
                self.requests[request].is_refused = true;
                self.reply(request);
            }
        }
    }

    pub(super) fn let_in(&mut self, request: usize) {
        let partition = self.requests[request].partition;
        self.partitions[partition].waiting.push(request);
        self.next_batch(partition);
    }

    fn next_batch(&mut self, partition: usize) {
        let of = &mut self.partitions[partition];
        if of.under_way >= UNDER_WAY_MAX || of.waiting.is_empty() {
            return;
        }
        of.under_way += 1;
        let writes = std::mem::take(&mut of.waiting);
        let bytes = (self.spec.value_bytes + KEY_BYTES) * writes.len() as f64;
        let left = of.copies.len() - 1 + usize::from(self.spec.shape.log_is_synced);
        let (node, is_stopped) = (of.copies[0].0, false);
        let batch = self.batches.insert(Batch { partition, writes, bytes, left, is_stopped });
        let work_ns = self.batch_ns(batch, PREPARE);
        self.start_task(node, Task::Prepare { batch }, work_ns);
    }

    /// What a part of a write's cost is for a batch of them.
    fn batch_ns(&self, batch: usize, part: f64) -> f64 {
        let further = (self.batches[batch].writes.len() - 1) as f64;
        part * self.spec.costs.write_us * 1e3 * (1.0 + FURTHER * further)
    }

    pub(super) fn prepared(&mut self, batch: usize) {
        let now_ns = self.agenda.now_ns();
        let (partition, bytes) = (self.batches[batch].partition, self.batches[batch].bytes);
        let (node, copies) = {
            let of = &self.partitions[partition];
            (of.copies[0].0, of.copies.len())
        };
        for copy in 1..copies {
            self.agenda.after(TRIP_NS, Event::CopyReach { batch, copy });
        }
        if self.spec.shape.log_is_synced {
            self.nodes[node].log_waits.push(Logged { batch, is_first: true });
            self.sync(node);
        } else {
            self.nodes[node].append(now_ns, bytes);
            if copies == 1 {
                self.commit(batch);
            }
        }
    }

    fn sync(&mut self, node: usize) {
        let now_ns = self.agenda.now_ns();
        let batches = &self.batches;
        if let Some(done_ns) = self.nodes[node].sync(now_ns, |batch| batches[batch].bytes) {
            self.agenda.at(done_ns, Event::Synced { node });
        }
    }

    pub(super) fn synced(&mut self, node: usize) {
        for Logged { batch, is_first } in std::mem::take(&mut self.nodes[node].log_syncs) {
            match is_first {
                true => self.acked(batch),
                false => self.agenda.after(TRIP_NS, Event::AckReach { batch }),
            }
        }
        self.sync(node);
    }

    pub(super) fn copy_reach(&mut self, batch: usize, copy: usize) {
        let node = self.partitions[self.batches[batch].partition].copies[copy].0;
        let mean_us = self.batch_ns(batch, COPY_IO) / 1e3;
        let done_ns = self.connection(node, mean_us);
        self.agenda.at(done_ns, Event::CopyServe { batch, copy });
    }

    pub(super) fn copy_serve(&mut self, batch: usize, copy: usize) {
        let node = self.partitions[self.batches[batch].partition].copies[copy].0;
        let work_ns = self.batch_ns(batch, COPY);
        self.start_task(node, Task::Copy { batch, copy }, work_ns);
    }

    pub(super) fn copied(&mut self, batch: usize, copy: usize) {
        let now_ns = self.agenda.now_ns();
        let (partition, bytes) = (self.batches[batch].partition, self.batches[batch].bytes);
        let (node, store) = self.partitions[partition].copies[copy];
        // Another copy answers when its log has the write, whatever its store does.
        if self.nodes[node].take(store, bytes) {
            self.employ(node);
        }
        if self.spec.shape.log_is_synced {
            self.nodes[node].log_waits.push(Logged { batch, is_first: false });
            self.sync(node);
        } else {
            self.nodes[node].append(now_ns, bytes);
            self.agenda.after(TRIP_NS, Event::AckReach { batch });
        }
    }

    pub(super) fn ack_reach(&mut self, batch: usize) {
        let node = self.partitions[self.batches[batch].partition].copies[0].0;
        let done_ns = self.connection(node, ACK_IO * self.spec.costs.write_us);
        self.agenda.at(done_ns, Event::Acked { batch });
    }

    pub(super) fn acked(&mut self, batch: usize) {
        let one = &mut self.batches[batch];
        one.left -= 1;
        if one.left == 0 {
            self.commit(batch);
        }
    }

    fn commit(&mut self, batch: usize) {
        let node = self.partitions[self.batches[batch].partition].copies[0].0;
        let work_ns = self.batch_ns(batch, COMMIT);
        self.start_task(node, Task::Commit { batch }, work_ns);
    }

    /// A batch goes into its first copy's store, where that takes it, and is answered.
    pub(super) fn apply(&mut self, batch: usize) {
        let partition = self.batches[batch].partition;
        let (node, store) = self.partitions[partition].copies[0];
        let of = &mut self.nodes[node];
        if !of.takes(store) {
            of.stops += u64::from(!self.batches[batch].is_stopped);
            self.batches[batch].is_stopped = true;
            of.stopped.push(batch);
            return;
        }
        let Some(done) = self.batches.remove(batch) else { return };
        if of.take(store, done.bytes) {
            self.employ(node);
        }
        done.writes.into_iter().for_each(|request| self.reply(request));
        self.partitions[partition].under_way -= 1;
        self.next_batch(partition);
    }

    /// An answer leaves its server, and is read by the client.
    pub(super) fn reply(&mut self, request: usize) {
        let now_ns = self.agenda.now_ns();
        let one = &self.requests[request];
        let (node, store) = self.partitions[one.partition].copies[0];
        let mut leaves_ns = now_ns;
        if one.is_read && self.nodes[node].is_rewriting() && self.random.unit() < MISSES {
            let disks = &mut self.nodes[node].disks;
            let at = store % disks.len();
            leaves_ns = disks[at].write(now_ns, BLOCK_BYTES);
        }
        let took_ns = exponential_ns(&mut self.random, READ_IO * self.spec.costs.read_us * 1e3);
        let machine = self.requests[request].thread.unwrap_or(0) % self.spec.client_machines;
        let thread = machine * IO_THREADS + self.random.below(IO_THREADS);
        // Who waits for a disk does not keep the client's thread from others.
        let free_ns = &mut self.client_free_ns[thread];
        let begins_ns = (now_ns + TRIP_NS).max(*free_ns);
        *free_ns = begins_ns + took_ns;
        let done_ns = *free_ns + (leaves_ns - now_ns);
        self.agenda.at(done_ns, Event::Answer { request });
    }

    pub(super) fn answer(&mut self, request: usize) {
        let now_ns = self.agenda.now_ns();
        let Some(one) = self.requests.remove(request) else { return };
        let took_ns = now_ns - one.issued_ns;
        let is_measured = now_ns >= self.spec.warm_up_ns;
        self.note([2, whole(took_ns as f64), u64::from(one.is_refused)]);
        let node = self.partitions[one.partition].copies[0].0;
        if !one.is_read {
            let gap_ns = now_ns.saturating_sub(self.found.since_ns);
            if is_measured {
                self.found.longest_gap_ns = self.found.longest_gap_ns.max(gap_ns);
            }
            (self.found.since_ns, self.found.writes_waiting) =
                (now_ns, self.found.writes_waiting.saturating_sub(1));
        }
        if one.is_refused {
            self.found.refused += u64::from(is_measured);
        } else {
            let class = if one.is_read { Class::Get } else { Class::Write };
            self.nodes[node].brake.felt(now_ns, class, took_ns);
            let of = if one.is_read { &mut self.found.reads_us } else { &mut self.found.writes_us };
            if is_measured {
                of.saturating_record(took_ns / 1_000);
            }
            if !one.is_read {
                self.found.second_us.saturating_record(took_ns / 1_000);
            }
        }
        if let (Some(thread), Asked::Closed { .. }) = (one.thread, self.spec.asked) {
            let pause_ns = if one.is_refused { AGAIN_NS } else { 0 };
            self.agenda.after(pause_ns, Event::Issue { thread: Some(thread) });
        }
    }
}
