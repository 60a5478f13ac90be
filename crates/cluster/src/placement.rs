//! Where the copies of partitions are, and where they should be. Pure: definitions and nodes go
//! in, changes come out. That a change is committed, and carried out, is decided elsewhere.
//!
//! Rendezvous hashing proposes: every node has a rank in every log group, so partitions of a
//! group with as many copies lie on the same nodes, and a node that comes or goes moves only what
//! is its own.

pub(crate) mod filter;

use std::collections::BTreeMap;

use plimsoll_log::Lsn;
use plimsoll_log::rules::chain::Position;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// Copies that one node may be making at once.
const INITIALIZING_MAX: usize = 2;

/// Whether a copy can be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CopyState {
    /// It is being made.
    Initializing,
    /// It is whole, and goes on with the log.
    Serving,
}

/// One copy of a partition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Copy {
    /// The id of its node.
    pub node: String,
    pub state: CopyState,
}

/// A partition as the metadata has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PartitionDefinition {
    /// Its log group, fixed for its life.
    pub group: u16,
    /// The group's position before the partition's first record: LSN, chain hash, log time.
    pub begin: (u64, u64, u64),
    /// One more at each change of its copies.
    pub epoch: u64,
    pub copies: Vec<Copy>,
}

impl PartitionDefinition {
    /// A partition whose copies are empty, and therefore whole.
    pub(crate) fn new(group: u16, begin: Position, nodes: Vec<String>) -> Self {
        let copy = |node| Copy { node, state: CopyState::Serving };
        let begin = (begin.lsn.0, begin.hash, begin.log_time_ms);
        Self { group, begin, epoch: 1, copies: nodes.into_iter().map(copy).collect() }
    }

    pub(crate) fn begin(&self) -> Position {
        let (lsn, hash, log_time_ms) = self.begin;
        Position { lsn: Lsn(lsn), hash, log_time_ms }
    }

    pub(crate) fn copy_on(&self, node: &str) -> Option<&Copy> {
        self.copies.iter().find(|copy| copy.node == node)
    }

    /// The copies that can be asked.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &str> {
        let serving = self.copies.iter().filter(|copy| copy.state == CopyState::Serving);
        serving.map(|copy| copy.node.as_str())
    }
}

/// What of a node matters for where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Where it stands; copies of a partition are spread over zones. Empty where not said.
    pub zone: String,
    /// It is there, or may be back soon.
    pub is_counted: bool,
    /// It is there now.
    pub is_alive: bool,
    /// It is to hold copies; one that is not keeps those that it has until others do.
    pub is_data: bool,
}

/// The nodes, by their ids.
pub(crate) type Places = BTreeMap<String, Place>;

/// The nodes that should hold the copies of a group's partitions, best first: as many as hold
/// copies and are alive, at most `copies`. A zone that has one already comes after those that have none.
pub(crate) fn proposed(group: u16, copies: usize, places: &Places) -> Vec<String> {
    let alive = places.iter().filter(|(_, place)| place.is_alive && place.is_data);
    let mut ranked: Vec<(&String, &Place)> = alive.collect();
    ranked.sort_by_key(|(node, _)| std::cmp::Reverse(rank(group, node)));
    let mut chosen: Vec<(&String, &Place)> = Vec::new();
    while chosen.len() < copies && !ranked.is_empty() {
        let in_zone = |place: &Place| chosen.iter().filter(|(_, it)| it.zone == place.zone).count();
        let counts: Vec<usize> = ranked.iter().map(|(_, place)| in_zone(place)).collect();
        let least = counts.iter().min().copied().unwrap_or(0);
        let at = counts.iter().position(|count| *count == least).unwrap_or(0);
        chosen.push(ranked.remove(at));
    }
    chosen.into_iter().map(|(node, _)| node.clone()).collect()
}

