//! Substitution of arguments for the parameters in a macro's body.

use super::language::{comment_length, runs_together};
use super::macros::{Args, Macro};
use super::Preprocessor;
use crate::diag::{FileId, Span};
use crate::syntax::lexer::lex;
use crate::syntax::token::{Token, TokenKind};

/// A macro call that is being substituted.
struct Call<'a> {
    mac: &'a Macro,
    args: &'a Args,
    /// Each argument after macro expansion, computed at its first use.
    expanded: Vec<Option<Vec<Token>>>,
    at: &'a Token,
}

impl Call<'_> {
    /// Index of the parameter that the token names; `None` if it names none.
    fn param(&self, token: &Token) -> Option<usize> {
        match &self.mac.params {
            Some(params) if token.kind == TokenKind::Ident => {
                params.iter().position(|p| *p == token.text)
            }
            _ => None,
        }
    }

    /// Whether the parameter is the variadic one.
    fn is_variadic(&self, param: usize) -> bool {
        self.mac.variadic && param + 1 == self.args.list.len()
    }
}

/// A possible operand of `##` in a macro's body: a token, a parameter, `# parameter` or `__VA_OPT__(...)`.
struct Operand {
    tokens: Vec<Token>,
    /// Number of tokens of the body that the operand consists of.
    length: usize,
    /// Whether the operand is the variadic parameter.
    is_variadic: bool,
    from_argument: bool,
}

