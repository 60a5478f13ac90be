//! `function_score`, `script_score`, `script` and `distance_feature`.

use serde_json::Value;

use super::compiled::Compiled;
use super::context::Context;
use super::dates::{DateReader, duration_ms};
use super::refusal::{failed_to_create, shard_error};
use super::values::double;
use crate::error::Error;
use crate::geo::{parse_distance_m, parse_point};
use crate::partition::{Kind, Target};
use crate::query::ast::{
    BoostMode, Decay, DecayShape, FunctionKind, FunctionScore, Query, ScoreMode, ValueMode,
};
use crate::query::exec::decay::{NumericDecay, Origin, Shape};
use crate::query::exec::score::{Combination, Compute, ComputedScore, ScoreFunction, modified};
use crate::query::parse::as_text;
use crate::query::script::evaluate::Bound;
use crate::query::script::{Expr, Script};

pub(super) fn compile_function_score(
    context: &Context<'_>,
    spec: &FunctionScore,
) -> Result<Compiled, Error> {
    let inner = spec.query.compiled(context)?;
    if inner.is_none() || (spec.functions.is_empty() && spec.min_score.is_none()) {
        return Ok(inner);
    }
    let mut functions = Vec::with_capacity(spec.functions.len());
    for function in &spec.functions {
        let filter = match &function.filter {
            Some(filter) => {
                let filter = filter.compiled(context)?;
                if filter.is_none() {
                    continue;
                }
                Some(filter.query)
            }
            None => None,
        };
        let compute = match &function.kind {
            None => Compute::One,
            Some(kind) => compute(context, kind)?,
        };
        let weight = f64::from(function.weight.unwrap_or(1.0));
        functions.push(ScoreFunction { filter, weight, compute });
    }
    let boost_mode = if spec.functions.is_empty() { BoostMode::Multiply } else { spec.boost_mode };
    let combination = Combination {
        score_mode: spec.score_mode,
        boost_mode,
        max_boost: f64::from(spec.max_boost),
        min_score: spec.min_score,
        is_script_score: false,
        is_filter: false,
    };
    let run = context.run().clone();
    let inner = inner.into_query();
    Ok(Compiled::scored(ComputedScore { inner, functions, combination, run }))
}

fn compute(context: &Context<'_>, kind: &FunctionKind) -> Result<Compute, Error> {
    Ok(match kind {
        FunctionKind::FieldValueFactor { field, factor, modifier, missing } => {
            match context.resolve(field) {
                Some(resolved) => Compute::FieldValue {
                    target: resolved.target.clone(),
                    field: field.clone(),
                    factor: *factor,
                    modifier: *modifier,
                    missing: *missing,
                },
                None => {
                    let Some(missing) = missing else {
                        let reason = format!("Unable to find a field mapper for field [{field}]");
                        return Err(Error::invalid("exception", reason));
                    };
                    // Every document has the value that stands for none.
                    let source = format!("{missing}");
                    return constant(context, &source, *factor, *modifier, *missing);
                }
            }
        }
        FunctionKind::Random { seed, field } => {
            let seed = seed.map_or(context.now_ms, i64::cast_unsigned);
            let target = match field.as_deref() {
                None | Some("_seq_no" | "_id") => None,
                Some(name) => context.resolve(name).map(|resolved| resolved.target.clone()),
            };
            Compute::Random { seed, target }
        }
        FunctionKind::Decay(decay) => Compute::Decay(bind_decay(context, decay)?),
        FunctionKind::Script(script) => {
            Compute::Script { bound: bind_script(context, script)?, script: script.clone() }
        }
    })
}

/// `field_value_factor` of a field that no document has.
fn constant(
    context: &Context<'_>,
    source: &str,
    factor: f64,
    modifier: crate::query::ast::Modifier,
    missing: f64,
) -> Result<Compute, Error> {
    let value = modified(factor * missing, modifier);
    let tree = std::sync::Arc::new(Expr::Number(value));
    let language = crate::query::script::Language::Expression;
    let script = Script { source: source.to_owned(), language, tree };
    Ok(Compute::Script { bound: bind_script(context, &script)?, script })
}

