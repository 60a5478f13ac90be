//! How an index expression is understood: the rules by which a list of names, wildcards and exclusions becomes a
//! set of indices. Which indices there are is handed in.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_cluster::IndexMetadata;
use plimsoll_index::Error;
use serde_json::Value;

use crate::rest::needs;
use crate::rest::query::Query;
use crate::security::principal::Grant;
use plimsoll_stdx::wildcard_matches;

/// How an expression is understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expand {
    /// A name that is not there is passed over.
    pub ignore_unavailable: bool,
    /// Wildcards may match nothing.
    pub allow_no_indices: bool,
    /// Wildcards match open indices.
    pub open: bool,
    /// Wildcards match closed indices.
    pub closed: bool,
    /// Wildcards match hidden indices.
    pub hidden: bool,
    /// A closed index that is named is an error.
    pub forbids_closed: bool,
    /// Aliases may stand for their indices.
    pub aliases: bool,
    /// What `resource.type` of an error says.
    pub resource_type: &'static str,
}

impl Expand {
    /// For reading: open indices, and a closed one that is named is an error.
    #[must_use]
    pub fn search() -> Self {
        Self {
            ignore_unavailable: false,
            allow_no_indices: true,
            open: true,
            closed: false,
            hidden: false,
            forbids_closed: true,
            aliases: true,
            resource_type: "index_or_alias",
        }
    }

    /// For looking at indices: wildcards match open ones, and a closed one may be named.
    #[must_use]
    pub fn open() -> Self {
        Self { forbids_closed: false, ..Self::search() }
    }

    /// For all indices, open or closed.
    #[must_use]
    pub fn any() -> Self {
        Self { closed: true, ..Self::open() }
    }

    /// The same as the request's parameters change it.
    ///
    /// # Errors
    /// 400 for a value that the parameters do not have.
    pub fn with_query(mut self, query: &Query) -> Result<Self, Error> {
        self.ignore_unavailable = query.flag_or("ignore_unavailable", self.ignore_unavailable)?;
        self.allow_no_indices = query.flag_or("allow_no_indices", self.allow_no_indices)?;
        if query.get("expand_wildcards").is_some() {
            self.expand_wildcards(&query.list("expand_wildcards"))?;
        }
        Ok(self)
    }

    /// Which indices wildcards match: `open`, `closed`, `hidden`, `none`, `all`.
    ///
    /// # Errors
    /// 400 for another word.
    pub fn expand_wildcards(&mut self, words: &[&str]) -> Result<(), Error> {
        (self.open, self.closed, self.hidden) = (false, false, false);
        for word in words {
            match *word {
                "open" => self.open = true,
                "closed" => self.closed = true,
                "hidden" => self.hidden = true,
                "none" => (self.open, self.closed, self.hidden) = (false, false, false),
                "all" => (self.open, self.closed, self.hidden) = (true, true, true),
                other => {
                    return Err(Error::illegal_argument(format!(
                        "No valid expand wildcard value [{other}]"
                    )));
                }
            }
        }
        Ok(())
    }
}

/// An index that an expression means.
#[derive(Clone, Debug)]
pub struct Target {
    /// The index.
    pub index: Arc<IndexMetadata>,
    /// The aliases through which alone it was reached; none where its own name or a wildcard
    /// over it stood there.
    pub aliases: Vec<String>,
}

impl Target {
    /// The filters of its aliases, one of which a document must pass; none where one of the
    /// aliases has no filter.
    #[must_use]
    pub fn filters(&self) -> Vec<&Value> {
        let of = |alias: &String| self.index.aliases.get(alias)?.get("filter");
        let filters: Option<Vec<&Value>> = self.aliases.iter().map(of).collect();
        filters.unwrap_or_default()
    }

    /// The routings that its aliases give to searches; none where one of them gives none.
    #[must_use]
    pub fn search_routing(&self) -> Vec<&str> {
        let of = |alias: &String| self.index.aliases.get(alias)?.get("search_routing")?.as_str();
        let routings: Option<Vec<&str>> = self.aliases.iter().map(of).collect();
        routings.unwrap_or_default().into_iter().flat_map(|text| text.split(',')).collect()
    }
}

/// 404: no index has this name.
#[must_use]
pub fn not_found(name: &str, resource_type: &str) -> Error {
    Error::not_found("index_not_found_exception", format!("no such index [{name}]"))
        .with("index", name)
        .with("resource.id", name)
        .with("resource.type", resource_type)
        .with("index_uuid", "_na_")
}

