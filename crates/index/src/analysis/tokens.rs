//! The tokens of a text on their way from the tokenizer through the filters.

use tantivy::tokenizer::Token;

/// The most bytes that the tokens of one text may take: pieces of pieces of a long text come to
/// its square. What is indexed of it ends there.
pub(super) const BYTES_MAX: usize = 256 << 20;

/// Tokens in slots that are used again for the next text, so that indexing allocates nothing once
/// it runs. How many there may be, and how long, is bounded: what comes after that is left out.
#[derive(Clone, Debug)]
pub(super) struct Tokens {
    pub list: Vec<Token>,
    pub len: usize,
    /// Whether some were left out.
    pub is_cut: bool,
    count_max: usize,
    bytes_max: usize,
    /// Of the texts of all tokens but the last.
    bytes: usize,
}

impl Default for Tokens {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            len: 0,
            is_cut: false,
            count_max: usize::MAX,
            bytes_max: BYTES_MAX,
            bytes: 0,
        }
    }
}

impl Tokens {
    /// None yet, and later no more than so many, which take no more than so many bytes.
    pub fn bounded(count_max: usize, bytes_max: usize) -> Self {
        Self { count_max, bytes_max, ..Self::default() }
    }

    pub fn clear(&mut self) {
        self.len = 0;
        self.bytes = 0;
        self.is_cut = false;
    }

    /// The tokens so far; this is empty then, with the same bounds.
    pub fn take(&mut self) -> Self {
        let empty = Self { list: Vec::new(), len: 0, bytes: 0, ..*self };
        std::mem::replace(self, empty)
    }

    /// The next free slot, counted as used; its text is empty. Where there is no room for it, it
    /// takes the place of the last.
    pub fn push(&mut self, from: usize, to: usize, position: usize) -> &mut Token {
        let last = self.len.checked_sub(1).and_then(|last| self.list.get(last));
        let last_bytes = last.map_or(0, |token| token.text.len());
        if self.len >= self.count_max || self.bytes + last_bytes > self.bytes_max {
            self.is_cut = true;
            self.len -= usize::from(self.len > 0);
        } else {
            self.bytes += last_bytes;
        }
        if self.len == self.list.len() {
            self.list.push(Token::default());
        }
        let token = &mut self.list[self.len];
        self.len += 1;
        token.text.clear();
        token.offset_from = from;
        token.offset_to = to;
        token.position = position;
        token.position_length = 1;
        token
    }

    /// Keeps the tokens for which `keep` holds; the others' positions stay as gaps.
    pub fn retain(&mut self, mut keep: impl FnMut(&Token) -> bool) {
        let mut kept = 0;
        for at in 0..self.len {
            if keep(&self.list[at]) {
                self.list.swap(kept, at);
                kept += 1;
            }
        }
        self.len = kept;
    }

    /// The tokens in use.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Token> {
        self.list[..self.len].iter_mut()
    }
}
