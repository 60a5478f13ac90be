//! A node from outside: how it starts and stops, what it refuses, and that it lives on.

#![expect(clippy::disallowed_methods, reason = "a test of the machine's")]
#![expect(clippy::unwrap_used, reason = "a test says so by failing")]

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::Duration,
};

use bytes::Bytes;
use plimsoll_cluster::{CallError, Peers};
use plimsoll_server::rpc::Client;
use support::{Node, encode, refused};

#[test]
fn sigterm_drains_and_the_data_is_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &["--node", "first"]);
    assert!(node.ready.contains("node=first"), "{}", node.ready);
    let mut client = node.client();
    assert_eq!(client.say("SET a 1"), "+OK\\r\\n");
    assert_eq!(client.say("HSET h f v"), ":1\\r\\n");
    assert_eq!(node.terminate(), Some(0));
    assert_eq!(client.rest(), "");

    let node = Node::start(folder.path(), &[]);
    let mut client = node.client();
    assert_eq!(client.say("GET a"), "$1\\r\\n1\\r\\n");
    client.say("SET a 2");
    node.kill();
    let node = Node::start(folder.path(), &[]);
    assert_eq!(node.client().say("GET a"), "$1\\r\\n2\\r\\n");
    assert_eq!(node.client().say("HGET h f"), "$1\\r\\nv\\r\\n");
}

#[test]
fn save_syncs_an_async_log() {
    let folder = tempfile::tempdir().unwrap();
    let settings = ["--set", "log.durability=async", "--set", "log.sync_interval=60s"];
    let node = Node::start(folder.path(), &settings);
    let mut client = node.client();
    client.say("SET a 1");
    client.say("SET a 2");
    let mut syncs = || {
        let info = client.say("INFO persistence");
        let (_, after) = info.split_once("plimsoll_log_syncs:").unwrap();
        after.split_once("\\r").unwrap().0.parse::<u64>().unwrap()
    };
    let before = syncs();
    assert_eq!(node.client().say("SAVE"), "+OK\\r\\n");
    assert_eq!(syncs(), before + 1);
    assert_eq!(node.client().say("SAVE"), "+OK\\r\\n");
    assert_eq!(syncs(), before + 1, "there was nothing left to sync");
}

#[test]
fn what_is_wrong_at_the_start_is_said_and_the_exit_code_tells_whose_fault_it_is() {
    let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let node = Node::start(folder.path(), &[]);
    let owner = format!("the port is held by pid {} (plimsoll)", node.pid());
    for (folder, args, code, words) in [
        (other.path(), &["--resp", &*node.resp][..], 1, &*owner),
        (other.path(), &["--http", &*node.http], 1, &*owner),
        (folder.path(), &[], 1, "is that of a node that runs"),
        (other.path(), &["--rpc", &*node.http], 1, &*owner),
        (other.path(), &["--resp", "0.0.0.0:0"], 2, "--insecure"),
        (other.path(), &["--rpc", "0.0.0.0:0", "--set", "resp.password=x"], 2, "rpc.secret"),
        (other.path(), &["--set", "log.durabilty=async"], 2, "did you mean `log.durability`?"),
        (other.path(), &["--log", "kafka://127.0.0.1:9092"], 2, "is no log"),
        (other.path(), &["--set", "node.roles="], 2, "`data` is wanted"),
        (other.path(), &["--config", "/nonexistent.toml"], 2, "/nonexistent.toml"),
        (other.path(), &["--nonsense"], 2, "--nonsense"),
    ] {
        let (found, stderr) = refused(folder, args);
        assert!(stderr.contains(words), "{args:?}: {stderr}");
        assert_eq!(found, Some(code), "{args:?}: {stderr}");
    }
    assert_eq!(node.client().say("PING"), "+PONG\\r\\n");
}

#[test]
fn other_nodes_are_answered_where_a_port_for_them_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    assert!(!node.ready.contains("rpc="), "{}", node.ready);
    assert_eq!(node.terminate(), Some(0));

    let file = folder.path().join("secret");
    std::fs::write(&file, "known to nodes\n").unwrap();
    let setting = format!("rpc.secret_file={}", file.display());
    let data = folder.path().join("data");
    let node = Node::start(&data, &["--rpc", "127.0.0.1:0", "--set", &setting]);
    let word = node.ready.split_whitespace().find_map(|word| word.strip_prefix("rpc="));
    let address = word.unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let ask = |client: &Client| {
        // No question in any format: the answer says so.
        let question = Bytes::from_static(&[0xFF]);
        runtime.block_on(client.call(&address, question, Duration::from_secs(60)))
    };
    let client = Client::start("a node", Some("known to nodes"), None).unwrap();
    assert!(!ask(&client).unwrap().is_empty());
    let stranger = ask(&Client::start("a node", None, None).unwrap()).unwrap_err();
    assert!(stranger.to_string().contains("rpc.secret"), "{stranger}");
    assert_eq!(node.terminate(), Some(0), "with a connection open");
    assert!(matches!(ask(&client), Err(CallError::Unreachable(_))));
}

