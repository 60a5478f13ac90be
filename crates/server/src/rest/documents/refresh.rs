//! What `?refresh` asks for after a write, and how it is done for the partitions that were
//! written to.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_cluster::{Coordinator, IndexMetadata};
use plimsoll_index::Error;

use crate::rest::query::Query;

/// When a write becomes visible to searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refresh {
    /// With the next refresh.
    Later,
    /// Before the answer: a refresh is made.
    Now,
    /// Before the answer, which waits for the next refresh.
    Wait,
}

impl Refresh {
    /// Reads the parameter.
    ///
    /// # Errors
    /// 400 for a word that it does not have.
    pub fn of(query: &Query) -> Result<Self, Error> {
        match query.get("refresh") {
            None | Some("false") => Ok(Self::Later),
            Some("" | "true") => Ok(Self::Now),
            Some("wait_for") => Ok(Self::Wait),
            Some(other) => {
                Err(Error::illegal_argument(format!("Unknown value for refresh: [{other}].")))
            }
        }
    }
}

/// The partitions that a request wrote to, index by index.
#[derive(Debug, Default)]
pub struct Touched {
    indices: Vec<(Arc<IndexMetadata>, BTreeSet<u32>)>,
}

impl Touched {
    /// Notes a partition.
    pub fn add(&mut self, index: &Arc<IndexMetadata>, partition: u32) {
        let is_it = |(known, _): &&mut (Arc<IndexMetadata>, BTreeSet<u32>)| {
            Arc::ptr_eq(known, index) || known.uuid == index.uuid
        };
        match self.indices.iter_mut().find(is_it) {
            Some((_, partitions)) => drop(partitions.insert(partition)),
            None => self.indices.push((Arc::clone(index), BTreeSet::from([partition]))),
        }
    }

    /// Makes what was written visible, as far as was asked.
    ///
    /// # Errors
    /// Where a refresh fails.
    pub async fn make_visible(
        self,
        coordinator: &Coordinator,
        refresh: Refresh,
    ) -> Result<(), Error> {
        for (index, partitions) in self.indices {
            for partition in partitions {
                match refresh {
                    Refresh::Later => (),
                    Refresh::Now => {
                        coordinator.documents().refresh(&index, Some(partition)).await.map(drop)?
                    }
                    Refresh::Wait => {
                        coordinator.documents().wait_for_refresh(&index, partition).await?
                    }
                }
            }
        }
        Ok(())
    }
}
