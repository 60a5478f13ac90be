//! `replica-selection`, live: the study's scenarios on this machine. The fault is fitted first, so
//! that rotation keeps the published share of its unloaded throughput, and the number of clients,
//! so that they wait for one another as the study's did. Then all rules meet it in turns. The other
//! controllers stand still: the queue is fixed at 1,000 as in the study, and hedging is off but in
//! the arm that has it in its name.

mod arms;
mod open;
mod plan;
mod stress;
mod verdict;

use std::collections::BTreeMap;

use serde_json::Value;

use arms::arms;
pub(crate) use arms::names;
pub(crate) use plan::scenarios;
use plan::{ARTICLE_SCENARIOS, FOUR, FOUR_LOADED, ONE, ONE_LOADED, PMC, Plan, ROUND_ROBIN};

use super::cluster::Cluster;
use super::context::{Arm, Ask, Context, comparisons, variants};
use super::corpus::{Corpus, Shape};
use super::fit::crowd;
use super::found::Found;
use super::generator::Generator;
use super::load::Pace;
use super::measure::{self, Measured};
use super::options::LiveOptions;
use super::study::{self, COORDINATOR_SHARE, DATA_NODES, DATA_SHARE, GENERATOR_SHARE, PLACES};
use super::workload::{self, Operation};
use crate::LabError;
use crate::experiments::replica_selection::published;
use crate::result::{FaultNote, Finding, LoadNote, Mode, Scenario};

const TERMS: usize = 500;
const ARTICLES: usize = 3_000;
/// How much longer the study's clients waited in the crowd than one alone would.
const CROWD_RATIO: f64 = 2.4;
const CROWDS: [usize; 7] = [8, 12, 16, 24, 32, 48, 64];
/// The indices: of the complex query with one replica and with four, and of the articles.
const COMPLEX_1: &str = "complex-1";
const COMPLEX_4: &str = "complex-4";
const PMC_1: &str = "pmc-1";

/// Laps that a run makes, about.
pub(crate) fn steps(options: &LiveOptions, laps: usize) -> usize {
    Plan::new(options).steps(laps, &arms(options.size, &options.variants))
}

/// Documents that a run searches and a file may stand for, by their shape.
pub(crate) fn corpora(options: &LiveOptions) -> Vec<(Shape, usize)> {
    let articles = Plan::new(options).has(PMC).then_some((Shape::Pmc, ARTICLES));
    articles.into_iter().collect()
}

/// A run in progress.
struct Run<'a, 'b> {
    context: &'a mut Context<'b>,
    cluster: Cluster,
    plan: Plan,
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
    let plan = Plan::new(context.options);
    let arms = arms(context.options.size, &context.options.variants);
    let mut run = Run {
        context,
        cluster,
        plan,
        arms,
        found: std::mem::take(found),
        clients: 1,
        tables: BTreeMap::new(),
    };
    let ended = run.all();
    *found = run.found;
    found.results.mode = mode(&found.results.scenarios);
    ended
}

/// Open where every scenario was; each says for itself how it was loaded.
fn mode(scenarios: &[Scenario]) -> Mode {
    let is_open = |one: &Scenario| matches!(one.load, LoadNote::RateOpsS(_));
    match !scenarios.is_empty() && scenarios.iter().all(is_open) {
        true => Mode::Open,
        false => Mode::Closed,
    }
}

impl Run<'_, '_> {
    fn all(&mut self) -> Result<(), LabError> {
        self.leave_out_unsupported()?;
        let about = format!(
            "processor shares by {}: data nodes {DATA_SHARE}, coordinator {COORDINATOR_SHARE}, \
             generator {GENERATOR_SHARE}",
            self.cluster.limits.about()
        );
        self.context.note(about);
        let seed = self.context.options.seed;
        let places = Corpus::of_seed(Shape::Places, PLACES, seed);
        // Clients are fitted to it whatever runs.
        self.load(COMPLEX_1, &places, 1)?;
        if self.plan.has(FOUR) || self.plan.has_stress_of(FOUR) {
            self.load(COMPLEX_4, &places, 4)?;
        }
        let articles = self.context.corpora.of(Shape::Pmc, ARTICLES, seed);
        if self.plan.has(PMC) {
            self.load(PMC_1, &articles, 1)?;
        }
        self.cluster.limit()?;
        let limits = (&self.cluster.limits, &self.cluster.guardian);
        let generator = Generator::enter(limits.0, limits.1, GENERATOR_SHARE);
        let _generator =
            generator.map_err(|error| LabError::live("limit the generator".to_owned(), error))?;
        self.fit_clients(&places)?;
        let of_one = self.healthy(ONE, COMPLEX_1, &places)?;
        let of_four = self.healthy(FOUR, COMPLEX_4, &places)?;
        if self.plan.has_stress_of(ONE) {
            self.loaded(ONE_LOADED, COMPLEX_1, &places, of_one)?;
        }
        if self.plan.has_stress_of(FOUR) {
            self.loaded(FOUR_LOADED, COMPLEX_4, &places, of_four)?;
        }
        if self.plan.has(ROUND_ROBIN) {
            self.scenario(ROUND_ROBIN, COMPLEX_1, &places)?;
        }
        if self.plan.has(PMC) {
            self.articles(&articles)?;
        }
        Ok(())
    }

