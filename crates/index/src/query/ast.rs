//! The tree that a query is parsed into. It knows no mapping: names of fields are as they were
//! sent, and values are JSON.

use std::sync::Arc;

use serde_json::Value;

use super::script::Script;
use crate::geo::GeoPoint;

/// One query with what every kind of query may carry.
#[derive(Clone, Debug)]
pub struct Query {
    /// What it asks.
    pub kind: Kind,
    /// What its score is multiplied with; 1 by default, never negative.
    pub boost: f32,
    /// Its `_name`, told with the hits that it matches.
    pub name: Option<String>,
}

impl Query {
    /// The query with boost 1 and no name.
    #[must_use]
    pub const fn of(kind: Kind) -> Self {
        Self { kind, boost: 1.0, name: None }
    }

    /// Every document, with score 1.
    #[must_use]
    pub const fn match_all() -> Self {
        Self::of(Kind::MatchAll)
    }
}

/// The kinds of query.
#[derive(Clone, Debug)]
pub enum Kind {
    /// `match_all`
    MatchAll,
    /// `match_none`
    MatchNone,
    /// `match`
    Match(Box<Match>),
    /// `match_bool_prefix`
    MatchBoolPrefix(Box<Match>),
    /// `match_phrase` and `match_phrase_prefix`
    Phrase(Box<Phrase>),
    /// `multi_match`
    MultiMatch(Box<MultiMatch>),
    /// `term`
    Term {
        /// The field.
        field: String,
        /// The value, a scalar.
        value: Value,
        /// Whether case is ignored.
        case_insensitive: bool,
    },
    /// `terms`
    Terms {
        /// The field.
        field: String,
        /// The values, scalars.
        values: Arc<Vec<Value>>,
    },
    /// `range`
    Range(Box<Range>),
    /// `bool`
    Bool(Box<Bool>),
    /// `exists`
    Exists {
        /// The field, or a pattern, or an object.
        field: String,
    },
    /// `prefix`, `wildcard`, `regexp`
    Pattern {
        /// Which of them.
        kind: PatternKind,
        /// The field.
        field: String,
        /// The pattern.
        pattern: String,
        /// Whether case is ignored.
        case_insensitive: bool,
    },
    /// `fuzzy`
    Fuzzy {
        /// The field.
        field: String,
        /// The word.
        value: String,
        /// How far a term may be from it.
        fuzziness: Fuzziness,
        /// Characters at the start that are not changed.
        prefix_length: usize,
        /// Terms at most.
        max_expansions: usize,
        /// Whether two neighbours that change places are one change.
        transpositions: bool,
    },
    /// `ids`
    Ids(Vec<String>),
    /// `constant_score`
    ConstantScore(Box<Query>),
    /// `dis_max`
    DisMax {
        /// The alternatives.
        queries: Vec<Query>,
        /// What part of the others' scores counts.
        tie_breaker: f32,
    },
    /// `boosting`
    Boosting {
        /// What must match.
        positive: Box<Query>,
        /// What lessens the score.
        negative: Box<Query>,
        /// By how much.
        negative_boost: f32,
    },
    /// `query_string`
    QueryString(Box<QueryString>),
    /// `simple_query_string`
    SimpleQueryString(Box<QueryString>),
    /// `geo_distance`
    GeoDistance(Box<GeoDistance>),
    /// `geo_bounding_box`
    GeoBoundingBox(Box<GeoBoundingBox>),
    /// `function_score`
    FunctionScore(Box<FunctionScore>),
    /// `script_score`
    ScriptScore {
        /// Which documents.
        query: Box<Query>,
        /// Their score.
        script: Script,
        /// The least score that matches.
        min_score: Option<f32>,
    },
    /// `script`, as a filter
    Script(Script),
    /// `distance_feature`
    DistanceFeature {
        /// A date or geo_point field.
        field: String,
        /// Where the score is highest.
        origin: Value,
        /// The distance at which the score is half.
        pivot: String,
    },
}

/// How clauses of a text are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Operator {
    /// One is enough.
    #[default]
    Or,
    /// All.
    And,
}

/// `fuzziness`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fuzziness {
    /// 0 changes for words shorter than `low`, 1 for those shorter than `high`, 2 beyond.
    Auto {
        /// By default 3.
        low: usize,
        /// By default 6.
        high: usize,
    },
    /// A number of changes, 0 to 2.
    Edits(u8),
}

