//! From tokens of the preprocessor to tokens of P4.
//!
//! Most are the same. A number of C such as `0..N` is several tokens of P4, and so is what an apostrophe began. A string of P4 may run over
//! lines, which for the preprocessor are a quote that is not closed, whatever stands on the lines between, and another quote.

use super::Preprocessor;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::lexer::lex_language;
use crate::syntax::token::{Token, TokenKind};

impl Preprocessor<'_> {
    /// Adds what a token of the preprocessor is in P4.
    pub(super) fn emit(&mut self, mut token: Token, out: &mut Vec<Token>) {
        if std::mem::take(&mut self.at_seam) && !token.space_before {
            // `cpp` keeps apart what would run together where it did not stand together.
            token.space_before = out
                .last()
                .is_some_and(|last| runs_together(&last.text, &token.text));
        }
        if std::mem::take(&mut self.cut_sign) && !token.space_before {
            token = self.with_sign(token, out);
        }
        match token.kind {
            TokenKind::Ident if &*token.text == "_Pragma" => self.pragma_operator(token),
            TokenKind::Ident => {
                token.kind = TokenKind::keyword(&token.text).unwrap_or(TokenKind::Ident);
                out.push(token);
            }
            TokenKind::Number if token.text.bytes().any(|b| matches!(b, b'.' | b'+' | b'-')) => {
                self.cut_sign = token.text.ends_with(['+', '-']);
                self.emit_text(&token.text.clone(), &token, out)
            }
            TokenKind::Unknown if token.text.len() > 1 => {
                self.emit_text(&token.text.clone(), &token, out)
            }
            TokenKind::OpenString => self.long_string(token, out),
            _ => out.push(token),
        }
    }

    /// A token together with the sign before it: of `0x5E++y`, C's number is `0x5E+`, and P4's next token `++`.
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

    /// Adds the tokens of a text, which is that of `whole` or the end of it.
    fn emit_text(&mut self, text: &str, whole: &Token, out: &mut Vec<Token>) {
        let parts = lex_language(text, &mut self.names);
        // Where the text does not stand in a file as it is, all parts are at the place of the whole.
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

    /// Adds the string whose first line is here. It ends at the next quote, wherever that is; what follows that in its token is
    /// outside. Comments in it are part of the text.
    fn long_string(&mut self, mut open: Token, out: &mut Vec<Token>) {
        let mut string = open.text.to_string();
        let mut escaped = false;
        let mut last = open.span;
        let mut passed = Vec::new();
        loop {
            let directives = self.directives;
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
                // So that what follows is not missed, too.
                for token in passed {
                    self.emit(token, out);
                }
                return;
            };
            let gap = self.gap(last, &next, directives != self.directives);
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

    /// What stands between two tokens within a string.
    fn gap(&self, last: Span, next: &Token, directives: bool) -> String {
        let file = self.map.file(last.file);
        if last.file == next.span.file && last.hi <= next.span.lo {
            let between = file.text.get(last.hi as usize..next.span.lo as usize);
            let between = between.unwrap_or_default();
            return match directives {
                // They are gone, but for their line ends.
                true => "\n".repeat(between.matches('\n').count()),
                false => between.to_owned(),
            };
        }
        String::from(match (next.first_on_line, next.space_before) {
            (true, _) => "\n",
            (false, true) => " ",
            (false, false) => "",
        })
    }
}

/// Whether two tokens would be read as other ones when nothing stands between them.
pub(super) fn runs_together(first: &str, second: &str) -> bool {
    let (Some(a), Some(b)) = (first.chars().last(), second.chars().next()) else {
        return false;
    };
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let sign = |c: char| "+-*/%&|^<>=!.{#}".contains(c);
    (word(a) && word(b)) || (sign(a) && sign(b))
}
