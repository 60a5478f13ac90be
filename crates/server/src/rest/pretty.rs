//! JSON for people: the same bytes with lines and indents, as Elasticsearch prints them.
//! Numbers and strings stay as they are, so nothing is lost on the way.

/// How many times as long as the bytes themselves their indented form may be: a long list that is
/// nested deeply would be mostly spaces.
const SPACE_TIMES_MAX: usize = 16;
/// How many bytes of space may be added at most.
const SPACE_BYTES_MAX: usize = 64 << 20;
/// How many may always be.
const SPACE_BYTES_MIN: usize = 1 << 20;

/// Indents valid JSON. The last line ends too. What would be mostly spaces stays as it is.
#[must_use]
pub fn pretty(json: &[u8]) -> Vec<u8> {
    let space_max = json.len().saturating_mul(SPACE_TIMES_MAX).min(SPACE_BYTES_MAX);
    let bytes_max = json.len() + space_max.max(SPACE_BYTES_MIN);
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut depth: usize = 0;
    let mut at = 0;
    while let Some(&byte) = json.get(at) {
        if out.len() > bytes_max {
            return json.to_vec();
        }
        match byte {
            b'"' => {
                let end = string_end(json, at);
                out.extend_from_slice(&json[at..end]);
                at = end;
                continue;
            }
            b'{' | b'[' => {
                out.push(byte);
                let inner = json[at + 1..].iter().position(|byte| !byte.is_ascii_whitespace());
                let closes = inner.map(|inner| at + 1 + inner);
                if let Some(end) = closes.filter(|end| matches!(json[*end], b'}' | b']')) {
                    out.extend_from_slice(&[b' ', json[end]]);
                    at = end + 1;
                    continue;
                }
                depth += 1;
                line(&mut out, depth);
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(byte);
            }
            b',' => {
                out.push(byte);
                line(&mut out, depth);
            }
            b':' => out.extend_from_slice(b" : "),
            byte if byte.is_ascii_whitespace() => (),
            byte => out.push(byte),
        }
        at += 1;
    }
    out.push(b'\n');
    out
}

fn line(out: &mut Vec<u8>, depth: usize) {
    out.push(b'\n');
    out.resize(out.len() + 2 * depth, b' ');
}

/// Where the string that begins here is over.
pub(super) fn string_end(json: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = memchr::memchr2(b'"', b'\\', json.get(at..).unwrap_or_default()) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_indents() {
        let json = br#"{"a":1.10,"b":{ },"c":["x\"{,:",{"d":[]}]}"#;
        let expected = "{\n  \"a\" : 1.10,\n  \"b\" : { },\n  \"c\" : [\n    \"x\\\"{,:\",\n    \
                        {\n      \"d\" : [ ]\n    }\n  ]\n}\n";
        assert_eq!(String::from_utf8(pretty(json)).unwrap(), expected);
        let again = pretty(expected.as_bytes());
        assert_eq!(String::from_utf8(again).unwrap(), expected);
    }

    #[test]
    fn what_would_be_mostly_spaces_stays_as_it_is() {
        let levels = 100;
        let zeros = vec!["0"; 100_000].join(",");
        let json = "[".repeat(levels) + &zeros + &"]".repeat(levels);
        assert_eq!(pretty(json.as_bytes()), json.as_bytes());
    }
}
