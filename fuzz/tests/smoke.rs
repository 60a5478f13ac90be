//! The entry points of the fuzz targets under random input, half of it shaped as what they
//! expect. No fuzzer and no nightly toolchain is needed.

use proptest::prelude::*;

/// Bytes that the formats are made of, and any others.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![0u8..12, Just(0x80), Just(0xff), any::<u8>()];
    prop_oneof![prop::collection::vec(any::<u8>(), 0..300), prop::collection::vec(small, 0..300),]
}

/// A record's fixed fields and then small bytes: a count, kinds, lengths.
fn record_body() -> impl Strategy<Value = Vec<u8>> {
    let items = prop::collection::vec(prop_oneof![0u8..4, Just(0x80), any::<u8>()], 1..200);
    items.prop_map(|items| [vec![0; 64], items].concat())
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    let words = [
        "SET",
        "GET",
        "APPEND",
        "SETRANGE",
        "GETRANGE",
        "INCRBY",
        "INCRBYFLOAT",
        "DEL",
        "EXPIRE",
        "PEXPIREAT",
        "PERSIST",
        "RENAME",
        "COPY",
        "HSET",
        "HGET",
        "HDEL",
        "HINCRBY",
        "HEXPIRE",
        "HPERSIST",
        "HRANDFIELD",
        "HSCAN",
        "SCAN",
        "MSET",
        "SETBIT",
        "BITCOUNT",
        "LCS",
        "FIELDS",
        "EX",
        "PX",
        "NX",
        "XX",
        "KEEPTTL",
        "MATCH",
        "COUNT",
        "a",
        "b",
        "c",
        "0",
        "1",
        "2",
        "-1",
        "1.5",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "*",
        "",
    ];
    let any_word = prop::collection::vec(any::<u8>(), 0..8);
    let known = prop::sample::select(words.to_vec()).prop_map(|word| word.as_bytes().to_vec());
    prop_oneof![9 => known, 1 => any_word]
}

fn lines() -> impl Strategy<Value = Vec<Vec<Vec<u8>>>> {
    prop::collection::vec(prop::collection::vec(word(), 1..7), 1..12)
}

/// A line of a bulk request, or nearly one.
fn bulk_line() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        r#"{"index":{"_index":"g","_id":"1"}}"#,
        r#"{"delete":{"_id":7,"if_seq_no":1,"if_primary_term":1}}"#,
        r#"{"update":{"_id":"x","retry_on_conflict":3}}"#,
        r#"{"create":{}}"#,
        r#"{"doc":{"a":{"b":1}},"doc_as_upsert":true}"#,
        r#"{"script":{"source":"ctx._source.n += params.i","params":{"i":1}}}"#,
        r#"{"n":1}"#,
        "",
        " \r",
    ]);
    let whole = line.prop_map(|line| line.as_bytes().to_vec());
    let cut =
        (whole.clone(), 0_usize..40).prop_map(|(line, at)| line[..at.min(line.len())].to_vec());
    prop_oneof![6 => whole, 1 => cut, 1 => bytes()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn record(data in prop_oneof![bytes(), record_body()]) {
        plimsoll_fuzz::record(&data);
    }

    #[test]
    fn operation(kind in 0u8..12, data in bytes()) {
        plimsoll_fuzz::operation(&data);
        plimsoll_fuzz::operation(&[&[kind], &data[..]].concat());
    }

    #[test]
    fn commands(lines in lines()) {
        let lines: Vec<_> = lines.iter().map(|words| words.join(&b' ')).collect();
        plimsoll_fuzz::commands(&lines.join(&b'\n'));
    }

    #[test]
    fn resp(first in any::<u8>(), lines in lines(), noise in bytes(), inline in any::<bool>()) {
        let mut data = vec![first];
        for words in &lines {
            if inline {
                data.extend_from_slice(&words.join(&b' '));
            } else {
                data.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
                for word in words {
                    data.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                    data.extend_from_slice(word);
                    data.extend_from_slice(b"\r\n");
                }
            }
            data.extend_from_slice(b"\r\n");
        }
        data.extend_from_slice(&noise);
        plimsoll_fuzz::resp(&data);
        plimsoll_fuzz::resp(&noise);
    }

    #[test]
    fn bulk(first in any::<u8>(), lines in prop::collection::vec(bulk_line(), 0..12)) {
        plimsoll_fuzz::bulk(&[vec![first], lines.join(&b'\n')].concat());
    }

    #[test]
    fn handshake(data in bytes()) {
        plimsoll_fuzz::handshake::handshake(&data);
    }

    #[test]
    fn security(data in prop_oneof![bytes(), security_words()]) {
        plimsoll_fuzz::security(&data);
    }

    #[test]
    fn remote(data in prop_oneof![bytes(), remote_message()]) {
        plimsoll_fuzz::remote(&data);
    }

    #[test]
    fn documents(lines in prop::collection::vec(json_line(), 0..4)) {
        plimsoll_fuzz::documents(&lines.join(&b'\n'));
    }
}

