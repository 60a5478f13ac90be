//! The entry points of the fuzz targets: each takes any bytes, and panics where what they reach
//! does not keep its word. The smoke test calls the same functions without a fuzzer.
//!
//! All but [`apply`] judge bytes and single commands; what happens to a node under them is tested elsewhere.

pub mod apply;
pub mod handshake;

use bytes::{Bytes, BytesMut};
use plimsoll_index::ErrorClass;
use plimsoll_index::mapping::Mapping;
use plimsoll_index::search::SearchRequest;
use plimsoll_log::record::{self, Record};
use plimsoll_server::remote::protocol::{Answer, Question};
use plimsoll_server::remote::stream;
use plimsoll_server::resp::{Decoder, Limits, Protocol, ProtocolError};
use plimsoll_server::rest::documents::bulk::{
    lines::Lines,
    parser::{Item, Parser},
};
use plimsoll_server::rest::documents::update::Change;
use plimsoll_server::security::acl::Acl;
use plimsoll_server::security::keys::Credential;
use plimsoll_server::security::passwords::check_hash;
use plimsoll_server::security::patterns::matches;
use plimsoll_server::security::role::{Rights, Role};
use plimsoll_server::security::user::UserSpec;
use plimsoll_storage::execute::WriteContext;
use plimsoll_storage::operation::{self, Operation};
use plimsoll_storage::rows::memory::MemoryRows;
use plimsoll_storage::{Argv, command};
use xxhash_rust::xxh3::xxh3_64;

#[global_allocator]
static ALLOCATOR: apply::Peak = apply::Peak;

/// A record from the log, damaged or not: as it came, and again with a checksum that is right,
/// so that what the checksum would have kept out is looked at too.
pub fn record(data: &[u8]) {
    let _ = Record::decode(&Bytes::copy_from_slice(data));
    let _ = record::partition(data);
    let mut sealed = [&[1], data].concat();
    sealed.extend_from_slice(&xxh3_64(&sealed).to_le_bytes());
    let sealed = Bytes::from(sealed);
    if let Ok(decoded) = Record::decode(&sealed) {
        assert_eq!(record::partition(&sealed), Ok(decoded.partition));
        assert_eq!(Record::decode(&decoded.encode()), Ok(decoded));
    }
}

/// A client's bytes: in one piece, and in pieces as long as the first byte says. Both must give
/// the same commands and the same end.
pub fn resp(data: &[u8]) {
    let Some((piece, input)) = data.split_first() else { return };
    let limits = if piece & 0x80 == 0 { Limits::FULL } else { Limits::UNAUTHENTICATED };
    let whole = decode_pieces([input].into_iter(), &limits);
    let piece = usize::from(piece & 0x7f).max(1);
    assert_eq!(decode_pieces(input.chunks(piece), &limits), whole);
    for argv in &whole.0 {
        let argv = Argv::of(argv);
        if let Err(refusal) = command::parse(&argv) {
            Protocol::Resp2.error(&mut BytesMut::new(), &refusal);
        }
    }
}

type Decoded = (Vec<Vec<Vec<u8>>>, Result<(), ProtocolError>);

fn decode_pieces<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &Limits) -> Decoded {
    let (mut decoder, mut input) = (Decoder::default(), BytesMut::new());
    let (mut commands, mut all) = (Vec::new(), Vec::new());
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let outcome = decoder.decode(&mut input, limits, 64, &mut commands);
            let count = commands.len();
            all.extend(commands.drain(..).map(|argv| argv.iter().map(<[u8]>::to_vec).collect()));
            if outcome.is_err() {
                return (all, outcome);
            }
            if count == 0 {
                break;
            }
        }
    }
    (all, Ok(()))
}

/// What the log carries of an operation, and what a session keeps of its reply.
pub fn operation(data: &[u8]) {
    let bytes = Bytes::copy_from_slice(data);
    if let Ok(decoded) = Operation::decode(&bytes) {
        let encoded = decoded.encode();
        let again = Operation::decode(&encoded).expect("what was encoded can be decoded");
        assert_eq!(again.encode(), encoded);
        run(&decoded);
    }
    if let Ok(reply) = operation::decode_reply(&bytes) {
        let encoded = operation::encode_reply(&reply);
        assert_eq!(operation::decode_reply(&encoded).as_ref(), Ok(&reply));
    }
}

/// A transaction in words: a line for each command, blanks between its arguments.
pub fn commands(data: &[u8]) {
    let lines = data.split(|byte| *byte == b'\n').take(64);
    let commands = lines
        .map(|line| line.split(|byte| *byte == b' ').filter(|word| !word.is_empty()))
        .map(|words| Argv::of(&words.collect::<Vec<_>>()))
        .filter(|argv| !argv.is_empty())
        .collect();
    run(&Operation::Transaction { watched: Vec::new(), commands });
}

/// Runs it on two replicas, which must not differ after it, and keeps and restores the reply.
fn run(operation: &Operation) {
    // What nobody appends: apply stops at it, by name.
    if Operation::check(&operation.encode(), |_| true).is_err() {
        return;
    }
    let replica = || {
        let mut rows = MemoryRows::default();
        let mut context = WriteContext {
            now_ms: 1_700_000_000_500,
            stamp_ms: 1_700_000_000_000,
            seed: 5,
            sequence: 0,
            keys: 0,
            expires: 0,
            is_bounded: true,
            default_expiry_ms: None,
        };
        let reply =
            operation::run(operation, &mut rows, &mut context).expect("memory has no faults");
        (rows, context, operation::encode_reply(&reply))
    };
    let ((rows, context, reply), (other_rows, other_context, other_reply)) = (replica(), replica());
    assert!(rows.iter().eq(other_rows.iter()));
    assert_eq!((context, &reply), (other_context, &other_reply));
    let reply = operation::decode_reply(&reply).expect("what was kept can be restored");
    for protocol in [Protocol::Resp2, Protocol::Resp3] {
        protocol.encode(&mut BytesMut::new(), &reply);
    }
}

