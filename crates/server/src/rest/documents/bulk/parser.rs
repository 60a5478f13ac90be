//! The lines of a bulk request as items: an action with its metadata, and the document under it.
//! Pure; which index a name means and what is done with an item are not its concern.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use plimsoll_index::Error;
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::rest::json_error::json_error;

/// The longest action line, bytes: it holds names and numbers, no document.
const ACTION_BYTES_MAX: usize = 64 << 10;

/// What an item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Puts a document.
    Index,
    /// Puts a document that must not be there.
    Create,
    /// Changes a document.
    Update,
    /// Takes a document away.
    Delete,
}

impl Operation {
    /// As it stands in a request and in its answer.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Create => "create",
            Self::Update => "update",
            Self::Delete => "delete",
        }
    }

    fn parse(name: &str) -> Option<Self> {
        [Self::Index, Self::Create, Self::Update, Self::Delete]
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// How a version that was given is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VersionType {
    /// By the node's own counting.
    #[default]
    Internal,
    /// Must be above the document's, and becomes it.
    External,
    /// Must not be below the document's, and becomes it.
    ExternalGte,
}

impl VersionType {
    /// Reads its name.
    ///
    /// # Errors
    /// 400 for another.
    pub fn parse(name: &str) -> Result<Self, Error> {
        match name {
            "internal" => Ok(Self::Internal),
            "external" | "external_gt" => Ok(Self::External),
            "external_gte" => Ok(Self::ExternalGte),
            _ => Err(Error::illegal_argument(format!("No version type match [{name}]"))),
        }
    }
}

/// One item: what its action line says, and the line under it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Item {
    /// What it does; an item without operation does not leave the parser.
    pub operation: Option<Operation>,
    /// `_index`; none where the request's path says it.
    pub index: Option<String>,
    /// `_id`
    pub id: Option<String>,
    /// `routing`
    pub routing: Option<String>,
    /// `if_seq_no`
    pub if_seq_no: Option<u64>,
    /// `if_primary_term`
    pub if_primary_term: Option<u64>,
    /// `version`
    pub version: Option<u64>,
    /// `version_type`
    pub version_type: VersionType,
    /// `require_alias`
    pub require_alias: Option<bool>,
    /// `retry_on_conflict`
    pub retry_on_conflict: u32,
    /// The document, or the body of an update; empty for a deletion.
    pub source: Bytes,
}

/// Turns lines into items.
#[derive(Debug, Default)]
pub struct Parser {
    /// Lines that were taken.
    line: usize,
    /// An item that waits for the line under it.
    waiting: Option<Item>,
}

impl Parser {
    /// Takes a line; returns an item where one is complete.
    ///
    /// # Errors
    /// 400 where the line is no action. The request cannot be understood behind it.
    pub fn line(&mut self, line: Bytes) -> Result<Option<Item>, Error> {
        self.line += 1;
        if let Some(mut item) = self.waiting.take() {
            item.source = line;
            return Ok(Some(item));
        }
        if line.trim_ascii().is_empty() {
            return Ok(None);
        }
        let item = action(&line, self.line)?;
        if item.operation == Some(Operation::Delete) {
            return Ok(Some(item));
        }
        self.waiting = Some(item);
        Ok(None)
    }

    /// Says that there are no more lines.
    ///
    /// # Errors
    /// 400 where an action waits for its document.
    pub fn finish(&self) -> Result<(), Error> {
        match &self.waiting {
            None => Ok(()),
            Some(_) => Err(Error::illegal_argument(format!(
                "Malformed action/metadata line [{}], the line of its document is missing",
                self.line
            ))),
        }
    }
}

/// Reads an action line.
fn action(line: &Bytes, number: usize) -> Result<Item, Error> {
    let malformed = |what: String| {
        Err(Error::illegal_argument(format!("Malformed action/metadata line [{number}], {what}")))
    };
    if line.len() > ACTION_BYTES_MAX {
        return malformed(format!(
            "it has [{}] bytes and at most [{ACTION_BYTES_MAX}] are taken",
            line.len()
        ));
    }
    let parsed: Line<'_> =
        serde_json::from_slice(line).map_err(|error| json_error(line, &error))?;
    let (name, fields) = match parsed {
        Line::Action(name, fields) => (name, fields),
        Line::Empty => {
            return malformed("expected FIELD_NAME but found [END_OBJECT]".to_owned());
        }
        Line::Other(kind) => {
            return malformed(format!("expected START_OBJECT but found [{kind}]"));
        }
    };
    let Some(operation) = Operation::parse(&name) else {
        return malformed(format!(
            "expected one of [create, delete, index, update] but found [{name}]"
        ));
    };
    let fields = match fields {
        Fields::Of(fields) => fields,
        Fields::Other(kind) => {
            return malformed(format!("expected START_OBJECT or END_OBJECT but found [{kind}]"));
        }
    };
    let mut item = Item { operation: Some(operation), ..Item::default() };
    for (field, value) in fields {
        let text = match value {
            Scalar::Text(text) => text,
            Scalar::Null => continue,
            Scalar::Other(kind) => {
                return malformed(format!(
                    "expected a simple value for field [{field}] but found [{kind}]"
                ));
            }
        };
        set(&mut item, &field, &text, number)?;
    }
    Ok(item)
}