/// The log groups of a new table's partitions, of `1..=groups`: none in use twice before all are
/// once, so that partitions wait for one another's records as little as can be, and such that the
/// copies lie as evenly over the nodes as is found by always taking a group whose nodes have fewest,
/// once from each. `first` says where to begin among equals, so that tables of one partition are
/// spread too.
pub(crate) fn groups_of_table(
    partitions: u32,
    copies: usize,
    groups: u16,
    first: u16,
    places: &Places,
) -> Vec<u16> {
    let order = (0..groups).map(|step| (first % groups + step) % groups + 1);
    let mut proposals: Vec<(u16, Vec<String>)> =
        order.map(|group| (group, proposed(group, copies, places))).collect();
    let mut best: Option<(usize, Vec<u16>)> = None;
    for _ in 0..proposals.len() {
        let (unevenness, chosen) = fewest_first(partitions, &proposals);
        if best.as_ref().is_none_or(|(least, _)| unevenness < *least) {
            best = Some((unevenness, chosen));
        }
        proposals.rotate_left(1);
    }
    best.map(|(_, chosen)| chosen).unwrap_or_default()
}

/// Takes for each partition the first of the least used groups whose nodes have fewest copies yet;
/// says how uneven that is: the sum of the squares of what nodes hold.
fn fewest_first(partitions: u32, proposals: &[(u16, Vec<String>)]) -> (usize, Vec<u16>) {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    let mut used = vec![0_u32; proposals.len()];
    let mut chosen = Vec::new();
    for _ in 0..partitions {
        let load = |at: usize| -> usize {
            proposals[at].1.iter().map(|node| held.get(node.as_str()).copied().unwrap_or(0)).sum()
        };
        let Some(at) = (0..proposals.len()).min_by_key(|at| (used[*at], load(*at))) else { break };
        used[at] += 1;
        let (group, nodes) = &proposals[at];
        for node in nodes {
            *held.entry(node).or_default() += 1;
        }
        chosen.push(*group);
    }
    (held.values().map(|count| count * count).sum(), chosen)
}

fn rank(group: u16, node: &str) -> u64 {
    xxh3_64(&[&group.to_le_bytes(), node.as_bytes()].concat())
}

/// What the copies of a partition should become next; `None` where nothing is to change.
/// `making` counts the copies that each node is making; one that is begun here is counted.
pub(crate) fn next(
    partition: &PartitionDefinition,
    copies: usize,
    places: &Places,
    making: &mut BTreeMap<String, usize>,
) -> Option<Vec<Copy>> {
    let counted = |node: &str| places.get(node).is_some_and(|place| place.is_counted);
    let alive = |node: &str| places.get(node).is_some_and(|place| place.is_alive);
    let wanted = proposed(partition.group, copies, places);
    let mut next = partition.copies.clone();
    let serving_alive = |next: &[Copy]| {
        let serving = |copy: &&Copy| copy.state == CopyState::Serving && alive(&copy.node);
        next.iter().filter(serving).count()
    };
    // Those of nodes that are gone for good; the last of all is kept: it may be the only one.
    if serving_alive(&next) > 0 {
        next.retain(|copy| counted(&copy.node));
    }
    // New ones where there are too few, and for those that are to move. One that is away and may
    // be back holds its place.
    let to_move = next.iter().filter(|it| alive(&it.node) && !wanted.contains(&it.node)).count();
    let mut free = copies.saturating_sub(next.len()) + to_move;
    let has_source = serving_alive(&next) > 0;
    for node in &wanted {
        let makes = making.entry(node.clone()).or_default();
        let is_there = next.iter().any(|copy| &copy.node == node);
        if has_source && free > 0 && !is_there && *makes < INITIALIZING_MAX {
            *makes += 1;
            free -= 1;
            next.push(Copy { node: node.clone(), state: CopyState::Initializing });
        }
    }
    // Those beyond what is wanted go once enough of the wanted serve.
    let settled = wanted
        .iter()
        .all(|node| next.iter().any(|copy| &copy.node == node && copy.state == CopyState::Serving));
    if settled && !wanted.is_empty() {
        let away = |copy: &Copy| !wanted.contains(&copy.node) && alive(&copy.node);
        // While the wanted ones are too few, others hold their places: those that may be back, and of
        // those that are there as many as are missing.
        let mut missing = copies.saturating_sub(wanted.len());
        let is_full = missing == 0;
        next.retain(|copy| {
            let is_spare = away(copy) && missing > 0;
            missing -= usize::from(is_spare);
            wanted.contains(&copy.node) || is_spare || !(away(copy) || is_full)
        });
    }
    (next != partition.copies).then_some(next)
}

#[cfg(test)]
mod tests;
