//! `replica-selection`, live: the study's scenarios on this machine. The fault is fitted first, so
//! that rotation keeps the published share of its unloaded throughput, and the number of clients,
//! so that they wait for one another as the study's did. Then all rules meet it in turns. The other
//! controllers stand still: the queue is fixed at 1,000 as in the study, and hedging is off but in
//! the arm that has it in its name.

mod arms;
mod verdict;

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use arms::names;
use arms::{AGAIN, arms, is_of_articles};

use super::cluster::Cluster;
use super::context::{Arm, Ask, Context, comparisons, variants};
use super::corpus::{Corpus, Shape};
use super::fault::{Active, FaultKind};
use super::fit::{Search, crowd};
use super::generator::Generator;
use super::load::Pace;
use super::measure;
use super::study::{self, COORDINATOR_SHARE, DATA_NODES, DATA_SHARE, GENERATOR_SHARE, PLACES};
use super::workload::{self, Operation};
use super::{Found, LiveSize};
use crate::LabError;
use crate::experiments::replica_selection::published;
use crate::result::{FaultNote, Finding, LoadNote, Scenario};

/// The stressed node, as in the study: the third.
const SICK: usize = 2;
const TERMS: usize = 500;
const ARTICLES: usize = 3_000;
/// Shares of unloaded throughput that rotation kept, by the study.
const KEPT: [(&str, f64); 2] = [("one-replica-loaded", 0.43), ("four-replicas-loaded", 0.60)];
const KEPT_TOLERANCE: f64 = 0.03;
/// Tries of a fit.
const TRIES_MAX: usize = 8;
/// How much longer the study's clients waited in the crowd than one alone would.
const CROWD_RATIO: f64 = 2.4;
const CROWDS: [usize; 7] = [8, 12, 16, 24, 32, 48, 64];
/// Scenarios of the articles, and their operations.
const ARTICLE_SCENARIOS: [(&str, &str); 5] = [
    ("pmc", "default"),
    ("pmc-term", "term"),
    ("pmc-phrase", "phrase"),
    ("pmc-articles-monthly-agg-uncached", "articles-monthly-agg-uncached"),
    ("pmc-articles-monthly-agg-cached", "articles-monthly-agg-cached"),
];

/// Laps that a run makes, about.
pub(crate) fn steps(laps: usize, size: LiveSize, wanted: &[String]) -> usize {
    let arms = arms(size, wanted);
    let of_articles =
        arms.iter().filter(|arm| is_of_articles(arm)).count() * ARTICLE_SCENARIOS.len();
    let (complex, articles) = if size == LiveSize::Full { (5, of_articles) } else { (3, 0) };
    laps * (arms.len() * complex + articles + 1)
}

/// A run in progress.
struct Run<'a, 'b> {
    context: &'a mut Context<'b>,
    cluster: Cluster,
    arms: Vec<Arm>,
    found: Found,
    clients: usize,
    tables: BTreeMap<&'static str, Table>,
}

/// An index that was loaded: its name, copies by node, segments.
#[derive(Clone, Debug, Default)]
struct Table {
    name: String,
    held: BTreeMap<String, usize>,
    segments: Option<u64>,
}

/// Runs the experiment; what there is when it is stopped.
pub(crate) fn run(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let cluster = study::start(context)?;
    let arms = arms(context.options.size, &context.options.variants);
    let mut run = Run {
        context,
        cluster,
        arms,
        found: std::mem::take(found),
        clients: 1,
        tables: BTreeMap::new(),
    };
    let ended = run.all();
    *found = run.found;
    ended
}

