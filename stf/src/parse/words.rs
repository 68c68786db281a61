//! Lexer for one line of a test.

use super::number::number;

/// Characters that end an unquoted name.
const AFTER_NAMES: [char; 5] = [':', '(', ')', ',', '='];

/// Lexer state: the part of the line that is not consumed yet, without surrounding white space.
#[derive(Clone)]
pub(super) struct Words<'a> {
    rest: &'a str,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Words { rest: text.trim() }
    }

    /// Takes the next word, up to white space.
    pub(super) fn next(&mut self) -> Option<&'a str> {
        self.word_until(char::is_whitespace)
    }

    /// Takes the next word, which ends before a character for which `ends` is true. `None` at the end of the line, or
    /// if the word would be empty.
    pub(super) fn word_until(&mut self, ends: impl Fn(char) -> bool) -> Option<&'a str> {
        let end = self.rest.find(ends).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest.trim_start();
        Some(word).filter(|word| !word.is_empty())
    }

    /// Takes the next word. If there is none, returns an error that names `what`, the missing part.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| missing(what))
    }

    /// Takes the next word as a number; `what` names it in the error message.
    pub(super) fn number<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, String> {
        number(self.word(what)?, what)
    }

    /// Takes all remaining words as port numbers.
    pub(super) fn ports(&mut self) -> Result<Vec<u32>, String> {
        std::iter::from_fn(|| self.next())
            .map(|port| number(port, "port"))
            .collect()
    }

    /// Takes all remaining text.
    pub(super) fn rest(&mut self) -> &'a str {
        std::mem::take(&mut self.rest)
    }

    /// Returns whether the remaining text begins with `text`.
    pub(super) fn is_at(&self, text: &str) -> bool {
        self.rest.starts_with(text)
    }

    /// Returns whether no text remains.
    pub(super) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Returns whether the remaining text begins with a decimal digit.
    pub(super) fn is_at_digit(&self) -> bool {
        self.rest.starts_with(|c: char| c.is_ascii_digit())
    }

    /// Skips `text` if the remaining text begins with it. Returns whether it did.
    pub(super) fn skip(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest.trim_start();
                true
            }
            None => false,
        }
    }

    /// Returns an error if text remains on the line.
    pub(super) fn end(&self) -> Result<(), String> {
        match self.rest {
            "" => Ok(()),
            rest => Err(format!("`{rest}` is unexpected at the end of the line")),
        }
    }

    /// Takes the name of an object of the P4 program. A name, or any component of it, may be quoted. Inside quotes, all
    /// other characters are part of the name (P4Testgen quotes all names). An unquoted name ends at white space, `:`,
    /// `(`, `)`, `,` or `=` outside of square brackets.
    pub(super) fn name(&mut self, what: &str) -> Result<String, String> {
        let mut name = String::new();
        let mut depth = 0;
        while let Some(c) = self.rest.chars().next() {
            if let Some(quoted) = self.rest.strip_prefix('"') {
                let (inside, after) = quoted
                    .split_once('"')
                    .ok_or_else(|| format!("the quotation mark of `\"{quoted}` is not closed"))?;
                if inside.trim().is_empty() {
                    return Err(format!("the {what} between the quotation marks is missing"));
                }
                name += inside;
                self.rest = after;
                continue;
            }
            match c {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth <= 0 && (c.is_whitespace() || AFTER_NAMES.contains(&c)) {
                break;
            }
            name.push(c);
            self.rest = &self.rest[c.len_utf8()..];
        }
        self.rest = self.rest.trim_start();
        match name.is_empty() {
            true => Err(missing(what)),
            false => Ok(name),
        }
    }
}

/// Returns the error for a missing part of a command.
pub(super) fn missing(what: &str) -> String {
    format!("the {what} is missing")
}

/// Removes the comment of a line, which `#` outside of quotation marks begins.
pub(super) fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let comment = line.find(|c| {
        quoted ^= c == '"';
        c == '#' && !quoted
    });
    &line[..comment.unwrap_or(line.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_parts_of_names_are_joined() {
        let name = |text| Words::new(text).name("name");
        assert_eq!(name("\"a b\".c[1]:2"), Ok("a b.c[1]".to_owned()));
        assert_eq!(name("\"a\".\"b(c)\" (x)"), Ok("a.b(c)".to_owned()));
        assert_eq!(name("h.x[3:0]:5"), Ok("h.x[3:0]".to_owned()));
        assert_eq!(name("()"), Err("the name is missing".to_owned()));
        assert!(name("\"\"").is_err());
    }

    #[test]
    fn an_unclosed_quotation_mark_is_rejected() {
        let error = Words::new("\"ingress.t x:1").name("table").unwrap_err();
        assert_eq!(
            error,
            "the quotation mark of `\"ingress.t x:1` is not closed"
        );
    }

    #[test]
    fn comments_begin_outside_of_quotation_marks() {
        assert_eq!(without_comment("add \"a#b\" # c"), "add \"a#b\" ");
        assert_eq!(without_comment("# say \"x"), "");
    }
}
