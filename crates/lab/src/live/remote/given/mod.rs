//! `remote-recovery` on two clusters of the user's: a table of the lab's is made and loaded at the
//! leader, copied by the follower, watched until that is level, and deleted on both sides. Nothing of
//! the way between the two is the lab's, so that there is neither a raw copy nor a share of one.

mod clusters;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clusters::{Asked, Clusters, FOLLOWER_INDEX, LEADER_INDEX, Language};

use super::copying::{self, Copy};
use super::index::{SHARDS, delete};
use super::scenarios;
use crate::LabError;
use crate::live::context::{Arm, Context, comparisons, variants};
use crate::live::corpus::Shape;
use crate::live::found::Found;
use crate::live::measure::{Measured, STOPPED};
use crate::live::options::{LiveOptions, LiveSize};
use crate::live::{cluster, method, target};
use crate::result::{FaultNote, Lap, LoadNote, NodeLap, RecoveryLap, Scenario, over_laps};

/// The only scenario.
const SCENARIO: &str = "http_logs";
/// Documents of a quick run.
const QUICK_DOCUMENTS: usize = 200_000;
/// A copy is cut after so long.
const COPY_SECONDS_MAX: f64 = 600.0;

/// Names of arms that may be asked for: the languages.
pub(crate) fn names() -> Vec<&'static str> {
    Language::ALL.iter().map(|language| language.name()).collect()
}

/// Documents of the table.
pub(super) fn documents(options: &LiveOptions) -> usize {
    match options.size {
        LiveSize::Quick => QUICK_DOCUMENTS,
        _ => scenarios::documents(Shape::HttpLogs),
    }
}

/// Laps of a run.
pub(super) fn steps(options: &LiveOptions, laps: usize) -> usize {
    laps * options.variants.len().max(1)
}

/// Runs it; what there is when it is stopped.
pub(super) fn run(
    context: &mut Context<'_>,
    words: &str,
    found: &mut Found,
) -> Result<(), LabError> {
    let clusters = Clusters::parse(words)?;
    let remote = clusters.find_remote()?;
    let languages = languages(&clusters, &context.options.variants)?;
    for (of, index) in [(&clusters.leader, LEADER_INDEX), (&clusters.follower, FOLLOWER_INDEX)] {
        if Clusters::has(of, index)? {
            let why = format!("index {index} is there already; delete it if it is the lab's");
            return Err(LabError::live(format!("use {of}"), why));
        }
    }
    context.note(format!(
        "{} follows {} as `{remote}`; what lies between the two is theirs: there is no raw copy over \
         it, nothing is known of its rate and trip, and times are as near as looks, a fifth of a second",
        clusters.follower, clusters.leader
    ));
    let (count, seed) = (documents(context.options), context.options.seed);
    let corpus = context.corpora.of(Shape::HttpLogs, count, seed);
    context.progress.note(&format!("loading {} documents into {LEADER_INDEX}", corpus.count));
    let loaded = cluster::load(&clusters.leader.address, LEADER_INDEX, &corpus, SHARDS, 0);
    let laps = loaded.and_then(|()| laps(context, &clusters, &remote, &languages));
    let cleared = delete(&clusters.leader.address, LEADER_INDEX);
    let laps = laps?;
    if laps.iter().all(Vec::is_empty) {
        return Err(LabError::Stopped);
    }
    let arm = |language: &Language| Arm { name: language.name().to_owned(), settings: [].into() };
    let arms: Vec<Arm> = languages.iter().map(arm).collect();
    let fit = [("documents".to_owned(), corpus.count as f64)];
    let scenario = Scenario {
        name: SCENARIO.to_owned(),
        fault: FaultNote { kind: "as it is".to_owned(), fit: fit.into() },
        load: LoadNote::Clients(0),
        variants: variants(&arms, &laps, None),
    };
    context.conclude(sentence(&clusters, &scenario));
    found.results.scenarios.push(scenario);
    let compared = comparisons(SCENARIO, &arms, &laps, seed, |_, _, _| Vec::new());
    found.results.comparisons.extend(compared);
    cleared
}

/// The languages that were asked for, else the first that the follower knows.
fn languages(clusters: &Clusters, wanted: &[String]) -> Result<Vec<Language>, LabError> {
    let is_wanted = |it: &Language| wanted.is_empty() || wanted.iter().any(|one| one == it.name());
    let asked: Vec<Language> = Language::ALL.into_iter().filter(is_wanted).collect();
    let (known, unknown): (Vec<Language>, Vec<Language>) =
        asked.into_iter().partition(|language| clusters.speaks(*language));
    let names: Vec<&str> = unknown.iter().map(|language| language.name()).collect();
    match (wanted.is_empty(), known.first().copied()) {
        (true, Some(first)) => Ok(vec![first]),
        (false, _) if unknown.is_empty() => Ok(known),
        _ => {
            let why = format!("it does not know {}", names.join(", "));
            Err(LabError::live(format!("have {} follow", clusters.follower), why))
        }
    }
}

