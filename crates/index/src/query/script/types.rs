//! Whether a script's values are whole numbers, numbers with a fraction or truth values. Everything
//! is computed with doubles; this says how a value is shown, and where a division leaves no fraction.

use super::node::Node;
use super::{Function, Operator, Part};
use crate::partition::Kind;

/// What a value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Whole,
    Double,
    Truth,
}

/// Gives the type of a node, as painless has it, and cuts off the fractions of the divisions below
/// whose two sides are whole numbers.
pub(super) fn give_types(node: &mut Node) -> Type {
    let found = match node {
        Node::Whole(_) => Type::Whole,
        Node::Truth(_) => Type::Truth,
        Node::Number(_) | Node::Score | Node::Decay(_) => Type::Double,
        Node::Field { part: Part::Count | Part::Millis, .. } => Type::Whole,
        Node::Field { target: None, .. } | Node::Field { part: Part::Lat | Part::Lon, .. } => {
            Type::Double
        }
        Node::Field { target: Some(target), part: Part::Value } => match target.kind {
            Kind::Long | Kind::UnsignedLong | Kind::Date { .. } => Type::Whole,
            Kind::Boolean => Type::Truth,
            _ => Type::Double,
        },
        Node::Negate(inner) => whole_if(give_types(inner) == Type::Whole),
        Node::Not(inner) => {
            give_types(inner);
            Type::Truth
        }
        Node::Binary(operator, left, right) => {
            let (left, right) = (give_types(left), give_types(right));
            match operator {
                Operator::Add
                | Operator::Subtract
                | Operator::Multiply
                | Operator::Divide
                | Operator::Remainder => whole_if(left == Type::Whole && right == Type::Whole),
                _ => Type::Truth,
            }
        }
        Node::Choose(test, yes, no) => {
            give_types(test);
            let (yes, no) = (give_types(yes), give_types(no));
            if yes == no { yes } else { Type::Double }
        }
        Node::Call(function, arguments) => {
            // Every argument gets its type, whatever the first ones are.
            let whole = arguments
                .iter_mut()
                .filter_map(|node| (give_types(node) == Type::Whole).then_some(()));
            let all_whole = whole.count() == arguments.len();
            match function {
                Function::Round | Function::Truncate => Type::Whole,
                Function::Abs | Function::Min | Function::Max => whole_if(all_whole),
                _ => Type::Double,
            }
        }
    };
    if found == Type::Whole && matches!(node, Node::Binary(Operator::Divide, ..)) {
        let quotient = std::mem::replace(node, Node::Score);
        *node = Node::Call(Function::Truncate, vec![quotient]);
    }
    found
}

fn whole_if(is_whole: bool) -> Type {
    if is_whole { Type::Whole } else { Type::Double }
}
