//! The expressions of `#if` and `#elif`.

use super::Preprocessor;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::token::{Token, TokenKind};

/// Deepest nesting of parentheses and operators.
const MAX_DEPTH: usize = 200;

impl Preprocessor<'_> {
    /// Value of a condition; `false` when it is malformed, which is reported.
    pub(super) fn condition(&mut self, tokens: &[Token], span: Span) -> bool {
        let mut plain = Vec::with_capacity(tokens.len());
        let mut rest = tokens.iter();
        while let Some(token) = rest.next() {
            if token.kind != TokenKind::Ident || &*token.text != "defined" {
                plain.push(token.clone());
                continue;
            }
            let kinds: Vec<TokenKind> = rest.as_slice().iter().take(3).map(|t| t.kind).collect();
            let name = match kinds[..] {
                [TokenKind::Ident, ..] => rest.next(),
                [TokenKind::LParen, TokenKind::Ident, TokenKind::RParen] => {
                    rest.next();
                    let name = rest.next();
                    rest.next();
                    name
                }
                _ => None,
            };
            let Some(name) = name else {
                self.diagnostics.report(
                    Diagnostic::error(
                        Code::DIRECTIVE,
                        token.span,
                        "`defined` needs the name of a macro",
                    )
                    .help("write `defined(NAME)`"),
                );
                return false;
            };
            let text = if self.macros.contains_key(&name.text) {
                "1"
            } else {
                "0"
            };
            plain.push(Token {
                kind: TokenKind::Number,
                text: self.names.intern(text),
                ..token.clone()
            });
        }
        let expanded = self.expand_list(plain);
        let mut parser = Evaluator {
            tokens: &expanded,
            pos: 0,
            end: span.after(),
            depth: 0,
        };
        let value = parser
            .ternary()
            .and_then(|value| match expanded.get(parser.pos) {
                None => Ok(value),
                Some(token) => Err((
                    token.span,
                    format!("unexpected `{}` in a condition", token.text),
                )),
            });
        match value {
            Ok(value) => value != 0,
            Err((at, message)) => {
                self.diagnostics.error(Code::DIRECTIVE, at, message);
                false
            }
        }
    }
}

type Outcome = Result<i64, (Span, String)>;

struct Evaluator<'a> {
    tokens: &'a [Token],
    pos: usize,
    end: Span,
    depth: usize,
}

impl Evaluator<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.pos)
    }

    fn eat(&mut self, kind: TokenKind) -> bool {
        let found = self.peek().is_some_and(|t| t.kind == kind);
        self.pos += usize::from(found);
        found
    }

    fn expect(&mut self, kind: TokenKind) -> Result<(), (Span, String)> {
        if self.eat(kind) {
            return Ok(());
        }
        let at = self.peek().map_or(self.end, |t| t.span);
        Err((at, format!("expected `{}` in a condition", kind.as_str())))
    }

    fn ternary(&mut self) -> Outcome {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((self.end, "the condition is nested too deeply".into()));
        }
        let condition = self.binary(0)?;
        let value = if self.eat(TokenKind::Question) {
            let yes = self.ternary()?;
            self.expect(TokenKind::Colon)?;
            let no = self.ternary()?;
            if condition != 0 {
                yes
            } else {
                no
            }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    /// The operator here: its precedence, its name, its number of tokens.
    fn operator(&self) -> Option<(u8, &'static str, usize)> {
        use TokenKind::*;
        let next = self.tokens.get(self.pos + 1);
        Some(match self.peek()?.kind {
            OrOr => (1, "||", 1),
            AndAnd => (2, "&&", 1),
            Or => (3, "|", 1),
            Xor => (4, "^", 1),
            And => (5, "&", 1),
            EqEq => (6, "==", 1),
            Ne => (6, "!=", 1),
            Le => (7, "<=", 1),
            Ge => (7, ">=", 1),
            Gt if next.is_some_and(|t| t.kind == Gt && !t.space_before) => (8, ">>", 2),
            Lt => (7, "<", 1),
            Gt => (7, ">", 1),
            Shl => (8, "<<", 1),
            Plus => (9, "+", 1),
            Minus => (9, "-", 1),
            Mul => (10, "*", 1),
            Div => (10, "/", 1),
            Mod => (10, "%", 1),
            _ => return None,
        })
    }

    fn binary(&mut self, min: u8) -> Outcome {
        let mut left = self.unary()?;
        while let Some((precedence, op, length)) = self.operator().filter(|o| o.0 > min) {
            let at = self.peek().map_or(self.end, |t| t.span);
            self.pos += length;
            let right = self.binary(precedence)?;
            left = match op {
                "||" => i64::from(left != 0 || right != 0),
                "&&" => i64::from(left != 0 && right != 0),
                "|" => left | right,
                "^" => left ^ right,
                "&" => left & right,
                "==" => i64::from(left == right),
                "!=" => i64::from(left != right),
                "<=" => i64::from(left <= right),
                ">=" => i64::from(left >= right),
                "<" => i64::from(left < right),
                ">" => i64::from(left > right),
                "<<" => left.checked_shl(right.clamp(0, 64) as u32).unwrap_or(0),
                ">>" => left >> right.clamp(0, 63),
                "+" => left.wrapping_add(right),
                "-" => left.wrapping_sub(right),
                "*" => left.wrapping_mul(right),
                // A division that the condition does not need, as in `defined(X) && 4 / X`, must not be an error.
                "/" | "%" if right == 0 && min > 0 => 0,
                "/" | "%" if right == 0 => {
                    return Err((at, "division by zero in a condition".into()))
                }
                "/" => left.wrapping_div(right),
                _ => left.wrapping_rem(right),
            };
        }
        Ok(left)
    }

    fn unary(&mut self) -> Outcome {
        let Some(token) = self.peek().cloned() else {
            return Err((
                self.end,
                "the condition ends where a value is expected".into(),
            ));
        };
        self.pos += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((token.span, "the condition is nested too deeply".into()));
        }
        let value = match token.kind {
            TokenKind::Not => i64::from(self.unary()? == 0),
            TokenKind::Tilde => !self.unary()?,
            TokenKind::Minus => self.unary()?.wrapping_neg(),
            TokenKind::Plus => self.unary()?,
            TokenKind::LParen => {
                let value = self.ternary()?;
                self.expect(TokenKind::RParen)?;
                value
            }
            TokenKind::Number => number(&token.text).ok_or_else(|| {
                (
                    token.span,
                    format!("`{}` is no number that a condition can use", token.text),
                )
            })?,
            // As in C, names that are no macros are 0; `true` is 1, as in C++.
            TokenKind::Ident => i64::from(&*token.text == "true"),
            _ => {
                return Err((
                    token.span,
                    format!("unexpected `{}` in a condition", token.text),
                ))
            }
        };
        self.depth -= 1;
        Ok(value)
    }
}

fn number(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['u', 'l']);
    let (digits, base) = match digits.get(..2) {
        Some("0x") => (&digits[2..], 16),
        Some("0b") => (&digits[2..], 2),
        Some("0o") => (&digits[2..], 8),
        _ if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    u64::from_str_radix(&digits.replace('_', ""), base)
        .ok()
        .map(|n| n as i64)
}
