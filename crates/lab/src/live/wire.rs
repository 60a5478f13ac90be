//! Connections of the load generator: HTTP/1.1 with keep-alive and RESP, over blocking sockets.
//! A request is bytes that were rendered once, so that sending it costs one write. They read
//! answers only as far as a generator needs: how it ended, and its body where somebody asks.
//! They do not speak TLS, do not follow redirects and keep no pool.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use serde_json::Value;

/// The largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The longest line of an answer's head.
const LINE_BYTES_MAX: usize = 16 << 10;
/// Lines of an answer's head, and arrays within arrays of RESP.
const LINES_MAX: usize = 200;
const NESTING_MAX: usize = 8;
/// How much of a body is looked at for parts that failed: the shards stand at the front.
const FRONT_BYTES: usize = 512;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// As it should.
    Answered,
    /// With an answer of which a part is missing.
    Partial,
    /// Refused for load.
    Refused,
    /// Otherwise, in a word.
    Failed(String),
}

/// What a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// REST.
    Http,
    /// The protocol of Redis.
    Resp,
}

/// One connection. After an error it is of no use any more.
pub(crate) struct Connection {
    protocol: Protocol,
    stream: BufReader<TcpStream>,
    /// The body of the last answer.
    pub(crate) body: Vec<u8>,
    is_over: bool,
    /// Name, in small letters, and value of each line of the last answer's head, where they are kept.
    head: Option<Vec<(String, String)>>,
}

fn bad(what: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, what)
}

impl Connection {
    /// Connects; no read or write then waits longer than `timeout`.
    pub(crate) fn open(address: &str, protocol: Protocol, timeout: Duration) -> io::Result<Self> {
        let found = address.to_socket_addrs()?.next();
        let found = found.ok_or_else(|| bad("an address without a host"))?;
        let stream = TcpStream::connect_timeout(&found, CONNECT_TIMEOUT.min(timeout))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        let stream = BufReader::with_capacity(16 << 10, stream);
        Ok(Self { protocol, stream, body: Vec::new(), is_over: false, head: None })
    }

    /// Whether the other side said that this was the last answer.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Keeps what the heads of answers over HTTP say from now on.
    pub(crate) fn keep_head(&mut self) {
        self.head = Some(Vec::new());
    }

    /// What the head of the last answer says by this name, in small letters.
    pub(crate) fn told(&self, name: &str) -> Option<&str> {
        self.head.iter().flatten().find(|line| line.0 == name).map(|line| line.1.as_str())
    }

    /// Sends a request and reads its answer.
    pub(crate) fn ask(&mut self, request: &[u8]) -> io::Result<Ended> {
        self.ask_all(request, 1)
    }

    /// Sends so many requests in one piece and reads the answer of each: how the first ended that did not as
    /// it should, else as all did; the body is the last one's.
    pub(crate) fn ask_all(&mut self, requests: &[u8], count: usize) -> io::Result<Ended> {
        self.stream.get_mut().write_all(requests)?;
        let mut worst = Ended::Answered;
        for _ in 0..count {
            let ended = self.answer()?;
            if worst == Ended::Answered {
                worst = ended;
            }
        }
        Ok(worst)
    }

    fn answer(&mut self) -> io::Result<Ended> {
        match self.protocol {
            Protocol::Http => Ok(ended(self.http_answer()?, &self.body)),
            Protocol::Resp => {
                self.body.clear();
                let mut refusal = None;
                self.resp_value(0, &mut refusal)?;
                Ok(match refusal {
                    None => Ended::Answered,
                    Some(word) if word == "TRYAGAIN" => Ended::Refused,
                    Some(word) => Ended::Failed(word),
                })
            }
        }
    }

    /// Sends a request over HTTP; the status of its answer.
    pub(crate) fn status(&mut self, request: &[u8]) -> io::Result<u16> {
        self.stream.get_mut().write_all(request)?;
        self.http_answer()
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = Vec::new();
        let mut limited = (&mut self.stream).take(LINE_BYTES_MAX as u64);
        limited.read_until(b'\n', &mut line)?;
        if line.last() != Some(&b'\n') {
            let kind = ErrorKind::UnexpectedEof;
            return Err(io::Error::new(kind, "the answer ends within a line"));
        }
        line.truncate(line.len() - 1 - usize::from(line.ends_with(b"\r\n")));
        String::from_utf8(line).map_err(|_| bad("a line that is no text"))
    }

