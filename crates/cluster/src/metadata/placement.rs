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
use serde_json::{Map, Value};
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
    /// A position of the group, as `begin`: an operator accepted that the one copy of that time
    /// lacked records before it. A copy that stands earlier goes on there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accepted: Option<(u64, u64, u64)>,
    /// What it holds first came from another cluster: this log has it not, so that no copy can be made
    /// of the log alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_imported: bool,
    /// What only a newer version knows.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl PartitionDefinition {
    /// A partition whose copies are empty, and therefore whole.
    pub(crate) fn new(group: u16, begin: Position, nodes: Vec<String>) -> Self {
        let copy = |node| Copy { node, state: CopyState::Serving };
        let begin = (begin.lsn.0, begin.hash, begin.log_time_ms);
        let copies = nodes.into_iter().map(copy).collect();
        Self {
            group,
            begin,
            epoch: 1,
            copies,
            accepted: None,
            is_imported: false,
            unknown: Map::new(),
        }
    }

    pub(crate) fn begin(&self) -> Position {
        position(self.begin)
    }

    /// See the field.
    pub(crate) fn accepted(&self) -> Option<Position> {
        self.accepted.map(position)
    }

    pub(crate) fn copy_on(&self, node: &str) -> Option<&Copy> {
        self.copies.iter().find(|copy| copy.node == node)
    }

    /// Whether what a node's copy holds was given up, however much that is, when another that lacks
    /// records was accepted: it is to be copied from that one.
    pub(crate) fn is_given_up(&self, node: &str) -> bool {
        let is_made = self.copy_on(node).is_some_and(|copy| copy.state == CopyState::Initializing);
        is_made && self.accepted.is_some()
    }

    /// The copies that can be asked.
    pub(crate) fn serving(&self) -> impl Iterator<Item = &str> {
        let serving = self.copies.iter().filter(|copy| copy.state == CopyState::Serving);
        serving.map(|copy| copy.node.as_str())
    }
}

fn position((lsn, hash, log_time_ms): (u64, u64, u64)) -> Position {
    Position { lsn: Lsn(lsn), hash, log_time_ms }
}

/// What a node reports of its copy of the partition that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// It serves.
    Serves,
    /// It has stopped for good, and holds no place.
    Stopped,
    /// Neither, or nothing yet.
    Other,
}

/// What of a node matters for where copies go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlaceableNode {
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
pub(crate) type PlaceableNodes = BTreeMap<String, PlaceableNode>;

/// The nodes that should hold the copies of a group's partitions, best first: as many as hold
/// copies and are alive, at most `copies`. A zone that has one already comes after those that have none.
pub(crate) fn proposed(group: u16, copies: usize, places: &PlaceableNodes) -> Vec<String> {
    let alive = places.iter().filter(|(_, place)| place.is_alive && place.is_data);
    let mut ranked: Vec<(&String, &PlaceableNode)> = alive.collect();
    ranked.sort_by_key(|(node, _)| std::cmp::Reverse(rank(group, node)));
    let mut chosen: Vec<(&String, &PlaceableNode)> = Vec::new();
    while chosen.len() < copies && !ranked.is_empty() {
        let in_zone =
            |place: &PlaceableNode| chosen.iter().filter(|(_, it)| it.zone == place.zone).count();
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
    places: &PlaceableNodes,
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

/// How many copies have to serve before one that is away is given up: with fewer, the files of a
/// node that comes back may be what saves the partition.
pub(crate) fn enough(copies: usize) -> usize {
    copies.clamp(1, 2)
}

/// What the copies of a partition should become next; `None` where nothing is to change. `known`
/// says what a node reports of its copy: only a copy that its own node reports as serving counts as
/// one. `making` counts the copies that each node is making; one that is begun here is counted.
pub(crate) fn next(
    partition: &PartitionDefinition,
    copies: usize,
    places: &PlaceableNodes,
    known: &dyn Fn(&str) -> Known,
    making: &mut BTreeMap<String, usize>,
) -> Option<Vec<Copy>> {
    let counted = |node: &str| places.get(node).is_some_and(|place| place.is_counted);
    let alive = |node: &str| places.get(node).is_some_and(|place| place.is_alive);
    let stopped = |node: &str| alive(node) && known(node) == Known::Stopped;
    let serves = |copy: &Copy| {
        copy.state == CopyState::Serving && alive(&copy.node) && known(&copy.node) == Known::Serves
    };
    let mut next = partition.copies.clone();
    let serving = next.iter().filter(|copy| serves(copy)).count();
    // A node whose copy has stopped is no place for it, unless there is no other node.
    let free_of_faults: PlaceableNodes = places
        .iter()
        .filter(|(node, _)| !next.iter().any(|copy| copy.node == **node && stopped(node)))
        .map(|(node, place)| (node.clone(), place.clone()))
        .collect();
    let wanted = proposed(partition.group, copies, &free_of_faults);
    // Those of nodes that are gone for good and those that have stopped are given up once enough
    // others serve. Until then they stay named, and hold no place.
    let is_lost = |copy: &Copy| !counted(&copy.node) || stopped(&copy.node);
    if serving >= enough(copies) {
        next.retain(|copy| !is_lost(copy));
    }
    // New ones where there are too few, and for those that are to move. One that is away and may
    // be back holds its place.
    let held = next.iter().filter(|copy| !is_lost(copy)).count();
    let to_move = next
        .iter()
        .filter(|it| !is_lost(it) && alive(&it.node) && !wanted.contains(&it.node))
        .count();
    let mut free = copies.saturating_sub(held) + to_move;
    for node in &wanted {
        let makes = making.entry(node.clone()).or_default();
        let is_there = next.iter().any(|copy| &copy.node == node);
        if serving > 0 && free > 0 && !is_there && *makes < INITIALIZING_MAX {
            *makes += 1;
            free -= 1;
            next.push(Copy { node: node.clone(), state: CopyState::Initializing });
        }
    }
    // Where no other node is left for one that has stopped, its own makes it anew.
    let has_room = wanted.len() >= copies;
    for copy in next.iter_mut().filter(|copy| stopped(&copy.node)) {
        let makes = making.entry(copy.node.clone()).or_default();
        let is_to_do = copy.state == CopyState::Serving && serving > 0 && !has_room;
        if is_to_do && *makes < INITIALIZING_MAX {
            *makes += 1;
            copy.state = CopyState::Initializing;
        }
    }
    // Those beyond what is wanted go once enough of the wanted serve.
    let is_served = wanted.iter().all(|node| next.iter().any(|it| &it.node == node && serves(it)));
    if is_served && !wanted.is_empty() {
        let away = |copy: &Copy| !wanted.contains(&copy.node) && alive(&copy.node);
        // While the wanted ones are too few, others hold their places: those that may be back, and of
        // those that are there as many as are missing.
        let mut missing = copies.saturating_sub(wanted.len());
        let is_full = missing == 0;
        next.retain(|copy| {
            let is_spare = away(copy) && missing > 0;
            missing -= usize::from(is_spare);
            let may_come_back = !alive(&copy.node) && (counted(&copy.node) || !is_full);
            wanted.contains(&copy.node) || is_spare || may_come_back
        });
    }
    (next != partition.copies).then_some(next)
}

#[cfg(test)]
mod tests;
