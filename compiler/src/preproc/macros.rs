//! Macros: definition and expansion.
//!
//! Expansion follows the C standard. Arguments are expanded before substitution, except next to `#` and `##`. A macro is not expanded within
//! its own expansion. A stack of [`Context`]s holds the tokens to be read next.

use super::builtin::Builtin;
use super::{MacroOption, Preprocessor, BYTES_OF_TOKEN};
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::Name;
use crate::syntax::lexer::lex;
use crate::syntax::token::{Token, TokenKind};
use std::rc::Rc;

/// Maximum nesting of macro calls within arguments of macro calls.
const MAX_DEPTH: usize = 200;

/// A macro definition.
#[derive(Debug)]
pub(super) struct Macro {
    pub name: Name,
    /// Names of the parameters; `None` for object-like macros.
    pub params: Option<Vec<Name>>,
    /// Whether the macro is variadic; its last parameter then takes the remaining arguments.
    pub variadic: bool,
    pub body: Vec<Token>,
    /// Position of the definition.
    pub span: Span,
    pub builtin: Option<Builtin>,
}

/// The arguments of a macro call.
#[derive(Debug)]
pub(super) struct Args {
    pub list: Vec<Vec<Token>>,
    /// Spans of the tokens before and after each argument; empty for a missing variadic argument.
    pub edges: Vec<(Span, Span)>,
    /// Whether the variadic argument and the comma before it are missing.
    pub is_variadic_missing: bool,
}

/// A list of tokens that are read before those of the files: an expansion or an argument.
#[derive(Debug)]
pub(super) struct Context {
    pub tokens: Vec<Token>,
    pub pos: usize,
    /// The macro with this expansion, which is not expanded while the list is read; `None` for other lists.
    pub name: Option<Name>,
    /// Whether reading stops at the end of the list, as for an argument that is expanded by itself.
    pub barrier: bool,
}

impl Args {
    fn none() -> Args {
        Args {
            list: Vec::new(),
            edges: Vec::new(),
            is_variadic_missing: true,
        }
    }
}