    /// Arms whose settings this cluster does not take are left out, and the report says so.
    fn leave_out_unsupported(&mut self) -> Result<(), LabError> {
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
            let ask = run.complex(COMPLEX_1, places, clients);
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

    /// Rotation's throughput without load: of the scenario, or where only the stressed one runs, of
    /// one lap; 0 where nothing goes by it.
    fn healthy(&mut self, name: &str, index: &str, corpus: &Corpus) -> Result<f64, LabError> {
        if self.plan.has(name) {
            return self.scenario(name, index, corpus);
        }
        if !self.plan.has_stress_of(name) {
            return Ok(0.0);
        }
        self.rotate()?;
        let ask = self.complex(index, corpus, self.clients);
        let lap = self.context.try_lap(&mut self.cluster, &ask)?;
        Ok(lap.lap.throughput_ops_s.mean)
    }

    /// One scenario of the complex query, without a fault; rotation's throughput in it.
    fn scenario(&mut self, name: &str, index: &str, corpus: &Corpus) -> Result<f64, LabError> {
        let mut ask = self.complex(index, corpus, self.clients);
        if name == ROUND_ROBIN {
            let serving = self.cluster.nodes.iter().take(DATA_NODES + 1);
            ask.addresses = serving.map(super::node::Node::http).collect();
        }
        let arms = self.plan.arms(name, &self.arms);
        let laps = self.laps(name, index, &arms, &ask, FaultNote::default())?;
        Ok(laps.first().map_or(0.0, |of_first| verdict::rate(of_first)))
    }

    /// The paired laps of a scenario, by arm.
    fn laps(
        &mut self,
        name: &str,
        index: &str,
        arms: &[Arm],
        ask: &Ask,
        fault: FaultNote,
    ) -> Result<Vec<Vec<Measured>>, LabError> {
        self.warm(name, arms, ask)?;
        let laps = self.context.paired(&mut self.cluster, name, arms, ask, None)?;
        let segments = self.tables.get(index).and_then(|table| table.segments);
        let kind = if fault.kind.is_empty() { "none".to_owned() } else { fault.kind };
        self.found.results.scenarios.push(Scenario {
            name: name.to_owned(),
            fault: FaultNote { kind, fit: fault.fit },
            load: match ask.pace {
                Pace::Closed { .. } => LoadNote::Clients(ask.pace.clients()),
                Pace::Open { rate_ops_s, .. } => LoadNote::RateOpsS(rate_ops_s),
            },
            variants: variants(arms, &laps, segments),
        });
        let seed = self.context.options.seed;
        let compared = comparisons(name, arms, &laps, seed, published);
        self.found.plots.findings.extend(verdict::same_again(&compared));
        self.found.results.comparisons.extend(compared);
        let series = arms.iter().zip(&laps).filter_map(|(a, l)| measure::series(name, &a.name, l));
        self.found.plots.series.extend(series);
        if self.context.is_stopped() { Err(LabError::Stopped) } else { Ok(laps) }
    }

    /// One lap that counts for nothing. The first after a change is slower than those that follow,
    /// by up to a tenth, and it would always be the first arm's: compared with itself it differed.
    fn warm(&mut self, name: &str, arms: &[Arm], ask: &Ask) -> Result<(), LabError> {
        let Some(first) = arms.first() else { return Ok(()) };
        self.cluster.set(&first.settings)?;
        self.context.try_lap(&mut self.cluster, ask)?;
        self.context.step(&format!("{name} warm-up"));
        Ok(())
    }

    /// The five operations of the articles, one replica, no load.
    fn articles(&mut self, articles: &Corpus) -> Result<(), LabError> {
        let arms = self.plan.arms(PMC, &self.arms);
        for (scenario, operation) in ARTICLE_SCENARIOS {
            let ask = self.ask(Operation::Named(operation), PMC_1, articles, self.clients);
            self.laps(scenario, PMC_1, &arms, &ask, FaultNote::default())?;
        }
        Ok(())
    }
}