    fn http_answer(&mut self) -> io::Result<u16> {
        self.body.clear();
        self.head.iter_mut().for_each(Vec::clear);
        let first = self.line()?;
        let status = first.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5));
        let status = status.and_then(|code| code.parse::<u16>().ok());
        let status = status.ok_or_else(|| bad("no status line"))?;
        let (mut length, mut is_chunked) = (0, false);
        for number in 0.. {
            let line = self.line()?;
            let Some((name, value)) = line.split_once(':') else { break };
            if number > LINES_MAX {
                return Err(bad("too many lines in the head"));
            }
            let (name, value) = (name.to_ascii_lowercase(), value.trim());
            match name.as_str() {
                "content-length" => length = value.parse().map_err(|_| bad("content-length"))?,
                "transfer-encoding" => is_chunked = value.eq_ignore_ascii_case("chunked"),
                "connection" => self.is_over |= value.eq_ignore_ascii_case("close"),
                _ => {}
            }
            if let Some(head) = &mut self.head {
                head.push((name, value.to_owned()));
            }
        }
        if !is_chunked {
            self.take(length)?;
            return Ok(status);
        }
        loop {
            let size = self.line()?;
            let digits = size.split(';').next().unwrap_or_default().trim();
            let size = usize::from_str_radix(digits, 16).map_err(|_| bad("a chunk's size"))?;
            if size == 0 {
                while !self.line()?.is_empty() {}
                return Ok(status);
            }
            self.take(size)?;
            self.line()?;
        }
    }

    /// Adds so many bytes to the body.
    fn take(&mut self, bytes: usize) -> io::Result<()> {
        if self.body.len().saturating_add(bytes) > ANSWER_BYTES_MAX {
            return Err(bad("the answer is too large"));
        }
        let had = self.body.len();
        self.body.resize(had + bytes, 0);
        self.stream.read_exact(&mut self.body[had..])
    }

    fn resp_value(&mut self, depth: usize, refusal: &mut Option<String>) -> io::Result<()> {
        let line = self.line()?;
        let Some((kind, rest)) = line.split_at_checked(1) else { return Err(bad("no reply")) };
        let count = |least: i64| match rest.parse::<i64>() {
            Ok(count) if count >= least => Ok(usize::try_from(count).unwrap_or(0)),
            _ => Err(bad("a length")),
        };
        match kind {
            "+" | ":" | "," | "#" | "_" | "(" => self.body.extend_from_slice(rest.as_bytes()),
            "-" => {
                let word = rest.split(' ').next().unwrap_or_default();
                refusal.get_or_insert_with(|| word.to_owned());
            }
            "$" | "=" if rest == "-1" => {}
            "$" | "=" => {
                let bytes = count(0)?;
                self.take(bytes)?;
                self.line()?;
            }
            "*" | "~" | ">" | "%" if depth < NESTING_MAX => {
                let each = if kind == "%" { 2 } else { 1 };
                for _ in 0..count(-1)? * each {
                    self.resp_value(depth + 1, refusal)?;
                }
            }
            _ => return Err(bad("a reply of an unknown kind")),
        }
        Ok(())
    }
}

/// How a request over HTTP ended, by its status and the front of its body.
fn ended(status: u16, body: &[u8]) -> Ended {
    match status {
        200 | 201 => {
            let front = &body[..body.len().min(FRONT_BYTES)];
            if shards_failed(front) { Ended::Partial } else { Ended::Answered }
        }
        429 => Ended::Refused,
        // All copies refused: the status of the whole is 503 in some versions.
        503 if contains(body, b"rejected_execution") => Ended::Refused,
        other => Ended::Failed(other.to_string()),
    }
}

fn contains(body: &[u8], word: &[u8]) -> bool {
    body.windows(word.len()).any(|part| part == word)
}

/// Whether `"failed":` of `_shards` is followed by anything but 0.
fn shards_failed(front: &[u8]) -> bool {
    const KEY: &[u8] = b"\"failed\":";
    let found = front.windows(KEY.len()).position(|part| part == KEY);
    let next = found.and_then(|at| front[at + KEY.len()..].iter().find(|byte| **byte != b' '));
    next.is_some_and(|byte| *byte != b'0')
}

