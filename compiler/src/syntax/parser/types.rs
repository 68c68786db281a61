//! Types: the production `typeRef`, and lookahead for the end of a type.

use super::*;

/// Maximum lookahead for the end of type arguments, in tokens.
const MAX_LOOKAHEAD: usize = 400;

impl Parser<'_> {
    fn type_node(&mut self, start: Span, kind: TypeRefKind) -> TypeRef {
        self.type_refs += 1;
        TypeRef {
            id: TypeRefId(self.type_refs - 1),
            span: start.to(self.last_span()),
            kind,
        }
    }

    /// Parses `typeOrVoid`, `typeArg` or `typeRef`. The type checker rejects `void` and `_` where they are not allowed.
    pub(super) fn type_ref(&mut self) -> Parse<TypeRef> {
        self.nested(Self::type_ref_inner)
    }

    fn type_ref_inner(&mut self) -> Parse<TypeRef> {
        let start = self.span();
        let kind = match self.kind() {
            TokenKind::Bool => self.base_type(TypeRefKind::Bool),
            TokenKind::Error => self.base_type(TypeRefKind::Error),
            TokenKind::MatchKind => self.base_type(TypeRefKind::MatchKind),
            TokenKind::StringType => self.base_type(TypeRefKind::String),
            TokenKind::Void => self.base_type(TypeRefKind::Void),
            TokenKind::Underscore => self.base_type(TypeRefKind::DontCare),
            TokenKind::Bit => {
                self.bump();
                TypeRefKind::Bit(if self.at(TokenKind::Lt) {
                    Some(self.width()?)
                } else {
                    None
                })
            }
            TokenKind::Int => {
                self.bump();
                if self.at(TokenKind::Lt) {
                    TypeRefKind::SignedInt(self.width()?)
                } else {
                    TypeRefKind::Int
                }
            }
            TokenKind::Varbit => {
                self.bump();
                TypeRefKind::Varbit(self.width()?)
            }
            TokenKind::Tuple => {
                self.bump();
                TypeRefKind::Tuple(self.type_argument_list()?)
            }
            TokenKind::List if self.peek(1) == TokenKind::Lt => {
                self.bump();
                let mut args = self.type_argument_list()?;
                if args.len() != 1 {
                    let span = start.to(self.last_span());
                    let message = "`list` takes one type argument";
                    return Err(self.error(Diagnostic::error(Code::TYPE_ARGUMENTS, span, message)));
                }
                TypeRefKind::List(Box::new(args.remove(0)))
            }
            TokenKind::Dot => self.named_type()?,
            kind if kind.is_name() => self.named_type()?,
            _ => {
                return Err(self.expected("a type"));
            }
        };
        let ty = self.type_node(start, kind);
        self.dimensions(ty)
    }

    /// Parses any number of `[size]` after a type or a declared name; returns the stack type.
    pub(super) fn dimensions(&mut self, mut ty: TypeRef) -> Parse<TypeRef> {
        let start = ty.span;
        let mut dimensions = 0;
        while self.at(TokenKind::LBracket) {
            dimensions += 1;
            if dimensions > MAX_DIMENSIONS {
                let message = "this type has too many dimensions";
                return Err(self.error(Diagnostic::error(Code::NESTING, ty.span, message)));
            }
            self.bump();
            let size = self.expression()?;
            self.expect(TokenKind::RBracket)?;
            ty = self.type_node(start, TypeRefKind::Stack(Box::new(ty), Box::new(size)));
        }
        Ok(ty)
    }

    /// Parses `typeRef declarator`: `T x`, or `T x[2]`, which means `T[2] x`.
    pub(super) fn declarator(&mut self) -> Parse<(TypeRef, Ident)> {
        let ty = self.type_ref()?;
        let name = self.name()?;
        Ok((self.dimensions(ty)?, name))
    }

    fn base_type(&mut self, kind: TypeRefKind) -> TypeRefKind {
        self.bump();
        kind
    }

    fn named_type(&mut self) -> Parse<TypeRefKind> {
        let path = self.path()?;
        if self.at(TokenKind::Lt) {
            return Ok(TypeRefKind::Specialized(path, self.type_argument_list()?));
        }
        Ok(TypeRefKind::Name(path))
    }

    /// Parses `x` or `.x`.
    pub(super) fn path(&mut self) -> Parse<Path> {
        let absolute = self.eat(TokenKind::Dot);
        Ok(Path {
            absolute,
            name: self.name()?,
        })
    }

    /// Parses a width `<expression>`, which the first `>` outside brackets ends.
    fn width(&mut self) -> Parse<Box<Expr>> {
        self.expect(TokenKind::Lt)?;
        let width = self.conditional_expression(true)?;
        self.expect(TokenKind::Gt)?;
        Ok(Box::new(width))
    }

    /// Parses type arguments `<A, B>`.
    pub(super) fn type_argument_list(&mut self) -> Parse<Vec<TypeRef>> {
        self.expect(TokenKind::Lt)?;
        self.list(TokenKind::Gt, false, Self::type_ref)
    }

    /// Parses type parameters `<A, B>` and declares their names; empty if there are none.
    pub(super) fn opt_type_parameters(&mut self) -> Parse<Vec<TypeParam>> {
        if !self.eat(TokenKind::Lt) {
            return Ok(Vec::new());
        }
        if self.at(TokenKind::Gt) {
            return Err(self.expected("the name of a type"));
        }
        self.list(TokenKind::Gt, false, |p| {
            let name = p.name()?;
            p.declare(&name, true);
            Ok(TypeParam {
                id: p.decl_id(),
                name,
            })
        })
    }

    /// Index of the token after the type arguments that begin with the `<` at `from`; `None` if the tokens cannot be type arguments.
    pub(super) fn after_type_arguments(&self, from: usize) -> Option<usize> {
        use TokenKind::*;
        let mut open = 0u32;
        let mut pos = from;
        while pos < from + MAX_LOOKAHEAD {
            match self.tokens.get(pos)?.kind {
                Lt => open += 1,
                Gt => {
                    open -= 1;
                    if open == 0 {
                        return Some(pos + 1);
                    }
                }
                LBracket => pos = self.after_group(pos)? - 1,
                Bit | Int | Varbit => pos = self.after_base_type(pos)? - 1,
                Comma | Dot | Bool | Error | MatchKind | StringType | Tuple | Void | Underscore => {
                }
                kind if kind.is_name() => {}
                _ => return None,
            }
            pos += 1;
        }
        None
    }

    /// Index of the token after the closing bracket that matches the opening one at `from`; `None` if it is missing.
    pub(super) fn after_group(&self, from: usize) -> Option<usize> {
        use TokenKind::*;
        let mut open = 0u32;
        for (i, token) in self.tokens[from..].iter().enumerate() {
            match token.kind {
                LParen | LBracket => open += 1,
                RParen | RBracket => {
                    open -= 1;
                    if open == 0 {
                        return Some(from + i + 1);
                    }
                }
                Semicolon | End => return None,
                _ => {}
            }
        }
        None
    }

    /// Index of the token after the type that begins at `from`, found without parsing it; `None` if no type begins there.
    pub(super) fn after_type(&self, from: usize) -> Option<usize> {
        use TokenKind::*;
        let kind = self.tokens.get(from)?.kind;
        let mut pos = from + 1;
        match kind {
            Bool | MatchKind | StringType | Void => return Some(pos),
            Error => return (self.tokens.get(pos)?.kind != Dot).then_some(pos),
            Bit | Int | Varbit => pos = self.after_base_type(from)?,
            Tuple => {
                if self.tokens.get(pos)?.kind == Lt {
                    pos = self.after_type_arguments(pos)?;
                }
            }
            Dot => {
                self.tokens.get(pos).filter(|t| t.kind.is_name())?;
                pos = self.after_named_type(pos + 1)?;
            }
            kind if kind.is_name() => pos = self.after_named_type(pos)?,
            _ => return None,
        }
        while self.tokens.get(pos)?.kind == LBracket {
            pos = self.after_group(pos)?;
        }
        Some(pos)
    }

    /// Index of the token after `bit`, `int` or `varbit` and its width.
    fn after_base_type(&self, from: usize) -> Option<usize> {
        use TokenKind::*;
        let mut pos = from + 1;
        if self.tokens.get(pos)?.kind != Lt {
            return Some(pos);
        }
        while pos < from + MAX_LOOKAHEAD {
            pos += 1;
            match self.tokens.get(pos)?.kind {
                Gt => return Some(pos + 1),
                LParen | LBracket => pos = self.after_group(pos)? - 1,
                Semicolon | LBrace | RBrace | RParen | Assign | Comma => return None,
                _ => {}
            }
        }
        None
    }

    fn after_named_type(&self, pos: usize) -> Option<usize> {
        if self.tokens.get(pos)?.kind == TokenKind::Lt {
            return self.after_type_arguments(pos);
        }
        Some(pos)
    }

    /// If `T x` begins at the current token, as in the declaration of a variable, the index of `x`.
    pub(super) fn declared_name(&self) -> Option<usize> {
        let pos = self.after_type(self.pos)?;
        self.tokens
            .get(pos)
            .filter(|t| t.kind.is_name())
            .map(|_| pos)
    }

    /// Whether an instantiation `T(...) x` begins at the current token. If `x` is called and on a new line, it is the next statement, and
    /// the `;` between is missing.
    pub(super) fn at_instantiation(&self) -> bool {
        let Some(pos) = self.after_type(self.pos) else {
            return false;
        };
        if self
            .tokens
            .get(pos)
            .is_none_or(|t| t.kind != TokenKind::LParen)
        {
            return false;
        }
        let Some(pos) = self.after_group(pos) else {
            return false;
        };
        let kind = |at: usize| self.tokens.get(at).map(|token| token.kind);
        let called = matches!(kind(pos + 1), Some(TokenKind::LParen | TokenKind::Dot));
        let own_line = self.tokens.get(pos).is_some_and(|t| t.first_on_line);
        kind(pos).is_some_and(TokenKind::is_name) && !(own_line && called)
    }
}