impl Run<'_, '_> {
    fn all(&mut self) -> Result<(), LabError> {
        self.settle_arms()?;
        let about = format!(
            "processor shares by {}: data nodes {DATA_SHARE}, coordinator {COORDINATOR_SHARE}, \
             generator {GENERATOR_SHARE}",
            self.cluster.limits.about()
        );
        self.context.note(about);
        let full = self.context.options.size == LiveSize::Full;
        let places =
            Corpus { shape: Shape::Places, count: PLACES, seed: self.context.options.seed };
        self.load("complex-1", &places, 1)?;
        self.load("complex-4", &places, 4)?;
        if full {
            let articles = Corpus { shape: Shape::Pmc, count: ARTICLES, ..places };
            self.load("pmc-1", &articles, 1)?;
        }
        self.cluster.limit()?;
        let limits = (&self.cluster.limits, &self.cluster.guardian);
        let generator = Generator::enter(limits.0, limits.1, GENERATOR_SHARE);
        let _generator =
            generator.map_err(|error| LabError::live("limit the generator".to_owned(), error))?;
        self.fit_clients(&places)?;
        let of_one = self.scenario("one-replica", "complex-1", &places, FaultNote::default())?;
        let of_four = match full {
            true => self.scenario("four-replicas", "complex-4", &places, FaultNote::default())?,
            false => self.unloaded("complex-4", &places)?,
        };
        self.loaded("one-replica-loaded", "complex-1", &places, of_one)?;
        self.loaded("four-replicas-loaded", "complex-4", &places, of_four)?;
        if full {
            self.scenario("round-robin", "complex-1", &places, FaultNote::default())?;
            self.articles(&places)?;
        }
        Ok(())
    }

    /// Arms whose settings this cluster does not take are left out, and the report says so.
    fn settle_arms(&mut self) -> Result<(), LabError> {
        let mut missing = Vec::new();
        for (key, value) in self.arms.iter().flat_map(|arm| &arm.settings) {
            let known: &(String, Value) = &(key.clone(), value.clone());
            if !missing.contains(known) && !self.cluster.takes(key, value) {
                missing.push(known.clone());
            }
        }
        for (key, value) in &missing {
            self.context.note(format!("the nodes do not take {key}: {value}; it is left out"));
        }
        let is_there = |arm: &Arm| {
            let rule = arm.settings.get("cluster.routing.replica_selection").cloned();
            let rule = rule.unwrap_or_default();
            let hedging = arm.settings.get("cluster.routing.hedging").cloned().unwrap_or_default();
            let lacks =
                |key: &str, value: &Value| missing.iter().any(|(k, v)| k == key && v == value);
            // Rotation needs no rule by name, and hedging off is there where hedging is not.
            let has_rule = arm.name == "off" || !lacks("cluster.routing.replica_selection", &rule);
            has_rule && (hedging == "off" || !lacks("cluster.routing.hedging", &hedging))
        };
        self.arms.retain(is_there);
        for arm in &mut self.arms {
            arm.settings.retain(|key, value| !missing.iter().any(|(k, v)| k == key && v == value));
        }
        match self.arms.is_empty() {
            true => Err(LabError::live("find arms".to_owned(), "the nodes take no setting of any")),
            false => Ok(()),
        }
    }

    fn load(
        &mut self,
        index: &'static str,
        corpus: &Corpus,
        replicas: usize,
    ) -> Result<(), LabError> {
        if self.context.is_stopped() {
            return Err(LabError::Stopped);
        }
        let count = corpus.count;
        self.context.progress.note(&format!("loading {count} documents into {index}"));
        let (name, held) = self.cluster.load_evenly(index, corpus, DATA_NODES, replicas)?;
        let segments = super::segments(&self.cluster.coordinator().http(), &name);
        let told: Vec<String> = held.iter().map(|(node, n)| format!("{node} {n}")).collect();
        self.context.note(format!("copies of {index}: {}", told.join(", ")));
        self.tables.insert(index, Table { name, held, segments });
        Ok(())
    }

    fn ask(&self, operation: Operation, index: &str, corpus: &Corpus, clients: usize) -> Ask {
        let host = self.cluster.coordinator().http();
        let seed = self.context.options.seed;
        let name = self.tables.get(index).map_or(index, |table| table.name.as_str());
        let requests = workload::requests(operation, corpus, name, &host, seed);
        let (warm_up, window) = (self.context.options.warm_up, self.context.options.window);
        Ask { addresses: vec![host], requests, pace: Pace::Closed { clients }, warm_up, window }
    }

