//! Where the fields of a mapping live in the inverted index: which Tantivy field and which
//! columns hold the values of a path.
//!
//! A path has a *slot*: Tantivy fields named `s<n>` that are never given to another path. The
//! table of slots is kept with every commit, so that an index that is opened again finds its
//! fields. New slots are appended; segments from before read as empty for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tantivy::Term;
use tantivy::schema::{
    BytesOptions, Field as Slot, IndexRecordOption, IpAddrOptions, NumericOptions, Schema,
    SchemaBuilder, TextFieldIndexing, TextOptions,
};

use crate::analysis::Analyzer;
use crate::mapping::{Field, FieldType, IGNORED, Mapping};

/// What `_exists` records for a document whose key is not its id.
pub(super) const ROUTED: u64 = u64::MAX;

/// Where each path of a mapping is in the index. Immutable; a grown mapping has a new one.
#[derive(Debug)]
pub struct Layout {
    schema: Schema,
    internal: Internal,
    targets: BTreeMap<String, Target>,
    /// By the ordinal of the mapping's field.
    plan: Vec<Option<Arc<Target>>>,
    slots: Vec<SlotEntry>,
}

/// Where one path's values are.
#[derive(Clone, Debug)]
pub struct Target {
    /// The inverted index of the values, and for a geo point the column of latitudes.
    pub field: Slot,
    /// The name of the fast column; none for text, geo points and `doc_values: false`.
    pub column: Option<String>,
    /// Whether `field` holds postings. Where it does not, a term is looked up in the column.
    pub indexed: bool,
    /// What the values are.
    pub kind: Kind,
    /// What `exists_field()` records for a document with a value here, where there is no column; a
    /// geo point has its two columns instead.
    pub exists_code: u64,
}

/// What the values of a path are.
#[derive(Clone, Debug)]
pub enum Kind {
    /// Analyzed text.
    Text {
        /// Makes terms of documents.
        analyzer: Analyzer,
        /// Makes terms of queries.
        search_analyzer: Analyzer,
        /// Whether term frequencies and lengths count in scores (not so for `match_only_text`).
        scored: bool,
        /// Whether lengths are kept (`norms`).
        norms: bool,
        /// Whether positions are kept, which phrases need.
        positions: bool,
    },
    /// Whole strings. A string column, and terms of the same strings.
    Keyword {
        /// What each value went through; a query's value has to go through it too.
        normalizer: Option<Analyzer>,
    },
    /// An i64 column: long, integer, short, byte.
    Long,
    /// A u64 column.
    UnsignedLong,
    /// An f64 column: double, float, half_float, scaled_float (rounded to its factor).
    Double,
    /// An i64 column of milliseconds since 1970 (`date`) or nanoseconds (`date_nanos`).
    Date {
        /// Whether the column counts nanoseconds.
        nanos: bool,
    },
    /// A u64 column of 0 and 1.
    Boolean,
    /// A column of IPv6 addresses; IPv4 is mapped (`::ffff:a.b.c.d`).
    Ip,
    /// Two f64 columns in degrees; the points of a document are paired by position.
    GeoPoint {
        /// The column of latitudes, -90 to 90.
        latitude: String,
        /// The column of longitudes, -180 to 180.
        longitude: String,
    },
    /// Nothing but whether there is a value.
    Binary,
}

/// The fields that every index has, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
struct Internal {
    id: Slot,
    key: Slot,
    exists: Slot,
    ignored: Slot,
}

/// A slot as it is kept with each commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SlotEntry {
    pub path: String,
    /// What decides how it is indexed; another signature is another index.
    pub signature: String,
}

/// A field of the mapping is indexed otherwise than the slot of its path.
#[derive(Debug)]
pub(super) struct Mismatch;

