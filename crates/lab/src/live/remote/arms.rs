//! The arms of `remote-recovery`: raw copies, the published rule with a fixed chunk and a fixed number
//! of them under way (`-by-file`: one of each file), with and without the published compression, and
//! what the nodes choose by themselves, with and without theirs. Chunks are as much smaller than the
//! study's as the link is, so that the same number of them fills the same part of it. Pure.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::live::options::LiveSize;

/// The raw copy over one connection: what all others are compared with.
pub(crate) const RAW: &str = "raw-tls";
/// The same once more.
pub(crate) const AGAIN: &str = "raw-tls (again)";
/// The raw copy over four connections.
pub(crate) const RAW_4: &str = "raw-tls-4";
/// The published default.
pub(crate) const DEFAULT: &str = "1m-5";
/// What the nodes choose.
pub(crate) const OURS: &str = "ours";
/// The same where nothing is compressed.
pub(crate) const PLAIN: &str = "ours-plain";
/// The same where neither side makes way for its clients; only where those work.
pub(crate) const UNPACED: &str = "ours-unpaced";

/// The settings of the published rule.
const CHUNK: &str = "ccr.indices.recovery.chunk_size";
const CHUNKS: &str = "ccr.indices.recovery.max_concurrent_file_chunks";
const CHUNKS_OF_FILE: &str = "ccr.indices.recovery.max_concurrent_chunks_per_file";
/// That of compression, of the remote cluster that the lab's follower knows.
const COMPRESS: &str = "cluster.remote.leader.transport.compress";

/// That of pacing, which both sides have.
pub(crate) const PACING: &str = "ccr.pacing";

/// What the study's machines could send at most, as far as it says: 1 Gb/s.
const STUDY_BYTES_S: u64 = 125_000_000;
/// The least chunk that Elasticsearch takes.
const CHUNK_BYTES_MIN: u64 = 1 << 10;
/// How long the slowest arms may take.
const SLOWEST_S: f64 = 12.0;
/// How often as long as a raw copy all others may take.
const RAW_TIMES: f64 = 4.0;

/// How an arm copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Not by nodes, over so many connections.
    Raw { connections: usize },
    /// By nodes, with chunks of so many KiB, scaled, and so many under way, of one file each or of
    /// any, all compressed or none.
    Fixed { chunk_kib: u64, chunks: u64, by_file: bool, deflate: bool },
    /// By nodes, with nothing set but that nothing is compressed, or nothing at all.
    Ours { plain: bool },
}

/// One arm.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteArm {
    pub(crate) name: &'static str,
    pub(crate) way: Way,
    /// Settings of the follower; null takes one back to its default.
    pub(crate) settings: BTreeMap<String, Value>,
}

const fn raw(connections: usize) -> Way {
    Way::Raw { connections }
}

const fn fixed(chunk_kib: u64, chunks: u64) -> Way {
    Way::Fixed { chunk_kib, chunks, by_file: false, deflate: false }
}

const fn by_file(chunk_kib: u64, chunks: u64, deflate: bool) -> Way {
    Way::Fixed { chunk_kib, chunks, by_file: true, deflate }
}

const fn deflated(chunk_kib: u64, chunks: u64) -> Way {
    Way::Fixed { chunk_kib, chunks, by_file: false, deflate: true }
}

/// All arms, by name, with the least size of a run that has them.
const ARMS: [(&str, Way, LiveSize); 21] = [
    (RAW, raw(1), LiveSize::Quick),
    (AGAIN, raw(1), LiveSize::Quick),
    (RAW_4, raw(4), LiveSize::Quick),
    ("64k-1", fixed(64, 1), LiveSize::Full),
    ("1m-1", fixed(1_024, 1), LiveSize::Quick),
    ("5m-1", fixed(5_120, 1), LiveSize::Full),
    ("1m-5-by-file", by_file(1_024, 5, false), LiveSize::Full),
    (DEFAULT, fixed(1_024, 5), LiveSize::Quick),
    ("5m-5", fixed(5_120, 5), LiveSize::Study),
    ("1m-10", fixed(1_024, 10), LiveSize::Study),
    ("5m-8", fixed(5_120, 8), LiveSize::Full),
    ("64k-1+deflate", deflated(64, 1), LiveSize::Full),
    ("1m-1+deflate", deflated(1_024, 1), LiveSize::Full),
    ("5m-1+deflate", deflated(5_120, 1), LiveSize::Full),
    ("1m-5-by-file+deflate", by_file(1_024, 5, true), LiveSize::Full),
    ("1m-5+deflate", deflated(1_024, 5), LiveSize::Quick),
    ("5m-5+deflate", deflated(5_120, 5), LiveSize::Full),
    ("1m-10+deflate", deflated(1_024, 10), LiveSize::Full),
    ("5m-8+deflate", deflated(5_120, 8), LiveSize::Full),
    (OURS, Way::Ours { plain: false }, LiveSize::Quick),
    (PLAIN, Way::Ours { plain: true }, LiveSize::Study),
];

/// Names of variants that may be asked for.
pub(crate) fn names() -> Vec<&'static str> {
    ARMS.iter().map(|(name, ..)| *name).chain([UNPACED]).collect()
}

