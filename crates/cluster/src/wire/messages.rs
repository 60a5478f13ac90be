//! The questions and answers, and their bytes: an envelope with a format number, then postcard.
//! Within a format fields are only added at the end of the enums; a change of meaning takes the
//! next number, and a node answers a format it does not know with [`Problem::Format`].

use std::time::Duration;

use bytes::Bytes;
use plimsoll_control::{Class, LoadLine};
use plimsoll_index::search::{Hit, PartitionResult};
use plimsoll_index::{Error, ErrorClass};
use plimsoll_log::PartitionId;
use plimsoll_storage::ErrorKind;
use serde::{Deserialize, Serialize};

use super::files::{CheckpointListing, CopyListing, Encoding, Packing};
use super::rest_error;
use crate::wire::write_error::WriteError;

/// What this version speaks.
pub(crate) const FORMAT: u8 = 4;

/// What goes with every question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Envelope {
    /// The name of the node that asks.
    pub from: String,
    /// Tells this cluster from others: the incarnation of its log.
    pub cluster: u64,
    /// How long the answer is waited for, ms.
    pub timeout_ms: u64,
    /// Tells one client's request through all nodes.
    pub trace: u64,
    /// Other copies that could be asked instead.
    pub alternatives: u32,
    /// See [`Terms::rank`].
    pub rank: u32,
    pub question: Question,
}

/// On what terms a copy is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    /// How long the answer is waited for.
    pub timeout: Duration,
    /// Other copies that could be asked instead.
    pub alternatives: u32,
    /// Drawn once for a client's request and given to all its parts: in overload all nodes refuse
    /// the same requests.
    pub rank: u32,
}

impl Terms {
    /// Where there is nobody else to ask.
    pub(crate) fn within(timeout: Duration) -> Self {
        Self { timeout, alternatives: 0, rank: 0 }
    }
}

/// What an answer says of the node that gave it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    /// How long the node had the question, without what it waited for the log, ns; of a chunk for another
    /// cluster, how long it was held back for other work.
    pub server_ns: Option<u64>,
    pub line: Option<LoadLine>,
}

/// What goes with every answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    server_ns: Option<u64>,
    line: Option<WireLine>,
    reply: Reply,
}

/// A load line in a message: the fields of [`LoadLine`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct WireLine {
    boot: u64,
    workers: u32,
    cpus: u32,
    in_flight: u32,
    queued: u32,
    work_ns: u64,
    queue_wait_ns: u64,
    oldest_wait_ns: u64,
    run_ns: [u64; Class::COUNT],
    runs: u32,
    latency_ns: u64,
    cpu_demand_permille: u32,
    memory_debt_permille: u32,
    write_debt_permille: u32,
    /// Zeros, which older nodes read as latencies of appends that nobody measured.
    unused: [u32; 16],
}

/// Has each field of one become the field of that name of the other.
macro_rules! same_fields {
    ($from:ty, $to:ty $(, $rest:ident: $value:expr)?) => {
        impl From<$from> for $to {
            fn from(line: $from) -> Self {
                Self {
                    boot: line.boot,
                    workers: line.workers,
                    cpus: line.cpus,
                    in_flight: line.in_flight,
                    queued: line.queued,
                    work_ns: line.work_ns,
                    queue_wait_ns: line.queue_wait_ns,
                    oldest_wait_ns: line.oldest_wait_ns,
                    run_ns: line.run_ns,
                    runs: line.runs,
                    latency_ns: line.latency_ns,
                    cpu_demand_permille: line.cpu_demand_permille,
                    memory_debt_permille: line.memory_debt_permille,
                    write_debt_permille: line.write_debt_permille,
                    $($rest: $value,)?
                }
            }
        }
    };
}
same_fields!(LoadLine, WireLine, unused: [0; 16]);
same_fields!(WireLine, LoadLine);

