//! Some items of a bulk request, carried out together. Items of different documents may happen
//! in any order, so they go to the coordinator as one; an update waits for what comes before it
//! to the same document, and what comes after waits for the update.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use futures_util::future::join_all;
use plimsoll_cluster::{Condition, IndexMetadata, WriteKind, WriteRequest};
use plimsoll_index::Error;

use super::answers::Answers;
use super::parser::{Item, Operation};
use crate::rest::documents::source_filter::SourceFilter;
use crate::rest::documents::target::{self, WriteTarget, located};
use crate::rest::documents::update::{self, Change, Updated};
use crate::rest::documents::write::{Conditions, validation};
use crate::rest::documents::written::{self, Outcome};
use crate::rest::http_status::HttpStatus;
use crate::rest::shared::{Rest, as_known};
use crate::rest::types::Types;
use crate::security::principal::Grant;
use crate::security::privileges::IndexPrivileges;

/// What a request says for all its items.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// The index of items that name none.
    pub index: Option<String>,
    /// The routing of items that have none.
    pub routing: Option<String>,
    /// Whether items must name an alias.
    pub requires_alias: bool,
    /// Whether a refresh follows.
    pub was_refreshed: bool,
    /// What updates answer of their documents.
    pub source: Option<SourceFilter>,
}

/// An item whose place is known.
struct Placed {
    place: Arc<WriteTarget>,
    operation: Operation,
    id: String,
    routing: Option<String>,
    work: Work,
}

enum Work {
    Write(Option<WriteRequest>),
    Update(Box<Change>, Condition, u32),
}

type Outcomes = Vec<Option<Result<Updated, Error>>>;
/// The index and id of an item that found no place.
type Named = Option<(String, Option<String>)>;

/// Targets that were found before, with how they were asked for: few, so they are looked through.
struct WriteTargets<'a> {
    grant: &'a Grant,
    found: Vec<(String, bool, Operation, Arc<WriteTarget>)>,
}

impl<'a> WriteTargets<'a> {
    fn new(grant: &'a Grant) -> Self {
        Self { grant, found: Vec::new() }
    }

    async fn find(
        &mut self,
        rest: &Rest,
        name: &str,
        requires_alias: bool,
        operation: Operation,
    ) -> Result<Arc<WriteTarget>, Error> {
        let is_it = |known: &&(String, bool, Operation, Arc<WriteTarget>)| {
            known.0 == name && known.1 == requires_alias && known.2 == operation
        };
        if let Some((.., place)) = self.found.iter().find(is_it) {
            return Ok(Arc::clone(place));
        }
        let (wanted, action, may_create) = match operation {
            Operation::Delete => {
                (IndexPrivileges::DELETE, "indices:data/write/bulk[delete]", false)
            }
            Operation::Index | Operation::Create | Operation::Update => {
                (IndexPrivileges::INDEX, "indices:data/write/bulk[index]", true)
            }
        };
        let grant = &self.grant.to(wanted, action);
        // What failed is asked again: an item after it may create the index.
        let place =
            Arc::new(target::for_write(rest, grant, name, requires_alias, may_create).await?);
        self.found.push((name.to_owned(), requires_alias, operation, Arc::clone(&place)));
        Ok(place)
    }
}