#[test]
fn hostile_bytes_end_their_connection_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    let mut bystander = node.client();
    let deep = "*1\r\n".repeat(200_000);
    for (bytes, words) in [
        ("*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\\r\\n"),
        (&*deep, "-ERR Protocol error: expected '$', got '*'\\r\\n"),
        ("*2147483647\r\n", "-ERR Protocol error: invalid multibulk length\\r\\n"),
        ("PING\r\n\"x\r\n", "+PONG\\r\\n-ERR Protocol error: unbalanced quotes in request\\r\\n"),
        ("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", ""),
    ] {
        let mut stream = TcpStream::connect(&node.resp).unwrap();
        // The node may hang up before it has read everything.
        let _ = stream.write_all(bytes.as_bytes());
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut back = Vec::new();
        let read = stream.read_to_end(&mut back);
        // An unread rest makes the kernel reset the connection, and the words may be lost then.
        if read.is_ok() {
            assert_eq!(support::show(&back), words);
        }
    }
    let mut half = node.client();
    half.send(b"*2\r\n$3\r\nGET\r\n$100\r\nhalf");
    drop(half);
    assert_eq!(bystander.say("PING"), "+PONG\\r\\n");
    assert_eq!(bystander.say("DBSIZE"), ":0\\r\\n");
}

#[test]
fn a_password_guards_everything() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &["--set", "resp.password=secret"]);
    let mut client = node.client();
    for (line, reply) in [
        ("GET a", "-NOAUTH Authentication required.\\r\\n"),
        ("PING", "-NOAUTH Authentication required.\\r\\n"),
        ("AUTH wrong", "-WRONGPASS invalid username-password pair or user is disabled.\\r\\n"),
        ("AUTH default secret", "+OK\\r\\n"),
        ("SET a 1", "+OK\\r\\n"),
        ("RESET", "+RESET\\r\\n"),
        ("GET a", "-NOAUTH Authentication required.\\r\\n"),
        ("AUTH secret", "+OK\\r\\n"),
        ("GET a", "$1\\r\\n1\\r\\n"),
    ] {
        assert_eq!(client.say(line), reply, "{line}");
    }
    let mut client = node.client();
    assert!(client.say("HELLO 3").starts_with("-NOAUTH HELLO must be called"));
    assert!(client.say("HELLO 3 AUTH default secret").starts_with("%7"));
    let mut client = node.client();
    // AUTH and a larger command in one packet: the limits before AUTH no longer hold for it.
    let value = "x".repeat(100_000);
    client.send(&[encode(&["AUTH", "secret"]), encode(&["SET", "b", &value])].concat());
    assert_eq!((client.reply(), client.reply()), ("+OK\\r\\n".into(), "+OK\\r\\n".into()));
    let mut client = node.client();
    client.send(b"*11\r\n");
    assert_eq!(client.rest(), "-ERR Protocol error: unauthenticated multibulk length\\r\\n");
}

#[test]
fn connections_are_counted_named_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &["--set", "resp.max_clients=2"]);
    let (mut first, mut second) = (node.client(), node.client());
    assert_eq!(first.say("CLIENT SETNAME one"), "+OK\\r\\n");
    assert_eq!(second.say("CLIENT SETNAME two"), "+OK\\r\\n");
    let mut third = node.client();
    assert_eq!(third.rest(), "-ERR max number of clients reached\\r\\n");
    let list = first.say("CLIENT LIST");
    assert!(list.contains("name=one") && list.contains("name=two"), "{list}");
    let id = second.say("CLIENT ID").trim_matches([':', '\\', 'r', 'n']).to_owned();
    assert_eq!(first.say(&format!("CLIENT KILL ID {id}")), ":1\\r\\n");
    assert_eq!(second.rest(), "");
    assert_eq!(first.say("CONFIG SET maxclients 7"), "+OK\\r\\n");
    assert_eq!(
        first.say("CONFIG GET maxclients"),
        "*2\\r\\n$10\\r\\nmaxclients\\r\\n$1\\r\\n7\\r\\n"
    );
}

#[test]
fn replies_can_be_switched_off() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    let mut client = node.client();
    client.send(
        b"CLIENT REPLY SKIP\r\nSET a 1\r\nGET a\r\nCLIENT REPLY OFF\r\nSET a 2\r\nBOGUS\r\n\
          CLIENT REPLY ON\r\nGET a\r\n",
    );
    for reply in ["$1\\r\\n1\\r\\n", "+OK\\r\\n", "$1\\r\\n2\\r\\n"] {
        assert_eq!(client.reply(), reply);
    }
}

