//! The chain: H(n) = hash(H(n-1), LSN, record checksum) over everything in a group's log, with
//! a ring of recent values to check the anchors of records against. It decides whether the log
//! that is read is the log that the leads read; it does not decide what a record does.

use std::collections::VecDeque;

use xxhash_rust::xxh3::xxh3_64;

use crate::{Incarnation, Lsn};

/// How many recent values a chain keeps to check anchors against.
const RING_LEN: usize = 4096;

/// Where a replica stands in a group's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Position {
    /// The last position applied; 0 before the first.
    pub lsn: Lsn,
    /// The chain's hash there.
    pub hash: u64,
    /// The largest stamp so far, ms since 1970.
    pub log_time_ms: u64,
}

/// What the lead had applied when it made the record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Anchor {
    /// The log it read.
    pub incarnation: Incarnation,
    /// The last position it had applied.
    pub lsn: Lsn,
    /// The chain's hash there.
    pub hash: u64,
}

/// Why the log read cannot be the log that its leads read. Apply of the group stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The record's lead read another log.
    #[error("record {lsn} belongs to log {found}, this is log {expected}")]
    OtherLog {
        /// The record's position.
        lsn: Lsn,
        /// The incarnation of this log.
        expected: Incarnation,
        /// The incarnation in the anchor.
        found: Incarnation,
    },
    /// Positions do not increase.
    #[error("record {lsn} follows record {applied}")]
    Disorder {
        /// The record's position.
        lsn: Lsn,
        /// The position before it.
        applied: Lsn,
    },
    /// The lead had applied more than this log held before its record.
    #[error(
        "record {lsn} was made after {anchor}, but only {applied} came before it here: the log lost its end"
    )]
    Rewound {
        /// The record's position.
        lsn: Lsn,
        /// The position that the lead had applied.
        anchor: Lsn,
        /// The last position applied here.
        applied: Lsn,
    },
    /// The lead had applied a record that this log does not hold.
    #[error("record {lsn} was made after {anchor}, which is missing here: the log has a hole")]
    Hole {
        /// The record's position.
        lsn: Lsn,
        /// The position that the lead had applied.
        anchor: Lsn,
    },
    /// The lead had applied something else at the same position.
    #[error(
        "record {lsn} saw {found:016x} at {anchor}, here it was {expected:016x}: the log forked"
    )]
    Forked {
        /// The record's position.
        lsn: Lsn,
        /// The position compared.
        anchor: Lsn,
        /// The hash here.
        expected: u64,
        /// The hash that the lead had.
        found: u64,
    },
}

/// One replica's chain of one group.
#[derive(Clone, Debug)]
pub struct Chain {
    incarnation: Incarnation,
    position: Position,
    /// (position, hash) of the latest records, the current one last.
    ring: VecDeque<(Lsn, u64)>,
}

impl Chain {
    /// The chain of an empty log.
    #[must_use]
    pub fn new(incarnation: Incarnation) -> Self {
        let hash = xxh3_64(&incarnation.0.to_le_bytes());
        Self::resume(incarnation, Position { lsn: Lsn(0), hash, log_time_ms: 0 })
    }

    /// The chain as a replica had stamped it. Anchors before the stamp can no longer be checked.
    #[must_use]
    pub fn resume(incarnation: Incarnation, position: Position) -> Self {
        Self { incarnation, position, ring: VecDeque::from([(position.lsn, position.hash)]) }
    }

    /// Where it stands.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// What a record made now is anchored to.
    #[must_use]
    pub fn anchor(&self) -> Anchor {
        Anchor { incarnation: self.incarnation, lsn: self.position.lsn, hash: self.position.hash }
    }

    /// Takes the next record of the log, or says why this cannot be the log.
    ///
    /// # Errors
    /// A fault leaves the chain as it was; apply must stop there.
    pub fn advance(
        &mut self,
        lsn: Lsn,
        checksum: u64,
        stamp_ms: u64,
        anchor: &Anchor,
    ) -> Result<Position, ChainFault> {
        self.check(lsn, anchor)?;
        let mut bytes = [0u8; 24];
        bytes[..8].copy_from_slice(&self.position.hash.to_le_bytes());
        bytes[8..16].copy_from_slice(&lsn.0.to_le_bytes());
        bytes[16..].copy_from_slice(&checksum.to_le_bytes());
        self.position = Position {
            lsn,
            hash: xxh3_64(&bytes),
            log_time_ms: self.position.log_time_ms.max(stamp_ms),
        };
        if self.ring.len() == RING_LEN {
            self.ring.pop_front();
        }
        self.ring.push_back((lsn, self.position.hash));
        Ok(self.position)
    }

    /// What a lead checks of its own record when it learns where it came to stand: after all
    /// that the lead had applied when it made it. A log that lost its end gives positions away
    /// a second time, and whoever reads on from its stamp never meets the records there.
    ///
    /// # Errors
    /// [`ChainFault::Rewound`]; the group's apply must stop.
    pub fn check_appended(anchor: &Anchor, lsn: Lsn) -> Result<(), ChainFault> {
        if lsn > anchor.lsn {
            return Ok(());
        }
        let applied = Lsn(lsn.0.saturating_sub(1));
        Err(ChainFault::Rewound { lsn, anchor: anchor.lsn, applied })
    }

    fn check(&self, lsn: Lsn, anchor: &Anchor) -> Result<(), ChainFault> {
        let applied = self.position.lsn;
        if lsn <= applied {
            return Err(ChainFault::Disorder { lsn, applied });
        }
        if anchor.incarnation != self.incarnation {
            let (expected, found) = (self.incarnation, anchor.incarnation);
            return Err(ChainFault::OtherLog { lsn, expected, found });
        }
        if anchor.lsn > applied {
            return Err(ChainFault::Rewound { lsn, anchor: anchor.lsn, applied });
        }
        match self.ring.binary_search_by_key(&anchor.lsn, |(at, _)| *at) {
            Ok(at) if self.ring[at].1 == anchor.hash => Ok(()),
            Ok(at) => Err(ChainFault::Forked {
                lsn,
                anchor: anchor.lsn,
                expected: self.ring[at].1,
                found: anchor.hash,
            }),
            // Before the ring: too long ago to tell.
            Err(0) => Ok(()),
            Err(_) => Err(ChainFault::Hole { lsn, anchor: anchor.lsn }),
        }
    }
}
