//! Searches as other nodes ask for them, read once: the parts of a search that come to the same
//! node, and the fetch that follows them, have the same text, and what a text means depends on
//! nothing else. A search of many terms takes longer to read than to run on a part of an index.

use std::sync::Arc;

use plimsoll_index::Error;
use plimsoll_index::search::SearchRequest;
use plimsoll_memory::{ledger::NODE, local::enter};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::Value;

/// Bytes of all texts that are kept; what they mean takes several times as much.
const TEXT_BYTES_MAX: u64 = 1 << 20;
/// The longest text that is kept: others are read where they are asked, on their request's account.
const TEXT_BYTES_EACH_MAX: usize = 64 << 10;
/// What an entry takes beside its text, bytes, about.
const ENTRY_OVERHEAD_BYTES: u64 = 1_000;
const ENTRIES_EXPECTED: usize = 500;

/// What a node has read lately.
pub(crate) struct Requests {
    read: Cache<Arc<str>, Arc<SearchRequest>, ByText>,
}

#[derive(Clone)]
struct ByText;

impl Weighter<Arc<str>, Arc<SearchRequest>> for ByText {
    fn weight(&self, text: &Arc<str>, _: &Arc<SearchRequest>) -> u64 {
        ENTRY_OVERHEAD_BYTES + text.len() as u64
    }
}

impl Requests {
    pub(crate) fn new() -> Self {
        Self { read: Cache::with_weighter(ENTRIES_EXPECTED, TEXT_BYTES_MAX, ByText) }
    }

    /// What a text asks for.
    ///
    /// # Errors
    /// Elasticsearch's, where it is no search.
    pub(crate) fn read(&self, text: &str) -> Result<Arc<SearchRequest>, Error> {
        if text.len() > TEXT_BYTES_EACH_MAX {
            return parsed(text);
        }
        if let Some(known) = self.read.get(text) {
            return Ok(known);
        }
        // It outlives the request that asks first.
        let _node = enter(&NODE);
        let request = parsed(text)?;
        // What is made of it later must not be the one's that makes it.
        let _ = request.text();
        self.read.insert(text.into(), Arc::clone(&request));
        Ok(request)
    }
}

fn parsed(text: &str) -> Result<Arc<SearchRequest>, Error> {
    let body: Value = serde_json::from_str(text).map_err(Error::internal)?;
    let mut request = SearchRequest::parse(&body)?;
    // The node that the client asked has compared it with `index.max_result_window`.
    request.set_window_max(usize::MAX);
    Ok(Arc::new(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_text_is_read_once_and_a_wrong_one_is_refused_again_and_again() {
        let requests = Requests::new();
        let [first, second] = [r#"{"size":1}"#, r#"{"size":2}"#].map(|text| {
            let read = requests.read(text).unwrap();
            assert!(Arc::ptr_eq(&read, &requests.read(text).unwrap()));
            read
        });
        assert_eq!((first.size(), second.size()), (1, 2));
        // How many may be wanted is the asking node's to say, which knows the index' settings.
        assert_eq!(requests.read(r#"{"size":20000}"#).unwrap().window(), Ok(20_000));
        for text in ["{", r#"{"sice":1}"#, r#"{"sice":1}"#] {
            assert!(requests.read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let requests = Requests::new();
        let of = |count: usize| format!(r#"{{"query":{{"terms":{{"n":{:?}}}}}}}"#, vec![1; count]);
        let long = of(TEXT_BYTES_EACH_MAX / 3);
        assert!(!Arc::ptr_eq(&requests.read(&long).unwrap(), &requests.read(&long).unwrap()));
        for count in 1..3_000 {
            requests.read(&of(count)).unwrap();
        }
        assert!(requests.read.weight() <= TEXT_BYTES_MAX && requests.read.len() > 10);
    }
}
