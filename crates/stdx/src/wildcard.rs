//! Patterns in which `*` stands for any characters, as in names of indices, nodes and fields. No
//! other sign means anything.

/// Whether a name fits a pattern in which `*` stands for any characters. Linear in the name for
/// each `*`, whatever the pattern.
#[must_use]
pub fn wildcard_matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(middle) = last.replace(part) {
            match rest.find(middle) {
                Some(at) => rest = &rest[at + middle.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(end) => rest.ends_with(end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards() {
        for (pattern, name, expected) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("*b*b", "ab", false),
            ("a*b*c", "a1b2b3c", true),
            ("a", "ab", false),
            ("aa*a", "aa", false),
        ] {
            assert_eq!(wildcard_matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
