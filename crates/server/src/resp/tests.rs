//! Requests and replies against scripts, against each other and against the codec's decoder.

use bytes::BytesMut;
use plimsoll_storage::{Argv, ErrorKind, ErrorReply, Reply};
use proptest::prelude::*;
use redis_protocol::{resp2, resp3};

use super::{Decoder, Limits, Protocol, ProtocolError, error_text};

/// Everything that the decoder makes of pieces that come one after another.
fn decode(pieces: &[&[u8]], limits: &Limits) -> (Vec<Vec<Vec<u8>>>, Option<ProtocolError>) {
    let (mut decoder, mut input, mut commands) = (Decoder::default(), BytesMut::new(), vec![]);
    let mut error = None;
    for piece in pieces {
        input.extend_from_slice(piece);
        loop {
            let before = input.len();
            if let Err(refused) = decoder.decode(&mut input, limits, 3, &mut commands) {
                error = Some(refused);
                break;
            }
            if input.len() == before {
                break;
            }
        }
    }
    (commands.iter().map(|argv| argv.iter().map(<[u8]>::to_vec).collect()).collect(), error)
}

fn encode(commands: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for args in commands {
        bytes.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
        for arg in args {
            bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            bytes.extend_from_slice(arg);
            bytes.extend_from_slice(b"\r\n");
        }
    }
    bytes
}

/// One line for each command and, at the end, the refusal.
fn show(bytes: &[u8], limits: &Limits) -> String {
    let (commands, error) = decode(&[bytes], limits);
    let mut lines: Vec<String> = commands
        .iter()
        .map(|args| args.iter().map(|a| a.escape_ascii().to_string()).collect::<Vec<_>>().join(" "))
        .collect();
    lines.extend(error.map(|error| format!("-ERR {error}")));
    lines.join("\n")
}

