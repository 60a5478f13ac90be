//! Bytes of operations and replies: what is written is read, and any bytes are read or refused.

use proptest::prelude::*;

use super::*;
use crate::{ErrorKind, ErrorReply};

fn argv() -> impl Strategy<Value = Argv> {
    prop::collection::vec(any::<Vec<u8>>(), 0..5).prop_map(|parts| Argv::of(&parts))
}

fn document() -> impl Strategy<Value = DocumentWrite> {
    let bytes = || any::<Vec<u8>>().prop_map(Bytes::from);
    let action = prop_oneof![
        bytes().prop_map(Action::Index),
        bytes().prop_map(Action::Create),
        Just(Action::Delete),
    ];
    let condition = prop_oneof![
        Just(Condition::None),
        any::<(u64, u64)>()
            .prop_map(|(seq_no, primary_term)| Condition::IfSequence { seq_no, primary_term }),
        any::<u64>().prop_map(Condition::External),
        any::<u64>().prop_map(Condition::ExternalGte),
    ];
    (bytes(), prop::option::of(bytes()), action, condition, any::<u64>()).prop_map(
        |(key, id, action, condition, mapping_version)| {
            let id = id.unwrap_or_else(|| key.clone());
            DocumentWrite { key, id, action, condition, mapping_version }
        },
    )
}

fn outcome() -> impl Strategy<Value = DocumentOutcome> {
    let results = [
        DocumentResult::Created,
        DocumentResult::Updated,
        DocumentResult::Deleted,
        DocumentResult::NotFound,
        DocumentResult::Noop,
    ];
    let done = (prop::sample::select(results.to_vec()), any::<(u64, u64)>())
        .prop_map(|(result, (version, seq_no))| DocumentOutcome::Done { result, version, seq_no });
    let present = any::<(bool, u64, u64)>().prop_map(|(is_deleted, version, seq_no)| Present {
        is_deleted,
        version,
        seq_no,
    });
    let conflict =
        prop::option::of(present).prop_map(|present| DocumentOutcome::Conflict { present });
    prop_oneof![done, conflict]
}

fn operation() -> impl Strategy<Value = Operation> {
    let watched = prop::collection::vec((any::<Vec<u8>>(), any::<u64>()), 0..4);
    prop_oneof![
        argv().prop_map(Operation::Command),
        (watched, prop::collection::vec(argv(), 0..4)).prop_map(|(watched, commands)| {
            let watched = watched.into_iter().map(|(key, change)| (key.into(), change)).collect();
            Operation::Transaction { watched, commands }
        }),
        any::<u64>().prop_map(|limit| Operation::Sweep { limit }),
        document().prop_map(Operation::Document),
        Just(Operation::Unfollow),
    ]
}

fn reply() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        Just(Reply::OK),
        Just(Reply::Status("hash")),
        Just(Reply::Status(crate::execute::keys::OBJECT_HELP[3])),
        any::<i64>().prop_map(Reply::Integer),
        any::<Vec<u8>>().prop_map(Reply::bulk),
        Just(Reply::Nil),
        Just(Reply::NilArray),
        any::<String>().prop_map(Reply::Verbatim),
        any::<String>()
            .prop_map(|message| Reply::Error(ErrorReply::new(ErrorKind::WrongType, message))),
    ];
    leaf.prop_recursive(4, 32, 5, |item| {
        prop_oneof![
            prop::collection::vec(item.clone(), 0..5).prop_map(Reply::Array),
            prop::collection::vec(item.clone(), 0..5).prop_map(Reply::Set),
            prop::collection::vec((item.clone(), item), 0..5).prop_map(Reply::Map),
        ]
    })
}

