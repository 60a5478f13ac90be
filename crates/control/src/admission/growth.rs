//! Whether a queue grows, told from one that stands or breathes.
//!
//! ```text
//! grows = the least that waited in an interval is more than the most that ever waited, since the
//!         queue was last empty, up to two intervals before it
//! ```
//!
//! The least of an interval, because what arrives together and leaves soon is no queue (`CoDel`,
//! Nichols and Jacobson, Controlling Queue Delay, ACM Queue 2012). The most of the past, because a
//! closed loop has one, the number of its clients: who asks again only when he has his answer never
//! exceeds it, however the queue breathes meanwhile. Whole requests are counted, not their parts, of
//! which a client may have one or all waiting, nor their run time: a node that turns slow, or
//! predictions that turn out wrong, make none arrive.

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// When the queue was last empty.
    empty_ns: u64,
    interval_from_ns: u64,
    /// The least and the most requests that waited in this interval.
    least: usize,
    most: usize,
    /// The most of the interval before this, and of all before that.
    last_most: usize,
    high: usize,
    /// Whole intervals in which the queue was never empty.
    stood: u64,
}

impl Growth {
    pub(super) fn new(now_ns: u64) -> Self {
        Self { empty_ns: now_ns, interval_from_ns: now_ns, ..Self::default() }
    }

    /// So many have waited since the last call. True where that closes an interval in which the
    /// queue grew.
    pub(super) fn see(&mut self, now_ns: u64, waiting: usize, length_ns: u64) -> bool {
        if waiting == 0 {
            *self = Self::new(now_ns);
            return false;
        }
        self.least = if self.most == 0 { waiting } else { self.least.min(waiting) };
        self.most = self.most.max(waiting);
        let mut grows = false;
        // Nothing changed while nobody looked, and after three such intervals no more can be learnt.
        self.interval_from_ns = self.interval_from_ns.max(now_ns.saturating_sub(3 * length_ns));
        while now_ns.saturating_sub(self.interval_from_ns) >= length_ns {
            grows = self.stood >= 2 && self.least > self.high;
            self.high = self.high.max(self.last_most);
            self.last_most = self.most;
            (self.least, self.most) = (waiting, waiting);
            self.interval_from_ns += length_ns;
            self.stood += 1;
        }
        grows
    }

    /// How long the queue has not been empty.
    pub(super) fn stood_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.empty_ns)
    }
}
