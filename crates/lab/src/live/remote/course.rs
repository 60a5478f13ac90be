//! What goes on while a lap of copying or following is made, looked at once a second: how much is
//! there, what the link carries and has under way, and what both nodes use.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::pair::Pair;
use crate::live::processes;
use crate::result::{CopyCourse, NodeCourse};

/// The looks are so far apart.
const LOOK: Duration = Duration::from_secs(1);
/// How soon it is seen that the work is over.
const POLL: Duration = Duration::from_millis(50);

/// Does the work, which says how many bytes are there, and looks meanwhile.
pub(crate) fn beside<T>(pair: &Pair, work: impl FnOnce(&AtomicU64) -> T) -> (T, CopyCourse) {
    let (bytes, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let (there, over) = (&bytes, &is_over);
        let watching = scope.spawn(move || watch(pair, there, over));
        let done = work(&bytes);
        is_over.store(true, Ordering::Relaxed);
        (done, watching.join().unwrap_or_default())
    })
}

fn watch(pair: &Pair, bytes: &AtomicU64, is_over: &AtomicBool) -> CopyCourse {
    let (began, start) = (Instant::now(), Look::take(pair));
    let mut course = CopyCourse::default();
    for node in &pair.cluster.nodes {
        let name = node.spec.name.clone();
        course.nodes.push(NodeCourse { name, ..NodeCourse::default() });
    }
    let mut due = Duration::ZERO;
    loop {
        let is_last = is_over.load(Ordering::Relaxed);
        let at = began.elapsed();
        if is_last || at >= due {
            let look = Look::take(pair);
            look.add(&start, at.as_secs_f64(), bytes.load(Ordering::Relaxed), &mut course);
            due += LOOK;
        }
        if is_last {
            return course;
        }
        thread::sleep(POLL);
    }
}

/// Counters at one moment.
#[derive(Clone, Debug)]
struct Look {
    /// To the leader, and back.
    carried: [u64; 2],
    under_way: [u64; 2],
    cpu_s: Vec<f64>,
}

impl Look {
    fn take(pair: &Pair) -> Self {
        let cpu_s = pair.cluster.nodes.iter();
        Self {
            // In this order, else what arrives between the two would be in neither.
            under_way: pair.wan.under_way_bytes(),
            carried: pair.wan.carried_bytes(),
            cpu_s: cpu_s.map(|node| processes::cpu_s(node.process()).unwrap_or(0.0)).collect(),
        }
    }

    /// Adds what there is since the start.
    fn add(&self, start: &Self, at_s: f64, bytes: u64, course: &mut CopyCourse) {
        let carried = [0, 1].map(|way: usize| self.carried[way] - start.carried[way]);
        let entered = [0, 1].map(|way: usize| {
            (carried[way] + self.under_way[way]).saturating_sub(start.under_way[way])
        });
        course.at_s.push(at_s);
        course.bytes.push(bytes);
        course.wire_bytes.push(carried.iter().sum());
        course.under_way_bytes.push(self.under_way[1]);
        // The leader sends what goes back.
        let ends = [(entered[1], carried[0]), (entered[0], carried[1])];
        for (at, (node, (sent, received))) in course.nodes.iter_mut().zip(ends).enumerate() {
            let cpu_s = |look: &Self| look.cpu_s.get(at).copied().unwrap_or(0.0);
            node.cpu_s.push((cpu_s(self) - cpu_s(start)).max(0.0));
            node.sent_bytes.push(sent);
            node.received_bytes.push(received);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_counts_from_the_start_and_both_ends_of_the_link() {
        let look = |carried, under_way, cpu_s: [f64; 2]| Look {
            carried,
            under_way,
            cpu_s: cpu_s.to_vec(),
        };
        let start = look([100, 1_000], [0, 50], [1.0, 2.0]);
        let now = look([130, 4_000], [5, 700], [1.5, 2.25]);
        let mut course =
            CopyCourse { nodes: vec![NodeCourse::default(); 2], ..CopyCourse::default() };
        now.add(&start, 1.0, 2_500, &mut course);
        assert_eq!((&course.bytes, &course.wire_bytes), (&vec![2_500], &vec![3_030]));
        assert_eq!(course.under_way_bytes, [700]);
        let [leader, follower] = course.nodes.as_slice() else { panic!("{course:?}") };
        // What was under way at the start is not sent, and arrives.
        assert_eq!((leader.sent_bytes[0], leader.received_bytes[0]), (3_650, 30));
        assert_eq!((follower.sent_bytes[0], follower.received_bytes[0]), (35, 3_000));
        assert_eq!((leader.cpu_s[0], follower.cpu_s[0]), (0.5, 0.25));
    }
}
