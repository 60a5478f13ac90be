//! Nodes that come and go, and what becomes of the copies.

use super::*;

fn places(names: &[&str]) -> PlaceableNodes {
    let place =
        PlaceableNode { zone: String::new(), is_counted: true, is_alive: true, is_data: true };
    names.iter().map(|name| ((*name).to_owned(), place.clone())).collect()
}

fn partition(group: u16, nodes: Vec<String>) -> PartitionDefinition {
    let begin = Position { lsn: Lsn(0), hash: 0, log_time_ms: 0 };
    PartitionDefinition::new(group, begin, nodes)
}

/// Every node reports that its copy serves.
fn all_serve(_: &str) -> Known {
    Known::Serves
}

/// Makes every change, each new copy being whole at once, until nothing is to change.
fn converge(partition: &mut PartitionDefinition, copies: usize, places: &PlaceableNodes) {
    for _ in 0..20 {
        let Some(next) = next(partition, copies, places, &all_serve, &mut BTreeMap::new()) else {
            return;
        };
        assert!(next.iter().any(|copy| copy.state == CopyState::Serving), "none serves");
        partition.copies = next;
        for copy in &mut partition.copies {
            copy.state = CopyState::Serving;
        }
    }
    panic!("it does not converge: {partition:?}");
}

fn nodes(partition: &PartitionDefinition) -> Vec<&str> {
    let mut nodes: Vec<&str> = partition.serving().collect();
    nodes.sort_unstable();
    nodes
}

#[test]
fn partitions_of_a_group_lie_on_the_same_nodes_and_groups_are_spread() {
    let places = places(&["a", "b", "c", "d", "e"]);
    let mut used = BTreeMap::new();
    for group in 1..=64 {
        let chosen = proposed(group, 3, &places);
        assert_eq!(chosen, proposed(group, 3, &places));
        assert_eq!(chosen[..2], proposed(group, 2, &places));
        for node in chosen {
            *used.entry(node).or_insert(0) += 1;
        }
    }
    assert!(used.values().all(|count| (20..=60).contains(count)), "{used:?}");
}

