//! The preprocessor (spec § 6.1.3: that of C, as far as P4 programs use it).
//!
//! It works on tokens, not on text, and hands the parser its tokens directly. What a macro's body contributes carries the span of the
//! place where the macro is used, with the place in the body as its origin; what its arguments contribute keeps its own span. So
//! every position lies in a file that the user can open. [`print`] writes the tokens as text for `-E`.
//!
//! Not here: reading files. [`SourceLoader`] does that, so that tests and other tools can keep programs in memory.

mod condition;
mod directive;
mod include;
mod macros;
mod print;
mod string;
#[cfg(test)]
mod tests;

pub use include::{shipped_files, DiskLoader, MemoryLoader, SourceLoader};
pub use print::print;

use crate::diag::{Code, Diagnostic, Diagnostics, FileId, SourceMap, Span};
use crate::syntax::ast::Name;
use crate::syntax::lexer::{lex, Interner};
use crate::syntax::token::{Token, TokenKind};
use macros::{Context, Macro};
use rustc_hash::{FxHashMap, FxHashSet};
use std::path::PathBuf;
use std::rc::Rc;

/// Most tokens that a program may have, and that macros may produce on the way.
const MAX_TOKENS: usize = 2_000_000;
/// Deepest nesting of `#include`.
const MAX_INCLUDES: usize = 100;

/// What the command line says about preprocessing.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-I`: folders in which `#include` searches, in order. The shipped files come after all of them.
    pub include_dirs: Vec<PathBuf>,
    /// `-D` and `-U` in order.
    pub macros: Vec<MacroOption>,
}

/// One `-D` or `-U`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MacroOption {
    /// `-DNAME=VALUE` without the `-D`; `NAME` alone means `NAME=1`.
    Define(String),
    /// `-UNAME` without the `-U`.
    Undefine(String),
}

/// Preprocesses a file that is in the map already. Always returns the tokens it could get; what went wrong is in `diagnostics`.
/// The last token is [`TokenKind::End`]; keywords are told from identifiers.
pub fn preprocess(
    main: FileId,
    map: &mut SourceMap,
    loader: &dyn SourceLoader,
    options: &Options,
    diagnostics: &mut Diagnostics,
) -> Vec<Token> {
    let mut pp = Preprocessor {
        map,
        loader,
        options,
        diagnostics,
        names: Interner::default(),
        macros: FxHashMap::default(),
        files: Vec::new(),
        contexts: Vec::new(),
        once: FxHashSet::default(),
        produced: 0,
        counter: 0,
        depth: 0,
    };
    pp.define_builtins();
    pp.define_from_options();
    pp.enter_file(main);
    pp.run(main)
}

/// A conditional group: `#if` to `#endif`.
#[derive(Debug)]
struct Conditional {
    /// Span of the `#if`.
    span: Span,
    /// Tokens are taken now.
    active: bool,
    /// Some branch was taken, or none may be since the group lies in a part that is left out.
    done: bool,
    /// `#else` was seen.
    in_else: bool,
}

/// A file being read.
#[derive(Debug)]
struct OpenFile {
    id: FileId,
    tokens: Rc<[Token]>,
    pos: usize,
    /// Tokens before `pos`, the next one last: the rest of a line on which a string ended.
    late: Vec<Token>,
    conditionals: Vec<Conditional>,
}

struct Preprocessor<'a> {
    map: &'a mut SourceMap,
    loader: &'a dyn SourceLoader,
    options: &'a Options,
    diagnostics: &'a mut Diagnostics,
    names: Interner,
    macros: FxHashMap<Name, Rc<Macro>>,
    files: Vec<OpenFile>,
    contexts: Vec<Context>,
    once: FxHashSet<String>,
    /// Tokens that came out of macros or files so far.
    produced: usize,
    /// Next value of `__COUNTER__`.
    counter: u32,
    /// Nesting of macro arguments being expanded.
    depth: usize,
}

impl Preprocessor<'_> {
    fn run(&mut self, main: FileId) -> Vec<Token> {
        let mut out = Vec::new();
        while let Some(mut token) = self.next_expanded() {
            match token.kind {
                TokenKind::Ident => {
                    token.kind = TokenKind::keyword(&token.text).unwrap_or(TokenKind::Ident)
                }
                TokenKind::Unknown => {
                    let text = token.text.escape_default();
                    self.diagnostics.error(
                        Code::LEXICAL,
                        token.span,
                        format!("`{text}` is no part of P4"),
                    );
                    continue;
                }
                TokenKind::Hash | TokenKind::HashHash => {
                    let text = token.kind.as_str();
                    self.diagnostics.report(
                        Diagnostic::error(
                            Code::LEXICAL,
                            token.span,
                            format!("unexpected `{text}`"),
                        )
                        .note("directives of the preprocessor stand at the start of a line"),
                    );
                    continue;
                }
                TokenKind::OpenString => {
                    self.diagnostics.report(
                        Diagnostic::error(Code::LEXICAL, token.span, "this string is not closed")
                            .help("add a `\"` at its end"),
                    );
                    token.kind = TokenKind::String;
                }
                _ => {}
            }
            out.push(token);
        }
        let end = self.map.file(main).text.len() as u32;
        out.push(Token {
            kind: TokenKind::End,
            text: self.names.intern(""),
            span: Span::new(main, end, end),
            space_before: true,
            first_on_line: true,
            no_expand: false,
        });
        out
    }

    /// Starts to read a file of the map.
    fn enter_file(&mut self, id: FileId) {
        let text = self.map.file(id).text.clone();
        let lexed = lex(&text, id, &mut self.names);
        if let Some(span) = lexed.open_comment {
            self.diagnostics.report(
                Diagnostic::error(Code::LEXICAL, span, "this comment is not closed")
                    .help("close it with `*/`"),
            );
        }
        self.files.push(OpenFile {
            id,
            tokens: lexed.tokens.into(),
            pos: 0,
            late: Vec::new(),
            conditionals: Vec::new(),
        });
    }

    /// The next token of the files, directives obeyed, before macro expansion.
    fn next_from_files(&mut self) -> Option<Token> {
        loop {
            let file = self.files.last_mut()?;
            if let Some(token) = file.late.pop() {
                return Some(self.whole_string(token));
            }
            let Some(token) = file.tokens.get(file.pos) else {
                let file = self.files.pop()?;
                for open in file.conditionals {
                    self.diagnostics.report(
                        Diagnostic::error(
                            Code::DIRECTIVE,
                            open.span,
                            "this conditional has no `#endif`",
                        )
                        .label("opened here"),
                    );
                }
                continue;
            };
            if token.kind == TokenKind::Hash && token.first_on_line {
                self.directive();
                continue;
            }
            file.pos += 1;
            if file.conditionals.last().is_none_or(|c| c.active) {
                let token = token.clone();
                return Some(self.whole_string(token));
            }
        }
    }

    /// Counts tokens; stops everything when there are too many.
    fn spend(&mut self, tokens: usize, span: Span) -> bool {
        let before = self.produced;
        self.produced = self.produced.saturating_add(tokens);
        if self.produced <= MAX_TOKENS {
            return true;
        }
        if before <= MAX_TOKENS {
            self.diagnostics.report(
                Diagnostic::error(
                    Code::LIMIT,
                    span,
                    format!("the program has more than {MAX_TOKENS} tokens"),
                )
                .help("look for macros that multiply each other"),
            );
        }
        self.files.clear();
        self.contexts.retain(|c| c.barrier);
        for context in &mut self.contexts {
            context.pos = context.tokens.len();
        }
        false
    }
}
