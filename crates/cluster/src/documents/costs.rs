//! What searches cost: how long a request of the same words ran on the same partition before. The
//! same searches come again and again, with other values or the same; a dear one is known by its
//! words before it has run. What is not known is taken for an average one by admission.

use plimsoll_index::search::SearchRequest;
use plimsoll_log::PartitionId;
use plimsoll_memory::{ledger::NODE, local::enter};
use quick_cache::sync::Cache;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The most requests that are remembered; those not asked for lately go.
const REQUESTS_MAX: usize = 4_096;
/// The weight of a new run: the last four or so matter.
const RUN_WEIGHT: u64 = 4;

/// The run times of a node's searches.
pub(crate) struct Costs {
    run_ns: Cache<u64, u64>,
}

/// A request on a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known(u64);

impl Costs {
    pub(crate) fn new() -> Self {
        Self { run_ns: Cache::new(REQUESTS_MAX) }
    }

    /// What a request on a partition is remembered by.
    pub(crate) fn known(partition: PartitionId, request: &SearchRequest) -> Known {
        let seed = partition.table ^ u64::from(partition.ordinal);
        Known(xxh3_64_with_seed(request.text().as_bytes(), seed))
    }

    /// How long it is likely to run, ns; none where it has not run lately.
    pub(crate) fn expected_ns(&self, known: Known) -> Option<u64> {
        self.run_ns.get(&known.0)
    }

    /// It ran so long.
    pub(crate) fn ran(&self, known: Known, run_ns: u64) {
        let before = self.run_ns.get(&known.0).unwrap_or(run_ns);
        let average = (before / RUN_WEIGHT * (RUN_WEIGHT - 1)).saturating_add(run_ns / RUN_WEIGHT);
        let _node = enter(&NODE);
        self.run_ns.insert(known.0, average);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_is_known_by_its_words_and_partition() {
        let request = |size: u64| SearchRequest::parse(&json!({ "size": size })).unwrap();
        let id = |ordinal| PartitionId { table: 1, ordinal };
        let (costs, known) = (Costs::new(), Costs::known(id(0), &request(1)));
        assert_eq!(costs.expected_ns(known), None);
        costs.ran(known, 4_000);
        assert_eq!(costs.expected_ns(Costs::known(id(0), &request(1))), Some(4_000));
        assert_eq!(costs.expected_ns(Costs::known(id(0), &request(2))), None);
        assert_eq!(costs.expected_ns(Costs::known(id(1), &request(1))), None);
        (0..50).for_each(|_| costs.ran(known, 8_000));
        assert!(costs.expected_ns(known).is_some_and(|ns| (7_900..=8_000).contains(&ns)));
    }
}
