//! Pictures of a scenario whose laps are of copying or following: the course of the first lap of each
//! variant, looked at once a second.

use super::pictures::seconds;
use super::svg::{Line, Scale, lines};
use crate::result::{CopyCourse, NodeCourse, Scenario};

const MB: f64 = 1e6;

/// The pictures; none where no lap was looked at.
pub(super) fn of(scenario: &Scenario) -> Vec<String> {
    let first = |variant: &'_ crate::result::Variant| {
        let valid = variant.laps.iter().filter(|lap| lap.valid);
        valid.chain(&variant.laps).find_map(|lap| lap.course.clone())
    };
    let variants = scenario.variants.iter();
    let courses: Vec<(&str, CopyCourse)> =
        variants.filter_map(|it| Some((it.name.as_str(), first(it)?))).collect();
    let Some((_, one)) = courses.first() else { return Vec::new() };
    let draw = |title: &str, unit: &str, of: &dyn Fn(&CopyCourse) -> Vec<(f64, f64)>| {
        let all = courses.iter().map(|(name, course)| (*name, of(course)));
        let all = all.filter(|(_, points)| !points.is_empty());
        let drawn: Vec<Line> =
            all.map(|(name, points)| Line { name: name.to_owned(), points }).collect();
        let ends = courses.iter().filter_map(|(_, course)| course.at_s.last());
        let end = ends.copied().fold(0.0, f64::max);
        let picture = || lines(title, &drawn, &seconds(end), Scale::Linear, unit);
        (!drawn.is_empty()).then(picture)
    };
    let mut all = vec![
        draw("What the link carried over the first lap", "MB a second", &|it| {
            rates(&it.at_s, &megabytes(&it.wire_bytes))
        }),
        draw("What was there", "MB of files", &|it| points(&it.at_s, &megabytes(&it.bytes))),
        draw("Under way on the link", "MB", &|it| {
            points(&it.at_s, &megabytes(&it.under_way_bytes))
        }),
    ];
    for (at, node) in one.nodes.iter().enumerate() {
        let of = |it: &CopyCourse, what: fn(&NodeCourse) -> Vec<f64>| {
            it.nodes.get(at).map(|node| rates(&it.at_s, &what(node))).unwrap_or_default()
        };
        all.push(draw(&format!("Processors of {}", node.name), "processors", &|it| {
            of(it, |node| node.cpu_s.clone())
        }));
        let title = format!("Network of {}, to the other and back", node.name);
        all.push(draw(&title, "MB a second", &|it| of(it, both_ways)));
    }
    all.into_iter().flatten().collect()
}

fn megabytes(bytes: &[u64]) -> Vec<f64> {
    bytes.iter().map(|bytes| *bytes as f64 / MB).collect()
}

fn both_ways(node: &NodeCourse) -> Vec<f64> {
    let pairs = node.sent_bytes.iter().zip(&node.received_bytes);
    pairs.map(|(sent, received)| (sent + received) as f64 / MB).collect()
}

fn points(at_s: &[f64], values: &[f64]) -> Vec<(f64, f64)> {
    at_s.iter().copied().zip(values.iter().copied()).collect()
}

/// What was added a second between looks, at the end of each. Those that are nearer than half a second
/// tell nothing: the last look comes when the lap ends.
fn rates(at_s: &[f64], values: &[f64]) -> Vec<(f64, f64)> {
    let all = points(at_s, values);
    let pairs = all.windows(2).filter_map(|pair| match pair {
        [before, now] if now.0 - before.0 > 0.5 => {
            Some((now.0, (now.1 - before.1) / (now.0 - before.0)))
        }
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::{FaultNote, Lap, LoadNote, Variant};

    #[test]
    fn rates_are_between_looks_that_are_far_enough_apart() {
        let found = rates(&[0.0, 1.0, 3.0, 3.2], &[0.0, 5.0, 9.0, 100.0]);
        assert_eq!(found, [(1.0, 5.0), (3.0, 2.0)]);
        assert!(rates(&[0.0], &[1.0]).is_empty());
    }

    #[test]
    fn each_quantity_and_node_has_a_picture_of_all_variants() {
        let node = |name: &str| NodeCourse {
            name: name.to_owned(),
            cpu_s: vec![0.0, 0.5],
            sent_bytes: vec![0, 1_000_000],
            received_bytes: vec![0, 10],
        };
        let course = CopyCourse {
            at_s: vec![0.0, 1.0],
            bytes: vec![0, 900_000],
            wire_bytes: vec![0, 1_000_010],
            under_way_bytes: vec![0, 70_000],
            nodes: vec![node("leader"), node("follower")],
        };
        let variant = |name: &str, course: Option<CopyCourse>| Variant {
            name: name.to_owned(),
            settings: std::collections::BTreeMap::new(),
            laps: vec![Lap { course, ..Lap::default() }],
            pooled: None,
        };
        let mut scenario = Scenario {
            name: "s".to_owned(),
            fault: FaultNote::default(),
            load: LoadNote::Clients(0),
            variants: vec![variant("one", Some(course.clone())), variant("other", Some(course))],
        };
        let pictures = of(&scenario);
        assert_eq!(pictures.len(), 3 + 2 * 2);
        assert!(pictures.iter().all(|it| it.matches("<polyline").count() == 2), "{pictures:?}");
        assert!(pictures[5].contains("Processors of follower"));
        scenario.variants = vec![variant("none", None)];
        assert!(of(&scenario).is_empty());
    }
}
