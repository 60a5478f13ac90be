//! The least that a server of durable rows has to do: read requests, parse them, append those that write to one file
//! with one sync for all that wait, change its rows, answer. It keeps nothing else, replays nothing, never cuts its
//! file and takes few commands (PING, SET, GET, HSET, HMGET, HGETALL, DEL): `make bench-ycsb` and `make
//! bench-redis` say by it which part of what a command costs in Plimsoll no design could save. Its rows are in memory,
//! or with a folder in RocksDB, as those are that may be more than memory. The parser, the writer of replies and the
//! threads of connections are Plimsoll's own.
//!
//! `bare_rows PORT FILE [FOLDER]`

#![expect(clippy::disallowed_methods, reason = "an example measures the machine")]

mod files;
mod map;

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
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

const WORKERS: usize = 2;
const READ_BYTES: usize = 16 << 10;
const COMMANDS_MAX: usize = 1024;

/// Where rows are.
trait Rows: Send + Sync + 'static {
    /// Runs a command that changes nothing.
    fn read(&self, argv: &Argv) -> Reply;
    /// Runs commands that were synced together, writes and the reads between them.
    fn write_all<'a>(&self, commands: impl Iterator<Item = &'a Argv>) -> Vec<Reply>;
}

fn key_of(argv: &Argv) -> Bytes {
    argv.get_bytes(1).unwrap_or_default()
}

/// Where in HSET the names of fields are, each before its value.
fn pairs_in(argv: &Argv) -> impl Iterator<Item = usize> {
    (2..argv.len()).step_by(2)
}

/// The names of fields in HMGET.
fn names_in(argv: &Argv) -> impl Iterator<Item = &[u8]> {
    argv.iter().skip(2)
}

fn of_no_row(argv: &Argv) -> Reply {
    match argv.name().eq_ignore_ascii_case(b"PING") {
        true => Reply::Status("PONG"),
        false => Reply::Error(ErrorReply::err("the bare server knows no such command")),
    }
}

struct Server<R> {
    rows: R,
    queue: Mutex<Vec<Waiting>>,
    is_waiting: Condvar,
}

/// Commands of one connection that write, and who waits for their replies.
struct Waiting {
    commands: Vec<Argv>,
    done: oneshot::Sender<Vec<Reply>>,
}

impl<R: Rows> Server<R> {
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
            let commands = || batch.iter().flat_map(|waiting| &waiting.commands);
            commands().for_each(|argv| argv.encode(&mut bytes));
            file.write_all(&bytes)?;
            file.sync_data()?;
            let mut replies = self.rows.write_all(commands()).into_iter();
            for waiting in batch {
                let own = replies.by_ref().take(waiting.commands.len()).collect();
                // Nobody waits where the client has hung up.
                let _ = waiting.done.send(own);
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
            return commands.drain(..).map(|argv| self.rows.read(&argv)).collect();
        }
        let (done, replies) = oneshot::channel();
        self.queue.lock().push(Waiting { commands: std::mem::take(commands), done });
        self.is_waiting.notify_one();
        replies.await.unwrap_or_default()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    match &*words {
        [_, port, file] => run(port.parse()?, Path::new(file), map::Maps::default()),
        [_, port, file, folder] => {
            run(port.parse()?, Path::new(file), files::Files::open(Path::new(folder))?)
        }
        _ => Err("bare_rows PORT FILE [FOLDER]".into()),
    }
}

fn run(port: u16, file: &Path, rows: impl Rows) -> Result<(), Box<dyn std::error::Error>> {
    let file = File::options().create(true).append(true).open(file)?;
    let server = Arc::new(Server { rows, queue: Mutex::default(), is_waiting: Condvar::new() });
    let committing = Arc::clone(&server);
    std::thread::Builder::new().name("commit".to_owned()).spawn(move || committing.commit(file))?;
    let workers = Workers::start(WORKERS)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let server = Arc::clone(&server);
            workers.serve(stream, |stream| server.serve(stream))?;
        }
    })
}
