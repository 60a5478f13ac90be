//! Highlighting: the words of a document's text that a query asked for, marked, in fragments
//! that are sentences, as Elasticsearch's unified highlighter cuts them.

use plimsoll_stdx::wildcard_matches;
use serde_json::{Map, Value};
use tantivy::tokenizer::Token;
use unicode_segmentation::UnicodeSegmentation as _;

use super::source::values_at;
use crate::analysis::Analyzer;
use crate::error::Error;
use crate::partition::Kind;
use crate::query::Context;
use crate::query::ast::{self, PatternKind, Query};
use crate::query::exec::automaton::Wildcard;
use crate::query::parse::{self, as_text};
use crate::query::problem::{Parsed, Problem};
use crate::query::syntax::{Leaf, Node, Occur, lucene, simple};

/// The longest text that is highlighted, in bytes (`index.highlight.max_analyzed_offset`).
const TEXT_BYTES_MAX: usize = 1_000_000;

/// `highlight` of a request.
#[derive(Clone, Debug)]
pub(crate) struct HighlightSpec {
    defaults: Options,
    fields: Vec<(String, Options)>,
}

/// How one field is highlighted.
#[derive(Clone, Debug)]
struct Options {
    pre_tags: Vec<String>,
    post_tags: Vec<String>,
    fragment_size: usize,
    number_of_fragments: usize,
    require_field_match: bool,
    no_match_size: usize,
    by_score: bool,
    query: Option<Box<Query>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            pre_tags: vec!["<em>".to_owned()],
            post_tags: vec!["</em>".to_owned()],
            fragment_size: 100,
            number_of_fragments: 5,
            require_field_match: true,
            no_match_size: 0,
            by_score: false,
            query: None,
        }
    }
}

impl HighlightSpec {
    pub(crate) fn parse(node: &Value) -> Parsed<Self> {
        let Value::Object(map) = node else {
            return Err(Problem::parsing(node, "[highlight] must be an object"));
        };
        let mut defaults = Options::default();
        let mut listed = None;
        for (key, value) in map {
            if key == "fields" {
                listed = Some(value);
            } else {
                defaults.read(key, value)?;
            }
        }
        let mut fields = Vec::new();
        let mut add = |map: &Map<String, Value>| -> Parsed<()> {
            for (name, options) in map {
                let mut own = defaults.clone();
                if let Value::Object(options) = options {
                    for (key, value) in options {
                        own.read(key, value)?;
                    }
                }
                fields.push((name.clone(), own));
            }
            Ok(())
        };
        match listed {
            Some(Value::Object(map)) => add(map)?,
            Some(Value::Array(items)) => {
                for item in items.iter().filter_map(Value::as_object) {
                    add(item)?;
                }
            }
            _ => {}
        }
        Ok(Self { defaults, fields })
    }
}

impl Options {
    fn read(&mut self, key: &str, value: &Value) -> Parsed<()> {
        let list = || match value {
            Value::Array(items) => items.iter().map(as_text).collect(),
            other => vec![as_text(other)],
        };
        let size = || {
            let number = value.as_i64().or_else(|| as_text(value).parse().ok());
            let number = number.ok_or_else(|| {
                Problem::illegal(format!("For input string: \"{}\"", as_text(value)))
            });
            number.map(|number: i64| usize::try_from(number).unwrap_or(0))
        };
        match key {
            "pre_tags" => self.pre_tags = list(),
            "post_tags" => self.post_tags = list(),
            "fragment_size" => self.fragment_size = size()?,
            "number_of_fragments" => self.number_of_fragments = size()?,
            "no_match_size" => self.no_match_size = size()?,
            "require_field_match" => self.require_field_match = value.as_bool().unwrap_or(true),
            "order" => self.by_score = as_text(value) == "score",
            "highlight_query" => self.query = Some(Box::new(parse::query(value, 0)?)),
            "tags_schema" => {
                if as_text(value) == "styled" {
                    self.pre_tags = (1..=10).map(|n| format!("<em class=\"hlt{n}\">")).collect();
                    self.post_tags = vec!["</em>".to_owned()];
                }
            }
            "type" => {
                let kind = as_text(value);
                if !matches!(kind.as_str(), "unified" | "plain" | "fvh" | "fast-vector-highlighter")
                {
                    return Err(Problem::illegal(format!(
                        "unknown highlighter type [{kind}] for the field"
                    )));
                }
            }
            "boundary_scanner"
            | "boundary_chars"
            | "boundary_max_scan"
            | "boundary_scanner_locale"
            | "encoder"
            | "force_source"
            | "fragmenter"
            | "fragment_offset"
            | "matched_fields"
            | "phrase_limit"
            | "options"
            | "max_analyzer_offset"
            | "max_analyzed_offset" => {}
            _ => {
                let error = Error::invalid(
                    "x_content_parse_exception",
                    format!("[highlight] unknown field [{key}]"),
                );
                return Err(Problem::at(value, error));
            }
        }
        Ok(())
    }
}

