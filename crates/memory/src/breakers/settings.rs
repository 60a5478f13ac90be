//! What of the breakers is set. Who sets it, and what a limit leads to, is not looked at.

use crate::machine::machine;

/// A limit: a part of all memory that there is, bytes, or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Percent, 0 to 100.
    Percent(f64),
    /// Bytes.
    Bytes(u64),
    /// No limit: `-1`.
    None,
}

impl Limit {
    /// In bytes; a limit that there is none of is larger than any memory.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "of 0 to 100 %")]
    pub fn bytes(self) -> u64 {
        const MOST: u64 = i64::MAX as u64;
        match self {
            Self::Percent(percent) => {
                (machine().total_bytes as f64 * percent.clamp(0.0, 100.0) / 100.0) as u64
            }
            Self::Bytes(bytes) => bytes.min(MOST),
            Self::None => MOST,
        }
    }
}

/// Whether requests are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Type {
    /// They are.
    Memory = 0,
    /// They are not: no account is entered and none is asked for.
    Noop = 1,
    /// Each is drawn at random to one or the other, so that both are measured under the same
    /// load.
    Drawn = 2,
}

/// What is set, all of it dynamic. Defaults are Elasticsearch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// `indices.breaker.total.limit`
    pub total: Limit,
    /// `indices.breaker.request.limit`
    pub request: Limit,
    /// `indices.breaker.request.overhead`
    pub request_overhead: f64,
    /// `indices.breaker.request.type`
    pub request_type: Type,
    /// `indices.breaker.fielddata.limit`
    pub fielddata: Limit,
    /// `indices.breaker.fielddata.overhead`
    pub fielddata_overhead: f64,
    /// `indices.breaker.accounting.limit`
    pub accounting: Limit,
    /// `indices.breaker.accounting.overhead`
    pub accounting_overhead: f64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            total: Limit::Percent(95.0),
            request: Limit::Percent(60.0),
            request_overhead: 1.0,
            request_type: Type::Memory,
            fielddata: Limit::Percent(40.0),
            fielddata_overhead: 1.03,
            accounting: Limit::Percent(100.0),
            accounting_overhead: 1.0,
        }
    }
}
