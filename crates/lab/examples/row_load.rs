//! A load of reads and writes by key over RESP: the same program drives Plimsoll and Redis. It
//! starts no server, and checks no more than that each answer is of the right kind.
//!
//! `row_load load|run TARGETS KEYS VALUE_BYTES [READS:WRITES CLIENTS SECONDS SEED [LEVEL]]`
//!
//! TARGETS are host:port, separated by commas; clients are spread over them. `load` sets every key
//! once, in pipelines. `run` keeps one request in flight per client, each on a connection and a
//! thread of its own, on keys that are drawn as YCSB draws them (zipfian, θ = 0.99), and prints one
//! line of JSON; latencies are in microseconds, from when a request is sent. LEVEL is how fresh reads
//! are to be, in the words of PLIMSOLL.READS.

use std::error::Error;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use plimsoll_control::Random;
use plimsoll_lab::keys::{Distribution, name};
use serde_json::{Value, json};

type Failure = Box<dyn Error + Send + Sync>;

const PIPELINE: usize = 256;
/// Nothing waits longer for an answer.
const TIMEOUT: Duration = Duration::from_secs(10);
const LATENCY_MAX_US: u64 = 60_000_000;
const USAGE: &str =
    "row_load load|run TARGETS KEYS VALUE_BYTES [READS:WRITES CLIENTS SECONDS SEED [LEVEL]]";

/// What is asked for, and of what size.
#[derive(Clone, Copy)]
struct Rows {
    keys: u64,
    value_bytes: usize,
}

struct Client {
    reader: BufReader<TcpStream>,
    out: Vec<u8>,
    line: Vec<u8>,
    /// Values are cut from this, so that making them costs little and they do not compress.
    noise: Vec<u8>,
    rows: Rows,
}

impl Client {
    fn connect(target: &str, rows: Rows, random: &mut Random) -> Result<Self, Failure> {
        let stream = TcpStream::connect(target)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let noise = (0..rows.value_bytes * 2 + 1)
            .map(|_| u8::try_from(random.below(95)).map_or(b' ', |n| b' ' + n))
            .collect();
        let (out, line) = (Vec::new(), Vec::new());
        Ok(Self { reader: BufReader::new(stream), out, line, noise, rows })
    }

    /// Has its reads be so fresh.
    fn read_at(&mut self, level: &str) -> Result<(), Failure> {
        self.out.extend_from_slice(format!("PLIMSOLL.READS {level}\r\n").as_bytes());
        self.send()?;
        self.answer()?.map_or(Ok(()), |error| Err(error.into()))
    }

    fn put(&mut self, key: u64, value_at: Option<usize>) {
        let key = name(key);
        let (words, verb) = if value_at.is_some() { (3, "SET") } else { (2, "GET") };
        let head = format!("*{words}\r\n$3\r\n{verb}\r\n${}\r\n{key}\r\n", key.len());
        self.out.extend_from_slice(head.as_bytes());
        if let Some(at) = value_at {
            let value = &self.noise[at..at + self.rows.value_bytes];
            self.out.extend_from_slice(format!("${}\r\n", value.len()).as_bytes());
            self.out.extend_from_slice(value);
            self.out.extend_from_slice(b"\r\n");
        }
    }

