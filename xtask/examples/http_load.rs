//! A load generator for HTTP: sends the requests of a file over and over from a number of clients,
//! each with one connection, and says how many were answered and how long they took. The same
//! program drives both sides of a comparison. It starts no server and checks no answer, but can
//! keep the first answer to each request for whoever does.
//!
//! Each line of the file is `{"method": "POST", "path": "/i/_search", "body": "…"}`, with
//! `content_type` where it is not JSON. With `pages` it is a scroll: the pages after the first are
//! asked for with the id that the answer before gave, and all of them count as one request. In
//! closed mode a client sends its next request when the
//! last was answered; with `--rate` requests are due at fixed times, and latency counts from then.

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]
#![expect(clippy::print_stdout, reason = "the report is what it is run for")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::Parser;
use hdrhistogram::Histogram;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::json;
use tokio::net::TcpStream;

/// Sends the requests of a file and prints one line of JSON.
#[derive(Parser)]
struct Arguments {
    /// Where the server listens: host:port.
    #[arg(long)]
    target: String,
    /// The file of requests.
    #[arg(long)]
    requests: PathBuf,
    /// Clients, each with one connection.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// For how long; without it each request is sent once.
    #[arg(long)]
    seconds: Option<f64>,
    /// Requests a second over all clients; without it each client sends as fast as it is answered.
    #[arg(long)]
    rate: Option<f64>,
    /// Where the first answer to each request is kept, one line each.
    #[arg(long)]
    answers: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Planned {
    method: String,
    path: String,
    #[serde(default)]
    body: String,
    #[serde(default = "json_type")]
    content_type: String,
    #[serde(default = "one")]
    pages: u32,
}

const fn one() -> u32 {
    1
}

fn json_type() -> String {
    "application/json".to_owned()
}

/// What one client saw.
struct Seen {
    latency_us: Histogram<u64>,
    statuses: BTreeMap<u16, u64>,
    failures: u64,
    bytes: u64,
    answers: BTreeMap<usize, String>,
}

struct Plan {
    arguments: Arguments,
    requests: Vec<Planned>,
    next: AtomicUsize,
    began: Instant,
}

impl Plan {
    /// The next request, and when it is due; `None` at the end.
    fn next(&self) -> Option<(usize, Instant)> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = match self.arguments.rate {
            #[expect(clippy::cast_precision_loss, reason = "fewer than 2^52 requests")]
            Some(rate) => self.began + Duration::from_secs_f64(number as f64 / rate),
            None => Instant::now(),
        };
        let is_over = match self.arguments.seconds {
            Some(seconds) => due >= self.began + Duration::from_secs_f64(seconds),
            None => number >= self.requests.len(),
        };
        (!is_over).then_some((number % self.requests.len(), due))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let arguments = Arguments::parse();
    let text = std::fs::read_to_string(&arguments.requests)?;
    let requests: Vec<Planned> =
        text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    if requests.is_empty() || arguments.clients == 0 {
        return Err("there is nothing to send".into());
    }
    let clients = arguments.clients;
    let next = AtomicUsize::new(0);
    let plan = Arc::new(Plan { arguments, requests, next, began: Instant::now() });
    let running: Vec<_> = (0..clients).map(|_| tokio::spawn(client(Arc::clone(&plan)))).collect();
    let mut total = Seen::new()?;
    for client in running {
        total.add(client.await??)?;
    }
    let seconds = plan.began.elapsed().as_secs_f64();
    if let Some(path) = &plan.arguments.answers {
        let lines: Vec<&str> = total.answers.values().map(String::as_str).collect();
        std::fs::write(path, lines.join("\n"))?;
    }
    println!("{}", total.report(seconds));
    Ok(())
}

async fn client(plan: Arc<Plan>) -> Result<Seen, Box<dyn std::error::Error + Send + Sync>> {
    let mut seen = Seen::new()?;
    let mut connection = connect(&plan.arguments.target).await?;
    while let Some((at, due)) = plan.next() {
        tokio::time::sleep_until(due.into()).await;
        let planned = &plan.requests[at];
        if connection.is_closed() {
            connection = connect(&plan.arguments.target).await?;
        }
        match ask(&mut connection, &plan.arguments.target, planned).await {
            Ok((status, body)) => {
                *seen.statuses.entry(status).or_default() += 1;
                seen.bytes += body.len() as u64;
                if plan.arguments.answers.is_some() {
                    let text = || String::from_utf8_lossy(&body).replace('\n', " ");
                    seen.answers.entry(at).or_insert_with(text);
                }
            }
            Err(_) => seen.failures += 1,
        }
        let took_us = u64::try_from(due.elapsed().as_micros())?;
        seen.latency_us.saturating_record(took_us.max(1));
    }
    Ok(seen)
}

async fn connect(target: &str) -> Result<SendRequest<Full<Bytes>>, std::io::Error> {
    let stream = TcpStream::connect(target).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(std::io::Error::other)?;
    // It ends with the connection; what is wrong shows in the requests.
    tokio::spawn(connection);
    Ok(sender)
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Sends a request, and asks for its further pages: the first answer that is none of the kind that
/// was hoped for, else the first page.
async fn ask(
    connection: &mut SendRequest<Full<Bytes>>,
    target: &str,
    planned: &Planned,
) -> Result<(u16, Bytes), Fault> {
    let send = |path: &str, body: Bytes| {
        Request::builder()
            .method(planned.method.as_str())
            .uri(path)
            .header("host", target)
            .header("content-type", &planned.content_type)
            .body(Full::new(body))
    };
    let body = Bytes::from(planned.body.clone());
    let first = answer(connection, send(&planned.path, body)?).await?;
    let mut id = if planned.pages > 1 { scroll_id(&first.1)? } else { String::new() };
    for _ in 1..planned.pages {
        let body = json!({ "scroll": "1m", "scroll_id": id }).to_string();
        let (status, page) = answer(connection, send("/_search/scroll", body.into())?).await?;
        if status != 200 {
            return Ok((status, page));
        }
        if !page.windows(5).any(|word| word == b"\"_id\"") {
            return Err("a page without a hit".into());
        }
        id = scroll_id(&page)?;
    }
    if planned.pages > 1 {
        let body = json!({ "scroll_id": id }).to_string();
        let end = Request::builder()
            .method("DELETE")
            .uri("/_search/scroll")
            .header("host", target)
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body)))?;
        let (status, answered) = answer(connection, end).await?;
        if status != 200 {
            return Ok((status, answered));
        }
    }
    Ok(first)
}

