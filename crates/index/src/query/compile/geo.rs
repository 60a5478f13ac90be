//! `geo_distance` and `geo_bounding_box`.

use super::compiled::Compiled;
use super::context::Context;
use super::refusal::shard_error;
use crate::error::Error;
use crate::geo::circle::Circle;
use crate::partition::{Kind, Target};
use crate::query::ast::{GeoBoundingBox, GeoDistance};
use crate::query::exec::filter::FilterQuery;
use crate::query::exec::geo::{Area, Inside};

/// The target of a geo query; none where it is not mapped and that is no error.
fn geo_target<'a>(
    context: &Context<'a>,
    field: &str,
    query: &str,
    ignore_unmapped: bool,
) -> Result<Option<&'a Target>, Error> {
    match context.resolve(field) {
        None if ignore_unmapped => Ok(None),
        None => match context.view.mapping().field(field) {
            Some(_) => Ok(None),
            None => Err(shard_error(format!("failed to find geo field [{field}]"))),
        },
        Some(resolved) => match resolved.target.kind {
            Kind::GeoPoint { .. } => Ok(Some(resolved.target)),
            _ => Err(shard_error(format!(
                "type [{}] for field [{field}] is not supported for [{query}] queries. Must be one of [geo_point] or [geo_shape]",
                resolved.field.field_type().name()
            ))),
        },
    }
}

fn inside(target: Option<&Target>, area: Area) -> Compiled {
    match target {
        Some(target) => {
            let filter = Inside { target: target.clone(), area };
            Compiled { query: FilterQuery::boxed(filter), score: Some(1.0) }
        }
        None => Compiled::none(),
    }
}

pub(super) fn compile_distance(
    context: &Context<'_>,
    spec: &GeoDistance,
) -> Result<Compiled, Error> {
    let target = geo_target(context, &spec.field, "geo_distance", spec.ignore_unmapped)?;
    Ok(inside(target, Area::Circle(Circle::new(spec.center, spec.distance_m))))
}

pub(super) fn compile_box(
    context: &Context<'_>,
    edges: &GeoBoundingBox,
) -> Result<Compiled, Error> {
    let target = geo_target(context, &edges.field, "geo_bounding_box", edges.ignore_unmapped)?;
    let GeoBoundingBox { top, left, bottom, right, .. } = *edges;
    Ok(inside(target, Area::Box { top, left, bottom, right }))
}
