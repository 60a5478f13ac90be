//! The same seed twice gives the same log, event by event, under every rule. All other tests and
//! figures rest on it, so this module's name makes it the first test to run.

use plimsoll_control::selection::Rule;

use crate::sim::{self, tests::eventful};

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
