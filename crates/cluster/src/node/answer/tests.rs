//! Tests of writes that another node's coordinator sends: late ones, and ones that cannot be read; and of who may ask
//! what.

use plimsoll_log::Lsn;
use plimsoll_log::rules::WINDOW_MS;

use super::*;
use crate::replication::settle::{Settled, settled};
use crate::replication::tables::Copies;
use crate::wire::Freshness;
use crate::wire::{decode_answer, encode_question};
use crate::{Node, NodeSettings, Request};

const SESSION: u64 = 77;
const OTHERS: u64 = 78;

/// A node that serves a table of rows, asked as other nodes ask it.
struct Asked {
    coordinator: Arc<Coordinator>,
    copies: Arc<Copies>,
    _node: Node,
    _dir: tempfile::TempDir,
}

impl Asked {
    async fn begin() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let node = Node::open(&NodeSettings::alone(dir.path())).await.unwrap();
        let coordinator = node.coordinator();
        let mut replies = Vec::new();
        let make = [Request::Command(Argv::of(&["SET", "made", "1"]))];
        coordinator.execute(&mut coordinator.session(), 0, &make, &mut replies).await;
        assert_eq!(replies, [RowReply::OK]);
        let table = coordinator.shared().tables.get(0).unwrap();
        let copies = Arc::clone(&table.copies()[0]);
        Self { coordinator, copies, _node: node, _dir: dir }
    }

    /// What a node of this id is answered that showed this name.
    async fn answered(&self, from: &str, sender: Option<&str>, question: Question) -> Reply {
        let envelope = Envelope {
            from: from.to_owned(),
            cluster: self.coordinator.shared().replication.log.incarnation().0,
            timeout_ms: 30_000,
            trace: 0,
            alternatives: 0,
            rank: 0,
            question,
        };
        let answer = self.coordinator.answer(encode_question(&envelope), sender).await;
        decode_answer(&answer).0
    }

    async fn ask(&self, question: Question) -> Result<Vec<RowReply>, WriteError> {
        match self.answered("another", None, question).await {
            Reply::Replies { replies, .. } => {
                let decode = |it: Vec<u8>| plimsoll_storage::operation::decode_reply(&it.into());
                Ok(replies.into_iter().map(|it| decode(it).unwrap()).collect())
            }
            Reply::Problem(Problem::Write(error)) => Err(error),
            other => panic!("{other:?}"),
        }
    }

    async fn write(
        &self,
        (session, first): (u64, u64),
        stamp_ms: u64,
        payloads: &[&[u8]],
    ) -> Result<Vec<RowReply>, WriteError> {
        let partition = self.copies.id.into();
        let steps = payloads.iter().map(|it| StepBytes::Write(it.to_vec())).collect();
        self.ask(Question::Write { partition, session, first, acked: 0, stamp_ms, steps }).await
    }

    async fn fence(&self, number: u64, stamp_ms: u64) -> Settled {
        let (partition, session) = (self.copies.id.into(), SESSION);
        let numbers = vec![number];
        let replies = self.ask(Question::Settle { partition, session, numbers, stamp_ms }).await;
        settled(&replies.unwrap()[0])
    }

    async fn get(&self, key: &str) -> RowReply {
        let argv = vec![b"GET".to_vec(), key.as_bytes().to_vec()];
        let (partition, freshness) = (self.copies.id.into(), Freshness::Strong);
        let replies = self.ask(Question::Read { partition, argv, freshness }).await;
        replies.unwrap().remove(0)
    }

    fn tail(&self) -> &GroupTail {
        &self.coordinator.shared().replication.tails[&self.copies.group]
    }

    /// Where the group stands once all that was answered is through: answers come a little before.
    async fn applied(&self) -> Lsn {
        let seen = self.tail().seen();
        self.tail().reached(seen).await;
        seen
    }
}