impl Fuzziness {
    /// The changes that a word of so many characters may have.
    #[must_use]
    pub const fn edits(self, characters: usize) -> u8 {
        match self {
            Self::Edits(edits) => edits,
            Self::Auto { low, .. } if characters < low => 0,
            Self::Auto { high, .. } if characters < high => 1,
            Self::Auto { .. } => 2,
        }
    }
}

/// `match` and its kin.
#[derive(Clone, Debug)]
pub struct Match {
    /// The field.
    pub field: String,
    /// The text, or a number, date or boolean.
    pub value: Value,
    /// How words are joined.
    pub operator: Operator,
    /// Words at least.
    pub minimum_should_match: Option<String>,
    /// Whether near words count too.
    pub fuzziness: Option<Fuzziness>,
    /// Characters at the start that are not changed.
    pub prefix_length: usize,
    /// Terms that one word is widened to.
    pub max_expansions: usize,
    /// Whether two neighbours that change places are one change.
    pub transpositions: bool,
    /// Whether a value of the wrong type matches nothing instead of being an error.
    pub lenient: bool,
    /// Whether a text without any word matches everything.
    pub zero_terms_all: bool,
    /// An analyzer other than the field's.
    pub analyzer: Option<String>,
}

/// `match_phrase` and `match_phrase_prefix`
#[derive(Clone, Debug)]
pub struct Phrase {
    /// The field.
    pub field: String,
    /// The text.
    pub value: Value,
    /// Places that words may be away from theirs.
    pub slop: u32,
    /// Whether the last word is the beginning of one.
    pub is_prefix: bool,
    /// Terms that the last word is widened to.
    pub max_expansions: usize,
    /// Whether a text without any word matches everything.
    pub zero_terms_all: bool,
    /// An analyzer other than the field's.
    pub analyzer: Option<String>,
}

/// How the fields of a `multi_match` are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MultiKind {
    /// The best field counts.
    #[default]
    BestFields,
    /// Fields add up.
    MostFields,
    /// Each word in any field.
    CrossFields,
    /// A phrase, the best field.
    Phrase,
    /// A phrase with an unfinished word, the best field.
    PhrasePrefix,
    /// Words of which the last is unfinished.
    BoolPrefix,
}

/// `multi_match`
#[derive(Clone, Debug)]
pub struct MultiMatch {
    /// Fields or patterns, each with its boost; empty: all.
    pub fields: Vec<(String, f32)>,
    /// How they are joined.
    pub kind: MultiKind,
    /// What part of the other fields' scores counts.
    pub tie_breaker: Option<f32>,
    /// All else, as in `match`; `field` is empty.
    pub text: Match,
    /// As in a phrase.
    pub slop: u32,
}

/// `range`
#[derive(Clone, Debug, Default)]
pub struct Range {
    /// The field.
    pub field: String,
    /// The lower end and whether it belongs to the range.
    pub from: Option<(Value, bool)>,
    /// The upper end and whether it belongs to the range.
    pub to: Option<(Value, bool)>,
    /// The format of dates.
    pub format: Option<String>,
    /// The time zone of dates without one.
    pub time_zone: Option<String>,
}

/// `bool`
#[derive(Clone, Debug, Default)]
pub struct Bool {
    /// All of them, scored.
    pub must: Vec<Query>,
    /// Some of them, scored.
    pub should: Vec<Query>,
    /// All of them, not scored.
    pub filter: Vec<Query>,
    /// None of them.
    pub must_not: Vec<Query>,
    /// How many of `should`.
    pub minimum_should_match: Option<String>,
}

/// The patterns over a field's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternKind {
    /// The start of a term.
    Prefix,
    /// `*` and `?`
    Wildcard,
    /// A regular expression in Lucene's syntax, over the whole term.
    Regexp,
}

/// `query_string` and `simple_query_string`
#[derive(Clone, Debug)]
pub struct QueryString {
    /// The text.
    pub query: String,
    /// Fields or patterns, each with its boost; empty: all.
    pub fields: Vec<(String, f32)>,
    /// How words are joined.
    pub operator: Operator,
    /// Words at least.
    pub minimum_should_match: Option<String>,
    /// Whether a value of the wrong type matches nothing; all fields together imply it.
    pub lenient: bool,
    /// An analyzer other than the fields'.
    pub analyzer: Option<String>,
    /// Whether wildcards are analysed; taken, and patterns are always lower-cased by the field.
    pub phrase_slop: u32,
    /// How the fields of one word are joined.
    pub kind: MultiKind,
    /// What part of the other fields' scores counts.
    pub tie_breaker: Option<f32>,
    /// The time zone of dates.
    pub time_zone: Option<String>,
    /// Whether `*x` is allowed.
    pub allow_leading_wildcard: bool,
    /// The operators of `simple_query_string` that are on.
    pub flags: u32,
    /// Fuzziness of `word~`.
    pub fuzziness: Fuzziness,
}