fn set(item: &mut Item, field: &str, text: &str, number: usize) -> Result<(), Error> {
    let count = || {
        text.parse::<u64>().map_err(|_| {
            Error::illegal_argument(format!(
                "Failed to parse value [{text}] of [{field}] in action/metadata line [{number}]"
            ))
        })
    };
    match field {
        "_index" => item.index = Some(text.to_owned()),
        "_id" => item.id = Some(text.to_owned()),
        "routing" | "_routing" => item.routing = Some(text.to_owned()),
        "if_seq_no" => item.if_seq_no = Some(count()?),
        "if_primary_term" => item.if_primary_term = Some(count()?),
        "version" | "_version" => item.version = Some(count()?),
        "version_type" | "_version_type" => item.version_type = VersionType::parse(text)?,
        "require_alias" => item.require_alias = Some(text == "true"),
        "retry_on_conflict" | "_retry_on_conflict" => {
            item.retry_on_conflict = u32::try_from(count()?).unwrap_or(u32::MAX);
        }
        // The type of before version 8; there is one.
        "_type" if text == "_doc" => (),
        "pipeline" if text == "_none" => (),
        "pipeline" => {
            return Err(Error::illegal_argument(format!(
                "pipeline with id [{text}] does not exist: there are no ingest pipelines"
            )));
        }
        _ => {
            return Err(Error::illegal_argument(format!(
                "Action/metadata line [{number}] contains an unknown parameter [{field}]"
            )));
        }
    }
    Ok(())
}

/// An action line as JSON has it.
enum Line<'a> {
    Action(Cow<'a, str>, Fields<'a>),
    Empty,
    Other(&'static str),
}

enum Fields<'a> {
    Of(Vec<(Cow<'a, str>, Scalar<'a>)>),
    Other(&'static str),
}

enum Scalar<'a> {
    Text(Cow<'a, str>),
    Null,
    Other(&'static str),
}

/// A name that borrows from the line where it has no escapes.
struct Name<'a>(Cow<'a, str>);

/// Which Rust type a visitor makes, and what of.
struct Of<T>(std::marker::PhantomData<T>);

macro_rules! other_kinds {
    ($other:path) => {
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a value")
        }
        fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
            while items.next_element::<IgnoredAny>()?.is_some() {}
            Ok($other("START_ARRAY"))
        }
    };
}

macro_rules! other_scalars {
    ($other:path) => {
        fn visit_str<E: de::Error>(self, _: &str) -> Result<Self::Value, E> {
            Ok($other("VALUE_STRING"))
        }
        fn visit_u64<E: de::Error>(self, _: u64) -> Result<Self::Value, E> {
            Ok($other("VALUE_NUMBER"))
        }
        fn visit_i64<E: de::Error>(self, _: i64) -> Result<Self::Value, E> {
            Ok($other("VALUE_NUMBER"))
        }
        fn visit_f64<E: de::Error>(self, _: f64) -> Result<Self::Value, E> {
            Ok($other("VALUE_NUMBER"))
        }
        fn visit_bool<E: de::Error>(self, _: bool) -> Result<Self::Value, E> {
            Ok($other("VALUE_BOOLEAN"))
        }
        fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
            Ok($other("VALUE_NULL"))
        }
    };
}

impl<'de> Visitor<'de> for Of<Line<'de>> {
    type Value = Line<'de>;
    other_kinds!(Line::Other);
    other_scalars!(Line::Other);
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let Some((Name(name), fields)) = map.next_entry::<Name<'de>, Fields<'de>>()? else {
            return Ok(Line::Empty);
        };
        // More than one action on a line: the first counts, as in Elasticsearch.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Line::Action(name, fields))
    }
}

impl<'de> Visitor<'de> for Of<Fields<'de>> {
    type Value = Fields<'de>;
    other_kinds!(Fields::Other);
    other_scalars!(Fields::Other);
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Vec::with_capacity(2);
        while let Some((Name(name), value)) = map.next_entry::<Name<'de>, Scalar<'de>>()? {
            fields.push((name, value));
        }
        Ok(Fields::Of(fields))
    }
}

impl<'de> Visitor<'de> for Of<Scalar<'de>> {
    type Value = Scalar<'de>;
    other_kinds!(Scalar::Other);
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar::Other("START_OBJECT"))
    }
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(text.to_owned())))
    }
    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(number.to_string())))
    }
    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(number.to_string())))
    }
    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Owned(number.to_string())))
    }
    fn visit_bool<E: de::Error>(self, flag: bool) -> Result<Self::Value, E> {
        Ok(Scalar::Text(Cow::Borrowed(if flag { "true" } else { "false" })))
    }
    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(Scalar::Null)
    }
}