fn set(key: &str) -> Vec<u8> {
    Operation::Command(Argv::of(&["SET", key, "v"])).encode().to_vec()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_that_never_runs_does_not_run_after_the_window_either() {
    let asked = Asked::begin().await;
    let sent_ms = asked.coordinator.shared().world.time.wall_ms();
    assert_eq!(asked.fence(1, sent_ms).await, Settled::NeverRuns);
    let late = set("late");
    let known = asked.write((SESSION, 1), sent_ms, &[&late]).await;
    assert_eq!(known, Err(WriteError::Unknown), "its sender has asked already");

    // Log time goes on by the next record's stamp: replicas forget the session and its fence.
    asked.applied().await;
    let mut tail = asked.tail().get();
    tail.log_time_ms += 2 * WINDOW_MS;
    let later_ms = tail.log_time_ms;
    asked.tail().publish(tail);
    let other = asked.write((OTHERS, 1), later_ms, &[&set("other")]).await;
    assert_eq!(other, Ok(vec![RowReply::OK]));

    let why = asked.write((SESSION, 1), sent_ms, &[&late]).await.unwrap_err();
    let too_old = "the operation is older than log time allows";
    assert_eq!(why, WriteError::not_taken(too_old));
    assert_eq!(asked.get("late").await, RowReply::Nil);
    assert_eq!(asked.fence(1, sent_ms).await, Settled::Unknown, "too long ago to tell");
    // Nothing but its stamp held it back.
    let anew = asked.write((SESSION, 1), later_ms, &[&late]).await;
    assert_eq!(anew, Ok(vec![RowReply::OK]));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_is_refused_and_never_appended() {
    let asked = Asked::begin().await;
    let stamp_ms = asked.coordinator.shared().world.time.wall_ms();
    let good = set("good");
    let unknown = Operation::Command(Argv::of(&["NOSUCH", "good"])).encode();
    let (cut, longer) = (&good[..good.len() - 1], [&good[..], &[0]].concat());
    let before = asked.applied().await;
    let nothing = asked.write((SESSION, 1), stamp_ms, &[]).await.unwrap_err();
    assert!(nothing.to_string().contains("no operation to write"), "{nothing}");
    for bad in [&[][..], &[0xff; 9], cut, &longer, &unknown] {
        // Beside one that can be read, which does not run either.
        let refused = asked.write((SESSION, 1), stamp_ms, &[&good, bad]).await.unwrap_err();
        let WriteError::Refused { kind, message } = &refused else { panic!("{refused:?}") };
        assert_eq!(kind, &ErrorKind::General);
        assert!(message.starts_with("the operation cannot be read: "), "{message}");
    }
    assert_eq!(asked.get("good").await, RowReply::Nil);
    let ran = asked.write((SESSION, 1), stamp_ms, &[&good]).await;
    assert_eq!(ran, Ok(vec![RowReply::OK]), "its number is not used up");
    assert_eq!(asked.applied().await, before.next(), "one record came");
    assert_eq!(asked.copies.local().unwrap().fault(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_showed_its_name_asks_what_its_place_allows() {
    let asked = Asked::begin().await;
    let name = asked.coordinator.shared().members.record.name.clone();
    let partition = asked.copies.id.into();
    let metadata: PartitionName = metadata::PARTITION.into();
    let copy = |partition| Question::OpenCopy { partition };
    for (from, sender, question, why) in [
        ("x", None, Question::Statistics, None),
        // One that joins.
        ("x", Some("x"), Question::Probe, None),
        ("x", Some("x"), copy(metadata), None),
        ("x", Some("x"), Question::Statistics, Some("node [x] is no member")),
        ("x", Some("x"), copy(partition), Some("node [x] has no copy of")),
        // A member in its own name, and in another's.
        (&*name, Some(&*name), Question::Statistics, None),
        (&*name, Some(&*name), copy(partition), None),
        (&*name, Some("x"), Question::Probe, Some("node [x], by its certificate, asks as node")),
    ] {
        let named = format!("{from} {sender:?} {question:?}");
        let problem = match asked.answered(from, sender, question).await {
            Reply::Problem(Problem::NotHere(why)) => Some(why),
            _ => None,
        };
        let is_as_said = match (why, &problem) {
            (Some(why), Some(problem)) => problem.contains(why),
            (why, problem) => why.is_none() && problem.is_none(),
        };
        assert!(is_as_said, "{named}: {problem:?}");
    }
}
