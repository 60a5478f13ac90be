//! Clients of documents: they put, delete and read documents of one index, and refresh and search it. A search
//! after a refresh has to show what was there at some moment since the refresh was asked for, so that it is
//! judged as a read of every document (`linearizable.rs`); where no refresh was asked for, it may show less.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_base::Random;
use plimsoll_base::random::Stream;
use plimsoll_cluster::{
    Coordinator, Error, IndexMetadata, LeftOut, Preference, SearchOptions, WriteResult,
};
use plimsoll_index::search::SearchRequest;
use serde_json::{Value, json};

use crate::clients::{Begun, Client, Told};
use crate::documents::{self, PAUSE, at};
use crate::linearizable::{Action, Answer};

/// The index.
pub(crate) const INDEX: &str = "documents";
/// As many as a search shows. A run of hours has more: nothing is judged by its searches then.
const HITS_MAX: usize = 10_000;
/// One request in so many is a search: what a refresh costs is most of what a run does.
const SEARCHES: u64 = 8;

/// How the index is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Partitions.
    pub shards: u32,
    /// Copies of each beside the first. With none, one node that is away has the only one.
    pub replicas: u32,
    /// How often it is refreshed without being asked, ms.
    pub refresh_interval_ms: u64,
}

/// A client of documents.
#[derive(Clone)]
pub struct Searcher {
    /// Where it asks, for how long, and where it notes what it saw.
    pub client: Client,
    /// The index, which is made by whoever finds that there is none.
    pub shape: Shape,
}

impl Searcher {
    /// Asks until it is over.
    pub async fn run(self, random: Random) {
        let mut chance = random.of("searcher");
        let client = &self.client;
        while client.time.now() < client.until {
            client.rest(&mut chance, 1).await;
            let address = client.any(&mut chance).to_owned();
            let is_well = if chance.once_in(SEARCHES) {
                let preference =
                    if chance.once_in(2) { Preference::Local } else { Preference::Best };
                self.search(&address, preference).await.is_ok()
            } else {
                let begun = client.history.begin(&mut chance, client.time.now());
                let told = self.ask(&address, &begun).await;
                client.history.end(&begun, client.time.now(), &told);
                matches!(told, Told::Answer(_))
            };
            if !is_well {
                client.time.sleep(PAUSE).await;
            }
        }
    }

    /// Has each node search its own copies once more, until each has; those that have not yet say why.
    pub async fn search_all(self, late: Arc<parking_lot::Mutex<BTreeMap<String, String>>>) {
        for address in &self.client.addresses {
            late.lock().insert(address.clone(), "it was not asked yet".to_owned());
        }
        for address in &self.client.addresses {
            while let Err(why) = self.search(address, Preference::Local).await {
                late.lock().insert(address.clone(), why.to_string());
                self.client.time.sleep(PAUSE).await;
            }
            late.lock().remove(address);
        }
    }

    /// Does what was begun at a node.
    async fn ask(&self, address: &str, begun: &Begun) -> Told {
        let (id, action) = (begun.key.clone(), begun.action.clone());
        let shape = self.shape;
        let answered = at(&self.client, address, move |coordinator| async move {
            let index = index(&coordinator, shape).await?;
            let value = match action {
                Action::Get => {
                    return Ok(Answer::Value(documents::read(&coordinator, &index, &id).await?));
                }
                // Documents have none.
                Action::Increment => {
                    return Err(Error::illegal_argument("documents are not added up"));
                }
                Action::Delete => None,
                Action::Set(value) | Action::Add(value) => Some(value),
            };
            Ok(match documents::write(&coordinator, &index, &id, value).await? {
                WriteResult::Created => Answer::Made(true),
                WriteResult::Updated => Answer::Made(false),
                WriteResult::Deleted => Answer::Count(1),
                WriteResult::NotFound => Answer::Count(0),
            })
        });
        match answered.await {
            None => Told::Unknown,
            Some(Ok(answer)) => Told::Answer(answer),
            Some(Err(error)) if is_unknown(&error) => Told::Unknown,
            Some(Err(_)) => Told::Refused,
        }
    }

