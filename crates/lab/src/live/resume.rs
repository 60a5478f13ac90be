//! A run that was interrupted is gone on with: scenarios that are whole in its `result.json` are kept,
//! those that are not are made anew. The files are written after each scenario, so that a run that is
//! killed can be gone on with too.

use std::path::Path;

use super::context::Context;
use super::found::Found;
use super::options::{LiveOptions, LiveSize};
use crate::LabError;
use crate::result::{Plots, Results, RunNote};

/// How this run is asked for.
pub(super) fn asked(options: &LiveOptions) -> RunNote {
    let size = match options.size {
        LiveSize::Quick => "quick",
        LiveSize::Study => "study",
        LiveSize::Full => "full",
    };
    RunNote {
        size: size.to_owned(),
        laps: options.laps,
        variants: options.variants.clone(),
        scenarios: options.scenarios.clone(),
        corpora: options.corpora.clone(),
        whole: Vec::new(),
    }
}

/// Begins a run, with what is whole of an earlier one where it goes on with that; the names of those
/// scenarios.
///
/// # Errors
/// As [`earlier`].
pub(crate) fn begin(context: &mut Context<'_>, found: &mut Found) -> Result<Vec<String>, LabError> {
    let options = context.options;
    found.results.run = Some(asked(options));
    if options.resume {
        earlier(context, found)?;
    }
    Ok(found.results.run.iter().flat_map(|run| run.whole.iter().cloned()).collect())
}

/// Takes what is whole of the run in the folder.
///
/// # Errors
/// There is none, or it was asked for in another way.
fn earlier(context: &mut Context<'_>, found: &mut Found) -> Result<(), LabError> {
    let options = context.options;
    let results: Results = crate::files::read(&options.out, crate::RESULT_FILE)?;
    let plots: Plots = crate::files::read(&options.out, crate::PLOTS_FILE)?;
    let run = same(&options.out, &results, options, &asked(options))?;
    if results.host != found.results.host {
        let kept = run.whole.join(", ");
        context.note(format!("measured on another machine, {}: {kept}", results.host));
    }
    let said = kept(results, plots, &run, found);
    let now = std::mem::take(&mut context.notes);
    context.notes = said;
    for note in now {
        if !context.notes.contains(&note) {
            context.notes.push(note);
        }
    }
    Ok(())
}

/// The run of a result, where it was asked for as this one is.
pub(super) fn same(
    folder: &Path,
    results: &Results,
    options: &LiveOptions,
    asked: &RunNote,
) -> Result<RunNote, LabError> {
    let seed = options.seed;
    let refuse = |why: String| LabError::Resume { dir: folder.to_owned(), why };
    if results.experiment != options.experiment {
        return Err(refuse(format!("it is of {}", results.experiment)));
    }
    let run = results.run.clone();
    let run = run.ok_or_else(|| refuse("it does not say how it was asked for".to_owned()))?;
    let plain = RunNote { whole: Vec::new(), ..run.clone() };
    if plain != *asked || results.seed != seed {
        let words = |run: &RunNote, seed: u64| format!("{} --seed {seed}", run.words());
        return Err(refuse(format!(
            "it was run with `{}`, not with `{}`",
            words(&plain, results.seed).trim(),
            words(asked, seed).trim()
        )));
    }
    Ok(run)
}

/// Moves what is whole of a result into what is found; the notes that go with it.
fn kept(results: Results, plots: Plots, run: &RunNote, found: &mut Found) -> Vec<String> {
    // One that is asked for by its name may make several: `mixes` makes `mixes 0:1`.
    let is_whole = |name: &String| {
        let is_of = |whole: &String| {
            name.strip_prefix(whole.as_str()).is_some_and(|it| it.is_empty() || it.starts_with(' '))
        };
        run.whole.iter().any(is_of)
    };
    let (whole, parts): (Vec<_>, Vec<_>) =
        results.scenarios.into_iter().partition(|scenario| is_whole(&scenario.name));
    let is_of_parts = |said: &String| {
        parts.iter().any(|part| {
            said.strip_prefix(&part.name).is_some_and(|rest| rest.starts_with([':', ' ']))
        })
    };
    found.results.scenarios = whole;
    let compared = results.comparisons.into_iter();
    found.results.comparisons = compared.filter(|it| is_whole(&it.scenario)).collect();
    found.plots.findings = plots.findings;
    found.plots.findings.retain(|finding| !is_of_parts(&finding.what));
    if let Some(note) = &mut found.results.run {
        note.whole.clone_from(&run.whole);
    }
    // Errors are counted again when the files are written.
    let is_of_now = |said: &String| said.starts_with("errors in ") || said.starts_with("the run ");
    let notes = results.notes.into_iter();
    notes.filter(|said| !is_of_parts(said) && !is_of_now(said)).collect()
}