/// Carries items out and adds their answers, in the order of the items.
pub async fn carry_out(
    rest: &Rest,
    grant: &Grant,
    defaults: &Defaults,
    items: Vec<Item>,
    answers: &mut Answers,
) {
    let mut places = WriteTargets::new(grant);
    let mut outcomes: Outcomes = Vec::with_capacity(items.len());
    let mut names: Vec<(Operation, Named)> = Vec::with_capacity(items.len());
    let mut placed = Vec::with_capacity(items.len());
    for mut item in items {
        let operation = item.operation.unwrap_or(Operation::Index);
        let index = item.index.take();
        let name = index.as_deref().or(defaults.index.as_deref()).unwrap_or_default();
        match resolve(rest, defaults, &mut item, operation, name, &mut places).await {
            Ok(item) => {
                names.push((operation, None));
                placed.push(Some(item));
                outcomes.push(None);
            }
            Err(error) => {
                names.push((operation, Some((name.to_owned(), item.id))));
                placed.push(None);
                outcomes.push(Some(Err(as_known(rest, error))));
            }
        }
    }
    for wave in waves(&placed) {
        run(rest, &mut placed, &wave, &mut outcomes).await;
    }
    for ((placed, outcome), (operation, named)) in placed.iter().zip(outcomes).zip(names) {
        let outcome = outcome.unwrap_or_else(|| Err(Error::internal("the item has no outcome")));
        answers.has_errors |= outcome.is_err();
        let (index, id) = match (placed, &named) {
            (Some(placed), _) => (placed.place.index.name.as_str(), Some(placed.id.as_str())),
            (None, Some((name, id))) => (name.as_str(), id.as_deref()),
            (None, None) => ("", None),
        };
        let out = &mut answers.items;
        if answers.count > 0 {
            out.push(b',');
        }
        answers.count += 1;
        let _ = write!(out, "{{\"{}\":{{", operation.name());
        match (placed, outcome) {
            (Some(placed), Ok(updated)) => {
                success(out, rest.types, placed, &updated, defaults);
                if let Outcome::Written(written) = updated.outcome {
                    answers.touched.add(&placed.place.index, written.partition);
                }
            }
            (_, outcome) => failure(out, rest.types, index, id, outcome.err()),
        }
        answers.items.extend_from_slice(b"}}");
    }
}

fn success(
    out: &mut Vec<u8>,
    types: Types,
    placed: &Placed,
    updated: &Updated,
    defaults: &Defaults,
) {
    let outcome = &updated.outcome;
    let Placed { place, id, .. } = placed;
    written::fields(out, types, &place.index, id, outcome, defaults.was_refreshed);
    if let Work::Update(change, ..) = &placed.work
        && let Some(filter) = change.source.as_ref().or(defaults.source.as_ref())
    {
        let mark = out.len();
        if update::get_field(out, updated, filter).is_err() {
            out.truncate(mark);
        }
    }
    let _ = write!(out, ",\"status\":{}", outcome.status());
}

fn failure(out: &mut Vec<u8>, types: Types, index: &str, id: Option<&str>, error: Option<Error>) {
    let error = error.unwrap_or_else(|| Error::internal("the item has no outcome"));
    written::address(out, types, index, id);
    let _ = write!(out, ",\"status\":{},\"error\":{}", error.status(), error.cause_json());
}

/// Finds an item's place and makes its work of it.
async fn resolve(
    rest: &Rest,
    defaults: &Defaults,
    item: &mut Item,
    operation: Operation,
    name: &str,
    places: &mut WriteTargets<'_>,
) -> Result<Placed, Error> {
    if name.is_empty() {
        return Err(validation(&["index is missing"]));
    }
    let requires_alias = item.require_alias.unwrap_or(defaults.requires_alias);
    if let Some(id) = &item.id {
        target::check_id(id)?;
    }
    let place = places.find(rest, name, requires_alias, operation).await?;
    let routing = item.routing.take().or_else(|| defaults.routing.clone());
    let action = match operation {
        Operation::Index | Operation::Update => WriteKind::Index,
        Operation::Create => WriteKind::Create,
        Operation::Delete => WriteKind::Delete,
    };
    let conditions = Conditions {
        if_seq_no: item.if_seq_no,
        if_primary_term: item.if_primary_term,
        version: item.version,
        version_type: item.version_type,
    };
    let condition = conditions.condition(action)?;
    let (id, action) = match item.id.clone() {
        Some(id) => (id, action),
        None if matches!(operation, Operation::Update | Operation::Delete) => {
            return Err(validation(&["id is missing"]));
        }
        None if condition == Condition::None => (rest.ids.next(), WriteKind::Create),
        None => (rest.ids.next(), action),
    };
    let routing = place.routing(&id, routing)?;
    let work = if operation == Operation::Update {
        let change = Box::new(Change::parse(&item.source)?);
        if change.reads() || defaults.source.is_some() {
            place.check_read()?;
        }
        Work::Update(change, condition, item.retry_on_conflict)
    } else {
        let source = std::mem::take(&mut item.source);
        let (id, routing) = (id.clone(), routing.clone());
        Work::Write(Some(WriteRequest { id, routing, action, source, condition }))
    };
    Ok(Placed { place, operation, id, routing, work })
}