    fn complex(&self, index: &str, corpus: &Corpus, clients: usize) -> Ask {
        self.ask(Operation::Complex { terms: TERMS }, index, corpus, clients)
    }

    fn rotate(&self) -> Result<(), LabError> {
        self.cluster.set(&self.arms[0].settings)
    }

    /// The number of clients at which they wait for one another as in the study.
    fn fit_clients(&mut self, places: &Corpus) -> Result<(), LabError> {
        self.rotate()?;
        let median = |run: &mut Self, clients: usize| -> Result<f64, LabError> {
            let ask = run.complex("complex-1", places, clients);
            let lap = run.context.try_lap(&mut run.cluster, &ask)?;
            let found = lap.latency_us.value_at_quantile(0.5) as f64 / 1e3;
            run.context.progress.note(&format!("clients: {clients}, p50 {found:.0} ms"));
            Ok(found)
        };
        let alone_ms = median(self, 1)?;
        let mut tried = Vec::new();
        for clients in CROWDS {
            tried.push((clients, median(self, clients)?));
            if crowd(&tried, alone_ms, CROWD_RATIO).is_some() {
                break;
            }
        }
        let (last, last_ms) = tried.last().copied().unwrap_or((1, alone_ms));
        self.clients = crowd(&tried, alone_ms, CROWD_RATIO).unwrap_or(last);
        let ratio = last_ms / alone_ms;
        self.found.plots.findings.push(Finding::compare(
            format!(
                "fit: p50 under {} clients over p50 under one ({alone_ms:.1} ms)",
                self.clients
            ),
            format!("at least {CROWD_RATIO} (the study's crowd)"),
            Some(format!("{ratio:.2}")),
            Some(ratio >= CROWD_RATIO),
        ));
        Ok(())
    }

    /// Throughput by rotation without load.
    fn unloaded(&mut self, index: &'static str, corpus: &Corpus) -> Result<f64, LabError> {
        self.rotate()?;
        let ask = self.complex(index, corpus, self.clients);
        let lap = self.context.try_lap(&mut self.cluster, &ask)?;
        Ok(lap.lap.throughput_ops_s.mean)
    }

    /// One scenario of the complex query; rotation's throughput in it.
    fn scenario(
        &mut self,
        name: &'static str,
        index: &'static str,
        corpus: &Corpus,
        fault: FaultNote,
    ) -> Result<f64, LabError> {
        let mut ask = self.complex(index, corpus, self.clients);
        if name == "round-robin" {
            let serving = self.cluster.nodes.iter().take(DATA_NODES + 1);
            ask.addresses = serving.map(super::node::Node::http).collect();
        }
        self.laps(name, index, &ask, fault)
    }

    fn laps(
        &mut self,
        name: &str,
        index: &str,
        ask: &Ask,
        fault: FaultNote,
    ) -> Result<f64, LabError> {
        let mut arms = self.arms.clone();
        if let (Some(first), true) = (self.arms.first(), name == "one-replica") {
            arms.push(Arm { name: AGAIN.to_owned(), ..first.clone() });
        }
        let laps = self.context.paired(&mut self.cluster, name, &arms, ask, None)?;
        let segments = self.tables.get(index).and_then(|table| table.segments);
        let kind = if fault.kind.is_empty() { "none".to_owned() } else { fault.kind.clone() };
        self.found.results.scenarios.push(Scenario {
            name: name.to_owned(),
            fault: FaultNote { kind, fit: fault.fit },
            load: LoadNote::Clients(ask.pace.clients()),
            variants: variants(&arms, &laps, segments),
        });
        let seed = self.context.options.seed;
        let compared = comparisons(name, &arms, &laps, seed, published);
        self.found.plots.findings.extend(verdict::same_again(&compared));
        self.found.results.comparisons.extend(compared);
        let series = arms.iter().zip(&laps).filter_map(|(a, l)| measure::series(name, &a.name, l));
        self.found.plots.series.extend(series);
        if self.context.is_stopped() {
            return Err(LabError::Stopped);
        }
        Ok(verdict::rate(&laps[0]))
    }

