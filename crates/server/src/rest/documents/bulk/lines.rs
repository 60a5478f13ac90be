//! Lines out of a body that arrives in pieces. A line that lies within one piece is a view of
//! it; only one that spans pieces is copied.

use bytes::{Bytes, BytesMut};

/// What has arrived and is not yet taken.
#[derive(Debug, Default)]
pub struct Lines {
    piece: Bytes,
    /// The beginning of a line whose end is still to come.
    partial: BytesMut,
}

impl Lines {
    /// Takes in the next piece. All lines of the piece before were taken.
    ///
    /// # Panics
    /// Where they were not.
    pub fn push(&mut self, piece: Bytes) {
        assert!(self.piece.is_empty(), "the lines of the last piece were taken");
        self.piece = piece;
    }

    /// The next whole line, without its end; none where more has to arrive.
    #[must_use]
    pub fn next_line(&mut self) -> Option<Bytes> {
        let Some(end) = memchr::memchr(b'\n', &self.piece) else {
            self.partial.extend_from_slice(&self.piece);
            self.piece = Bytes::new();
            return None;
        };
        let mut line = self.piece.split_to(end + 1);
        line.truncate(end);
        if !self.partial.is_empty() {
            self.partial.extend_from_slice(&line);
            line = self.partial.split().freeze();
        }
        if line.last() == Some(&b'\r') {
            line.truncate(line.len() - 1);
        }
        Some(line)
    }

    /// What stands behind the last line end: not empty where the last line has none.
    #[must_use]
    pub fn rest(&self) -> &[u8] {
        &self.partial
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(pieces: &[&[u8]]) -> (Vec<Bytes>, Vec<u8>) {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in pieces {
            lines.push(Bytes::copy_from_slice(piece));
            while let Some(line) = lines.next_line() {
                found.push(line);
            }
        }
        (found, lines.rest().to_vec())
    }

    proptest! {
        /// However a body is cut, its lines are the same.
        #[test]
        fn cuts_do_not_matter(
            text in proptest::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), b'a'..b'd'], 0..80),
            cuts in proptest::collection::vec(0_usize..80, 0..6),
        ) {
            let whole = lines(&[&text]);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &text[cut[0]..cut[1]]).collect();
            prop_assert_eq!(&lines(&pieces), &whole);
            let ends = text.iter().filter(|byte| **byte == b'\n').count();
            prop_assert_eq!(whole.0.len(), ends);
        }
    }
}
