//! The expressions of `#if` and `#elif`.

use super::substitute::is_character;
use super::Preprocessor;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::token::{Token, TokenKind};

/// Maximum nesting of parentheses and operators.
const MAX_DEPTH: usize = 200;

impl Preprocessor<'_> {
    /// Evaluates the condition of `#if` or `#elif`. A malformed condition is reported and `false`.
    pub(super) fn condition(&mut self, tokens: &[Token], span: Span) -> bool {
        let value = self.condition_tokens(tokens).and_then(|tokens| {
            let mut evaluator = Evaluator {
                tokens: &tokens,
                pos: 0,
                end: span.after(),
                depth: 0,
                skipped: 0,
            };
            let value = evaluator.comma()?;
            match tokens.get(evaluator.pos) {
                None => Ok(value.bits != 0),
                Some(token) => Err((
                    token.span,
                    format!("unexpected `{}` in a condition", token.text),
                )),
            }
        });
        value.unwrap_or_else(|(at, message)| {
            let mut error = Diagnostic::error(Code::DIRECTIVE, at, message);
            if error.message.starts_with("`defined`") {
                error = error.help("write `defined(NAME)`");
            }
            self.diagnostics.report(error);
            false
        })
    }

    /// The tokens of a condition after macro expansion and evaluation of `defined` and `__has_include`.
    fn condition_tokens(&mut self, tokens: &[Token]) -> Result<Vec<Token>, (Span, String)> {
        self.open_list(tokens.to_vec());
        let mut plain = Vec::with_capacity(tokens.len());
        let mut outcome = Ok(());
        while let Some(token) = self.next_expanded() {
            let asked = match &*token.text {
                _ if token.kind != TokenKind::Ident => None,
                "defined" => Some(self.defined(&token)),
                "__has_include" => Some(self.has_include(&token, false)),
                "__has_include_next" => Some(self.has_include(&token, true)),
                _ => None,
            };
            match asked {
                None => plain.push(token),
                Some(Ok(yes)) => plain.push(Token {
                    kind: TokenKind::Number,
                    text: self.names.intern(if yes { "1" } else { "0" }),
                    ..token
                }),
                Some(Err(wrong)) => {
                    outcome = Err(wrong);
                    break;
                }
            }
        }
        self.close_list();
        outcome.map(|()| plain)
    }

    /// Evaluates `defined NAME` or `defined(NAME)`; `word` is the token `defined`, already read.
    fn defined(&mut self, word: &Token) -> Result<bool, (Span, String)> {
        let mut name = self.next_raw();
        let parenthesis = name.as_ref().is_some_and(|t| t.kind == TokenKind::LParen);
        let mut closed = true;
        if parenthesis {
            name = self.next_raw();
            closed = self.next_raw().is_some_and(|t| t.kind == TokenKind::RParen);
        }
        match name {
            Some(name) if name.kind == TokenKind::Ident && closed => {
                Ok(self.macros.contains_key(&name.text))
            }
            _ => Err((word.span, "`defined` needs the name of a macro".to_owned())),
        }
    }

    /// Evaluates `__has_include("file")` or `__has_include(<file>)`; `word` is its first token, already read. `next`: it is
    /// `__has_include_next`.
    fn has_include(&mut self, word: &Token, next: bool) -> Result<bool, (Span, String)> {
        let open = self.next_raw();
        let mut name = Vec::new();
        let mut depth = 0;
        let mut closed = false;
        while let Some(token) = self.next_raw() {
            match token.kind {
                TokenKind::RParen if depth == 0 => {
                    closed = true;
                    break;
                }
                TokenKind::RParen => depth -= 1,
                TokenKind::LParen => depth += 1,
                _ => {}
            }
            name.push(token);
        }
        let found = match open {
            Some(open) if open.kind == TokenKind::LParen && closed => {
                self.include_name(&name, word.span)
            }
            _ => None,
        };
        let Some((name, system, _)) = found else {
            let message = format!(
                "`{}` needs a file: (<core.p4>) or (\"headers.p4\")",
                word.text
            );
            return Err((word.span, message));
        };
        Ok(self.has_file(&name, system, next))
    }
}

