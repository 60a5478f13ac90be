//! One round of queries at one server: so many threads, each with one connection, one query after the other,
//! and what the server says of each in the head of its answer. Which arm a query is of, the server drew.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::servers::INDEX;
use crate::LabError;
use crate::live::wire::{Connection, Protocol, http};

const WAIT: Duration = Duration::from_secs(600);
/// The most frequent numbers that are asked for.
const TOP: usize = 25;
const CPU: &str = "x-plimsoll-cpu-micros";
const BREAKER: &str = "x-plimsoll-breaker";
const PEAK: &str = "x-plimsoll-peak-bytes";

/// One query.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sample {
    /// What the answer says, ms.
    pub(super) took_ms: f64,
    /// What passed here, µs.
    pub(super) wall_us: u64,
    /// Processor time of it, µs.
    pub(super) cpu_us: f64,
    pub(super) is_on: bool,
    /// What it was charged with at most, bytes.
    pub(super) charged_bytes: f64,
}

/// All queries of one round.
#[derive(Clone, Debug, Default)]
pub(super) struct Round {
    pub(super) is_layerless: bool,
    pub(super) block: usize,
    /// By thread.
    pub(super) samples: Vec<Vec<Sample>>,
    pub(super) seconds: f64,
    /// Of the server's process meanwhile.
    pub(super) process_cpu_s: f64,
    pub(super) peak_bytes: Option<u64>,
}

/// Asks with so many threads so many queries each.
///
/// # Errors
/// A connection that fails, or an answer that is none of success.
pub(super) fn ask_all(address: &str, threads: usize, each: usize) -> Result<Round, LabError> {
    let began = Instant::now();
    let asked: io::Result<Vec<Vec<Sample>>> = thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(|| ask(address, each))).collect();
        let ended = |it: thread::ScopedJoinHandle<'_, io::Result<Vec<Sample>>>| {
            it.join().unwrap_or_else(|_| Err(io::Error::other("a client ended early")))
        };
        started.into_iter().map(ended).collect()
    });
    let samples = asked.map_err(|error| LabError::live("ask for buckets".to_owned(), error))?;
    let seconds = began.elapsed().as_secs_f64();
    Ok(Round { samples, seconds, ..Round::default() })
}

fn ask(address: &str, count: usize) -> io::Result<Vec<Sample>> {
    let mut connection = Connection::open(address, Protocol::Http, WAIT)?;
    connection.keep_head();
    let body =
        json!({ "size": 0, "aggs": { "numbers": { "terms": { "field": "n", "size": TOP } } } });
    let path = format!("/{INDEX}/_search?request_cache=false");
    let request = http("POST", &path, address, body.to_string().as_bytes());
    let mut samples = Vec::with_capacity(count);
    for _ in 0..count {
        let began = Instant::now();
        let status = connection.status(&request)?;
        let wall_us = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let answer: Value = serde_json::from_slice(&connection.body).map_err(io::Error::other)?;
        let buckets = answer["aggregations"]["numbers"]["buckets"].as_array().map_or(0, Vec::len);
        if status != 200 || buckets != TOP {
            let why = format!("{status} with {buckets} buckets of {TOP}");
            return Err(io::Error::other(why));
        }
        let took_ms = answer["took"].as_f64().unwrap_or(0.0);
        samples.push(sample(&connection, took_ms, wall_us));
    }
    Ok(samples)
}

/// A binary without the layer says nothing of the breaker, one from before it nothing at all.
fn sample(connection: &Connection, took_ms: f64, wall_us: u64) -> Sample {
    let number =
        |name: &str| connection.told(name).and_then(|text| text.parse::<f64>().ok()).unwrap_or(0.0);
    Sample {
        took_ms,
        wall_us,
        cpu_us: number(CPU),
        is_on: connection.told(BREAKER) == Some("memory"),
        charged_bytes: number(PEAK),
    }
}