    /// Has a node refresh the index and search it, and notes what of each document was shown.
    async fn search(&self, address: &str, preference: Preference) -> Result<(), Error> {
        let client = &self.client;
        let begun = client.history.begin_reads(client.time.now());
        let shown = shown(client, address, Some(self.shape), preference).await;
        let now = client.time.now();
        for begun in &begun {
            let told = match &shown {
                Ok(shown) => Told::Answer(Answer::Value(shown.get(&begun.key).copied())),
                Err(_) => Told::Refused,
            };
            client.history.end(begun, now, &told);
        }
        shown.map(drop)
    }
}

/// Has a node refresh the index, which is made where there is none and its shape is given, and search it; says
/// what it shows.
pub(crate) async fn shown(
    client: &Client,
    address: &str,
    shape: Option<Shape>,
    preference: Preference,
) -> Result<BTreeMap<String, u64>, Error> {
    let found = at(client, address, move |coordinator| async move {
        let index = match shape {
            Some(shape) => index(&coordinator, shape).await?,
            None => coordinator.documents().index(INDEX).ok_or_else(no_index)?,
        };
        let left_out = coordinator.documents().refresh(&index, None).await?;
        let request = SearchRequest::parse(&json!({ "size": HITS_MAX, "version": true }))?;
        let options = SearchOptions { preference, ..SearchOptions::default() };
        let found = coordinator.documents().search(&[index], request, options).await?;
        if found.hits.len() >= HITS_MAX {
            return Err(Error::unavailable("too_many", "there are more documents than are shown"));
        }
        // What such a copy shows may be older.
        if left_out.is_empty() { Ok(found) } else { Err(not_all(&left_out)) }
    });
    let silent = || Err(Error::unavailable("silent", "it does not answer"));
    let found = found.await.unwrap_or_else(silent)?;
    let shown = hits(&found.hits);
    if let Err(error) = &shown {
        client.history.note(format!("a search at {address}: {}", error.reason));
    }
    shown
}

fn no_index() -> Error {
    Error::unavailable("no_index", "the index is not here yet")
}

/// The index, which is made where there is none.
async fn index(coordinator: &Coordinator, shape: Shape) -> Result<Arc<IndexMetadata>, Error> {
    let found = || coordinator.documents().index(INDEX);
    if let Some(index) = found() {
        return Ok(index);
    }
    let settings = [
        ("index.number_of_shards", json!(shape.shards)),
        ("index.number_of_replicas", json!(shape.replicas)),
        ("index.refresh_interval", json!(format!("{}ms", shape.refresh_interval_ms))),
    ];
    match documents::make(coordinator, INDEX, settings).await {
        // Another was faster.
        Err(error) if error.kind == "resource_already_exists_exception" => {
            found().ok_or_else(no_index)
        }
        made => made,
    }
}

fn not_all(left_out: &[LeftOut]) -> Error {
    Error::unavailable("left_out", format!("not every copy was refreshed: {left_out:?}"))
}

/// Whether a write that failed so may have run, or may run later.
fn is_unknown(error: &Error) -> bool {
    error.class == plimsoll_index::ErrorClass::TimedOut
}

/// The documents that were shown, or what is wrong with them.
fn hits(found: &[Box<serde_json::value::RawValue>]) -> Result<BTreeMap<String, u64>, Error> {
    let mut hits = BTreeMap::new();
    for hit in found {
        let hit: Value = serde_json::from_str(hit.get()).map_err(Error::internal)?;
        let value = hit["_source"]["value"].as_u64();
        let (Some(id), Some(value)) = (hit["_id"].as_str(), value) else {
            return Err(Error::internal(format!("a hit is {hit}")));
        };
        if hits.insert(id.to_owned(), value).is_some() {
            return Err(Error::internal(format!("{id} is shown twice")));
        }
    }
    Ok(hits)
}

/// The index of a seed.
pub(crate) fn shape(chance: &mut Stream) -> Shape {
    Shape {
        shards: 1 + u32::from(chance.once_in(3)),
        replicas: u32::try_from(chance.below(3)).unwrap_or(1),
        refresh_interval_ms: 1_000 + chance.below(9_000),
    }
}
