//! The operators of `simple_query_string` that are switched on and off by name.

pub(crate) const AND: u32 = 1;
pub(crate) const NOT: u32 = 2;
pub(crate) const OR: u32 = 4;
pub(crate) const PREFIX: u32 = 8;
pub(crate) const PHRASE: u32 = 16;
pub(crate) const PRECEDENCE: u32 = 32;
pub(crate) const ESCAPE: u32 = 64;
pub(crate) const WHITESPACE: u32 = 128;
pub(crate) const FUZZY: u32 = 256;
pub(crate) const SLOP: u32 = 512;

/// All operators.
pub(crate) const ALL: u32 = 1023;

/// A name is none of an operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Unknown simple_query_string flag [{0}]")]
pub(crate) struct UnknownFlag(String);

/// Reads `OR|AND|PREFIX`.
pub(crate) fn parse(text: &str) -> Result<u32, UnknownFlag> {
    let mut flags = 0;
    for name in text.split('|').map(str::trim).filter(|name| !name.is_empty()) {
        flags |= match name.to_ascii_uppercase().as_str() {
            "ALL" => return Ok(ALL),
            "NONE" => return Ok(0),
            "AND" => AND,
            "NOT" => NOT,
            "OR" => OR,
            "PREFIX" => PREFIX,
            "PHRASE" => PHRASE,
            "PRECEDENCE" => PRECEDENCE,
            "ESCAPE" => ESCAPE,
            "WHITESPACE" => WHITESPACE,
            "FUZZY" | "NEAR" => FUZZY,
            "SLOP" => SLOP,
            other => return Err(UnknownFlag(other.to_owned())),
        };
    }
    Ok(flags)
}
