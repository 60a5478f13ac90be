//! `script_fields`: what a script computes of a document, shown as painless would show it.

use serde_json::{Map, Value};
use tantivy::SegmentReader;

use super::failure::internal;
use super::options::{flag, token};
use super::result::{Hit, SortValue};
use super::values;
use crate::error::Error;
use crate::partition::{Kind, View};
use crate::query::Context;
use crate::query::compile::bind_script;
use crate::query::problem::{Parsed, Problem};
use crate::query::script::evaluate::{Bound, SegmentScript};
use crate::query::script::node::Node;
use crate::query::script::{Expr, Language, Part, Script, Type};

/// Whole numbers below this are computed without loss: 2^53.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Fields of this kind that one request may ask for (`index.max_script_fields`).
const FIELDS_MAX: usize = 32;

/// One of `script_fields`, as a request has it.
#[derive(Clone, Debug)]
pub(crate) struct ScriptSpec {
    name: String,
    script: Script,
    /// Whether the field is left out where the script fails, instead of failing the search.
    ignore_failure: bool,
}

impl ScriptSpec {
    pub(super) fn parse_all(map: &Map<String, Value>) -> Parsed<Vec<Self>> {
        if map.len() > FIELDS_MAX {
            return Err(Problem::illegal(format!(
                "Trying to retrieve too many script_fields. Must be less than or equal to: [{FIELDS_MAX}] but was [{}].",
                map.len()
            )));
        }
        map.iter().map(|(name, spec)| Self::parse(name, spec)).collect()
    }

    fn parse(name: &str, spec: &Value) -> Parsed<Self> {
        let unknown = |key: &str, value: &Value| {
            let reason = format!("Unknown key for a {} in [{key}].", token(value));
            Problem::parsing(value, reason)
        };
        let options = spec.as_object().ok_or_else(|| unknown(name, spec))?;
        let (mut script, mut ignore_failure) = (None, false);
        for (key, value) in options {
            match key.as_str() {
                "script" => script = Some(Script::parse(value)?),
                "ignore_failure" => ignore_failure = flag(key, value)?,
                _ => return Err(unknown(key, value)),
            }
        }
        let script = script.ok_or_else(|| {
            Problem::parsing(spec, format!("[script_fields] [{name}] requires a [script]"))
        })?;
        Ok(Self { name: name.to_owned(), script, ignore_failure })
    }
}

/// A field that a script computes.
pub(super) struct ScriptField<'a> {
    spec: &'a ScriptSpec,
    bound: Bound,
    /// The script of the segment that the last hit was in.
    of_segment: Option<(u32, SegmentScript)>,
}

impl<'a> ScriptField<'a> {
    pub(super) fn new(context: &Context<'_>, spec: &'a ScriptSpec) -> Result<Self, Error> {
        let bound = bind_script(context, &spec.script)?;
        if let Node::Field { target: Some(target), part: Part::Value } = &bound.root
            && matches!(target.kind, Kind::GeoPoint { .. })
        {
            return Err(Error::illegal_argument(format!(
                "[script_fields] [{}]: a point is shown by its [lat] and [lon]",
                spec.name
            )));
        }
        Ok(Self { spec, bound, of_segment: None })
    }

    /// Adds its value for one hit.
    ///
    /// # Errors
    /// 400 `script_exception` where the document lacks a value that the script wants, and where a
    /// whole number is too large to be computed without loss; unless the request ignores failures.
    pub(super) fn show(
        &mut self,
        view: &View,
        reader: &SegmentReader,
        hit: &Hit,
        shown: &mut Map<String, Value>,
    ) -> Result<(), Error> {
        match self.value(view, reader, hit) {
            Ok(value) => {
                shown.insert(self.spec.name.clone(), Value::from(vec![value]));
                Ok(())
            }
            Err(_) if self.spec.ignore_failure => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn value(&mut self, view: &View, reader: &SegmentReader, hit: &Hit) -> Result<Value, Error> {
        let script = &self.spec.script;
        let doc = hit.address.1;
        // What is a field's value and nothing else needs no computing: it is shown as it is.
        if let (Language::Painless, Expr::Field { name, part: Part::Value }) =
            (script.language, script.tree.as_ref())
        {
            let found = values::of_columns(view, reader, doc, name, None)?;
            return found.into_iter().next().ok_or_else(|| self.lacks_value());
        }
        let segment = match &mut self.of_segment {
            Some((of, segment)) if *of == hit.address.0 => segment,
            slot => {
                let opened = self.bound.segment(reader).map_err(internal)?;
                &mut slot.insert((hit.address.0, opened)).1
            }
        };
        let mut value = [0.0];
        segment.evaluate(&[doc], &[hit.score.unwrap_or(0.0)], &mut value);
        let [value] = value;
        match self.bound.value_type {
            Type::Double if value.is_nan() && script.language == Language::Expression => {
                Ok(Value::from("NaN"))
            }
            _ if value.is_nan() => Err(self.lacks_value()),
            Type::Double => Ok(SortValue::Double(value).to_json()),
            Type::Truth => Ok(Value::from(value != 0.0)),
            Type::Whole if value.is_infinite() => Err(script.runtime_error("/ by zero")),
            Type::Whole if value.abs() >= WHOLE_MAX => Err(script.runtime_error(&format!(
                "[{}] is beyond 2^53, where whole numbers are not computed exactly",
                self.spec.name
            ))),
            #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
            Type::Whole => Ok(Value::from(value as i64)),
        }
    }

    fn lacks_value(&self) -> Error {
        self.spec.script.runtime_error(
            "A document doesn't have a value for a field! Use doc[<field>].size()==0 to check if a document is missing a field!",
        )
    }
}
