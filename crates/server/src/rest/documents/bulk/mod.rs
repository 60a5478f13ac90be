//! `_bulk`: many writes in one request. The body is read as it arrives; whenever about a
//! mebibyte of items has come they are carried out, and their answers are kept in order.
//!
//! A request below that size is understood whole before anything of it is done. In a larger one a
//! malformed action line ends the request with an error although what stood before it is done.

pub mod answers;
pub mod chunk;
pub mod lines;
pub mod parser;

use std::io::Write;
use std::time::Instant;

use plimsoll_index::Error;

use super::refresh::Refresh;
use super::source_filter::SourceFilter;
use super::write::{check_pipeline, validation};
use crate::rest::answer::Answer;
use crate::rest::call::Call;
use answers::Answers;
use chunk::Defaults;
use lines::Lines;
use parser::{Item, Parser};

/// How much is gathered before it is carried out, in bytes of documents.
const CHUNK_BYTES: usize = 1 << 20;
/// How many items are gathered at most.
const CHUNK_ITEMS: usize = 10_000;

/// The longest line: a document is at most 8 MiB in the log, and an update may have two.
const LINE_BYTES_MAX: usize = 16 << 20;

/// POST or PUT `[/{index}]/_bulk`.
///
/// # Errors
/// 400 where the body is no bulk request. What is wrong with one item stands in its place.
pub async fn bulk(mut call: Call) -> Result<Answer, Error> {
    let start = Instant::now();
    check_pipeline(&call.query)?;
    let refresh = Refresh::of(&call.query)?;
    let asks_source = call.query.names().any(|name| name.starts_with("_source"));
    let defaults = Defaults {
        index: call.part("index").map(str::to_owned),
        routing: call.query.get("routing").map(str::to_owned),
        requires_alias: call.query.flag_or("require_alias", false)?,
        was_refreshed: refresh == Refresh::Now,
        source: asks_source.then(|| SourceFilter::of_query(&call.query)).transpose()?,
    };
    let mut work = Work {
        parser: Parser::default(),
        lines: Lines::default(),
        items: Vec::new(),
        bytes: 0,
        answers: Answers::default(),
    };
    while let Some(piece) = call.body.piece().await? {
        work.lines.push(piece);
        while let Some(line) = work.lines.next_line() {
            work.bytes += line.len() + 1;
            work.items.extend(work.parser.line(line)?);
            if work.bytes >= CHUNK_BYTES || work.items.len() >= CHUNK_ITEMS {
                work.carry_out(&mut call, &defaults).await;
            }
        }
        if work.lines.rest().len() > LINE_BYTES_MAX {
            return Err(Error::too_large(
                "content_too_long_exception",
                format!("a line of the bulk request is longer than [{LINE_BYTES_MAX}] bytes"),
            ));
        }
    }
    if !work.lines.rest().trim_ascii().is_empty() {
        return Err(Error::illegal_argument(
            "The bulk request must be terminated by a newline [\\n]",
        ));
    }
    work.parser.finish()?;
    if work.items.is_empty() && work.answers.count == 0 {
        return Err(validation(&["no requests added"]));
    }
    work.carry_out(&mut call, &defaults).await;
    let answers = work.answers;
    answers.touched.make_visible(call.coordinator(), refresh).await?;
    let took = start.elapsed().as_millis();
    let mut out = Vec::with_capacity(answers.items.len() + 64);
    // Nothing here can fail: the bytes are in memory.
    let _ = write!(out, "{{\"took\":{took},\"errors\":{},\"items\":[", answers.has_errors);
    out.extend_from_slice(&answers.items);
    out.extend_from_slice(b"]}");
    Ok(Answer::raw(out))
}

/// A bulk request on its way.
struct Work {
    parser: Parser,
    lines: Lines,
    /// Items that wait to be carried out.
    items: Vec<Item>,
    /// Bytes of the body that they hold.
    bytes: usize,
    answers: Answers,
}

impl Work {
    async fn carry_out(&mut self, call: &mut Call, defaults: &Defaults) {
        let items = std::mem::take(&mut self.items);
        if !items.is_empty() {
            chunk::carry_out(&call.rest, &call.grant, defaults, items, &mut self.answers).await;
        }
        // A line that is only begun still counts: it is no more than its piece.
        call.body.release(self.bytes);
        self.bytes = 0;
    }
}