/// Positions of items, in groups: one group is done before the next begins.
fn waves(placed: &[Option<Placed>]) -> Vec<Vec<usize>> {
    let has_updates = placed.iter().flatten().any(|placed| placed.operation == Operation::Update);
    if !has_updates {
        let all = placed.iter().enumerate().filter(|(_, placed)| placed.is_some());
        return vec![all.map(|(at, _)| at).collect()];
    }
    // The wave of a document's last item, and whether that was an update.
    let mut last: HashMap<(&str, &str), (usize, bool)> = HashMap::new();
    let mut waves: Vec<Vec<usize>> = Vec::new();
    for (at, placed) in placed.iter().enumerate() {
        let Some(placed) = placed else { continue };
        let is_update = placed.operation == Operation::Update;
        let document = (placed.place.index.name.as_str(), placed.id.as_str());
        let wave = match last.get(&document) {
            None => 0,
            Some((wave, was_update)) => wave + usize::from(is_update || *was_update),
        };
        last.insert(document, (wave, is_update));
        if waves.len() <= wave {
            waves.resize_with(wave + 1, Vec::new);
        }
        waves[wave].push(at);
    }
    waves
}

/// Writes to one index, and the positions of their items.
type Batch = (Arc<IndexMetadata>, Vec<usize>, Vec<WriteRequest>);

/// Carries one group out: its updates one beside the other, its writes index by index.
async fn run(rest: &Rest, placed: &mut [Option<Placed>], wave: &[usize], outcomes: &mut Outcomes) {
    let mut batches: HashMap<String, Batch> = HashMap::new();
    for at in wave {
        let Some(placed) = &mut placed[*at] else { continue };
        let Work::Write(write) = &mut placed.work else { continue };
        let Some(write) = write.take() else { continue };
        let index = &placed.place.index;
        // Few indices, many items: the name is copied for the first item alone.
        if !batches.contains_key(&index.name) {
            let room = (Arc::clone(index), Vec::new(), Vec::new());
            batches.insert(index.name.clone(), room);
        }
        if let Some((_, positions, writes)) = batches.get_mut(&index.name) {
            positions.push(*at);
            writes.push(write);
        }
    }
    let coordinator = &rest.node.coordinator;
    let writes = join_all(batches.into_values().map(|(index, positions, writes)| async move {
        (positions, coordinator.documents().write_documents(&index, writes).await)
    }));
    let placed: &[Option<Placed>] = placed;
    let updates = join_all(wave.iter().filter_map(|at| {
        let placed = placed[*at].as_ref()?;
        let Work::Update(change, condition, retries) = &placed.work else { return None };
        Some(async move {
            let routing = placed.routing.as_deref();
            let run =
                update::run(rest, &placed.place, &placed.id, routing, change, *condition, *retries);
            (*at, run.await)
        })
    }));
    let (writes, updates) = futures_util::future::join(writes, updates).await;
    for (positions, results) in writes {
        for (at, result) in positions.into_iter().zip(results) {
            let Some(placed) = &placed[at] else { continue };
            outcomes[at] = Some(match result {
                Ok(written) => Ok(Updated { outcome: Outcome::Written(written), document: None }),
                Err(error) => {
                    let index = &placed.place.index;
                    Err(located(error, index, &placed.id, placed.routing.as_deref()))
                }
            });
        }
    }
    for (at, result) in updates {
        outcomes[at] = Some(result.map(|(updated, _)| updated));
    }
}
