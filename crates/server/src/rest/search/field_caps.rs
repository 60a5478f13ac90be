//! `_field_caps`: which fields indices have, of which types, and what can be done with them.

use std::collections::BTreeMap;

use plimsoll_index::Error;
use plimsoll_index::mapping::{Field, FieldType};
use serde_json::{Map, Value, json};

use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::expressions::{self, Expand};
use plimsoll_stdx::wildcard_matches;

/// Fields that every document has: name, type, searchable, aggregatable.
const OWN: [(&str, &str, bool, bool); 8] = [
    ("_routing", "_routing", true, false),
    ("_index", "_index", true, true),
    ("_ignored", "_ignored", true, false),
    ("_seq_no", "_seq_no", true, true),
    ("_field_names", "_field_names", true, false),
    ("_source", "_source", false, false),
    ("_id", "_id", true, true),
    ("_version", "_version", false, false),
];

/// One type of one field: where it has that type, and where it can be searched and aggregated.
#[derive(Default)]
struct Capability {
    indices: Vec<String>,
    unsearchable: Vec<String>,
    unaggregatable: Vec<String>,
}

/// GET or POST `[/{index}]/_field_caps`.
///
/// # Errors
/// 400 where no fields are named, 404 where an index is not there.
pub async fn get(mut call: Call) -> Result<Answer, Error> {
    let body = call.json().await?;
    let mut patterns: Vec<String> =
        call.query.list("fields").into_iter().map(str::to_owned).collect();
    if let Some(body) = body.as_ref().and_then(Value::as_object) {
        if let Some(other) = body.keys().find(|key| *key != "fields") {
            return Err(Error::illegal_argument(format!("[{other}] in the body is not supported")));
        }
        match body.get("fields") {
            Some(Value::String(text)) => patterns.push(text.clone()),
            Some(Value::Array(items)) => {
                patterns.extend(items.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => (),
        }
    }
    if patterns.is_empty() {
        let reason = "Validation Failed: 1: no fields specified;";
        return Err(Error::invalid("action_request_validation_exception", reason));
    }
    let options = Expand::search().with_query(&call.query)?;
    let found =
        expressions::resolve(call.coordinator(), &call.grant, call.part("index"), &options)?;
    let includes_unmapped = call.query.flag_or("include_unmapped", false)?;
    let mut fields: BTreeMap<String, BTreeMap<&'static str, Capability>> = BTreeMap::new();
    let names: Vec<String> = found.iter().map(|target| target.index.name.clone()).collect();
    for target in &found {
        let name = &target.index.name;
        for (path, kind, searchable, aggregatable) in OWN {
            if patterns.iter().any(|pattern| wildcard_matches(pattern, path)) {
                note(&mut fields, path, kind, name, searchable, aggregatable);
            }
        }
        for pattern in &patterns {
            for path in target.index.mapping.paths(pattern) {
                if let Some(field) = target.index.mapping.field(path) {
                    let (kind, searchable, aggregatable) = capability(field);
                    note(&mut fields, path, kind, name, searchable, aggregatable);
                }
            }
        }
    }
    let shown: Map<String, Value> = fields
        .into_iter()
        .map(|(path, kinds)| (path, shown(kinds, &names, includes_unmapped)))
        .collect();
    Ok(Answer::json(&json!({ "indices": names, "fields": shown })))
}

fn note(
    fields: &mut BTreeMap<String, BTreeMap<&'static str, Capability>>,
    path: &str,
    kind: &'static str,
    index: &str,
    searchable: bool,
    aggregatable: bool,
) {
    let kinds = fields.entry(path.to_owned()).or_default();
    let capability = kinds.entry(kind).or_default();
    if capability.indices.iter().any(|known| known == index) {
        return;
    }
    capability.indices.push(index.to_owned());
    if !searchable {
        capability.unsearchable.push(index.to_owned());
    }
    if !aggregatable {
        capability.unaggregatable.push(index.to_owned());
    }
}

fn capability(field: &Field) -> (&'static str, bool, bool) {
    let kind = field.field_type();
    let aggregatable = field.doc_values() && !kind.is_text();
    // Texts without norms are of the family of text.
    let name = if kind == FieldType::MatchOnlyText { "text" } else { kind.name() };
    (name, field.is_indexed() || aggregatable, aggregatable)
}

fn shown(
    kinds: BTreeMap<&'static str, Capability>,
    names: &[String],
    includes_unmapped: bool,
) -> Value {
    let is_one = kinds.len() == 1;
    let mapped: Vec<&String> = kinds.values().flat_map(|kind| &kind.indices).collect();
    let unmapped: Vec<String> =
        names.iter().filter(|name| !mapped.contains(name)).cloned().collect();
    let shows_unmapped = includes_unmapped && !unmapped.is_empty();
    let mut all = Map::new();
    for (name, kind) in kinds {
        let mut entry = json!({
            "type": name,
            "searchable": kind.unsearchable.is_empty(),
            "aggregatable": kind.unaggregatable.is_empty(),
        });
        if !is_one || shows_unmapped {
            entry["indices"] = json!(kind.indices);
        }
        // Where only some can, those that cannot are named.
        for (key, those) in [
            ("non_searchable_indices", &kind.unsearchable),
            ("non_aggregatable_indices", &kind.unaggregatable),
        ] {
            if !those.is_empty() && those.len() < kind.indices.len() {
                entry[key] = json!(those);
            }
        }
        all.insert(name.to_owned(), entry);
    }
    if shows_unmapped {
        let entry = json!({
            "type": "unmapped",
            "searchable": false,
            "aggregatable": false,
            "indices": unmapped,
        });
        all.insert("unmapped".to_owned(), entry);
    }
    Value::Object(all)
}
