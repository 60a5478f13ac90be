//! Random commands on few keys, run here and by the real `redis-server`: the answers are the
//! same. Differences that are meant are listed in [`normalise`]; commands that Redis 7.0 lacks
//! are tested elsewhere.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plimsoll_storage::execute::WriteContext;
use plimsoll_storage::operation::{self, Operation};
use plimsoll_storage::rows::memory::MemoryRows;
use plimsoll_storage::{Argv, Reply, command};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// An answer as RESP2 carries it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Answer {
    Status(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Nil,
    NilArray,
    Array(Vec<Answer>),
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        let array = |items: Vec<Reply>| Self::Array(items.into_iter().map(Self::from).collect());
        match reply {
            Reply::Status(word) => Self::Status(word.into()),
            Reply::Integer(number) => Self::Integer(number),
            Reply::Bulk(bytes) => Self::Bulk(bytes.to_vec()),
            Reply::Nil => Self::Nil,
            Reply::NilArray => Self::NilArray,
            Reply::Array(items) | Reply::Set(items) => array(items),
            Reply::Map(pairs) => array(pairs.into_iter().flat_map(<[Reply; 2]>::from).collect()),
            Reply::Verbatim(text) => Self::Bulk(text.into_bytes()),
            Reply::Error(error) => {
                Self::Error(format!("{} {}", error.kind.stored_name(), error.message))
            }
        }
    }
}

/// The real server, on a socket in a folder of its own; it ends with this.
struct Redis {
    process: Child,
    stream: BufReader<UnixStream>,
    _folder: tempfile::TempDir,
}

