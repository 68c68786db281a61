//! Statements and parser states.

use super::*;
use std::rc::Rc;

/// Position of an `if`, its condition, and its first branch.
type Condition = (Span, Expr, Box<Stmt>);

impl Parser<'_> {
    pub(super) fn block_statement(&mut self) -> Parse<Block> {
        let annotations = self.opt_annotations()?;
        self.block(annotations)
    }

    fn block(&mut self, annotations: Vec<Annotation>) -> Parse<Block> {
        self.nested(|p| {
            p.scoped(|p| {
                let invalid = |span, reported| {
                    Some(Stmt {
                        span,
                        kind: StmtKind::Invalid(reported),
                    })
                };
                let (stmts, span) = p.braced_or(Self::statement_or_declaration, invalid)?;
                Ok(Block {
                    annotations,
                    stmts,
                    span,
                })
            })
        })
    }

    /// Parses `statementOrDeclaration` or `parserStatement`. The type checker rejects statements that are not allowed in a parser.
    pub(super) fn statement_or_declaration(&mut self) -> Parse<Stmt> {
        self.nested(Self::statement_inner)
    }

    fn statement_inner(&mut self) -> Parse<Stmt> {
        let start = self.span();
        let annotations = self.opt_annotations()?;
        let kind = match self.kind() {
            TokenKind::LBrace => StmtKind::Block(self.block(annotations)?),
            TokenKind::For => self.for_statement(annotations)?,
            TokenKind::Const => StmtKind::Const(Rc::new(self.constant_declaration(annotations)?)),
            _ if self.at_statement_keyword() => {
                self.reject_annotations("this statement", &annotations);
                self.keyword_statement()?
            }
            _ if self.declared_name().is_some() => {
                let variable = self.variable_declaration_without_semicolon(annotations)?;
                self.semicolon()?;
                StmtKind::Var(Rc::new(variable))
            }
            _ if self.at_instantiation() => {
                StmtKind::Instantiation(Rc::new(self.instantiation(annotations)?))
            }
            _ => {
                self.reject_annotations("this statement", &annotations);
                let kind = self.assignment_or_method_call_without_semicolon()?;
                self.semicolon()?;
                kind
            }
        };
        Ok(Stmt {
            span: start.to(self.last_span()),
            kind,
        })
    }

    pub(super) fn reject_annotations(&mut self, what: &str, annotations: &[Annotation]) {
        if let Some(first) = annotations.first() {
            self.error(
                Diagnostic::error(
                    Code::SYNTAX,
                    first.span,
                    format!("{what} cannot have annotations"),
                )
                .note("blocks, loops and declarations can"),
            );
        }
    }

    fn at_statement_keyword(&self) -> bool {
        use TokenKind::*;
        matches!(
            self.kind(),
            Semicolon | If | Switch | Break | Continue | Return | Exit
        )
    }

    fn keyword_statement(&mut self) -> Parse<StmtKind> {
        match self.kind() {
            TokenKind::If => self.conditional_statement(),
            TokenKind::Switch => self.switch_statement(),
            TokenKind::Return => {
                self.bump();
                let value = if self.at(TokenKind::Semicolon) {
                    None
                } else {
                    Some(self.expression()?)
                };
                self.semicolon()?;
                Ok(StmtKind::Return(value))
            }
            kind => {
                self.bump();
                let statement = match kind {
                    TokenKind::Semicolon => return Ok(StmtKind::Empty),
                    TokenKind::Break => StmtKind::Break,
                    TokenKind::Continue => StmtKind::Continue,
                    _ => StmtKind::Exit,
                };
                self.semicolon()?;
                Ok(statement)
            }
        }
    }

    /// Parses the branch of an `if` or the body of a loop, which must not be a declaration.
    fn statement(&mut self) -> Parse<Box<Stmt>> {
        let stmt = self.scoped(|p| p.nested(Self::statement_inner))?;
        if matches!(
            stmt.kind,
            StmtKind::Const(_) | StmtKind::Var(_) | StmtKind::Instantiation(_)
        ) {
            self.error(
                Diagnostic::error(
                    Code::SYNTAX,
                    stmt.span,
                    "expected a statement, found a declaration",
                )
                .help("put it in braces"),
            );
        }
        Ok(Box::new(stmt))
    }

    /// Parses `if (c) s else if (d) t else u`. Each `else if` is one nesting level deeper, but is parsed by iteration and uses no stack.
    fn conditional_statement(&mut self) -> Parse<StmtKind> {
        let outer = self.depth;
        let chain = self.chain_of_conditions();
        self.depth = outer;
        let (mut chain, mut otherwise) = chain?;
        let end = self.last_span();
        loop {
            let (start, condition, then) = chain.pop().expect("begins with an `if`");
            let kind = StmtKind::If {
                condition,
                then,
                otherwise,
            };
            if chain.is_empty() {
                return Ok(kind);
            }
            otherwise = Some(Box::new(Stmt {
                span: start.to(end),
                kind,
            }));
        }
    }

    /// Parses a chain of `if`s: position, condition and branch of each `if`, and the statement after the last `else`, if any.
    fn chain_of_conditions(&mut self) -> Parse<(Vec<Condition>, Option<Box<Stmt>>)> {
        let mut chain = Vec::new();
        loop {
            let start = self.expect(TokenKind::If)?;
            self.expect(TokenKind::LParen)?;
            let condition = self.expression()?;
            self.expect(TokenKind::RParen)?;
            let then = self.statement()?;
            chain.push((start, condition, then));
            if !self.eat(TokenKind::Else) {
                return Ok((chain, None));
            }
            if !self.at(TokenKind::If) {
                let otherwise = self.statement()?;
                return Ok((chain, Some(otherwise)));
            }
            self.enter_level()?;
        }
    }

    fn switch_statement(&mut self) -> Parse<StmtKind> {
        self.expect(TokenKind::Switch)?;
        self.expect(TokenKind::LParen)?;
        let subject = self.expression()?;
        self.expect(TokenKind::RParen)?;
        let (cases, _) = self.braced(Self::switch_case)?;
        Ok(StmtKind::Switch { subject, cases })
    }

    fn switch_case(&mut self) -> Parse<SwitchCase> {
        let start = self.span();
        let label = if self.eat(TokenKind::Default) {
            self.expr_node(start, ExprKind::DontCare(DontCare::Default))?
        } else {
            self.expression()?
        };
        self.expect(TokenKind::Colon)?;
        let at_body = matches!(self.kind(), TokenKind::LBrace | TokenKind::At);
        let body = if at_body {
            Some(self.block_statement()?)
        } else {
            None
        };
        Ok(SwitchCase {
            label,
            body,
            span: start.to(self.last_span()),
        })
    }

    fn for_statement(&mut self, annotations: Vec<Annotation>) -> Parse<StmtKind> {
        self.expect(TokenKind::For)?;
        self.scoped(|p| {
            p.expect(TokenKind::LParen)?;
            let first = p.opt_annotations()?;
            let name = p.declared_name();
            if name
                .and_then(|name| p.tokens.get(name + 1))
                .is_some_and(|t| t.kind == TokenKind::In)
            {
                return p.for_in(annotations, first);
            }
            let mut init = Vec::new();
            if !p.at(TokenKind::Semicolon) {
                init.push(p.decl_or_assignment(first)?);
                while p.eat(TokenKind::Comma) {
                    let annotations = p.opt_annotations()?;
                    init.push(p.decl_or_assignment(annotations)?);
                }
            }
            p.expect(TokenKind::Semicolon)?;
            let condition = p.expression()?;
            p.expect(TokenKind::Semicolon)?;
            let update = p.list(TokenKind::RParen, false, |p| {
                let start = p.span();
                let kind = p.assignment_or_method_call_without_semicolon()?;
                Ok(Stmt {
                    span: start.to(p.last_span()),
                    kind,
                })
            })?;
            let body = p.statement()?;
            Ok(StmtKind::For {
                annotations,
                init,
                condition,
                update,
                body,
            })
        })
    }

    fn for_in(
        &mut self,
        annotations: Vec<Annotation>,
        on_variable: Vec<Annotation>,
    ) -> Parse<StmtKind> {
        let start = self.span();
        let ty = self.type_ref()?;
        let name = self.name()?;
        self.expect(TokenKind::In)?;
        let begins = self.span();
        let first = self.expression()?;
        let collection = self.opt_range(begins, first)?;
        self.expect(TokenKind::RParen)?;
        self.declare(&name, false);
        let span = start.to(name.span);
        let variable = Rc::new(VarDecl {
            id: self.decl_id(),
            annotations: on_variable,
            ty,
            name,
            init: None,
            span,
        });
        let body = self.statement()?;
        Ok(StmtKind::ForIn {
            annotations,
            variable,
            collection,
            body,
        })
    }

    fn decl_or_assignment(&mut self, annotations: Vec<Annotation>) -> Parse<Stmt> {
        let start = self.span();
        let kind = if self.declared_name().is_some() {
            StmtKind::Var(Rc::new(
                self.variable_declaration_without_semicolon(annotations)?,
            ))
        } else {
            self.assignment_or_method_call_without_semicolon()?
        };
        Ok(Stmt {
            span: start.to(self.last_span()),
            kind,
        })
    }

    fn assignment_or_method_call_without_semicolon(&mut self) -> Parse<StmtKind> {
        let start = self.span();
        let left = match self.attempt_expression() {
            Some(left) => left?,
            None => {
                let found = self.found();
                return Err(self.error(
                    Diagnostic::error(
                        Code::SYNTAX,
                        start,
                        format!("expected a statement, found {found}"),
                    )
                    .label("expected a statement"),
                ));
            }
        };
        if let Some((op, tokens)) = self.assignment_operator() {
            self.pos += tokens;
            let right = self.expression()?;
            return Ok(StmtKind::Assign { left, op, right });
        }
        if matches!(left.kind, ExprKind::Call(_)) {
            return Ok(StmtKind::Call(left));
        }
        let ends_here = self.at(TokenKind::Semicolon);
        let ends_before = self.token().first_on_line
            && matches!(left.kind, ExprKind::Member(..) | ExprKind::Index(..));
        if !ends_here && !ends_before {
            return Err(self.expected("`=` or `(`"));
        }
        let error = self.error(
            Diagnostic::error(
                Code::SYNTAX,
                left.span,
                "this expression is not a statement",
            )
            .label("expected an assignment or a call"),
        );
        self.eat(TokenKind::Semicolon);
        Err(error)
    }

    /// Parses an expression; `None` if the current token cannot begin one.
    fn attempt_expression(&mut self) -> Option<Parse<Expr>> {
        use TokenKind::*;
        let begins = self.kind().is_name()
            || matches!(
                self.kind(),
                Dot | This
                    | LParen
                    | LBrace
                    | Number
                    | String
                    | True
                    | False
                    | Error
                    | Minus
                    | Plus
                    | Not
                    | Tilde
            );
        begins.then(|| self.expression())
    }

    /// The assignment operator at the current token and its number of tokens: `Some(None)` for `=`, the binary operator for a compound
    /// assignment, `None` for other tokens.
    fn assignment_operator(&self) -> Option<(Option<BinaryOp>, usize)> {
        match self.kind() {
            TokenKind::Assign => Some((None, 1)),
            TokenKind::Gt if self.is_joint(self.pos, TokenKind::Ge) => {
                Some((Some(BinaryOp::Shr), 2))
            }
            kind => kind.compound_assignment().map(|op| (Some(op), 1)),
        }
    }

    /// Parses `parserState`.
    pub(super) fn parser_state(&mut self, annotations: Vec<Annotation>) -> Parse<State> {
        let start = self.expect(TokenKind::State)?;
        let name = self.name()?;
        let id = self.decl_id();
        self.scoped(|p| {
            let open = p.expect(TokenKind::LBrace)?;
            let mut stmts = Vec::new();
            let mut transition = Transition::None;
            loop {
                match p.kind() {
                    TokenKind::RBrace => break,
                    TokenKind::End => {
                        let span = p.span();
                        p.error(
                            Diagnostic::error(
                                Code::SYNTAX,
                                span,
                                "expected `}`, found end of file",
                            )
                            .other(open, "to close this state"),
                        );
                        break;
                    }
                    TokenKind::Transition => {
                        match p.transition_statement() {
                            Ok(found) => transition = found,
                            Err(_) => p.skip_statement(),
                        }
                        if !p.at(TokenKind::RBrace) && !p.at(TokenKind::End) {
                            let span = p.span();
                            p.error(
                                Diagnostic::error(
                                    Code::SYNTAX,
                                    span,
                                    "a transition must be the last statement of its state",
                                )
                                .label("expected `}`"),
                            );
                            p.skip_block();
                            let span = start.to(p.last_span());
                            return Ok(State {
                                id,
                                annotations,
                                name,
                                stmts,
                                transition,
                                span,
                            });
                        }
                    }
                    _ => {
                        let before = p.pos;
                        match p.statement_or_declaration() {
                            Ok(stmt) => stmts.push(stmt),
                            Err(_) => {
                                if p.at(TokenKind::State) && p.begins_block_declaration() {
                                    break;
                                }
                                p.skip_statement();
                                if p.pos == before {
                                    p.bump();
                                }
                            }
                        }
                    }
                }
            }
            p.eat(TokenKind::RBrace);
            Ok(State {
                id,
                annotations,
                name,
                stmts,
                transition,
                span: start.to(p.last_span()),
            })
        })
    }

    fn transition_statement(&mut self) -> Parse<Transition> {
        self.expect(TokenKind::Transition)?;
        if !self.at(TokenKind::Select) {
            let target = self.name()?;
            self.semicolon()?;
            return Ok(Transition::Direct(target));
        }
        let start = self.bump();
        self.expect(TokenKind::LParen)?;
        let keys = self.list(TokenKind::RParen, false, Self::expression)?;
        let (cases, end) = self.braced(Self::select_case)?;
        Ok(Transition::Select(Select {
            keys,
            cases,
            span: start.to(end),
        }))
    }

    fn select_case(&mut self) -> Parse<SelectCase> {
        let start = self.span();
        let keyset = self.keyset_expression()?;
        self.expect(TokenKind::Colon)?;
        let target = self.name()?;
        self.semicolon()?;
        Ok(SelectCase {
            keyset,
            target,
            span: start.to(self.last_span()),
        })
    }
}
