//! The scripts of `bucket_script` and `bucket_selector`: arithmetic over values of a bucket, as
//! `params.name` or `name`. What may stand in one is `query/script`'s.

use rustc_hash::FxHashMap;
use serde_json::Value;

use crate::Error;
use crate::query::script::Script as Tree;

/// A script that was read.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    tree: Tree,
    params: FxHashMap<String, f64>,
}

impl Script {
    /// Reads a script: a string, or an object with `source` (or `inline`), `lang` and `params`.
    ///
    /// # Errors
    /// 400 `script_exception` where it is not such arithmetic.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let mut params = FxHashMap::default();
        let source = match value {
            Value::String(source) => source.as_str(),
            Value::Object(map) => {
                if let Some(Value::Object(given)) = map.get("params") {
                    for (name, value) in given {
                        if let Some(value) = value.as_f64() {
                            params.insert(name.clone(), value);
                        }
                    }
                }
                let source = map.get("source").or_else(|| map.get("inline"));
                source.and_then(Value::as_str).unwrap_or_default()
            }
            _ => "",
        };
        Ok(Self { tree: Tree::over_variables(source)?, params })
    }

    /// The value, by the values of its variables; truth is 1, falsehood 0.
    pub(crate) fn evaluate(&self, variable: &dyn Fn(&str) -> Option<f64>) -> f64 {
        self.tree.of_variables(&|name| variable(name).or_else(|| self.params.get(name).copied()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn value(source: &str) -> f64 {
        let script = Script::parse(&json!({ "source": source, "params": { "k": 10 } })).unwrap();
        script.evaluate(&|name| match name {
            "a" => Some(6.0),
            "b" => Some(4.0),
            _ => None,
        })
    }

    #[test]
    fn arithmetic_is_evaluated_by_precedence() {
        assert_eq!(value("params.a / params.b * 100"), 150.0);
        assert_eq!(value("return (a + b) * -2;"), -20.0);
        assert_eq!(value("params['a'] - params.k"), -4.0);
        assert_eq!(value("a > b && !(a < 3) ? Math.max(a, 1e1) : 0"), 10.0);
        assert_eq!(value("params.none != null"), 0.0);
        assert_eq!(value("params.a != null"), 1.0);
        assert_eq!(value("params.none == null ? 1 : params.none"), 1.0);
        assert_eq!(value("7 % 4 - 2 - 1"), 0.0);
        assert_eq!(value("double x = params.a; if (x > 5) { return x } return 0"), 6.0);
        assert_eq!(value("int x = 5; x += 2; return x / 2 + 7 / 2"), 6.0);
        assert_eq!(value("(int) 5.5 / 2 + params.a / 4"), 3.5);
        assert!(value("params.none").is_nan() && value("ctx._source").is_nan());
    }

    #[test]
    fn what_is_no_arithmetic_is_refused() {
        let sources = [
            "",
            "a +",
            "foo(1)",
            "a b",
            "(((",
            "params[x]",
            "params",
            "1 ? 2",
            "doc['a'].value",
            "a.b()",
            "int x = params.a; return x",
            "int x = 1; return x.foo",
            "def params = 3; return params.a",
            "m = 3; return m",
            "[1]",
            "'x'",
        ];
        for source in sources {
            let error = Script::parse(&json!(source)).expect_err(source);
            assert_eq!(
                (error.class, error.kind.as_ref()),
                (crate::ErrorClass::Invalid, "script_exception"),
                "{source}"
            );
        }
        assert!(Script::parse(&json!("(".repeat(5_000))).is_err());
        assert!(Script::parse(&json!("-".repeat(5_000))).is_err());
        assert!(Script::parse(&json!(vec!["1"; 5_000].join("+"))).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(source in ".{0,60}", operators in "[-+*/%()<>=!&|?:.,a-c0-9' ]{0,60}") {
            let _ = Script::parse(&json!(source));
            if let Ok(script) = Script::parse(&json!(operators)) {
                script.evaluate(&|_| Some(1.0));
            }
        }
    }
}
