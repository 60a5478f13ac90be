//! What one partition found. How the findings of several become one is `merge.rs`'s.
//!
//! All of it is serialisable, also in formats that do not describe themselves, and doubles that may
//! be infinite travel as their bits, so that JSON carries them too.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::bits;
use super::sketch::{Distinct, Hdr, TDigest};

/// What tells one bucket from the others.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Key {
    Null,
    I64(i64),
    U64(u64),
    F64(f64),
    Str(String),
    /// IPv6, or IPv4 mapped into it.
    Ip([u8; 16]),
    Tuple(Vec<Key>),
    /// From (included) and to (not included).
    Span(Option<f64>, Option<f64>),
    IpSpan(Option<[u8; 16]>, Option<[u8; 16]>),
}

impl Key {
    fn number(&self) -> Option<f64> {
        match self {
            Self::I64(value) => Some(*value as f64),
            Self::U64(value) => Some(*value as f64),
            Self::F64(value) => Some(*value),
            _ => None,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::I64(_) | Self::U64(_) | Self::F64(_) => 1,
            Self::Str(_) => 2,
            Self::Ip(_) => 3,
            Self::Tuple(_) => 4,
            Self::Span(..) | Self::IpSpan(..) => 5,
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::I64(a), Self::I64(b)) => a.cmp(b),
            (Self::U64(a), Self::U64(b)) => a.cmp(b),
            (Self::Str(a), Self::Str(b)) => a.cmp(b),
            (Self::Ip(a), Self::Ip(b)) => a.cmp(b),
            (Self::Tuple(a), Self::Tuple(b)) => a.cmp(b),
            (a, b) => match (a.number(), b.number()) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => a.rank().cmp(&b.rank()),
            },
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key {}

/// How a field's values are printed; known where the field is mapped.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) enum Print {
    /// The partition does not know the field.
    #[default]
    Unmapped,
    Long {
        format: Option<String>,
    },
    UnsignedLong {
        format: Option<String>,
    },
    Double {
        format: Option<String>,
    },
    Str,
    Bool,
    Ip,
    /// Milliseconds since 1970.
    Date {
        format: String,
        zone: Option<String>,
    },
    Geohash,
    Tile,
}

/// Count, sum, sum of squares, least and greatest of some values.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Stats {
    pub(crate) count: u64,
    #[serde(with = "bits")]
    pub(crate) sum: f64,
    #[serde(with = "bits")]
    pub(crate) squares: f64,
    #[serde(with = "bits")]
    pub(crate) min: f64,
    #[serde(with = "bits")]
    pub(crate) max: f64,
}

impl Default for Stats {
    fn default() -> Self {
        Self { count: 0, sum: 0.0, squares: 0.0, min: f64::INFINITY, max: f64::NEG_INFINITY }
    }
}

impl Stats {
    pub(crate) fn add(&mut self, value: f64) {
        self.merge(&Self { count: 1, sum: value, squares: value * value, min: value, max: value });
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }
}

/// One hit of `top_hits`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TopHit {
    pub(crate) score: f32,
    pub(crate) sort: Vec<Key>,
    /// The fetched hit: JSON without `_score` and `sort`.
    pub(crate) hit: String,
}

/// One bucket of many.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Bucket {
    pub(crate) key: Key,
    pub(crate) count: u64,
    /// By how much partitions that sent the bucket may be wrong about those they did not send.
    pub(crate) error: u64,
    /// Documents of the whole partition that have the term (of significant terms).
    pub(crate) background: u64,
    pub(crate) subs: Vec<Partial>,
}

/// The buckets of an aggregation that has any number of them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Buckets {
    /// One for each part of the key.
    pub(crate) prints: Vec<Print>,
    pub(crate) buckets: Vec<Bucket>,
    /// Documents in buckets that were not sent.
    pub(crate) other: u64,
    /// How many documents a term that was not sent may have at most.
    pub(crate) error: u64,
    /// Whether that is unknown, because buckets were not sent by their count.
    pub(crate) error_unknown: bool,
    /// Documents looked at, and documents of the whole partition (of significant terms).
    pub(crate) sizes: (u64, u64),
    /// Bounds up to which empty buckets are shown, and which cut buckets off: (min, max) of each.
    pub(crate) extended: Option<(Option<i64>, Option<i64>)>,
    pub(crate) hard: Option<(Option<i64>, Option<i64>)>,
    /// The unit that an automatic histogram was collected in: a position in its list.
    pub(crate) level: u8,
    /// How many other findings were merged into these. It is counted where they are merged, and
    /// never sent: a partition's own findings are the first.
    #[serde(skip)]
    pub(crate) merged: u32,
}

impl Buckets {
    /// How many documents a term that is not shown may have at most; `None` where nobody knows.
    /// A partition alone has counted every document of the terms that it sends, and sorted them
    /// before it left any out.
    pub(crate) fn error_bound(&self) -> Option<u64> {
        match (self.error_unknown, self.merged) {
            (true, _) => None,
            (false, 0) => Some(0),
            (false, _) => Some(self.error),
        }
    }

    /// By how much the count of one of the buckets may be too low, as [`Self::error_bound`].
    pub(crate) fn error_bound_of(&self, bucket: &Bucket) -> Option<u64> {
        self.error_bound().map(|error| error.saturating_sub(bucket.error))
    }
}

/// What one aggregation found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) enum Partial {
    /// Nothing: no partition was asked.
    #[default]
    Empty,
    Stats(Stats, Print),
    Distinct(Distinct),
    Digest(TDigest, Print),
    Hdr(Hdr, Print),
    Weighted {
        sum: f64,
        weight: f64,
    },
    /// Top, left, bottom, right.
    GeoBounds(Option<[f64; 4]>),
    GeoCentroid {
        latitude: f64,
        longitude: f64,
        count: u64,
    },
    TopHits {
        total: u64,
        max_score: Option<f32>,
        hits: Vec<TopHit>,
    },
    Single {
        count: u64,
        subs: Vec<Partial>,
    },
    Buckets(Box<Buckets>),
}