impl Redis {
    /// `None` where it is not installed.
    fn start() -> Option<Self> {
        if !Path::new("/usr/bin/redis-server").exists() {
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("redis.sock");
        let mut process = Command::new("/usr/bin/redis-server")
            .args(["--port", "0", "--save", "", "--appendonly", "no", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        loop {
            if let Ok(stream) = UnixStream::connect(&socket) {
                return Some(Self { process, stream: BufReader::new(stream), _folder: folder });
            }
            assert_eq!(process.try_wait().unwrap(), None, "redis-server ended");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn run(&mut self, command: &[Vec<u8>]) -> Answer {
        let mut out = format!("*{}\r\n", command.len()).into_bytes();
        for arg in command {
            out.extend(format!("${}\r\n", arg.len()).into_bytes());
            out.extend(arg);
            out.extend(b"\r\n");
        }
        self.stream.get_mut().write_all(&out).unwrap();
        self.answer()
    }

    fn answer(&mut self) -> Answer {
        let mut line = String::new();
        self.stream.read_line(&mut line).unwrap();
        let (kind, rest) = line.trim_end_matches("\r\n").split_at(1);
        let mut items = |n: i64| (0..n).map(|_| self.answer()).collect();
        match kind {
            "+" => Answer::Status(rest.into()),
            "-" => Answer::Error(rest.into()),
            ":" => Answer::Integer(rest.parse().unwrap()),
            "*" if rest == "-1" => Answer::NilArray,
            "*" => Answer::Array(items(rest.parse().unwrap())),
            "$" if rest == "-1" => Answer::Nil,
            "$" => {
                let mut bytes = vec![0; rest.parse::<usize>().unwrap() + 2];
                self.stream.read_exact(&mut bytes).unwrap();
                bytes.truncate(bytes.len() - 2);
                Answer::Bulk(bytes)
            }
            _ => panic!("redis answered {line:?}"),
        }
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Rows of our own.
struct Plimsoll {
    rows: MemoryRows,
    context: WriteContext,
}

impl Plimsoll {
    fn new() -> Self {
        let context = WriteContext {
            now_ms: 0,
            stamp_ms: 0,
            seed: 1,
            sequence: 0,
            keys: 0,
            expires: 0,
            is_bounded: true,
            default_expiry_ms: None,
        };
        Self { rows: MemoryRows::default(), context }
    }

    fn run(&mut self, command: &[Vec<u8>]) -> Answer {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        self.context.now_ms = u64::try_from(now.as_millis()).unwrap();
        self.context.stamp_ms = self.context.now_ms;
        // What is refused before it runs is refused there: a log never has it.
        if let Err(refusal) = command::parse(&Argv::of(command)) {
            return Reply::Error(refusal).into();
        }
        let operation = Operation::Command(Argv::of(command));
        let operation = Operation::decode(&operation.encode()).unwrap();
        operation::run(&operation, &mut self.rows, &mut self.context).unwrap().into()
    }
}

/// Brings answers that may differ and still be right to one form.
fn normalise(command: &[Vec<u8>], answer: Answer) -> Answer {
    let name = String::from_utf8_lossy(&command[0]).to_uppercase();
    match (name.as_str(), answer) {
        // The order of keys and fields is nobody's promise.
        ("HKEYS" | "HVALS" | "KEYS", Answer::Array(mut items)) => {
            items.sort();
            Answer::Array(items)
        }
        ("HGETALL", Answer::Array(items)) => sort_pairs(&items),
        ("HSCAN" | "SCAN", Answer::Array(mut items)) => {
            if let Some(Answer::Array(found)) = items.pop() {
                items.push(if name == "HSCAN" {
                    sort_pairs(&found)
                } else {
                    let mut found = found;
                    found.sort();
                    Answer::Array(found)
                });
            }
            Answer::Array(items)
        }
        // What is left of a time shrinks between the two runs.
        ("TTL" | "PTTL" | "EXPIRETIME" | "PEXPIRETIME", Answer::Integer(left)) => {
            let unit = if name.starts_with('P') { 1_000_000 } else { 1000 };
            Answer::Integer(if left < 0 { left } else { (left + unit / 2) / unit })
        }
        // Drawn at random: that something is drawn is all that can be compared.
        ("RANDOMKEY", Answer::Bulk(_)) => Answer::Bulk(b"some key".to_vec()),
        ("HRANDFIELD", Answer::Bulk(_)) => Answer::Bulk(b"some field".to_vec()),
        (_, answer) => answer,
    }
}

fn sort_pairs(items: &[Answer]) -> Answer {
    let mut pairs: Vec<&[Answer]> = items.chunks(2).collect();
    pairs.sort();
    Answer::Array(pairs.concat())
}

type Word = BoxedStrategy<String>;

fn one_of(words: &'static [&'static str]) -> Word {
    prop::sample::select(words).prop_map(String::from).boxed()
}

fn key() -> Word {
    one_of(&["a", "b", "c", "h", "g", ""])
}

fn field() -> Word {
    one_of(&["f1", "f2", "f3", "x", ""])
}

fn value() -> Word {
    prop_oneof![
        one_of(&["", "v", "hello", "12abc", "-0", " 1", "01", "1.50", "3.0e3", "nan", "inf"]),
        one_of(&["9223372036854775807", "-9223372036854775808", "1e400", "abc\r\nd"]),
        number(),
        float(),
        "[a-d]{0,12}",
    ]
    .boxed()
}

fn number() -> Word {
    prop_oneof![
        (-20i64..20).prop_map(|n| n.to_string()),
        any::<i64>().prop_map(|n| n.to_string()),
        one_of(&["0", "1", "-1", "9223372036854775807", "-9223372036854775808", "x", "", "+5"]),
    ]
    .boxed()
}

fn float() -> Word {
    prop_oneof![
        (-1000i64..1000, 0u32..5).prop_map(|(n, places)| format!("{}e-{places}", n)),
        any::<f64>().prop_filter("not a number", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        (-1.0e6..1.0e6f64).prop_map(|n| n.to_string()),
        one_of(&["1.1", "0.1", "-0.0", "1e20", "1e-19", "123456789.987654321", "1e300", "."]),
    ]
    .boxed()
}

/// Times that are past, or so far off that they are not reached while this runs.
fn seconds() -> Word {
    one_of(&["100", "5000", "0", "-1", "x", "9223372036854775807", "9223372036854775", "1000000"])
}

fn moment() -> Word {
    one_of(&["1", "4000000000", "5000000000000", "0", "-5", "x", "9223372036854775807"])
}

fn option(words: &'static [&'static str]) -> Word {
    one_of(words)
}

/// A command of words, some of which stand for words drawn anew; a word is left out where what
/// is drawn is `~`, and is taken apart at spaces where it has some and the word is an option.
fn command(form: &'static str) -> BoxedStrategy<Vec<Vec<u8>>> {
    let words: Vec<Word> = form
        .split(' ')
        .map(|word| match word {
            "$k" => key(),
            "$f" => field(),
            "$v" => value(),
            "$n" => number(),
            "$d" => float(),
            "$s" => seconds(),
            "$m" => moment(),
            "$i" => (-15i64..15).prop_map(|n| n.to_string()).boxed(),
            "$p" => one_of(&["*", "f*", "?", "[a-c]", "[^a]", "h", "*1", "", "x\\", "[f]?"]),
            "$set" => option(&["~", "~", "NX", "xx", "GET", "KEEPTTL", "BOGUS"]),
            "$ttl" => option(&[
                "~",
                "~",
                "EX 100",
                "PX 100000",
                "EXAT 4000000000",
                "PXAT 1",
                "EX 0",
                "EX x",
                "PX",
                "KEEPTTL",
                "PERSIST",
                "EXAT 1",
                "EX 9223372036854775807",
            ]),
            "$if" => option(&["~", "~", "NX", "XX", "GT", "lt", "bogus"]),
            "$count" => option(&["~", "COUNT 100", "COUNT 0", "COUNT x", "COUNT"]),
            "$type" => option(&["~", "~", "TYPE string", "TYPE hash", "TYPE zset", "MATCH h*"]),
            "$unit" => option(&["~", "BYTE", "bit"]),
            "$lcs" => option(&["~", "LEN", "IDX", "IDX MINMATCHLEN 2", "IDX WITHMATCHLEN"]),
            "$op" => option(&["AND", "or", "XOR", "NOT", "NOT", "NAND"]),
            "$bit" => option(&["0", "1", "0", "1", "2", "-1", "x"]),
            "$over" => {
                option(&["~", "OVERFLOW WRAP", "overflow sat", "OVERFLOW FAIL", "OVERFLOW x"])
            }
            "$get" => option(&[
                "~",
                "GET u8 0",
                "get i64 3",
                "GET u63 #1",
                "GET i5 100",
                "GET u64 0",
                "GET i0 0",
                "GET u8 -1",
                "GET u8",
                "GET u1 67108863",
            ]),
            "$change" => option(&[
                "SET u8 0 255",
                "SET i8 #2 -1",
                "SET u4 3 -3",
                "SET i64 5 -9223372036854775808",
                "SET u63 1 9223372036854775807",
                "SET i3 7 100",
                "INCRBY u2 100 1",
                "INCRBY u2 102 -3",
                "INCRBY i8 #1 127",
                "INCRBY i64 5 9223372036854775807",
                "INCRBY i64 5 -9223372036854775808",
                "INCRBY u63 1 9223372036854775807",
                "INCRBY i5 9 -20",
                "SET u8 0 x",
                "INCRBY u8 x 1",
                "SET u8 0",
            ]),
            "$replace" => option(&["~", "REPLACE", "bogus"]),
            fixed => Just(fixed.to_string()).boxed(),
        })
        .collect();
    let options: Vec<bool> =
        form.split(' ').map(|word| word.starts_with('$') && word.len() > 2).collect();
    words
        .prop_map(move |words| {
            let mut args = Vec::new();
            for (word, is_option) in words.iter().zip(&options) {
                match (word.as_str(), is_option) {
                    ("~", true) => {}
                    (word, true) => {
                        args.extend(word.split(' ').map(|part| part.as_bytes().to_vec()))
                    }
                    (word, false) => args.push(word.as_bytes().to_vec()),
                }
            }
            args
        })
        .boxed()
}

/// Every form of command that both know, those that make something more than once.
const FORMS: &[&str] = &[
    "SET $k $v",
    "SET $k $v",
    "SET $k $n",
    "SET $k $v $set $ttl",
    "SET $k $v $set $set $ttl",
    "SET $k $v $ttl $set",
    "SETNX $k $v",
    "SETEX $k $s $v",
    "PSETEX $k $s $v",
    "GETSET $k $v",
    "GETDEL $k",
    "GETEX $k $ttl",
    "GETEX $k $ttl $ttl",
    "GET $k",
    "GET $k",
    "MGET $k $k $k",
    "MSET $k $v $k $v",
    "MSET $k $v $k",
    "MSETNX $k $v $k $v",
    "BITOP $op $k $k",
    "BITOP $op $k $k $k",
    "BITOP $op $k $k $k $k",
    "BITPOS $k $bit",
    "BITPOS $k $bit $i",
    "BITPOS $k $bit $i $i",
    "BITPOS $k $bit $i $i $unit",
    "BITPOS $k $bit $i $i $unit bogus",
    "BITFIELD $k",
    "BITFIELD $k $get",
    "BITFIELD $k $over $change",
    "BITFIELD $k $change $over $change $get",
    "BITFIELD $k $over $change $change $over $get $change",
    "BITFIELD_RO $k $get $get",
    "BITFIELD_RO $k $get $change",
    "APPEND $k $v",
    "STRLEN $k",
    "GETRANGE $k $i $i",
    "GETRANGE $k $n $n",
    "SUBSTR $k $i $i",
    "SETRANGE $k $i $v",
    "INCR $k",
    "INCRBY $k $n",
    "DECR $k",
    "DECRBY $k $n",
    "INCRBYFLOAT $k $d",
    "INCRBYFLOAT $k $v",
    "SETBIT $k 7 1",
    "SETBIT $k $i 0",
    "SETBIT $k 3 $i",
    "GETBIT $k $i",
    "BITCOUNT $k",
    "BITCOUNT $k $i $i $unit",
    "LCS $k $k $lcs",
    "HSET $k $f $v",
    "HSET $k $f $v",
    "HSET $k $f $v $f $v",
    "HSET $k $f",
    "HMSET $k $f $v $f $v",
    "HSET $k $f $n",
    "HGET $k $f",
    "HMGET $k $f $f",
    "HGETALL $k",
    "HDEL $k $f",
    "HDEL $k $f $f",
    "HLEN $k",
    "HEXISTS $k $f",
    "HKEYS $k",
    "HVALS $k",
    "HSETNX $k $f $v",
    "HSTRLEN $k $f",
    "HINCRBY $k $f $n",
    "HINCRBY $k $f $i",
    "HINCRBYFLOAT $k $f $d",
    "HINCRBYFLOAT $k $f $v",
    "HSCAN h 0",
    "HRANDFIELD $k",
    "HRANDFIELD $k 0",
    "HRANDFIELD $k x",
    "HRANDFIELD $k 1 BOGUS",
    "DEL $k",
    "DEL $k $k",
    "UNLINK $k $k",
    "EXISTS $k $k $k",
    "TOUCH $k $k",
    "TYPE $k",
    "EXPIRE $k $s $if",
    "EXPIRE $k $s $if $if",
    "PEXPIRE $k $s $if",
    "EXPIREAT $k $m $if",
    "PEXPIREAT $k $m $if",
    "TTL $k",
    "PTTL $k",
    "EXPIRETIME $k",
    "PEXPIRETIME $k",
    "PERSIST $k",
    "SCAN 0 COUNT 100 $type",
    "SCAN 0 $count COUNT 100",
    "SCAN $n COUNT 0",
    "SCAN abc",
    "KEYS $p",
    "DBSIZE",
    "RANDOMKEY",
    "RENAME $k $k",
    "RENAMENX $k $k",
    "COPY $k $k $replace",
    "OBJECT REFCOUNT none",
    "OBJECT FREQ $k",
    "OBJECT HELP",
    "OBJECT BOGUS x",
    "OBJECT",
    "OBJECT ENCODING",
    "OBJECT IDLETIME $k $k",
    "MEMORY USAGE none",
    "FLUSHDB $v",
    "BOGUS $v $v",
    "GET",
    "get $k $k",
    "HGETALL",
    "EXPIRE $k",
    "hset $k",
    "dbsize x",
];

fn any_command() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::sample::select(FORMS).prop_flat_map(command)
}

fn show(command: &[Vec<u8>]) -> String {
    let words: Vec<_> = command.iter().map(|arg| arg.escape_ascii().to_string()).collect();
    words.join(" ")
}

/// Commands whose answers depend on more than what is stored are left out here, by name.
fn is_compared(command: &[Vec<u8>]) -> bool {
    // A cursor of the other's making means nothing to either.
    command[0] != b"SCAN" || !command[1].starts_with(b"-") && command[1].len() < 4
}

/// Whether GT or LT would compare a time with itself. Each of the two servers adds its own now,
/// and which of the sums is the greater depends on whether a millisecond passed between them.
fn is_near_tie(command: &[Vec<u8>], redis: &mut Redis) -> bool {
    let unit_ms = match command[0].to_ascii_uppercase().as_slice() {
        b"EXPIRE" => 1000,
        b"PEXPIRE" => 1,
        _ => return false,
    };
    let compares =
        |arg: &Vec<u8>| arg.eq_ignore_ascii_case(b"GT") || arg.eq_ignore_ascii_case(b"LT");
    if !command.iter().skip(3).any(compares) {
        return false;
    }
    let given = str::from_utf8(&command[2]).ok().and_then(|text| text.parse::<i64>().ok());
    let given_ms = given.and_then(|given| given.checked_mul(unit_ms));
    match (given_ms, redis.run(&[b"PTTL".to_vec(), command[1].clone()])) {
        (Some(given_ms), Answer::Integer(left_ms)) => given_ms.abs_diff(left_ms) < 1000,
        _ => false,
    }
}

#[test]
fn random_commands_answer_as_redis_does() {
    let Some(mut redis) = Redis::start() else {
        println!("skipped: /usr/bin/redis-server is not installed");
        return;
    };
    // More by PROPTEST_CASES.
    let defaults = ProptestConfig::default();
    let cases = defaults.cases.max(400);
    let config = ProptestConfig { cases, failure_persistence: None, ..defaults };
    let mut runner = TestRunner::new(config);
    let script = prop::collection::vec(any_command(), 1..80);
    let redis = std::cell::RefCell::new(&mut redis);
    let outcome = runner.run(&script, |script| {
        let mut redis = redis.borrow_mut();
        redis.run(&[b"FLUSHALL".to_vec()]);
        let mut plimsoll = Plimsoll::new();
        for (at, command) in script.iter().enumerate() {
            if !is_compared(command) {
                continue;
            }
            // Redis counts what has expired until something looks at it.
            if command[0].eq_ignore_ascii_case(b"DBSIZE") {
                redis.run(&["EXISTS", "a", "b", "c", "h", "g", ""].map(|arg| arg.into()));
            }
            if is_near_tie(command, &mut redis) {
                continue;
            }
            let theirs = normalise(command, redis.run(command));
            let ours = normalise(command, plimsoll.run(command));
            prop_assert_eq!(
                &ours,
                &theirs,
                "after:\n{}",
                script[..=at].iter().map(|command| show(command)).collect::<Vec<_>>().join("\n")
            );
        }
        // The end state, whatever was asked for on the way.
        for name in ["a", "b", "c", "h", "g", ""] {
            for probe in ["TYPE", "GET", "HGETALL", "HLEN", "PEXPIRETIME"] {
                let command = [probe.as_bytes().to_vec(), name.as_bytes().to_vec()];
                let theirs = normalise(&command, redis.run(&command));
                let ours = normalise(&command, plimsoll.run(&command));
                prop_assert_eq!(ours, theirs, "{} after all", show(&command));
            }
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
