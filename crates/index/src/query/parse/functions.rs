//! `function_score`, `script_score`, `script` and `distance_feature`.

use serde_json::{Map, Value};

use super::{Body, as_text, query};
use crate::query::ast::{
    BoostMode, Decay, DecayShape, Function, FunctionKind, FunctionScore, Kind, Modifier, Query,
    ScoreMode, ValueMode,
};
use crate::query::limits;
use crate::query::problem::{Parsed, Problem};
use crate::query::script::Script;

pub(super) fn parse_function_score(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let mut whole = FunctionScore {
        query: Query::match_all(),
        functions: Vec::new(),
        score_mode: ScoreMode::Multiply,
        boost_mode: BoostMode::Multiply,
        max_boost: f32::MAX,
        min_score: None,
    };
    let mut single = Function { filter: None, weight: None, kind: None };
    let mut has_single = false;
    let mut has_list = false;
    for (key, value) in body.map {
        match key.as_str() {
            "query" | "filter" => whole.query = query(value, body.depth + 1)?,
            "score_mode" | "scoreMode" => whole.score_mode = score_mode(value)?,
            "boost_mode" | "boostMode" => whole.boost_mode = boost_mode(value)?,
            "max_boost" | "maxBoost" => whole.max_boost = body.f32(value)?,
            "min_score" | "minScore" => whole.min_score = Some(body.f32(value)?),
            "functions" => {
                has_list = true;
                let Value::Array(items) = value else {
                    let reason =
                        "failed to parse [function_score] query. array required for [functions]";
                    return Err(Problem::parsing(value, reason));
                };
                if items.len() > limits::FUNCTION_COUNT_MAX {
                    return Err(Problem::illegal("too many functions in [function_score]"));
                }
                for item in items {
                    whole.functions.push(function(body, item)?);
                }
            }
            "weight" => {
                single.weight = Some(body.f32(value)?);
                has_single = true;
            }
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => {
                let kind = function_kind(body, key, value)?
                    .ok_or_else(|| unknown_function(body, key, value))?;
                if single.kind.is_some() {
                    let reason = format!(
                        "failed to parse [function_score] query. already found function, now encountering [{key}]. use [functions] array if you want to define several functions."
                    );
                    return Err(Problem::parsing(value, reason));
                }
                single.kind = Some(kind);
                has_single = true;
            }
        }
    }
    if has_single && has_list {
        let reason = "failed to parse [function_score] query. already found [functions] array, now encountering a single function.";
        return Err(Problem::parsing(body.node, reason));
    }
    if has_single {
        whole.functions.push(single);
    }
    parsed.kind = Kind::FunctionScore(Box::new(whole));
    Ok(parsed)
}

fn unknown_function(body: &Body<'_>, key: &str, value: &Value) -> Box<Problem> {
    if value.is_object() {
        let reason = format!("unknown function [{key}]");
        return Problem::parsing(value, reason);
    }
    let name = body.name;
    Problem::parsing(
        value,
        format!("failed to parse [{name}] query. field [{key}] is not supported"),
    )
}

fn function(body: &Body<'_>, node: &Value) -> Parsed<Function> {
    let Value::Object(map) = node else {
        let reason = "failed to parse [function_score]. malformed query, expected a [START_OBJECT] while parsing functions";
        return Err(Problem::parsing(node, reason));
    };
    let mut function = Function { filter: None, weight: None, kind: None };
    for (key, value) in map {
        match key.as_str() {
            "filter" => function.filter = Some(query(value, body.depth + 1)?),
            "weight" => function.weight = Some(body.f32(value)?),
            _ => {
                let kind = function_kind(body, key, value)?
                    .ok_or_else(|| unknown_function(body, key, value))?;
                if function.kind.is_some() {
                    let reason = "failed to parse function_score functions. already found function, now encountering another";
                    return Err(Problem::parsing(value, reason));
                }
                function.kind = Some(kind);
            }
        }
    }
    if function.kind.is_none() && function.weight.is_none() {
        let reason = "failed to parse [function_score] query. an entry in functions list is missing a function.";
        return Err(Problem::parsing(node, reason));
    }
    Ok(function)
}