/// A step of a submission: `replication::lead::Step` as bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum StepBytes {
    Write(Vec<u8>),
    /// The arguments of a command.
    Read(Vec<Vec<u8>>),
}

/// A partition by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct PartitionName {
    pub table: u64,
    pub ordinal: u32,
}

impl From<PartitionId> for PartitionName {
    fn from(id: PartitionId) -> Self {
        Self { table: id.table, ordinal: id.ordinal }
    }
}

impl From<PartitionName> for PartitionId {
    fn from(name: PartitionName) -> Self {
        Self { table: name.table, ordinal: name.ordinal }
    }
}

/// How fresh a read is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Freshness {
    /// Everything that was acknowledged when the read began.
    Strong,
    /// At least up to this position of the partition's group.
    AtLeast(u64),
    /// Whatever is there.
    Eventual,
}

/// What is done with a copy of a partition as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Chore {
    /// Makes what was applied visible to searches.
    Refresh,
    /// Makes rows and index durable.
    Flush,
    /// Merges the index' segments until there are so many.
    Merge { segments_max: u64 },
}

/// A partition of a search.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SearchPart {
    pub partition: PartitionName,
    /// The held view to ask, from an earlier answer; the current one where 0.
    pub view: u64,
    /// How long the view is to be held after this, ms; not at all where 0.
    pub hold_ms: u64,
    /// What the view is to be held under: drawn by who asks, so that it can be let go also where
    /// the answer was lost.
    pub hold_as: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Question {
    /// Nothing but whether the node is there, and its load line.
    Probe,
    /// Waits until the node serves what the metadata said at this position of its log.
    Await { metadata: u64 },
    /// Where the node stands in each log group.
    Positions,
    /// Has the lead there carry out steps.
    Write {
        partition: PartitionName,
        session: u64,
        first: u64,
        acked: u64,
        /// When the coordinator sent it, by its clock, ms since 1970.
        stamp_ms: u64,
        steps: Vec<StepBytes>,
    },
    /// Settles operations whose outcome is not known: none of them runs after the answer.
    Settle { partition: PartitionName, session: u64, numbers: Vec<u64>, stamp_ms: u64 },
    /// One command that reads.
    Read { partition: PartitionName, argv: Vec<Vec<u8>>, freshness: Freshness },
    /// Notes a key's last change.
    LastChange { partition: PartitionName, key: Vec<u8>, freshness: Freshness },
    /// One document.
    Document { partition: PartitionName, key: Vec<u8>, id: String, freshness: Freshness },
    /// The query phase of a search on one partition; `body` is JSON, `after` a scroll's hit. The
    /// view is not held where it is wanted for the fetch alone and there is nothing to fetch.
    Query {
        part: SearchPart,
        body: String,
        after: Option<Hit>,
        request_cache: Option<bool>,
        for_fetch: bool,
    },
    /// The documents of hits, of the view that was asked. The body is that of the query. The view
    /// is let go after this where that is said.
    Fetch { part: SearchPart, body: String, hits: Vec<Hit>, releases: bool },
    /// Holds the current view.
    Hold { part: SearchPart },
    /// Lets go of held views.
    Release { views: Vec<u64> },
    /// Does a chore with the node's copy once it has applied the log up to `at_least`.
    Chore { partition: PartitionName, at_least: u64, chore: Chore },
    /// What the node's copies hold, as JSON.
    Statistics,
    /// Begins a checkpoint of a partition, in the form for nodes that know no [`Self::OpenCopy`].
    OpenCheckpoint { partition: PartitionName },
    /// A piece of one of its files.
    Chunk { checkpoint: u64, file: String, offset: u64, bytes_max: u32 },
    /// It is no longer needed.
    CloseCheckpoint { checkpoint: u64 },
    /// A digest of the partition, with the position that it is of.
    Digest { partition: PartitionName },
    /// What the node's clock says.
    Clock,
    /// Tells a request to stop, by its number on the node.
    Cancel { number: u64 },
    /// Begins a checkpoint of a partition. A node that does not know this one says that it cannot
    /// read it ([`Problem::is_unread`]).
    OpenCopy { partition: PartitionName },
    /// A piece of one of its files, named by its place in the listing.
    CopyChunk { checkpoint: u64, file: u32, offset: u64, bytes_max: u32 },
    /// The checksums of files, to compare what is there with.
    FileChecksums { checkpoint: u64, files: Vec<u32> },
    /// As [`Self::CopyChunk`], of a source in another cluster, which may compress it.
    PackedChunk { checkpoint: u64, file: u32, offset: u64, bytes_max: u32, packing: Packing },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireDocument {
    pub source: Vec<u8>,
    pub version: u64,
    pub seq_no: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    Done,
    /// Bytes of a row reply for each step, and a position of the partition's group after all that
    /// they show.
    Replies {
        replies: Vec<Vec<u8>>,
        seen: u64,
    },
    LastChange(u64),
    /// Group, LSN, chain hash and log time of each.
    Positions(Vec<(u16, u64, u64, u64)>),
    Document(Option<WireDocument>),
    /// The view that was asked is held under this number; not where 0.
    Queried {
        result: Box<PartitionResult>,
        view: u64,
    },
    /// The view is held under this number.
    Held {
        view: u64,
    },
    /// Hits as JSON, each with its place among those asked for.
    Fetched(Vec<(u64, String)>),
    Json(String),
    /// A listing and its checksum.
    Checkpoint {
        listing: CheckpointListing,
        checksum: u64,
    },
    /// Bytes and their XXH3-64.
    Chunk {
        #[serde(with = "whole_bytes")]
        bytes: Vec<u8>,
        checksum: u64,
    },
    Digest {
        lsn: u64,
        hash: u64,
        digest: u64,
    },
    Problem(Problem),
    /// Ms since 1970.
    Clock {
        now_ms: u64,
    },
    /// A listing and its checksum.
    Copy {
        listing: CopyListing,
        checksum: u64,
    },
    /// Bytes of a file, its own XXH3-64 where they are its last, and the
    /// [`super::chunk_checksum`] of both.
    CopyChunk {
        #[serde(with = "whole_bytes")]
        bytes: Vec<u8>,
        file_checksum: Option<u64>,
        checksum: u64,
    },
    /// In the order of the question, and the XXH3-64 of them in a message.
    FileChecksums {
        checksums: Vec<u64>,
        checksum: u64,
    },
    /// As [`Self::CopyChunk`]; the checksum is over the bytes as they are in the file.
    PackedChunk {
        encoding: Encoding,
        #[serde(with = "whole_bytes")]
        bytes: Vec<u8>,
        file_checksum: Option<u64>,
        checksum: u64,
    },
    /// As [`Self::Clock`], of a node that doubts it. One that does not know this reply hears nothing:
    /// such a one, whose own clock steps while it hears no other, waits until the doubt is over.
    DoubtfulClock {
        now_ms: u64,
    },
}

/// Why a question was not answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Problem {
    /// The node speaks another format.
    Format(u8),
    /// The node belongs to another cluster.
    OtherCluster,
    /// The node does not serve the partition: ask another.
    NotHere(String),
    /// Nothing was done: a refusal of rows.
    Row {
        #[serde(with = "super::error_kind")]
        kind: ErrorKind,
        message: String,
    },
    /// A REST error, as JSON.
    Rest(String),
    /// The checkpoint was closed, or the node has started since: open one anew.
    CheckpointGone,
    /// The node's copy is behind its log, and did not come forward in time: ask another.
    Behind(String),
    /// The node refuses the work for now: a REST error, as JSON.
    Refused(String),
    /// A write has no replies.
    Write(WriteError),
}

