//! Which keys `include` and `exclude` let pass.
//!
//! Listed values are read once, as values of the field: a date by its format, an address as an
//! address. What stays are keys, so that nothing is printed or read for a document.

use tantivy::columnar::StrColumn;

use super::collector::Env;
use super::context::index_error;
use super::encoding::{Form, index, key_of_f64, key_of_i64};
use super::interner::{Interner, hash};
use crate::Error;
use crate::aggregation::dates;
use crate::aggregation::partial::Print;
use crate::aggregation::request::{Pattern, Source, TermsFilter, read_ip};

/// `include` and `exclude` over keys that are not strings.
#[derive(Default)]
pub(super) struct KeyFilter {
    /// Sorted.
    include: Option<Vec<u64>>,
    /// Sorted.
    exclude: Option<Vec<u64>>,
    part: Option<(u64, u64)>,
}

impl KeyFilter {
    /// Reads the listed values.
    ///
    /// # Errors
    /// 400 for a pattern, and for a value that the field cannot have.
    pub(super) fn new(
        env: &Env<'_>,
        filter: &TermsFilter,
        (form, print): (Form, &Print),
        source: &Source,
        interner: &mut Interner,
    ) -> Result<Self, Error> {
        let mut keys = |pattern: &Option<Pattern>| match pattern {
            None => Ok(None),
            Some(Pattern::Regex(_)) => Err(Error::invalid(
                "aggregation_execution_exception",
                format!(
                    "Aggregation on field [{}] cannot support regular expression style include/exclude settings as they can only be applied to string fields. Use an array of values for include/exclude clauses",
                    source.field
                ),
            )),
            Some(Pattern::List(list)) => {
                let mut keys = Vec::with_capacity(list.len());
                for text in list {
                    keys.push(key(env, text, (form, print), interner)?);
                }
                keys.sort_unstable();
                Ok(Some(keys))
            }
        };
        let include = keys(&filter.include)?;
        Ok(Self { include, exclude: keys(&filter.exclude)?, part: filter.part })
    }

    /// `bytes`: what a key stands for, where it does not stand for itself. Partitions number
    /// strings differently, and have to agree on what part of the terms a term is in.
    pub(super) fn accepts(&self, key: u64, bytes: Option<&[u8]>) -> bool {
        let listed = |keys: &Vec<u64>| keys.binary_search(&key).is_ok();
        let hashed = || bytes.map_or_else(|| hash(&key.to_le_bytes()), hash);
        self.part.is_none_or(|(part, parts)| hashed() % parts == part)
            && self.include.as_ref().is_none_or(listed)
            && !self.exclude.as_ref().is_some_and(listed)
    }
}

/// The key of a value as it was written.
fn key(
    env: &Env<'_>,
    text: &str,
    (form, print): (Form, &Print),
    interner: &mut Interner,
) -> Result<u64, Error> {
    let wrong =
        || Error::invalid("number_format_exception", format!("For input string: \"{text}\""));
    let number = || text.parse::<f64>().ok().filter(|number| !number.is_nan()).ok_or_else(wrong);
    Ok(match (form, print) {
        (_, Print::Date { format, zone }) => {
            let value = serde_json::Value::from(text);
            let zone = zone.as_deref();
            key_of_i64(dates::parse_bound(&value, Some(format), zone, env.context.now_ms, false)?)
        }
        (_, Print::Bool) => match text {
            "true" | "1" => 1,
            "false" | "0" => 0,
            _ => return Err(Error::illegal_argument(format!("Cannot parse boolean [{text}]"))),
        },
        (Form::I64, _) => match text.parse() {
            Ok(whole) => key_of_i64(whole),
            Err(_) => key_of_i64(whole_below(number()?)),
        },
        (Form::U64, _) => match text.parse() {
            Ok(whole) => whole,
            Err(_) => whole_below(number()?).max(0).cast_unsigned(),
        },
        (Form::F64, _) => key_of_f64(number()?),
        (Form::Ip, _) => u64::from(interner.intern(&read_ip(text)?.to_be_bytes())),
        (Form::Str, _) => u64::from(interner.intern(text.as_bytes())),
    })
}

#[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
fn whole_below(number: f64) -> i64 {
    number.floor() as i64
}

/// Whether a string may have a bucket.
pub(super) fn accepts_text(filter: &TermsFilter, text: &str) -> bool {
    let fits = |pattern: &Pattern| match pattern {
        Pattern::Regex(regex) => regex.is_match(text),
        Pattern::List(list) => list.iter().any(|one| one == text),
    };
    filter.include.as_ref().is_none_or(fits)
        && !filter.exclude.as_ref().is_some_and(fits)
        && filter.part.is_none_or(|(part, parts)| hash(text.as_bytes()) % parts == part)
}

/// Which ordinals of a dictionary may have buckets; `None` where all may.
pub(super) fn allowed_ordinals(
    filter: &TermsFilter,
    column: &StrColumn,
) -> Result<Option<Vec<bool>>, Error> {
    if filter.is_open() {
        return Ok(None);
    }
    let mut allowed = vec![false; column.num_terms()];
    if let (Some(Pattern::List(list)), None, None) = (&filter.include, &filter.exclude, filter.part)
    {
        for text in list {
            if let Some(ord) = column.dictionary().term_ord(text).map_err(index_error)? {
                allowed[index(ord)] = true;
            }
        }
        return Ok(Some(allowed));
    }
    let mut stream = column.dictionary().stream().map_err(index_error)?;
    let mut ord = 0;
    while stream.advance() {
        allowed[ord] =
            std::str::from_utf8(stream.key()).is_ok_and(|text| accepts_text(filter, text));
        ord += 1;
    }
    Ok(Some(allowed))
}