fn function_kind(body: &Body<'_>, key: &str, node: &Value) -> Parsed<Option<FunctionKind>> {
    let shape = match key {
        "gauss" => Some(DecayShape::Gauss),
        "exp" => Some(DecayShape::Exp),
        "linear" => Some(DecayShape::Linear),
        _ => None,
    };
    if let Some(shape) = shape {
        return Ok(Some(FunctionKind::Decay(Box::new(decay(body, shape, key, node)?))));
    }
    let object = |node: &Value| match node {
        Value::Object(map) => Ok(map.clone()),
        _ => Err(body.unexpected(key, node)),
    };
    Ok(Some(match key {
        "field_value_factor" => field_value_factor(body, node, &object(node)?)?,
        "random_score" => random(&object(node)?)?,
        "script_score" => {
            let map = object(node)?;
            let script = map
                .get("script")
                .ok_or_else(|| Problem::parsing(node, "script_score requires 'script' field"))?;
            FunctionKind::Script(Script::parse(script)?)
        }
        _ => return Ok(None),
    }))
}

fn field_value_factor(
    body: &Body<'_>,
    node: &Value,
    map: &Map<String, Value>,
) -> Parsed<FunctionKind> {
    let mut field = None;
    let (mut factor, mut modifier, mut missing) = (1.0, Modifier::None, None);
    for (key, value) in map {
        match key.as_str() {
            "field" => field = Some(as_text(value)),
            "factor" => factor = body.f64(value)?,
            "missing" => missing = Some(body.f64(value)?),
            "modifier" => {
                modifier = match as_text(value).to_ascii_lowercase().as_str() {
                    "none" => Modifier::None,
                    "log" => Modifier::Log,
                    "log1p" => Modifier::Log1p,
                    "log2p" => Modifier::Log2p,
                    "ln" => Modifier::Ln,
                    "ln1p" => Modifier::Ln1p,
                    "ln2p" => Modifier::Ln2p,
                    "square" => Modifier::Square,
                    "sqrt" => Modifier::Sqrt,
                    "reciprocal" => Modifier::Reciprocal,
                    other => {
                        return Err(Problem::illegal(format!(
                            "No enum constant [{other}] for modifier"
                        )));
                    }
                }
            }
            _ => {
                let reason = format!("field_value_factor query does not support [{key}]");
                return Err(Problem::parsing(value, reason));
            }
        }
    }
    let field = field.ok_or_else(|| {
        Problem::parsing(node, "[field_value_factor] required field 'field' missing")
    })?;
    Ok(FunctionKind::FieldValueFactor { field, factor, modifier, missing })
}

fn random(map: &Map<String, Value>) -> Parsed<FunctionKind> {
    let (mut seed, mut field) = (None, None);
    for (key, value) in map {
        match key.as_str() {
            "seed" => {
                seed = match value {
                    Value::Number(number) => number.as_i64(),
                    // As Java hashes a string.
                    Value::String(text) => {
                        Some(i64::from(text.encode_utf16().fold(0i32, |hash, unit| {
                            hash.wrapping_mul(31).wrapping_add(i32::from(unit))
                        })))
                    }
                    Value::Null => None,
                    _ => {
                        let reason = "random_score seed must be an int/long or string";
                        return Err(Problem::parsing(value, reason));
                    }
                }
            }
            "field" => field = Some(as_text(value)),
            _ => {
                let reason = format!("random_score query does not support [{key}]");
                return Err(Problem::parsing(value, reason));
            }
        }
    }
    Ok(FunctionKind::Random { seed, field })
}

fn decay(body: &Body<'_>, shape: DecayShape, name: &str, node: &Value) -> Parsed<Decay> {
    let Value::Object(map) = node else { return Err(body.unexpected(name, node)) };
    let mut mode = ValueMode::Min;
    let mut found: Option<(&str, &Map<String, Value>)> = None;
    for (key, value) in map {
        match value {
            _ if key == "multi_value_mode" => mode = value_mode(value)?,
            Value::Object(inner) => {
                if found.is_some() {
                    let reason = format!(
                        "malformed score function score parameters. [{name}] has more than one field"
                    );
                    return Err(Problem::parsing(value, reason));
                }
                found = Some((key, inner));
            }
            _ => {
                return Err(Problem::parsing(value, "malformed score function score parameters."));
            }
        }
    }
    let Some((field, inner)) = found else {
        return Err(Problem::parsing(node, "malformed score function score parameters."));
    };
    let mut parsed = Decay {
        shape,
        field: field.to_owned(),
        origin: None,
        scale: Value::Null,
        offset: None,
        decay: 0.5,
        mode,
    };
    for (key, value) in inner {
        match key.as_str() {
            "origin" => parsed.origin = Some(value.clone()),
            "scale" => parsed.scale = value.clone(),
            "offset" => parsed.offset = Some(value.clone()),
            "decay" => parsed.decay = body.f64(value)?,
            _ => {
                let reason = format!("parameter [{key}] not supported!");
                return Err(Problem::at(
                    value,
                    crate::error::Error::invalid("parse_exception", reason),
                ));
            }
        }
    }
    if parsed.decay <= 0.0 || parsed.decay >= 1.0 {
        let reason = format!("{name} : decay must be in the range (0..1).");
        return Err(Problem::illegal(reason));
    }
    Ok(parsed)
}