/// What the text begins with of a message that is not known, or was damaged: told apart by it.
const UNREAD: &str = "a node's message cannot be read";

impl Problem {
    /// Whether the other node could not read the question: it is older, or the bytes were damaged.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self, Self::Row { message, .. } if message.starts_with(UNREAD))
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let is_refused = error.class == ErrorClass::Overloaded;
        let json = rest_error::to_json(error);
        if is_refused { Self::Refused(json) } else { Self::Rest(json) }
    }
}

/// The bytes of a question.
pub(crate) fn encode_question(envelope: &Envelope) -> Bytes {
    encode(envelope)
}

/// The bytes of an answer, with what is said of the node that gives it.
pub(crate) fn encode_answer(reply: Reply, told: Told) -> Bytes {
    let Told { server_ns, line } = told;
    encode(&Answer { server_ns, line: line.map(WireLine::from), reply })
}

/// The reply that bytes hold, with what they say of the node that gave it.
pub(crate) fn decode_answer(bytes: &[u8]) -> (Reply, Told) {
    match decode::<Answer>(bytes) {
        Ok(Answer { server_ns, line, reply }) => {
            (reply, Told { server_ns, line: line.map(LoadLine::from) })
        }
        Err(problem) => (Reply::Problem(problem), Told::default()),
    }
}

