//! Computes a script once, over variables: what aggregations do with the values of a bucket.

use super::evaluate::truth;
use super::{Expr, Operator, Script};

impl Script {
    /// The value, by those of its variables; truth is 1, falsehood 0, and what is not there is not a number.
    pub(crate) fn of_variables(&self, variable: &dyn Fn(&str) -> Option<f64>) -> f64 {
        value(&self.tree, &|leaf| match leaf {
            Expr::Variable(name) => variable(name).unwrap_or(f64::NAN),
            // Of a document, and there is none.
            _ => f64::NAN,
        })
    }
}

/// The value, by those of what is no constant and has nothing below it.
pub(super) fn value(expr: &Expr, leaf: &dyn Fn(&Expr) -> f64) -> f64 {
    let value = |expr: &Expr| value(expr, leaf);
    match expr {
        Expr::Number(number) | Expr::Whole(number) => *number,
        Expr::Truth(is_true) => truth(*is_true),
        Expr::Variable(_) | Expr::Score | Expr::Field { .. } | Expr::Decay(_) => leaf(expr),
        Expr::Negate(inner) => -value(inner),
        Expr::Not(inner) => truth(value(inner) == 0.0),
        Expr::Choose(test, yes, no) => value(if value(test) == 0.0 { no } else { yes }),
        Expr::Call(function, arguments) => {
            let arguments: Vec<f64> = arguments.iter().map(|argument| value(argument)).collect();
            function.apply(&arguments)
        }
        Expr::Binary(operator, left, right) => binary(*operator, value(left), value(right)),
    }
}

fn binary(operator: Operator, left: f64, right: f64) -> f64 {
    match operator {
        Operator::Add => left + right,
        Operator::Subtract => left - right,
        Operator::Multiply => left * right,
        Operator::Divide => left / right,
        Operator::Remainder => left % right,
        Operator::Less => truth(left < right),
        Operator::LessEqual => truth(left <= right),
        Operator::Greater => truth(left > right),
        Operator::GreaterEqual => truth(left >= right),
        #[expect(clippy::float_cmp, reason = "a script asks for equal numbers")]
        Operator::Equal => truth(left == right),
        #[expect(clippy::float_cmp, reason = "a script asks for equal numbers")]
        Operator::NotEqual => truth(left != right),
        Operator::And => truth(left != 0.0 && right != 0.0),
        Operator::Or => truth(left != 0.0 || right != 0.0),
    }
}
