//! What a client's mapping may not ask for, though a mapping that is kept may have it from before.

use serde_json::Value;

use crate::Error;

/// Checks a mapping that a client sends.
///
/// Objects of type `nested` were flattened once, which answers queries over several fields of
/// them wrongly. They are refused until they are documents of their own; an index that has them
/// already stays as it is.
///
/// # Errors
/// 400 `mapper_parsing_exception`, naming the type and the field.
pub fn check_supported(mapping: &Value) -> Result<(), Error> {
    object(mapping, "")
}

fn object(body: &Value, path: &str) -> Result<(), Error> {
    if body.get("type").is_some_and(|kind| kind == "nested") {
        return Err(Error::mapper_parsing(format!(
            "the type [nested] of the field [{path}] is not supported"
        )));
    }
    for (name, inner) in body.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        object(inner, &path)?;
    }
    for template in body.get("dynamic_templates").and_then(Value::as_array).into_iter().flatten() {
        for (name, rule) in template.as_object().into_iter().flatten() {
            if let Some(mapping) = rule.get("mapping") {
                object(mapping, &format!("dynamic template {name}"))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_objects_are_refused_by_name() {
        let refused = |mapping: Value| check_supported(&mapping).unwrap_err().reason;
        let nested = json!({"type": "nested", "properties": {"x": {"type": "long"}}});
        let expected = "the type [nested] of the field [o.c] is not supported";
        assert_eq!(refused(json!({"properties": {"o": {"properties": {"c": nested}}}})), expected);
        let rule = json!({"dynamic_templates": [{"all": {"match": "*", "mapping": nested}}]});
        assert!(refused(rule).contains("dynamic template all"));
        let plain = json!({"properties": {"nested": {"type": "object"}, "type": {"type": "long"}}});
        assert_eq!(check_supported(&plain), Ok(()));
    }
}