#[test]
fn requests_and_refusals() {
    for (bytes, shown) in [
        (&b"PING\r\n"[..], "PING"),
        (b"SET a b\nGET a\r\n", "SET a b\nGET a"),
        (b"*0\r\nPING\r\n", "PING"),
        (b"\r\nPING\r\n", "PING"),
        (b"*-5\r\nPING\r\n", "PING"),
        (b"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "PING\nECHO "),
        (b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n", "GET a\\r\\nb"),
        (b"*1\r\n:4\r\n", "-ERR Protocol error: expected '$', got ':'"),
        (b"*1\r\n*1\r\n*1\r\n", "-ERR Protocol error: expected '$', got '*'"),
        (b"*abc\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*01\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*+1\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*3000000000\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*99999999999999999999\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1048577\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*1\r\n$abc\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$1000000000000\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length"),
        (b"*1\r\n$8388608\r\n", ""),
        (b"\"unbalanced\r\n", "-ERR Protocol error: unbalanced quotes in request"),
        // What came whole before the damage is answered first.
        (b"PING\r\n*1\r\n!", "PING\n-ERR Protocol error: expected '$', got '!'"),
    ] {
        assert_eq!(show(bytes, &Limits::FULL), shown, "{}", bytes.escape_ascii());
    }
}

#[test]
fn endless_lines_and_sums_are_refused() {
    let long = vec![b'1'; super::limits::LINE_BYTES_MAX + 1];
    let with = |start: &[u8]| [start, &long].concat();
    for (bytes, shown) in [
        (with(b"*"), "-ERR Protocol error: too big mbulk count string"),
        (with(b"*1\r\n$"), "-ERR Protocol error: too big bulk count string"),
        (with(b""), "-ERR Protocol error: too big inline request"),
    ] {
        assert_eq!(show(&bytes, &Limits::FULL), shown);
    }
    let limits = Limits { command_bytes_max: 10, ..Limits::UNAUTHENTICATED };
    let bytes = b"*3\r\n$6\r\n123456\r\n$5\r\n";
    assert_eq!(show(bytes, &limits), "-ERR Protocol error: command exceeds 10 bytes");
}

#[test]
fn limits_before_authentication() {
    for (bytes, shown) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length"),
        (b"*1\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length"),
        (b"*3000000000\r\n", "-ERR Protocol error: invalid multibulk length"),
        (b"*2\r\n$4\r\nAUTH\r\n$1\r\nx\r\n", "AUTH x"),
    ] {
        assert_eq!(show(bytes, &Limits::UNAUTHENTICATED), shown, "{}", bytes.escape_ascii());
    }
}

/// The commands of a stream that comes in pieces of `size`, the words of the refusal in the place of
/// one that was refused; and the most bytes that were kept meanwhile.
fn kept(bytes: &[u8], limits: &Limits, size: usize) -> (Vec<String>, usize) {
    let (mut decoder, mut input, mut commands) = (Decoder::default(), BytesMut::new(), vec![]);
    let (mut shown, mut most) = (Vec::new(), 0);
    for piece in bytes.chunks(size) {
        input.extend_from_slice(piece);
        decoder.decode(&mut input, limits, 100, &mut commands).unwrap();
        most = most.max(input.len());
        for argv in commands.drain(..) {
            shown.push(match argv.is_empty() {
                true => error_text(&decoder.refusal().unwrap()),
                false => String::from_utf8(argv.iter().collect::<Vec<_>>().join(&b' ')).unwrap(),
            });
        }
    }
    assert_eq!(decoder.refusal(), None);
    (shown, most)
}

#[test]
fn a_command_that_is_too_large_is_passed_over_and_the_next_is_understood() {
    let limits = Limits { bulk_bytes_max: 100, command_bytes_max: 150, ..Limits::FULL };
    let long = vec![b'x'; 5000];
    let of = |args: &[&[u8]]| args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>();
    let bytes = encode(&[
        of(&[b"PING"]),
        of(&[b"SET", b"a", &long]),
        of(&[b"GET", b"a"]),
        of(&[b"MSET", &long, b"b", &long, b"*1"]),
        of(&[b"SET", &long[..90], &long[..61]]),
        of(&[b"SET", b"c", b""]),
    ]);
    let argument = "ERR an argument exceeds the limit of 100 bytes";
    let command = "ERR a command exceeds the limit of 150 bytes";
    for size in [1, 7, 64, 1000, bytes.len()] {
        let (shown, most) = kept(&bytes, &limits, size);
        assert_eq!(shown, ["PING", argument, "GET a", argument, command, "SET c "]);
        assert!(most <= 200 + size, "{most} bytes were kept");
    }
}

#[test]
fn a_command_is_passed_over_from_where_it_is_refused() {
    let bytes = b"*3\r\n$3\r\nSET\r\n$3\r\nkey\r\n$5\r\nvalue\r\n*1\r\n$4\r\nPING\r\n";
    let whole = bytes.len() - b"*1\r\n$4\r\nPING\r\n".len();
    for cut in 0..whole {
        let (mut decoder, mut input, mut commands) =
            (Decoder::default(), BytesMut::from(&bytes[..cut]), vec![]);
        decoder.decode(&mut input, &Limits::FULL, 10, &mut commands).unwrap();
        let is_begun = decoder.refuse(ErrorReply::err("no room"));
        // The header says that there is a command.
        assert_eq!(is_begun, cut >= 4, "{cut}");
        if !is_begun {
            continue;
        }
        decoder.decode(&mut input, &Limits::FULL, 10, &mut commands).unwrap();
        assert!(input.len() < 8, "{cut}: nothing is kept but a part of a header");
        input.extend_from_slice(&bytes[cut..]);
        decoder.decode(&mut input, &Limits::FULL, 10, &mut commands).unwrap();
        let words: Vec<Vec<&[u8]>> = commands.iter().map(|argv| argv.iter().collect()).collect();
        assert_eq!(words, [vec![], vec![b"PING".as_slice()]], "{cut}");
        assert_eq!(decoder.refusal(), Some(ErrorReply::err("no room")));
    }
}

#[test]
fn a_large_header_reserves_nothing() {
    let (mut decoder, mut input, mut commands) =
        (Decoder::default(), BytesMut::from(&b"*1048576\r\n$8388608\r\nabc"[..]), vec![]);
    let capacity = input.capacity();
    decoder.decode(&mut input, &Limits::FULL, 1, &mut commands).unwrap();
    assert_eq!((input.capacity(), commands.len()), (capacity, 0));
    assert_eq!(decoder.missing(&input), 8_388_608 + 2 - 3);
}

#[test]
fn no_more_commands_than_asked_for() {
    let (mut decoder, mut commands) = (Decoder::default(), vec![]);
    let mut input = BytesMut::from(&b"A\r\nB\r\nC\r\n"[..]);
    decoder.decode(&mut input, &Limits::FULL, 2, &mut commands).unwrap();
    assert_eq!(commands, [Argv::of(&["A"]), Argv::of(&["B"])]);
    assert_eq!(&input[..], b"C\r\n");
}

fn reply() -> impl Strategy<Value = Reply> {
    let scalar = prop_oneof![
        Just(Reply::OK),
        any::<i64>().prop_map(Reply::Integer),
        proptest::collection::vec(any::<u8>(), 0..40).prop_map(Reply::bulk),
        Just(Reply::Nil),
        "[a-z ]{0,20}".prop_map(|text| Reply::Error(ErrorReply::err(text))),
        "[a-z\r\n]{0,20}".prop_map(Reply::Verbatim),
    ];
    scalar.prop_recursive(3, 24, 4, |inner| {
        let items = proptest::collection::vec(inner.clone(), 0..4);
        prop_oneof![
            items.clone().prop_map(Reply::Array),
            items.prop_map(Reply::Set),
            proptest::collection::vec((inner.clone(), inner), 0..3).prop_map(Reply::Map),
        ]
    })
}

proptest! {
    /// Wherever a stream is cut, the same commands come out.
    #[test]
    fn a_cut_changes_nothing(
        commands in proptest::collection::vec(
            proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..30), 1..9), 0..6),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
    ) {
        let bytes = encode(&commands);
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
        prop_assert_eq!(decode(&pieces, &Limits::FULL), (commands, None));
    }

    /// Any bytes, cut anywhere, are understood or refused alike.
    #[test]
    fn damage_is_understood_alike(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'"'),
                any::<u8>()], 0..60),
        cut in any::<prop::sample::Index>(),
    ) {
        let cut = cut.index(bytes.len() + 1);
        let whole = decode(&[&bytes], &Limits::FULL);
        let first = decode(&[&bytes[..cut]], &Limits::FULL);
        if first.1.is_some() {
            prop_assert_eq!(first, whole);
        } else {
            prop_assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]], &Limits::FULL), whole);
        }
    }

    /// The codec's own decoder reads back one frame of exactly our bytes.
    #[test]
    fn replies_are_whole_frames(reply in reply()) {
        let mut out = BytesMut::new();
        Protocol::Resp2.encode(&mut out, &reply);
        let (_, len) = resp2::decode::decode(&out).unwrap().unwrap();
        prop_assert_eq!(len, out.len());
        let mut out = BytesMut::new();
        Protocol::Resp3.encode(&mut out, &reply);
        // The codec refuses maps and sets with equal items, which no command answers.
        if let Ok(frame) = resp3::decode::complete::decode(&out) {
            prop_assert_eq!(frame.unwrap().1, out.len());
        }
    }
}

