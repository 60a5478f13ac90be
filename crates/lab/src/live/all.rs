//! `all`: the five studies one after the other, each into a folder of its own, and one page and text that
//! sum them up: of every aim what came out, and whether it was met. What a study measures, and how, is its
//! own affair. One that fails is told and does not keep the others from their turn.

use std::path::Path;
use std::time::{Duration, Instant};

use super::found::Found;
use super::options::LiveOptions;
use super::resume::asked;
use super::{RESUMED, processes};
use crate::result::{Finding, Plots, Results};
use crate::{LabError, Outcome, Progress, RESULT_FILE};

/// What it is called in the place of an experiment.
pub(crate) const NAME: &str = "all";
/// The studies, in the order in which they are run: the briefest first.
pub(crate) const STUDIES: [&str; 5] = [
    super::breakers::NAME,
    "admission-queue",
    super::rows::NAME,
    "replica-selection",
    super::remote::NAME,
];

/// Runs them, or those that a run before did not end.
///
/// # Errors
/// What cannot be asked of all of them, a run that cannot be gone on with, or a file that cannot be
/// written.
pub(super) fn run(options: &LiveOptions, progress: &mut dyn Progress) -> Result<Outcome, LabError> {
    each(options, progress, &|of, progress| super::run(of, progress))
}

/// One experiment, run.
type RunOne<'a> = &'a dyn Fn(&LiveOptions, &mut dyn Progress) -> Result<Outcome, LabError>;

fn each(
    options: &LiveOptions,
    progress: &mut dyn Progress,
    run_one: RunOne<'_>,
) -> Result<Outcome, LabError> {
    allowed(options)?;
    let mut found = Found::default();
    NAME.clone_into(&mut found.results.experiment);
    found.results.host = processes::host();
    found.results.seed = options.seed;
    let mut run = asked(options);
    if options.resume {
        let results: Results = crate::files::read(&options.out, RESULT_FILE)?;
        let plots: Plots = crate::files::read(&options.out, crate::PLOTS_FILE)?;
        let before = super::resume::same(&options.out, &results, options, &run)?;
        run.whole.clone_from(&before.whole);
        kept(&results, plots, &mut found, &run.whole);
    }
    let mut text = String::new();
    for (at, name) in STUDIES.into_iter().enumerate() {
        if run.whole.iter().any(|whole| whole == name) {
            continue;
        }
        progress.note(&format!("study {} of {}: {name}", at + 1, STUDIES.len()));
        let of = one(options, name);
        let began = Instant::now();
        let outcome = run_one(&of, &mut Within { name, progress });
        let is_stopped = options.stop.load(std::sync::atomic::Ordering::Relaxed);
        let took = began.elapsed();
        match outcome {
            Ok(outcome) => {
                found.results.notes.push(summed(name, &outcome.plots.findings, took, is_stopped));
                let findings = outcome.plots.findings.into_iter();
                found.plots.findings.extend(findings.map(|it| within(name, it)));
                if !is_stopped {
                    run.whole.push(name.to_owned());
                }
            }
            Err(LabError::Stopped) => {}
            Err(why) => {
                let said = format!("{name}: not run, {why}");
                progress.note(&said);
                found.results.notes.push(said);
                let missed = Some(format!("not run: {why}"));
                let what = format!("{name}: all of it");
                found.plots.findings.push(Finding::compare(
                    what,
                    "to be run".to_owned(),
                    missed,
                    None,
                ));
            }
        }
        // A run that is killed can be gone on with too.
        found.results.run = Some(run.clone());
        text = crate::leave(&options.out, &found.results, &found.plots)?;
        if is_stopped {
            break;
        }
    }
    if text.is_empty() {
        found.results.run = Some(run);
        text = crate::leave(&options.out, &found.results, &found.plots)?;
    }
    Ok(Outcome { results: found.results, plots: found.plots, text })
}

/// Arms, scenarios, corpora and servers are each experiment's own.
fn allowed(options: &LiveOptions) -> Result<(), LabError> {
    let known = "none to choose from".to_owned();
    if let Some(name) = options.variants.first() {
        return Err(LabError::UnknownVariant { name: name.clone(), known });
    }
    if let Some(name) = options.scenarios.first() {
        return Err(LabError::UnknownScenario { name: name.clone(), known });
    }
    if let Some(url) = &options.target {
        let why = "all experiments run on nodes of their own".to_owned();
        return Err(LabError::Target { url: url.clone(), why });
    }
    match options.corpora.first() {
        Some(given) => {
            let why = "not every experiment takes one; give it to one of them".to_owned();
            Err(LabError::Corpus { given: given.clone(), why })
        }
        None => Ok(()),
    }
}

/// The options of one of them.
fn one(options: &LiveOptions, name: &str) -> LiveOptions {
    let out = options.out.join(name);
    let has_part = RESUMED.contains(&name) && is_gone_on_with(&out, name, options);
    LiveOptions {
        experiment: name.to_owned(),
        folder: options.folder.join(name),
        resume: options.resume && has_part,
        out,
        ..options.clone()
    }
}

