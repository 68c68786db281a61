//! Conversion of preprocessing tokens to tokens of P4.
//!
//! Most tokens are equal in both. A preprocessing number such as `0..N` is several tokens of P4, and so is text after an apostrophe. A string of P4 may
//! contain line breaks; for the preprocessor this is an unclosed quote, arbitrary text, and another quote.

use super::Preprocessor;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::lexer::lex_language;
use crate::syntax::token::{Token, TokenKind};

impl Preprocessor<'_> {
    /// Converts a preprocessing token to tokens of P4 and appends them to `out`.
    pub(super) fn emit(&mut self, mut token: Token, out: &mut Vec<Token>) {
        if std::mem::take(&mut self.at_macro_edge) && !token.space_before {
            // As `cpp`, separate the tokens of different macros if they would otherwise form one token.
            token.space_before = out
                .last()
                .is_some_and(|last| runs_together(&last.text, &token.text));
        }
        if std::mem::take(&mut self.ends_in_sign) && !token.space_before {
            token = self.with_sign(token, out);
        }
        match token.kind {
            TokenKind::Ident if &*token.text == "_Pragma" => self.pragma_operator(token),
            TokenKind::Ident => {
                token.kind = TokenKind::keyword(&token.text).unwrap_or(TokenKind::Ident);
                out.push(token);
            }
            TokenKind::Number if token.text.bytes().any(|b| matches!(b, b'.' | b'+' | b'-')) => {
                self.ends_in_sign = token.text.ends_with(['+', '-']);
                self.emit_text(&token.text.clone(), &token, out)
            }
            TokenKind::Unknown if token.text.len() > 1 => {
                self.emit_text(&token.text.clone(), &token, out)
            }
            TokenKind::OpenString => self.long_string(token, out),
            _ => out.push(token),
        }
    }

    /// Joins a token with the sign before it if both form one token of P4. In `0x5E++y`, C's number is `0x5E+`, but P4's second token is
    /// `++`.
    fn with_sign(&mut self, token: Token, out: &mut Vec<Token>) -> Token {
        let sign = match out.last() {
            Some(last) if token.text.starts_with(['+', '-', '=']) => last.clone(),
            _ => return token,
        };
        let mut whole = token.clone();
        whole.text = self.names.intern(&format!("{}{}", sign.text, token.text));
        if sign.span.file == token.span.file {
            whole.span.lo = sign.span.lo;
        }
        let mut parts = lex_language(&whole.text, &mut self.names);
        if parts.len() != 1 {
            return token;
        }
        out.pop();
        whole.kind = parts.remove(0).kind;
        whole
    }

    /// Converts `text` to tokens of P4. `text`: the text of the token `whole`, or the end of that text.
    fn emit_text(&mut self, text: &str, whole: &Token, out: &mut Vec<Token>) {
        let parts = lex_language(text, &mut self.names);
        // If the text is not literally in a file, all parts get the span of the whole.
        let verbatim = self.map.text(whole.span).ends_with(text);
        let base = whole.span.hi.saturating_sub(text.len() as u32);
        for (i, mut part) in parts.into_iter().enumerate() {
            let (lo, hi) = (base + part.span.lo, base + part.span.hi);
            part.span = match verbatim {
                true => Span {
                    lo,
                    hi,
                    ..whole.span
                },
                false => whole.span,
            };
            if i == 0 && text.len() == whole.text.len() {
                part.space_before = whole.space_before;
                part.first_on_line = whole.first_on_line;
            }
            match part.kind {
                TokenKind::OpenString => self.long_string(part, out),
                TokenKind::Ident => {
                    part.kind = TokenKind::keyword(&part.text).unwrap_or(TokenKind::Ident);
                    out.push(part);
                }
                _ => out.push(part),
            }
        }
    }

    /// Appends a string of several lines; `open` is its first line. The string ends at the next quote in any token; the rest of that
    /// token is converted. Comments within the string are part of it.
    fn long_string(&mut self, mut open: Token, out: &mut Vec<Token>) {
        let mut string = open.text.to_string();
        let mut escaped = false;
        let mut last = open.span;
        let mut passed = Vec::new();
        let mut spliced_line_ends = 0;
        self.removed.clear();
        loop {
            self.in_string = true;
            let next = self.next_expanded();
            self.in_string = false;
            let Some(next) = next else {
                self.diagnostics.report(
                    Diagnostic::error(Code::LEXICAL, open.span, "this string is not closed")
                        .help("add a `\"` at its end"),
                );
                open.kind = TokenKind::String;
                out.push(open);
                // Convert the tokens after the opening quote, so that the error affects no more than that quote.
                for token in passed {
                    self.emit(token, out);
                }
                return;
            };
            let gap = self.gap(last, &next, &mut spliced_line_ends);
            let text = gap + &next.text;
            for (at, c) in text.char_indices() {
                string.push(c);
                match c {
                    '"' if !escaped => {
                        open.kind = TokenKind::String;
                        open.text = self.names.intern(&string);
                        if open.span.file == next.span.file {
                            open.span.hi = open.span.hi.max(next.span.lo);
                        }
                        out.push(open);
                        let rest = text[at + 1..].to_owned();
                        self.emit_text(&rest, &next, out);
                        return;
                    }
                    '\\' => escaped = !escaped,
                    _ => escaped = false,
                }
            }
            last = next.span;
            passed.push(next);
        }
    }

    /// The text that `cpp -C` prints between two tokens within a string: comments unchanged, the indentation of a line, one space for
    /// other white space, and all line ends, also those of lines that directives removed. `spliced_line_ends`: line ends after backslashes, which
    /// `cpp` prints after the next line end.
    fn gap(&self, last: Span, next: &Token, spliced_line_ends: &mut usize) -> String {
        let file = self.map.file(last.file);
        let between = match last.file == next.span.file {
            true => file.text.get(last.hi as usize..next.span.lo as usize),
            false => None,
        };
        let Some(between) = between else {
            return String::from(match (next.first_on_line, next.space_before) {
                (true, _) => "\n",
                (false, true) => " ",
                (false, false) => "",
            });
        };
        let mut gap = Gap::default();
        let mut at = 0;
        while at < between.len() {
            let place = last.hi + at as u32;
            let removed = self.removed.iter().find(|r| r.contains(&place));
            let rest = &between[at..];
            at += match removed {
                Some(range) => {
                    let taken = &rest[..rest.len().min((range.end - place) as usize)];
                    gap.line_ends(taken.matches('\n').count());
                    taken.len()
                }
                None => gap.take(rest, spliced_line_ends),
            };
        }
        let space = match gap.in_call && !gap.on_new_line {
            true => usize::from(next.space_before),
            false => gap.space,
        };
        gap.text + &" ".repeat(space)
    }

    /// Records that a directive within a string is removed; `hash` is its `#`. If the directive makes the branch inactive, the text up to
    /// the next directive is removed, too.
    pub(super) fn record_removed(&mut self, hash: Span) {
        let Some(file) = self.files.last().filter(|f| f.id == hash.file) else {
            return;
        };
        let text = &self.map.file(hash.file).text;
        let end = match file.conditionals.last().is_none_or(|c| c.active) {
            true => {
                let last = file.tokens[file.pos - 1].span.hi;
                let rest = text.get(last as usize..).unwrap_or_default();
                last + rest.find('\n').unwrap_or(rest.len()) as u32
            }
            false => text.len() as u32,
        };
        match self.removed.last_mut() {
            Some(before) if before.contains(&hash.lo) => before.end = end,
            _ => self.removed.push(hash.lo..end),
        }
    }
}

