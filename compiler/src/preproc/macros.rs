//! Macros: their definition and expansion.
//!
//! Expansion follows the C standard: arguments are expanded before they are put in, except next to `#` and `##`; a macro is not
//! expanded again inside of its own expansion. A stack of [`Context`]s holds the tokens to be read next.

use super::{MacroOption, Preprocessor};
use crate::diag::{Code, Diagnostic, FileId, Span};
use crate::syntax::ast::Name;
use crate::syntax::lexer::lex;
use crate::syntax::token::{Token, TokenKind};
use std::rc::Rc;

/// Deepest nesting of macro calls within arguments of macro calls.
const MAX_DEPTH: usize = 64;

/// A macro.
#[derive(Debug)]
pub(super) struct Macro {
    pub name: Name,
    /// `None` for object-like macros.
    pub params: Option<Vec<Name>>,
    /// The last parameter takes all arguments that are left.
    pub variadic: bool,
    pub body: Vec<Token>,
    /// Where it was defined.
    pub span: Span,
    pub builtin: Option<Builtin>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Builtin {
    Line,
    File,
    Counter,
    IncludeLevel,
}

/// Tokens to be read before those of the files.
#[derive(Debug)]
pub(super) struct Context {
    pub tokens: Vec<Token>,
    pub pos: usize,
    /// The macro whose expansion this is: not to be expanded while it is read.
    pub name: Option<Name>,
    /// Reading stops at its end: the tokens of an argument.
    pub barrier: bool,
}

impl Preprocessor<'_> {
    pub(super) fn define_builtins(&mut self) {
        for (name, builtin) in [
            ("__LINE__", Builtin::Line),
            ("__FILE__", Builtin::File),
            ("__COUNTER__", Builtin::Counter),
            ("__INCLUDE_LEVEL__", Builtin::IncludeLevel),
        ] {
            let name = self.names.intern(name);
            let span = Span::default();
            let builtin = Some(builtin);
            let mac = Macro {
                name: name.clone(),
                params: None,
                variadic: false,
                body: Vec::new(),
                span,
                builtin,
            };
            self.macros.insert(name, Rc::new(mac));
        }
    }

    /// Obeys `-D` and `-U`. Definitions live in files of their own, so that messages can show them.
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

