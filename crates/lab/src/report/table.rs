//! A text table with aligned columns: the first column to the left, numbers to the right.

use std::fmt;

/// A table under a heading.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    heading: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(heading: &str, columns: &[&str]) -> Self {
        let first = columns.iter().map(|name| (*name).to_owned()).collect();
        Self { heading: heading.to_owned(), rows: vec![first] }
    }

    pub(crate) fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(|cell| cell.as_ref().to_owned()).collect());
    }

    fn is_number(cell: &str) -> bool {
        cell.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') || cell == "n/a"
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            self.rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max()
        };
        let widths: Vec<usize> = (0..columns).map(|at| width(at).unwrap_or(0)).collect();
        if !self.heading.is_empty() {
            writeln!(f, "{}", self.heading)?;
        }
        for (number, row) in self.rows.iter().enumerate() {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let right = at > 0 && (number == 0 || Self::is_number(cell));
                let width = widths[at];
                line.push_str(&match right {
                    true => format!("{cell:>width$}  "),
                    false => format!("{cell:<width$}  "),
                });
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f)
    }
}
