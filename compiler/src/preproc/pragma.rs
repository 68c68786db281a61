//! `#pragma` and `_Pragma`: the pragmas that the preprocessor implements. Others are ignored.

use super::Preprocessor;
use crate::diag::{Code, Diagnostic, FileId, Span, Warning};
use crate::syntax::ast::Name;
use crate::syntax::lexer::lex;
use crate::syntax::token::{Token, TokenKind};

impl Preprocessor<'_> {
    /// Executes a pragma; `line` is the rest of the line after `pragma`.
    pub(super) fn pragma(&mut self, line: &[Token], span: Span) {
        let words: Vec<&str> = line.iter().take(2).map(|t| &*t.text).collect();
        match words[..] {
            ["once", ..] => {
                let file = self.files.last().map(|file| file.id);
                if let Some(file) = file.filter(|file| *file != self.main) {
                    self.read_once.insert(self.map.file(file).name.clone());
                }
            }
            ["push_macro", ..] => {
                if let Some(name) = self.named_macro(&line[1..]) {
                    let current = self.macros.get(&name).cloned();
                    self.saved_macros.entry(name).or_default().push(current);
                }
            }
            ["pop_macro", ..] => {
                let name = self.named_macro(&line[1..]);
                let kept =
                    name.and_then(|name| Some((self.saved_macros.get_mut(&name)?.pop()?, name)));
                match kept {
                    Some((Some(mac), name)) => drop(self.macros.insert(name, mac)),
                    Some((None, name)) => drop(self.macros.remove(&name)),
                    None => {}
                }
            }
            ["GCC", "error"] => {
                self.diagnostics
                    .error(Code::USER_ERROR, span, text(&line[2..]));
            }
            ["GCC", "warning"] => {
                let text = text(&line[2..]);
                self.diagnostics.warning(Warning::Preprocessor, span, text);
            }
            _ => {}
        }
    }

    /// Parses the operand `("NAME")` of `push_macro` and `pop_macro`.
    fn named_macro(&mut self, line: &[Token]) -> Option<Name> {
        let [open, name, close] = line else {
            return None;
        };
        let kinds = [open.kind, name.kind, close.kind];
        let well_formed = kinds == [TokenKind::LParen, TokenKind::String, TokenKind::RParen];
        well_formed.then(|| self.names.intern(name.text.trim_matches('"')))
    }

    /// Executes `_Pragma("...")`, which acts as a line `#pragma ...` and expands to no tokens.
    pub(super) fn pragma_operator(&mut self, word: Token) {
        let open = self.next_expanded();
        let text = self.next_expanded();
        let close = self.next_expanded();
        let kinds = [&open, &text, &close].map(|token| token.as_ref().map(|token| token.kind));
        let expected = [TokenKind::LParen, TokenKind::String, TokenKind::RParen].map(Some);
        let Some(text) = text.filter(|_| kinds == expected) else {
            self.diagnostics.report(
                Diagnostic::error(Code::DIRECTIVE, word.span, "`_Pragma` needs a string")
                    .help("write `_Pragma(\"...\")`"),
            );
            return;
        };
        let line = text
            .text
            .trim_matches('"')
            .replace("\\\"", "\"")
            .replace("\\\\", "\\");
        let tokens = lex(&line, FileId::default(), &mut self.names).tokens;
        self.pragma(&tokens, word.span);
    }
}

/// The text of a message in a pragma, without quotes.
fn text(line: &[Token]) -> String {
    let words: Vec<&str> = line.iter().map(|t| t.text.trim_matches('"')).collect();
    words.join(" ")
}
