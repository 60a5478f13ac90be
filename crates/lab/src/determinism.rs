//! The same seed twice gives the same log, event by event, under every rule. All other tests and
//! figures rest on it, so this module's name makes it the first test to run.

use plimsoll_control::selection::Rule;

use crate::sim::levels::{self, tests as of_levels};
use crate::sim::{self, SECOND_NS, tests::eventful};

#[test]
fn the_same_seed_gives_the_same_log() {
    for (name, rule) in Rule::NAMED {
        let spec = eventful(rule);
        let (one, two) = (sim::run(&spec, 42, true), sim::run(&spec, 42, true));
        assert!(one.log.len() > 5_000, "{name}: {}", one.log.len());
        assert_eq!(one.log, two.log, "{name}");
        assert_eq!((one.checksum, one.events), (two.checksum, two.events), "{name}");
        assert_ne!(sim::run(&spec, 43, false).checksum, one.checksum, "{name}");
    }
}

#[test]
fn the_same_seed_gives_the_same_store_of_levels() {
    for arm in of_levels::ARMS {
        let mut spec = of_levels::small(arm, 4_000.0);
        spec.window_ns = 5 * SECOND_NS;
        let (one, two) = (levels::run(&spec, 9), levels::run(&spec, 9));
        assert!(one.events > 10_000, "{arm:?}: {}", one.events);
        assert_eq!((one.checksum, one.events), (two.checksum, two.events), "{arm:?}");
        assert_eq!(one.course, two.course, "{arm:?}");
        assert_ne!(levels::run(&spec, 10).checksum, one.checksum, "{arm:?}");
    }
}