/// `geo_distance`
#[derive(Clone, Debug)]
pub struct GeoDistance {
    /// The field.
    pub field: String,
    /// The middle.
    pub center: GeoPoint,
    /// How far, in metres.
    pub distance_m: f64,
    /// Whether an unmapped field matches nothing.
    pub ignore_unmapped: bool,
}

/// `geo_bounding_box`
#[derive(Clone, Debug)]
pub struct GeoBoundingBox {
    /// The field.
    pub field: String,
    /// North, in degrees.
    pub top: f64,
    /// West; more than `right` where the box crosses the date line.
    pub left: f64,
    /// South.
    pub bottom: f64,
    /// East.
    pub right: f64,
    /// Whether an unmapped field matches nothing.
    pub ignore_unmapped: bool,
}

/// How the functions of a `function_score` are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ScoreMode {
    /// Multiplied.
    #[default]
    Multiply,
    /// Added.
    Sum,
    /// The mean, weighted.
    Avg,
    /// The first whose filter matches.
    First,
    /// The largest.
    Max,
    /// The least.
    Min,
}

/// How the functions and the query's score are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum BoostMode {
    /// Multiplied.
    #[default]
    Multiply,
    /// The functions alone.
    Replace,
    /// Added.
    Sum,
    /// The mean.
    Avg,
    /// The larger.
    Max,
    /// The lesser.
    Min,
}

/// `function_score`
#[derive(Clone, Debug)]
pub struct FunctionScore {
    /// Which documents.
    pub query: Query,
    /// What changes their score.
    pub functions: Vec<Function>,
    /// How the functions are joined.
    pub score_mode: ScoreMode,
    /// How they are joined with the query's score.
    pub boost_mode: BoostMode,
    /// The most that the functions give.
    pub max_boost: f32,
    /// The least score that matches.
    pub min_score: Option<f32>,
}

/// One function of a `function_score`.
#[derive(Clone, Debug)]
pub struct Function {
    /// The documents that it concerns.
    pub filter: Option<Query>,
    /// What it gives is multiplied with this.
    pub weight: Option<f32>,
    /// What it computes; none: 1.
    pub kind: Option<FunctionKind>,
}

/// What a function computes.
#[derive(Clone, Debug)]
pub enum FunctionKind {
    /// `field_value_factor`
    FieldValueFactor {
        /// The field.
        field: String,
        /// Multiplied first.
        factor: f64,
        /// Then this.
        modifier: Modifier,
        /// The value of a document that has none.
        missing: Option<f64>,
    },
    /// `random_score`
    Random {
        /// The seed.
        seed: Option<i64>,
        /// The field that tells documents apart; none: their number.
        field: Option<String>,
    },
    /// `gauss`, `exp` and `linear`
    Decay(Box<Decay>),
    /// `script_score`
    Script(Script),
}

/// `modifier` of `field_value_factor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Modifier {
    /// As it is.
    #[default]
    None,
    /// log10(v)
    Log,
    /// log10(v + 1)
    Log1p,
    /// log10(v + 2)
    Log2p,
    /// ln(v)
    Ln,
    /// ln(v + 1)
    Ln1p,
    /// ln(v + 2)
    Ln2p,
    /// v * v
    Square,
    /// √v
    Sqrt,
    /// 1 / v
    Reciprocal,
}

/// The shape of a decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecayShape {
    /// `gauss`
    Gauss,
    /// `exp`
    Exp,
    /// `linear`
    Linear,
}

/// How several values become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ValueMode {
    /// The least.
    Min,
    /// The largest.
    Max,
    /// The mean.
    Avg,
    /// The sum.
    Sum,
    /// The middle.
    Median,
}

/// A decay function.
#[derive(Clone, Debug)]
pub struct Decay {
    /// Its shape.
    pub shape: DecayShape,
    /// The field: a number, a date or a geo_point.
    pub field: String,
    /// Where the value is 1; none for dates: now.
    pub origin: Option<Value>,
    /// The distance at which the value is `decay`.
    pub scale: Value,
    /// The distance up to which the value is 1.
    pub offset: Option<Value>,
    /// By default 0.5.
    pub decay: f64,
    /// How several distances become one.
    pub mode: ValueMode,
}
