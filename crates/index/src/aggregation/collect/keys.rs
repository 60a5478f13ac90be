//! Values of a field as keys of 64 bits, which buckets are told apart by.
//!
//! Numbers map to keys in their own order. A string's key is its ordinal where the partition has one
//! segment; else strings are numbered as they are met, and each segment's ordinals are mapped to
//! those numbers: few at a time while few are needed, the whole dictionary in one pass once many are.

use std::cmp::Ordering;
use std::net::Ipv6Addr;

use serde_json::Value;
use tantivy::SegmentReader;
use tantivy::columnar::{Column, StrColumn};

use super::accept::{KeyFilter, accepts_text, allowed_ordinals};
use super::collector::Batch;
use super::collector::Env;
use super::context::{BATCH_DOCS, bucket_id, index_error};
use super::encoding::{Form, NEGATIVE_ZERO, f64_of_key, i64_of_key, index, key_of_f64, key_of_i64};
use super::interner::{Interner, UNKNOWN};
use super::values::{
    NumberColumn, NumberForm, Rows, fill_missing, missing_number, open_number, wrong_type,
};
use crate::Error;
use crate::aggregation::fields::{Field, FieldKind};
use crate::aggregation::partial::{Key, Print};
use crate::aggregation::request::{Source, TermsFilter, read_ip};
use crate::query::parse::as_text;

/// The whole dictionary is read once more than one in so many of its terms were looked up.
pub(super) const LOOKUPS_PER_TERMS: usize = 32;

enum Opened {
    None,
    Number(NumberColumn),
    Str(StrColumn),
    Ip(Column<Ipv6Addr>),
}

/// Reads a field's values as keys.
pub(super) struct Keys {
    field: Option<Field>,
    form: Form,
    print: Print,
    nanos: bool,
    missing: Option<u64>,
    missing_text: Option<String>,
    filter: TermsFilter,
    /// The same over keys, of all forms but strings.
    accepted: KeyFilter,
    opened: Opened,
    /// Where the partition has one segment: its dictionary's number of terms; above it are strings
    /// that the dictionary lacks.
    one_segment: Option<(StrColumn, u64)>,
    interner: Interner,
    /// Of this segment: the key of each ordinal.
    ids: Vec<u32>,
    looked_up: usize,
    /// Of this segment: which ordinals may have buckets.
    allowed: Option<Vec<bool>>,
    accounted: usize,
    rows: Rows,
    ords: Vec<u64>,
    addresses: Vec<Ipv6Addr>,
    /// Of the last batch: positions and as many keys; a position has no key twice.
    pub(super) positions: Vec<u32>,
    pub(super) keys: Vec<u64>,
}

impl Keys {
    /// # Errors
    /// 400 where the field has no column or `missing` is no value of it.
    pub(super) fn new(
        env: &Env<'_>,
        source: &Source,
        filter: &TermsFilter,
        kind: &str,
    ) -> Result<Self, Error> {
        let field = env.fields.field(&source.field);
        let mut nanos = false;
        let (form, print) = match &field {
            Some(field) => {
                field.column()?;
                let form = match &field.kind {
                    FieldKind::Keyword => Form::Str,
                    FieldKind::Long => Form::I64,
                    FieldKind::Date { nanos: is_nanos, .. } => {
                        nanos = *is_nanos;
                        Form::I64
                    }
                    FieldKind::UnsignedLong | FieldKind::Boolean => Form::U64,
                    FieldKind::Double => Form::F64,
                    FieldKind::Ip => Form::Ip,
                    _ => return Err(wrong_type(field, kind)),
                };
                (form, field.print(source))
            }
            None => match &source.missing {
                Some(Value::Number(number)) if number.is_f64() => {
                    (Form::F64, Print::Double { format: None })
                }
                Some(Value::Number(_)) => (Form::I64, Print::Long { format: None }),
                Some(_) => (Form::Str, Print::Str),
                None => (Form::Str, Print::Unmapped),
            },
        };
        let mut keys = Self {
            field,
            form,
            print,
            nanos,
            missing: None,
            missing_text: None,
            filter: filter.clone(),
            accepted: KeyFilter::default(),
            opened: Opened::None,
            one_segment: None,
            interner: Interner::default(),
            ids: Vec::new(),
            looked_up: 0,
            allowed: None,
            accounted: 0,
            rows: Rows::default(),
            ords: Vec::new(),
            addresses: Vec::new(),
            positions: Vec::new(),
            keys: Vec::new(),
        };
        if let Some(value) = &source.missing {
            keys.set_missing(env, value)?;
        }
        if form != Form::Str {
            let typed = (form, &keys.print);
            keys.accepted = KeyFilter::new(env, filter, typed, source, &mut keys.interner)?;
        }
        if form == Form::Str
            && let [segment] = env.searcher.segment_readers()
            && let Some(column) = keys.open_str(segment)?
        {
            let terms = column.num_terms() as u64;
            keys.one_segment = Some((column, terms));
        }
        Ok(keys)
    }

