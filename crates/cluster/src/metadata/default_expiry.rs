//! A table's default expiry, `index.default_ttl`: how long after it is made a key expires that nobody gives
//! another expiry. An index has it among its settings, a database that is no index in its definition
//! (`routing/default_expiry.rs` changes that). Writes come to carry it in `routing/submit.rs`; what it does to
//! rows is `storage::operation`'s.

use plimsoll_index::Error;
use serde_json::{Map, Value};

use crate::metadata::setting::setting_ms;
use crate::metadata::version;
use crate::metadata::version::ClusterVersion;

/// The setting.
pub const DEFAULT_TTL: &str = "index.default_ttl";
/// The longest: a thousand years.
const MS_MAX: u64 = 1_000 * 365 * 86_400_000;

/// What the setting says, ms; 0 is never.
///
/// # Errors
/// 400 for what is no time, or a longer one than a thousand years.
pub fn parse(setting: &Value) -> Result<u64, Error> {
    let shown = setting.as_str().map_or_else(|| setting.to_string(), str::to_owned);
    if shown == "-1" || setting.is_null() {
        return Ok(0);
    }
    setting_ms(setting).filter(|ms| *ms <= MS_MAX).ok_or_else(|| {
        Error::illegal_argument(format!(
            "failed to parse setting [{DEFAULT_TTL}] with value [{shown}]: a time such as [30s], [12h] or \
             [7d] of at most a thousand years, or [-1] for none"
        ))
    })
}

/// Checks settings that an index is about to have.
///
/// # Errors
/// 400 for a default expiry that is no time, or that nodes do not know yet.
pub(crate) fn check(version: &ClusterVersion, settings: &Map<String, Value>) -> Result<(), Error> {
    match settings.get(DEFAULT_TTL) {
        None | Some(Value::Null) => Ok(()),
        Some(setting) => parse(setting).and_then(|_| check_version(version)),
    }
}

/// Whether all nodes know default expiries.
///
/// # Errors
/// 400 where they do not yet.
pub(crate) fn check_version(version: &ClusterVersion) -> Result<(), Error> {
    if version.allows(version::DEFAULT_EXPIRY) {
        return Ok(());
    }
    Err(Error::illegal_argument(format!(
        "[{DEFAULT_TTL}] is refused until every node of the cluster knows it: it came with version {} of \
         the cluster",
        version::DEFAULT_EXPIRY
    )))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_default_expiry_is_a_time_or_none() {
        for (setting, ms) in [
            (json!("30s"), 30_000),
            (json!("7d"), 604_800_000),
            (json!("1500"), 1_500),
            (json!(1_500), 1_500),
            (json!("-1"), 0),
            (json!(null), 0),
        ] {
            assert_eq!(parse(&setting).unwrap(), ms, "{setting}");
        }
        for setting in [json!("soon"), json!("9999999d"), json!(-5), json!("1.5h"), json!([1])] {
            assert_eq!(
                parse(&setting).unwrap_err().class,
                plimsoll_index::ErrorClass::Invalid,
                "{setting}"
            );
        }
    }
}