proptest! {
    #[test]
    fn an_operation_is_read_as_it_was_written(operation in operation()) {
        let bytes = operation.encode();
        let read = Operation::decode(&bytes).unwrap();
        prop_assert_eq!(read.encode(), bytes.clone());
        for end in 0..bytes.len() {
            prop_assert!(Operation::decode(&bytes.slice(..end)).is_err());
        }
        let longer = Bytes::from([bytes.as_ref(), &[0]].concat());
        prop_assert!(Operation::decode(&longer).is_err());
        let is_unfollow = matches!(operation, Operation::Unfollow);
        prop_assert_eq!(Operation::is_unfollow(&bytes), is_unfollow);
    }

    #[test]
    fn a_document_is_read_as_it_was_written(write in document()) {
        let operation = Operation::decode(&Operation::Document(write.clone()).encode());
        prop_assert!(matches!(operation, Ok(Operation::Document(read)) if read == write));
    }

    #[test]
    fn an_outcome_is_read_as_it_was_written(outcome in outcome(), junk: Vec<u8>) {
        let reply = outcome.to_reply();
        prop_assert_eq!(DocumentOutcome::from_reply(&reply), Some(outcome));
        let Reply::Bulk(bytes) = reply else { panic!("not bytes") };
        for end in 0..bytes.len() {
            let cut = Reply::Bulk(bytes.slice(..end));
            prop_assert_eq!(DocumentOutcome::from_reply(&cut), None);
        }
        let _ = DocumentOutcome::from_reply(&Reply::bulk(junk));
    }

    #[test]
    fn a_reply_is_read_as_it_was_written(reply in reply()) {
        let bytes = encode_reply(&reply);
        prop_assert_eq!(decode_reply(&bytes).unwrap(), reply);
        for end in 0..bytes.len() {
            prop_assert!(decode_reply(&bytes.slice(..end)).is_err());
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(kind in 0u8..12, rest: Vec<u8>) {
        let bytes = Bytes::from([&[kind], rest.as_slice()].concat());
        let _ = Operation::decode(&bytes);
        let _ = decode_reply(&bytes);
    }
}

#[test]
fn a_reply_that_is_too_deep_is_refused() {
    let bytes = Bytes::from([6u8, 1].repeat(100_000));
    assert!(decode_reply(&bytes).is_err());
}

#[test]
fn a_status_of_no_known_word_is_kept_as_bytes() {
    let bytes = encode_reply(&Reply::Status("unheard of"));
    assert_eq!(decode_reply(&bytes).unwrap(), Reply::bulk("unheard of"));
}

#[test]
fn what_apply_would_stop_at_is_not_appended() {
    let command = |words: &[&[u8]]| Argv::of(words);
    let known = Operation::Command(command(&[b"SET", b"k", b"v"])).encode();
    assert!(Operation::check(&known, |_| true).is_ok());
    // Wrong arguments are a reply, the same on every replica.
    let wrong = Operation::Command(command(&[b"SET", b"k", b"v", b"EX", b"x"])).encode();
    assert!(Operation::check(&wrong, |_| true).is_ok());
    let unknown = Operation::Command(command(&[b"LEVITATE", b"k"])).encode();
    assert!(Operation::check(&unknown, |_| true).is_err());
    let commands = vec![command(&[b"SET", b"k", b"v"]), command(&[b"LEVITATE"])];
    let transaction = Operation::Transaction { watched: Vec::new(), commands }.encode();
    assert!(Operation::check(&transaction, |_| true).is_err());
    assert!(Operation::check(&Bytes::from_static(&[0xee, 1]), |_| true).is_err());
    // Where it is in a log all the same, no answer of this version's own stands for it.
    let mut rows = crate::rows::memory::MemoryRows::default();
    let (now_ms, stamp_ms, is_bounded) = (1, 1, true);
    let mut context = WriteContext {
        now_ms,
        stamp_ms,
        seed: 0,
        sequence: 0,
        keys: 0,
        expires: 0,
        is_bounded,
        default_expiry_ms: None,
    };
    let operation = Operation::Command(command(&[b"LEVITATE", b"k"]));
    let outcome = run(&operation, &mut rows, &mut context);
    assert_eq!(outcome, Err(StoreError::UnknownCommand("LEVITATE".to_owned())));
}
