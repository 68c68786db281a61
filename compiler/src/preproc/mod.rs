//! The preprocessor (spec § 6.1.3: the one of C, as far as P4 programs use it).
//!
//! It works on tokens, not on text, and passes tokens directly to the parser. A token from a macro's body has the span of the macro's use,
//! with its place in the body as origin. A token from an argument keeps its own span. So every position is in a file that the user can open.
//! [`print()`] writes the tokens as text for `-E`.
//!
//! It behaves like `cpp -undef -nostdinc -x assembler-with-cpp`, the command of p4c: apostrophes need not be paired, unknown directives are
//! ignored, and a `##` whose result is not a token keeps its operands. There are two kinds of tokens: files are split into tokens of C's
//! preprocessor, and the result into tokens of P4 ([`language`]).
//!
//! Files are read by a [`SourceLoader`], so that tests and other tools can keep programs in memory.

mod builtin;
mod condition;
mod dependencies;
mod directive;
mod include;
mod language;
mod macros;
mod pragma;
mod print;
mod substitute;
#[cfg(test)]
mod tests;

pub(crate) use dependencies::quoted_for_make;
pub use dependencies::Dependencies;
pub use include::{direct, shipped_files, DiskLoader, MemoryLoader, SourceLoader, SHIPPED};
pub use print::print;

use crate::diag::{Code, Diagnostic, Diagnostics, FileId, SourceMap, Span};
use crate::syntax::ast::Name;
use crate::syntax::lexer::{lex, Interner};
use crate::syntax::token::{Token, TokenKind};
use macros::{Context, Macro};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::SystemTime;

/// Maximum number of tokens of a program, and of tokens produced by macros.
const MAX_TOKENS: usize = 2_000_000;
/// Bytes of text for which a token is counted.
const BYTES_OF_TOKEN: usize = 32;
/// Maximum nesting of `#include`.
const MAX_INCLUDES: usize = 200;

/// Options of the preprocessor.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-I`: folders in which `#include` searches, in order. The shipped files come after all of them.
    pub include_dirs: Vec<PathBuf>,
    /// `-D` and `-U` in order.
    pub macros: Vec<MacroOption>,
    /// Do not define `__TARGET_BMV2__`, as in the preprocessor step of the p4c driver.
    pub without_target: bool,
    /// `--nocpp`: the text is already preprocessed. Line markers are applied, other lines that begin with `#` are ignored.
    pub only_marks: bool,
    /// The time of `__DATE__` and `__TIME__`, in UTC. Default: 1970.
    pub now: Option<SystemTime>,
    /// `-MG`: missing files are not errors.
    pub missing_are_generated: bool,
}

/// One `-D` or `-U`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MacroOption {
    /// `-DNAME=VALUE` without the `-D`; `NAME` alone means `NAME=1`.
    Define(String),
    /// `-UNAME` without the `-U`.
    Undefine(String),
}

/// A preprocessed program.
#[derive(Debug)]
pub struct Preprocessed {
    /// Its tokens. The last one is [`TokenKind::End`]; keywords are distinguished from identifiers.
    pub tokens: Vec<Token>,
    /// With [`Options::missing_are_generated`]: the files that were not found, as the program names them.
    pub missing: Vec<String>,
}

/// Preprocesses a file of the map. Errors are reported to `diagnostics`, and the tokens are returned as far as possible.
pub fn preprocess(
    main: FileId,
    map: &mut SourceMap,
    loader: &dyn SourceLoader,
    options: &Options,
    diagnostics: &mut Diagnostics,
) -> Preprocessed {
    let mut pp = Preprocessor {
        map,
        loader,
        options,
        diagnostics,
        names: Interner::default(),
        macros: FxHashMap::default(),
        pushed: FxHashMap::default(),
        files: Vec::new(),
        contexts: Vec::new(),
        once: FxHashSet::default(),
        entered: FxHashSet::default(),
        missing: Vec::new(),
        main,
        last_read: Span::new(main, 0, 0),
        in_string: false,
        taken_out: Vec::new(),
        at_seam: false,
        cut_sign: false,
        produced: 0,
        counter: 0,
        depth: 0,
    };
    if !options.only_marks {
        pp.define_builtins();
        pp.define_from_options();
    }
    pp.enter_file(main, None);
    let tokens = pp.run();
    Preprocessed {
        tokens,
        missing: pp.missing,
    }
}

