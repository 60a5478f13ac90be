//! A role: which privileges it gives, on the cluster and on indices whose names fit its patterns. Read from and
//! shown in Elasticsearch's JSON; what would narrow a role by documents or fields is refused, since nothing here
//! would hold to it.

use serde_json::{Map, Value, json};

use super::faults::Fault;
use super::patterns::matches;
use super::privileges::{ClusterPrivileges, IndexPrivileges};

/// The role that may do everything. Nobody changes it.
pub const SUPERUSER: &str = "superuser";
/// The most entries of `indices`.
const ENTRIES_MAX: usize = 100;
/// The most patterns of an entry, and of a role: each is looked at for each index.
const PATTERNS_MAX: usize = 200;
/// Bytes of a pattern, at the most: as many as a table's name has.
const PATTERN_BYTES_MAX: usize = 255;
/// Characters of a role's name, at the most. Elasticsearch's.
const NAME_CHARS_MAX: usize = 507;
/// Bytes of what is noted of a role, at the most, in JSON.
const METADATA_BYTES_MAX: usize = 16 << 10;

/// What a role gives on some indices.
#[derive(Clone, Debug, PartialEq, Eq)]
struct OnIndices {
    patterns: Vec<String>,
    privileges: IndexPrivileges,
    /// As they were given.
    names: Vec<String>,
}

/// What one role gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Role {
    cluster: ClusterPrivileges,
    cluster_names: Vec<String>,
    indices: Vec<OnIndices>,
    metadata: Map<String, Value>,
}

impl Role {
    /// The role that may do everything.
    #[must_use]
    pub fn superuser() -> Self {
        let all = || vec!["all".to_owned()];
        Self {
            cluster: ClusterPrivileges::ALL,
            cluster_names: all(),
            indices: vec![OnIndices {
                patterns: vec!["*".to_owned()],
                privileges: IndexPrivileges::ALL,
                names: all(),
            }],
            metadata: Map::from_iter([("_reserved".to_owned(), json!(true))]),
        }
    }

    /// Reads one as it is sent and kept.
    ///
    /// # Errors
    /// Says what is wrong, or not supported.
    pub fn parse(body: &Value) -> Result<Self, Fault> {
        let Value::Object(fields) = body else { return Err("a role is an object".into()) };
        let mut role = Self::default();
        for (field, value) in fields {
            match field.as_str() {
                "cluster" => {
                    role.cluster_names = texts(value, "cluster")?;
                    for name in &role.cluster_names {
                        role.cluster = role.cluster.and(ClusterPrivileges::named(name)?);
                    }
                }
                "indices" | "index" => {
                    let entries = value.as_array().ok_or("[indices] is a list of objects")?;
                    if entries.len() > ENTRIES_MAX {
                        return Err(Fault(format!("a role has at most {ENTRIES_MAX} [indices]")));
                    }
                    role.indices = entries.iter().map(on_indices).collect::<Result<_, _>>()?;
                    let patterns: usize = role.indices.iter().map(|it| it.patterns.len()).sum();
                    if patterns > PATTERNS_MAX {
                        return Err(Fault(format!("a role has at most {PATTERNS_MAX} names")));
                    }
                }
                "metadata" => role.metadata = metadata(value)?,
                "run_as" | "applications" | "remote_indices" | "remote_cluster"
                    if is_empty(value) => {}
                "global" if is_empty(value) => {}
                // What Elasticsearch shows of a role, so that what was read can be sent back.
                "transient_metadata" => {}
                "description" if value.is_string() => {}
                other => return Err(Fault(format!("[{other}] of a role is not supported"))),
            }
        }
        Ok(role)
    }

    /// What it gives, as a key notes it of its user.
    #[must_use]
    pub fn descriptor(&self) -> Value {
        json!({ "cluster": self.cluster_names, "indices": self.indices_json() })
    }