impl Layout {
    /// The layout of a mapping, whose fields find their slots among `known` or get new ones.
    pub(super) fn new(mapping: &Mapping, known: &[SlotEntry]) -> Result<Self, Mismatch> {
        let mut slots = known.to_vec();
        let mut by_path: BTreeMap<String, usize> =
            slots.iter().enumerate().map(|(at, slot)| (slot.path.clone(), at)).collect();
        let mut wanted = Vec::new();
        for field in mapping.fields().filter(|field| field.has_slot()) {
            let signature = field.signature();
            let at = *by_path.entry(field.path().to_owned()).or_insert_with(|| {
                slots.push(SlotEntry {
                    path: field.path().to_owned(),
                    signature: signature.clone(),
                });
                slots.len() - 1
            });
            if slots[at].signature != signature {
                return Err(Mismatch);
            }
            wanted.push((Arc::clone(field), at));
        }
        let mut builder = Schema::builder();
        let internal = Internal::declare(&mut builder);
        let declared: Vec<Declared> = slots
            .iter()
            .enumerate()
            .map(|(at, slot)| Declared::declare(&mut builder, at, &slot.signature))
            .collect();
        let mut targets = BTreeMap::from([(IGNORED.to_owned(), internal.ignored_target())]);
        let mut plan = vec![None; mapping.fields().count()];
        for (field, at) in wanted {
            let target = declared[at].target(&field, at as u64);
            plan[field.ordinal()] = Some(Arc::new(target.clone()));
            targets.insert(field.path().to_owned(), target);
        }
        Ok(Self { schema: builder.build(), internal, targets, plan, slots })
    }

    /// Where a path's values are; none where the mapping has no such field or does not index it.
    /// Aliases are not followed here: see [`super::View::target`].
    #[must_use]
    pub fn target(&self, path: &str) -> Option<&Target> {
        self.targets.get(path)
    }

    /// All paths, in their order.
    pub fn targets(&self) -> impl Iterator<Item = (&str, &Target)> {
        self.targets.iter().map(|(path, target)| (path.as_str(), target))
    }

    /// The paths that start with `prefix`, such as the fields of one object.
    pub fn targets_under<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a Target)> {
        let from = self.targets.range(prefix.to_owned()..);
        from.take_while(move |(path, _)| path.starts_with(prefix))
            .map(|(path, target)| (path.as_str(), target))
    }

    /// The index's Tantivy schema.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// `_id`: indexed whole, and stored.
    #[must_use]
    pub fn id_field(&self) -> Slot {
        self.internal.id
    }

    /// The hash key as bytes, indexed and stored, of documents whose key is not their id.
    #[must_use]
    pub fn key_field(&self) -> Slot {
        self.internal.key
    }

    /// `Target::exists_code` of each field that has a value in the document and no column.
    #[must_use]
    pub fn exists_field(&self) -> Slot {
        self.internal.exists
    }

    /// `_ignored`: the paths whose value was left out (`ignore_malformed`, `ignore_above`).
    #[must_use]
    pub fn ignored_field(&self) -> Slot {
        self.internal.ignored
    }

    /// The term of documents that have a value at `target`, where it has no column.
    #[must_use]
    pub fn exists_term(&self, target: &Target) -> Term {
        Term::from_field_u64(self.internal.exists, target.exists_code)
    }

    /// The field of longitudes of a geo point.
    pub(super) fn longitude_field(&self, target: &Target) -> Slot {
        // The two fields of a slot are declared one after the other.
        Slot::from_field_id(target.field.field_id() + 1)
    }

    /// The term of documents whose key is not their id.
    pub(super) fn routed_term(&self) -> Term {
        Term::from_field_u64(self.internal.exists, ROUTED)
    }

    /// The names of text fields whose path the mapping does not have.
    pub(super) fn unused_text_slots(&self) -> Vec<String> {
        let unused = self.slots.iter().enumerate().filter(|(_, slot)| {
            slot.signature.starts_with("text") && !self.targets.contains_key(&slot.path)
        });
        unused.map(|(at, _)| format!("s{at}")).collect()
    }

    pub(super) fn slots(&self) -> &[SlotEntry] {
        &self.slots
    }

    /// The target of the mapping's field with this ordinal.
    pub(super) fn planned(&self, ordinal: usize) -> Option<&Target> {
        self.plan.get(ordinal).and_then(Option::as_deref)
    }
}

impl Internal {
    fn declare(builder: &mut SchemaBuilder) -> Self {
        let raw = || {
            TextFieldIndexing::default()
                .set_tokenizer("raw")
                .set_index_option(IndexRecordOption::Basic)
                .set_fieldnorms(false)
        };
        let id = TextOptions::default().set_indexing_options(raw()).set_stored();
        let key = BytesOptions::default().set_indexed().set_stored();
        let ignored = TextOptions::default().set_indexing_options(raw()).set_fast("raw");
        Self {
            id: builder.add_text_field("_id", id),
            key: builder.add_bytes_field("_key", key),
            exists: builder.add_u64_field("_exists", NumericOptions::default().set_indexed()),
            ignored: builder.add_text_field(IGNORED, ignored),
        }
    }

