//! The parser: converts tokens to the syntax tree.
//!
//! Each production of the grammar (specification 1.2.5, appendix H) has a function of its name. The parser always returns a tree: it reports
//! a syntax error, omits the construct or inserts an `Invalid` node with the proof of the error, and continues after the next `;` or `}`. So
//! one run reports several independent errors.
//!
//! Two constructs of P4 are ambiguous unless the set of type names is known. `(a) - b` is a cast if `a` is a type; [`Parser::types`] has
//! the declared names for this. `f<a>(b)` is a call if `<a>` are type arguments, which is decided by lookahead.
//!
//! Nesting and the height of expressions are limited by [`levels`], so that neither the parser nor later phases overflow the stack.

mod annotation;
mod decl;
mod expr;
mod stmt;
mod table;
mod types;

use super::ast::*;
use super::token::{Token, TokenKind};
use crate::diag::{Code, Diagnostic, Diagnostics, ErrorReported, Span};
use crate::stack::levels;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// What to do with a program in P4_14, as a message says it.
pub const TRANSLATE_P4_14: &str = "translate the program with `p4test --p4v 14 --pp`";

/// Maximum number of `[...]` after a type.
const MAX_DIMENSIONS: u32 = 200;

/// Parses a program. `tokens` are those of the preprocessor and end with [`TokenKind::End`]. Errors are reported to `diagnostics`.
pub fn parse(tokens: Vec<Token>, diagnostics: &mut Diagnostics) -> P4Program {
    parse_without(tokens, &BTreeSet::new(), diagnostics)
}

/// Parses a program without the annotations in `disabled` (`--disable-annotations`). A warning is reported for each of them.
pub fn parse_without(
    tokens: Vec<Token>,
    disabled: &BTreeSet<String>,
    diagnostics: &mut Diagnostics,
) -> P4Program {
    let tokens = annotation::without_unknown(tokens, diagnostics);
    let mut parser = Parser {
        tokens,
        disabled,
        pos: 0,
        diagnostics,
        exprs: 0,
        heights: Vec::new(),
        gt_ends: false,
        type_refs: 0,
        decls: 0,
        depth: 0,
        max_depth: levels(),
        quiet: 0,
        types: vec![FxHashMap::default()],
        declared: Vec::new(),
        skipped_spans: Vec::new(),
        has_errors: false,
    };
    let decls = parser.p4_program();
    let mut skipped_names = Vec::new();
    if parser.has_errors {
        skipped_names = parser.declared;
        skipped_names.sort();
        skipped_names.dedup();
    }
    P4Program {
        decls,
        skipped_names,
        skipped_spans: parser.skipped_spans,
        expr_count: parser.exprs,
        type_ref_count: parser.type_refs,
        decl_count: parser.decls,
    }
}

/// A production that cannot be parsed, with the proof that its error was reported; `None` within [`Parser::attempt`], which reports none.
/// The caller skips to a token where parsing can resume.
#[derive(Clone, Copy, Debug)]
struct SyntaxError(Option<ErrorReported>);

type Parse<T> = Result<T, SyntaxError>;

struct Parser<'a> {
    tokens: Vec<Token>,
    /// Names of annotations to omit (`--disable-annotations`).
    disabled: &'a BTreeSet<String>,
    pos: usize,
    diagnostics: &'a mut Diagnostics,
    exprs: u32,
    /// Height of each expression tree, by [`ExprId`].
    heights: Vec<u32>,
    /// Whether a `>` ends the enclosing width `<...>`, and is not an operator.
    gt_ends: bool,
    type_refs: u32,
    decls: u32,
    /// Current nesting of productions, in levels.
    depth: u32,
    /// Limit of `depth`; deeper nesting is an error.
    max_depth: u32,
    /// Number of nested [`Parser::attempt`]s. While positive, no errors are reported.
    quiet: u32,
    /// For each open scope, the declared names and whether each is a type.
    types: Vec<FxHashMap<Name, bool>>,
    /// Names declared in any scope, also in text that was skipped, in order of the source with repetitions.
    declared: Vec<Name>,
    /// First token of each text that was skipped after a syntax error.
    skipped_spans: Vec<Span>,
    /// Whether an error was reported.
    has_errors: bool,
}