/// A conditional group: `#if` to `#endif`.
#[derive(Debug)]
struct Conditional {
    /// Span of the `#if`.
    span: Span,
    /// Whether the current branch is active.
    active: bool,
    /// Whether a branch was active already, or the whole group is in an inactive branch.
    done: bool,
    /// Whether `#else` has occurred.
    in_else: bool,
}

/// A file being read.
#[derive(Debug)]
struct OpenFile {
    id: FileId,
    tokens: Rc<[Token]>,
    pos: usize,
    /// Which of the `-I` folders it was found in.
    folder: Option<usize>,
    conditionals: Vec<Conditional>,
}

struct Preprocessor<'a> {
    map: &'a mut SourceMap,
    loader: &'a dyn SourceLoader,
    options: &'a Options,
    diagnostics: &'a mut Diagnostics,
    names: Interner,
    macros: FxHashMap<Name, Rc<Macro>>,
    /// Definitions saved by `#pragma push_macro`.
    pushed: FxHashMap<Name, Vec<Option<Rc<Macro>>>>,
    files: Vec<OpenFile>,
    contexts: Vec<Context>,
    once: FxHashSet<String>,
    /// Files that have been read, for `#import`.
    entered: FxHashSet<String>,
    /// With `-MG`, files that were not found.
    missing: Vec<String>,
    main: FileId,
    /// The last token read from a file.
    last_read: Span,
    /// A string of several lines is read.
    in_string: bool,
    /// What directives took out of the string that is read: from where to where in the text of its file, itself included.
    taken_out: Vec<Range<u32>>,
    /// A macro's expansion or argument began or ended since the last token.
    at_seam: bool,
    /// The last token of P4 is the sign that a number of C ended in.
    cut_sign: bool,
    /// Number of tokens so far, from files and macros.
    produced: usize,
    /// Next value of `__COUNTER__`.
    counter: u32,
    /// Nesting of macro arguments being expanded.
    depth: usize,
}

impl Preprocessor<'_> {
    fn run(&mut self) -> Vec<Token> {
        let mut out = Vec::new();
        while let Some(token) = self.next_expanded() {
            self.emit(token, &mut out);
        }
        let end = self.map.file(self.main).text.len() as u32;
        out.push(Token {
            kind: TokenKind::End,
            text: self.names.intern(""),
            span: Span::new(self.main, end, end),
            space_before: true,
            first_on_line: true,
            no_expand: false,
        });
        out
    }

    /// Starts to read a file of the map.
    fn enter_file(&mut self, id: FileId, folder: Option<usize>) {
        let text = self.map.file(id).text.clone();
        // A file that is left out, or consists of comments, is read nevertheless.
        if !self.spend(text.len() / BYTES_OF_TOKEN, Span::new(id, 0, 0)) {
            return;
        }
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
            folder,
            conditionals: Vec::new(),
        });
    }

    /// The next token of the files, after directives and before macro expansion.
    fn next_from_files(&mut self) -> Option<Token> {
        loop {
            let file = self.files.last_mut()?;
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
            let active = file.conditionals.last().is_none_or(|c| c.active);
            let is_text =
                self.in_string && active && !directive::takes_effect(&file.tokens[file.pos..]);
            if token.kind == TokenKind::Hash && token.first_on_line && !is_text {
                let hash = token.span;
                self.directive();
                if self.in_string {
                    self.note_taken_out(hash);
                }
                continue;
            }
            file.pos += 1;
            if active {
                let token = token.clone();
                self.last_read = token.span;
                return Some(token);
            }
        }
    }

    /// Counts tokens, and stops the preprocessor if there are too many.
    fn spend(&mut self, tokens: usize, span: Span) -> bool {
        let before = self.produced;
        self.produced = self.produced.saturating_add(tokens);
        if self.produced <= MAX_TOKENS {
            return true;
        }
        if before <= MAX_TOKENS {
            self.diagnostics.report_last(
                Diagnostic::error(
                    Code::LIMIT,
                    span,
                    format!("the program has more than {MAX_TOKENS} tokens"),
                )
                .help("check for macros whose expansions multiply"),
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