pub(crate) fn value_mode(value: &Value) -> Parsed<ValueMode> {
    Ok(match as_text(value).to_ascii_lowercase().as_str() {
        "min" => ValueMode::Min,
        "max" => ValueMode::Max,
        "avg" => ValueMode::Avg,
        "sum" => ValueMode::Sum,
        "median" => ValueMode::Median,
        other => {
            let reason = format!("Unknown SortMode [{other}]");
            return Err(Problem::illegal(reason));
        }
    })
}

fn score_mode(value: &Value) -> Parsed<ScoreMode> {
    Ok(match as_text(value).to_ascii_lowercase().as_str() {
        "multiply" => ScoreMode::Multiply,
        "sum" => ScoreMode::Sum,
        "avg" => ScoreMode::Avg,
        "first" => ScoreMode::First,
        "max" => ScoreMode::Max,
        "min" => ScoreMode::Min,
        other => {
            let reason = format!("illegal score_mode [{other}]");
            return Err(Problem::illegal(reason));
        }
    })
}

fn boost_mode(value: &Value) -> Parsed<BoostMode> {
    Ok(match as_text(value).to_ascii_lowercase().as_str() {
        "multiply" => BoostMode::Multiply,
        "replace" => BoostMode::Replace,
        "sum" => BoostMode::Sum,
        "avg" => BoostMode::Avg,
        "max" => BoostMode::Max,
        "min" => BoostMode::Min,
        other => {
            let reason = format!("illegal boost_mode [{other}]");
            return Err(Problem::illegal(reason));
        }
    })
}

pub(super) fn parse_script_score(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let (mut inner, mut script, mut min_score) = (None, None, None);
    for (key, value) in body.map {
        match key.as_str() {
            "query" => inner = Some(query(value, body.depth + 1)?),
            "script" => script = Some(Script::parse(value)?),
            "min_score" => min_score = Some(body.f32(value)?),
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let (Some(inner), Some(script)) = (inner, script) else {
        let reason = "Required [query, script] in [script_score]";
        return Err(Problem::illegal(reason));
    };
    parsed.kind = Kind::ScriptScore { query: Box::new(inner), script, min_score };
    Ok(parsed)
}

pub(super) fn parse_script(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let mut script = None;
    for (key, value) in body.map {
        match key.as_str() {
            "script" => script = Some(Script::parse(value)?),
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let script = script.ok_or_else(|| {
        Problem::parsing(body.node, "script must be provided with a [script] filter")
    })?;
    parsed.kind = Kind::Script(script);
    Ok(parsed)
}

pub(super) fn parse_distance_feature(body: &Body<'_>) -> Parsed<Query> {
    let mut parsed = Query::of(Kind::MatchNone);
    let (mut field, mut origin, mut pivot) = (None, None, None);
    for (key, value) in body.map {
        match key.as_str() {
            "field" => field = Some(body.text(key, value)?),
            "origin" => origin = Some(value.clone()),
            "pivot" => pivot = Some(body.text(key, value)?),
            _ if body.shared(&mut parsed, key, value)? => {}
            _ => return Err(body.unsupported(key, value)),
        }
    }
    let (Some(field), Some(origin), Some(pivot)) = (field, origin, pivot) else {
        return Err(Problem::illegal("Required [field, origin, pivot] in [distance_feature]"));
    };
    parsed.kind = Kind::DistanceFeature { field, origin, pivot };
    Ok(parsed)
}
