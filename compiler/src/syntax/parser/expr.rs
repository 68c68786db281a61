//! Expressions.

use super::*;
use num_bigint::BigInt;

impl Parser<'_> {
    /// Creates an expression node. If the expression is nested too deeply, that is reported and the node is `Invalid`;
    /// within [`Parser::attempt`] it is an error.
    pub(super) fn expr_node(&mut self, span: Span, kind: ExprKind) -> Parse<Expr> {
        let mut height = 0;
        kind.for_each_child(&mut |child| height = height.max(self.heights[child.id.0 as usize]));
        if height >= self.max_depth {
            let kind = Self::placeholder(self.report_too_deep(span))?;
            let id = self.expr_id(0);
            return Ok(Expr { id, span, kind });
        }
        let id = self.expr_id(height + 1);
        Ok(Expr { id, span, kind })
    }

    /// The placeholder for an expression with an error; the error itself if it is not reported.
    fn placeholder(error: SyntaxError) -> Parse<ExprKind> {
        error.0.map(ExprKind::Invalid).ok_or(error)
    }

    pub(super) fn expression(&mut self) -> Parse<Expr> {
        self.conditional_expression(false)
    }

    /// Parses an expression. `gt_ends`: the expression is a width in `<...>`, which the first `>` outside brackets ends.
    pub(super) fn conditional_expression(&mut self, gt_ends: bool) -> Parse<Expr> {
        let outer = std::mem::replace(&mut self.gt_ends, gt_ends);
        let expr = self.nested(|p| {
            let start = p.span();
            let condition = p.binary_expression(0)?;
            if !p.eat(TokenKind::Question) {
                return Ok(condition);
            }
            let yes = p.expression()?;
            p.expect(TokenKind::Colon)?;
            let no = p.conditional_expression(gt_ends)?;
            let span = start.to(p.last_span());
            p.expr_node(
                span,
                ExprKind::Ternary(Box::new(condition), Box::new(yes), Box::new(no)),
            )
        });
        self.gt_ends = outer;
        expr
    }

    /// The binary operator at the current token and its number of tokens; `None` if there is none.
    fn binary_operator(&self) -> Option<(BinaryOp, usize)> {
        Some(match self.kind() {
            TokenKind::Mul => (BinaryOp::Mul, 1),
            TokenKind::Div => (BinaryOp::Div, 1),
            TokenKind::Mod => (BinaryOp::Mod, 1),
            TokenKind::Plus => (BinaryOp::Add, 1),
            TokenKind::Minus => (BinaryOp::Sub, 1),
            TokenKind::AddSat => (BinaryOp::AddSat, 1),
            TokenKind::SubSat => (BinaryOp::SubSat, 1),
            TokenKind::Concat => (BinaryOp::Concat, 1),
            TokenKind::Shl => (BinaryOp::Shl, 1),
            TokenKind::Gt if self.gt_ends => return None,
            TokenKind::Gt if self.is_joint(self.pos, TokenKind::Gt) => (BinaryOp::Shr, 2),
            TokenKind::Gt if self.is_joint(self.pos, TokenKind::Ge) => return None,
            TokenKind::Lt => (BinaryOp::Lt, 1),
            TokenKind::Gt => (BinaryOp::Gt, 1),
            TokenKind::Le => (BinaryOp::Le, 1),
            TokenKind::Ge => (BinaryOp::Ge, 1),
            TokenKind::EqEq => (BinaryOp::Eq, 1),
            TokenKind::Ne => (BinaryOp::Ne, 1),
            TokenKind::And => (BinaryOp::BitAnd, 1),
            TokenKind::Xor => (BinaryOp::BitXor, 1),
            TokenKind::Or => (BinaryOp::BitOr, 1),
            TokenKind::AndAnd => (BinaryOp::And, 1),
            TokenKind::OrOr => (BinaryOp::Or, 1),
            _ => return None,
        })
    }

    /// Parses operands joined by operators of higher precedence than `min`.
    fn binary_expression(&mut self, min: u8) -> Parse<Expr> {
        // A binary expression begins at the parenthesis of its left operand, if that has one.
        let start = self.span();
        let mut left = self.prefix_expression()?;
        while let Some((op, tokens)) = self
            .binary_operator()
            .filter(|(op, _)| op.precedence() > min)
        {
            // `x[lo +: width]`
            if op == BinaryOp::Add && self.is_joint(self.pos, TokenKind::Colon) {
                break;
            }
            self.pos += tokens;
            let right = self.binary_expression(op.precedence())?;
            let span = start.to(self.last_span());
            left = self.expr_node(span, ExprKind::Binary(op, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn prefix_expression(&mut self) -> Parse<Expr> {
        let start = self.span();
        let op = match self.kind() {
            TokenKind::Not => UnaryOp::Not,
            TokenKind::Tilde => UnaryOp::Complement,
            TokenKind::Minus => UnaryOp::Minus,
            TokenKind::Plus => UnaryOp::Plus,
            TokenKind::LParen if self.at_cast() => {
                self.bump();
                let ty = self.type_ref()?;
                self.expect(TokenKind::RParen)?;
                let operand = self.nested(Self::prefix_expression)?;
                let span = start.to(self.last_span());
                return self.expr_node(span, ExprKind::Cast(ty, Box::new(operand)));
            }
            _ => return self.postfix_expression(),
        };
        self.bump();
        let operand = self.nested(Self::prefix_expression)?;
        let span = start.to(self.last_span());
        self.expr_node(span, ExprKind::Unary(op, Box::new(operand)))
    }

    /// Whether the parenthesis at the current token begins a cast `(T) x`.
    fn at_cast(&self) -> bool {
        let first = self.pos + 1;
        let Some(end) = self.after_type(first) else {
            return false;
        };
        if self
            .tokens
            .get(end)
            .is_none_or(|t| t.kind != TokenKind::RParen)
        {
            return false;
        }
        let name = match self.tokens[first].kind {
            TokenKind::Dot => first + 1,
            kind if kind.is_name() => first,
            _ => return true,
        };
        if name + 1 != end && self.tokens[name + 1].kind == TokenKind::Lt {
            return true;
        }
        match self.is_type(&self.tokens[name].text) {
            Some(is_type) => is_type,
            // An undeclared name with more after it, such as `(x[3])`: a cast only before `{`.
            None if name + 1 != end => self
                .tokens
                .get(end + 1)
                .is_some_and(|t| t.kind == TokenKind::LBrace),
            // An undeclared name alone: a cast if an operand follows, since operators follow a value.
            None => self.tokens.get(end + 1).is_some_and(|t| {
                use TokenKind::*;
                t.kind.is_name()
                    || matches!(
                        t.kind,
                        Number
                            | String
                            | LParen
                            | LBrace
                            | Tilde
                            | Not
                            | True
                            | False
                            | This
                            | InvalidHeader
                    )
            }),
        }
    }

    fn postfix_expression(&mut self) -> Parse<Expr> {
        let start = self.span();
        let mut expr = self.primary()?;
        loop {
            match self.kind() {
                TokenKind::Dot => {
                    self.bump();
                    let member = self.member()?;
                    let span = start.to(member.span);
                    expr = self.expr_node(span, ExprKind::Member(Box::new(expr), member))?;
                }
                TokenKind::LBracket => expr = self.index_or_slice(start, expr)?,
                TokenKind::LParen => expr = self.call(start, expr, Vec::new())?,
                TokenKind::Lt => {
                    if !matches!(expr.kind, ExprKind::Name(_) | ExprKind::Member(..)) {
                        return Ok(expr);
                    }
                    let after = self
                        .after_type_arguments(self.pos)
                        .map(|end| self.tokens[end].kind);
                    match (after, expr.kind) {
                        (Some(TokenKind::LParen), kind) => {
                            expr.kind = kind;
                            let type_args = self.type_argument_list()?;
                            expr = self.call(start, expr, type_args)?;
                        }
                        (Some(TokenKind::Dot), ExprKind::Name(path)) => {
                            let args = self.type_argument_list()?;
                            let span = start.to(self.last_span());
                            self.type_refs += 1;
                            let id = TypeRefId(self.type_refs - 1);
                            let ty = TypeRef {
                                id,
                                span,
                                kind: TypeRefKind::Specialized(path, args),
                            };
                            expr = self.expr_node(span, ExprKind::Type(ty))?;
                        }
                        (_, kind) => {
                            expr.kind = kind;
                            return Ok(expr);
                        }
                    }
                }
                _ => return Ok(expr),
            }
        }
    }

    /// Parses the name of a member: an identifier or a contextual keyword.
    fn member(&mut self) -> Parse<Ident> {
        self.name()
    }

    fn index_or_slice(&mut self, start: Span, base: Expr) -> Parse<Expr> {
        let base = Box::new(base);
        self.expect(TokenKind::LBracket)?;
        let first = Box::new(self.expression()?);
        let kind = if self.eat(TokenKind::Colon) {
            ExprKind::Slice {
                base,
                hi: first,
                lo: Box::new(self.expression()?),
            }
        } else if self.at(TokenKind::Plus) && self.is_joint(self.pos, TokenKind::Colon) {
            self.pos += 2;
            ExprKind::SlicePlus {
                base,
                lo: first,
                width: Box::new(self.expression()?),
            }
        } else {
            ExprKind::Index(base, first)
        };
        let end = self.expect(TokenKind::RBracket)?;
        self.expr_node(start.to(end), kind)
    }

    pub(super) fn call(
        &mut self,
        start: Span,
        callee: Expr,
        type_args: Vec<TypeRef>,
    ) -> Parse<Expr> {
        let args = self.argument_list()?;
        let span = start.to(self.last_span());
        self.expr_node(
            span,
            ExprKind::Call(Box::new(Call {
                callee,
                type_args,
                args,
            })),
        )
    }

    /// Parses `(argumentList)`.
    pub(super) fn argument_list(&mut self) -> Parse<Vec<Arg>> {
        self.expect(TokenKind::LParen)?;
        self.list(TokenKind::RParen, false, Self::argument)
    }

    fn argument(&mut self) -> Parse<Arg> {
        let name = if self.kind().is_name() && self.peek(1) == TokenKind::Assign {
            let name = self.name()?;
            self.bump();
            Some(name)
        } else {
            None
        };
        let value = if self.at(TokenKind::Underscore) {
            let span = self.bump();
            self.expr_node(span, ExprKind::DontCare(DontCare::Underscore))?
        } else {
            self.expression()?
        };
        Ok(Arg { name, value })
    }

    pub(super) fn primary(&mut self) -> Parse<Expr> {
        let span = self.span();
        let kind = match self.kind() {
            TokenKind::Number => self.number()?,
            TokenKind::String => ExprKind::String(unescape(&self.token().text)),
            TokenKind::True => ExprKind::Bool(true),
            TokenKind::False => ExprKind::Bool(false),
            TokenKind::This => ExprKind::This,
            TokenKind::Dots => ExprKind::Dots,
            TokenKind::InvalidHeader => ExprKind::InvalidHeader,
            TokenKind::LBrace => return self.brace_expression(),
            TokenKind::LParen => {
                self.bump();
                let inner = self.expression()?;
                self.expect(TokenKind::RParen)?;
                return Ok(inner);
            }
            TokenKind::Error => {
                self.bump();
                self.type_refs += 1;
                let ty = TypeRef {
                    id: TypeRefId(self.type_refs - 1),
                    span,
                    kind: TypeRefKind::Error,
                };
                if !self.at(TokenKind::Dot) {
                    return Err(self.expected("`.` and an error's name"));
                }
                return self.expr_node(span, ExprKind::Type(ty));
            }
            TokenKind::Dot => {
                let path = self.path()?;
                let span = span.to(self.last_span());
                return self.expr_node(span, ExprKind::Name(path));
            }
            kind if kind.is_name() => {
                let name = self.name()?;
                return self.expr_node(
                    span,
                    ExprKind::Name(Path {
                        absolute: false,
                        name,
                    }),
                );
            }
            _ => {
                return Err(self.expected("an expression"));
            }
        };
        self.bump();
        self.expr_node(span, kind)
    }

    /// Parses `{x, y}` or `{f = x, ...}`.
    fn brace_expression(&mut self) -> Parse<Expr> {
        let start = self.expect(TokenKind::LBrace)?;
        if self.kind().is_name() && self.peek(1) == TokenKind::Assign {
            let mut dots = None;
            let mut fields = Vec::new();
            loop {
                if self.at(TokenKind::Dots) {
                    dots = Some(self.bump());
                    self.eat(TokenKind::Comma);
                    self.expect(TokenKind::RBrace)?;
                    break;
                }
                fields.push(self.kv_pair()?);
                if self.eat(TokenKind::RBrace) {
                    break;
                }
                if !self.eat(TokenKind::Comma) {
                    return Err(self.expected("`,` or `}`"));
                }
                if self.eat(TokenKind::RBrace) {
                    break;
                }
            }
            let span = start.to(self.last_span());
            return self.expr_node(span, ExprKind::Struct { fields, dots });
        }
        let list = self.list(TokenKind::RBrace, true, Self::expression)?;
        let span = start.to(self.last_span());
        self.expr_node(span, ExprKind::List(list))
    }

    pub(super) fn kv_pair(&mut self) -> Parse<NamedExpr> {
        let name = self.name()?;
        self.expect(TokenKind::Assign)?;
        Ok(NamedExpr {
            name,
            value: self.expression()?,
        })
    }

    /// Parses the number at the current token, without consuming it.
    fn number(&mut self) -> Parse<ExprKind> {
        let (text, span) = (self.token().text.clone(), self.span());
        int_literal(&text).map(ExprKind::Int).or_else(|why| {
            let message = format!("`{text}` is not a number: {why}");
            Self::placeholder(self.error(Diagnostic::error(Code::LEXICAL, span, message)))
        })
    }

    /// Parses `keysetExpression`, up to the `:`.
    pub(super) fn keyset_expression(&mut self) -> Parse<Expr> {
        let tuple = self.at(TokenKind::LParen)
            && self
                .after_group(self.pos)
                .and_then(|end| self.tokens.get(end))
                .is_some_and(|t| t.kind == TokenKind::Colon);
        if !tuple {
            return self.simple_keyset_expression();
        }
        let start = self.bump();
        let mut list = self.list(TokenKind::RParen, false, Self::simple_keyset_expression)?;
        let span = start.to(self.last_span());
        if list.len() == 1 {
            return Ok(list.remove(0));
        }
        self.expr_node(span, ExprKind::Keyset(list))
    }

    pub(super) fn simple_keyset_expression(&mut self) -> Parse<Expr> {
        let span = self.span();
        if self.eat(TokenKind::Default) {
            return self.expr_node(span, ExprKind::DontCare(DontCare::Default));
        }
        if self.eat(TokenKind::Underscore) {
            return self.expr_node(span, ExprKind::DontCare(DontCare::Underscore));
        }
        let first = self.expression()?;
        if self.eat(TokenKind::Mask) {
            let mask = self.expression()?;
            return self.expr_node(
                span.to(self.last_span()),
                ExprKind::Mask(Box::new(first), Box::new(mask)),
            );
        }
        self.opt_range(span, first)
    }

    /// Parses the rest of `first .. last` after `first`; without `..`, returns `first`. `start`: where `first` begins.
    pub(super) fn opt_range(&mut self, start: Span, first: Expr) -> Parse<Expr> {
        if !self.eat(TokenKind::Range) {
            return Ok(first);
        }
        let last = self.expression()?;
        let span = start.to(self.last_span());
        self.expr_node(span, ExprKind::Range(Box::new(first), Box::new(last)))
    }
}

/// Value of a string token, without its quotes. The escapes `\"`, `\\` and `
/// ` are resolved (spec § 6.4.4); other backslashes stay.
pub(super) fn unescape(token: &str) -> Name {
    let body = token.strip_prefix('"').unwrap_or(token);
    let body = body.strip_suffix('"').unwrap_or(body);
    if !body.contains('\\') {
        return body.into();
    }
    let mut text = String::with_capacity(body.len());
    let mut chars = body.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            text.push(c);
            continue;
        }
        match chars.next() {
            Some('n') => text.push('\n'),
            Some(c @ ('"' | '\\')) => text.push(c),
            Some(c) => text.extend(['\\', c]),
            None => text.push('\\'),
        }
    }
    text.into()
}

/// Maximum length of a number in characters; longer ones have more bits than any type.
const MAX_DIGITS: usize = 20_000;

/// Parses an integer literal (spec § 6.4.3): an optional width `8w` or `8s`, an optional base such as `0x`, and digits. The error
/// completes the message "it is not a number:".
fn int_literal(text: &str) -> Result<IntLiteral, String> {
    if text.len() > MAX_DIGITS {
        return Err("it has too many digits".into());
    }
    let prefix = text
        .find(['w', 's'])
        .filter(|at| text[..*at].bytes().all(|b| b.is_ascii_digit()));
    let (width, digits) = match prefix {
        Some(at) => {
            let bits: u32 = text[..at]
                .parse()
                .map_err(|_| "its width is too large".to_owned())?;
            if bits > crate::sema::MAX_WIDTH {
                return Err(format!("its width is over {} bits", crate::sema::MAX_WIDTH));
            }
            let signed = text.as_bytes()[at] == b's';
            (Some(LiteralWidth { bits, signed }), &text[at + 1..])
        }
        None => (None, text),
    };
    let (base, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        Some("0d") => (10, &digits[2..]),
        _ => (10, digits),
    };
    let plain: String = digits.chars().filter(|c| *c != '_').collect();
    if plain.is_empty() {
        return Err("digits are missing".into());
    }
    if let Some(bad) = plain.chars().find(|c| !c.is_digit(base)) {
        return Err(format!("`{bad}` is not a digit in base {base}"));
    }
    let value = BigInt::parse_bytes(plain.as_bytes(), base).ok_or("its digits are malformed")?;
    Ok(IntLiteral { value, width, base })
}