    fn indices_json(&self) -> Vec<Value> {
        let shown = |it: &OnIndices| json!({ "names": it.patterns, "privileges": it.names, "allow_restricted_indices": false });
        self.indices.iter().map(shown).collect()
    }

    /// As it is shown and kept.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "cluster": self.cluster_names,
            "indices": self.indices_json(),
            "applications": [],
            "run_as": [],
            "metadata": self.metadata,
            "transient_metadata": { "enabled": true },
        })
    }
}

fn on_indices(entry: &Value) -> Result<OnIndices, Fault> {
    let Value::Object(fields) = entry else { return Err("[indices] is a list of objects".into()) };
    let (mut patterns, mut names) = (Vec::new(), Vec::new());
    for (field, value) in fields {
        match field.as_str() {
            "names" => patterns = texts(value, "names")?,
            "privileges" => names = texts(value, "privileges")?,
            "allow_restricted_indices" if value == &json!(false) => {}
            "query" if value.is_null() => {}
            "field_security" if is_empty(value) => {}
            // All fields, as Kibana sends it.
            "field_security" if value == &json!({ "grant": ["*"] }) => {}
            "query" => {
                return Err(
                    "document-level security ([query]) is not supported: nothing here would \
                            hold to it"
                        .into(),
                );
            }
            "field_security" => {
                return Err(
                    "field-level security ([field_security]) is not supported: nothing here \
                            would hold to it"
                        .into(),
                );
            }
            other => return Err(Fault(format!("[{other}] of [indices] is not supported"))),
        }
    }
    if patterns.is_empty() || patterns.len() > PATTERNS_MAX {
        return Err(Fault(format!("an entry of [indices] has 1 to {PATTERNS_MAX} [names]")));
    }
    if names.is_empty() {
        return Err("an entry of [indices] has [privileges]".into());
    }
    for pattern in &patterns {
        if pattern.is_empty() || pattern.len() > PATTERN_BYTES_MAX {
            return Err(Fault(format!("a name of [indices] has 1 to {PATTERN_BYTES_MAX} bytes")));
        }
        if pattern.starts_with('/') {
            return Err("regular expressions are not supported as names, use [*] and [?]".into());
        }
    }
    let mut privileges = IndexPrivileges::NONE;
    for name in &names {
        privileges = privileges.and(IndexPrivileges::named(name)?);
    }
    Ok(OnIndices { patterns, privileges, names })
}

/// Whether a field says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// A list of strings, or one that stands for itself, as Elasticsearch reads them.
///
/// # Errors
/// Where it is neither.
pub fn texts(value: &Value, field: &str) -> Result<Vec<String>, Fault> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let list = match value {
        Value::Array(items) => items.iter().map(text).collect(),
        other => text(other).map(|text| vec![text]),
    };
    list.ok_or_else(|| Fault(format!("[{field}] is a list of strings")))
}

/// What is noted of a user or a role.
pub(super) fn metadata(value: &Value) -> Result<Map<String, Value>, Fault> {
    let Value::Object(fields) = value else {
        return if value.is_null() {
            Ok(Map::new())
        } else {
            Err("[metadata] is an object".into())
        };
    };
    if fields.keys().any(|key| key.starts_with('_')) {
        return Err("metadata keys may not start with [_]".into());
    }
    let bytes = serde_json::to_vec(fields).map_or(usize::MAX, |json| json.len());
    if bytes > METADATA_BYTES_MAX {
        return Err(Fault(format!("metadata is larger than {METADATA_BYTES_MAX} bytes")));
    }
    Ok(fields.clone())
}

