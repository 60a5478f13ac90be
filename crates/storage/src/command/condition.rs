//! Conditions on what a string is, before it is set or deleted (`IFEQ`, `IFNE`, `IFDEQ`, `IFDNE`), and its
//! digest: XXH3-64 of its bytes as 16 hexadecimal digits, as Redis 8.4 has them.

use xxhash_rust::xxh3::xxh3_64;

use crate::ErrorReply;

/// Digits of a digest.
const DIGEST_DIGITS: usize = 16;

/// How a string is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// It has these bytes.
    Equal,
    /// It has others.
    Different,
    /// It has this digest.
    DigestEqual,
    /// It has another.
    DigestDifferent,
}

impl Comparison {
    /// The options that name them.
    pub const NAMES: &'static [(&'static str, Self)] = &[
        ("IFEQ", Self::Equal),
        ("IFNE", Self::Different),
        ("IFDEQ", Self::DigestEqual),
        ("IFDNE", Self::DigestDifferent),
    ];
}

/// What a string must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// How it is compared.
    pub comparison: Comparison,
    /// With what; a digest is read once there is a string to compare, as Redis does.
    pub with: &'a [u8],
}

impl Condition<'_> {
    /// Whether it holds of a key that is not there.
    #[must_use]
    pub fn holds_of_nothing(&self) -> bool {
        matches!(self.comparison, Comparison::Different | Comparison::DigestDifferent)
    }

    /// Whether it holds of a string.
    ///
    /// # Errors
    /// Where what should be a digest has another length than one.
    pub fn holds(&self, value: &[u8]) -> Result<bool, ErrorReply> {
        Ok(match self.comparison {
            Comparison::Equal => value == self.with,
            Comparison::Different => value != self.with,
            Comparison::DigestEqual => self.has_digest(value)?,
            Comparison::DigestDifferent => !self.has_digest(value)?,
        })
    }

    fn has_digest(&self, value: &[u8]) -> Result<bool, ErrorReply> {
        if self.with.len() != DIGEST_DIGITS {
            return Err(ErrorReply::err("must be exactly 16 hexadecimal characters"));
        }
        Ok(digest(value).as_bytes().eq_ignore_ascii_case(self.with))
    }
}

/// The digest of a string.
#[must_use]
pub fn digest(value: &[u8]) -> String {
    format!("{:016x}", xxh3_64(value))
}