/// The text between two tokens within a string, as `cpp -C` prints it; under construction.
#[derive(Debug, Default)]
struct Gap {
    text: String,
    /// Number of spaces to print before the next comment or token.
    space: usize,
    on_new_line: bool,
    /// Whether the gap contains part of a macro call, which its expansion replaces.
    in_call: bool,
}

impl Gap {
    fn line_ends(&mut self, count: usize) {
        self.text.extend(std::iter::repeat_n('\n', count));
        if count > 0 {
            self.space = 0;
            self.on_new_line = true;
            self.in_call = false;
        }
    }

    /// Consumes white space, a line end, a comment or one character of a macro call from the front of `rest`; returns the number of
    /// bytes.
    fn take(&mut self, rest: &str, spliced_line_ends: &mut usize) -> usize {
        if rest.starts_with('\n') {
            self.line_ends(1 + std::mem::take(spliced_line_ends));
            return 1;
        }
        let comment = comment_length(rest);
        if comment > 0 {
            self.text.extend(std::iter::repeat_n(' ', self.space));
            self.text.push_str(&rest[..comment]);
            self.space = 0;
            self.on_new_line = false;
            return comment;
        }
        if rest.starts_with('\\') {
            // A backslash at the end of a line: the lines are joined.
            let length = rest.find('\n').map_or(rest.len(), |end| end + 1);
            *spliced_line_ends += 1;
            return length;
        }
        let next = rest.chars().next().unwrap_or_default();
        self.in_call |= !next.is_ascii_whitespace();
        self.space = match (self.in_call, self.on_new_line) {
            (true, _) => self.space,
            (false, true) => self.space + 1,
            (false, false) => 1,
        };
        next.len_utf8()
    }
}

/// Length of the comment at the start of `rest`, in bytes; 0 if there is none.
pub(super) fn comment_length(rest: &str) -> usize {
    match rest.get(..2) {
        Some("//") => line_comment(rest),
        Some("/*") => rest[2..].find("*/").map_or(rest.len(), |end| end + 4),
        _ => 0,
    }
}

fn line_comment(rest: &str) -> usize {
    rest.match_indices('\n')
        .find(|(end, _)| {
            !rest[..*end]
                .trim_end_matches([' ', '\t', '\r'])
                .ends_with('\\')
        })
        .map_or(rest.len(), |(end, _)| end)
}

/// Whether two tokens need a blank between them, because they would otherwise be lexed differently.
pub(super) fn runs_together(first: &str, second: &str) -> bool {
    let (Some(a), Some(b)) = (first.chars().last(), second.chars().next()) else {
        return false;
    };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let sign = |c: char| "+-*/%&|^<>=!.{#}".contains(c);
    (word(a) && word(b)) || (sign(a) && sign(b))
}
