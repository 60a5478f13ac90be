//! Which names indices and aliases may have, in Elasticsearch's words.

use plimsoll_index::Error;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Characters that no name has.
const FORBIDDEN: &[char] = &['\\', '/', '*', '?', '"', '<', '>', '|', ' ', ','];

/// Why a name is none of an index or alias.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
enum NameError {
    /// It has no characters.
    #[error("must not be empty")]
    Empty,
    /// It has a character that no file may have everywhere; the set as Elasticsearch prints it.
    #[error(r#"must not contain the following characters [ , ", *, \, <, |, ,, >, /, ?]"#)]
    Forbidden,
    /// It has a character that cannot be shown.
    #[error("must not contain the character with code {}", u32::from(*.0))]
    Control(char),
    /// It has a character that has a meaning where names are listed.
    #[error("must not contain '{0}'")]
    Special(char),
    /// It begins as what is no name.
    #[error("must not start with '{0}'.")]
    Start(char),
    /// It has so many bytes, which is too many.
    #[error("index name is too long, ({0} > {NAME_BYTES_MAX})")]
    TooLong(usize),
    /// It is a folder in every folder.
    #[error("must not be '.' or '..'")]
    Dots,
}

/// Checks the name of an index.
///
/// # Errors
/// 400 `invalid_index_name_exception`.
pub fn check_index(name: &str) -> Result<(), Error> {
    let refused = |why: &str| {
        Error::invalid(
            "invalid_index_name_exception",
            format!("Invalid index name [{name}], {why}"),
        )
        .with("index", name)
        .with("index_uuid", "_na_")
    };
    if name.to_lowercase() != name {
        return Err(refused("must be lowercase"));
    }
    check(name).map_err(|why| refused(&why.to_string()))
}

/// Checks the name of an alias, which may have upper case.
///
/// # Errors
/// 400 `invalid_alias_name_exception`.
pub fn check_alias(name: &str) -> Result<(), Error> {
    check(name).map_err(|why| {
        Error::invalid(
            "invalid_alias_name_exception",
            format!("Invalid alias name [{name}], {why}"),
        )
    })
}

/// Checks the name of a template.
///
/// # Errors
/// 400 `illegal_argument_exception`.
pub fn check_template(name: &str) -> Result<(), Error> {
    let why = if name.is_empty() {
        "must not be empty"
    } else if name.contains([' ', ',', '#', '*']) {
        "must not contain a space, a comma, '#' or '*'"
    } else if name.starts_with('_') {
        "must not start with '_'"
    } else if name.len() > NAME_BYTES_MAX {
        "is too long"
    } else if name.to_lowercase() != name {
        "must be lower case"
    } else {
        return Ok(());
    };
    Err(Error::illegal_argument(format!("template name [{name}] {why}")))
}

fn check(name: &str) -> Result<(), NameError> {
    if name.is_empty() {
        return Err(NameError::Empty);
    }
    if name.contains(FORBIDDEN) {
        return Err(NameError::Forbidden);
    }
    if let Some(control) = name.chars().find(|c| c.is_control()) {
        return Err(NameError::Control(control));
    }
    for special in ['#', ':'] {
        if name.contains(special) {
            return Err(NameError::Special(special));
        }
    }
    if name.starts_with(['_', '-', '+']) {
        let first = name.chars().next().unwrap_or_default();
        return Err(NameError::Start(first));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong(name.len()));
    }
    if name == "." || name == ".." {
        return Err(NameError::Dots);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_refused() {
        for good in ["g", "logs-2024.01.01", ".kibana", "db0", "ümlaut", &"x".repeat(255)] {
            assert!(check_index(good).is_ok(), "{good}");
        }
        for (name, why) in [
            ("Bad", "must be lowercase"),
            ("_bogus", "must not start with '_'."),
            ("-x", "must not start with '-'."),
            ("..", "must not be '.' or '..'"),
            ("a/b", r#"must not contain the following characters [ , ", *, \, <, |, ,, >, /, ?]"#),
            ("a:b", "must not contain ':'"),
            ("", "must not be empty"),
            (&"x".repeat(256), "index name is too long, (256 > 255)"),
        ] {
            let reason = check_index(name).unwrap_err().reason;
            assert_eq!(reason, format!("Invalid index name [{name}], {why}"));
        }
        assert!(check_alias("Upper").is_ok() && check_alias("a*").is_err());
        assert!(check_template("t-1").is_ok() && check_template("a,b").is_err());
    }
}