/// The laps of all languages, in turns.
fn laps(
    context: &mut Context<'_>,
    clusters: &Clusters,
    remote: &str,
    languages: &[Language],
) -> Result<Vec<Vec<Measured>>, LabError> {
    let mut all: Vec<Vec<Measured>> = languages.iter().map(|_| Vec::new()).collect();
    for block in 0..context.laps() {
        for at in method::order(languages.len(), block) {
            if context.is_stopped() {
                return Ok(all);
            }
            let (address, language) = (clusters.follower.address.as_str(), languages[at]);
            let asked = Asked { address, remote, language };
            let lap = lap(context, clusters, &asked);
            // Also where the lap failed.
            let forgotten = asked.forget();
            let mut lap = lap?;
            forgotten?;
            if context.is_stopped() && lap.lap.recovery.is_none() {
                return Ok(all);
            }
            lap.block = block;
            let seconds = lap.lap.recovery.map_or(0.0, |it| it.recovery_seconds);
            all[at].push(lap);
            context.step(&format!("{} lap {} ({seconds:.1} s)", language.name(), block + 1));
        }
    }
    Ok(all)
}

fn lap(
    context: &Context<'_>,
    clusters: &Clusters,
    asked: &Asked<'_>,
) -> Result<Measured, LabError> {
    let stop = Arc::clone(&context.options.stop);
    let sides = [("leader", &clusters.leader), ("follower", &clusters.follower)];
    let before = sides.map(|(_, side)| side.counters());
    let copy = copying::copy(asked, COPY_SECONDS_MAX, &AtomicU64::new(0), &stop)?;
    let after = sides.map(|(_, side)| side.counters());
    let mut nodes: Vec<NodeLap> = Vec::new();
    for ((side, _), (before, after)) in sides.iter().zip(before.iter().zip(&after)) {
        let laps = target::node_laps(before, after).into_iter();
        nodes.extend(laps.map(|node| NodeLap { name: format!("{side} {}", node.name), ..node }));
    }
    let is_stopped = context.is_stopped();
    Ok(Measured::without_requests(of_copy(copy, nodes, is_stopped), 0))
}

/// What is told of a copy.
fn of_copy(copy: Copy, nodes: Vec<NodeLap>, is_stopped: bool) -> Lap {
    let wrong = match () {
        () if is_stopped => Some(STOPPED.to_owned()),
        () if copy.seconds.is_none() => Some("nothing was copied".to_owned()),
        () => None,
    };
    Lap {
        valid: wrong.is_none(),
        reason: wrong.or(copy.cut),
        cpu_s: nodes.iter().map(|node| node.cpu_s).sum::<Option<f64>>().filter(|s| *s > 0.0),
        recovery: copy.seconds.filter(|_| !is_stopped).map(|seconds| RecoveryLap {
            recovery_seconds: seconds,
            share_of_raw: 0.0,
            wire_bytes: copy.told_wire_bytes,
            tail_seconds: copy.tail_seconds,
            level_seconds: copy.level_seconds,
            time_left_off_percent: copy.time_left_off_percent,
        }),
        nodes,
        ..Lap::default()
    }
}

/// What came of it, in plain words.
fn sentence(clusters: &Clusters, scenario: &Scenario) -> String {
    let of = |variant: &crate::result::Variant| {
        let told = |path: &str| match over_laps(variant, path) {
            Some(seconds) => format!("{seconds:.1} s"),
            None => "n/a".to_owned(),
        };
        let (copied, level) = (told("recovery_seconds"), told("level_seconds"));
        format!("by {} in {copied}, and was level after {level}", variant.name)
    };
    let each: Vec<String> = scenario.variants.iter().map(of).collect();
    let documents = scenario.fault.fit.get("documents").copied().unwrap_or(0.0);
    format!(
        "{} copied {documents} documents of {} {}.",
        clusters.follower,
        clusters.leader,
        each.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lap_tells_what_there_is_and_nothing_else() {
        let copy = Copy {
            seconds: Some(8.0),
            level_seconds: Some(8.5),
            bytes: 100,
            told_wire_bytes: 70,
            ..Copy::default()
        };
        let node = NodeLap { cpu_s: Some(1.5), ..NodeLap::default() };
        let lap = of_copy(copy.clone(), vec![node.clone(), node], false);
        let told = |path: &str| crate::result::metric(&lap, path);
        assert!(lap.valid && lap.cpu_s == Some(3.0));
        assert_eq!((told("recovery_seconds"), told("level_seconds")), (Some(8.0), Some(8.5)));
        assert_eq!((told("wire_bytes"), told("share_of_raw")), (Some(70.0), None));
        let unsaid = of_copy(Copy { told_wire_bytes: 0, ..copy.clone() }, Vec::new(), false);
        assert_eq!((crate::result::metric(&unsaid, "wire_bytes"), unsaid.cpu_s), (None, None));
        let stopped = of_copy(copy, Vec::new(), true);
        assert!(!stopped.valid && stopped.recovery.is_none());
        assert!(!of_copy(Copy::default(), Vec::new(), false).valid);
    }
}
