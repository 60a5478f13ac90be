//! `_nodes/hot_threads`: which threads took the most processor time within an interval, by the
//! names that they have. There are no stacks to show.

use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

use plimsoll_index::Error;

use crate::rest::answer::Answer;
use crate::rest::call::Call;

/// How long is measured by default, and at most.
const INTERVAL: Duration = Duration::from_millis(500);
const INTERVAL_MAX: Duration = Duration::from_secs(10);
/// Threads that are shown by default.
const THREADS: usize = 3;
/// The unit of times in `/proc`: fixed on Linux.
const TICK_MS: u64 = 10;

/// GET `/_nodes[/{node}]/hot_threads`.
///
/// # Errors
/// 400 for what cannot be measured.
pub async fn get(call: Call) -> Result<Answer, Error> {
    let kind = call.query.get("type").or_else(|| call.query.get("doc_type")).unwrap_or("cpu");
    if kind != "cpu" {
        return Err(Error::illegal_argument(format!(
            "type [{kind}] is not supported, only [cpu] is"
        )));
    }
    let interval = call.query.duration("interval")?.unwrap_or(INTERVAL);
    if interval > INTERVAL_MAX {
        return Err(Error::illegal_argument("[interval] must not be above [10s]"));
    }
    let shown = call.query.number::<usize>("threads")?.unwrap_or(THREADS);
    if !super::all::own(&call.rest).is_some_and(|own| own.is_meant(call.part("node"))) {
        return Ok(Answer::text(String::new()));
    }
    let before = times();
    tokio::time::sleep(interval).await;
    let mut busiest: Vec<(u64, String)> = times()
        .into_iter()
        .map(|(id, (name, now))| {
            let then = before.get(&id).map_or(0, |(_, then)| *then);
            (now.saturating_sub(then) * TICK_MS, name)
        })
        .collect();
    busiest.sort_unstable_by(|a, b| b.cmp(a));
    let millis = interval.as_millis();
    let settings = &call.rest.node.settings;
    let mut text = format!(
        "::: {{{}}}{{{}}}{{{}}}\n   Hot threads, interval={millis}ms, busiestThreads={shown}:\n",
        settings.node_name, call.rest.identity.node_id, call.rest.address
    );
    for (took_ms, name) in busiest.iter().take(shown).filter(|(took_ms, _)| *took_ms > 0) {
        let tenths = u128::from(*took_ms) * 1000 / millis.max(1);
        // Writing to a text cannot fail.
        let _ = write!(
            text,
            "\n   {}.{}% ({took_ms}ms out of {millis}ms) cpu usage by thread '{name}'\n",
            tenths / 10,
            tenths % 10
        );
    }
    Ok(Answer::text(text))
}

/// Name and processor time (ticks) of each thread.
fn times() -> HashMap<String, (String, u64)> {
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let times = tasks.filter_map(|task| {
        let id = task.file_name().to_string_lossy().into_owned();
        let stat = fs::read_to_string(task.path().join("stat")).ok()?;
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(") ")?;
        let ticks = fields.split(' ').skip(11).take(2).filter_map(|text| text.parse::<u64>().ok());
        Some((id, (name.to_owned(), ticks.sum())))
    });
    times.collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn this_thread_is_among_them() {
        assert!(!super::times().is_empty());
    }
}
