//! The settings that steer the controllers of a node: which rule chooses copies, whether late
//! requests are asked twice, who may wait for a search thread. Each has a name, and can be changed
//! while the node runs; what is not set is as the node was started. What they do is not known here.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use plimsoll_control::admission::{AdmissionRule, LittlesLawForm, LittlesLawSettings};
use plimsoll_control::selection::Rule;
use plimsoll_control::{Mode, rule_of_today};
use plimsoll_stdx::units;

use crate::settings::error::SettingError;

/// The names of all of them.
pub const WORK_SETTINGS: [&str; 12] = [
    "cluster.routing.hedging",
    "cluster.routing.replica_selection",
    "cluster.routing.replica_selection_shadow",
    "cluster.routing.use_adaptive_replica_selection",
    "thread_pool.search.admission",
    "thread_pool.search.admission_shadow",
    "thread_pool.search.auto_queue_frame_size",
    "thread_pool.search.max_queue_size",
    "thread_pool.search.min_queue_size",
    "thread_pool.search.queue_size",
    "thread_pool.search.size",
    "thread_pool.search.target_response_time",
];

/// Takes on what the cluster has set, by name, as text; called again after every change.
pub type SettingsFollower = Box<dyn Fn(&BTreeMap<String, String>) + Send + Sync>;

/// What times may be.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(3600);
/// The most threads of a pool.
const THREADS_MAX: usize = 1024;
/// The most requests that a rule by number lets wait.
const QUEUE_MAX: u64 = 1_000_000;

/// How copies are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectionSettings {
    /// Whether load is looked at; rotation otherwise. Default true.
    pub is_adaptive: bool,
    /// The rule where it is. Default `load_aware`.
    pub rule: Rule,
    /// A rule that is asked as well, counted and not followed. Default none.
    pub shadow: Option<Rule>,
    /// Whether a second copy is asked where the first is late. Default off.
    pub hedging: Mode,
}

impl Default for SelectionSettings {
    fn default() -> Self {
        Self { is_adaptive: true, rule: Rule::LoadAware, shadow: None, hedging: Mode::Off }
    }
}

impl SelectionSettings {
    /// The rule that is followed.
    #[must_use]
    pub fn followed(&self) -> Rule {
        if self.is_adaptive { self.rule } else { Rule::RoundRobin }
    }
}

/// Who may wait for a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdmissionKind {
    /// By time, deadline and cost; nothing to set.
    #[default]
    LoadAware,
    /// First come, first served, up to `queue_size`.
    Fixed,
    /// First come, first served, up to what Little's law says.
    LittlesLaw,
}

impl AdmissionKind {
    const NAMED: [(&'static str, Self); 3] = [
        ("load_aware", Self::LoadAware),
        ("fixed", Self::Fixed),
        ("littles_law", Self::LittlesLaw),
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::NAMED.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// A pool of threads and the queue before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// 1 to 1,024; 0 takes three for every two processors, and one more, as Elasticsearch does.
    /// Default 0.
    pub threads: usize,
    /// Who may wait. Default `load_aware`.
    pub admission: AdmissionKind,
    /// A rule that is shown the same requests, counted and not followed. Default none.
    pub shadow: Option<AdmissionKind>,
    /// Requests that may wait under `fixed`, and at first under `littles_law`. Default 1,000.
    pub queue_size: u64,
    /// Under `littles_law`, the least that may wait. Default 10.
    pub queue_size_min: u64,
    /// Under `littles_law`, the most that may wait. Default 1,000.
    pub queue_size_max: u64,
    /// Under `littles_law`, requests between two adjustments, at least 1. Default 2,000.
    pub frame_size: u64,
    /// Under `littles_law`, the response time that is aimed at. Default 1 s.
    pub target_response_time: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        Self {
            threads: 0,
            admission: AdmissionKind::LoadAware,
            shadow: None,
            queue_size: 1_000,
            queue_size_min: 10,
            queue_size_max: 1_000,
            frame_size: 2_000,
            target_response_time: Duration::from_secs(1),
        }
    }
}

impl PoolSettings {
    /// How many threads there are to be.
    #[must_use]
    pub fn thread_count(&self) -> usize {
        match self.threads {
            0 => {
                let processors = std::thread::available_parallelism();
                processors.map_or(1, std::num::NonZero::get) * 3 / 2 + 1
            }
            threads => threads.min(THREADS_MAX),
        }
    }

