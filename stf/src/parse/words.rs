//! A line, read word by word.

use super::number::number;

/// What is left of a line.
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Words { rest: text.trim() }
    }

    pub(super) fn next(&mut self) -> Option<String> {
        if self.rest.is_empty() {
            return None;
        }
        // Blanks inside of quotes belong to the word.
        let mut quoted = false;
        let end = self.rest.find(|c: char| {
            quoted ^= c == '"';
            c.is_whitespace() && !quoted
        });
        let (word, rest) = self.rest.split_at(end.unwrap_or(self.rest.len()));
        self.rest = rest.trim_start();
        Some(word.to_owned())
    }

    pub(super) fn word(&mut self, what: &str) -> Result<String, String> {
        self.next().ok_or_else(|| format!("the {what} is missing"))
    }

    pub(super) fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        number(&self.word(what)?, what)
    }

    pub(super) fn ports(&mut self) -> Result<Vec<u32>, String> {
        std::iter::from_fn(|| self.next())
            .map(|port| number(&port, "port"))
            .collect()
    }

    pub(super) fn rest(&mut self) -> String {
        std::mem::take(&mut self.rest).to_owned()
    }
}
