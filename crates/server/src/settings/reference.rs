//! Pages that are made from the table: the reference and an example file. A test fails where
//! the copies under `docs/` differ from what stands here.

use plimsoll_stdx::units;

use super::table::{Definition, Kind, SETTINGS};

/// The reference page, in Markdown.
#[must_use]
pub fn markdown() -> String {
    let mut page = String::from(
        "# Settings\n\n\
         A settings file (`plimsoll serve --config FILE`, TOML where the name ends in `.toml`, \
         else YAML) may have them nested or with dots; `--set key=value` comes after the file, \
         and a flag after both. Unknown keys are refused.\n",
    );
    for definition in SETTINGS {
        let flag = definition.flag.map(|flag| format!(" Flag: `{flag}`.")).unwrap_or_default();
        page.push_str(&format!(
            "\n## `{}`\n{} Default: {}.{flag}\n\n{}\n",
            definition.key,
            takes(definition.kind),
            default(definition),
            definition.text
        ));
    }
    page
}

/// A settings file with every setting at its default, commented out.
#[must_use]
pub fn example() -> String {
    let mut file = String::from("# Settings of a Plimsoll node, all at their defaults.\n");
    for definition in SETTINGS {
        let bare = matches!(definition.kind, Kind::Count(..) | Kind::Toggle);
        let quote = if bare { "" } else { "\"" };
        file.push('\n');
        for line in wrapped(definition.text, 90) {
            file.push_str(&format!("# {line}\n"));
        }
        file.push_str(&format!("# {}\n", takes(definition.kind)));
        file.push_str(&format!("#{} = {quote}{}{quote}\n", definition.key, definition.default));
    }
    file
}

fn default(definition: &Definition) -> String {
    if definition.default.is_empty() {
        "none".to_owned()
    } else {
        format!("`{}`", definition.default)
    }
}

fn takes(kind: Kind) -> String {
    let micros = |micros| units::show_duration(std::time::Duration::from_micros(micros));
    match kind {
        Kind::Text => "Text.".to_owned(),
        Kind::Secret => "Text that is never shown.".to_owned(),
        Kind::Path => "A path.".to_owned(),
        Kind::Address => "An address, `host:port`; port 0 takes a free one.".to_owned(),
        Kind::Count(min, max) => format!("A whole number from {min} to {max}."),
        Kind::Bytes(min, max) => {
            format!("A size from {} to {}.", units::show_bytes(min), units::show_bytes(max))
        }
        Kind::Duration(min, max) => format!("A duration from {} to {}.", micros(min), micros(max)),
        Kind::Toggle => "`true` or `false`.".to_owned(),
        Kind::Choice(words) => format!("One of `{}`.", words.join("`, `")),
    }
}

/// Lines of at most `width` characters, broken at spaces.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let line = lines.last_mut().expect("there is always one");
        if !line.is_empty() && line.len() + 1 + word.len() > width {
            lines.push(word.to_owned());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}