    pub(crate) fn rule_of(&self, kind: AdmissionKind) -> AdmissionRule {
        match kind {
            AdmissionKind::LoadAware => AdmissionRule::LoadAware,
            AdmissionKind::Fixed => AdmissionRule::Fixed {
                capacity: usize::try_from(self.queue_size).unwrap_or(usize::MAX),
            },
            AdmissionKind::LittlesLaw => AdmissionRule::LittlesLaw {
                settings: LittlesLawSettings {
                    min_queue_size: self.queue_size_min,
                    max_queue_size: self.queue_size_max.max(self.queue_size_min),
                    initial_queue_size: self.queue_size,
                    target_response_rate_ns: u64::try_from(self.target_response_time.as_nanos())
                        .unwrap_or(u64::MAX),
                    frame_window: self.frame_size.max(1),
                    ..LittlesLawSettings::default()
                },
                form: LittlesLawForm::Target,
            },
        }
    }
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkSettings {
    /// How copies are chosen.
    pub selection: SelectionSettings,
    /// The threads that searches run on.
    pub search: PoolSettings,
}

impl WorkSettings {
    /// Sets one of [`WORK_SETTINGS`] from text.
    ///
    /// # Errors
    /// Where the setting does not take it; nothing is changed then.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), SettingError> {
        let Self { selection, search } = self;
        match name {
            "cluster.routing.hedging" => selection.hedging = named(&Mode::NAMED, text)?,
            "cluster.routing.replica_selection" => selection.rule = named(&Rule::NAMED, text)?,
            "cluster.routing.replica_selection_shadow" => {
                selection.shadow = optional(&Rule::NAMED, text)?;
            }
            "cluster.routing.use_adaptive_replica_selection" => {
                selection.is_adaptive = named(&[("true", true), ("false", false)], text)?;
            }
            "thread_pool.search.admission" => {
                search.admission = named(&AdmissionKind::NAMED, text)?;
            }
            "thread_pool.search.admission_shadow" => {
                search.shadow = optional(&AdmissionKind::NAMED, text)?;
            }
            "thread_pool.search.auto_queue_frame_size" => {
                search.frame_size = count(text, 1, QUEUE_MAX)?;
            }
            "thread_pool.search.max_queue_size" => {
                search.queue_size_max = count(text, 1, QUEUE_MAX)?;
            }
            "thread_pool.search.min_queue_size" => {
                search.queue_size_min = count(text, 1, QUEUE_MAX)?;
            }
            "thread_pool.search.queue_size" => search.queue_size = count(text, 1, QUEUE_MAX)?,
            "thread_pool.search.size" => {
                let threads = count(text, 0, THREADS_MAX as u64)?;
                search.threads = usize::try_from(threads).unwrap_or(THREADS_MAX);
            }
            "thread_pool.search.target_response_time" => {
                search.target_response_time = time(text)?;
            }
            _ => return Err(SettingError::NotOfTheControllers(name.to_owned())),
        }
        Ok(())
    }
}

fn named<T: Copy>(known: &[(&'static str, T)], text: &str) -> Result<T, SettingError> {
    let word = rule_of_today(text);
    let found = known.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
    found.ok_or_else(|| SettingError::none_of(text, known.iter().map(|(name, _)| *name)))
}

/// Nothing where the text is empty.
fn optional<T: Copy>(known: &[(&'static str, T)], text: &str) -> Result<Option<T>, SettingError> {
    if text.is_empty() { Ok(None) } else { named(known, text).map(Some) }
}

fn count(text: &str, least: u64, most: u64) -> Result<u64, SettingError> {
    let number: u64 = text.parse().map_err(|_| SettingError::not(text, "a whole number"))?;
    if (least..=most).contains(&number) {
        return Ok(number);
    }
    Err(SettingError::not(text, format!("between {least} and {most}")))
}

/// A time with its unit, from 1 ms to 1 h.
fn time(text: &str) -> Result<Duration, SettingError> {
    let time = units::duration(text).ok().filter(|time| TIMES.contains(time));
    time.ok_or_else(|| SettingError::not(text, "a time from 1ms to 1h such as 500ms or 5s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_taken_and_nonsense_is_refused() {
        let good = [
            "shadow",
            "c3",
            "prequal",
            "false",
            "littles_law",
            "fixed",
            "500",
            "2000",
            "20",
            "100",
            "3",
            "4s",
        ];
        let mut settings = WorkSettings::default();
        for (name, text) in WORK_SETTINGS.iter().zip(good) {
            settings.set(name, text).unwrap();
            let before = settings.clone();
            assert!(settings.set(name, "nonsense").is_err(), "{name}");
            assert_eq!(settings, before, "{name}");
        }
        assert_eq!(settings.selection.followed(), Rule::RoundRobin);
        assert_eq!(settings.selection.shadow, Some(Rule::Prequal));
        assert_eq!(settings.search.target_response_time, Duration::from_secs(4));
        assert!(settings.set("thread_pool.write.size", "1").is_err());
    }

    #[test]
    fn the_names_of_rules_are_those_of_the_controllers() {
        let mut settings = WorkSettings::default();
        for (name, rule) in Rule::NAMED {
            settings.set("cluster.routing.replica_selection", name).unwrap();
            assert_eq!(settings.selection.followed(), rule);
        }
        settings.set("cluster.routing.replica_selection_shadow", "").unwrap();
        assert_eq!(settings.selection.shadow, None);
        for name in ["cluster.routing.replica_selection", "thread_pool.search.admission"] {
            settings.set(name, "ours").unwrap();
        }
        assert_eq!(settings.selection.followed(), Rule::LoadAware, "its word before");
        assert_eq!(settings.search.admission.name(), "load_aware");
    }

    #[test]
    fn times_have_units_and_bounds() {
        for (text, ms) in [("1ms", 1), ("5s", 5_000), ("2m", 120_000), ("1h", 3_600_000)] {
            assert_eq!(time(text), Ok(Duration::from_millis(ms)));
        }
        for text in ["", "5", "s", "0ms", "2h", "5 parsecs", "-1s", "99999999999999999999s"] {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
