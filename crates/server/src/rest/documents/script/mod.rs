//! Scripts that change a document: a small part of Painless, enough for counters, flags, lists
//! and conditions. No loops, functions or classes: what is not there is refused by name. What a
//! script may do is bounded while it is read (`plimsoll_index::script`) and while it runs ([`budget`]).

mod budget;
mod error;
mod run;

use plimsoll_index::Error;
use plimsoll_index::script::{Rules, Statement, check_length, program};
use serde_json::{Map, Value, json};

use super::becomes::Becomes;
use crate::rest::json_read;

/// What may be written: each level of an expression takes stack while it runs.
const RULES: Rules = Rules { chain_max: 200, has_functions: false };

/// A script that was read, with its parameters.
#[derive(Clone, Debug)]
pub struct Script {
    program: Vec<Statement>,
    params: Value,
    source: String,
}

impl Script {
    /// Reads `"…"` or `{"source": "…", "params": {…}}`.
    ///
    /// # Errors
    /// 400 where it is of another language, or has something that is not supported.
    pub fn parse(body: &Value) -> Result<Self, Error> {
        let (source, params) = match body {
            Value::String(source) => (source.clone(), json!({})),
            Value::Object(object) => fields(object)?,
            _ => return Err(Error::illegal_argument("[script] is neither a string nor an object")),
        };
        check_length(&source)?;
        let program =
            program(&source, RULES).map_err(|why| failed("compile error", &source, why.reason))?;
        Ok(Self { program, params, source })
    }

    /// What a document becomes; `source` is its text.
    ///
    /// # Errors
    /// 400 where the source is no object, or the script fails.
    pub fn run(&self, source: Option<&[u8]>) -> Result<Becomes, Error> {
        let document = json_read::value(source.unwrap_or(b"{}"))?;
        let mut context = Map::new();
        context.insert("op".to_owned(), json!("index"));
        context.insert("_source".to_owned(), document);
        let context = run::run(&self.program, Value::Object(context), &self.params)
            .map_err(|why| failed("runtime error", &self.source, why.to_string()))?;
        let is_known = |key: &&String| *key != "op" && *key != "_source";
        if let Some(key) = context.as_object().and_then(|context| context.keys().find(is_known)) {
            return Err(Error::illegal_argument(format!(
                "[ctx.{key}] is not supported: a script changes [ctx._source] and [ctx.op]"
            )));
        }
        match context.get("op").and_then(Value::as_str) {
            Some("index" | "create") => {
                let text = serde_json::to_vec(&context["_source"]);
                Ok(Becomes::Document(text.unwrap_or_default().into()))
            }
            Some("delete") => Ok(Becomes::Nothing),
            Some("none" | "noop") => Ok(Becomes::Same),
            other => Err(Error::illegal_argument(format!(
                "Operation type [{}] not allowed, only [noop, index, delete] are allowed",
                other.unwrap_or("null")
            ))),
        }
    }
}

fn fields(object: &Map<String, Value>) -> Result<(String, Value), Error> {
    let mut source = None;
    let mut params = json!({});
    for (key, value) in object {
        match (key.as_str(), value) {
            ("source" | "inline", Value::String(text)) => source = Some(text.clone()),
            ("params", Value::Object(_)) => params = value.clone(),
            ("lang", Value::String(lang)) if lang == "painless" => (),
            ("lang", other) => {
                return Err(Error::illegal_argument(format!(
                    "script_lang not supported {other}: updates take [painless]"
                )));
            }
            ("id", other) => {
                return Err(Error::illegal_argument(format!(
                    "stored scripts are not supported, found [id] {other} in [script]"
                )));
            }
            ("options", _) => (),
            (other, _) => {
                return Err(Error::illegal_argument(format!("[script] unknown field [{other}]")));
            }
        }
    }
    let source = source.ok_or_else(|| {
        Error::illegal_argument("must specify either [source] for an inline script")
    })?;
    Ok((source, params))
}