    /// A loaded scenario: fitted first.
    fn loaded(
        &mut self,
        name: &'static str,
        index: &'static str,
        corpus: &Corpus,
        unloaded: f64,
    ) -> Result<(), LabError> {
        let target = KEPT.iter().find(|(known, _)| *known == name).map_or(0.5, |(_, kept)| *kept);
        self.rotate()?;
        let start = FaultKind::Stress { keep: target };
        let sick = self.sick(index);
        let mut active = Active::begin(&mut self.cluster, sick, start)?;
        let ask = self.complex(index, corpus, self.clients);
        let mut search = Search::new((0.01, 0.98), target, KEPT_TOLERANCE);
        let mut tries = 0;
        while tries < TRIES_MAX && !search.is_found() {
            let keep = search.next(target);
            self.change(&mut active, keep)?;
            let lap = self.context.try_lap(&mut self.cluster, &ask)?;
            let kept = lap.lap.throughput_ops_s.mean / unloaded.max(1e-9);
            search.note(keep, kept);
            tries += 1;
            let text =
                format!("fitting {name}: the node keeps {keep:.3}, rotation keeps {kept:.3}");
            self.context.progress.note(&text);
        }
        let (keep, kept) = search.best().unwrap_or((target, 0.0));
        self.change(&mut active, keep)?;
        let kind = active.kind();
        self.context.note(format!("{name}: {}", active.about()));
        let fit = [
            ("stressed_node_keeps", keep),
            ("rotation_keeps", kept),
            ("rotation_unloaded_ops_s", unloaded),
            ("tries", f64::from(u32::try_from(tries).unwrap_or(0))),
        ];
        let fit = fit.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let note = FaultNote { kind: kind.name().to_owned(), fit };
        self.found.plots.findings.push(Finding::compare(
            format!("fit of {name}: share of its unloaded throughput that rotation keeps"),
            format!("{target:.2} ± {KEPT_TOLERANCE:.2} (the study)"),
            Some(format!("{kept:.3}")),
            Some(search.is_found()),
        ));
        let ended = self.laps(name, index, &ask, note);
        active.end(&mut self.cluster)?;
        let findings = verdict::kept(&self.found.results, &self.arms, name, unloaded);
        self.found.plots.findings.extend(findings);
        ended.map(|_| ())
    }

    /// The node that is stressed: the third, or another that has as many copies as most would where
    /// the third has more or fewer.
    fn sick(&mut self, index: &str) -> usize {
        let held = self.tables.get(index).map(|table| table.held.clone()).unwrap_or_default();
        let even = held.values().sum::<usize>() / DATA_NODES;
        let has_its_part = |at: &usize| {
            let name = &self.cluster.nodes[*at].spec.name;
            held.get(name).copied().unwrap_or(0) == even
        };
        let order = std::iter::once(SICK).chain((0..DATA_NODES).rev());
        let sick = order.into_iter().find(has_its_part).unwrap_or(SICK);
        let name = self.cluster.nodes[sick].spec.name.clone();
        self.context.note(format!("the stressed node of {index} is {name}"));
        sick
    }

    fn change(&self, active: &mut Active, keep: f64) -> Result<(), LabError> {
        active.change(&self.cluster, FaultKind::Stress { keep })
    }

    /// The five operations of the articles, one replica, no load.
    fn articles(&mut self, places: &Corpus) -> Result<(), LabError> {
        let articles = Corpus { shape: Shape::Pmc, count: ARTICLES, ..*places };
        self.arms.retain(is_of_articles);
        for (scenario, operation) in ARTICLE_SCENARIOS {
            let ask = self.ask(Operation::Named(operation), "pmc-1", &articles, self.clients);
            self.laps(scenario, "pmc-1", &ask, FaultNote::default())?;
        }
        Ok(())
    }
}