/// Whether a folder has a part of the very run of an experiment.
fn is_gone_on_with(out: &Path, name: &str, options: &LiveOptions) -> bool {
    let results: Result<Results, LabError> = crate::files::read(out, RESULT_FILE);
    let of = LiveOptions { experiment: name.to_owned(), ..options.clone() };
    results.is_ok_and(|results| super::resume::same(out, &results, &of, &asked(&of)).is_ok())
}

/// Takes what was told of experiments that are whole.
fn kept(results: &Results, plots: Plots, found: &mut Found, whole: &[String]) {
    let is_whole = |said: &str| {
        whole.iter().any(|name| said.strip_prefix(name).is_some_and(|it| it.starts_with(':')))
    };
    let notes = results.notes.iter().filter(|note| is_whole(note));
    found.results.notes = notes.cloned().collect();
    found.plots.findings = plots.findings;
    found.plots.findings.retain(|finding| is_whole(&finding.what));
}

fn within(name: &str, finding: Finding) -> Finding {
    Finding { what: format!("{name}: {}", finding.what), ..finding }
}

/// An experiment in one sentence.
fn summed(name: &str, findings: &[Finding], took: Duration, is_stopped: bool) -> String {
    let met = findings.iter().filter(|it| it.reached == Some(true)).count();
    let all = findings.iter().filter(|it| it.reached.is_some()).count();
    let missed: Vec<&str> =
        findings.iter().filter(|it| it.reached == Some(false)).map(|it| it.what.as_str()).collect();
    let missed = match missed.is_empty() {
        true => String::new(),
        false => format!("; missed: {}", missed.join("; ")),
    };
    let ended = if is_stopped { ", stopped before the end" } else { "" };
    let minutes = took.as_secs_f64() / 60.0;
    format!(
        "{name}: {met} of {all} aims met in {minutes:.1} min{ended}{missed} ({name}/{})",
        crate::PAGE_FILE
    )
}

/// Says of which experiment a step is.
struct Within<'a> {
    name: &'a str,
    progress: &'a mut dyn Progress,
}

impl Progress for Within<'_> {
    fn note(&mut self, what: &str) {
        self.progress.note(what);
    }

    fn step(&mut self, done: usize, all: usize, what: &str) -> bool {
        self.progress.step(done, all, &format!("{}: {what}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::experiments::Silent;

    fn options(out: &Path) -> LiveOptions {
        let mut options = LiveOptions::new(NAME).expect("the path of this program");
        options.out = out.to_owned();
        options
    }

    fn outcome() -> Outcome {
        let findings = vec![
            Finding::compare("a".to_owned(), "1".to_owned(), Some("1".to_owned()), Some(true)),
            Finding::compare("b".to_owned(), "1".to_owned(), Some("2".to_owned()), Some(false)),
            Finding::told("c".to_owned(), None),
        ];
        let plots = Plots { findings, ..Plots::default() };
        Outcome { results: Found::default().results, plots, text: String::new() }
    }

    #[test]
    fn all_are_run_and_summed_up_and_one_that_fails_is_run_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let asked_for = RefCell::new(Vec::new());
        let failing = |of: &LiveOptions, _: &mut dyn Progress| {
            asked_for.borrow_mut().push((of.experiment.clone(), of.out.clone()));
            match of.experiment == STUDIES[2] {
                true => Err(LabError::live("start".to_owned(), "no")),
                false => Ok(outcome()),
            }
        };
        let mut options = options(folder.path());
        let all = each(&options, &mut Silent, &failing).expect("it is written");
        let names: Vec<String> = asked_for.borrow().iter().map(|it| it.0.clone()).collect();
        assert_eq!(names, STUDIES);
        assert!(asked_for.borrow().iter().all(|(name, out)| out.ends_with(name)));
        let first = format!("{}: 1 of 2 aims met in 0.0 min; missed: b", STUDIES[0]);
        assert!(all.results.notes[0].starts_with(&first), "{:?}", all.results.notes);
        assert_eq!(all.plots.findings.len(), 4 * 3 + 1);
        assert!(all.text.contains("not run: cannot start: no"), "{}", all.text);
        assert!(folder.path().join(crate::PAGE_FILE).is_file());
        asked_for.borrow_mut().clear();
        options.resume = true;
        let passing = |of: &LiveOptions, _: &mut dyn Progress| {
            asked_for.borrow_mut().push((of.experiment.clone(), of.out.clone()));
            Ok(outcome())
        };
        let all = each(&options, &mut Silent, &passing).expect("it is written");
        let names: Vec<String> = asked_for.borrow().iter().map(|it| it.0.clone()).collect();
        assert_eq!(names, [STUDIES[2]]);
        assert_eq!((all.results.notes.len(), all.plots.findings.len()), (5, 15));
    }

    #[test]
    fn what_only_one_experiment_knows_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let refused = |change: fn(&mut LiveOptions)| {
            let mut options = options(folder.path());
            change(&mut options);
            allowed(&options).is_err()
        };
        assert!(refused(|of| of.variants = vec!["on".to_owned()]));
        assert!(refused(|of| of.scenarios = vec!["pmc".to_owned()]));
        assert!(refused(|of| of.target = Some("http://h:1".to_owned())));
        assert!(refused(|of| of.corpora = vec!["pmc=x".to_owned()]));
        assert!(!refused(|of| of.laps = Some(2)));
    }
}