/// What a word has to be to be marked.
#[derive(Clone)]
enum Matcher {
    Word(String),
    Pattern(Wildcard),
    Fuzzy {
        word: String,
        edits: u8,
    },
    /// Words one after the other.
    Phrase {
        words: Vec<String>,
        slop: usize,
        is_prefix: bool,
    },
}

/// The words that a query asks of a field; no field: of any.
struct Wanted {
    field: String,
    matcher: Matcher,
}

/// A highlighter for the hits of one request.
pub(super) struct Highlighter {
    fields: Vec<HighlightedField>,
}

struct HighlightedField {
    /// The name under which fragments are shown.
    name: String,
    /// Where the text is in the source.
    source_path: String,
    analyzer: Option<Analyzer>,
    options: Options,
    matchers: Vec<Matcher>,
}

impl Highlighter {
    pub(super) fn new(
        context: &Context<'_>,
        spec: &HighlightSpec,
        query: Option<&Query>,
    ) -> Result<Self, Error> {
        let mapping = context.view.mapping();
        let mut fields = Vec::new();
        for (pattern, options) in &spec.fields {
            let query = options.query.as_deref().or(spec.defaults.query.as_deref()).or(query);
            let names: Vec<String> = if pattern.contains('*') {
                mapping
                    .paths(pattern)
                    .into_iter()
                    .filter(|path| {
                        context.resolve(path).is_some_and(|resolved| {
                            matches!(resolved.target.kind, Kind::Text { .. } | Kind::Keyword { .. })
                        })
                    })
                    .map(str::to_owned)
                    .collect()
            } else {
                vec![pattern.clone()]
            };
            for name in names {
                let Some(resolved) = context.resolve(&name) else { continue };
                let analyzer = match &resolved.target.kind {
                    Kind::Text { analyzer, .. } => Some(analyzer.clone()),
                    Kind::Keyword { .. } => None,
                    _ => continue,
                };
                let parent = resolved.path.rsplit_once('.').map(|(parent, _)| parent);
                let source_path = parent
                    .filter(|parent| mapping.field(parent).is_some())
                    .unwrap_or(resolved.path)
                    .to_owned();
                let mut wanted = Vec::new();
                if let Some(query) = query {
                    collect(context, query, analyzer.as_ref(), &mut wanted);
                }
                let matchers = wanted
                    .into_iter()
                    .filter(|wanted| {
                        !options.require_field_match
                            || wanted.field.is_empty()
                            || wanted.field == resolved.path
                            || wildcard_matches(&wanted.field, resolved.path)
                    })
                    .map(|wanted| wanted.matcher)
                    .collect();
                let options = options.clone();
                fields.push(HighlightedField { name, source_path, analyzer, options, matchers });
            }
        }
        Ok(Self { fields })
    }

    /// The fragments of one document.
    pub(super) fn highlight(&self, source: &Value) -> Map<String, Value> {
        let mut found = Map::new();
        for field in &self.fields {
            let fragments = field.fragments(source);
            if !fragments.is_empty() {
                found.insert(field.name.clone(), Value::from(fragments));
            }
        }
        found
    }
}

/// A piece of a text with the marks in it.
struct Passage {
    from: usize,
    to: usize,
    marks: Vec<(usize, usize)>,
}

impl HighlightedField {
    fn fragments(&self, source: &Value) -> Vec<String> {
        let mut values = Vec::new();
        values_at(source, &self.source_path, &mut values);
        let mut fragments: Vec<(usize, String)> = Vec::new();
        let mut first_text = None;
        for value in values {
            let text = as_text(value);
            if text.len() > TEXT_BYTES_MAX || value.is_null() {
                continue;
            }
            let marks = self.marks(&text);
            if !marks.is_empty() {
                for passage in self.passages(&text, &marks) {
                    fragments.push((passage.marks.len(), self.render(&text, &passage)));
                }
            }
            first_text.get_or_insert(text);
        }
        if fragments.is_empty() {
            return match first_text {
                Some(text) if self.options.no_match_size > 0 => {
                    vec![self.start_of(&text)]
                }
                _ => Vec::new(),
            };
        }
        let limit = self.options.number_of_fragments;
        if limit > 0 && fragments.len() > limit {
            // The best ones, in the order of the text.
            let mut order: Vec<usize> = (0..fragments.len()).collect();
            order.sort_by_key(|at| std::cmp::Reverse(fragments[*at].0));
            order.truncate(limit);
            if !self.options.by_score {
                order.sort_unstable();
            }
            return order.into_iter().map(|at| fragments[at].1.clone()).collect();
        }
        if self.options.by_score {
            fragments.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        }
        fragments.into_iter().map(|(_, text)| text).collect()
    }

