//! Why a script ends before its end. Clients see the words as the cause of a `script_exception`.

use super::budget::{BudgetError, DEPTH_MAX};

/// Why a script fails while it runs. Values stand in it in brief.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum RunError {
    /// It takes more than a script may.
    #[error(transparent)]
    Budget(#[from] BudgetError),
    /// A name is none of what scripts know.
    #[error("[{0}] is not supported in scripts")]
    Unknown(String),
    /// A method is not there for a value of this kind, or not with these arguments.
    #[error("the method [{0}] is not supported here")]
    NoMethod(String),
    /// The same of a method that changes what it is called of.
    #[error("[{0}] is not supported here")]
    NoChange(String),
    /// A method is there for lists alone.
    #[error("[{0}] needs a list")]
    NeedsList(String),
    /// A method is there for objects alone.
    #[error("[{0}] needs an object")]
    NeedsObject(String),
    /// A name is no variable's.
    #[error("cannot assign to [{0}]")]
    Unassignable(String),
    /// The left side of an assignment is something computed.
    #[error("only a variable or a field can be assigned to")]
    NoTarget,
    /// What is to have a part set has no such parts.
    #[error("there is nothing to set [{0}] of")]
    NothingToSet(String),
    /// A name is no variable's, whose value could be changed.
    #[error("[{0}] cannot be changed")]
    Unchangeable(String),
    /// What is to be changed is something computed.
    #[error("only a variable or a field can be changed")]
    NoPlace,
    /// What is to be changed is not there.
    #[error("there is no [{0}] to change")]
    NothingToChange(String),
    /// What is to be read is not there.
    #[error("there is no [{0}] to read")]
    NothingToRead(String),
    /// A list has no such item.
    #[error("index [{at}] is out of bounds for length {length}")]
    OutOfBounds {
        /// What was given as the item's place.
        at: String,
        /// How many items there are.
        length: usize,
    },
    /// What reads documents would stop before its innermost level.
    #[error("a value is nested deeper than {DEPTH_MAX} levels")]
    TooDeep,
    /// A string is longer than so many bytes.
    #[error("a string is longer than {0} bytes")]
    TextTooLong(usize),
    /// A condition is something else than true or false.
    #[error("[{0}] is neither true nor false")]
    NotBoolean(String),
    /// A value has nothing that corresponds to it in a type.
    #[error("[{value}] cannot be made [{kind}]")]
    Cast {
        /// The value.
        value: String,
        /// The type.
        kind: String,
    },
    /// An operator is not there for such values.
    #[error("cannot apply [{operator}] to [{left}] and [{right}]")]
    Operator {
        /// The operator.
        operator: String,
        /// What stands before it.
        left: String,
        /// What stands after it.
        right: String,
    },
    /// A whole number is divided by zero; Java's words.
    #[error("/ by zero")]
    ByZero,
    /// A result is no number that JSON has.
    #[error("[{operator}] comes to [{value}]")]
    NotFinite {
        /// The operator.
        operator: String,
        /// What it comes to.
        value: f64,
    },
}
