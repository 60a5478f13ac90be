//! A script's tree once its fields are known. What its values are is `types`', what they come to `evaluate`'s.

use super::{Function, Operator, Part};
use crate::partition::Target;
use crate::query::exec::decay::NumericDecay;

/// A node whose fields are targets.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Number(f64),
    Whole(f64),
    Truth(bool),
    Score,
    Field { target: Option<Target>, part: Part },
    Decay(Box<NumericDecay>),
    Negate(Box<Node>),
    Not(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    Choose(Box<Node>, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}