/// Finds the fields of a script.
pub(crate) fn bind_script(context: &Context<'_>, script: &Script) -> Result<Bound, Error> {
    Bound::new(
        script,
        &mut |name| match context.resolve(name) {
            Some(resolved) => match resolved.target.kind {
                Kind::Text { .. } => Err(Error::illegal_argument(format!(
                    "Text fields are not optimised for operations that require per-document field data like aggregations and sorting, so these operations are disabled by default. Please use a keyword field instead. Alternatively, set fielddata=true on [{name}] in order to load field data by uninverting the inverted index. Note that this can use significant memory."
                ))),
                Kind::Keyword { .. } | Kind::Ip | Kind::Binary => Err(Error::illegal_argument(
                    format!("Field [{name}] must be numeric, date, or geopoint"),
                )),
                _ => Ok(Some(resolved.target.clone())),
            },
            None if context.view.mapping().field(name).is_some() => Ok(None),
            None => Err(script.runtime_error(&format!("No field found for [{name}] in mapping"))),
        },
        &mut |decay| bind_decay(context, decay),
    )
}

/// 400 `parse_exception`.
fn parse_error(reason: impl ToString) -> Error {
    Error::invalid("parse_exception", reason)
}

/// Makes numbers of a decay's origin, scale and offset.
fn bind_decay(context: &Context<'_>, spec: &Decay) -> Result<NumericDecay, Error> {
    let name = &spec.field;
    let Some(resolved) = context.resolve(name) else {
        return Err(Error::parsing(format!("unknown field [{name}]")));
    };
    let target = resolved.target.clone();
    if spec.scale.is_null() {
        let reason = format!("[{name}] [scale] must be set");
        return Err(parse_error(reason));
    }
    match &target.kind {
        Kind::Long | Kind::UnsignedLong | Kind::Double => {
            let origin = spec.origin.as_ref().ok_or_else(|| {
                parse_error("both [scale] and [origin] must be set for numeric fields.")
            })?;
            let origin = double(origin).map_err(failed_to_create)?;
            let scale = double(&spec.scale).map_err(failed_to_create)?;
            let offset = match &spec.offset {
                Some(offset) => double(offset).map_err(failed_to_create)?,
                None => 0.0,
            };
            finish(spec, target, Origin::Number(origin), scale, offset)
        }
        Kind::Date { nanos } => {
            let reader = DateReader::new(context, resolved, *nanos, None, None)?;
            let now = Value::from("now");
            let origin = reader.read(spec.origin.as_ref().unwrap_or(&now), false)?;
            let unit = if *nanos { 1e6 } else { 1.0 };
            let scale = duration_ms(&as_text(&spec.scale), "DecayFunctionParser.scale")? * unit;
            let offset = match &spec.offset {
                Some(Value::Null) | None => 0.0,
                Some(offset) => duration_ms(&as_text(offset), "DecayFunctionParser.offset")? * unit,
            };
            let origin = crate::query::exec::column::AsF64::as_f64(origin);
            finish(spec, target, Origin::Number(origin), scale, offset)
        }
        Kind::GeoPoint { .. } => {
            let origin = spec
                .origin
                .as_ref()
                .ok_or_else(|| parse_error("[origin] must be set for geo fields."))?;
            let origin = parse_point(origin).map_err(parse_error)?;
            let scale = parse_distance_m(&as_text(&spec.scale), None).map_err(parse_error)?;
            let offset = match &spec.offset {
                Some(Value::Null) | None => 0.0,
                Some(offset) => parse_distance_m(&as_text(offset), None).map_err(parse_error)?,
            };
            finish(spec, target, Origin::Place(origin), scale, offset)
        }
        _ => Err(Error::parsing(format!(
            "field [{name}] is of type [{}], but only numeric types are supported.",
            resolved.field.field_type().name()
        ))),
    }
}

