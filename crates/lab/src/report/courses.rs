//! Pictures of a scenario whose laps were looked at once a second, of copying or following or of a store
//! of rows: the course of the first lap of each variant.

use super::svg::seconds;
use super::svg::{Line, Scale, lines};
use crate::result::{CopyCourse, Lap, NodeCourse, RowsCourse, Scenario};

const MB: f64 = 1e6;

/// What each variant's first lap left, its invalid laps only where it has no other.
struct Courses<'s, C>(Vec<(&'s str, &'s C)>);

impl<'s, C> Courses<'s, C> {
    fn of(scenario: &'s Scenario, course: fn(&Lap) -> Option<&C>) -> Self {
        let variants = scenario.variants.iter();
        let found = variants.filter_map(|it| {
            let valid = it.laps.iter().filter(|lap| lap.valid);
            Some((it.name.as_str(), valid.chain(&it.laps).find_map(course)?))
        });
        Self(found.collect())
    }

    /// A line for each variant that has points.
    fn draw(
        &self,
        title: &str,
        unit: &str,
        scale: Scale,
        points: impl Fn(&C) -> Vec<(f64, f64)>,
    ) -> Option<String> {
        let all = self.0.iter().map(|(name, course)| (*name, points(course)));
        let all = all.filter(|(_, points)| !points.is_empty());
        let drawn: Vec<Line> =
            all.map(|(name, points)| Line { name: name.to_owned(), points }).collect();
        let ends = drawn.iter().filter_map(|line| line.points.last());
        let end = ends.map(|(at_s, _)| *at_s).fold(0.0, f64::max);
        (!drawn.is_empty()).then(|| lines(title, &drawn, &seconds(end), scale, unit))
    }
}

/// A store of rows; none where no lap was looked at.
pub(super) fn of_rows(scenario: &Scenario) -> Vec<String> {
    let courses: Courses<'_, RowsCourse> =
        Courses::of(scenario, |lap| lap.rows.as_ref().map(|it| &it.course));
    let linear = |title: &str, unit: &str, of: fn(&RowsCourse) -> Vec<f64>| {
        courses.draw(title, unit, Scale::Linear, |it| points(&it.at_s, &of(it)))
    };
    let all = [
        linear("Written to the disk over the first lap", "MB a second", |it| {
            // A disk that is not held is not looked at.
            let is_seen = it.written_bytes.iter().any(|bytes| *bytes > 0);
            if is_seen { megabytes(&it.written_bytes) } else { Vec::new() }
        }),
        courses.draw("Response time over the first lap", "ms, 99th percentile", Scale::Log, |it| {
            let answered = |point: &(f64, f64)| point.1 > 0.0;
            points(&it.at_s, &it.p99_ms).into_iter().filter(answered).collect()
        }),
        linear("Debt over the first lap", "of what the store can take", |it| it.debt.clone()),
        linear("Files of rows over the first lap", "MB", |it| megabytes(&it.space_bytes)),
    ];
    all.into_iter().flatten().collect()
}

/// Copying and following; none where no lap was looked at.
pub(super) fn of_copies(scenario: &Scenario) -> Vec<String> {
    let courses: Courses<'_, CopyCourse> = Courses::of(scenario, |lap| lap.course.as_ref());
    let Some((_, one)) = courses.0.first() else { return Vec::new() };
    let draw = |title: &str, unit: &str, of: &dyn Fn(&CopyCourse) -> Vec<(f64, f64)>| {
        courses.draw(title, unit, Scale::Linear, of)
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
    use crate::result::{FaultNote, LoadNote, RowsLap, Variant};

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
        let pictures = of_copies(&scenario);
        assert_eq!(pictures.len(), 3 + 2 * 2);
        assert!(pictures.iter().all(|it| it.matches("<polyline").count() == 2), "{pictures:?}");
        assert!(pictures[5].contains("Processors of follower"));
        scenario.variants = vec![variant("none", None)];
        assert!(of_copies(&scenario).is_empty());
    }

    #[test]
    fn a_store_of_rows_has_what_was_looked_at() {
        let lap = |written_bytes: Vec<u64>| {
            let course = RowsCourse {
                at_s: vec![1.0, 2.0, 3.0],
                written_bytes,
                // Nobody was answered in the second.
                p99_ms: vec![2.0, 0.0, 3.0],
                debt: vec![0.1, 0.2, 0.1],
                space_bytes: vec![1_000_000, 3_000_000, 2_000_000],
            };
            Lap { rows: Some(RowsLap { course, ..RowsLap::default() }), ..Lap::default() }
        };
        let scenario = |laps: Vec<Lap>| Scenario {
            name: "s".to_owned(),
            fault: FaultNote::default(),
            load: LoadNote::Clients(0),
            variants: vec![Variant {
                name: "one".to_owned(),
                settings: std::collections::BTreeMap::new(),
                laps,
                pooled: None,
            }],
        };
        let pictures = of_rows(&scenario(vec![lap(vec![5, 6, 7])]));
        assert_eq!(pictures.len(), 4);
        let unheld = of_rows(&scenario(vec![lap(vec![0, 0, 0])]));
        assert_eq!(unheld.len(), 3, "{unheld:?}");
        assert!(of_rows(&scenario(vec![Lap::default()])).is_empty());
    }
}