    /// The start of a text in which nothing is marked.
    fn start_of(&self, text: &str) -> String {
        let mut end = 0;
        for (at, word) in text.split_word_bound_indices() {
            if at + word.len() > self.options.no_match_size && end > 0 {
                break;
            }
            end = at + word.len();
        }
        text[..end].trim_end().to_owned()
    }

    /// Where words begin and end that are marked, in order and apart from one another.
    fn marks(&self, text: &str) -> Vec<(usize, usize)> {
        let tokens = match &self.analyzer {
            Some(analyzer) => analyzer.tokens(text),
            None => vec![Token {
                offset_from: 0,
                offset_to: text.len(),
                position: 0,
                text: text.to_owned(),
                position_length: 1,
            }],
        };
        let mut marks = Vec::new();
        for matcher in &self.matchers {
            matcher.find(&tokens, &mut marks);
        }
        marks.retain(|(from, to)| {
            from < to && text.is_char_boundary(*from) && text.is_char_boundary(*to)
        });
        marks.sort_unstable();
        marks.dedup();
        let mut apart: Vec<(usize, usize)> = Vec::with_capacity(marks.len());
        for (from, to) in marks {
            match apart.last_mut() {
                Some((_, last)) if from < *last => *last = (*last).max(to),
                _ => apart.push((from, to)),
            }
        }
        apart
    }

    fn passages(&self, text: &str, marks: &[(usize, usize)]) -> Vec<Passage> {
        if self.options.number_of_fragments == 0 {
            return vec![Passage { from: 0, to: text.len(), marks: marks.to_vec() }];
        }
        let mut passages: Vec<Passage> = Vec::new();
        let mut sentences = text
            .split_sentence_bound_indices()
            .map(|(at, sentence)| (at, at + sentence.len()))
            .peekable();
        let mut sentence = sentences.next().unwrap_or((0, text.len()));
        for (from, to) in marks {
            if let Some(last) = passages.last_mut()
                && *to <= last.to
            {
                last.marks.push((*from, *to));
                continue;
            }
            while sentence.1 <= *from {
                let Some(next) = sentences.next() else { break };
                sentence = next;
            }
            let (start, mut end) = self.bounded(text, sentence, *from, *to);
            // Whole sentences are added while they fit.
            while end == sentence.1 {
                let Some(next) = sentences.peek().copied() else { break };
                if next.1 - start > self.options.fragment_size {
                    break;
                }
                sentence = next;
                end = next.1;
                sentences.next();
            }
            passages.push(Passage { from: start, to: end, marks: vec![(*from, *to)] });
        }
        passages
    }

    /// The part of a sentence around a mark: all of it where it is short, else whole words.
    fn bounded(
        &self,
        text: &str,
        sentence: (usize, usize),
        from: usize,
        to: usize,
    ) -> (usize, usize) {
        let size = self.options.fragment_size.max(1);
        let (start, end) = sentence;
        if end - start <= size {
            return sentence;
        }
        let mut first = start;
        if to - start > size {
            // The words before the mark fill at most half.
            let earliest = from.saturating_sub(size / 2).max(start);
            first = text[start..from]
                .split_word_bound_indices()
                .map(|(at, _)| start + at)
                .find(|at| *at >= earliest)
                .unwrap_or(from);
        }
        let mut last = to;
        for (at, word) in text[to..end].split_word_bound_indices() {
            if to + at + word.len() - first > size {
                break;
            }
            last = to + at + word.len();
        }
        (first, last)
    }

    fn render(&self, text: &str, passage: &Passage) -> String {
        let pre = self.options.pre_tags.first().map_or("", String::as_str);
        let post = self.options.post_tags.first().map_or("", String::as_str);
        let mut out = String::new();
        let mut at = passage.from;
        for (from, to) in &passage.marks {
            out.push_str(&text[at..*from]);
            out.push_str(pre);
            out.push_str(&text[*from..*to]);
            out.push_str(post);
            at = *to;
        }
        out.push_str(&text[at..passage.to.max(at)]);
        if self.options.number_of_fragments == 0 { out } else { out.trim().to_owned() }
    }
}

