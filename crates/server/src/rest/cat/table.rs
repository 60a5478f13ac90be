//! Tables as `_cat` prints them: columns by name, alias or pattern, rows sorted, amounts in the
//! units that were asked for, text in columns or JSON. What the rows are is for others to say.

use std::cmp::Ordering;

use plimsoll_index::Error;
use serde_json::{Map, Value};

use super::units;
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use crate::rest::media;
use plimsoll_stdx::wildcard_matches;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Shorter names for it, between commas.
    pub aliases: &'static str,
    /// What stands in it.
    pub about: &'static str,
    /// Shown where no columns are asked for.
    pub is_shown: bool,
    /// Aligned to the right.
    pub is_right: bool,
}

/// A column of text that is shown by default.
#[must_use]
pub const fn text(name: &'static str, aliases: &'static str, about: &'static str) -> Column {
    Column { name, aliases, about, is_shown: true, is_right: false }
}

/// A column of numbers that is shown by default.
#[must_use]
pub const fn number(name: &'static str, aliases: &'static str, about: &'static str) -> Column {
    Column { name, aliases, about, is_shown: true, is_right: true }
}

impl Column {
    /// The same, shown only where it is asked for.
    #[must_use]
    pub const fn hidden(mut self) -> Self {
        self.is_shown = false;
        self
    }
}

/// What stands in a column of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text.
    Text(String),
    /// A whole number.
    Number(u64),
    /// A number with a fraction and the text that shows it.
    Decimal(f64, String),
    /// Bytes.
    Bytes(u64),
    /// A time, ms.
    Millis(u64),
    /// Nothing.
    None,
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<u32> for Cell {
    fn from(number: u32) -> Self {
        Self::Number(u64::from(number))
    }
}

impl From<usize> for Cell {
    fn from(number: usize) -> Self {
        Self::Number(number as u64)
    }
}

impl Cell {
    fn shown(&self, bytes_unit: Option<&str>, time_unit: Option<&str>) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            Self::Number(number) => Some(number.to_string()),
            Self::Decimal(_, text) => Some(text.clone()),
            Self::Bytes(bytes) => bytes_unit
                .and_then(|unit| units::bytes_in(*bytes, unit))
                .or_else(|| Some(units::bytes(*bytes))),
            Self::Millis(millis) => time_unit
                .and_then(|unit| units::millis_in(*millis, unit))
                .or_else(|| Some(units::millis(*millis))),
            Self::None => None,
        }
    }

    fn order(&self, other: &Self) -> Ordering {
        let number = |cell: &Self| match cell {
            Self::Number(number) | Self::Bytes(number) | Self::Millis(number) => Some(*number),
            _ => None,
        };
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a.cmp(b),
            (Self::Decimal(a, _), Self::Decimal(b, _)) => a.total_cmp(b),
            _ => number(self).cmp(&number(other)),
        }
    }
}

/// The answer to a request for a table: its help, or its rows as the request wants them.
///
/// # Errors
/// 400 where it sorts by a column that there is none of, or wants a unit that there is none of.
pub fn answer(call: &Call, columns: &[Column], mut rows: Vec<Vec<Cell>>) -> Result<Answer, Error> {
    let query = &call.query;
    if query.flag_or("help", false)? {
        return Ok(Answer::text(help(columns)));
    }
    let bytes_unit = query.get("bytes");
    let time_unit = query.get("time");
    if let Some(unit) = bytes_unit.filter(|unit| units::bytes_in(0, unit).is_none()) {
        return Err(Error::illegal_argument(format!("Unknown byte size unit [{unit}]")));
    }
    if let Some(unit) = time_unit.filter(|unit| units::millis_in(0, unit).is_none()) {
        return Err(Error::illegal_argument(format!("Unknown time unit [{unit}]")));
    }
    sort(&mut rows, columns, &query.list("s"))?;
    let chosen = choose(columns, &query.list("h"));
    let shown: Vec<Vec<Option<String>>> = rows
        .iter()
        .map(|row| {
            let cell = |(at, _): &(usize, String)| row.get(*at)?.shown(bytes_unit, time_unit);
            chosen.iter().map(cell).collect()
        })
        .collect();
    if wants_json(call) {
        return Ok(Answer::json(&as_json(&chosen, shown)));
    }
    Ok(Answer::text(as_text(columns, &chosen, &shown, query.flag_or("v", false)?)))
}

fn wants_json(call: &Call) -> bool {
    match call.query.get("format") {
        Some("json") => true,
        Some("text") => false,
        _ => media::prefers_json(call.accept.as_deref()),
    }
}

/// The columns that are shown, and the name that each has there: the one that it was asked by.
fn choose(columns: &[Column], wanted: &[&str]) -> Vec<(usize, String)> {
    if wanted.is_empty() {
        let shown = columns.iter().enumerate().filter(|(_, column)| column.is_shown);
        return shown.map(|(at, column)| (at, column.name.to_owned())).collect();
    }
    let mut chosen = Vec::new();
    for name in wanted {
        if name.contains('*') {
            let matching = columns.iter().enumerate().filter(|(at, column)| {
                wildcard_matches(name, column.name)
                    && !chosen.iter().any(|(known, _): &(usize, String)| known == at)
            });
            let matching: Vec<_> = matching.map(|(at, it)| (at, it.name.to_owned())).collect();
            chosen.extend(matching);
        } else if let Some(at) = find(columns, name) {
            chosen.push((at, (*name).to_owned()));
        }
    }
    chosen
}

fn find(columns: &[Column], name: &str) -> Option<usize> {
    columns.iter().position(|column| {
        column.name == name || column.aliases.split(',').any(|alias| alias == name)
    })
}