impl Parser<'_> {
    fn token(&self) -> &Token {
        &self.tokens[self.pos]
    }

    fn kind(&self) -> TokenKind {
        self.tokens[self.pos].kind
    }

    fn peek(&self, ahead: usize) -> TokenKind {
        self.tokens
            .get(self.pos + ahead)
            .map_or(TokenKind::End, |t| t.kind)
    }

    fn span(&self) -> Span {
        self.tokens[self.pos].span
    }

    /// Span of the token before the current one.
    fn last_span(&self) -> Span {
        self.tokens[self.pos.saturating_sub(1)].span
    }

    fn at(&self, kind: TokenKind) -> bool {
        self.kind() == kind
    }

    /// Consumes the current token, unless it is the last, and returns its span.
    fn bump(&mut self) -> Span {
        let span = self.span();
        if !self.at(TokenKind::End) {
            self.pos += 1;
        }
        span
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.at(kind);
        if found {
            self.bump();
        }
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Parse<Span> {
        if self.at(kind) {
            return Ok(self.bump());
        }
        Err(self.expected(&format!("`{}`", kind.as_str())))
    }

    /// Parses a `;`. A `;` that is missing at the end of a line is reported, and parsing continues as if it were present.
    fn semicolon(&mut self) -> Parse<Span> {
        if self.at(TokenKind::Semicolon) {
            return Ok(self.bump());
        }
        if self.token().first_on_line || self.at(TokenKind::RBrace) || self.at(TokenKind::End) {
            let at = self.last_span();
            self.error(
                Diagnostic::error(Code::SYNTAX, at.after(), "expected `;`").label("add `;` here"),
            );
            return Ok(at);
        }
        Err(self.expected("`;`"))
    }

    /// Reports an error, except within [`Parser::attempt`].
    fn error(&mut self, diagnostic: Diagnostic) -> SyntaxError {
        if self.quiet > 0 {
            return SyntaxError(None);
        }
        self.has_errors = true;
        SyntaxError(Some(self.diagnostics.report_error(diagnostic)))
    }

    /// Description of the current token for messages.
    fn found(&self) -> String {
        let token = self.token();
        match token.kind {
            TokenKind::End => "end of file".into(),
            TokenKind::String => "a string".into(),
            TokenKind::Ident => format!("`{}`", token.text),
            TokenKind::Number => format!("`{}`", token.text),
            kind if kind.as_str().starts_with(|c: char| c.is_ascii_alphabetic()) => {
                format!("keyword `{}`", token.text)
            }
            kind => format!("`{}`", kind.as_str()),
        }
    }

    /// Reports that `what` was expected at the current token.
    fn expected(&mut self, what: &str) -> SyntaxError {
        let found = self.found();
        let span = self.span();
        self.error(
            Diagnostic::error(
                Code::SYNTAX,
                span,
                format!("expected {what}, found {found}"),
            )
            .label(format!("expected {what}")),
        )
    }

    /// Runs a production at the next nesting level.
    fn nested<T>(&mut self, production: impl FnOnce(&mut Self) -> Parse<T>) -> Parse<T> {
        self.enter_level()?;
        let result = production(self);
        self.depth -= 1;
        result
    }

    /// Enters the next nesting level; the caller restores `depth` at its end. Fails at the maximum.
    fn enter_level(&mut self) -> Parse<()> {
        if self.depth >= self.max_depth {
            let span = self.span();
            return Err(self.report_too_deep(span));
        }
        self.depth += 1;
        Ok(())
    }

    /// Reports that the program is nested more deeply than the compiler's stack allows. Later errors are not reported, as they would
    /// follow from the omitted text.
    fn report_too_deep(&mut self, span: Span) -> SyntaxError {
        if self.quiet > 0 {
            return SyntaxError(None);
        }
        self.has_errors = true;
        let message = format!("this is nested more than {} levels deep", self.max_depth);
        let reported = self.diagnostics.report_last(
            Diagnostic::error(Code::NESTING, span, message)
                .note("parentheses, braces, operators and the `else if`s of a chain are one level each")
                .help("split it into several statements, actions, functions or controls"),
        );
        SyntaxError(Some(reported))
    }

    /// Tries a production without reporting errors. If it fails, the parser's position and ids are restored.
    fn attempt<T>(&mut self, production: impl FnOnce(&mut Self) -> Parse<T>) -> Option<T> {
        let before = (self.pos, self.exprs, self.type_refs, self.decls);
        self.quiet += 1;
        let result = production(self);
        self.quiet -= 1;
        if result.is_err() {
            (self.pos, self.exprs, self.type_refs, self.decls) = before;
            self.heights.truncate(self.exprs as usize);
        }
        result.ok()
    }

    /// Skips the rest of a statement or simple declaration: to after the next `;`, or to the `}` of the enclosing block. Nested braces
    /// are skipped with their contents. Stops before keywords that can only begin a declaration.
    fn skip_statement(&mut self) {
        self.skip_statement_within(0);
    }

    /// Like [`Parser::skip_statement`], from within `open` braces of the statement.
    fn skip_statement_within(&mut self, mut open: u32) {
        loop {
            match self.kind() {
                TokenKind::End => return,
                TokenKind::Semicolon if open == 0 => {
                    self.bump();
                    return;
                }
                TokenKind::LBrace => open += 1,
                TokenKind::RBrace if open == 0 => return,
                TokenKind::RBrace => {
                    open -= 1;
                    if open == 0 {
                        self.bump();
                        self.eat(TokenKind::Semicolon);
                        return;
                    }
                }
                _ if open == 0 && self.token().first_on_line && self.begins_block_declaration() => {
                    return
                }
                _ => {}
            }
            self.bump();
        }
    }

    /// Number of braces that are open between token `start` and the current token.
    fn open_braces(&self, start: usize) -> u32 {
        let mut open = 0u32;
        for token in &self.tokens[start..self.pos] {
            match token.kind {
                TokenKind::LBrace => open += 1,
                TokenKind::RBrace => open = open.saturating_sub(1),
                _ => {}
            }
        }
        open
    }

    /// Records the text skipped since token `from`, and the names in it, which may be declared there.
    fn record_skipped(&mut self, from: usize) {
        self.skipped_spans.push(self.tokens[from].span);
        let names = self.tokens[from..self.pos]
            .iter()
            .filter(|token| token.kind.is_name())
            .map(|token| token.text.clone());
        self.declared.extend(names);
    }

    /// Whether the current token can only begin a declaration with a body.
    fn begins_block_declaration(&self) -> bool {
        use TokenKind::*;
        match self.kind() {
            Action | Table | Control | Parser | Header | HeaderUnion | Struct | Extern
            | Typedef | Package | Enum => true,
            State => self.peek(1).is_name() && self.peek(2) == LBrace,
            Apply => self.peek(1) == LBrace,
            _ => false,
        }
    }

    /// Skips to after the closing brace of the enclosing block.
    fn skip_block(&mut self) {
        while !self.at(TokenKind::RBrace) && !self.at(TokenKind::End) {
            let before = self.pos;
            self.skip_statement();
            if self.pos == before {
                self.bump();
            }
        }
        self.eat(TokenKind::RBrace);
    }

    /// Parses `{`, elements and `}`. An element with a syntax error is skipped with [`Parser::skip_statement`]. Returns the elements and
    /// the span of the braces.
    fn braced<T>(&mut self, element: impl FnMut(&mut Self) -> Parse<T>) -> Parse<(Vec<T>, Span)> {
        self.braced_or(element, |_, _| None)
    }

    /// Like [`Parser::braced`]; `substitute` may return a placeholder for an element with a syntax error, from the position of its start
    /// and the proof of the error.
    fn braced_or<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Parse<T>,
        substitute: impl Fn(Span, ErrorReported) -> Option<T>,
    ) -> Parse<(Vec<T>, Span)> {
        let open = self.expect(TokenKind::LBrace)?;
        let mut list = Vec::new();
        loop {
            if self.at(TokenKind::RBrace) {
                return Ok((list, open.to(self.bump())));
            }
            if self.at(TokenKind::End) {
                let span = self.span();
                self.error(
                    Diagnostic::error(Code::SYNTAX, span, "expected `}`, found end of file")
                        .other(open, "to close this brace"),
                );
                return Ok((list, open));
            }
            let before = self.pos;
            let span = self.span();
            match element(self) {
                Ok(element) => list.push(element),
                Err(SyntaxError(reported)) => {
                    list.extend(reported.and_then(|reported| substitute(span, reported)));
                    self.skip_statement_within(self.open_braces(before));
                    if self.pos == before {
                        self.bump();
                    }
                    self.record_skipped(before);
                }
            }
        }
    }

    /// Parses elements separated by commas, and `close` after them.
    fn list<T>(
        &mut self,
        close: TokenKind,
        trailing_comma: bool,
        mut element: impl FnMut(&mut Self) -> Parse<T>,
    ) -> Parse<Vec<T>> {
        let mut list = Vec::new();
        if self.eat(close) {
            return Ok(list);
        }
        loop {
            list.push(element(self)?);
            if self.eat(close) {
                return Ok(list);
            }
            if !self.at(TokenKind::Comma) {
                return Err(self.expected(&format!("`,` or `{}`", close.as_str())));
            }
            self.bump();
            if trailing_comma && self.eat(close) {
                return Ok(list);
            }
        }
    }

    fn name(&mut self) -> Parse<Ident> {
        if self.kind().is_name() {
            let token = self.token();
            let ident = Ident {
                name: token.text.clone(),
                span: token.span,
            };
            self.bump();
            return Ok(ident);
        }
        let found = self.found();
        let span = self.span();
        let mut d = Diagnostic::error(
            Code::SYNTAX,
            span,
            format!("expected a name, found {found}"),
        )
        .label("expected a name");
        if TokenKind::keyword(&self.token().text).is_some() {
            d = d.help("keywords cannot be names: choose another one");
        }
        Err(self.error(d))
    }

    fn decl_id(&mut self) -> DeclId {
        self.decls += 1;
        DeclId(self.decls - 1)
    }

    fn expr_id(&mut self, height: u32) -> ExprId {
        self.exprs += 1;
        self.heights.push(height);
        ExprId(self.exprs - 1)
    }

    /// Runs a production in a new scope of names.
    fn scoped<T>(&mut self, production: impl FnOnce(&mut Self) -> T) -> T {
        self.types.push(FxHashMap::default());
        let result = production(self);
        self.types.pop();
        result
    }

    fn declare(&mut self, name: &Ident, is_type: bool) {
        self.declared.push(name.name.clone());
        if let Some(scope) = self.types.last_mut() {
            scope.insert(name.name.clone(), is_type);
        }
    }

    /// Whether a name is declared as a type; `None` if it is not declared so far.
    fn is_type(&self, name: &Name) -> Option<bool> {
        self.types
            .iter()
            .rev()
            .find_map(|scope| scope.get(name).copied())
    }

    /// Whether the token after index `first` is of kind `second` and follows without white space, as in the operator `>>`.
    fn is_joint(&self, first: usize, second: TokenKind) -> bool {
        self.tokens
            .get(first + 1)
            .is_some_and(|t| t.kind == second && !t.space_before && !t.first_on_line)
    }
}