impl Matcher {
    fn find(&self, tokens: &[Token], marks: &mut Vec<(usize, usize)>) {
        match self {
            Self::Phrase { words, slop, is_prefix } => {
                phrase_marks(tokens, words, *slop, *is_prefix, marks);
            }
            _ => {
                for token in tokens {
                    if self.takes(&token.text) {
                        marks.push((token.offset_from, token.offset_to));
                    }
                }
            }
        }
    }

    fn takes(&self, text: &str) -> bool {
        match self {
            Self::Word(word) => word == text,
            Self::Pattern(pattern) => {
                use tantivy_fst::Automaton as _;
                let mut state = pattern.start();
                for byte in text.bytes() {
                    state = pattern.accept(&state, byte);
                }
                pattern.is_match(&state)
            }
            Self::Fuzzy { word, edits } => {
                let builder = levenshtein_automata::LevenshteinAutomatonBuilder::new(*edits, true);
                let dfa = builder.build_dfa(word);
                matches!(dfa.eval(text), levenshtein_automata::Distance::Exact(_))
            }
            Self::Phrase { .. } => false,
        }
    }
}

/// Marks the words of each place where a phrase stands, words apart by no more than `slop`.
fn phrase_marks(
    tokens: &[Token],
    words: &[String],
    slop: usize,
    is_prefix: bool,
    marks: &mut Vec<(usize, usize)>,
) {
    let takes = |at: usize, token: &Token| {
        let is_last = at + 1 == words.len();
        token.text == words[at] || (is_prefix && is_last && token.text.starts_with(&words[at]))
    };
    for start in 0..tokens.len() {
        if words.is_empty() || !takes(0, &tokens[start]) {
            continue;
        }
        let mut found = vec![(tokens[start].offset_from, tokens[start].offset_to)];
        let mut at = start;
        let mut left = slop;
        for word in 1..words.len() {
            let next = tokens
                .iter()
                .enumerate()
                .skip(at + 1)
                .take(left + 1)
                .find(|(_, token)| takes(word, token));
            let Some((place, token)) = next else { break };
            left -= (place - at - 1).min(left);
            at = place;
            found.push((token.offset_from, token.offset_to));
        }
        if found.len() == words.len() {
            marks.extend(found);
        }
    }
}

/// Finds the words that a query asks of a field. `analyzer` is that of the field.
fn collect(
    context: &Context<'_>,
    query: &Query,
    analyzer: Option<&Analyzer>,
    wanted: &mut Vec<Wanted>,
) {
    let words = |value: &Value| -> Vec<String> {
        let text = as_text(value);
        analyzer.map_or_else(|| vec![text.clone()], |analyzer| analyzer.terms(&text))
    };
    let mut push = |field: &str, matcher: Matcher| {
        let resolved = context.resolve(field).map_or(field, |resolved| resolved.path);
        wanted.push(Wanted { field: resolved.to_owned(), matcher });
    };
    match &query.kind {
        ast::Kind::Match(text) => {
            for word in words(&text.value) {
                let edits =
                    text.fuzziness.map_or(0, |fuzziness| fuzziness.edits(word.chars().count()));
                push(&text.field, word_matcher(word, edits));
            }
        }
        ast::Kind::MatchBoolPrefix(text) => {
            let mut all = words(&text.value);
            if let Some(last) = all.pop() {
                push(&text.field, Matcher::Pattern(Wildcard::prefix(&last, false)));
            }
            for word in all {
                push(&text.field, Matcher::Word(word));
            }
        }
        ast::Kind::Phrase(phrase) => {
            let slop = usize::try_from(phrase.slop).unwrap_or(usize::MAX);
            let words = words(&phrase.value);
            push(&phrase.field, Matcher::Phrase { words, slop, is_prefix: phrase.is_prefix });
        }
        ast::Kind::MultiMatch(multi) => {
            let (fields, _) = context.expand(&multi.fields);
            for (field, _) in fields {
                let is_prefix = multi.kind == ast::MultiKind::PhrasePrefix;
                if is_prefix || multi.kind == ast::MultiKind::Phrase {
                    let slop = usize::try_from(multi.slop).unwrap_or(usize::MAX);
                    let words = words(&multi.text.value);
                    push(&field, Matcher::Phrase { words, slop, is_prefix });
                    continue;
                }
                for word in words(&multi.text.value) {
                    push(&field, Matcher::Word(word));
                }
            }
        }
        ast::Kind::Term { field, value, .. } => push(field, Matcher::Word(as_text(value))),
        ast::Kind::Terms { field, values } => {
            for value in values.iter() {
                push(field, Matcher::Word(as_text(value)));
            }
        }
        ast::Kind::Pattern { kind, field, pattern, case_insensitive } => match kind {
            PatternKind::Prefix => {
                push(field, Matcher::Pattern(Wildcard::prefix(pattern, *case_insensitive)));
            }
            PatternKind::Wildcard => {
                push(field, Matcher::Pattern(Wildcard::new(pattern, *case_insensitive)));
            }
            PatternKind::Regexp => {}
        },
        ast::Kind::Fuzzy { field, value, fuzziness, .. } => {
            let edits = fuzziness.edits(value.chars().count());
            push(field, word_matcher(value.clone(), edits));
        }
        _ => collect_inner(context, query, analyzer, wanted),
    }
}