impl Preprocessor<'_> {
    /// Applies the options `-D` and `-U`. Each `-D` becomes a source file of its own, so that diagnostics can show its
    /// text.
    pub(super) fn define_from_options(&mut self) {
        for option in self.options.macros.clone() {
            match option {
                MacroOption::Define(text) => {
                    let (name, body) = text.split_once('=').unwrap_or((&text, "1"));
                    let file = self.map.add("<command line>", format!("{name} {body}"));
                    let text = self.map.file(file).text.clone();
                    let tokens = lex(&text, file, &mut self.names).tokens;
                    let span = Span::new(file, 0, text.len() as u32);
                    self.define(&tokens, span);
                }
                MacroOption::Undefine(name) => {
                    self.macros.remove(name.as_str());
                }
            }
        }
    }

    /// Executes `#define`; `tokens` is the rest of its line.
    pub(super) fn define(&mut self, tokens: &[Token], span: Span) {
        let Some(name) = tokens.first().filter(|t| t.kind == TokenKind::Ident) else {
            let at = tokens.first().map_or(span, |t| t.span);
            self.diagnostics
                .error(Code::DIRECTIVE, at, "`#define` needs the name of a macro");
            return;
        };
        if &*name.text == "defined" {
            self.diagnostics
                .error(Code::MACRO, name.span, "`defined` cannot be a macro");
            return;
        }
        let mut variadic = false;
        let mut params = None;
        let mut rest = &tokens[1..];
        if rest
            .first()
            .is_some_and(|t| t.kind == TokenKind::LParen && !t.space_before)
        {
            match self.macro_params(&rest[1..]) {
                Ok((list, is_variadic, used)) => {
                    params = Some(list);
                    variadic = is_variadic;
                    rest = &rest[1 + used..];
                }
                Err(at) => {
                    let at = at.unwrap_or(span);
                    self.diagnostics.report(
                        Diagnostic::error(Code::MACRO, at, "malformed list of macro parameters")
                            .help("write names with commas between them: `#define F(a, b) ...`"),
                    );
                    return;
                }
            }
        }
        let mut body = rest.to_vec();
        // An object-like macro of one token gets no origin: its errors are shown at the use.
        if params.is_some() || body.len() > 1 {
            for token in &mut body {
                token.span.origin = self.map.add_origin(token.span);
            }
        }
        if let Some(end) = [body.first(), body.last()]
            .into_iter()
            .flatten()
            .find(|t| t.kind == TokenKind::HashHash)
        {
            self.diagnostics.error(
                Code::MACRO,
                end.span,
                "`##` cannot be at the start or the end of a macro",
            );
            return;
        }
        let new = Macro {
            name: name.text.clone(),
            params,
            variadic,
            body,
            span: name.span,
            builtin: None,
        };
        if let Some(old) = self.macros.get(&name.text) {
            let same = old.params == new.params
                && old.builtin.is_none()
                && old
                    .body
                    .iter()
                    .map(|t| &t.text)
                    .eq(new.body.iter().map(|t| &t.text));
            if !same {
                self.diagnostics.report(
                    Diagnostic::warning(
                        crate::diag::Warning::Preprocessor,
                        name.span,
                        format!("macro `{}` is redefined with another body", name.text),
                    )
                    .other(old.span, "first definition"),
                );
            }
        }
        self.macros.insert(name.text.clone(), Rc::new(new));
    }

    /// Parses the parameters of a macro up to the `)`: their names, whether the last is variadic, and the number of tokens.
    #[allow(clippy::type_complexity)]
    fn macro_params(&mut self, tokens: &[Token]) -> Result<(Vec<Name>, bool, usize), Option<Span>> {
        let mut params: Vec<Name> = Vec::new();
        let mut pos = 0;
        if tokens.first().is_some_and(|t| t.kind == TokenKind::RParen) {
            return Ok((params, false, 1));
        }
        loop {
            let token = tokens.get(pos).ok_or(None)?;
            let mut variadic = false;
            match token.kind {
                TokenKind::Ident if !params.contains(&token.text) => {
                    params.push(token.text.clone());
                    if tokens
                        .get(pos + 1)
                        .is_some_and(|t| t.kind == TokenKind::Dots)
                    {
                        variadic = true;
                        pos += 1;
                    }
                }
                TokenKind::Dots => {
                    variadic = true;
                    let name = self.names.intern("__VA_ARGS__");
                    params.push(name);
                }
                _ => return Err(Some(token.span)),
            }
            pos += 1;
            let end = tokens.get(pos).ok_or(None)?;
            pos += 1;
            match end.kind {
                TokenKind::RParen => return Ok((params, variadic, pos)),
                TokenKind::Comma if !variadic => {}
                _ => return Err(Some(end.span)),
            }
        }
    }

    /// Reads the next token without expanding macros. `None` at the end of the files or of an argument.
    pub(super) fn next_raw(&mut self) -> Option<Token> {
        while let Some(top) = self.contexts.last_mut() {
            if let Some(token) = top.tokens.get(top.pos) {
                top.pos += 1;
                return Some(token.clone());
            }
            if top.barrier {
                return None;
            }
            self.contexts.pop();
            self.at_macro_edge = true;
        }
        let token = self.next_from_files()?;
        self.count_tokens(1, token.span).then_some(token)
    }

    /// Reads the next token after macro expansion. `None` at the end of the files or of an argument.
    pub(super) fn next_expanded(&mut self) -> Option<Token> {
        loop {
            let mut token = self.next_raw()?;
            if token.kind != TokenKind::Ident || token.no_expand {
                return Some(token);
            }
            let Some(mac) = self.macros.get(&token.text).cloned() else {
                return Some(token);
            };
            if self
                .contexts
                .iter()
                .any(|c| c.name.as_ref() == Some(&token.text))
            {
                token.no_expand = true;
                return Some(token);
            }
            if let Some(builtin) = mac.builtin {
                let expansion = self.builtin(builtin, &token);
                return Some(expansion.unwrap_or(token));
            }
            let expansion = match &mac.params {
                None => self.substitute(&mac, &Args::none(), &token),
                Some(params) => match self.next_raw() {
                    Some(open) if open.kind == TokenKind::LParen => {
                        let Some(args) = self.macro_args(&mac, params.len(), &token, open.span)
                        else {
                            continue;
                        };
                        match self.check_args(&mac, params.len(), args, &token) {
                            Some(args) => self.substitute(&mac, &args, &token),
                            None => continue,
                        }
                    }
                    other => {
                        if let Some(other) = other {
                            self.push_context(vec![other], None);
                        }
                        return Some(token);
                    }
                },
            };
            // Count bytes, too: repeated stringification makes a single token grow exponentially.
            let bytes: usize = expansion.iter().map(|token| token.text.len()).sum();
            if self.count_tokens(expansion.len() + bytes / BYTES_OF_TOKEN, token.span) {
                self.push_context(expansion, Some(mac.name.clone()));
            }
        }
    }

    fn push_context(&mut self, tokens: Vec<Token>, name: Option<Name>) {
        self.at_macro_edge = true;
        self.contexts.push(Context {
            tokens,
            pos: 0,
            name,
            barrier: false,
        });
    }

    /// Expands a list of tokens separately from the tokens that follow.
    pub(super) fn expand_list(&mut self, tokens: Vec<Token>) -> Vec<Token> {
        if self.depth >= MAX_DEPTH {
            if let Some(first) = tokens.first() {
                let message = format!("macros are nested more than {MAX_DEPTH} deep");
                self.diagnostics
                    .report_last(Diagnostic::error(Code::LIMIT, first.span, message));
            }
            return Vec::new();
        }
        self.open_list(tokens);
        let mut out = Vec::new();
        while let Some(token) = self.next_expanded() {
            out.push(token);
        }
        self.close_list();
        out
    }

    /// Starts reading a list of tokens separately, until [`Preprocessor::close_list`].
    pub(super) fn open_list(&mut self, tokens: Vec<Token>) {
        self.depth += 1;
        self.contexts.push(Context {
            tokens,
            pos: 0,
            name: None,
            barrier: true,
        });
    }

    /// Ends reading a list, and discards its unread tokens.
    pub(super) fn close_list(&mut self) {
        while self.contexts.pop().is_some_and(|context| !context.barrier) {}
        self.depth -= 1;
    }

    /// Reads the arguments of a macro call after its `(`. `None` after a reported error.
    fn macro_args(
        &mut self,
        mac: &Macro,
        want: usize,
        name: &Token,
        mut before: Span,
    ) -> Option<Args> {
        let mut args = Args {
            list: vec![Vec::new()],
            edges: Vec::new(),
            is_variadic_missing: false,
        };
        let mut open = 0;
        loop {
            let Some(mut token) = self.next_raw() else {
                self.diagnostics.report(
                    Diagnostic::error(
                        Code::MACRO,
                        name.span,
                        format!("call of macro `{}` is not closed", name.text),
                    )
                    .help("add the missing `)`"),
                );
                return None;
            };
            match token.kind {
                TokenKind::LParen => open += 1,
                TokenKind::RParen if open == 0 => {
                    args.edges.push((before, token.span));
                    return Some(args);
                }
                TokenKind::RParen => open -= 1,
                // A comma in the variadic argument does not separate arguments.
                TokenKind::Comma if open == 0 && !(mac.variadic && args.list.len() == want) => {
                    args.list.push(Vec::new());
                    args.edges.push((before, token.span));
                    before = token.span;
                    continue;
                }
                _ => {}
            }
            token.space_before |= token.first_on_line;
            token.first_on_line = false;
            (args.list.last_mut()).expect("begins with one").push(token);
        }
    }

    /// Adjusts the arguments to the number of parameters `want`. `None` after a reported mismatch.
    fn check_args(&mut self, mac: &Macro, want: usize, mut args: Args, at: &Token) -> Option<Args> {
        if want == 0 && matches!(&args.list[..], [only] if only.is_empty()) {
            return Some(Args::none());
        }
        if mac.variadic {
            let without = args.list.len() + 1 == want;
            args.is_variadic_missing =
                without || matches!(&args.list[..], [only] if only.is_empty());
            if without {
                args.list.push(Vec::new());
            }
        }
        if args.list.len() == want {
            return Some(args);
        }
        let (got, s) = (args.list.len(), if want == 1 { "" } else { "s" });
        self.diagnostics.report(
            Diagnostic::error(
                Code::MACRO,
                at.span,
                format!("macro `{}` takes {want} argument{s}, not {got}", mac.name),
            )
            .other(mac.span, "defined here"),
        );
        None
    }

    pub(super) fn synthetic(&mut self, kind: TokenKind, text: &str, span: Span) -> Token {
        let text = self.names.intern(text);
        Token {
            kind,
            text,
            span,
            space_before: false,
            first_on_line: false,
            no_expand: false,
        }
    }
}
