//! The arms of a scenario: how the memory of its queries is counted.

pub(super) const ON: &str = "on";

pub(super) const NOOP: &str = "noop";

pub(super) const WITHOUT: &str = "layerless";