fn sort(rows: &mut [Vec<Cell>], columns: &[Column], by: &[&str]) -> Result<(), Error> {
    let mut keys = Vec::new();
    for name in by {
        let (name, is_descending) = match name.rsplit_once(':') {
            Some((name, "desc")) => (name, true),
            Some((name, "asc")) => (name, false),
            _ => (*name, false),
        };
        let Some(at) = find(columns, name) else {
            let reason = format!("Unable to sort by unknown sort key `{name}`");
            return Err(Error::invalid("unsupported_operation_exception", reason));
        };
        keys.push((at, is_descending));
    }
    rows.sort_by(|a, b| {
        for (at, is_descending) in &keys {
            let order = match (a.get(*at), b.get(*at)) {
                (Some(a), Some(b)) => a.order(b),
                _ => Ordering::Equal,
            };
            let order = if *is_descending { order.reverse() } else { order };
            if order != Ordering::Equal {
                return order;
            }
        }
        Ordering::Equal
    });
    Ok(())
}

fn as_json(chosen: &[(usize, String)], rows: Vec<Vec<Option<String>>>) -> Value {
    let row = |cells: Vec<Option<String>>| {
        let named = chosen.iter().map(|(_, name)| name.clone()).zip(cells);
        let map: Map<String, Value> = named.map(|(name, cell)| (name, Value::from(cell))).collect();
        Value::Object(map)
    };
    rows.into_iter().map(row).collect()
}

fn as_text(
    columns: &[Column],
    chosen: &[(usize, String)],
    rows: &[Vec<Option<String>>],
    has_header: bool,
) -> String {
    let width = |at: usize, name: &str| {
        let cells = rows.iter().filter_map(|row| row.get(at)?.as_ref());
        let widest = cells.map(|cell| cell.chars().count()).max().unwrap_or(0);
        if has_header { widest.max(name.chars().count()) } else { widest }
    };
    let widths: Vec<usize> =
        chosen.iter().enumerate().map(|(at, (_, name))| width(at, name)).collect();
    let mut out = String::new();
    let mut line = |cells: Vec<&str>| {
        let last = cells.len().saturating_sub(1);
        for (at, cell) in cells.iter().enumerate() {
            if at > 0 {
                out.push(' ');
            }
            let space = widths.get(at).map_or(0, |width| width - cell.chars().count().min(*width));
            let is_right = chosen
                .get(at)
                .and_then(|(column, _)| columns.get(*column))
                .is_some_and(|it| it.is_right);
            if is_right {
                out.extend(std::iter::repeat_n(' ', space));
            }
            out.push_str(cell);
            // Text in the last column needs no space after it.
            if !is_right && at < last {
                out.extend(std::iter::repeat_n(' ', space));
            }
        }
        out.push('\n');
    };
    if has_header {
        line(chosen.iter().map(|(_, name)| name.as_str()).collect());
    }
    for row in rows {
        line(row.iter().map(|cell| cell.as_deref().unwrap_or_default()).collect());
    }
    out
}

fn help(columns: &[Column]) -> String {
    let width = |of: fn(&Column) -> &'static str| {
        columns.iter().map(|column| of(column).len()).max().unwrap_or(0)
    };
    let (names, aliases, about) =
        (width(|it| it.name), width(|it| it.aliases), width(|it| it.about));
    let mut out = String::new();
    for column in columns {
        out.push_str(&format!(
            "{:names$} | {:aliases$} | {:about$}\n",
            column.name, column.aliases, column.about
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rest::http_status::HttpStatus;

    const COLUMNS: &[Column] = &[
        text("index", "i,idx", "index name"),
        number("docs.count", "dc", "documents"),
        number("store.size", "ss", "bytes"),
        text("uuid", "id", "its id").hidden(),
    ];

    fn rows() -> Vec<Vec<Cell>> {
        vec![
            vec!["bench".into(), 1000u64.into(), Cell::Bytes(5812), "u1".into()],
            vec!["g".into(), 3u64.into(), Cell::None, "u2".into()],
        ]
    }

    fn shown(names: &[&str], has_header: bool) -> String {
        let chosen = choose(COLUMNS, names);
        let cells: Vec<Vec<Option<String>>> = rows()
            .iter()
            .map(|row| chosen.iter().map(|(at, _)| row[*at].shown(None, None)).collect())
            .collect();
        as_text(COLUMNS, &chosen, &cells, has_header)
    }

    #[test]
    fn columns_are_aligned() {
        assert_eq!(
            shown(&[], true),
            "index docs.count store.size\nbench       1000      5.6kb\ng              3           \n"
        );
        assert_eq!(shown(&["i", "dc"], false), "bench 1000\ng        3\n");
        assert_eq!(
            shown(&["id", "*.count"], true),
            "id docs.count\nu1       1000\nu2          3\n"
        );
    }

    #[test]
    fn rows_are_sorted_by_what_they_are() {
        let mut sorted = rows();
        sort(&mut sorted, COLUMNS, &["dc"]).unwrap();
        assert_eq!(sorted[0][0], "g".into());
        sort(&mut sorted, COLUMNS, &["index:desc"]).unwrap();
        assert_eq!(sorted[0][0], "g".into());
        assert_eq!(sort(&mut sorted, COLUMNS, &["x"]).unwrap_err().status(), 400);
    }

    #[test]
    fn json_has_the_names_that_were_asked_for() {
        let chosen = choose(COLUMNS, &["i", "store.size"]);
        let cells = vec![vec![Some("g".to_owned()), None]];
        assert_eq!(as_json(&chosen, cells).to_string(), r#"[{"i":"g","store.size":null}]"#);
    }
}