/// Renders a request over HTTP; a body is JSON, or lines of it.
pub(crate) fn http(method: &str, path: &str, host: &str, body: &[u8]) -> Vec<u8> {
    let kind = if path.contains("_bulk") { "application/x-ndjson" } else { "application/json" };
    let length = body.len();
    let mut bytes = format!(
        "{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n"
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Renders a command of RESP.
pub(crate) fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// Asks a REST server once over a connection of its own: the status and the JSON of its answer;
/// null where the body is none.
pub(crate) fn ask_json(
    address: &str,
    method: &str,
    path: &str,
    body: Option<&Value>,
    timeout: Duration,
) -> io::Result<(u16, Value)> {
    let mut connection = Connection::open(address, Protocol::Http, timeout)?;
    let body = body.map(Value::to_string).unwrap_or_default();
    let status = connection.status(&http(method, path, address, body.as_bytes()))?;
    Ok((status, serde_json::from_slice(&connection.body).unwrap_or(Value::Null)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::thread;

    /// A server that reads something and gives these bytes, once for each.
    fn answering(answers: Vec<&'static [u8]>) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut heard = [0; 4096];
            for answer in answers {
                assert!(stream.read(&mut heard).unwrap() > 0);
                stream.write_all(answer).unwrap();
            }
        });
        address
    }

    fn open(answers: Vec<&'static [u8]>, protocol: Protocol) -> Connection {
        Connection::open(&answering(answers), protocol, Duration::from_secs(5)).unwrap()
    }

    #[test]
    fn answers_of_known_length_and_in_chunks_are_read_whole() {
        let length = b"HTTP/1.1 200 OK\r\nContent-Length: 25\r\n\r\n{\"_shards\":{\"failed\": 0}}";
        let mut connection = open(vec![length], Protocol::Http);
        assert_eq!(connection.ask(b"x").unwrap(), Ended::Answered);
        assert_eq!(connection.body.len(), 25);
        let mut connection = open(
            vec![
                b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n12345\r\n3\r\n678\r\n0\r\n\r\n",
                b"HTTP/1.1 429 Too Many\r\nconnection: close\r\ncontent-length: 0\r\n\r\n",
            ],
            Protocol::Http,
        );
        assert_eq!(connection.ask(b"x").unwrap(), Ended::Answered);
        assert_eq!(connection.body, b"12345678");
        assert!(!connection.is_over());
        assert_eq!(connection.ask(b"x").unwrap(), Ended::Refused);
        assert!(connection.is_over());
        assert!(connection.ask(b"x").is_err());
    }

    #[test]
    fn what_a_head_says_is_kept_where_it_is_asked_for() {
        let answer = b"HTTP/1.1 200 OK\r\nX-Told:  a b \r\ncontent-length: 0\r\n\r\n";
        let plain = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
        let mut connection = open(vec![answer, answer, plain], Protocol::Http);
        connection.ask(b"x").unwrap();
        assert_eq!(connection.told("x-told"), None);
        connection.keep_head();
        connection.ask(b"x").unwrap();
        assert_eq!(connection.told("x-told"), Some("a b"));
        connection.ask(b"x").unwrap();
        assert_eq!(connection.told("x-told"), None, "that was the answer before");
    }

    #[test]
    fn parts_that_failed_are_seen() {
        let partial = br#"{"took":1,"_shards":{"total":5,"successful":4,"skipped":0,"failed":1}"#;
        let whole = br#"{"took":1,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0}"#;
        assert_eq!(ended(200, partial), Ended::Partial);
        assert_eq!(ended(200, whole), Ended::Answered);
        assert_eq!(ended(503, b"es_rejected_execution_exception"), Ended::Refused);
        assert_eq!(ended(500, b""), Ended::Failed("500".to_owned()));
    }

    #[test]
    fn replies_of_resp_are_read_whole() {
        let answers: Vec<&[u8]> =
            vec![b"+OK\r\n", b"$3\r\nabc\r\n", b"*2\r\n:1\r\n$-1\r\n", b"-TRYAGAIN busy\r\n"];
        let mut connection = open(answers, Protocol::Resp);
        let set = command(&[b"SET", b"k", b"v"]);
        assert_eq!(set, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n");
        for body in ["OK", "abc", "1"] {
            assert_eq!(connection.ask(&set).unwrap(), Ended::Answered);
            assert_eq!(connection.body, body.as_bytes());
        }
        assert_eq!(connection.ask(&set).unwrap(), Ended::Refused);
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(open(vec![b"SMTP ready\r\n"], Protocol::Http).ask(b"x").is_err());
        let long = b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n";
        assert!(open(vec![long], Protocol::Http).ask(b"x").is_err());
        assert!(open(vec![b"?\r\n"], Protocol::Resp).ask(b"x").is_err());
    }
}