/// The arms of a run over a link of such a rate: those that were asked for, else what the size wants;
/// the raw copy is always the first.
pub(crate) fn arms(size: LiveSize, wanted: &[String], link_bytes_s: u64) -> Vec<RemoteArm> {
    let rank = |size: LiveSize| match size {
        LiveSize::Quick => 0,
        LiveSize::Study => 1,
        LiveSize::Full => 2,
    };
    let is_wanted = |name: &str, least: LiveSize| match wanted.is_empty() {
        true => rank(least) <= rank(size),
        false => name == RAW || wanted.iter().any(|one| one == name),
    };
    let all = ARMS.into_iter().filter(|(name, _, least)| is_wanted(name, *least));
    all.map(|(name, way, _)| RemoteArm { name, way, settings: settings(way, link_bytes_s) })
        .collect()
}

fn settings(way: Way, link_bytes_s: u64) -> BTreeMap<String, Value> {
    let nothing = || [Value::Null, Value::Null, Value::Null];
    let ([chunk, chunks, of_file], compress) = match way {
        Way::Raw { .. } => return BTreeMap::new(),
        Way::Fixed { chunk_kib, chunks, by_file, deflate } => {
            let chunk = format!("{}b", scaled(chunk_kib, link_bytes_s));
            let of_file = if by_file { json!(1) } else { Value::Null };
            ([json!(chunk), json!(chunks), of_file], json!(deflate))
        }
        Way::Ours { plain: true } => (nothing(), json!(false)),
        Way::Ours { plain: false } => (nothing(), Value::Null),
    };
    let all = [
        (CHUNK, chunk),
        (CHUNKS, chunks),
        (CHUNKS_OF_FILE, of_file),
        (COMPRESS, compress),
        (PACING, Value::Null),
    ];
    all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The study's chunk on a link of such a rate, bytes.
fn scaled(chunk_kib: u64, link_bytes_s: u64) -> u64 {
    let share = link_bytes_s as f64 / STUDY_BYTES_S as f64;
    let bytes = plimsoll_control::average::whole((chunk_kib << 10) as f64 * share);
    bytes.max(CHUNK_BYTES_MIN)
}

/// What the published default has under way on a link of such a rate, bytes.
pub(crate) fn default_bytes(link_bytes_s: f64) -> f64 {
    5.0 * scaled(1_024, plimsoll_control::average::whole(link_bytes_s)) as f64
}

impl RemoteArm {
    /// The same where neither side makes way.
    pub(crate) fn unpaced(&self) -> Self {
        let mut arm = Self { name: UNPACED, ..self.clone() };
        arm.settings.insert(PACING.to_owned(), json!("off"));
        arm
    }

    /// When a lap of it is cut, where a raw copy takes so long.
    pub(crate) fn seconds_max(&self, raw_seconds: f64) -> f64 {
        match self.way {
            Way::Fixed { chunk_kib: 64 | 1_024, chunks: 1, .. } => SLOWEST_S,
            _ => raw_seconds * RAW_TIMES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_as_much_smaller_as_the_link() {
        assert_eq!(scaled(1_024, 125_000_000), 1 << 20);
        assert_eq!(scaled(1_024, 12_500_000), 104_858);
        assert_eq!(scaled(64, 1_000_000), 1 << 10);
        // Five of 1 MB stay 42 % of what is under way at 100 ms.
        let share = (5 * scaled(1_024, 12_500_000)) as f64 / 1_250_000.0;
        assert!((share - 0.42).abs() < 0.001, "{share}");
    }

    #[test]
    fn arms_are_those_asked_for_after_the_raw_copy() {
        let names = |size, wanted: &[&str]| -> Vec<&str> {
            let wanted: Vec<String> = wanted.iter().map(|name| (*name).to_owned()).collect();
            arms(size, &wanted, 12_500_000).into_iter().map(|arm| arm.name).collect()
        };
        assert_eq!(
            names(LiveSize::Quick, &[]),
            [RAW, AGAIN, RAW_4, "1m-1", "1m-5", "1m-5+deflate", "ours"]
        );
        assert_eq!(names(LiveSize::Full, &["5m-8"]), [RAW, "5m-8"]);
        assert_eq!(names(LiveSize::Full, &[]).len(), ARMS.len());
    }

    #[test]
    fn every_arm_of_the_nodes_says_all_settings() {
        for arm in arms(LiveSize::Full, &[], 12_500_000) {
            let expected = if matches!(arm.way, Way::Raw { .. }) { 0 } else { 5 };
            assert_eq!(arm.settings.len(), expected, "{arm:?}");
            let chunks = arm.settings.get(CHUNKS);
            let is_ours = matches!(arm.way, Way::Ours { .. });
            assert_eq!(chunks.is_some_and(Value::is_null), is_ours, "{arm:?}");
            let of_file = arm.settings.get(CHUNKS_OF_FILE);
            let is_by_file = of_file.is_some_and(|value| *value == json!(1));
            assert_eq!(is_by_file, arm.name.contains("-by-file"), "{arm:?}");
        }
        let all = arms(LiveSize::Full, &[], 12_500_000);
        let five = all.iter().find(|arm| arm.name == "1m-5").unwrap();
        assert_eq!((&five.settings[CHUNK], &five.settings[CHUNKS]), (&json!("104858b"), &json!(5)));
        let compress = |name: &str| {
            all.iter().find(|arm| arm.name == name).map(|arm| arm.settings[COMPRESS].clone())
        };
        assert_eq!(compress("1m-5+deflate"), Some(json!(true)));
        assert_eq!(compress("1m-5"), Some(json!(false)));
        assert_eq!(compress("ours-plain"), Some(json!(false)));
        assert_eq!(compress("ours"), Some(Value::Null));
        let limit = |name: &str| all.iter().find(|arm| arm.name == name).unwrap().seconds_max(10.0);
        assert_eq!((limit("64k-1"), limit("1m-1"), limit("ours")), (12.0, 12.0, 40.0));
    }
}