/// The id in a page of a scroll, which both servers put first.
fn scroll_id(page: &Bytes) -> Result<String, Fault> {
    let text = std::str::from_utf8(page)?;
    let (_, rest) = text.split_once("\"_scroll_id\":\"").ok_or("no scroll id")?;
    Ok(rest.split('"').next().unwrap_or_default().to_owned())
}

async fn answer(
    connection: &mut SendRequest<Full<Bytes>>,
    request: Request<Full<Bytes>>,
) -> Result<(u16, Bytes), hyper::Error> {
    connection.ready().await?;
    let response = connection.send_request(request).await?;
    let status = response.status().as_u16();
    Ok((status, response.into_body().collect().await?.to_bytes()))
}

impl Seen {
    fn new() -> Result<Self, hdrhistogram::CreationError> {
        // Up to ten minutes, to three digits.
        let latency_us = Histogram::new_with_bounds(1, 600_000_000, 3)?;
        let (statuses, answers) = (BTreeMap::new(), BTreeMap::new());
        Ok(Self { latency_us, statuses, failures: 0, bytes: 0, answers })
    }

    fn add(&mut self, other: Self) -> Result<(), hdrhistogram::AdditionError> {
        self.latency_us.add(&other.latency_us)?;
        self.failures += other.failures;
        self.bytes += other.bytes;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.answers.extend(other.answers);
        Ok(())
    }

    #[expect(clippy::cast_precision_loss, reason = "microseconds and counts far below 2^52")]
    fn report(&self, seconds: f64) -> serde_json::Value {
        let millis = |micros: u64| micros as f64 / 1000.0;
        let at = |quantile: f64| millis(self.latency_us.value_at_quantile(quantile));
        let counts: Vec<(u64, u64)> = self
            .latency_us
            .iter_recorded()
            .map(|step| (step.value_iterated_to(), step.count_at_value()))
            .collect();
        json!({
            "n": self.latency_us.len(),
            "seconds": seconds,
            "throughput_ops_s": self.latency_us.len() as f64 / seconds,
            "failures": self.failures,
            "statuses": self.statuses,
            "bytes": self.bytes,
            "latency_histogram_us": counts,
            "latency_ms": {
                "mean": self.latency_us.mean() / 1000.0,
                "min": millis(self.latency_us.min()),
                "p50": at(0.5), "p90": at(0.9), "p99": at(0.99), "p99_9": at(0.999),
                "p100": millis(self.latency_us.max()),
            },
        })
    }
}
