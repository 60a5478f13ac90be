//! Reading the keys of one object, with Elasticsearch's words for what does not fit.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::query::ast::{Fuzziness, Kind, Operator, Query};
use crate::query::problem::{Parsed, Problem};

/// The object of one query.
pub(crate) struct Body<'a> {
    /// The query's name.
    pub name: &'a str,
    /// Its object as a node, for positions.
    pub node: &'a Value,
    /// Its object.
    pub map: &'a Map<String, Value>,
    /// How many queries it is inside of.
    pub depth: usize,
}

impl Body<'_> {
    /// A query that has no keys but `boost` and `_name`.
    pub(super) fn no_fields(&self, kind: Kind) -> Parsed<Query> {
        let mut query = Query::of(kind);
        for (key, value) in self.map {
            if !self.shared(&mut query, key, value)? {
                let name = self.name;
                let reason = format!("[{name}] unknown field [{key}]");
                let error = Error::invalid("x_content_parse_exception", reason);
                return Err(Problem::at(value, error));
            }
        }
        Ok(query)
    }

    /// Reads `boost` and `_name`; whether the key was one of them.
    pub(super) fn shared(&self, query: &mut Query, key: &str, value: &Value) -> Parsed<bool> {
        match key {
            "boost" => query.boost = self.boost(value)?,
            "_name" => query.name = Some(as_text(value)),
            _ => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn boost(&self, value: &Value) -> Parsed<f32> {
        let boost = self.f32(value)?;
        if boost < 0.0 {
            let name = self.name;
            let boost = java_float(boost);
            return Err(Problem::illegal(format!(
                "negative [boost] are not allowed in [{name}], use a value between 0 and 1 to deboost but found [{boost}]"
            )));
        }
        Ok(boost)
    }

    pub(super) fn f64(&self, value: &Value) -> Parsed<f64> {
        let number = match value {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number
            .filter(|number: &f64| number.is_finite())
            .ok_or_else(|| Problem::illegal(format!("For input string: \"{}\"", as_text(value))))
    }

    #[expect(clippy::cast_possible_truncation, reason = "scores are floats of 32 bits")]
    pub(super) fn f32(&self, value: &Value) -> Parsed<f32> {
        Ok(self.f64(value)? as f32)
    }

    pub(super) fn usize(&self, value: &Value) -> Parsed<usize> {
        let number = match value {
            Value::Number(number) => number.as_i64(),
            Value::String(text) => text.trim().parse().ok(),
            _ => None,
        };
        number
            .and_then(|number: i64| usize::try_from(number).ok())
            .ok_or_else(|| Problem::illegal(format!("For input string: \"{}\"", as_text(value))))
    }

    pub(super) fn bool(&self, value: &Value) -> Parsed<bool> {
        match value {
            Value::Bool(flag) => Ok(*flag),
            Value::String(text) if text == "true" => Ok(true),
            Value::String(text) if text == "false" => Ok(false),
            _ => Err(Problem::illegal(format!(
                "Failed to parse value [{}] as only [true] or [false] are allowed.",
                as_text(value)
            ))),
        }
    }

    pub(super) fn text(&self, key: &str, value: &Value) -> Parsed<String> {
        match value {
            Value::Object(_) | Value::Array(_) | Value::Null => Err(self.unexpected(key, value)),
            _ => Ok(as_text(value)),
        }
    }

    pub(super) fn operator(&self, value: &Value) -> Parsed<Operator> {
        match as_text(value).to_ascii_lowercase().as_str() {
            "or" => Ok(Operator::Or),
            "and" => Ok(Operator::And),
            other => Err(Problem::illegal(format!(
                "No enum constant org.opensearch.index.query.Operator.{}",
                other.to_ascii_uppercase()
            ))),
        }
    }

    pub(super) fn fuzziness(&self, value: &Value) -> Parsed<Fuzziness> {
        let text = as_text(value);
        parse_fuzziness(&text)
            .ok_or_else(|| Problem::illegal(format!("failed to parse [{text}] as a \"float\"")))
    }

    /// `zero_terms_query`: whether it is `all`.
    pub(super) fn zero_terms(&self, value: &Value) -> Parsed<bool> {
        match as_text(value).to_ascii_lowercase().as_str() {
            "none" => Ok(false),
            "all" => Ok(true),
            other => Err(Problem::parsing(
                value,
                format!("Unsupported zero_terms_query value [{other}]"),
            )),
        }
    }

    /// A list of fields with boosts: `["a", "b^2"]` or one string.
    pub(super) fn fields(&self, value: &Value) -> Parsed<Vec<(String, f32)>> {
        let one = |value: &Value| {
            let Value::String(text) = value else {
                return Err(Problem::illegal("fields must be strings"));
            };
            match text.split_once('^') {
                None => Ok((text.clone(), 1.0)),
                Some((name, boost)) => {
                    let boost = boost.parse().ok().filter(|boost: &f32| *boost >= 0.0);
                    let boost = boost
                        .ok_or_else(|| Problem::illegal(format!("For input string: \"{text}\"")))?;
                    Ok((name.to_owned(), boost))
                }
            }
        };
        match value {
            Value::Array(items) => items.iter().map(one).collect(),
            _ => Ok(vec![one(value)?]),
        }
    }

    /// The error of a key that the query does not have.
    pub(super) fn unsupported(&self, key: &str, value: &Value) -> Box<Problem> {
        Problem::parsing(value, format!("[{}] query does not support [{key}]", self.name))
    }

    /// The error of a key whose value has the wrong shape.
    pub(super) fn unexpected(&self, key: &str, value: &Value) -> Box<Problem> {
        let token = match value {
            Value::Object(_) => "START_OBJECT",
            Value::Array(_) => "START_ARRAY",
            Value::Null => "VALUE_NULL",
            Value::Bool(_) => "VALUE_BOOLEAN",
            Value::Number(_) => "VALUE_NUMBER",
            Value::String(_) => "VALUE_STRING",
        };
        let name = self.name;
        Problem::parsing(value, format!("[{name}] unknown token [{token}] after [{key}]"))
    }
}

/// `AUTO`, `AUTO:3,6`, or 0, 1, 2.
pub(in crate::query) fn parse_fuzziness(text: &str) -> Option<Fuzziness> {
    let upper = text.trim().to_ascii_uppercase();
    if upper == "AUTO" {
        return Some(Fuzziness::Auto { low: 3, high: 6 });
    }
    if let Some(ends) = upper.strip_prefix("AUTO:") {
        let (low, high) = ends.split_once(',')?;
        let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        return (low <= high).then_some(Fuzziness::Auto { low, high });
    }
    let edits = match upper.parse::<f64>().ok()? {
        edits if edits < 0.0 => return None,
        edits if edits >= 2.0 => 2,
        edits if edits >= 1.0 => 1,
        _ => 0,
    };
    Some(Fuzziness::Edits(edits))
}

/// A scalar as text, without quotes.
pub(crate) fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A float as Java prints it.
pub(crate) fn java_float(value: f32) -> String {
    if value.fract() == 0.0 && value.abs() < 1e7 {
        format!("{value:.1}")
    } else {
        value.to_string()
    }
}