    /// `#define`: `tokens` is what follows it on the line.
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
        // A name for one token is wrong where it is used.
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
                        format!(
                            "macro `{}` is defined again, with another meaning",
                            name.text
                        ),
                    )
                    .other(old.span, "first definition"),
                );
            }
        }
        self.macros.insert(name.text.clone(), Rc::new(new));
    }

    /// Parameters up to and with `)`; also how many tokens they take.
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

    /// The next token, macros not expanded. `None` at the end of the files or of an argument.
    fn next_raw(&mut self) -> Option<Token> {
        while let Some(top) = self.contexts.last_mut() {
            if let Some(token) = top.tokens.get(top.pos) {
                top.pos += 1;
                return Some(token.clone());
            }
            if top.barrier {
                return None;
            }
            self.contexts.pop();
        }
        let token = self.next_from_files()?;
        self.spend(1, token.span).then_some(token)
    }

    /// The next token with all macros expanded.
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
                return Some(self.builtin(builtin, &token));
            }
            let expansion = match &mac.params {
                None => self.substitute(&mac, &[], &token),
                Some(params) => match self.next_raw() {
                    Some(open) if open.kind == TokenKind::LParen => {
                        let Some(args) = self.macro_args(&token) else {
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
            if self.spend(expansion.len(), token.span) {
                self.push_context(expansion, Some(mac.name.clone()));
            }
        }
    }

    fn push_context(&mut self, tokens: Vec<Token>, name: Option<Name>) {
        self.contexts.push(Context {
            tokens,
            pos: 0,
            name,
            barrier: false,
        });
    }

    /// Expands a list of tokens by itself.
    pub(super) fn expand_list(&mut self, tokens: Vec<Token>) -> Vec<Token> {
        if self.depth >= MAX_DEPTH {
            if let Some(first) = tokens.first() {
                self.diagnostics
                    .error(Code::LIMIT, first.span, "macros are nested too deeply");
            }
            return Vec::new();
        }
        self.depth += 1;
        self.contexts.push(Context {
            tokens,
            pos: 0,
            name: None,
            barrier: true,
        });
        let mut out = Vec::new();
        while let Some(token) = self.next_expanded() {
            out.push(token);
        }
        self.contexts.pop();
        self.depth -= 1;
        out
    }

    /// The arguments of a call whose `(` has been read.
    fn macro_args(&mut self, name: &Token) -> Option<Vec<Vec<Token>>> {
        let mut args = vec![Vec::new()];
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
                TokenKind::RParen if open == 0 => return Some(args),
                TokenKind::RParen => open -= 1,
                TokenKind::Comma if open == 0 => {
                    args.push(Vec::new());
                    continue;
                }
                _ => {}
            }
            token.space_before |= token.first_on_line;
            token.first_on_line = false;
            args.last_mut().expect("begins with one").push(token);
        }
    }

    /// Brings the arguments to the number of parameters, or reports why that cannot be done.
    fn check_args(
        &mut self,
        mac: &Macro,
        want: usize,
        mut args: Vec<Vec<Token>>,
        at: &Token,
    ) -> Option<Vec<Vec<Token>>> {
        if want == 0 && args.len() == 1 && args[0].is_empty() {
            return Some(Vec::new());
        }
        if mac.variadic {
            if args.len() + 1 == want {
                args.push(Vec::new());
            }
            if args.len() > want {
                let mut rest: Vec<Token> = Vec::new();
                for arg in args.drain(want - 1..) {
                    if !rest.is_empty() {
                        rest.push(self.synthetic(TokenKind::Comma, ",", at.span));
                    }
                    rest.extend(arg);
                }
                args.push(rest);
            }
        }
        if args.len() == want {
            return Some(args);
        }
        let (got, s) = (args.len(), if want == 1 { "" } else { "s" });
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

    fn synthetic(&mut self, kind: TokenKind, text: &str, span: Span) -> Token {
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

    /// The body with arguments in the place of parameters.
    fn substitute(&mut self, mac: &Macro, args: &[Vec<Token>], at: &Token) -> Vec<Token> {
        let param = |t: &Token| match &mac.params {
            Some(params) if t.kind == TokenKind::Ident => params.iter().position(|p| *p == t.text),
            _ => None,
        };
        let mut expanded: Vec<Option<Vec<Token>>> = vec![None; args.len()];
        let mut out: Vec<Token> = Vec::with_capacity(mac.body.len());
        // Set after `##`: the next token is glued to the last of `out`, or to nothing when the left side was empty.
        let mut paste: Option<bool> = None;
        let mut i = 0;
        while i < mac.body.len() {
            let token = &mac.body[i];
            i += 1;
            if token.kind == TokenKind::HashHash {
                continue;
            }
            let before_paste = mac
                .body
                .get(i)
                .is_some_and(|t| t.kind == TokenKind::HashHash);
            let mut piece = if token.kind == TokenKind::Hash && mac.params.is_some() {
                match mac.body.get(i).and_then(param) {
                    Some(p) => {
                        i += 1;
                        vec![self.stringify(&args[p], at.span)]
                    }
                    None => vec![token.clone()],
                }
            } else if let Some(p) = param(token) {
                if paste.is_some() || before_paste {
                    args[p].clone()
                } else {
                    if expanded[p].is_none() {
                        expanded[p] = Some(self.expand_list(args[p].clone()));
                    }
                    expanded[p].clone().unwrap_or_default()
                }
            } else {
                vec![Token {
                    span: Span {
                        origin: token.span.origin,
                        ..at.span
                    },
                    first_on_line: false,
                    ..token.clone()
                }]
            };
            if let Some(first) = piece.first_mut() {
                first.space_before = token.space_before;
            }
            let before_paste = mac
                .body
                .get(i)
                .is_some_and(|t| t.kind == TokenKind::HashHash);
            match paste.take() {
                Some(true) if !piece.is_empty() => {
                    let left = out.pop().expect("the left side of `##` is there");
                    let variadic =
                        mac.variadic && param(token).is_some_and(|p| p + 1 == args.len());
                    if left.kind == TokenKind::Comma && variadic {
                        // `, ## __VA_ARGS__` only drops the comma when there are no arguments.
                        out.push(left);
                    } else {
                        let right = piece.remove(0);
                        let glued = self.glue(&left, &right, at.span);
                        out.extend(glued);
                    }
                }
                Some(true)
                    if out.last().is_some_and(|t| t.kind == TokenKind::Comma) && mac.variadic =>
                {
                    out.pop();
                }
                _ => {}
            }
            let empty = piece.is_empty();
            out.extend(piece);
            if before_paste {
                paste =
                    Some(!(empty && (out.is_empty() || param(token).is_some())) && !out.is_empty());
            }
        }
        if let Some(first) = out.first_mut() {
            first.space_before = at.space_before;
            first.first_on_line = at.first_on_line;
        }
        out
    }

    fn stringify(&mut self, tokens: &[Token], span: Span) -> Token {
        let mut text = String::from("\"");
        for (i, token) in tokens.iter().enumerate() {
            if i > 0 && token.space_before {
                text.push(' ');
            }
            for c in token.text.chars() {
                if token.kind == TokenKind::String && matches!(c, '"' | '\\') {
                    text.push('\\');
                }
                text.push(c);
            }
        }
        text.push('"');
        self.synthetic(TokenKind::String, &text, span)
    }

    /// `left ## right`
    fn glue(&mut self, left: &Token, right: &Token, span: Span) -> Vec<Token> {
        let text = format!("{}{}", left.text, right.text);
        let lexed = lex(&text, FileId::default(), &mut self.names);
        match <[Token; 1]>::try_from(lexed.tokens) {
            Ok([token]) if lexed.open_comment.is_none() && &*token.text == text.as_str() => {
                vec![Token {
                    span,
                    space_before: left.space_before,
                    first_on_line: false,
                    ..token
                }]
            }
            _ => {
                let message = format!(
                    "pasting `{}` and `{}` does not give a token",
                    left.text, right.text
                );
                self.diagnostics.error(Code::MACRO, span, message);
                vec![left.clone(), right.clone()]
            }
        }
    }

    fn builtin(&mut self, builtin: Builtin, at: &Token) -> Token {
        let (kind, text) = match builtin {
            Builtin::Line => (
                TokenKind::Number,
                self.map.location(at.span).line.to_string(),
            ),
            Builtin::File => {
                let name = self.map.location(at.span).file;
                (
                    TokenKind::String,
                    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
                )
            }
            Builtin::Counter => {
                self.counter += 1;
                (TokenKind::Number, (self.counter - 1).to_string())
            }
            Builtin::IncludeLevel => (
                TokenKind::Number,
                self.files.len().saturating_sub(1).to_string(),
            ),
        };
        let token = self.synthetic(kind, &text, at.span);
        Token {
            space_before: at.space_before,
            first_on_line: at.first_on_line,
            ..token
        }
    }
}