/// 400: the index is closed.
#[must_use]
pub fn closed(index: &IndexMetadata) -> Error {
    Error::invalid("index_closed_exception", "closed")
        .with("index", index.name.as_str())
        .with("index_uuid", index.uuid.as_str())
}

/// The indices that the parts of an expression mean, by name. Indices and aliases are granted by the names that
/// they are reached by: an alias is not granted with its indices, nor they with it.
///
/// # Errors
/// 403 for a name that is not granted, 404 for one that is not there, 400 for one that is closed where that is not
/// allowed.
pub fn expand(
    all: &[Arc<IndexMetadata>],
    grant: &Grant,
    parts: &[String],
    options: &Expand,
) -> Result<Vec<Target>, Error> {
    let mut found: BTreeMap<&str, Target> = BTreeMap::new();
    let mut had_wildcard = false;
    for part in parts {
        let excluded = part.strip_prefix('-').filter(|_| had_wildcard);
        if let Some(pattern) = excluded {
            found.retain(|name, target| {
                let through = |alias: &String| wildcard_matches(pattern, alias);
                let by_alias = !target.aliases.is_empty() && target.aliases.iter().all(through);
                !wildcard_matches(pattern, name) && !by_alias
            });
            continue;
        }
        if part == "_all" || part.contains('*') {
            had_wildcard = true;
            let pattern = if part == "_all" { "*" } else { part };
            let before = found.len();
            wildcard(all, grant, pattern, options, &mut found);
            if found.len() == before && !options.allow_no_indices {
                return Err(not_found(part, options.resource_type));
            }
            continue;
        }
        if !grant.holds_for(part) {
            if options.ignore_unavailable {
                continue;
            }
            needs::check(grant, part)?;
        }
        named(all, part, options, &mut found)?;
    }
    if found.is_empty() && !options.allow_no_indices {
        return Err(not_found(&parts.join(","), options.resource_type));
    }
    Ok(found.into_values().collect())
}

fn wildcard<'a>(
    all: &'a [Arc<IndexMetadata>],
    grant: &Grant,
    pattern: &str,
    options: &Expand,
    found: &mut BTreeMap<&'a str, Target>,
) {
    for index in all {
        let is_wanted = if index.is_open { options.open } else { options.closed };
        // Names that begin with a dot show when the pattern does.
        let shows = options.hidden
            || !is_hidden(index)
            || (pattern.starts_with('.') && index.name.starts_with('.'));
        if !is_wanted {
            continue;
        }
        if shows && wildcard_matches(pattern, &index.name) && grant.holds_for(&index.name) {
            add(index, None, found);
            continue;
        }
        // `*` means indices by their own names, where those are granted.
        let by_alias = pattern != "*" || !grant.holds_for(&index.name);
        let aliases = index.aliases.iter().filter(|_| options.aliases && by_alias);
        for (alias, body) in aliases {
            let alias_shows = options.hidden || !flag(body.get("is_hidden"));
            if alias_shows && wildcard_matches(pattern, alias) && grant.holds_for(alias) {
                add(index, Some(alias), found);
            }
        }
    }
}

fn named<'a>(
    all: &'a [Arc<IndexMetadata>],
    name: &str,
    options: &Expand,
    found: &mut BTreeMap<&'a str, Target>,
) -> Result<(), Error> {
    let own = all.iter().find(|index| index.name == name);
    let members: Vec<(&Arc<IndexMetadata>, Option<&str>)> = match own {
        Some(index) => vec![(index, None)],
        None => all
            .iter()
            .filter_map(|index| Some((index, Some(index.aliases.get_key_value(name)?.0.as_str()))))
            .collect(),
    };
    if members.is_empty() {
        if options.ignore_unavailable {
            return Ok(());
        }
        // A name that no index can have says so, as it would at its creation.
        if name.starts_with('_') {
            crate::rest::names::check_index(name)?;
        }
        return Err(not_found(name, options.resource_type));
    }
    if own.is_none() && !options.aliases {
        if options.ignore_unavailable {
            return Ok(());
        }
        return Err(Error::illegal_argument(format!(
            "The provided expression [{name}] matches an alias, specify the corresponding \
             concrete indices instead."
        )));
    }
    for (index, alias) in members {
        if !index.is_open && options.forbids_closed {
            if options.ignore_unavailable {
                continue;
            }
            return Err(closed(index));
        }
        add(index, alias, found);
    }
    Ok(())
}

