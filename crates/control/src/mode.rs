//! Whether a controller acts. Each can be off, on, or in the shadow: it decides and counts, and
//! nothing follows from it, so that it can be seen to be harmless before it is switched on.

/// How much say a controller has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It is not asked.
    Off,
    /// It decides and counts, and nothing follows.
    Shadow,
    /// What it decides happens.
    #[default]
    On,
}

impl Mode {
    /// The modes by name.
    pub const NAMED: [(&'static str, Self); 3] =
        [("off", Self::Off), ("shadow", Self::Shadow), ("on", Self::On)];

    /// The mode of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::NAMED.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}

/// A mode, and how often a controller wanted to interfere and did. For controllers whose decision
/// is a yes or no of the moment: a hedge, a retry, a victim. Selection and admission keep a state
/// that their own decisions change, and have a shadow of their own
/// ([`Selector::with_shadow`](crate::selection::Selector::with_shadow),
/// [`Admission::in_shadow`](crate::admission::Admission::in_shadow)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    mode: Mode,
    wanted: u64,
    acted: u64,
}

impl Switch {
    /// A switch in this mode.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self { mode, ..Self::default() }
    }

    /// The mode.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Changes the mode while running; the counts go on.
    pub fn set(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Asks `decide`, unless off, whether to interfere, and says whether to do so.
    pub fn asks(&mut self, decide: impl FnOnce() -> bool) -> bool {
        let wants = self.mode != Mode::Off && decide();
        let acts = wants && self.mode == Mode::On;
        self.wanted += u64::from(wants);
        self.acted += u64::from(acts);
        acts
    }

    /// How often it wanted to interfere.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// How often it did.
    #[must_use]
    pub fn acted(&self) -> u64 {
        self.acted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_counts_and_does_nothing() {
        let mut switch = Switch::new(Mode::Shadow);
        assert!(!switch.asks(|| true) && !switch.asks(|| false));
        assert_eq!((switch.wanted(), switch.acted()), (1, 0));
        switch.set(Mode::On);
        assert!(switch.asks(|| true));
        assert_eq!((switch.wanted(), switch.acted()), (2, 1));
        switch.set(Mode::Off);
        assert!(!switch.asks(|| unreachable!("not asked")));
    }

    #[test]
    fn modes_have_names() {
        assert_eq!(Mode::named("shadow"), Some(Mode::Shadow));
        assert_eq!(Mode::named("enforced"), None);
    }
}
