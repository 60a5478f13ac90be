//! `minimum_should_match`: a number, a percentage, either of them less than nothing, or several
//! of them under conditions (`2<75% 9<-3`).

use crate::error::Error;

/// How many of so many optional clauses have to match; at least 0.
///
/// # Errors
/// 400 where the text is none of the forms.
pub(crate) fn minimum_should_match(text: &str, clauses: usize) -> Result<usize, Error> {
    let text = text.trim();
    let count = i64::try_from(clauses).unwrap_or(i64::MAX);
    let wrong =
        || Error::invalid("number_format_exception", format!("For input string: \"{text}\""));
    if !text.contains('<') {
        return one(text, count).ok_or_else(wrong);
    }
    // Without a condition that is met, all have to match.
    let mut result = clauses;
    for part in text.split_whitespace() {
        let (limit, then) = part.split_once('<').ok_or_else(wrong)?;
        let limit: i64 = limit.trim().parse().map_err(|_| wrong())?;
        if count <= limit {
            return Ok(result);
        }
        result = one(then, count).ok_or_else(wrong)?;
    }
    Ok(result)
}

fn one(text: &str, count: i64) -> Option<usize> {
    let needed = match text.trim().strip_suffix('%') {
        Some(percent) => {
            let percent: i64 = percent.trim().parse().ok()?;
            // As Java's cast does: towards zero.
            let part = count.checked_mul(percent)? / 100;
            if part < 0 { count + part } else { part }
        }
        None => {
            let number: i64 = text.trim().parse().ok()?;
            if number < 0 { count.saturating_add(number) } else { number }
        }
    };
    usize::try_from(needed.max(0)).ok()
}

#[cfg(test)]
mod tests {
    use super::minimum_should_match;

    #[test]
    fn every_form_is_counted() {
        for (text, clauses, expected) in [
            ("2", 5, 2),
            ("-1", 5, 4),
            ("75%", 4, 3),
            ("75%", 5, 3),
            ("-25%", 4, 3),
            ("-25%", 5, 4),
            ("-9", 3, 0),
            ("2<75%", 2, 2),
            ("2<75%", 4, 3),
            ("2<-25% 9<-3", 12, 9),
            ("2<-25% 9<-3", 8, 6),
        ] {
            assert_eq!(
                minimum_should_match(text, clauses).ok(),
                Some(expected),
                "{text} of {clauses}"
            );
        }
        assert!(minimum_should_match("x", 2).is_err());
        assert!(minimum_should_match("2<", 4).is_err());
        assert!(minimum_should_match("9223372036854775807%", 4).is_err());
    }
}