/// Rules, or a line with a role or a user, with other bytes among them now and then.
fn security_words() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "+@all", "-@all", "+get", "-get", "+config|set", "-@read", "~*", "~a*", "%R~[a-", "%W~\\", "db=0,3",
        "alldbs", "resetdbs", "&*", "(+get)", "+@", "~", "db=", "resetkeys",
    ]);
    let rules = prop::collection::vec(word, 0..20).prop_map(|words| words.join(" "));
    let line = prop::sample::select(vec![
        r#"{"cluster":["monitor"],"indices":[{"names":["a*"],"privileges":["read","write"]}]}"#,
        r#"{"indices":[{"names":"a","privileges":"all","field_security":{"grant":["*"]}}]}"#,
        r#"{"indices":[{"names":["a"],"privileges":["read"],"query":"{}"}],"run_as":[]}"#,
        r#"{"password":"secret","roles":["a"],"metadata":{"x":[1]},"enabled":true}"#,
        "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNo",
    ]);
    let text = prop_oneof![rules, line.prop_map(str::to_owned)];
    (text, prop::option::of((any::<usize>(), any::<u8>()))).prop_map(|(text, change)| {
        let mut bytes = text.into_bytes();
        if let (Some((at, byte)), false) = (change, bytes.is_empty()) {
            let at = at % bytes.len();
            bytes[at] = byte;
        }
        bytes
    })
}

/// A question, an answer or a key, whole, cut or with a byte of it changed.
fn remote_message() -> impl Strategy<Value = Vec<u8>> {
    let message = prop::sample::select(vec![
        r#"{"ask":"hello"}"#,
        r#"{"node":"n","ask":{"tables":{"after":"logs-1"}}}"#,
        r#"{"hello":{"cluster_uuid":"u","cluster_name":"c","version":"1","node":"n","nodes":[]}}"#,
        r#"{"tables":{"tables":[{"name":"a","uuid":"u","shards":2,"mapping_version":null}],"has_more":true}}"#,
        "aWQ6c2VjcmV0",
    ]);
    let whole = message.prop_map(|message| message.as_bytes().to_vec());
    let cut =
        (whole.clone(), 0_usize..90).prop_map(|(line, at)| line[..at.min(line.len())].to_vec());
    let changed = (whole.clone(), any::<prop::sample::Index>(), any::<u8>());
    let changed = changed.prop_map(|(mut line, at, byte)| {
        let at = at.index(line.len());
        line[at] = byte;
        line
    });
    prop_oneof![2 => whole, 1 => cut, 4 => changed]
}

/// JSON that is near to what REST takes, whole or cut.
fn json_line() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        r#"{"properties":{"a":{"type":"long"},"b":{"type":"text","fields":{"raw":{"type":"keyword"}}}}}"#,
        r#"{"dynamic":"strict","properties":{"d":{"type":"date","format":"yyyy-MM-dd||epoch_millis"}}}"#,
        r#"{"a":1,"b":["x",null,{"c":1.5}],"d":"2024-01-01","g":{"lat":1,"lon":2}}"#,
        r#"{"a":"1e400","b":{"b":{"b":[[[]]]}}}"#,
        r#"{"query":{"bool":{"must":[{"match":{"b":"x y"}}],"filter":{"range":{"a":{"gte":"now-1d/d"}}}}}}"#,
        r#"{"query":{"query_string":{"query":"(a:1 OR b:[x TO *}) AND -c:\"y z\"~2^3"}}}"#,
        r#"{"size":0,"aggs":{"x":{"terms":{"field":"a"},"aggs":{"y":{"date_histogram":{"field":"d","calendar_interval":"month"}}}}}}"#,
        r#"{"query":{"function_score":{"functions":[{"gauss":{"d":{"origin":"now","scale":"1d"}}}],"script_score":{"script":"Math.log(doc['a'].value)"}}}}"#,
        r#"{"sort":[{"a":{"order":"desc","missing":"_last"}},"_score"],"highlight":{"fields":{"b":{}}}}"#,
    ]);
    let whole = line.prop_map(|line| line.as_bytes().to_vec());
    let cut =
        (whole.clone(), 0_usize..90).prop_map(|(line, at)| line[..at.min(line.len())].to_vec());
    prop_oneof![6 => whole, 1 => cut, 1 => bytes()]
}

/// A command of a record, some of them many times, some with words of many bytes.
fn heavy_line() -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "700* SETBIT b 67108863 1",
        "SETBIT c 67108863 1",
        "50* APPEND a ~1000000",
        "SETRANGE s 67000000 ~100000",
        "300* COPY a z REPLACE",
        "COPY b y REPLACE",
        "RENAME s r",
        "SET v ~900000",
        "2000* GET b",
        "300* LCS a v",
        "HSET h f ~500000 g ~500000",
        "2000* HGETALL h",
        "2000* KEYS *",
        "1000* INCR n",
        "DEL a b c",
        "FLUSHDB",
    ]);
    line.prop_map(|line| line.as_bytes().to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn apply(first in any::<u8>(), lines in prop::collection::vec(heavy_line(), 1..5)) {
        plimsoll_fuzz::apply::apply(&[vec![first], lines.join(&b'\n')].concat());
    }
}
