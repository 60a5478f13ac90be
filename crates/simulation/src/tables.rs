//! A client that makes and deletes indices and puts a document into those that there are. It is the only one that
//! knows their names, so that it knows what has to be there: a node that takes itself for current has to have
//! every table that was acknowledged, and none whose deletion was. Once nothing goes wrong any more each has to say
//! the same.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use plimsoll_base::Random;
use plimsoll_base::random::Stream;
use plimsoll_cluster::Error;
use serde_json::json;

use crate::clients::Client;
use crate::documents::{self, PAUSE, at};

/// How many names are used at a time. One of which nobody knows any more whether there is a table is followed by a
/// new one: what has no answer may yet run at any time.
const NAMES: u64 = 3;
/// The document.
const ID: &str = "one";

/// What is known of a name: whether there is a table, and the document that it has. None is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    is_there: Option<bool>,
    value: Option<Option<u64>>,
}

/// There is no table.
const NOTHING: Known = Known { is_there: Some(false), value: Some(None) };
/// There may be one.
const UNKNOWN: Known = Known { is_there: None, value: None };

/// The client.
#[derive(Clone)]
pub struct TableMaker {
    /// Where it asks, and for how long.
    pub client: Client,
    known: Arc<Mutex<BTreeMap<String, Known>>>,
}

/// What a node has of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Table(Option<u64>),
}

impl TableMaker {
    /// It has made nothing yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, known: Arc::default() }
    }

    /// Makes and deletes until it is over.
    pub async fn run(self, random: Random) {
        let (mut chance, mut value) = (random.of("tables"), 0);
        let client = &self.client;
        let mut generations: BTreeMap<u64, u64> = BTreeMap::new();
        while client.time.now() < client.until {
            client.rest(&mut chance, 4).await;
            let slot = chance.below(NAMES);
            let generation = generations.entry(slot).or_default();
            let name = format!("table-{slot}-{generation}");
            let before = self.known.lock().get(&name).copied().unwrap_or(NOTHING);
            let address = client.any(&mut chance).to_owned();
            let after = match before.is_there {
                Some(true) if chance.once_in(4) => self.delete(&address, &name, before).await,
                Some(true) => {
                    value += 1;
                    self.put(&address, &name, before, value).await
                }
                _ => self.make(&address, &name, before, &mut chance).await,
            };
            *generation += u64::from(after.is_there.is_none());
            self.known.lock().insert(name, after);
        }
    }

    async fn make(&self, address: &str, name: &str, before: Known, chance: &mut Stream) -> Known {
        let (made, shards) = (name.to_owned(), 1 + chance.below(2));
        let made = at(&self.client, address, move |coordinator| async move {
            let settings =
                [("index.number_of_shards", json!(shards)), ("index.number_of_replicas", json!(1))];
            documents::make(&coordinator, &made, settings).await.map(drop)
        });
        let made = made.await;
        tracing::debug!(name, address, ?made, "a table is made");
        match made {
            Some(Ok(())) => Known { is_there: Some(true), value: Some(None) },
            Some(Err(error)) if error.kind == "resource_already_exists_exception" => {
                if before.is_there == Some(false) {
                    self.client.history.note(format!("{name} is there still for {address}"));
                }
                before
            }
            Some(Err(error)) if !error.class.is_the_nodes() => before,
            _ => UNKNOWN,
        }
    }

    async fn delete(&self, address: &str, name: &str, before: Known) -> Known {
        let deleted = name.to_owned();
        let deleted = at(&self.client, address, move |coordinator| async move {
            coordinator.documents().delete_index(&deleted).await
        });
        let deleted = deleted.await;
        tracing::debug!(name, address, ?deleted, "a table is deleted");
        match deleted {
            Some(Ok(())) => NOTHING,
            Some(Err(error)) if error.kind == "index_not_found_exception" => {
                self.client.history.note(format!("{name} cannot be deleted at {address}"));
                before
            }
            Some(Err(error)) if !error.class.is_the_nodes() => before,
            _ => UNKNOWN,
        }
    }

    async fn put(&self, address: &str, name: &str, before: Known, value: u64) -> Known {
        let to = name.to_owned();
        let put = at(&self.client, address, move |coordinator| async move {
            let index = coordinator.documents().index(&to);
            let index = index.ok_or_else(|| Error::not_found("index_not_found_exception", to))?;
            documents::write(&coordinator, &index, ID, Some(value)).await.map(drop)
        });
        match put.await {
            Some(Ok(())) => Known { value: before.value.and(Some(Some(value))), ..before },
            Some(Err(error)) if error.kind == "index_not_found_exception" => {
                self.client.history.note(format!("{name} is not there for {address}"));
                before
            }
            Some(Err(error)) if !error.class.is_the_nodes() => {
                self.client.time.sleep(PAUSE).await;
                before
            }
            _ => Known { value: None, ..before },
        }
    }

    /// Asks each node for each name until it says what has to be there; those that have not yet say what they
    /// say.
    pub async fn find_all(self, late: Arc<Mutex<BTreeMap<String, String>>>) {
        let known = self.known.lock().clone();
        let mut all = Vec::new();
        for address in &self.client.addresses {
            all.extend(known.keys().map(|name| (address, name)));
        }
        for (address, name) in &all {
            late.lock().insert(format!("{address} {name}"), "it was not asked yet".to_owned());
        }
        let mut first: BTreeMap<&String, Found> = BTreeMap::new();
        for (address, name) in all {
            loop {
                let found = self.find(address, name).await;
                let fits = |found: &Found| fits(known[name], *found);
                if let Ok(found) = &found
                    && fits(found)
                    && first.get(name).is_none_or(|first| first == found)
                {
                    first.insert(name, *found);
                    break;
                }
                let why = format!("{found:?}, and {:?} has to be there", known[name]);
                late.lock().insert(format!("{address} {name}"), why);
                self.client.time.sleep(PAUSE).await;
            }
            late.lock().remove(&format!("{address} {name}"));
        }
    }

    async fn find(&self, address: &str, name: &str) -> Result<Found, Error> {
        let name = name.to_owned();
        let found = at(&self.client, address, move |coordinator| async move {
            let Some(index) = coordinator.documents().index(&name) else {
                return Ok(Found::Nothing);
            };
            documents::read(&coordinator, &index, ID).await.map(Found::Table)
        });
        let silent = || Err(Error::unavailable("silent", "it does not answer"));
        found.await.unwrap_or_else(silent)
    }
}

/// Whether a node has what is known to have to be there.
fn fits(known: Known, found: Found) -> bool {
    match (known.is_there, found) {
        (Some(is_there), Found::Nothing) => !is_there,
        (Some(false), Found::Table(_)) => false,
        (None, Found::Nothing) => true,
        (Some(true), Found::Table(value)) => known.value.is_none_or(|known| known == value),
        (None, Found::Table(_)) => true,
    }
}
