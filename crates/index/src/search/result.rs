//! What a partition answers to a search.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::aggregation::Intermediate;

/// The hits of one partition.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PartitionResult {
    /// Matching documents, as far as they were counted.
    pub total: u64,
    /// Whether `total` is all of them; otherwise there are at least as many.
    pub total_is_exact: bool,
    /// The best score; none where scores were not computed or nothing matched.
    pub max_score: Option<f32>,
    /// The best hits in their order, at most `from + size`.
    pub hits: Vec<Hit>,
    /// The aggregations over all matching documents, before they are reduced.
    pub aggregations: Option<Intermediate>,
    /// Whether `terminate_after` ended the search.
    pub terminated_early: bool,
    /// Whether the search was cancelled or ran out of time, and tells what it had found.
    pub timed_out: bool,
}

/// One document found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// Segment and document of the partition's view.
    pub address: (u32, u32),
    /// Its score; none where hits are sorted by something else.
    pub score: Option<f32>,
    /// What it was sorted by, one value for each clause of `sort`.
    pub sort: Vec<SortValue>,
    /// The value of the field that hits are collapsed by.
    pub group: Option<SortValue>,
}

/// A value that hits are sorted by.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum SortValue {
    /// No value; it comes first or last as the clause says.
    Null,
    /// A whole number, or a date in milliseconds or nanoseconds.
    Long(i64),
    /// A whole number of 64 bits without sign.
    Unsigned(u64),
    /// A number; it may be infinite where a document has none.
    Double(f64),
    /// A score.
    Score(f32),
    /// A string.
    Text(String),
}

impl SortValue {
    /// The value in an answer.
    #[must_use]
    pub fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Long(number) => Value::from(*number),
            Self::Unsigned(number) => Value::from(*number),
            Self::Double(number) if number.is_infinite() => {
                Value::from(if *number > 0.0 { "Infinity" } else { "-Infinity" })
            }
            Self::Double(number) => Value::from(*number),
            Self::Score(score) => score_json(*score),
            Self::Text(text) => Value::from(text.as_str()),
        }
    }

    /// The order of two values of one clause, ascending; nothing is compared with null here.
    #[must_use]
    pub fn compare(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Long(a), Self::Long(b)) => a.cmp(b),
            (Self::Unsigned(a), Self::Unsigned(b)) => a.cmp(b),
            (Self::Double(a), Self::Double(b)) => a.total_cmp(b),
            (Self::Score(a), Self::Score(b)) => a.total_cmp(b),
            (Self::Text(a), Self::Text(b)) => a.as_bytes().cmp(b.as_bytes()),
            (Self::Null, Self::Null) => Ordering::Equal,
            // Partitions whose mappings differ may give numbers of different types.
            _ => self.as_f64().total_cmp(&other.as_f64()),
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "types are only mixed where mappings differ")]
    fn as_f64(&self) -> f64 {
        match self {
            Self::Long(number) => *number as f64,
            Self::Unsigned(number) => *number as f64,
            Self::Double(number) => *number,
            Self::Score(score) => f64::from(*score),
            Self::Null | Self::Text(_) => f64::NAN,
        }
    }
}

/// A score as JSON: the shortest digits that give the same 32 bits.
#[must_use]
pub(crate) fn score_json(score: f32) -> Value {
    // By way of its text: as a double, 0.1f32 would be 0.10000000149011612.
    let shortest: f64 = score.to_string().parse().unwrap_or(f64::from(score));
    Value::from(shortest)
}
