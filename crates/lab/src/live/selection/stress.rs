//! The loaded scenarios of `replica-selection`: which node is stressed, and how much it keeps so
//! that rotation keeps the published share of its unloaded throughput; what runs meanwhile, and
//! the end of it. Kinds of faults are `live/fault.rs`, the search is `live/fit.rs`, and open loops
//! are `open.rs`.

use super::plan::{FOUR_LOADED, ONE_LOADED, OPEN};
use super::{Run, verdict};
use crate::LabError;
use crate::live::context::Ask;
use crate::live::corpus::Corpus;
use crate::live::fault::{Active, FaultKind};
use crate::live::fit::Search;
use crate::live::study::DATA_NODES;
use crate::result::{FaultNote, Finding};

/// The stressed node, as in the study: the third.
const SICK: usize = 2;
/// Shares of unloaded throughput that rotation kept, by the study.
const KEPT: [(&str, f64); 2] = [(ONE_LOADED, 0.43), (FOUR_LOADED, 0.60)];
const KEPT_TOLERANCE: f64 = 0.03;
/// Tries of a fit.
const TRIES_MAX: usize = 8;

impl Run<'_, '_> {
    /// A loaded scenario and what goes by it; `unloaded` is rotation's throughput without load.
    pub(super) fn loaded(
        &mut self,
        name: &str,
        index: &str,
        corpus: &Corpus,
        unloaded: f64,
    ) -> Result<(), LabError> {
        let ask = self.complex(index, corpus, self.clients);
        let (active, fault) = self.stress(name, index, &ask, unloaded)?;
        let ended = self.while_stressed(name, index, &ask, fault, unloaded);
        active.end(&mut self.cluster)?;
        match ended? {
            Some(capacity_ops_s) => self.open_unstressed(index, &ask, capacity_ops_s),
            None => Ok(()),
        }
    }

    /// All that is asked while the node is stressed; what the cluster can do, if there were open
    /// loops.
    fn while_stressed(
        &mut self,
        name: &str,
        index: &str,
        ask: &Ask,
        fault: FaultNote,
        unloaded: f64,
    ) -> Result<Option<f64>, LabError> {
        if self.plan.has(name) {
            let arms = self.plan.arms(name, &self.arms);
            let ended = self.laps(name, index, &arms, ask, fault.clone());
            let findings = verdict::kept(&self.found.results, &arms, name, unloaded);
            self.found.plots.findings.extend(findings);
            ended?;
        }
        if name != ONE_LOADED || !self.plan.has(OPEN) {
            return Ok(None);
        }
        let capacity_ops_s = self.capacity_ops_s(ask)?;
        self.open_stressed(index, ask, fault, capacity_ops_s)?;
        Ok(Some(capacity_ops_s))
    }

    /// Stresses a node, so that rotation keeps what it is to keep.
    fn stress(
        &mut self,
        name: &str,
        index: &str,
        ask: &Ask,
        unloaded: f64,
    ) -> Result<(Active, FaultNote), LabError> {
        let target = KEPT.iter().find(|(known, _)| *known == name).map_or(0.5, |(_, kept)| *kept);
        self.rotate()?;
        let start = FaultKind::Stress { keep: target };
        let sick = self.sick(index);
        let mut active = Active::begin(&mut self.cluster, sick, start)?;
        let mut search = Search::new((0.01, 0.98), target, KEPT_TOLERANCE);
        let mut tries = 0;
        while tries < TRIES_MAX && !search.is_found() {
            let keep = search.next(target);
            self.change(&mut active, keep)?;
            let lap = self.context.try_lap(&mut self.cluster, ask)?;
            let kept = lap.lap.throughput_ops_s.mean / unloaded.max(1e-9);
            search.note(keep, kept);
            tries += 1;
            let text =
                format!("fitting {name}: the node keeps {keep:.3}, rotation keeps {kept:.3}");
            self.context.progress.note(&text);
        }
        let (keep, kept) = search.best().unwrap_or((target, 0.0));
        self.change(&mut active, keep)?;
        self.context.note(format!("{name}: {}", active.about()));
        let fit = [
            ("stressed_node_keeps", keep),
            ("rotation_keeps", kept),
            ("rotation_unloaded_ops_s", unloaded),
            ("tries", f64::from(u32::try_from(tries).unwrap_or(0))),
        ];
        let fit = fit.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        let fault = FaultNote { kind: active.kind().name().to_owned(), fit };
        self.found.plots.findings.push(Finding::compare(
            format!("fit of {name}: share of its unloaded throughput that rotation keeps"),
            format!("{target:.2} ± {KEPT_TOLERANCE:.2} (the study)"),
            Some(format!("{kept:.3}")),
            Some(search.is_found()),
        ));
        Ok((active, fault))
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
}