    fn send(&mut self) -> Result<(), Failure> {
        self.reader.get_mut().write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Reads an answer; says what an error was.
    fn answer(&mut self) -> Result<Option<String>, Failure> {
        self.line.clear();
        self.reader.read_until(b'\n', &mut self.line)?;
        let text = std::str::from_utf8(&self.line)?.trim_end();
        match text.split_at_checked(1) {
            Some(("+", _)) => Ok(None),
            Some(("-", error)) => Ok(Some(error.to_owned())),
            Some(("$", length)) => {
                let length: usize = length.parse().map_err(|_| "a key is not there")?;
                let mut value = vec![0; length + 2];
                self.reader.read_exact(&mut value)?;
                if length != self.rows.value_bytes {
                    return Err(format!("a value has {length} bytes").into());
                }
                Ok(None)
            }
            _ => Err(format!("not an answer: {text:?}").into()),
        }
    }
}

fn load(targets: &[&str], rows: Rows) -> Result<Value, Failure> {
    let mut random = Random::new(1);
    let mut client = Client::connect(targets[0], rows, &mut random)?;
    for first in (0..rows.keys).step_by(PIPELINE) {
        let last = (first + PIPELINE as u64).min(rows.keys);
        for key in first..last {
            let at = random.below(rows.value_bytes);
            client.put(key, Some(at));
        }
        client.send()?;
        for _ in first..last {
            if let Some(error) = client.answer()? {
                return Err(error.into());
            }
        }
    }
    Ok(json!({ "keys": rows.keys }))
}

/// What one client did.
struct Told {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    errors: u64,
    last_error: Option<String>,
}

fn run_client(
    mut client: Client,
    mix: (u32, u32),
    until: Instant,
    mut random: Random,
) -> Result<Told, Failure> {
    let histogram = || Histogram::new_with_max(LATENCY_MAX_US, 3);
    let (reads, writes) = (histogram()?, histogram()?);
    let mut told = Told { reads, writes, errors: 0, last_error: None };
    let distribution = Distribution::scrambled_zipfian();
    let share = f64::from(mix.0) / f64::from(mix.0 + mix.1);
    while Instant::now() < until {
        let is_read = random.unit() < share;
        let key = distribution.next(client.rows.keys, &mut random);
        let at = random.below(client.rows.value_bytes);
        client.put(key, (!is_read).then_some(at));
        let begin = Instant::now();
        client.send()?;
        let error = client.answer()?;
        let took = u64::try_from(begin.elapsed().as_micros())?.min(LATENCY_MAX_US);
        match (error, is_read) {
            (Some(error), _) => {
                told.errors += 1;
                told.last_error = Some(error);
            }
            (None, true) => told.reads.record(took)?,
            (None, false) => told.writes.record(took)?,
        }
    }
    Ok(told)
}

fn figures(histogram: &Histogram<u64>) -> Value {
    let mut figures = json!({ "n": histogram.len(), "mean": histogram.mean() });
    for (label, quantile) in [("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999)] {
        // Fewer than ten beyond it say nothing.
        if histogram.len() as f64 * (1.0 - quantile) >= 10.0 {
            figures[label] = json!(histogram.value_at_quantile(quantile));
        }
    }
    figures
}

fn run(targets: &[&str], rows: Rows, words: &[String]) -> Result<Value, Failure> {
    let (words, level) = words.split_at(words.len().min(4));
    let [mix, clients, seconds, seed] = words else { return Err(USAGE.into()) };
    let (reads, writes) = mix.split_once(':').ok_or(USAGE)?;
    let mix = (reads.parse()?, writes.parse()?);
    let (clients, seconds, seed): (u64, f64, u64) =
        (clients.parse()?, seconds.parse()?, seed.parse()?);
    let mut ready = Vec::new();
    for n in 0..clients {
        let mut random = Random::new(seed.wrapping_mul(1_000_003).wrapping_add(n));
        let target = targets[usize::try_from(n)? % targets.len()];
        let mut client = Client::connect(target, rows, &mut random)?;
        if let [level] = level {
            client.read_at(level)?;
        }
        ready.push((client, random));
    }
    let begin = Instant::now();
    let until = begin + Duration::from_secs_f64(seconds);
    let running: Vec<_> = ready
        .into_iter()
        .map(|(client, random)| std::thread::spawn(move || run_client(client, mix, until, random)))
        .collect();
    let mut total: Option<Told> = None;
    for client in running {
        let told = client.join().map_err(|_| "a client panicked")??;
        match &mut total {
            Some(total) => {
                total.reads.add(&told.reads)?;
                total.writes.add(&told.writes)?;
                total.errors += told.errors;
                total.last_error = told.last_error.or(total.last_error.take());
            }
            None => total = Some(told),
        }
    }
    let told = total.ok_or("no client")?;
    Ok(json!({
        "seconds": begin.elapsed().as_secs_f64(),
        "reads_us": figures(&told.reads),
        "writes_us": figures(&told.writes),
        "errors": told.errors,
        "last_error": told.last_error,
    }))
}

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [verb, targets, keys, value_bytes, rest @ ..] = words.as_slice() else {
        return Err(USAGE.into());
    };
    let targets: Vec<&str> = targets.split(',').collect();
    let rows = Rows { keys: keys.parse()?, value_bytes: value_bytes.parse()? };
    let told = match verb.as_str() {
        "load" => load(&targets, rows)?,
        "run" => run(&targets, rows, rest)?,
        _ => return Err(USAGE.into()),
    };
    writeln!(std::io::stdout(), "{told}")?;
    Ok(())
}