/// The words of queries inside a query, and of those that have a language of their own.
fn collect_inner(
    context: &Context<'_>,
    query: &Query,
    analyzer: Option<&Analyzer>,
    wanted: &mut Vec<Wanted>,
) {
    match &query.kind {
        ast::Kind::QueryString(text) => {
            let node = lucene::parse(&text.query, text.operator == ast::Operator::And);
            if let Ok(node) = node {
                collect_node(text, &node, analyzer, wanted);
            }
        }
        ast::Kind::SimpleQueryString(text) => {
            let is_and = text.operator == ast::Operator::And;
            let node = simple::parse(&text.query, is_and, text.flags);
            collect_node(text, &node, analyzer, wanted);
        }
        ast::Kind::Bool(clause) => {
            for child in clause.must.iter().chain(&clause.should).chain(&clause.filter) {
                collect(context, child, analyzer, wanted);
            }
        }
        ast::Kind::Boosting { positive, .. } => collect(context, positive, analyzer, wanted),
        ast::Kind::FunctionScore(function) => {
            collect(context, &function.query, analyzer, wanted);
        }
        _ => {
            for child in query.children() {
                collect(context, child, analyzer, wanted);
            }
        }
    }
}

fn word_matcher(word: String, edits: u8) -> Matcher {
    if edits == 0 || word.chars().count() > 255 {
        Matcher::Word(word)
    } else {
        Matcher::Fuzzy { word, edits: edits.min(2) }
    }
}

fn collect_node(
    text: &ast::QueryString,
    node: &Node,
    analyzer: Option<&Analyzer>,
    wanted: &mut Vec<Wanted>,
) {
    match node {
        Node::All => {}
        Node::Boosted(inner, _) => collect_node(text, inner, analyzer, wanted),
        Node::Bool(clauses) => {
            for (occur, node) in clauses {
                if *occur != Occur::MustNot {
                    collect_node(text, node, analyzer, wanted);
                }
            }
        }
        Node::Leaf(field, leaf) => {
            let terms = |text: &str| -> Vec<String> {
                analyzer.map_or_else(|| vec![text.to_owned()], |analyzer| analyzer.terms(text))
            };
            let matchers: Vec<Matcher> = match leaf {
                Leaf::Text(text) => terms(text).into_iter().map(Matcher::Word).collect(),
                Leaf::Phrase { text, slop } => {
                    let slop = slop.and_then(|slop| usize::try_from(slop).ok()).unwrap_or(0);
                    vec![Matcher::Phrase { words: terms(text), slop, is_prefix: false }]
                }
                Leaf::Prefix(text) => vec![Matcher::Pattern(Wildcard::prefix(text, true))],
                Leaf::Wildcard(text) => vec![Matcher::Pattern(Wildcard::new(text, true))],
                Leaf::Fuzzy { text: word, edits } => {
                    let by_length = text.fuzziness.edits(word.chars().count());
                    vec![word_matcher(word.to_lowercase(), edits.unwrap_or(by_length))]
                }
                Leaf::Regexp(_) | Leaf::Range { .. } | Leaf::Exists => Vec::new(),
            };
            let names: Vec<String> = match field {
                Some(field) => vec![field.clone()],
                None if text.fields.is_empty() => vec![String::new()],
                None => text.fields.iter().map(|(name, _)| name.clone()).collect(),
            };
            for name in &names {
                for matcher in &matchers {
                    let matcher = matcher.clone();
                    wanted.push(Wanted { field: name.clone(), matcher });
                }
            }
        }
    }
}