#[test]
fn a_tables_copies_lie_evenly_and_its_partitions_in_groups_of_their_own() {
    let mut uneven = 0;
    for seed in 0..100 {
        let names: Vec<String> = (0..5).map(|n| format!("node {seed} {n}")).collect();
        let places = places(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let groups = groups_of_table(5, 2, 16, seed, &places);
        let mut different = groups.clone();
        different.sort_unstable();
        different.dedup();
        assert_eq!((groups.len(), different.len()), (5, 5));
        assert!(groups.iter().all(|group| (1..=16).contains(group)), "{groups:?}");
        let mut held = BTreeMap::new();
        for node in groups.iter().flat_map(|group| proposed(*group, 2, &places)) {
            *held.entry(node).or_insert(0) += 1;
        }
        assert!(held.values().all(|count| *count <= 3), "{held:?}");
        uneven += u32::from(held.len() < 5 || held.values().any(|count| *count != 2));
    }
    assert!(uneven < 20, "{uneven} of 100");
}

#[test]
fn more_partitions_than_groups_use_all_alike_and_one_begins_where_it_is_told() {
    let all = places(&["a", "b", "c"]);
    let groups = groups_of_table(40, 2, 16, 3, &all);
    let used = |group: u16| groups.iter().filter(|it| **it == group).count();
    assert!((1..=16).all(|group| (2..=3).contains(&used(group))), "{groups:?}");
    assert_eq!(groups_of_table(1, 1, 16, 3, &all), [4]);
    assert_eq!(groups_of_table(1, 1, 16, 19, &all), [4]);
    // With nobody to hold copies the groups are there all the same.
    assert_eq!(groups_of_table(2, 1, 16, 15, &PlaceableNodes::new()), [16, 1]);
}

#[test]
fn zones_have_one_copy_each_before_any_has_two() {
    let mut places = places(&["a", "b", "c", "d"]);
    for (name, zone) in [("a", "x"), ("b", "x"), ("c", "x"), ("d", "y")] {
        places.get_mut(name).unwrap().zone = zone.to_owned();
    }
    for group in 0..50 {
        assert!(proposed(group, 2, &places).contains(&"d".to_owned()));
    }
}

#[test]
fn a_node_that_is_away_for_a_while_keeps_its_copies_and_one_that_is_gone_is_replaced() {
    let mut all = places(&["a", "b", "c"]);
    let mut it = partition(3, proposed(3, 2, &all));
    let gone = it.copies[0].node.clone();
    all.get_mut(&gone).unwrap().is_alive = false;
    assert_eq!(next(&it, 2, &all, &all_serve, &mut BTreeMap::new()), None, "it may be back");
    all.get_mut(&gone).unwrap().is_counted = false;
    converge(&mut it, 2, &all);
    assert_eq!(it.copies.len(), 2);
    assert!(it.copy_on(&gone).is_none());
}

#[test]
fn the_last_copy_is_never_given_up() {
    let mut all = places(&["a", "b"]);
    let mut it = partition(1, vec!["a".to_owned()]);
    let place = all.get_mut("a").unwrap();
    (place.is_alive, place.is_counted) = (false, false);
    converge(&mut it, 2, &all);
    assert_eq!(nodes(&it), ["a"]);
}

#[test]
fn copies_follow_the_number_wanted_and_the_nodes_there_are() {
    let one = places(&["a"]);
    let three = places(&["a", "b", "c"]);
    for group in 0..20 {
        let mut it = partition(group, proposed(group, 2, &one));
        assert_eq!(nodes(&it), ["a"], "there is one node");
        converge(&mut it, 2, &three);
        let mut wanted = proposed(group, 2, &three);
        wanted.sort_unstable();
        assert_eq!(nodes(&it), wanted);
        converge(&mut it, 3, &three);
        assert_eq!(nodes(&it), ["a", "b", "c"]);
        converge(&mut it, 1, &three);
        assert_eq!(nodes(&it), proposed(group, 1, &three));
    }
}

#[test]
fn a_node_makes_few_copies_at_once() {
    let all = places(&["a", "b"]);
    let mut making = BTreeMap::new();
    let begun = (0..10).filter(|group| {
        let it = partition(*group, vec!["a".to_owned()]);
        next(&it, 2, &all, &all_serve, &mut making).is_some()
    });
    assert_eq!(begun.count(), INITIALIZING_MAX);
}

#[test]
fn a_node_that_is_not_wanted_keeps_its_copy_while_there_is_nobody_else_for_it() {
    let mut all = places(&["a", "b", "c"]);
    let mut it = partition(1, vec!["a".to_owned(), "b".to_owned()]);
    all.get_mut("a").unwrap().is_data = false;
    // The third is away for good: the second alone would be one copy of two.
    let third = all.get_mut("c").unwrap();
    (third.is_alive, third.is_counted) = (false, false);
    converge(&mut it, 2, &all);
    assert_eq!(nodes(&it), ["a", "b"]);
    // Also where its copy was being made when it left.
    it.copies.push(Copy { node: "c".to_owned(), state: CopyState::Initializing });
    converge(&mut it, 2, &all);
    assert_eq!(nodes(&it), ["a", "b"]);
    let third = all.get_mut("c").unwrap();
    (third.is_alive, third.is_counted) = (true, true);
    converge(&mut it, 2, &all);
    assert_eq!(nodes(&it), ["b", "c"]);
}

#[test]
fn a_node_that_only_coordinates_gives_its_copies_up_once_others_have_them() {
    let mut all = places(&["a", "b", "c"]);
    let mut partition = partition(1, vec!["a".to_owned()]);
    all.get_mut("a").unwrap().is_data = false;
    for group in 1..20 {
        assert!(!proposed(group, 3, &all).contains(&"a".to_owned()));
    }
    // The only copy stays and is copied from, and goes when another serves.
    let first = next(&partition, 1, &all, &all_serve, &mut BTreeMap::new()).unwrap();
    assert!(first.iter().any(|it| it.node == "a" && it.state == CopyState::Serving), "{first:?}");
    converge(&mut partition, 1, &all);
    assert!(!nodes(&partition).contains(&"a") && nodes(&partition).len() == 1);
    // With nobody else it stays for good.
    let alone = all.into_iter().filter(|(name, _)| name == "a").collect();
    let mut kept = self::partition(1, vec!["a".to_owned()]);
    converge(&mut kept, 1, &alone);
    assert_eq!(nodes(&kept), ["a"]);
}

#[test]
fn a_copy_counts_only_where_its_node_says_that_it_serves() {
    // A2: b's copy has not come back yet, a is away for long: a's is the only good one.
    let mut all = places(&["a", "b", "c"]);
    let away = all.get_mut("a").unwrap();
    (away.is_alive, away.is_counted) = (false, false);
    let it = partition(1, vec!["a".to_owned(), "b".to_owned()]);
    let silent = |_: &str| Known::Other;
    assert_eq!(next(&it, 2, &all, &silent, &mut BTreeMap::new()), None);
    // Once b serves, c makes a copy, and a is named until that serves as well.
    let b_serves = |node: &str| if node == "b" { Known::Serves } else { Known::Other };
    let found = next(&it, 2, &all, &b_serves, &mut BTreeMap::new()).unwrap();
    let named: Vec<&str> = found.iter().map(|copy| copy.node.as_str()).collect();
    assert_eq!(named, ["a", "b", "c"]);
    let mut it = it;
    it.copies = found;
    assert_eq!(next(&it, 2, &all, &b_serves, &mut BTreeMap::new()), None, "c is making it");
    it.copies[2].state = CopyState::Serving;
    assert_eq!(next(&it, 2, &all, &b_serves, &mut BTreeMap::new()), None, "c has not said so");
    converge(&mut it, 2, &all);
    assert_eq!(nodes(&it), ["b", "c"]);
}

#[test]
fn what_is_not_known_to_serve_lets_nobody_go() {
    // The copies are to move from a to b, and b's is not there any more.
    let mut all = places(&["a", "b"]);
    all.get_mut("a").unwrap().is_data = false;
    let it = partition(1, vec!["a".to_owned(), "b".to_owned()]);
    let a_serves = |node: &str| if node == "a" { Known::Serves } else { Known::Other };
    assert_eq!(next(&it, 1, &all, &a_serves, &mut BTreeMap::new()), None);
    let found = next(&it, 1, &all, &all_serve, &mut BTreeMap::new()).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
}

#[test]
fn a_copy_that_has_stopped_is_made_elsewhere_or_where_there_is_no_other_node_anew() {
    let stopped = |node: &str| if node == "a" { Known::Stopped } else { Known::Serves };
    let three = places(&["a", "b", "c"]);
    let mut it = partition(1, vec!["a".to_owned(), "b".to_owned()]);
    it.copies = next(&it, 2, &three, &stopped, &mut BTreeMap::new()).unwrap();
    assert_eq!(it.copies.len(), 3, "c makes one: {it:?}");
    it.copies[2].state = CopyState::Serving;
    it.copies = next(&it, 2, &three, &stopped, &mut BTreeMap::new()).unwrap();
    assert_eq!(nodes(&it), ["b", "c"]);
    let two = places(&["a", "b"]);
    let mut it = partition(1, vec!["a".to_owned(), "b".to_owned()]);
    it.copies = next(&it, 2, &two, &stopped, &mut BTreeMap::new()).unwrap();
    let state = |it: &PartitionDefinition, node: &str| it.copy_on(node).map(|copy| copy.state);
    assert_eq!(state(&it, "a"), Some(CopyState::Initializing));
    assert_eq!(state(&it, "b"), Some(CopyState::Serving));
    assert_eq!(next(&it, 2, &two, &stopped, &mut BTreeMap::new()), None, "once");
    // The only copy that there is stays as it is.
    let alone = partition(1, vec!["a".to_owned()]);
    assert_eq!(next(&alone, 1, &two, &stopped, &mut BTreeMap::new()), None);
}

#[test]
fn a_copy_is_given_up_while_it_is_made_anew_from_one_that_was_accepted() {
    let mut partition = partition(1, vec!["a".to_owned(), "b".to_owned()]);
    partition.copies[1].state = CopyState::Initializing;
    assert!(!partition.is_given_up("b"), "it is made, and no other was accepted");
    partition.accepted = Some((7, 0, 0));
    let given_up = ["a", "b", "c"].map(|node| partition.is_given_up(node));
    assert_eq!(given_up, [false, true, false]);
    partition.copies[1].state = CopyState::Serving;
    assert!(!partition.is_given_up("b"));
}