/// The body of a bulk request: in one piece, and in pieces as long as the first byte says. Both
/// must give the same items and the same end; updates among them are read too.
pub fn bulk(data: &[u8]) {
    let Some((piece, body)) = data.split_first() else { return };
    let whole = bulk_pieces([body].into_iter());
    assert_eq!(bulk_pieces(body.chunks(usize::from(*piece).max(1))), whole);
    for item in &whole.0 {
        if let Err(error) = Change::parse(&item.source) {
            assert_eq!(error.class, ErrorClass::Invalid);
        }
    }
}

/// The items of a body, and the class and words of its end where that is an error.
fn bulk_pieces<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Item>, Result<(), (ErrorClass, String)>) {
    let (mut lines, mut parser, mut items) = (Lines::default(), Parser::default(), Vec::new());
    for piece in pieces {
        lines.push(Bytes::copy_from_slice(piece));
        while let Some(line) = lines.next_line() {
            match parser.line(line) {
                Ok(item) => items.extend(item),
                Err(error) => return (items, Err((error.class, error.reason))),
            }
        }
    }
    let end = parser.finish().map_err(|error| (error.class, error.reason));
    (items, end)
}

/// What comes in at the port for other clusters, and what a leader answers: it is read within its
/// limits or refused, and what was read says the same when it is written again.
pub fn remote(data: &[u8]) {
    if let Ok(question) = Question::decode(data) {
        assert_eq!(Question::decode(&question.encode()), Ok(question));
    }
    match Answer::decode(data) {
        // Numbers of a mapping may lose their last digit, as in any JSON.
        Ok(answer @ Answer::Table(_)) => assert!(Answer::decode(&answer.encode()).is_ok()),
        Ok(answer) => assert_eq!(Answer::decode(&answer.encode()), Ok(answer)),
        Err(_) => {}
    }
    if let Ok(places) = stream::decode_places(data) {
        assert_eq!(stream::decode_places(&stream::encode_places(&places)), Ok(places));
    }
    told(Bytes::copy_from_slice(data));
    // As items of a record that is around a carried one, with a checksum that is right, so that what
    // it would have kept out is looked at too.
    let mut sealed = [&[1, 2, 3, 0, 0, 0], &[0; 64][..], data].concat();
    sealed.extend_from_slice(&xxh3_64(&sealed[1..]).to_le_bytes());
    told(Bytes::from(sealed));
    if let Some(credential) = Credential::decode(data) {
        let again = Credential::decode(credential.encode().as_bytes());
        assert_eq!(again.as_ref(), Some(&credential));
    }
}

/// A message of a stream of records.
fn told(message: Bytes) {
    if let Ok(told) = stream::decode(&message) {
        assert_eq!(stream::decode(&stream::encode(told.clone())), Ok(told));
    }
}

/// What users, roles and rules are made of: words of Redis' rules, and roles and users in JSON, a line each. What
/// was read is the same when it is written again.
pub fn security(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(acl) = Acl::parse(text.split(' ').filter(|word| !word.is_empty())) {
        let rules = acl.rules();
        assert_eq!(Acl::parse(rules.iter().map(String::as_str)), Ok(acl));
    }
    let _ = check_hash(text);
    if let Some((pattern, name)) = text.split_once('\n') {
        let _ = matches(pattern, name);
    }
    for line in text.lines() {
        let Ok(body) = serde_json::from_str::<serde_json::Value>(line) else { continue };
        if let Some(body) = body.as_object() {
            let _ = UserSpec::parse(body);
        }
        if let Ok(role) = Role::parse(&body) {
            assert_eq!(Role::parse(&role.to_json()), Ok(role.clone()));
            let rights = Rights::of([&role].into_iter());
            let _ = (rights.on_index("a"), rights.on_pattern("a*"), rights.are_all());
        }
    }
}

/// A mapping, a document and a search, one line each, as far as they are JSON.
pub fn documents(data: &[u8]) {
    let mut lines = data.split(|byte| *byte == b'\n');
    let (first, second) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mapping = serde_json::from_slice(first).ok().and_then(|body| Mapping::parse(&body).ok());
    let mapping = mapping.unwrap_or_else(Mapping::empty);
    match mapping.check("id", second) {
        Ok(Some(delta)) => {
            let grown = mapping.merge(&delta);
            assert!(grown.is_ok(), "a mapping takes what its own check adds");
            let again = grown.and_then(|grown| grown.check("id", second));
            assert_eq!(again, Ok(None), "and then the document adds nothing");
        }
        Ok(None) => {}
        Err(error) => assert!(!error.class.is_the_nodes(), "{error}"),
    }
    for line in lines {
        let Ok(body) = serde_json::from_slice(line) else { continue };
        if let Err(error) = SearchRequest::parse(&body) {
            assert!(!error.class.is_the_nodes(), "{error}");
        }
    }
}
