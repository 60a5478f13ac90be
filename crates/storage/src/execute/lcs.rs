//! The longest common subsequence of two strings, by the table of the lengths of all prefixes
//! (Wagner and Fischer, 1974), walked back from its end.

use super::answer::Answer;
use super::store::find;
use crate::command::read::{Lcs, LcsForm};
use crate::rows::key::KeyRows;
use crate::rows::meta::{Found, Kind};
use crate::rows::{ANSWER_BYTES, RowsRead};
use crate::{ErrorReply, Reply};

/// What is asked for an entry of the table, and for a run of equal bytes.
const ENTRY_BYTES: usize = 4;
const RUN_BYTES: usize = 24;

/// The largest table, in entries of four bytes: 64 MiB.
const TABLE_ENTRIES_MAX: usize = 16 * 1024 * 1024;

/// A run of bytes that both strings have: where it starts in each, and how long it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Run {
    starts: [usize; 2],
    length: usize,
}

pub(super) fn lcs<R: RowsRead + ?Sized>(rows: &R, wanted: Lcs<'_>, now_ms: u64) -> Answer {
    let mut values = Vec::with_capacity(2);
    for key in wanted.keys {
        let found = find(rows, &mut KeyRows::new(key), now_ms)?;
        if found.as_ref().is_some_and(|found| found.meta.kind != Kind::String) {
            let refusal = "The specified keys must contain string values";
            return Err(ErrorReply::err(refusal).into());
        }
        values.push(found.map(Found::into_value).unwrap_or_default());
    }
    let entries = (values[0].len() + 1).checked_mul(values[1].len() + 1);
    if entries.is_none_or(|entries| entries > TABLE_ENTRIES_MAX) {
        return Err(ErrorReply::err(
            "Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        )
        .into());
    }
    let entries = entries.unwrap_or_default();
    rows.hold(entries * ENTRY_BYTES)?;
    rows.work(entries as u64)?;
    let runs = runs(&values[0], &values[1]);
    let length: usize = runs.iter().map(|run| run.length).sum();
    // A run takes a list of two pairs of numbers.
    rows.hold(length + runs.len() * (RUN_BYTES + 3 * ANSWER_BYTES))?;
    Ok(match wanted.form {
        LcsForm::Length => super::strings::number(length),
        LcsForm::Text => {
            let mut text = Vec::with_capacity(length);
            for run in runs.iter().rev() {
                text.extend_from_slice(&values[0][run.starts[0]..run.starts[0] + run.length]);
            }
            Reply::bulk(text)
        }
        LcsForm::Matches { length_min, lengths } => {
            let long = runs.iter().filter(|run| run.length >= length_min);
            let matches = long.map(|run| show(run, lengths)).collect();
            Reply::Map(vec![
                (Reply::bulk("matches"), Reply::Array(matches)),
                (Reply::bulk("len"), super::strings::number(length)),
            ])
        }
    })
}

fn show(run: &Run, lengths: bool) -> Reply {
    let number = super::strings::number;
    let mut items: Vec<Reply> = run
        .starts
        .iter()
        .map(|start| Reply::Array(vec![number(*start), number(start + run.length - 1)]))
        .collect();
    if lengths {
        items.push(number(run.length));
    }
    Reply::Array(items)
}

/// The runs of a longest common subsequence, the last first.
fn runs(a: &[u8], b: &[u8]) -> Vec<Run> {
    let width = b.len() + 1;
    let mut table = vec![0u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = if a[i - 1] == b[j - 1] {
                table[(i - 1) * width + j - 1] + 1
            } else {
                table[(i - 1) * width + j].max(table[i * width + j - 1])
            };
        }
    }
    let (mut i, mut j) = (a.len(), b.len());
    let mut runs: Vec<Run> = Vec::new();
    while i > 0 && j > 0 {
        if a[i - 1] != b[j - 1] {
            if table[(i - 1) * width + j] > table[i * width + j - 1] {
                i -= 1
            } else {
                j -= 1
            }
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.starts == [i, j] => {
                run.starts = [i - 1, j - 1];
                run.length += 1;
            }
            _ => runs.push(Run { starts: [i - 1, j - 1], length: 1 }),
        }
        i -= 1;
        j -= 1;
    }
    runs
}