    /// `_ignored` is searched as a keyword of the mapping is.
    fn ignored_target(self) -> Target {
        Target {
            field: self.ignored,
            column: Some(IGNORED.to_owned()),
            indexed: true,
            kind: Kind::Keyword { normalizer: None },
            // Only fields without a column are noted in `_exists`.
            exists_code: 0,
        }
    }
}

/// The Tantivy fields of one slot.
struct Declared {
    field: Slot,
    names: [String; 2],
}

impl Declared {
    /// Declares a slot by its signature alone, so that slots of paths that the mapping does not
    /// have (any more) keep their numbers.
    fn declare(builder: &mut SchemaBuilder, at: usize, signature: &str) -> Self {
        let parts: Vec<&str> = signature.split(':').collect();
        let has = |flag: &str| parts.contains(&flag);
        let name = format!("s{at}");
        let second = format!("s{at}_lon");
        let number = || {
            let mut options = NumericOptions::default();
            if has("i") {
                options = options.set_indexed();
            }
            if has("d") {
                options = options.set_fast();
            }
            options
        };
        let field = match parts[0] {
            "text" => {
                let record = match (has("p"), has("f")) {
                    (true, _) => IndexRecordOption::WithFreqsAndPositions,
                    (false, true) => IndexRecordOption::WithFreqs,
                    (false, false) => IndexRecordOption::Basic,
                };
                let indexing = TextFieldIndexing::default()
                    .set_tokenizer(&name)
                    .set_index_option(record)
                    .set_fieldnorms(has("n"));
                builder.add_text_field(&name, TextOptions::default().set_indexing_options(indexing))
            }
            "keyword" => {
                let mut options = TextOptions::default();
                if has("i") {
                    options = options.set_indexing_options(
                        TextFieldIndexing::default()
                            .set_tokenizer("raw")
                            .set_index_option(IndexRecordOption::Basic)
                            .set_fieldnorms(false),
                    );
                }
                if has("d") {
                    options = options.set_fast("raw");
                }
                builder.add_text_field(&name, options)
            }
            "long" => builder.add_i64_field(&name, number()),
            "unsigned" => builder.add_u64_field(&name, number()),
            "double" => builder.add_f64_field(&name, number()),
            "ip" => {
                let mut options = IpAddrOptions::default();
                if has("i") {
                    options = options.set_indexed();
                }
                if has("d") {
                    options = options.set_fast();
                }
                builder.add_ip_addr_field(&name, options)
            }
            "geo" => {
                let latitude = builder.add_f64_field(&name, number());
                builder.add_f64_field(&second, number());
                latitude
            }
            _ => builder.add_bytes_field(&name, BytesOptions::default()),
        };
        Self { field, names: [name, second] }
    }

    fn target(&self, field: &Field, exists_code: u64) -> Target {
        let [name, second] = &self.names;
        let kind = match field.field_type() {
            FieldType::Text | FieldType::MatchOnlyText => Kind::Text {
                analyzer: field.analyzer().clone(),
                search_analyzer: field.search_analyzer().clone(),
                scored: field.field_type() == FieldType::Text,
                norms: field.norms(),
                positions: field.positions(),
            },
            FieldType::Keyword
            | FieldType::Wildcard
            | FieldType::ConstantKeyword
            | FieldType::Flattened => Kind::Keyword { normalizer: field.normalizer().cloned() },
            FieldType::Long | FieldType::Integer | FieldType::Short | FieldType::Byte => Kind::Long,
            FieldType::UnsignedLong => Kind::UnsignedLong,
            FieldType::Double
            | FieldType::Float
            | FieldType::HalfFloat
            | FieldType::ScaledFloat => Kind::Double,
            FieldType::Date => Kind::Date { nanos: false },
            FieldType::DateNanos => Kind::Date { nanos: true },
            FieldType::Boolean => Kind::Boolean,
            FieldType::Ip => Kind::Ip,
            FieldType::GeoPoint => {
                Kind::GeoPoint { latitude: name.clone(), longitude: second.clone() }
            }
            FieldType::Binary | FieldType::Alias => Kind::Binary,
        };
        let column = match kind {
            Kind::Text { .. } | Kind::GeoPoint { .. } | Kind::Binary => None,
            _ => field.doc_values().then(|| name.clone()),
        };
        Target { field: self.field, column, indexed: field.postings(), kind, exists_code }
    }
}
