//! The least that a server of durable rows has to do: read requests, parse them, append those that write to one file
//! with one sync for all that wait, change a map, answer. It keeps nothing else, replays nothing and takes few
//! commands (PING, SET, GET, HSET, HMGET, HGETALL, DEL, DBSIZE): `make bench-ycsb` says by it which part of what a
//! command costs in Plimsoll no design could save. The parser, the writer of replies and the threads of connections
//! are Plimsoll's own.
//!
//! `bare_rows PORT FILE`

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use parking_lot::{Condvar, Mutex};
use plimsoll_server::resp::{Decoder, Limits, Protocol};
use plimsoll_server::workers::Workers;
use plimsoll_storage::{Argv, ErrorReply, Reply};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// As the node's, under its layer.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const SHARDS: usize = 64;
const WORKERS: usize = 2;
const READ_BYTES: usize = 16 << 10;
const COMMANDS_MAX: usize = 1024;

enum Row {
    Text(Bytes),
    Fields(BTreeMap<Bytes, Bytes>),
}

#[derive(Default)]
struct Rows {
    shards: Vec<Mutex<HashMap<Bytes, Row>>>,
    queue: Mutex<Vec<Waiting>>,
    is_waiting: Condvar,
}

/// Commands of one connection that write, and who waits for their replies.
struct Waiting {
    commands: Vec<Argv>,
    done: oneshot::Sender<Vec<Reply>>,
}

impl Rows {
    fn shard(&self, key: &[u8]) -> &Mutex<HashMap<Bytes, Row>> {
        let sum = key.iter().fold(0usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
        &self.shards[sum % SHARDS]
    }

    fn run(&self, argv: &Argv) -> Reply {
        let key = || argv.get_bytes(1).unwrap_or_default();
        let copied = |at: usize| argv.get(at).map(Bytes::copy_from_slice).unwrap_or_default();
        match &*argv.name().to_ascii_uppercase() {
            b"PING" => Reply::Status("PONG"),
            b"SET" => {
                self.shard(&key()).lock().insert(copied(1), Row::Text(copied(2)));
                Reply::OK
            }
            b"GET" => match self.shard(&key()).lock().get(&key()) {
                Some(Row::Text(text)) => Reply::Bulk(text.clone()),
                _ => Reply::Nil,
            },
            b"HSET" => {
                let mut shard = self.shard(&key()).lock();
                let row = shard.entry(copied(1)).or_insert_with(|| Row::Fields(BTreeMap::new()));
                let Row::Fields(fields) = row else { return Reply::Nil };
                let names = (2..argv.len()).step_by(2);
                let new = names.filter(|at| fields.insert(copied(*at), copied(at + 1)).is_none());
                Reply::Integer(new.count().try_into().unwrap_or(i64::MAX))
            }
            b"HMGET" => {
                let shard = self.shard(&key()).lock();
                let names = (2..argv.len()).filter_map(|at| argv.get(at));
                Reply::Array(match shard.get(&key()) {
                    Some(Row::Fields(fields)) => names
                        .map(|name| fields.get(name).cloned().map_or(Reply::Nil, Reply::Bulk))
                        .collect(),
                    _ => names.map(|_| Reply::Nil).collect(),
                })
            }
            b"HGETALL" => match self.shard(&key()).lock().get(&key()) {
                Some(Row::Fields(fields)) => {
                    let pair = |(name, value): (&Bytes, &Bytes)| {
                        (Reply::Bulk(name.clone()), Reply::Bulk(value.clone()))
                    };
                    Reply::Map(fields.iter().map(pair).collect())
                }
                _ => Reply::Map(Vec::new()),
            },
            b"DEL" => Reply::Integer(i64::from(self.shard(&key()).lock().remove(&key()).is_some())),
            b"DBSIZE" => {
                let rows = self.shards.iter().map(|shard| shard.lock().len()).sum::<usize>();
                Reply::Integer(rows.try_into().unwrap_or(i64::MAX))
            }
            _ => Reply::Error(ErrorReply::err("the bare server knows no such command")),
        }
    }

    /// Appends what waits, syncs once for all of it, runs it and answers; for ever.
    fn commit(&self, mut file: File) -> std::io::Result<()> {
        let mut bytes = Vec::new();
        loop {
            let mut queue = self.queue.lock();
            while queue.is_empty() {
                self.is_waiting.wait(&mut queue);
            }
            let batch = std::mem::take(&mut *queue);
            drop(queue);
            bytes.clear();
            for argv in batch.iter().flat_map(|waiting| &waiting.commands) {
                argv.encode(&mut bytes);
            }
            file.write_all(&bytes)?;
            file.sync_data()?;
            for waiting in batch {
                let replies = waiting.commands.iter().map(|argv| self.run(argv)).collect();
                // Nobody waits where the client has hung up.
                let _ = waiting.done.send(replies);
            }
        }
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        let (mut input, mut output) = (BytesMut::new(), BytesMut::new());
        let (mut decoder, mut commands) = (Decoder::default(), Vec::new());
        loop {
            if decoder.decode(&mut input, &Limits::FULL, COMMANDS_MAX, &mut commands).is_err() {
                return;
            }
            for reply in self.answer(&mut commands).await {
                Protocol::Resp2.encode(&mut output, &reply);
            }
            while output.has_remaining() {
                let Ok(written) = stream.write(&output).await else { return };
                output.advance(written);
            }
            input.reserve(READ_BYTES);
            if !matches!(stream.read_buf(&mut input).await, Ok(1..)) {
                return;
            }
        }
    }

    async fn answer(&self, commands: &mut Vec<Argv>) -> Vec<Reply> {
        let writes = |argv: &Argv| {
            [&b"SET"[..], b"HSET", b"DEL"].iter().any(|name| argv.name().eq_ignore_ascii_case(name))
        };
        // Reads behind a write wait for it: a bare server may do without the difference.
        if !commands.iter().any(writes) {
            return commands.drain(..).map(|argv| self.run(&argv)).collect();
        }
        let (done, replies) = oneshot::channel();
        self.queue.lock().push(Waiting { commands: std::mem::take(commands), done });
        self.is_waiting.notify_one();
        replies.await.unwrap_or_default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, port, file] = &*words else { return Err("bare_rows PORT FILE".into()) };
    let rows = Rows { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), ..Rows::default() };
    let rows = Arc::new(rows);
    let file = File::options().create(true).append(true).open(file)?;
    let committing = Arc::clone(&rows);
    std::thread::Builder::new().name("commit".to_owned()).spawn(move || committing.commit(file))?;
    let workers = Workers::start(WORKERS)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port.parse::<u16>()?)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let rows = Arc::clone(&rows);
            workers.serve(stream, |stream| rows.serve(stream))?;
        }
    })
}