impl<'de> Visitor<'de> for Of<Name<'de>> {
    type Value = Name<'de>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Borrowed(text)))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Name(Cow::Owned(text.to_owned())))
    }
}

macro_rules! deserialize {
    ($type:ident, $method:ident) => {
        impl<'de> Deserialize<'de> for $type<'de> {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.$method(Of::<$type<'de>>(std::marker::PhantomData))
            }
        }
    };
}

deserialize!(Line, deserialize_any);
deserialize!(Fields, deserialize_any);
deserialize!(Scalar, deserialize_any);
deserialize!(Name, deserialize_str);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Vec<Item>, Error> {
        let mut parser = Parser::default();
        let mut items = Vec::new();
        for line in text.split_terminator('\n') {
            items.extend(parser.line(Bytes::copy_from_slice(line.as_bytes()))?);
        }
        parser.finish().map(|()| items)
    }

    #[test]
    fn items() {
        let text = "{\"index\":{\"_index\":\"g\",\"_id\":1}}\n{\"n\":1}\n\n \n\
                    {\"delete\":{\"_id\":\"x\",\"routing\":\"r\",\"if_seq_no\":3,\"if_primary_term\":1}}\n\
                    {\"update\":{\"_id\":\"y\",\"retry_on_conflict\":2,\"require_alias\":true}}\n{\"doc\":{}}\n\
                    {\"create\":{\"version\":5,\"version_type\":\"external\"}}\nnot json\n";
        let items = parse(text).unwrap();
        let shown: Vec<String> = items
            .iter()
            .map(|item| {
                let name = item.operation.unwrap().name();
                let source = String::from_utf8_lossy(&item.source);
                format!("{name} {:?} {:?} {source}", item.index, item.id)
            })
            .collect();
        assert_eq!(
            shown,
            [
                r#"index Some("g") Some("1") {"n":1}"#,
                r#"delete None Some("x") "#,
                r#"update None Some("y") {"doc":{}}"#,
                "create None None not json",
            ]
        );
        assert_eq!((items[1].if_seq_no, items[1].routing.as_deref()), (Some(3), Some("r")));
        assert_eq!((items[2].retry_on_conflict, items[2].require_alias), (2, Some(true)));
        assert_eq!(items[3].version_type, VersionType::External);
    }

    #[test]
    fn lines_that_are_no_action() {
        for (text, reason) in [
            (
                "{\"bogus\":{\"_index\":\"g\"}}\n{}\n",
                "Malformed action/metadata line [1], expected one of [create, delete, index, \
                 update] but found [bogus]",
            ),
            (
                "{\"delete\":{}}\n[]\n",
                "Malformed action/metadata line [2], expected START_OBJECT but found [START_ARRAY]",
            ),
            (
                "{}\n",
                "Malformed action/metadata line [1], expected FIELD_NAME but found [END_OBJECT]",
            ),
            (
                "{\"index\":\"x\"}\n",
                "Malformed action/metadata line [1], expected START_OBJECT or END_OBJECT but \
                 found [VALUE_STRING]",
            ),
            (
                "{\"index\":{\"_id\":[1]}}\n",
                "Malformed action/metadata line [1], expected a simple value for field [_id] but \
                 found [START_ARRAY]",
            ),
            (
                "{\"index\":{\"x\":1}}\n",
                "Action/metadata line [1] contains an unknown parameter [x]",
            ),
            (
                "{\"index\":{}}\n",
                "Malformed action/metadata line [1], the line of its document is missing",
            ),
        ] {
            assert_eq!(parse(text).unwrap_err().reason, reason, "{text}");
        }
        assert_eq!(parse("{\"index\"\n").unwrap_err().kind, "json_e_o_f_exception");
        assert_eq!(parse("{index}\n").unwrap_err().kind, "json_parse_exception");
    }

    proptest! {
        /// Any bytes are items or an error of status 400.
        #[test]
        fn any_lines(lines in proptest::collection::vec("[\\[\\]{}\":,a-e0-9 ]{0,30}", 0..6)) {
            if let Err(error) = parse(&lines.join("\n")) {
                prop_assert_eq!(error.status(), 400);
            }
        }

        /// Metadata comes back as it was written.
        #[test]
        fn metadata(id in "\\PC{0,20}", routing in "\\PC{1,10}", seq_no: u64) {
            let line = serde_json::json!({"delete": {"_id": id, "routing": routing, "if_seq_no": seq_no}});
            let items = parse(&format!("{line}\n")).unwrap();
            prop_assert_eq!(items[0].id.as_deref(), Some(id.as_str()));
            prop_assert_eq!(items[0].routing.as_deref(), Some(routing.as_str()));
            prop_assert_eq!(items[0].if_seq_no, Some(seq_no));
        }
    }
}