#[test]
fn replies_in_both_protocols() {
    let map = Reply::Map(vec![(Reply::bulk("k"), Reply::Integer(-7))]);
    let error = ErrorReply::new(ErrorKind::WrongType, "a\r\nb");
    for (reply, two, three) in [
        (Reply::OK, "+OK\r\n", "+OK\r\n"),
        (Reply::Integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (Reply::bulk(""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (Reply::Nil, "$-1\r\n", "_\r\n"),
        (Reply::NilArray, "*-1\r\n", "_\r\n"),
        (map, "*2\r\n$1\r\nk\r\n:-7\r\n", "%1\r\n$1\r\nk\r\n:-7\r\n"),
        (Reply::Set(vec![Reply::OK]), "*1\r\n+OK\r\n", "~1\r\n+OK\r\n"),
        (Reply::Array(vec![Reply::Nil]), "*1\r\n$-1\r\n", "*1\r\n_\r\n"),
        (Reply::Verbatim("hi\n".into()), "$3\r\nhi\n\r\n", "=7\r\ntxt:hi\n\r\n"),
        (Reply::Error(error), "-WRONGTYPE a  b\r\n", "-WRONGTYPE a  b\r\n"),
    ] {
        for (protocol, want) in [(Protocol::Resp2, two), (Protocol::Resp3, three)] {
            let mut out = BytesMut::new();
            protocol.encode(&mut out, &reply);
            assert_eq!(std::str::from_utf8(&out).unwrap(), want, "{reply:?} {protocol:?}");
        }
    }
}
