//! Flushes and compactions under way: each takes a piece of its input through a processor, is held by the
//! brake, and hands its output to the disk a piece at a time, each waited for, as RocksDB does with `bytes_per_sync` and
//! `strict_bytes_per_sync`.

use super::brake::May;
use super::node::Kind;
use super::state::{Event, Run, Step, Task, Work};

/// Input that is passed between two looks at the brake.
const PIECE_BYTES: f64 = 131_072.0;
/// Processor time for a byte of input, ns: 125 MB/s a thread of compaction, what one was seen to do with
/// rows of 1 KB; flushes only copy.
const COMPACTION_NS: f64 = 8.0;
const FLUSH_NS: f64 = 3.0;

impl Run<'_> {
    /// Gives a node's free background threads what there is to do.
    pub(super) fn employ(&mut self, node: usize) {
        while let Some((store, kind, bytes)) = self.nodes[node].next_work() {
            let ratio = match &kind {
                Kind::Flush => 1.0,
                Kind::Compact(compaction) => compaction.output_bytes / bytes.max(1.0),
            };
            let work = self.works.insert(Work {
                node,
                store,
                kind,
                all_bytes: bytes,
                left_bytes: bytes,
                piece_bytes: 0.0,
                ratio,
                unwritten_bytes: 0.0,
                step: Step::Read,
            });
            self.go_on(work);
        }
    }

    /// The work's next step, if it may; what it waits for calls this again.
    pub(super) fn go_on(&mut self, work: usize) {
        let one = &mut self.works[work];
        let (node, is_flush) = (one.node, matches!(one.kind, Kind::Flush));
        match one.step {
            Step::Read => {
                one.piece_bytes = one.left_bytes.min(PIECE_BYTES);
                let ns = if is_flush { FLUSH_NS } else { COMPACTION_NS };
                let work_ns = one.piece_bytes * ns;
                self.start_task(node, Task::Background(work), work_ns);
            }
            Step::Held => self.pass(work, 0.0),
            Step::Write => self.write(work),
            Step::Written => self.written(work),
        }
    }

    /// A processor is done with a piece.
    pub(super) fn piece_done(&mut self, work: usize) {
        let one = &mut self.works[work];
        let bytes = one.piece_bytes;
        one.left_bytes -= bytes;
        one.unwritten_bytes += bytes * one.ratio;
        self.pass(work, bytes);
    }

    fn pass(&mut self, work: usize, bytes: f64) {
        let now_ns = self.agenda.now_ns();
        let one = &mut self.works[work];
        let may = match &one.kind {
            Kind::Flush => May::GoOn,
            Kind::Compact(of) => self.nodes[one.node].brake.pass(now_ns, of.level, bytes),
        };
        if let May::AskIn(wait_ns) = may {
            one.step = Step::Held;
            self.agenda.after(wait_ns, Event::Background { work });
            return;
        }
        let is_last = one.left_bytes <= 0.0;
        if one.unwritten_bytes < self.spec.shape.sync_bytes && !is_last {
            one.step = Step::Read;
            return self.go_on(work);
        }
        let is_flush = matches!(one.kind, Kind::Flush);
        one.step = Step::Write;
        let bytes = one.unwritten_bytes;
        if self.nodes[one.node].brake.write(work, bytes, is_flush) == May::GoOn {
            self.write(work);
        }
    }

    fn write(&mut self, work: usize) {
        let now_ns = self.agenda.now_ns();
        let one = &mut self.works[work];
        let disks = &mut self.nodes[one.node].disks;
        let at = one.store % disks.len();
        let done_ns = disks[at].write(now_ns, std::mem::take(&mut one.unwritten_bytes));
        one.step = Step::Written;
        self.agenda.at(done_ns, Event::Background { work });
    }

    fn written(&mut self, work: usize) {
        let one = &mut self.works[work];
        if one.left_bytes > 0.0 {
            one.step = Step::Read;
            return self.go_on(work);
        }
        let Some(one) = self.works.remove(work) else { return };
        self.nodes[one.node].end_work(one.store, &one.kind, one.all_bytes);
        self.note([5, one.node as u64, one.store as u64]);
        for batch in std::mem::take(&mut self.nodes[one.node].stopped) {
            self.apply(batch);
        }
        self.employ(one.node);
    }
}
