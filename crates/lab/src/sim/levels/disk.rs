//! One disk: so many bytes a second, in the order in which they were handed over. It never does more; who
//! comes behind a large piece waits for it, which is what a sync of the log behind a compaction feels.

/// The length of the pieces of time in which the disk's use is told.
const SECOND_NS: u64 = 1_000_000_000;

#[derive(Clone, Debug)]
pub(super) struct Disk {
    bytes_s: f64,
    free_ns: u64,
    /// Bytes by the second in which they were written.
    by_second: Vec<f64>,
}

impl Disk {
    pub(super) fn new(bytes_s: f64) -> Self {
        Self { bytes_s, free_ns: 0, by_second: Vec::new() }
    }

    /// Takes bytes; when they are written.
    pub(super) fn write(&mut self, now_ns: u64, bytes: f64) -> u64 {
        let began_ns = self.free_ns.max(now_ns);
        let took_ns = plimsoll_control::average::whole((bytes / self.bytes_s * 1e9).ceil());
        self.free_ns = began_ns + took_ns;
        let mut at_ns = began_ns;
        while at_ns < self.free_ns {
            let second = at_ns / SECOND_NS;
            let until_ns = ((second + 1) * SECOND_NS).min(self.free_ns);
            let slot = usize::try_from(second).unwrap_or(usize::MAX);
            if self.by_second.len() <= slot {
                self.by_second.resize(slot + 1, 0.0);
            }
            self.by_second[slot] += (until_ns - at_ns) as f64 / took_ns as f64 * bytes;
            at_ns = until_ns;
        }
        self.free_ns
    }

    /// Bytes written in each second, from the run's beginning.
    pub(super) fn by_second(&self) -> &[f64] {
        &self.by_second
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_second_has_more_than_the_disk_can_and_nothing_is_lost() {
        let mut disk = Disk::new(1e6);
        let mut done_ns = 0;
        for piece in 0..40u32 {
            done_ns = disk.write(u64::from(piece) * 10_000_000, 100_000.0);
        }
        assert_eq!(done_ns, 4 * SECOND_NS);
        assert!(disk.by_second().iter().all(|bytes| *bytes <= 1e6 + 1.0));
        assert!((disk.by_second().iter().sum::<f64>() - 4e6).abs() < 1.0);
        assert_eq!(disk.write(9 * SECOND_NS, 1e6), 10 * SECOND_NS);
        assert!(disk.by_second()[5].abs() < f64::EPSILON);
    }
}