#[test]
fn a_connection_may_do_with_what_is_at_hand() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    let mut client = node.client();
    for line in ["READONLY", "READWRITE"] {
        assert_eq!(client.say(line), "+OK\\r\\n");
        assert_eq!(client.say("SET a 1"), "+OK\\r\\n", "it writes all the same");
        assert_eq!(client.say("GET a"), "$1\\r\\n1\\r\\n");
    }
    for level in ["strong", "session", "eventual"] {
        assert_eq!(client.say(&format!("PLIMSOLL.READS {}", level.to_uppercase())), "+OK\\r\\n");
        let said = format!("${}\\r\\n{level}\\r\\n", level.len());
        assert_eq!(client.say("PLIMSOLL.READS"), said);
        assert_eq!(client.say("GET a"), "$1\\r\\n1\\r\\n");
    }
    let refused = client.say("PLIMSOLL.READS stale");
    assert_eq!(refused, "-ERR reads are STRONG, SESSION or EVENTUAL\\r\\n");
    assert!(client.say("READONLY now").starts_with("-ERR wrong number of arguments"));
}

#[test]
fn transactions_are_whole_and_watch_what_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    let (mut client, mut other) = (node.client(), node.client());
    client.say("SET a 1");
    client.say("WATCH a");
    client.say("MULTI");
    assert_eq!(client.say("INCR a"), "+QUEUED\\r\\n");
    other.say("SET a 10");
    assert_eq!(client.say("EXEC"), "*-1\\r\\n");
    client.say("WATCH a");
    client.say("MULTI");
    // The server's own commands keep their place among those on rows.
    for line in ["INCR a", "PING", "GET a", "ECHO x"] {
        assert_eq!(client.say(line), "+QUEUED\\r\\n");
    }
    assert_eq!(client.say("EXEC"), "*4\\r\\n:11\\r\\n+PONG\\r\\n$2\\r\\n11\\r\\n$1\\r\\nx\\r\\n");
    client.say("MULTI");
    assert_eq!(client.say("SELECT 1"), "-ERR Command not allowed inside a transaction\\r\\n");
    assert!(client.say("EXEC").starts_with("-EXECABORT"));
    client.say("WATCH a");
    other.say("FLUSHALL");
    client.say("MULTI");
    client.say("SET b 1");
    assert_eq!(client.say("EXEC"), "*-1\\r\\n");
    assert_eq!(client.say("DBSIZE"), ":0\\r\\n");
}

#[test]
fn databases_are_apart() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    let mut client = node.client();
    client.send(b"SET a zero\r\nSELECT 15\r\nGET a\r\nSET a last\r\nSELECT 0\r\nGET a\r\n");
    for reply in
        ["+OK\\r\\n", "+OK\\r\\n", "$-1\\r\\n", "+OK\\r\\n", "+OK\\r\\n", "$4\\r\\nzero\\r\\n"]
    {
        assert_eq!(client.reply(), reply);
    }
    assert_eq!(client.say("SELECT 16"), "-ERR DB index is out of range\\r\\n");
    let info = client.say("INFO keyspace");
    assert!(info.contains("db0:keys=1,") && info.contains("db15:keys=1,"), "{info}");
}

#[test]
fn a_long_pipeline_with_large_replies_comes_back_in_order() {
    const COUNT: usize = 3000;
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    let mut client = node.client();
    let value = "v".repeat(50_000);
    client.ask(&["SET", "big", &value]);
    // 150 MB of replies, none of which is read before all is sent: the node must stop reading
    // rather than hold them, so another thread sends.
    let mut sender = TcpStream::connect(&node.resp).unwrap();
    let mut reader = sender.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        for number in 0..COUNT {
            let number = number.to_string();
            let commands = [encode(&["ECHO", &number]), encode(&["GET", "big"])].concat();
            sender.write_all(&commands).unwrap();
        }
    });
    for number in 0..COUNT {
        let want = format!("${}\r\n{number}\r\n$50000\r\n{value}\r\n", number.to_string().len());
        let mut found = vec![0; want.len()];
        reader.read_exact(&mut found).unwrap();
        assert!(found == want.as_bytes(), "reply {number}");
    }
    writer.join().unwrap();
}

#[test]
fn http_has_metrics_and_says_what_it_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(folder.path(), &[]);
    node.client().say("SET a 1");
    let get = |request: &str| {
        let mut stream = TcpStream::connect(&node.http).unwrap();
        let request = format!("{request} HTTP/1.1\r\nhost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut page = String::new();
        stream.read_to_string(&mut page).unwrap();
        page
    };
    let page = get("GET /_metrics");
    for line in [
        "plimsoll_resp_commands_total{command=\"set\"} 1",
        "plimsoll_keys{db=\"0\"} 1",
        "plimsoll_resp_run_duration_seconds_count{class=\"write\"} 1",
        "plimsoll_pool_rejected_total{pool=\"search\"} 0",
        "plimsoll_pool_completed_total{pool=\"write\"} 1",
    ] {
        assert!(page.contains(line), "{line} in\n{page}");
    }
    let page = get("GET /index/_nothing");
    assert!(page.starts_with("HTTP/1.1 400"), "{page}");
    assert!(page.contains("no handler found for uri [/index/_nothing] and method [GET]"), "{page}");
}