fn failed(kind: &str, source: &str, why: String) -> Error {
    Error::invalid("script_exception", kind)
        .with("script", source)
        .with("lang", "painless")
        .caused_by(Error::illegal_argument(why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(script: &str) -> String {
        let body = json!({
            "source": script,
            "params": {"i": 2, "s": "x", "l": [7], "o": {"k": 1.5}},
        });
        let document = br#"{"n":1,"t":"a","tags":["p","q"],"o":{"z":{"y":1}},"f":0.5}"#;
        let becomes = Script::parse(&body).and_then(|script| script.run(Some(document)));
        match becomes {
            Ok(Becomes::Document(text)) => String::from_utf8(text.to_vec()).unwrap(),
            Ok(other) => format!("{other:?}"),
            Err(error) => error.caused_by.map_or(error.reason, |cause| cause.reason),
        }
    }

    #[test]
    fn scripts_change_documents() {
        let base = r#"{"n":1,"t":"a","tags":["p","q"],"o":{"z":{"y":1}},"f":0.5}"#;
        for (script, from, to) in [
            ("ctx._source.n += params.i", r#""n":1"#, r#""n":3"#),
            ("ctx._source.n++; ctx._source['n'] *= 10;", r#""n":1"#, r#""n":20"#),
            ("ctx._source.n = (ctx._source.n + 4) % 3 - -2", r#""n":1"#, r#""n":4"#),
            ("ctx._source.f = ctx._source.n / 2.0", r#""f":0.5"#, r#""f":0.5"#),
            ("ctx._source.n = 7 / 2", r#""n":1"#, r#""n":3"#),
            ("ctx._source.n = (int) (7 / 2.0) + (long) 1", r#""n":1"#, r#""n":4"#),
            ("ctx._source.n = (double) 3", r#""n":1"#, r#""n":3.0"#),
            ("ctx._source.n = 1e1", r#""n":1"#, r#""n":10.0"#),
            ("ctx._source.t += params.s + 1", r#""t":"a""#, r#""t":"ax1""#),
            ("ctx._source.o.z.y = params.o.k", r#""y":1"#, r#""y":1.5"#),
            ("ctx._source.tags.add(params.s)", r#""q"]"#, r#""q","x"]"#),
            (
                "if (ctx._source.tags.contains('p') && ctx._source.n != 2) { ctx._source.n = 9 } \
                 else if (true) { ctx._source.n = 8 } else { ctx._source.n = 7 }",
                r#""n":1"#,
                r#""n":9"#,
            ),
            ("ctx._source.tags.remove(ctx._source.tags.indexOf('p'))", r#"["p","q"]"#, r#"["q"]"#),
            ("ctx._source.remove('f')", r#","f":0.5"#, ""),
            ("ctx._source.n = ctx._source.x == null ? 5 : 6 // x", r#""n":1"#, r#""n":5"#),
            ("def a = 4; int b = a * 2; ctx._source.n = b", r#""n":1"#, r#""n":8"#),
            (
                "ctx._source.n = ctx._source.tags.size() + ctx._source.t.length()",
                r#""n":1"#,
                r#""n":3"#,
            ),
            ("ctx._source.tags = ['z']", r#"["p","q"]"#, r#"["z"]"#),
        ] {
            assert_eq!(run(script), base.replace(from, to), "{script}");
        }
        assert_eq!(run("if (ctx._source.n < 2) { ctx.op = 'delete' }"), "Nothing");
        assert_eq!(run("ctx.op = \"none\""), "Same");
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (script, part) in [
            ("for (int i = 0; i < 3; i++) {}", "[for]"),
            ("while (true) {}", "[while]"),
            ("ctx._source.n = Math.max(1, 2)", "[Math]"),
            ("ctx._source.n.foo()", "[foo]"),
            ("ctx._source.n = 1 / 0", "/ by zero"),
            ("ctx._source.n = 'a' - 1", "[-]"),
            ("ctx._source.x.y = 1", "[y]"),
            ("params.i = 1", "[params]"),
            ("ctx._id = 'x'", "[ctx._id]"),
            ("ctx._source.n = ", "end of the script"),
            ("ctx._source.n = #", "[#]"),
            (&"(".repeat(10_000), "nested"),
        ] {
            let found = run(script);
            assert!(found.contains(part), "{script:.40}: {found}");
        }
        assert!(Script::parse(&json!({"source": "1", "lang": "mustache"})).is_err());
        assert!(Script::parse(&json!({"id": "x"})).is_err());
    }
    #[test]
    fn what_a_script_may_do_is_bounded() {
        let sum = |terms: usize| format!("ctx._source.n = 1{}", "+1".repeat(terms));
        assert!(run(&sum(150)).contains(r#""n":151"#));
        let double = |times: usize| format!("def a = ['0123456789'];{}", "a=[a,a];".repeat(times));
        let grow = |times: usize| format!("def a = [0];{}", "a.addAll(a);".repeat(times));
        let text =
            "def s = 'x';".to_owned() + &"s += s;".repeat(19) + &"def t = s + 'y';".repeat(40);
        let look = grow(17) + &"a.contains(7);".repeat(200);
        for (script, limit) in [
            (sum(8_000), "hang on each other"),
            (format!("ctx{}", ".a".repeat(8_000)), "hang on each other"),
            (format!("ctx._source{} = 1", "[0]".repeat(8_000)), "hang on each other"),
            (format!("ctx._source.t{}", ".toString()".repeat(5_000)), "hang on each other"),
            (";".repeat(20_000), "values, operators and statements"),
            (
                format!("def a = [{}]", "1,".repeat(15_000) + "1"),
                "values, operators and statements",
            ),
            (format!("def a = [1];{}", "a=[a];".repeat(2_000)), "nested deeper than 100"),
            (format!("def a = [1];{}", "a=[a];".repeat(150)), "nested deeper than 100"),
            (format!("def a = [1];{}", "a.add(a);".repeat(150)), "bytes of values"),
            (
                format!("def a = ['k'];{}", "ctx.put('a', ctx);".repeat(150)),
                "nested deeper than 100",
            ),
            (double(24), "bytes of values"),
            (grow(40), "bytes of values"),
            (text, "bytes of values"),
            (look, "steps"),
        ] {
            let found = run(&script);
            assert!(found.contains(limit), "{script:.40}: {found:.200}");
        }
        // What is large is not shown in full.
        let wrong = format!("{} if (a) {{}}", grow(10));
        assert_eq!(run(&wrong), "[a list of 1024] is neither true nor false");
    }
}