/// Checks the name of a role or a user.
///
/// # Errors
/// Says which names there may be.
pub fn check_name(kind: &str, name: &str) -> Result<(), Fault> {
    let length = name.chars().count();
    let is_printable = name.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if length == 0 || length > NAME_CHARS_MAX || !is_printable || name != name.trim() {
        return Err(Fault(format!(
            "{kind} names must be at least 1 and no more than {NAME_CHARS_MAX} characters. They can \
             contain alphanumeric characters (a-z, A-Z, 0-9), spaces, punctuation, and printable \
             symbols in the Basic Latin (ASCII) block. Leading or trailing whitespace is not allowed."
        )));
    }
    if name.starts_with('_') || name.contains([':', ',']) {
        return Err(Fault(format!("{kind} names may not start with [_] nor contain [:] or [,]")));
    }
    Ok(())
}

/// What somebody may do: all that the roles together give, and no more than a limit where there is one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rights {
    cluster: ClusterPrivileges,
    indices: Vec<(String, IndexPrivileges)>,
    /// What a key's user had when the key was made.
    limit: Option<Box<Self>>,
}

impl Rights {
    /// Those that roles give together.
    #[must_use]
    pub fn of<'a>(roles: impl Iterator<Item = &'a Role>) -> Self {
        let mut rights = Self::default();
        for role in roles {
            rights.cluster = rights.cluster.and(role.cluster);
            for on in &role.indices {
                let each = on.patterns.iter().map(|pattern| (pattern.clone(), on.privileges));
                rights.indices.extend(each);
            }
        }
        rights
    }

    /// The same, where others allow it too.
    #[must_use]
    pub fn limited_by(mut self, limit: Self) -> Self {
        self.limit = Some(Box::new(limit));
        self
    }

    /// What may be done to the cluster.
    #[must_use]
    pub fn cluster(&self) -> ClusterPrivileges {
        match &self.limit {
            Some(limit) => self.cluster.within(limit.cluster()),
            None => self.cluster,
        }
    }

    /// What may be done to the index or the alias of this name.
    #[must_use]
    pub fn on_index(&self, name: &str) -> IndexPrivileges {
        let mut granted = IndexPrivileges::NONE;
        for (pattern, privileges) in &self.indices {
            if !granted.has(*privileges) && matches(pattern, name) {
                granted = granted.and(*privileges);
            }
        }
        match &self.limit {
            Some(limit) if !granted.is_none() => granted.within(limit.on_index(name)),
            _ => granted,
        }
    }

    /// The same for all indices whose names fit a pattern: what one entry gives on all of them.
    #[must_use]
    pub fn on_pattern(&self, names: &str) -> IndexPrivileges {
        let covers = |pattern: &str| {
            // One `?` is not what `*` may stand for.
            pattern == names || (!pattern.contains('?') && matches(pattern, names))
        };
        let granted = self.indices.iter().filter(|(pattern, _)| covers(pattern));
        let granted = granted.map(|(_, it)| *it).fold(IndexPrivileges::NONE, IndexPrivileges::and);
        self.limit.as_ref().map_or(granted, |limit| granted.within(limit.on_pattern(names)))
    }

    /// Whether there may be an index that all of this may be done to.
    #[must_use]
    pub fn somewhere(&self, wanted: IndexPrivileges) -> bool {
        self.anywhere().has(wanted)
    }

    /// Whether there may be an index that any of this may be done to.
    #[must_use]
    pub fn somewhere_any(&self, wanted: IndexPrivileges) -> bool {
        self.anywhere().has_any(wanted)
    }

    /// What may be done to one index or another.
    fn anywhere(&self) -> IndexPrivileges {
        let each = self.indices.iter().map(|(_, privileges)| *privileges);
        let granted = each.fold(IndexPrivileges::NONE, IndexPrivileges::and);
        self.limit.as_ref().map_or(granted, |limit| granted.within(limit.anywhere()))
    }

    /// Whether everything may be done, to every index.
    #[must_use]
    pub fn are_all(&self) -> bool {
        let on_all = |(pattern, privileges): &(String, IndexPrivileges)| {
            pattern == "*" && privileges.has(IndexPrivileges::ALL)
        };
        self.cluster.has(ClusterPrivileges::ALL)
            && self.indices.iter().any(on_all)
            && self.limit.as_ref().is_none_or(|limit| limit.are_all())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(body: Value) -> Role {
        Role::parse(&body).unwrap()
    }

    #[test]
    fn roles_are_read_and_shown_as_elasticsearch_has_them() {
        let body = json!({
            "cluster": ["monitor"],
            "indices": [{ "names": ["logs-*", "a"], "privileges": ["read", "write"] }],
            "metadata": { "team": "x" },
        });
        let read = role(body);
        assert_eq!(Role::parse(&read.to_json()).unwrap(), read);
        assert_eq!(read.to_json()["indices"][0]["names"], json!(["logs-*", "a"]));
        assert_eq!(role(json!({})), Role::default());
        for (body, why) in [
            (json!([]), "an object"),
            (json!({ "cluster": ["fly"] }), "unknown cluster privilege [fly]"),
            (json!({ "indices": {} }), "list of objects"),
            (json!({ "indices": [{ "names": ["a"] }] }), "[privileges]"),
            (json!({ "indices": [{ "privileges": ["read"] }] }), "[names]"),
            (json!({ "indices": [{ "names": ["/a.*/"], "privileges": ["read"] }] }), "regular"),
            (json!({ "indices": [{ "names": "a", "privileges": ["reed"] }] }), "[reed]"),
            (
                json!({ "indices": [{ "names": "a", "privileges": "read", "query": "{}" }] }),
                "document-level",
            ),
            (
                json!({ "indices": [
                    { "names": "a", "privileges": "read", "field_security": { "grant": ["x"] } },
                ] }),
                "field-level",
            ),
            (json!({ "run_as": ["x"] }), "[run_as]"),
            (json!({ "bogus": 1 }), "[bogus]"),
            (json!({ "metadata": { "_x": 1 } }), "[_]"),
        ] {
            let fault = Role::parse(&body).unwrap_err();
            assert!(fault.0.contains(why), "{why}: {fault}");
        }
    }

    #[test]
    fn rights_are_what_the_roles_give_together() {
        let one = role(json!({
            "cluster": ["monitor"], "indices": [{ "names": ["logs-*"], "privileges": ["read"] }],
        }));
        let two = role(json!({ "indices": [{ "names": ["logs-1"], "privileges": ["write"] }] }));
        let rights = Rights::of([&one, &two].into_iter());
        assert!(rights.on_index("logs-1").has(IndexPrivileges::READ.and(IndexPrivileges::WRITE)));
        assert_eq!(rights.on_index("logs-2"), IndexPrivileges::READ);
        assert!(rights.on_index("other").is_none());
        assert!(rights.cluster().has(ClusterPrivileges::MONITOR) && !rights.are_all());
        assert!(rights.somewhere(IndexPrivileges::INDEX));
        assert!(!rights.somewhere(IndexPrivileges::MANAGE));
        let all = Rights::of([Role::superuser()].iter());
        assert!(all.are_all());
        // A key has what it was given and what its user had.
        let key = all.limited_by(rights);
        assert!(!key.are_all() && key.on_index("other").is_none());
        assert_eq!(key.on_index("logs-2"), IndexPrivileges::READ);
        assert_eq!(key.cluster(), ClusterPrivileges::MONITOR);
        assert!(!key.somewhere(IndexPrivileges::MANAGE));
        assert!(key.on_pattern("logs-x*").has(IndexPrivileges::READ));
        assert!(key.on_pattern("*").is_none() && key.on_pattern("log*").is_none());
    }

    #[test]
    fn names_are_checked() {
        for name in ["a", "logs reader", "x@y.z"] {
            assert!(check_name("Role", name).is_ok(), "{name}");
        }
        for name in ["", " a", "a ", "_a", "ü", "a\n", "a:b", "a,b", &"a".repeat(508)] {
            assert!(check_name("Role", name).is_err(), "{name:?}");
        }
    }
}
