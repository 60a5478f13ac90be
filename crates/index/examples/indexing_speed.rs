//! Measures how fast documents go into the index of one partition, and what they cost: wall
//! clock and CPU time for each document, bytes on disk.
//!
//! `cargo run --release -p plimsoll-index --example indexing_speed -- [long|log|geo|text] [documents]`

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]

use std::time::Instant;

use plimsoll_base::Disk;
use plimsoll_index::mapping::Mapping;
use plimsoll_index::partition::{Options, PartitionIndex};
use serde_json::{Value, json};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next().unwrap_or_else(|| "long".to_owned());
    let count: u64 = arguments.next().map_or(Ok(1_000_000), |count| count.parse())?;
    let dir = tempfile::tempdir()?;
    let mapping = Mapping::parse(&mapping(&kind))?;
    let sources: Vec<(String, String)> =
        (0..count).map(|at| (at.to_string(), source(&kind, at).to_string())).collect();

    let (started, cpu) = (Instant::now(), cpu_seconds());
    for (id, source) in &sources {
        mapping.check(id, source.as_bytes())?;
    }
    report("check", count, started, cpu);

    let mut index =
        PartitionIndex::open(&Disk::of_the_machine(), dir.path(), &mapping, Options::default())?;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    for (at, (id, source)) in (1..).zip(&sources) {
        index.put(id.as_bytes(), id, source.as_bytes(), true)?;
        if at % 100_000 == 0 {
            index.refresh(at)?;
        }
    }
    index.refresh(count)?;
    report("put and refresh", count, started, cpu);
    index.persist()?;
    while index.statistics().writing {
        std::thread::sleep(std::time::Duration::from_millis(10));
        index.refresh(count)?;
    }
    report("and persist, with merges", count, started, cpu);

    let updates = count / 10;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    for (id, source) in sources.iter().step_by(10) {
        index.put(id.as_bytes(), id, source.as_bytes(), false)?;
    }
    index.refresh(count)?;
    report("updates", updates, started, cpu);

    let refreshes = 200;
    let (started, cpu) = (Instant::now(), cpu_seconds());
    for (id, source) in sources.iter().take(200) {
        index.put(id.as_bytes(), id, source.as_bytes(), false)?;
        index.refresh(count)?;
    }
    report("update and refresh of one", refreshes, started, cpu);

    index.force_merge(1)?;
    index.refresh(count)?;
    index.persist()?;
    let statistics = index.statistics();
    let bytes: u64 = statistics.bytes.values().sum();
    eprintln!(
        "{} documents, {} segments, {:.1} bytes each: {:?}",
        statistics.docs,
        statistics.segments,
        ratio(bytes, statistics.docs),
        statistics.bytes
    );
    Ok(())
}

fn report(what: &str, count: u64, started: Instant, cpu: f64) {
    let seconds = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu;
    let docs = ratio(count, 1);
    eprintln!(
        "{what}: {:.0}/s, {:.2} us wall and {:.2} us CPU each",
        docs / seconds,
        seconds * 1e6 / docs,
        cpu * 1e6 / docs
    );
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(a: u64, b: u64) -> f64 {
    a as f64 / b as f64
}

/// CPU time of all threads of this process, from `/proc/self/stat` (clock ticks of 10 ms).
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit(')').next().unwrap_or_default();
    let mut numbers = after.split_whitespace().skip(11);
    let mut next =
        || numbers.next().and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    (next() + next()) / 100.0
}

fn mapping(kind: &str) -> Value {
    let properties = match kind {
        "log" => json!({
            "@timestamp": {"type": "date", "format": "strict_date_optional_time||epoch_second"},
            "clientip": {"type": "ip"},
            "request": {"type": "match_only_text", "fields": {"raw": {"type": "keyword", "ignore_above": 256}}},
            "status": {"type": "integer"},
            "size": {"type": "integer"},
        }),
        "geo" => json!({"location": {"type": "geo_point"}}),
        "text" => json!({"body": {"type": "text"}}),
        _ => json!({"n": {"type": "long"}}),
    };
    json!({ "properties": properties })
}

fn source(kind: &str, at: u64) -> Value {
    let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20;
    match kind {
        "log" => json!({
            "@timestamp": 893_964_617 + at / 10,
            "clientip": format!("{}.{}.{}.0", 1 + mixed % 200, mixed / 200 % 250, mixed / 50_000 % 250),
            "request": format!("GET /images/page{}/picture_{}.gif HTTP/1.0", mixed % 300, mixed % 5000),
            "status": if mixed.is_multiple_of(20) { 304 } else { 200 },
            "size": mixed % 100_000,
        }),
        "geo" => {
            json!({"location": [ratio(mixed % 360_000, 1000) - 180.0, ratio(mixed / 360_000 % 180_000, 1000) - 90.0]})
        }
        "text" => {
            let words: Vec<String> = (0..100)
                .map(|word| format!("word{}", (mixed >> (word % 20)) % (1 << (4 + word % 12))))
                .collect();
            json!({ "body": words.join(" ") })
        }
        _ => json!({ "n": mixed }),
    }
}
