//! The preprocessor: the C preprocessor, as far as P4 programs use it (spec § 6.1.3).
//!
//! It works on tokens, not on text, and passes tokens directly to the parser. A token from a macro's body has the span of the macro's use,
//! and its position in the body as [`Origin`](crate::diag::Origin). A token from an argument keeps its own span. So every position is in a file that the user can open.
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
pub use include::{normalize, shipped_files, DiskLoader, MemoryLoader, SourceLoader, SHIPPED};
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
/// Bytes of text that count as one token for [`MAX_TOKENS`].
const BYTES_OF_TOKEN: usize = 32;
/// Maximum nesting of `#include`.
const MAX_INCLUDES: usize = 200;

/// Options of the preprocessor, from the command line.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// `-I`: folders in which `#include` searches, in order. The shipped files come after all of them.
    pub include_dirs: Vec<PathBuf>,
    /// `-D` and `-U`, in order of the command line.
    pub macros: Vec<MacroOption>,
    /// Name of a predefined macro of the target, whose value is 1. Default: there is none.
    pub target_macro: Option<&'static str>,
    /// `--nocpp`: whether the text is already preprocessed. Line markers are applied, and other lines that begin with
    /// `#` are ignored.
    pub only_line_markers: bool,
    /// The time of `__DATE__` and `__TIME__`, in UTC. Default: 1970.
    pub now: Option<SystemTime>,
    /// `-MG`: whether missing files are assumed to be generated later, and are not errors.
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

/// The result of preprocessing a program.
#[derive(Debug)]
pub struct Preprocessed {
    /// Tokens of the program. The last one is [`TokenKind::End`]; keywords are distinguished from identifiers.
    pub tokens: Vec<Token>,
    /// With [`Options::missing_are_generated`]: included files that were not found, as written in the program.
    pub missing: Vec<String>,
}

/// Preprocesses the file `main` of `map`, and adds included files to `map`. Errors are reported to `diagnostics`; tokens are returned in
/// spite of errors.
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
        saved_macros: FxHashMap::default(),
        files: Vec::new(),
        contexts: Vec::new(),
        read_once: FxHashSet::default(),
        files_read: FxHashSet::default(),
        missing: Vec::new(),
        main,
        last_read: Span::new(main, 0, 0),
        in_string: false,
        removed: Vec::new(),
        at_macro_edge: false,
        ends_in_sign: false,
        token_count: 0,
        counter: 0,
        depth: 0,
    };
    if !options.only_line_markers {
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
    /// Whether no further branch of the group can be active: an earlier branch was active, or the whole group is in an
    /// inactive branch.
    done: bool,
    /// Whether `#else` has occurred.
    in_else: bool,
}

/// A file that is being read.
#[derive(Debug)]
struct OpenFile {
    id: FileId,
    tokens: Rc<Vec<Token>>,
    pos: usize,
    /// Index of the `-I` folder that contains the file, after which `#include_next` starts its search; `None` for files
    /// in other folders.
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
    /// For each macro name, the definitions saved by `#pragma push_macro`.
    saved_macros: FxHashMap<Name, Vec<Option<Rc<Macro>>>>,
    files: Vec<OpenFile>,
    contexts: Vec<Context>,
    read_once: FxHashSet<String>,
    /// Names of the files that have been read, for `#import`.
    files_read: FxHashSet<String>,
    /// With `-MG`, included files that were not found.
    missing: Vec<String>,
    main: FileId,
    /// The last token read from a file.
    last_read: Span,
    /// Whether a string of several lines is being read.
    in_string: bool,
    /// Byte ranges of the file that directives remove from the string being read, the directives included.
    removed: Vec<Range<u32>>,
    /// Whether a macro expansion or argument began or ended since the last token.
    at_macro_edge: bool,
    /// Whether the last token is the sign at the end of a number such as `0x5E+`, which is one preprocessing token but two tokens of P4.
    ends_in_sign: bool,
    /// Number of tokens so far, from files and macros; limited to [`MAX_TOKENS`].
    token_count: usize,
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

    /// Starts to read a file of the map; `folder` as in [`OpenFile::folder`].
    fn enter_file(&mut self, id: FileId, folder: Option<usize>) {
        let text = self.map.file(id).text.clone();
        // Files without tokens count, too, so that including them again and again is limited.
        if !self.count_tokens(text.len() / BYTES_OF_TOKEN, Span::new(id, 0, 0)) {
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
            tokens: Rc::new(lexed.tokens),
            pos: 0,
            folder,
            conditionals: Vec::new(),
        });
    }

    /// Reads the next token of the files: executes directives, but does not expand macros.
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
                self.in_string && active && !directive::is_directive(&file.tokens[file.pos..]);
            if token.kind == TokenKind::Hash && token.first_on_line && !is_text {
                let hash = token.span;
                self.directive();
                if self.in_string {
                    self.record_removed(hash);
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

    /// Counts tokens. Returns false, and ends the input, if there are more than [`MAX_TOKENS`].
    fn count_tokens(&mut self, tokens: usize, span: Span) -> bool {
        let before = self.token_count;
        self.token_count = self.token_count.saturating_add(tokens);
        if self.token_count <= MAX_TOKENS {
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