fn encode(value: &impl Serialize) -> Bytes {
    let bytes = postcard::to_extend(value, vec![FORMAT]);
    bytes.expect("messages are plain data").into()
}

/// # Errors
/// [`Problem::Format`] and what else is wrong with the bytes.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(bytes: &[u8]) -> Result<T, Problem> {
    let (format, body) = bytes.split_first().ok_or(Problem::Format(0))?;
    if *format != FORMAT {
        return Err(Problem::Format(*format));
    }
    let malformed = |error: postcard::Error| Problem::Row {
        kind: ErrorKind::General,
        message: format!("{UNREAD}: {error}"),
    };
    postcard::from_bytes(body).map_err(malformed)
}

/// Bytes as one piece instead of one by one: the same in a message, and many times as fast.
mod whole_bytes {
    use std::fmt;

    use serde::de::{Deserializer, Error, Visitor};
    use serde::ser::Serializer;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(bytes)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        from.deserialize_byte_buf(Whole)
    }

    struct Whole;

    impl Visitor<'_> for Whole {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("bytes")
        }

        fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
            Ok(bytes.to_vec())
        }
    }
}

impl Envelope {
    pub(crate) fn terms(&self) -> Terms {
        let Self { timeout_ms, alternatives, rank, .. } = self;
        let timeout = Duration::from_millis(*timeout_ms);
        Terms { timeout, alternatives: *alternatives, rank: *rank }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of two versions ask each other: what was sent once keeps its place.
    #[test]
    fn the_bytes_of_a_load_line_stay() {
        let line = LoadLine {
            boot: 1,
            workers: 2,
            cpus: 3,
            in_flight: 4,
            queued: 5,
            work_ns: 6,
            queue_wait_ns: 7,
            oldest_wait_ns: 8,
            run_ns: [9, 10, 11, 12, 13],
            runs: 14,
            latency_ns: 15,
            cpu_demand_permille: 16,
            memory_debt_permille: 17,
            write_debt_permille: 18,
        };
        let told = Told { server_ns: Some(99), line: Some(line) };
        let bytes = encode_answer(Reply::Clock { now_ms: 77 }, told);
        let unused = [0; 16];
        let fields: Vec<u8> = (1..=18).chain(unused).collect();
        let clock = 13;
        let expected = [&[FORMAT, 1, 99, 1], &fields[..], &[clock, 77]].concat();
        assert_eq!(bytes, expected, "{bytes:?}");
        let (reply, came) = decode_answer(&bytes);
        assert!(matches!(reply, Reply::Clock { now_ms: 77 }));
        assert_eq!((came.server_ns, came.line), (told.server_ns, told.line));
    }
}