/// An index that is reached by its own name is reached whole, whatever aliases lead there too.
fn add<'a>(
    index: &'a Arc<IndexMetadata>,
    alias: Option<&str>,
    found: &mut BTreeMap<&'a str, Target>,
) {
    let target = found.entry(&index.name);
    match (target, alias) {
        (std::collections::btree_map::Entry::Vacant(slot), alias) => {
            let aliases = alias.map(str::to_owned).into_iter().collect();
            slot.insert(Target { index: Arc::clone(index), aliases });
        }
        (std::collections::btree_map::Entry::Occupied(mut slot), None) => {
            slot.get_mut().aliases.clear();
        }
        (std::collections::btree_map::Entry::Occupied(mut slot), Some(alias)) => {
            let aliases = &mut slot.get_mut().aliases;
            if !aliases.is_empty() && !aliases.iter().any(|known| known == alias) {
                aliases.push(alias.to_owned());
            }
        }
    }
}

/// Whether wildcards pass an index over.
pub(super) fn is_hidden(index: &IndexMetadata) -> bool {
    flag(index.settings.get("index.hidden"))
}

fn flag(value: Option<&Value>) -> bool {
    matches!(value, Some(Value::Bool(true))) || value.and_then(Value::as_str) == Some("true")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use crate::security::principal::Principal;
    use crate::security::privileges::IndexPrivileges;
    use plimsoll_index::mapping::Mapping;
    use serde_json::json;

    fn index(name: &str, is_open: bool, aliases: &[&str], hidden: bool) -> Arc<IndexMetadata> {
        let aliases = aliases.iter().map(|alias| ((*alias).to_owned(), serde_json::Map::new()));
        let mut settings = serde_json::Map::new();
        settings.insert("index.hidden".to_owned(), json!(hidden.to_string()));
        Arc::new(IndexMetadata {
            name: name.to_owned(),
            uuid: "u".to_owned(),
            created_ms: 0,
            settings,
            mapping: Mapping::empty(),
            mapping_version: 1,
            aliases: aliases.collect(),
            partitions: 1,
            replicas: 0,
            is_open,
        })
    }

    fn all() -> Vec<Arc<IndexMetadata>> {
        vec![
            index("a-1", true, &["al", "both"], false),
            index("a-2", true, &["both"], false),
            index("b", false, &[], false),
            index(".h", true, &[], true),
        ]
    }

    /// For whoever may read what these patterns name.
    fn granted(patterns: &[&str]) -> Grant {
        let role = json!({ "indices": [{ "names": patterns, "privileges": ["read"] }] });
        let principal = Principal::with_role(&role);
        Grant::new(Arc::new(principal), IndexPrivileges::READ, "read")
    }

    fn check(expression: &str, options: Expand, expected: &str) {
        check_granted(expression, &granted(&["*"]), options, expected);
    }

    fn check_granted(expression: &str, grant: &Grant, options: Expand, expected: &str) {
        let parts: Vec<String> = expression.split(',').map(str::to_owned).collect();
        let shown = match expand(&all(), grant, &parts, &options) {
            Ok(targets) => targets
                .iter()
                .map(|target| match target.aliases.as_slice() {
                    [] => target.index.name.clone(),
                    aliases => format!("{}({})", target.index.name, aliases.join("+")),
                })
                .collect::<Vec<_>>()
                .join(" "),
            Err(error) => format!("{} {}", error.status(), error.reason),
        };
        assert_eq!(shown, expected, "{expression}");
    }

    #[test]
    fn expressions() {
        let search = Expand::search();
        check("a-1", search, "a-1");
        check("_all", search, "a-1 a-2");
        check("*", Expand::any(), "a-1 a-2 b");
        check("*", Expand { hidden: true, ..Expand::any() }, ".h a-1 a-2 b");
        check(".*", search, ".h");
        check("a-*,-a-2", search, "a-1");
        check("-a-2", search, "404 no such index [-a-2]");
        check("both,-both", search, "404 no such index [-both]");
        check("al", search, "a-1(al)");
        check("both", search, "a-1(both) a-2(both)");
        check("bo*", search, "a-1(both) a-2(both)");
        check("both,a-1", search, "a-1 a-2(both)");
        check("b", search, "400 closed");
        check("b", Expand::open(), "b");
        check("nope", search, "404 no such index [nope]");
        check("nope,a-1", Expand { ignore_unavailable: true, ..search }, "a-1");
        check("x*", search, "");
        let strict = Expand { allow_no_indices: false, ..search };
        check("x*", strict, "404 no such index [x*]");
        check(
            "al",
            Expand { aliases: false, ..search },
            "400 The provided expression [al] matches an alias, specify the corresponding concrete indices instead.",
        );
        check("_x", search, "400 Invalid index name [_x], must not start with '_'.");
    }
}
