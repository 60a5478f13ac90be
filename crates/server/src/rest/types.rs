//! Whether answers name the type of a document, `_doc`, as Elasticsearch 7 does and nobody after it.
//! The clients for Java of that version take a write whose answer has no `_type` for failed.

use crate::settings::Settings;

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// Answers are those of Elasticsearch 7: `"_type": "_doc"`.
    Named,
    /// Answers are those of OpenSearch 2, or of Elasticsearch 8.
    Left,
}

impl Types {
    /// What the version asks for that `GET /` says.
    #[must_use]
    pub fn of(settings: &Settings) -> Self {
        let is_seven = settings.rest_version.starts_with("7.");
        if is_seven && settings.rest_distribution.is_empty() { Self::Named } else { Self::Left }
    }

    /// The field with the comma after it, or nothing.
    #[must_use]
    pub fn field(self) -> &'static str {
        match self {
            Self::Named => r#""_type":"_doc","#,
            Self::Left => "",
        }
    }
}