/// A number in a condition: 64 bits, signed or unsigned, as in C.
#[derive(Clone, Copy, Debug)]
struct Value {
    bits: i64,
    unsigned: bool,
}

impl Value {
    fn signed(bits: i64) -> Value {
        Value {
            bits,
            unsigned: false,
        }
    }

    fn of(truth: bool) -> Value {
        Value::signed(i64::from(truth))
    }
}

type Outcome = Result<Value, (Span, String)>;

struct Evaluator<'a> {
    tokens: &'a [Token],
    pos: usize,
    end: Span,
    depth: usize,
    /// Number of enclosing operands that are parsed but not evaluated, such as `4 / X` in `defined(X) && 4 / X`.
    skipped: u32,
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

    /// Parses the comma operator: `ternary, ternary, ...`, whose value is the last one.
    fn comma(&mut self) -> Outcome {
        let mut value = self.ternary()?;
        while self.eat(TokenKind::Comma) {
            value = self.ternary()?;
        }
        Ok(value)
    }

    fn ternary(&mut self) -> Outcome {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err((self.end, "the condition is nested too deeply".into()));
        }
        let condition = self.binary(0)?;
        let value = if self.eat(TokenKind::Question) {
            let truth = condition.bits != 0;
            let yes = self.unevaluated_if(!truth, Self::comma)?;
            self.expect(TokenKind::Colon)?;
            let no = self.unevaluated_if(truth, Self::ternary)?;
            Value {
                bits: if truth { yes.bits } else { no.bits },
                unsigned: yes.unsigned || no.unsigned,
            }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Parses an operand; if `skip`, without evaluating it.
    fn unevaluated_if(&mut self, skip: bool, part: impl FnOnce(&mut Self) -> Outcome) -> Outcome {
        self.skipped += u32::from(skip);
        let value = part(self);
        self.skipped -= u32::from(skip);
        value
    }

    /// The binary operator at the current token: precedence, name and number of tokens. `None` if there is none.
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
            let decided = match op {
                "||" => left.bits != 0,
                "&&" => left.bits == 0,
                _ => false,
            };
            let right = self.unevaluated_if(decided, |e| e.binary(precedence))?;
            let by_zero = matches!(op, "/" | "%") && right.bits == 0;
            if by_zero && self.skipped == 0 {
                return Err((at, "division by zero in a condition".into()));
            }
            left = apply(op, left, right);
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
            TokenKind::Not => Value::of(self.unary()?.bits == 0),
            TokenKind::Tilde => {
                let value = self.unary()?;
                Value {
                    bits: !value.bits,
                    ..value
                }
            }
            TokenKind::Minus => {
                let value = self.unary()?;
                Value {
                    bits: value.bits.wrapping_neg(),
                    ..value
                }
            }
            TokenKind::Plus => self.unary()?,
            TokenKind::LParen => {
                let value = self.comma()?;
                self.expect(TokenKind::RParen)?;
                value
            }
            TokenKind::Number => number(&token.text).ok_or_else(|| {
                (
                    token.span,
                    format!(
                        "`{}` is not a number that is allowed in a condition",
                        token.text
                    ),
                )
            })?,
            // As in C, a name that is not a macro is 0.
            TokenKind::Ident => Value::signed(0),
            TokenKind::Unknown if is_character(&token.text) => character(&token.text)
                .map(Value::signed)
                .ok_or_else(|| (token.span, "this character is empty or malformed".into()))?,
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

/// Applies a binary operator; a division by 0 has the result 0.
fn apply(op: &str, left: Value, right: Value) -> Value {
    let (a, b) = (left.bits, right.bits);
    let unsigned = left.unsigned || right.unsigned;
    let (ua, ub) = (a as u64, b as u64);
    let order = match unsigned {
        true => ua.cmp(&ub),
        false => a.cmp(&b),
    };
    let bits = match op {
        "||" => return Value::of(a != 0 || b != 0),
        "&&" => return Value::of(a != 0 && b != 0),
        "==" => return Value::of(a == b),
        "!=" => return Value::of(a != b),
        "<=" => return Value::of(order.is_le()),
        ">=" => return Value::of(order.is_ge()),
        "<" => return Value::of(order.is_lt()),
        ">" => return Value::of(order.is_gt()),
        "<<" | ">>" => {
            // As in `cpp`, a negative amount shifts in the opposite direction.
            let backwards = !right.unsigned && b < 0;
            let amount = if backwards { b.unsigned_abs() } else { ub };
            let bits = shift(left, (op == "<<") != backwards, amount);
            return Value { bits, ..left };
        }
        "|" => a | b,
        "^" => a ^ b,
        "&" => a & b,
        "+" => a.wrapping_add(b),
        "-" => a.wrapping_sub(b),
        "*" => a.wrapping_mul(b),
        "/" if unsigned => ua.checked_div(ub).unwrap_or(0) as i64,
        "/" => a.checked_div(b).unwrap_or(if b == 0 { 0 } else { a }),
        _ if unsigned => ua.checked_rem(ub).unwrap_or(0) as i64,
        _ => a.checked_rem(b).unwrap_or(0),
    };
    Value { bits, unsigned }
}

fn shift(value: Value, left: bool, amount: u64) -> i64 {
    let amount = amount.min(64) as u32;
    match (left, value.unsigned) {
        (true, _) => value.bits.checked_shl(amount).unwrap_or(0),
        (false, true) => (value.bits as u64).checked_shr(amount).unwrap_or(0) as i64,
        (false, false) => value.bits >> amount.min(63),
    }
}

/// Parses an integer literal of C, also with the prefix `0b`; it may have the suffixes `u` and `l`.
fn number(text: &str) -> Option<Value> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.trim_end_matches(['u', 'l']);
    let suffix = &lower[digits.len()..];
    if !matches!(suffix, "" | "u" | "l" | "ll" | "ul" | "ull" | "lu" | "llu") {
        return None;
    }
    let (digits, base) = match digits.get(..2) {
        Some("0x") => (&digits[2..], 16),
        Some("0b") => (&digits[2..], 2),
        _ if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        _ => (digits, 10),
    };
    if digits.starts_with('+') {
        return None;
    }
    let bits = u64::from_str_radix(digits, base).ok()?;
    // A literal over 2^63 - 1 is unsigned.
    let unsigned = suffix.contains('u') || i64::try_from(bits).is_err();
    let bits = bits as i64;
    Some(Value { bits, unsigned })
}