fn finish(
    spec: &Decay,
    target: Target,
    origin: Origin,
    scale: f64,
    offset: f64,
) -> Result<NumericDecay, Error> {
    if scale.is_nan() || scale <= 0.0 {
        let name = match spec.shape {
            DecayShape::Gauss => "gauss",
            DecayShape::Exp => "exp",
            DecayShape::Linear => "linear",
        };
        return Err(Error::illegal_argument(format!("{name} : scale must be > 0.0.")));
    }
    if offset < 0.0 {
        return Err(Error::illegal_argument("offset must be > 0.0"));
    }
    let shape = Shape::new(spec.shape, scale, spec.decay);
    Ok(NumericDecay { target, origin, offset, shape, mode: spec.mode })
}

/// A query whose score is a script's.
pub(super) fn compile_script_score(
    context: &Context<'_>,
    query: &Query,
    script: &Script,
    min_score: Option<f32>,
) -> Result<Compiled, Error> {
    let inner = query.compiled(context)?;
    if inner.is_none() {
        return Ok(inner);
    }
    scripted(context, inner, script, min_score, false)
}

/// The documents for which a script gives anything but 0.
pub(super) fn compile_script(context: &Context<'_>, script: &Script) -> Result<Compiled, Error> {
    let filter = scripted(context, Compiled::all(), script, None, true)?;
    Ok(Compiled { query: filter.query, score: Some(1.0) })
}

fn scripted(
    context: &Context<'_>,
    inner: Compiled,
    script: &Script,
    min_score: Option<f32>,
    is_filter: bool,
) -> Result<Compiled, Error> {
    let bound = bind_script(context, script)?;
    let compute = Compute::Script { bound, script: script.clone() };
    let combination = Combination {
        score_mode: ScoreMode::First,
        boost_mode: BoostMode::Replace,
        max_boost: f64::INFINITY,
        min_score,
        is_script_score: true,
        is_filter,
    };
    let functions = vec![ScoreFunction { filter: None, weight: 1.0, compute }];
    let run = context.run().clone();
    let inner = inner.into_query();
    Ok(Compiled::scored(ComputedScore { inner, functions, combination, run }))
}

/// Documents with a date or a place, which score pivot / (pivot + distance).
pub(super) fn compile_distance_feature(
    context: &Context<'_>,
    field: &str,
    origin: &Value,
    pivot: &str,
) -> Result<Compiled, Error> {
    let Some(resolved) = context.resolve(field) else { return Ok(Compiled::none()) };
    if !matches!(resolved.target.kind, Kind::Date { .. } | Kind::GeoPoint { .. }) {
        return Err(shard_error(format!(
            "Illegal data type of [{}]![distance_feature] query can only be run on a date, date_nanos or geo_point field type!",
            resolved.field.field_type().name()
        )));
    }
    let spec = Decay {
        shape: DecayShape::Linear,
        field: field.to_owned(),
        origin: Some(origin.clone()),
        scale: Value::from(pivot),
        offset: None,
        decay: 0.5,
        mode: ValueMode::Min,
    };
    let mut decay = bind_decay(context, &spec)?;
    decay.shape = decay.shape.into_pivot();
    let combination = Combination {
        score_mode: ScoreMode::First,
        boost_mode: BoostMode::Replace,
        max_boost: f64::INFINITY,
        min_score: None,
        is_script_score: false,
        is_filter: false,
    };
    let functions =
        vec![ScoreFunction { filter: None, weight: 1.0, compute: Compute::Decay(decay) }];
    let run = context.run().clone();
    let inner = super::term_level::compile_exists(context, field).into_query();
    Ok(Compiled::scored(ComputedScore { inner, functions, combination, run }))
}
