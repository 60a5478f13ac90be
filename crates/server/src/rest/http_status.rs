//! The HTTP status of each class of errors.

use plimsoll_index::{Error, ErrorClass};

/// What is answered with a status of HTTP.
pub trait HttpStatus {
    /// The status: 400 to 599.
    fn status(&self) -> u16;
}

impl HttpStatus for Error {
    fn status(&self) -> u16 {
        match self.class {
            ErrorClass::Invalid => 400,
            ErrorClass::Unauthenticated => 401,
            ErrorClass::Forbidden => 403,
            ErrorClass::NotFound => 404,
            ErrorClass::NotAcceptable => 406,
            ErrorClass::Conflict => 409,
            ErrorClass::TooLarge => 413,
            ErrorClass::Unsupported => 415,
            ErrorClass::Overloaded => 429,
            ErrorClass::Internal => 500,
            ErrorClass::BadAnswer => 502,
            ErrorClass::Unavailable => 503,
            ErrorClass::TimedOut => 504,
        }
    }
}
