//! A node as a child process, and a client that shows replies as they came.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::Duration,
};

/// A node that listens on free ports; killed when it goes out of scope.
pub struct Node {
    child: Child,
    /// `127.0.0.1:port`
    pub resp: String,
    /// `127.0.0.1:port`
    pub http: String,
    pub ready: String,
}

/// The command that starts a node on free ports.
pub fn command(data: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
    command
        .args(["serve", "--set", "resp.address=127.0.0.1:0", "--set", "http.address=127.0.0.1:0"])
        .arg("--data")
        .arg(data)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Starts a node that is not expected to run.
pub fn refused(data: &Path, args: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = command(data, args).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stderr).into_owned())
}

impl Node {
    /// Starts a node and waits until it can answer.
    pub fn start(data: &Path, args: &[&str]) -> Self {
        let mut child = command(data, args).stderr(Stdio::inherit()).spawn().unwrap();
        let mut ready = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut ready).unwrap();
        assert!(ready.starts_with("ready "), "{ready:?}");
        let field = |name: &str| {
            let word = ready.split_whitespace().find_map(|word| word.strip_prefix(name));
            word.unwrap_or_else(|| panic!("no {name} in {ready}")).to_owned()
        };
        let (resp, http) = (field("resp="), field("http="));
        Self { child, resp, http, ready }
    }

    /// A connection of its own.
    pub fn client(&self) -> Client {
        Client::connect(&self.resp)
    }

    /// Asks it to stop, and says how it ended.
    pub fn terminate(mut self) -> Option<i32> {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }

    /// Stops it without a chance to do anything.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection.
pub struct Client {
    reader: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        // A test that waits for a reply which never comes should say so.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { reader: BufReader::new(stream) }
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.reader.get_mut().write_all(bytes).unwrap();
    }

    /// Sends a command and shows its reply.
    pub fn ask(&mut self, args: &[&str]) -> String {
        self.send(&encode(args));
        self.reply()
    }

    /// The same for words between spaces.
    pub fn say(&mut self, line: &str) -> String {
        self.ask(&line.split(' ').collect::<Vec<_>>())
    }

    /// One reply, with its line ends and unprintable bytes escaped.
    pub fn reply(&mut self) -> String {
        show(&self.raw())
    }

    /// All bytes until the other side closes.
    pub fn rest(&mut self) -> String {
        let mut bytes = Vec::new();
        self.reader.read_to_end(&mut bytes).unwrap();
        show(&bytes)
    }

    fn raw(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.reader.read_until(b'\n', &mut bytes).unwrap();
        let header = String::from_utf8_lossy(&bytes).trim_end().to_owned();
        let Some(kind) = header.chars().next() else { return bytes };
        let count = header[1..].parse::<i64>().ok().and_then(|count| usize::try_from(count).ok());
        match (kind, count) {
            ('$' | '=', Some(len)) => {
                let mut body = vec![0; len + 2];
                self.reader.read_exact(&mut body).unwrap();
                bytes.extend(body);
            }
            ('*' | '~', Some(count)) => (0..count).for_each(|_| bytes.extend(self.raw())),
            ('%', Some(count)) => (0..2 * count).for_each(|_| bytes.extend(self.raw())),
            _ => {}
        }
        bytes
    }
}

/// A command as clients send it.
pub fn encode(args: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n{arg}\r\n", arg.len()).as_bytes());
    }
    bytes
}

/// Bytes as one line of text.
pub fn show(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\r' => text.push_str("\\r"),
            b'\n' => text.push_str("\\n"),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(byte)),
            other => text.push_str(&format!("\\x{other:02x}")),
        }
    }
    text
}