/// Notes a scenario as whole and writes the files.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn keep(context: &Context<'_>, name: &str, found: &mut Found) -> Result<(), LabError> {
    if let Some(run) = &mut found.results.run {
        run.whole.push(name.to_owned());
    }
    let results = Results { notes: context.notes.clone(), ..found.results.clone() };
    crate::leave(&context.options.out, &results, &found.plots).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::remote::NAME;
    use crate::result::{FaultNote, Finding, LoadNote, Scenario};

    fn results(run: Option<RunNote>) -> Results {
        let scenario = |name: &str| Scenario {
            name: name.to_owned(),
            fault: FaultNote::default(),
            load: LoadNote::Clients(0),
            variants: Vec::new(),
        };
        let mut results = Found::default().results;
        results.experiment = NAME.to_owned();
        results.seed = 5;
        results.run = run;
        results.scenarios = vec![scenario("http_logs"), scenario("http_logs-20ms")];
        let notes = ["http_logs: 1 MB", "http_logs-20ms: 2 MB", "a link", "errors in x"];
        results.notes = notes.map(str::to_owned).to_vec();
        results
    }

    fn options() -> LiveOptions {
        let mut options = LiveOptions::new(NAME).unwrap();
        options.size = LiveSize::Quick;
        options.laps = Some(3);
        options
    }

    #[test]
    fn another_run_is_refused_with_the_words_of_both() {
        let run = asked(&options());
        let of = |results: &Results, asked: &RunNote, seed| {
            let options = LiveOptions { seed, ..options() };
            same(Path::new("d"), results, &options, asked).map_err(|error| error.to_string())
        };
        assert_eq!(of(&results(Some(run.clone())), &run, 5).as_ref(), Ok(&run));
        let whole = RunNote { whole: vec!["http_logs".to_owned()], ..run.clone() };
        assert!(of(&results(Some(whole)), &run, 5).is_ok());
        let seed = of(&results(Some(run.clone())), &run, 6).unwrap_err();
        let said = "with `--quick --laps 3 --seed 5`, not with `--quick --laps 3 --seed 6`";
        assert!(seed.contains(said), "{seed}");
        let full = RunNote { size: "full".to_owned(), ..run.clone() };
        assert!(of(&results(Some(run.clone())), &full, 5).unwrap_err().contains("--full"));
        assert!(of(&results(None), &run, 5).unwrap_err().contains("how it was asked for"));
        let other = Results { experiment: "other".to_owned(), ..results(Some(run.clone())) };
        assert!(of(&other, &run, 5).unwrap_err().contains("of other"));
    }

    #[test]
    fn all_that_a_whole_one_made_is_kept() {
        let run = RunNote { whole: vec!["http_logs".to_owned()], ..asked(&options()) };
        let mut results = results(Some(run.clone()));
        results.scenarios[0].name = "http_logs 0:1".to_owned();
        let mut found = Found::default();
        kept(results, Plots::default(), &run, &mut found);
        let names: Vec<_> = found.results.scenarios.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["http_logs 0:1"]);
    }

    #[test]
    fn what_is_whole_is_kept_with_what_was_said_of_it() {
        let run = RunNote { whole: vec!["http_logs-20ms".to_owned()], ..asked(&options()) };
        let finding = |what: &str| Finding::told(what.to_owned(), None);
        let findings = vec![finding("http_logs: a"), finding("http_logs-20ms: b")];
        let plots = Plots { findings, ..Plots::default() };
        let mut found = Found::default();
        found.results.run = Some(asked(&options()));
        let notes = kept(results(Some(run.clone())), plots, &run, &mut found);
        assert_eq!(notes, ["http_logs-20ms: 2 MB", "a link"]);
        let names: Vec<&str> =
            found.results.scenarios.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names, ["http_logs-20ms"]);
        let findings: Vec<&str> =
            found.plots.findings.iter().map(|finding| finding.what.as_str()).collect();
        assert_eq!(findings, ["http_logs-20ms: b"]);
        assert_eq!(found.results.run, Some(run));
    }
}
