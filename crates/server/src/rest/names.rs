//! Which names indices and aliases may have, in Elasticsearch's words.

use plimsoll_index::Error;

/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;
/// Characters that no name has.
const FORBIDDEN: &[char] = &['\\', '/', '*', '?', '"', '<', '>', '|', ' ', ','];

/// Checks the name of an index.
///
/// # Errors
/// 400 `invalid_index_name_exception`.
pub fn check_index(name: &str) -> Result<(), Error> {
    let refused = |why: &str| {
        Error::new(
            400,
            "invalid_index_name_exception",
            format!("Invalid index name [{name}], {why}"),
        )
        .with("index", name)
        .with("index_uuid", "_na_")
    };
    if name.to_lowercase() != name {
        return Err(refused("must be lowercase"));
    }
    check(name).map_err(|why| refused(&why))
}

/// Checks the name of an alias, which may have upper case.
///
/// # Errors
/// 400 `invalid_alias_name_exception`.
pub fn check_alias(name: &str) -> Result<(), Error> {
    check(name).map_err(|why| {
        Error::new(
            400,
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

fn check(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("must not be empty".to_owned());
    }
    if name.contains(FORBIDDEN) {
        // The set as Elasticsearch prints it.
        return Err(r#"must not contain the following characters [ , ", *, \, <, |, ,, >, /, ?]"#
            .to_owned());
    }
    if let Some(control) = name.chars().find(|c| c.is_control()) {
        return Err(format!("must not contain the character with code {}", u32::from(control)));
    }
    if name.contains('#') {
        return Err("must not contain '#'".to_owned());
    }
    if name.contains(':') {
        return Err("must not contain ':'".to_owned());
    }
    if name.starts_with(['_', '-', '+']) {
        let first = name.chars().next().unwrap_or_default();
        return Err(format!("must not start with '{first}'."));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(format!("index name is too long, ({} > {NAME_BYTES_MAX})", name.len()));
    }
    if name == "." || name == ".." {
        return Err("must not be '.' or '..'".to_owned());
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
