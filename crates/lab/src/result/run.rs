//! How a run was asked for, and what of it is whole: by this a later run goes on with it.

use serde::{Deserialize, Serialize};

/// A run of the live lab.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunNote {
    /// `quick`, `study` or `full`.
    pub size: String,
    /// Laps of each arm, where a number was asked for.
    pub laps: Option<usize>,
    /// Arms that were asked for.
    pub variants: Vec<String>,
    /// Scenarios that were asked for.
    pub scenarios: Vec<String>,
    /// Files of documents, each as `SHAPE=FILE`.
    pub corpora: Vec<String>,
    /// Scenarios of which all laps were made.
    pub whole: Vec<String>,
}

impl RunNote {
    /// What was asked for, as on a command line.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = Vec::new();
        if self.size != "study" {
            words.push(format!("--{}", self.size));
        }
        words.extend(self.laps.map(|laps| format!("--laps {laps}")));
        let named = |flag: &str, values: &[String]| -> Vec<String> {
            values.iter().map(|value| format!("--{flag} {value}")).collect()
        };
        words.extend(named("variant", &self.variants));
        words.extend(named("scenarios", &self.scenarios));
        words.extend(named("corpus", &self.corpora));
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_command_line() {
        let mut run = RunNote { size: "quick".to_owned(), laps: Some(2), ..RunNote::default() };
        run.scenarios = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!(run.words(), "--quick --laps 2 --scenarios a --scenarios b");
        let plain = RunNote { size: "study".to_owned(), ..RunNote::default() };
        assert_eq!(plain.words(), "");
    }
}
