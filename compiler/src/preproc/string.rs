//! Strings over several lines.
//!
//! The lexer ends a string with its line, since in a part that `#if` leaves out a quote may be an apostrophe's sister. In a part that
//! counts the string goes on, as in p4c, to the next quote; comments in it are left out.

use super::Preprocessor;
use crate::diag::Span;
use crate::syntax::lexer::lex_part;
use crate::syntax::token::{Token, TokenKind};

impl Preprocessor<'_> {
    /// The token itself, or the whole string when it is the first line of one.
    pub(super) fn whole_string(&mut self, token: Token) -> Token {
        if token.kind != TokenKind::OpenString {
            return token;
        }
        let Some(file) = self.files.last_mut() else {
            return token;
        };
        let text = self.map.file(file.id).text.clone();
        let Some((string, end)) = string_at(&text, token.span.lo as usize) else {
            return token;
        };
        // What follows on the last line was cut with inside and outside exchanged.
        let line_end = text[end..]
            .find('\n')
            .map_or(text.len(), |length| end + length);
        while file
            .tokens
            .get(file.pos)
            .is_some_and(|later| (later.span.lo as usize) < line_end)
        {
            file.pos += 1;
        }
        file.late = lex_part(&text[..line_end], end, file.id, &mut self.names);
        file.late.reverse();
        Token {
            kind: TokenKind::String,
            text: self.names.intern(&string),
            span: Span {
                hi: end as u32,
                ..token.span
            },
            ..token
        }
    }
}

/// The string that begins at `start` with its quotes, and where it ends.
fn string_at(text: &str, start: usize) -> Option<(String, usize)> {
    let mut string = String::from("\"");
    let mut pos = start + 1;
    loop {
        let rest = text.get(pos..)?;
        let next = rest.chars().next()?;
        pos += match next {
            '"' => {
                string.push('"');
                return Some((string, pos + 1));
            }
            '\\' => {
                let length = 1 + rest.chars().nth(1).map_or(0, char::len_utf8);
                string.push_str(&rest[..length]);
                length
            }
            '/' if rest.starts_with("//") => rest.find('\n')?,
            '/' if rest.starts_with("/*") => rest[2..].find("*/")? + 4,
            _ => {
                string.push(next);
                next.len_utf8()
            }
        };
    }
}
