//! How a setting that is a time is read.

use serde_json::Value;

/// A setting that is a time, ms: a number with a unit, or of ms. `None` where it is neither.
pub(crate) fn setting_ms(setting: &Value) -> Option<u64> {
    let setting = match setting {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let unit_at = setting.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(setting.len());
    let (number, unit) = setting.split_at(unit_at);
    let number: u64 = number.trim().parse().ok()?;
    match unit.trim() {
        "" | "ms" => Some(number),
        "s" => Some(number.saturating_mul(1_000)),
        "m" => Some(number.saturating_mul(60_000)),
        "h" => Some(number.saturating_mul(3_600_000)),
        "d" => Some(number.saturating_mul(86_400_000)),
        _ => None,
    }
}