    fn set_missing(&mut self, env: &Env<'_>, value: &Value) -> Result<(), Error> {
        match self.form {
            Form::Str => {
                self.missing_text = Some(match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                });
            }
            Form::Ip => {
                let address = read_ip(&as_text(value))?;
                self.missing = Some(u64::from(self.interner.intern(&address.to_be_bytes())));
            }
            Form::F64 => {
                self.missing = Some(key_of_f64(missing_number(env, self.field.as_ref(), value)?))
            }
            Form::I64 => {
                let whole = match value.as_i64() {
                    Some(whole) => whole,
                    None => whole_of(missing_number(env, self.field.as_ref(), value)?),
                };
                self.missing = Some(key_of_i64(whole));
            }
            Form::U64 => {
                let whole = match value.as_u64() {
                    Some(whole) => whole,
                    None => whole_of(missing_number(env, self.field.as_ref(), value)?)
                        .max(0)
                        .cast_unsigned(),
                };
                self.missing = Some(whole);
            }
        }
        Ok(())
    }

    pub(super) fn print(&self) -> Print {
        self.print.clone()
    }

    pub(super) fn field(&self) -> Option<&Field> {
        self.field.as_ref()
    }

    /// The least and greatest key that may occur, where that is known beforehand.
    pub(super) fn range(&self, env: &Env<'_>) -> Result<Option<(u64, u64)>, Error> {
        let Some(field) = &self.field else { return Ok(None) };
        if self.form == Form::Str {
            return Ok(self.one_segment.as_ref().map(|(_, terms)| (0, *terms)));
        }
        let mut range: Option<(u64, u64)> = None;
        let mut add = |key: u64| {
            range = Some(range.map_or((key, key), |(min, max)| (min.min(key), max.max(key))));
        };
        for segment in env.searcher.segment_readers() {
            if let Some((min, max)) =
                open_number_of(segment, field, self.form)?.and_then(|number| number.range())
            {
                add(min);
                add(max);
            }
        }
        if let Some(missing) = self.missing {
            add(missing);
        }
        Ok(if matches!(self.form, Form::I64 | Form::U64) && !self.nanos { range } else { None })
    }

    fn open_str(&self, segment: &SegmentReader) -> Result<Option<StrColumn>, Error> {
        let Some(field) = &self.field else { return Ok(None) };
        let name = field.column()?;
        if segment.schema().find_field(name).is_none() {
            return Ok(None);
        }
        segment.fast_fields().str(name).map_err(index_error)
    }

    pub(super) fn segment(&mut self, env: &Env<'_>, segment: &SegmentReader) -> Result<(), Error> {
        self.opened = Opened::None;
        self.allowed = None;
        if let Some(field) = &self.field {
            match self.form {
                Form::Str => {
                    if let Some(column) = self.open_str(segment)? {
                        if self.one_segment.is_none() {
                            self.ids.clear();
                            self.ids.resize(column.num_terms(), UNKNOWN);
                            self.looked_up = 0;
                        }
                        self.allowed = allowed_ordinals(&self.filter, &column)?;
                        self.opened = Opened::Str(column);
                    }
                }
                Form::Ip => {
                    let name = field.column()?;
                    if segment.schema().find_field(name).is_some() {
                        let column = segment
                            .fast_fields()
                            .column_opt::<Ipv6Addr>(name)
                            .map_err(index_error)?;
                        self.opened = column.map_or(Opened::None, Opened::Ip);
                    }
                }
                _ => {
                    let column = open_number(segment, field)?;
                    self.opened = column.map_or(Opened::None, Opened::Number);
                }
            }
        }
        if let Some(text) = &self.missing_text
            && self.missing.is_none()
        {
            self.missing = Some(match &self.one_segment {
                Some((column, terms)) => {
                    match column.dictionary().term_ord(text).map_err(index_error)? {
                        Some(ord) => ord,
                        None => terms + u64::from(self.interner.intern(text.as_bytes())),
                    }
                }
                None => u64::from(self.interner.intern(text.as_bytes())),
            });
        }
        self.account(env)
    }

    fn account(&mut self, env: &Env<'_>) -> Result<(), Error> {
        let now = self.interner.bytes()
            + self.ids.capacity() * size_of::<u32>()
            + self.allowed.as_ref().map_or(0, Vec::capacity);
        env.account.adjust(&mut self.accounted, now)
    }

    /// Fills `positions` and `keys` for a batch.
    pub(super) fn read(&mut self, env: &Env<'_>, batch: &Batch) -> Result<(), Error> {
        self.keys.clear();
        self.rows.positions.clear();
        let mut several = false;
        match &self.opened {
            Opened::None => {}
            Opened::Number(number) => {
                several = number.column.get_cardinality().is_multivalue();
                self.rows.find(&number.column.index, &batch.docs);
                self.rows.read(&number.column, &mut self.keys);
                if self.nanos {
                    for key in &mut self.keys {
                        *key = key_of_i64(i64_of_key(*key).div_euclid(1_000_000));
                    }
                } else if number.form == NumberForm::F64 {
                    for key in &mut self.keys {
                        *key = if *key == NEGATIVE_ZERO { 1 << 63 } else { *key };
                    }
                }
            }
            Opened::Ip(column) => {
                several = column.get_cardinality().is_multivalue();
                self.rows.find(&column.index, &batch.docs);
                self.addresses.clear();
                self.addresses.resize(self.rows.positions.len(), Ipv6Addr::UNSPECIFIED);
                self.rows.read_into(column, &mut self.addresses);
                for address in &self.addresses {
                    self.keys.push(u64::from(self.interner.intern(&address.octets())));
                }
            }
            Opened::Str(column) => {
                let column = column.clone();
                several = column.ords().get_cardinality().is_multivalue();
                self.read_str(&column, batch)?;
            }
        }
        std::mem::swap(&mut self.positions, &mut self.rows.positions);
        if several {
            drop_repeated(&mut self.positions, &mut self.keys);
        }
        if let Some(missing) = self.missing {
            fill_missing(&mut self.positions, &mut self.keys, batch.docs.len(), missing);
        }
        self.drop_refused();
        self.account(env)
    }

    fn read_str(&mut self, column: &StrColumn, batch: &Batch) -> Result<(), Error> {
        self.rows.find(&column.ords().index, &batch.docs);
        self.rows.read(column.ords(), &mut self.ords);
        if let Some(allowed) = &self.allowed {
            let mut kept = 0;
            for at in 0..self.ords.len() {
                let ord = self.ords[at];
                if allowed[index(ord)] {
                    self.ords[kept] = ord;
                    self.rows.positions[kept] = self.rows.positions[at];
                    kept += 1;
                }
            }
            self.ords.truncate(kept);
            self.rows.positions.truncate(kept);
        }
        if self.one_segment.is_some() {
            self.keys.extend_from_slice(&self.ords);
            return Ok(());
        }
        let mut unknown: Vec<u64> =
            self.ords.iter().copied().filter(|ord| self.ids[index(*ord)] == UNKNOWN).collect();
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            self.looked_up += unknown.len();
            if self.looked_up * LOOKUPS_PER_TERMS > column.num_terms() {
                unknown = (0..column.num_terms() as u64)
                    .filter(|ord| self.ids[index(*ord)] == UNKNOWN)
                    .collect();
            }
            let (ids, interner) = (&mut self.ids, &mut self.interner);
            let mut next = unknown.iter();
            column
                .dictionary()
                .sorted_ords_to_term_cb(&unknown, |term| {
                    if let Some(ord) = next.next() {
                        ids[index(*ord)] = interner.intern(term);
                    }
                })
                .map_err(index_error)?;
        }
        self.keys.extend(self.ords.iter().map(|ord| u64::from(self.ids[index(*ord)])));
        Ok(())
    }

    /// Drops keys that `include` and `exclude` refuse, for all forms but ordinals.
    fn drop_refused(&mut self) {
        let filter = &self.filter;
        if filter.is_open() {
            return;
        }
        if matches!(self.opened, Opened::Str(_)) && self.missing.is_none() {
            return;
        }
        let mut kept = 0;
        for at in 0..self.keys.len() {
            let key = self.keys[at];
            let accepted = match self.form {
                Form::Str => {
                    // Ordinals were asked before; what is left is the value of those without one.
                    self.missing != Some(key)
                        || self.missing_text.as_ref().is_none_or(|text| accepts_text(filter, text))
                }
                Form::Ip => {
                    let address = u32::try_from(key).map(|id| self.interner.get(id));
                    self.accepted.accepts(key, address.ok())
                }
                _ => self.accepted.accepts(key, None),
            };
            if accepted {
                self.keys[kept] = key;
                self.positions[kept] = self.positions[at];
                kept += 1;
            }
        }
        self.keys.truncate(kept);
        self.positions.truncate(kept);
    }

    /// Compares keys in the order of what they stand for.
    pub(super) fn compare(&self, a: u64, b: u64) -> Ordering {
        let interned = |key: u64| u32::try_from(key).map_or(&[][..], |id| self.interner.get(id));
        match self.form {
            Form::Ip => interned(a).cmp(interned(b)),
            Form::Str if self.one_segment.is_none() => interned(a).cmp(interned(b)),
            // The only string that is not in the dictionary may stand anywhere in its order.
            Form::Str if self.missing.is_some() && a != b => self.name(a).cmp(&self.name(b)),
            _ => a.cmp(&b),
        }
    }

    /// Whether the order of keys is that of the numbers that they are.
    pub(super) fn sorts_as_number(&self) -> bool {
        match self.form {
            Form::Ip => false,
            Form::Str => self.one_segment.is_some() && self.missing.is_none(),
            _ => true,
        }
    }

    fn name(&self, key: u64) -> Key {
        self.names(&[key]).pop().unwrap_or(Key::Null)
    }

    /// What keys stand for.
    pub(super) fn names(&self, keys: &[u64]) -> Vec<Key> {
        let interned = |key: u64| u32::try_from(key).map_or(&[][..], |id| self.interner.get(id));
        let text = |bytes: &[u8]| Key::Str(String::from_utf8_lossy(bytes).into_owned());
        match self.form {
            Form::I64 => keys.iter().map(|key| Key::I64(i64_of_key(*key))).collect(),
            Form::U64 if self.print == Print::Bool => {
                keys.iter().map(|key| Key::I64(i64::from(*key != 0))).collect()
            }
            Form::U64 => keys.iter().map(|key| Key::U64(*key)).collect(),
            Form::F64 => keys.iter().map(|key| Key::F64(f64_of_key(*key))).collect(),
            Form::Ip => keys
                .iter()
                .map(|key| Key::Ip(interned(*key).try_into().unwrap_or_default()))
                .collect(),
            Form::Str => match &self.one_segment {
                None => keys.iter().map(|key| text(interned(*key))).collect(),
                Some((column, terms)) => {
                    let mut names = vec![Key::Null; keys.len()];
                    let mut order: Vec<usize> =
                        (0..keys.len()).filter(|at| keys[*at] < *terms).collect();
                    order.sort_by_key(|at| keys[*at]);
                    let sorted: Vec<u64> = order.iter().map(|at| keys[*at]).collect();
                    let mut at = order.iter();
                    // The ordinals come from this very dictionary, which was just read.
                    let _ = column.dictionary().sorted_ords_to_term_cb(&sorted, |term| {
                        if let Some(at) = at.next() {
                            names[*at] = text(term);
                        }
                    });
                    for (at, key) in keys.iter().enumerate().filter(|(_, key)| **key >= *terms) {
                        names[at] = text(interned(key - terms));
                    }
                    names
                }
            },
        }
    }

    /// Every key that any document of the segment has (for `min_doc_count` 0).
    pub(super) fn all(
        &mut self,
        env: &Env<'_>,
        segment: &SegmentReader,
        each: &mut dyn FnMut(u64),
    ) -> Result<(), Error> {
        let mut batch = Batch::default();
        let docs: Vec<u32> = segment.doc_ids_alive().collect();
        for chunk in docs.chunks(BATCH_DOCS) {
            batch.docs.clear();
            batch.docs.extend_from_slice(chunk);
            self.read(env, &batch)?;
            self.keys.iter().for_each(|key| each(*key));
        }
        Ok(())
    }

    /// How many strings are numbered now.
    pub(super) fn numbered(&self) -> Result<u32, Error> {
        bucket_id(self.interner.len())
    }

    /// Whether keys stand for strings or addresses, not for themselves.
    pub(super) fn stands_for_bytes(&self) -> bool {
        matches!(self.form, Form::Str | Form::Ip)
    }

    /// How many of the lowest keys are ordinals of the one segment's dictionary.
    pub(super) fn in_dictionary(&self) -> u64 {
        self.one_segment.as_ref().map_or(0, |(_, terms)| *terms)
    }

    /// Calls `each` with what sorted keys stand for.
    pub(super) fn each_bytes(&self, sorted: &[u64], mut each: impl FnMut(u64, &[u8])) {
        let terms = self.in_dictionary();
        let split = sorted.partition_point(|key| *key < terms);
        let (ords, others) = sorted.split_at(split);
        if let Some((column, _)) = &self.one_segment {
            let mut next = ords.iter();
            // The ordinals come from this very dictionary, which was just read.
            let _ = column.dictionary().sorted_ords_to_term_cb(ords, |term| {
                if let Some(ord) = next.next() {
                    each(*ord, term);
                }
            });
        }
        for key in others {
            if let Ok(id) = u32::try_from(key - terms) {
                each(*key, self.interner.get(id));
            }
        }
    }

    /// Whether keys are numbers of strings, small and without gaps.
    pub(super) fn is_numbered(&self) -> bool {
        self.one_segment.is_none() && matches!(self.form, Form::Str | Form::Ip)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a float to integer cast saturates")]
fn whole_of(value: f64) -> i64 {
    value as i64
}

fn open_number_of(
    segment: &SegmentReader,
    field: &Field,
    form: Form,
) -> Result<Option<NumberColumn>, Error> {
    match form {
        Form::I64 | Form::U64 | Form::F64 => open_number(segment, field),
        Form::Str | Form::Ip => Ok(None),
    }
}

/// Sorts the keys of each position and drops those that repeat.
fn drop_repeated(positions: &mut Vec<u32>, keys: &mut Vec<u64>) {
    let mut kept = 0;
    let mut at = 0;
    while at < positions.len() {
        let position = positions[at];
        let mut end = at + 1;
        while end < positions.len() && positions[end] == position {
            end += 1;
        }
        keys[at..end].sort_unstable();
        for from in at..end {
            if from == at || keys[from] != keys[kept - 1] {
                keys[kept] = keys[from];
                positions[kept] = position;
                kept += 1;
            }
        }
        at = end;
    }
    positions.truncate(kept);
    keys.truncate(kept);
}