/// Value of a character constant `'x'`, with the escapes of C. Of several characters, the last four are combined to a 32-bit number.
fn character(text: &str) -> Option<i64> {
    let mut bytes = text.get(1..text.len() - 1)?.bytes().peekable();
    let mut codes: Vec<u8> = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            codes.push(byte);
            continue;
        }
        let digit = |byte: u8, base| char::from(byte).to_digit(base);
        codes.push(match bytes.next()? {
            b'a' => 7,
            b'b' => 8,
            b'e' | b'E' => 27,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'v' => 11,
            b'x' => {
                let mut value = digit(bytes.next()?, 16)?;
                while let Some(next) = bytes.peek().and_then(|byte| digit(*byte, 16)) {
                    bytes.next();
                    value = (value << 4 | next) & 0xff;
                }
                value as u8
            }
            first @ b'0'..=b'7' => {
                let mut value = u32::from(first - b'0');
                for _ in 0..2 {
                    let Some(next) = bytes.peek().and_then(|byte| digit(*byte, 8)) else {
                        break;
                    };
                    bytes.next();
                    value = value << 3 | next;
                }
                value as u8
            }
            other => other,
        });
    }
    match codes[..] {
        [] => None,
        // `char` is signed.
        [code] => Some(i64::from(code as i8)),
        _ => {
            let value = codes
                .iter()
                .fold(0u32, |value, code| value << 8 | u32::from(*code));
            Some(i64::from(value as i32))
        }
    }
}