impl Preprocessor<'_> {
    /// The expansion of a macro, called by the token `at`.
    pub(super) fn substitute(&mut self, mac: &Macro, args: &Args, at: &Token) -> Vec<Token> {
        let mut call = Call {
            mac,
            args,
            expanded: vec![None; args.list.len()],
            at,
        };
        let mut out = self.substitute_in(&mac.body, &mut call);
        if let Some(first) = out.first_mut() {
            first.space_before = at.space_before;
            first.first_on_line = at.first_on_line;
        }
        out
    }

    fn substitute_in(&mut self, body: &[Token], call: &mut Call) -> Vec<Token> {
        let mut out: Vec<Token> = Vec::with_capacity(body.len());
        let mut pos = 0;
        let mut after_argument = false;
        while pos < body.len() {
            let space_before = body[pos].space_before;
            let first = self.operand(&body[pos..], false, call);
            let mut from_argument = first.from_argument;
            let mut tokens = first.tokens;
            pos += first.length;
            while let [glue, rest @ ..] = &body[pos..] {
                if glue.kind != TokenKind::HashHash || rest.is_empty() {
                    break;
                }
                let right = self.operand(rest, true, call);
                pos += 1 + right.length;
                from_argument |= right.from_argument;
                let comma = tokens.len() == 1 && tokens[0].kind == TokenKind::Comma;
                if comma && right.is_variadic {
                    // `, ## __VA_ARGS__`: removes the comma if the variadic argument is missing, and does not paste tokens.
                    if call.args.is_variadic_missing {
                        tokens.clear();
                    }
                    tokens.extend(right.tokens);
                    continue;
                }
                tokens = self.paste_lists(tokens, right.tokens, call.at.span);
            }
            if let Some(first) = tokens.first_mut() {
                let apart = from_argument || after_argument;
                let meets = |last: &Token| apart && runs_together(&last.text, &first.text);
                first.space_before = space_before || out.last().is_some_and(meets);
            }
            after_argument = from_argument;
            out.append(&mut tokens);
        }
        out
    }

    /// Parses the operand at the start of `rest`, the remaining tokens of a macro's body. `beside_paste`: whether `##`
    /// precedes it.
    fn operand(&mut self, rest: &[Token], beside_paste: bool, call: &mut Call) -> Operand {
        let token = &rest[0];
        let one = |tokens, from_argument| Operand {
            tokens,
            length: 1,
            is_variadic: false,
            from_argument,
        };
        if token.kind == TokenKind::Hash && call.mac.params.is_some() {
            if let Some(param) = rest.get(1).and_then(|t| call.param(t)) {
                let edges = call.args.edges.get(param).copied();
                let text = self.stringify(&call.args.list[param], edges, call.at.span);
                return Operand {
                    length: 2,
                    ..one(vec![text], false)
                };
            }
            if let Some(optional) = va_opt_length(&rest[1..], call.mac) {
                let tokens = self.expand_va_opt(&rest[3..1 + optional - 1], call);
                let text = self.stringify(&tokens, None, call.at.span);
                return Operand {
                    length: 1 + optional,
                    ..one(vec![text], false)
                };
            }
        }
        if let Some(length) = va_opt_length(rest, call.mac) {
            return Operand {
                length,
                ..one(self.expand_va_opt(&rest[2..length - 1], call), true)
            };
        }
        let Some(param) = call.param(token) else {
            let token = Token {
                span: Span {
                    origin: token.span.origin,
                    ..call.at.span
                },
                first_on_line: false,
                ..token.clone()
            };
            return one(vec![token], false);
        };
        let glued = beside_paste || rest.get(1).is_some_and(|t| t.kind == TokenKind::HashHash);
        let tokens = match glued {
            true => call.args.list[param].clone(),
            false => self.expanded_argument(param, call).to_vec(),
        };
        Operand {
            is_variadic: call.is_variadic(param),
            ..one(tokens, true)
        }
    }

    fn expanded_argument<'c>(&mut self, param: usize, call: &'c mut Call) -> &'c [Token] {
        let list = &call.args.list[param];
        call.expanded[param].get_or_insert_with(|| self.expand_list(list.clone()))
    }

    /// The expansion of `__VA_OPT__`: empty if the variadic arguments expand to nothing.
    fn expand_va_opt(&mut self, body: &[Token], call: &mut Call) -> Vec<Token> {
        let Some(rest) = call.args.list.len().checked_sub(1) else {
            return Vec::new();
        };
        if self.expanded_argument(rest, call).is_empty() {
            return Vec::new();
        }
        self.substitute_in(body, call)
    }

    fn stringify(&mut self, tokens: &[Token], edges: Option<(Span, Span)>, span: Span) -> Token {
        let mut text = String::new();
        let mut last = edges.map(|(before, _)| before);
        for (i, token) in tokens.iter().enumerate() {
            match last.and_then(|last| self.comments_between(last, token.span)) {
                Some(comments) => text.push_str(&comments),
                None if i > 0 && token.space_before => text.push(' '),
                None => {}
            }
            let quoted = token.kind == TokenKind::String || is_character(&token.text);
            match quoted {
                true => text.push_str(&escaped(&token.text)),
                false => text.push_str(&token.text),
            }
            last = Some(token.span);
        }
        let after = edges.map(|(_, after)| after);
        if let Some(comments) = last
            .zip(after)
            .and_then(|(a, b)| self.comments_between(a, b))
        {
            text.push_str(&comments);
        }
        let text = text.trim_matches(' ');
        let backslashes = text.len() - text.trim_end_matches('\\').len();
        let text = &text[..text.len() - backslashes % 2];
        self.synthetic(TokenKind::String, &format!("\"{text}\""), span)
    }

    /// The comments and white space between two tokens, as `cpp -C` keeps them. `None` if there is no comment, or if the text has other
    /// tokens.
    fn comments_between(&self, first: Span, second: Span) -> Option<String> {
        if first.file != second.file {
            return None;
        }
        let text = &self.map.file(first.file).text;
        let mut rest = text.get(first.hi as usize..second.lo as usize)?;
        let mut kept = String::new();
        let mut found = false;
        while let Some(next) = rest.chars().next() {
            let comment = comment_length(rest);
            if comment > 0 {
                found = true;
                match rest[..comment].strip_prefix("//") {
                    Some(line) => kept.push_str(&format!("/*{}*/", escaped(line))),
                    None => kept.push_str(&escaped(&rest[..comment])),
                }
            } else if !next.is_ascii_whitespace() {
                return None;
            } else if !kept.ends_with(' ') {
                kept.push(' ');
            }
            rest = &rest[comment.max(next.len_utf8())..];
        }
        found.then_some(kept)
    }

    /// `left ## right` of two token lists: pastes the last token of `left` and the first of `right`.
    fn paste_lists(&mut self, mut left: Vec<Token>, right: Vec<Token>, span: Span) -> Vec<Token> {
        let mut right = right.into_iter();
        match (left.pop(), right.next()) {
            (Some(last), Some(first)) => left.extend(self.paste(last, first, span)),
            (last, first) => left.extend(last.into_iter().chain(first)),
        }
        left.extend(right);
        left
    }

    /// Pastes two tokens to one; returns both if the result is not a token.
    fn paste(&mut self, left: Token, right: Token, span: Span) -> Vec<Token> {
        let text = format!("{}{}", left.text, right.text);
        let lexed = lex(&text, FileId::default(), &mut self.names);
        match <[Token; 1]>::try_from(lexed.tokens) {
            Ok([token]) if lexed.open_comment.is_none() && *token.text == *text => {
                vec![Token {
                    span,
                    space_before: left.space_before,
                    first_on_line: false,
                    ..token
                }]
            }
            _ => vec![left, right],
        }
    }
}

/// Number of tokens of the `__VA_OPT__(...)` at the start of `tokens`; `None` if there is none.
fn va_opt_length(tokens: &[Token], mac: &Macro) -> Option<usize> {
    let [name, open, ..] = tokens else {
        return None;
    };
    if !mac.variadic || &*name.text != "__VA_OPT__" || open.kind != TokenKind::LParen {
        return None;
    }
    let mut depth = 0;
    for (i, token) in tokens.iter().enumerate().skip(1) {
        match token.kind {
            TokenKind::LParen => depth += 1,
            TokenKind::RParen if depth == 1 => return Some(i + 1),
            TokenKind::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Escapes backslashes and quotes for a string.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}

/// Whether the text of a token is enclosed in apostrophes.
pub(super) fn is_character(text: &str) -> bool {
    text.len() > 1 && text.starts_with('\'') && text.ends_with('\'')
}
