//! Declarations.

use super::*;
use std::rc::Rc;

impl Parser<'_> {
    /// Parses `p4program`: declarations up to the end of the text.
    pub(super) fn p4_program(&mut self) -> Vec<Decl> {
        let mut decls = Vec::new();
        while !self.at(TokenKind::End) {
            if self.eat(TokenKind::Semicolon) {
                continue;
            }
            let before = self.pos;
            match self.declaration() {
                Ok(Some(decl)) => decls.push(decl),
                Ok(None) => {}
                Err(_) => self.skip_declaration(before),
            }
        }
        decls
    }

    /// Resumes after a syntax error at the top level: skips to a line that begins with a declaration, or to after the next `;` or block.
    /// `before`: index of the first token of the failed declaration.
    fn skip_declaration(&mut self, before: usize) {
        if self.pos == before {
            self.bump();
        }
        self.skip_to_declaration();
        self.record_skipped(before);
    }

    fn skip_to_declaration(&mut self) {
        while !self.at(TokenKind::End) {
            if self.token().first_on_line && self.begins_declaration() {
                return;
            }
            if self.at(TokenKind::Semicolon) {
                self.bump();
                return;
            }
            if self.at(TokenKind::LBrace) {
                self.bump();
                self.skip_block();
                return;
            }
            self.bump();
        }
    }

    fn begins_declaration(&self) -> bool {
        use TokenKind::*;
        matches!(self.kind(), Const | Error | MatchKind | At) || self.begins_block_declaration()
    }

    /// Whether a declaration of a variable begins at the current token: a type, a name, and `;`, `=` or `[`.
    fn at_variable(&self) -> bool {
        self.after_type(self.pos).is_some_and(|name| {
            let kind = |at: usize| self.tokens.get(at).map(|token| token.kind);
            kind(name).is_some_and(TokenKind::is_name)
                && matches!(
                    kind(name + 1),
                    Some(TokenKind::Semicolon | TokenKind::Assign | TokenKind::LBracket)
                )
        })
    }

    /// Whether the current tokens begin a declaration of a header's type in P4_14, which no P4_16 program has.
    fn at_p4_14(&self) -> bool {
        let kinds = [1, 2].map(|ahead| self.peek(ahead));
        &*self.token().text == "header_type" && kinds == [TokenKind::Ident, TokenKind::LBrace]
    }

    /// Reports that the program is in P4_14. Later errors are not reported.
    fn report_p4_14(&mut self) -> SyntaxError {
        self.has_errors = true;
        let message = "this program is in P4_14; only P4_16 is supported";
        let error = Diagnostic::error(Code::SYNTAX, self.span(), message);
        let reported = self.diagnostics.report_last(error.help(TRANSLATE_P4_14));
        SyntaxError(Some(reported))
    }

    /// Parses a top-level declaration; `None` for a forward declaration of an extern, which declares nothing.
    fn declaration(&mut self) -> Parse<Option<Decl>> {
        if self.at_p4_14() {
            return Err(self.report_p4_14());
        }
        let annotations = self.opt_annotations()?;
        use TokenKind::*;
        Ok(Some(match self.kind() {
            Const => Decl::Const(Rc::new(self.constant_declaration(annotations)?)),
            Extern => return self.extern_declaration(annotations),
            Action => Decl::Action(Rc::new(self.action_declaration(annotations)?)),
            Parser => Decl::Parser(Rc::new(self.parser_declaration(annotations)?)),
            Control => Decl::Control(Rc::new(self.control_declaration(annotations)?)),
            Package => Decl::Package(Rc::new(self.package_type_declaration(annotations)?)),
            Error if self.peek(1) == LBrace => {
                Decl::Error(Rc::new(self.members_declaration(annotations)?))
            }
            MatchKind if self.peek(1) == LBrace => {
                Decl::MatchKind(Rc::new(self.members_declaration(annotations)?))
            }
            Struct | Header | HeaderUnion | Enum => self.derived_type_declaration(annotations)?,
            Typedef => self.typedef_declaration(annotations)?,
            Type if self.after_type(self.pos + 1).is_some() => {
                self.typedef_declaration(annotations)?
            }
            _ if self.at_instantiation() => {
                Decl::Instantiation(Rc::new(self.instantiation(annotations)?))
            }
            _ if self.at_variable() => {
                let before = self.pos;
                let variable = self.variable_declaration_without_semicolon(annotations)?;
                self.error(
                    Diagnostic::error(
                        Code::SYNTAX,
                        variable.name.span,
                        "a variable cannot be declared at the top level",
                    )
                    .help(
                        "make it a `const`, or declare it in a parser, control, action or function",
                    ),
                );
                self.semicolon()?;
                self.record_skipped(before);
                return Ok(None);
            }
            _ if self.after_type(self.pos).is_some() => {
                Decl::Function(Rc::new(self.function_declaration(annotations)?))
            }
            _ => {
                return Err(self.expected("a declaration"));
            }
        }))
    }

    pub(super) fn constant_declaration(
        &mut self,
        annotations: Vec<Annotation>,
    ) -> Parse<ConstDecl> {
        let start = self.expect(TokenKind::Const)?;
        let (ty, name) = self.declarator()?;
        self.expect(TokenKind::Assign)?;
        let value = self.expression()?;
        self.declare(&name, false);
        self.semicolon()?;
        Ok(ConstDecl {
            id: self.decl_id(),
            annotations,
            ty,
            name,
            value,
            span: start.to(self.last_span()),
        })
    }

    pub(super) fn variable_declaration_without_semicolon(
        &mut self,
        annotations: Vec<Annotation>,
    ) -> Parse<VarDecl> {
        let start = self.span();
        let (ty, name) = self.declarator()?;
        let init = if self.eat(TokenKind::Assign) {
            Some(self.expression()?)
        } else {
            None
        };
        self.declare(&name, false);
        Ok(VarDecl {
            id: self.decl_id(),
            annotations,
            ty,
            name,
            init,
            span: start.to(self.last_span()),
        })
    }

    pub(super) fn instantiation(&mut self, annotations: Vec<Annotation>) -> Parse<Instantiation> {
        let start = self.span();
        let call = self.expr_id(0);
        let ty = self.type_ref()?;
        let args = self.argument_list()?;
        let name = self.name()?;
        self.declare(&name, false);
        let id = self.decl_id();
        let body = if self.eat(TokenKind::Assign) {
            Some(self.scoped(|p| p.braced(Self::obj_declaration))?.0)
        } else {
            None
        };
        self.semicolon()?;
        Ok(Instantiation {
            id,
            call,
            annotations,
            ty,
            args,
            name,
            body,
            span: start.to(self.last_span()),
        })
    }

    fn obj_declaration(&mut self) -> Parse<Decl> {
        let annotations = self.opt_annotations()?;
        if self.at_instantiation() {
            return Ok(Decl::Instantiation(Rc::new(
                self.instantiation(annotations)?,
            )));
        }
        Ok(Decl::Function(Rc::new(
            self.function_declaration(annotations)?,
        )))
    }

    /// Parses `functionDeclaration`.
    fn function_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<FunctionDecl> {
        let start = self.span();
        let mut function = self.function_prototype(annotations, start)?;
        if self.at(TokenKind::Semicolon) {
            let span = self.span();
            return Err(self.error(
                Diagnostic::error(Code::SYNTAX, span, "a function needs a body")
                    .help("functions that the target implements are declared with `extern`"),
            ));
        }
        let body = self.scoped(|p| {
            for param in &function.type_params {
                p.declare(&param.name, true);
            }
            for param in &function.params {
                p.declare(&param.name, false);
            }
            p.block_statement()
        })?;
        function.body = Some(body);
        function.span = start.to(self.last_span());
        Ok(function)
    }

    /// Parses `functionPrototype`.
    fn function_prototype(
        &mut self,
        annotations: Vec<Annotation>,
        start: Span,
    ) -> Parse<FunctionDecl> {
        let ret = self.type_ref()?;
        let name = self.name()?;
        self.declare(&name, false);
        let id = self.decl_id();
        self.scoped(|p| {
            let type_params = p.opt_type_parameters()?;
            let params = p.parameter_list()?;
            let span = start.to(p.last_span());
            let (is_abstract, body) = (false, None);
            Ok(FunctionDecl {
                id,
                annotations,
                is_abstract,
                ret: Some(ret),
                name,
                type_params,
                params,
                body,
                span,
            })
        })
    }

    /// Parses `(parameterList)`.
    pub(super) fn parameter_list(&mut self) -> Parse<Vec<Rc<Param>>> {
        self.expect(TokenKind::LParen)?;
        self.list(TokenKind::RParen, false, Self::parameter)
    }

    fn parameter(&mut self) -> Parse<Rc<Param>> {
        let annotations = self.opt_annotations()?;
        let start = self.span();
        let direction = match self.kind() {
            TokenKind::In => Direction::In,
            TokenKind::Out => Direction::Out,
            TokenKind::Inout => Direction::InOut,
            _ => Direction::None,
        };
        if direction != Direction::None {
            self.bump();
        }
        let (ty, name) = self.declarator()?;
        let default = if self.eat(TokenKind::Assign) {
            Some(self.expression()?)
        } else {
            None
        };
        self.declare(&name, false);
        let id = self.decl_id();
        Ok(Rc::new(Param {
            id,
            annotations,
            direction,
            ty,
            name,
            default,
            span: start.to(self.last_span()),
        }))
    }

    fn extern_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<Option<Decl>> {
        let start = self.expect(TokenKind::Extern)?;
        let after_name = if self.peek(1) == TokenKind::Lt {
            self.after_type_arguments(self.pos + 1)
                .map(|pos| self.tokens[pos].kind)
        } else {
            Some(self.peek(1))
        };
        if !self.kind().is_name()
            || !matches!(after_name, Some(TokenKind::LBrace | TokenKind::Semicolon))
        {
            let mut function = self.function_prototype(annotations, start)?;
            self.semicolon()?;
            function.span = start.to(self.last_span());
            return Ok(Some(Decl::ExternFunction(Rc::new(function))));
        }
        let name = self.name()?;
        self.declare(&name, true);
        if self.eat(TokenKind::Semicolon) {
            return Ok(None);
        }
        let id = self.decl_id();
        self.scoped(|p| {
            let type_params = p.opt_type_parameters()?;
            let (list, _) = p.braced(|p| p.method_prototype(&name))?;
            let (constructors, methods) = list
                .into_iter()
                .map(Rc::new)
                .partition(|f: &Rc<FunctionDecl>| f.ret.is_none());
            let span = start.to(p.last_span());
            Ok(Some(Decl::Extern(Rc::new(ExternDecl {
                id,
                annotations,
                name,
                type_params,
                constructors,
                methods,
                span,
            }))))
        })
    }

    fn method_prototype(&mut self, ext: &Ident) -> Parse<FunctionDecl> {
        let annotations = self.opt_annotations()?;
        let start = self.span();
        let is_abstract = self.eat(TokenKind::Abstract);
        let mut method = if self.token().text == ext.name && self.peek(1) == TokenKind::LParen {
            let name = self.name()?;
            let id = self.decl_id();
            let params = self.scoped(Self::parameter_list)?;
            let (type_params, span) = (Vec::new(), start.to(self.last_span()));
            FunctionDecl {
                id,
                annotations,
                is_abstract,
                ret: None,
                name,
                type_params,
                params,
                body: None,
                span,
            }
        } else if self.kind().is_name() && self.peek(1) == TokenKind::LParen {
            let name = self.name()?;
            return Err(self.error(
                Diagnostic::error(
                    Code::SYNTAX,
                    name.span,
                    format!("method `{name}` has no result type"),
                )
                .help(format!(
                    "write `void {name}(...)`; a constructor must be named `{ext}`"
                )),
            ));
        } else {
            self.function_prototype(annotations, start)?
        };
        self.semicolon()?;
        method.is_abstract = is_abstract;
        method.span = start.to(self.last_span());
        Ok(method)
    }

    fn parser_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<ParserDecl> {
        let start = self.expect(TokenKind::Parser)?;
        let name = self.name()?;
        self.declare(&name, true);
        let id = self.decl_id();
        self.scoped(|p| {
            let type_params = p.opt_type_parameters()?;
            let params = p.parameter_list()?;
            let body = if p.eat(TokenKind::Semicolon) {
                None
            } else {
                Some(p.parser_body()?)
            };
            let span = start.to(p.last_span());
            Ok(ParserDecl {
                id,
                annotations,
                name,
                type_params,
                params,
                body,
                span,
            })
        })
    }

    fn parser_body(&mut self) -> Parse<ParserBody> {
        let ctor_params = self.opt_constructor_parameters()?;
        enum Element {
            Local(Decl),
            State(Rc<State>),
        }
        let (elements, _) = self.braced(|p| {
            let annotations = p.opt_annotations()?;
            if p.at(TokenKind::State) && p.peek(1).is_name() && p.peek(2) == TokenKind::LBrace {
                return Ok(Element::State(Rc::new(p.parser_state(annotations)?)));
            }
            p.parser_local_element(annotations).map(Element::Local)
        })?;
        let mut body = ParserBody {
            ctor_params,
            locals: Vec::new(),
            states: Vec::new(),
        };
        for element in elements {
            match element {
                Element::State(state) => body.states.push(state),
                Element::Local(local) => {
                    if !body.states.is_empty() {
                        self.error(
                            Diagnostic::error(
                                Code::SYNTAX,
                                local.span(),
                                "declarations of a parser come before its states",
                            )
                            .label("move this before the states"),
                        );
                    }
                    body.locals.push(local);
                }
            }
        }
        Ok(body)
    }

    fn opt_constructor_parameters(&mut self) -> Parse<Vec<Rc<Param>>> {
        if self.at(TokenKind::LParen) {
            self.parameter_list()
        } else {
            Ok(Vec::new())
        }
    }

    fn parser_local_element(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        match self.kind() {
            TokenKind::ValueSet => Ok(Decl::ValueSet(Rc::new(
                self.value_set_declaration(annotations)?,
            ))),
            _ => match self.opt_local_declaration(annotations)? {
                Some(decl) => Ok(decl),
                None => Err(self.expected("a state or a declaration")),
            },
        }
    }

    /// Parses a constant, instance or variable, which parsers and controls may both declare; `None` if none begins here.
    fn opt_local_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<Option<Decl>> {
        Ok(Some(match self.kind() {
            TokenKind::Const => Decl::Const(Rc::new(self.constant_declaration(annotations)?)),
            _ if self.at_instantiation() => {
                Decl::Instantiation(Rc::new(self.instantiation(annotations)?))
            }
            _ if self.declared_name().is_some() => {
                let variable = self.variable_declaration_without_semicolon(annotations)?;
                self.semicolon()?;
                Decl::Var(Rc::new(variable))
            }
            _ => return Ok(None),
        }))
    }

    fn value_set_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<ValueSetDecl> {
        let start = self.expect(TokenKind::ValueSet)?;
        self.expect(TokenKind::Lt)?;
        let ty = self.type_ref()?;
        self.expect(TokenKind::Gt)?;
        self.expect(TokenKind::LParen)?;
        let size = self.expression()?;
        self.expect(TokenKind::RParen)?;
        let name = self.name()?;
        self.declare(&name, false);
        self.semicolon()?;
        Ok(ValueSetDecl {
            id: self.decl_id(),
            annotations,
            ty,
            size,
            name,
            span: start.to(self.last_span()),
        })
    }

    fn control_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<ControlDecl> {
        let start = self.expect(TokenKind::Control)?;
        let name = self.name()?;
        self.declare(&name, true);
        let id = self.decl_id();
        self.scoped(|p| {
            let type_params = p.opt_type_parameters()?;
            let params = p.parameter_list()?;
            let body = if p.eat(TokenKind::Semicolon) {
                None
            } else {
                Some(p.control_body(&name)?)
            };
            let span = start.to(p.last_span());
            Ok(ControlDecl {
                id,
                annotations,
                name,
                type_params,
                params,
                body,
                span,
            })
        })
    }

    fn opt_control_local(
        &mut self,
        kind: TokenKind,
        annotations: Vec<Annotation>,
    ) -> Parse<Option<Decl>> {
        Ok(match kind {
            TokenKind::Action => Some(Decl::Action(Rc::new(self.action_declaration(annotations)?))),
            TokenKind::Table => Some(Decl::Table(Rc::new(self.table_declaration(annotations)?))),
            _ => self.opt_local_declaration(annotations)?,
        })
    }

    fn control_body(&mut self, control: &Ident) -> Parse<ControlBody> {
        let ctor_params = self.opt_constructor_parameters()?;
        let mut apply: Option<Block> = None;
        let errors = self.diagnostics.error_count();
        let (locals, span) = self.braced(|p| {
            let annotations = p.opt_annotations()?;
            match p.kind() {
                TokenKind::Apply if matches!(p.peek(1), TokenKind::LBrace | TokenKind::At) => {
                    let span = p.bump();
                    let mut block = p.block_statement()?;
                    block.annotations.extend(annotations);
                    if let Some(first) = &apply {
                        let first = first.span;
                        p.error(
                            Diagnostic::error(
                                Code::SYNTAX,
                                span,
                                "a control has one `apply` block",
                            )
                            .other(first, "first `apply` block"),
                        );
                    }
                    apply = Some(block);
                    Ok(None)
                }
                kind => match p.opt_control_local(kind, annotations)? {
                    Some(decl) => {
                        if apply.is_some() {
                            p.error(
                                Diagnostic::error(
                                    Code::SYNTAX,
                                    decl.span(),
                                    "declarations of a control come before `apply`",
                                )
                                .label("move this before `apply`"),
                            );
                        }
                        Ok(Some(decl))
                    }
                    None => Err(p.expected("a declaration or `apply`")),
                },
            }
        })?;
        let apply = apply.unwrap_or_else(|| {
            // Text that was skipped after a syntax error may contain the `apply` block.
            if self.diagnostics.error_count() == errors {
                self.error(
                    Diagnostic::error(
                        Code::SYNTAX,
                        control.span,
                        format!("control `{control}` has no `apply` block"),
                    )
                    .help("add `apply { }` as its last part"),
                );
            }
            Block {
                annotations: Vec::new(),
                stmts: Vec::new(),
                span,
            }
        });
        Ok(ControlBody {
            ctor_params,
            locals: locals.into_iter().flatten().collect(),
            apply,
        })
    }

    fn package_type_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<PackageDecl> {
        let start = self.expect(TokenKind::Package)?;
        let name = self.name()?;
        self.declare(&name, true);
        let id = self.decl_id();
        self.scoped(|p| {
            let type_params = p.opt_type_parameters()?;
            let params = p.parameter_list()?;
            p.semicolon()?;
            Ok(PackageDecl {
                id,
                annotations,
                name,
                type_params,
                params,
                span: start.to(p.last_span()),
            })
        })
    }

    fn derived_type_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        match self.kind() {
            TokenKind::Struct => Ok(Decl::Struct(Rc::new(
                self.struct_type_declaration(annotations)?,
            ))),
            TokenKind::Header => Ok(Decl::Header(Rc::new(
                self.struct_type_declaration(annotations)?,
            ))),
            TokenKind::HeaderUnion => Ok(Decl::HeaderUnion(Rc::new(
                self.struct_type_declaration(annotations)?,
            ))),
            TokenKind::Enum => Ok(Decl::Enum(Rc::new(self.enum_declaration(annotations)?))),
            _ => Err(self.expected("a type declaration")),
        }
    }

    /// Parses `structTypeDeclaration`, `headerTypeDeclaration` or `headerUnionDeclaration`; the current token is the keyword.
    fn struct_type_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<StructDecl> {
        let start = self.bump();
        let name = self.name()?;
        self.declare(&name, true);
        let id = self.decl_id();
        self.scoped(|p| {
            let type_params = p.opt_type_parameters()?;
            let (fields, _) = p.braced(Self::struct_field)?;
            Ok(StructDecl {
                id,
                annotations,
                name,
                type_params,
                fields,
                span: start.to(p.last_span()),
            })
        })
    }

    fn struct_field(&mut self) -> Parse<Rc<Field>> {
        let annotations = self.opt_annotations()?;
        let start = self.span();
        let (ty, name) = self.declarator()?;
        // Keep the field even if its `;` is missing.
        if self.semicolon().is_err() {
            self.skip_statement();
        }
        Ok(Rc::new(Field {
            id: self.decl_id(),
            annotations,
            ty,
            name,
            span: start.to(self.last_span()),
        }))
    }

    fn enum_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<EnumDecl> {
        let start = self.expect(TokenKind::Enum)?;
        let plain = self.kind().is_name() && self.peek(1) == TokenKind::LBrace;
        let underlying = if plain { None } else { Some(self.type_ref()?) };
        let name = self.name()?;
        self.declare(&name, true);
        let id = self.decl_id();
        let members = self.identifier_list(true)?;
        Ok(EnumDecl {
            id,
            annotations,
            underlying,
            name,
            members,
            span: start.to(self.last_span()),
        })
    }

    /// Parses `{ a, b }` or `{ a = 1, b = 2 }`.
    fn identifier_list(&mut self, trailing_comma: bool) -> Parse<Vec<Rc<Member>>> {
        self.expect(TokenKind::LBrace)?;
        self.list(TokenKind::RBrace, trailing_comma, |p| {
            let name = p.name()?;
            let value = if p.eat(TokenKind::Assign) {
                Some(p.expression()?)
            } else {
                None
            };
            Ok(Rc::new(Member {
                id: p.decl_id(),
                annotations: Vec::new(),
                name,
                value,
            }))
        })
    }

    /// Parses `errorDeclaration` or `matchKindDeclaration`; the current token is the keyword.
    fn members_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<MembersDecl> {
        let errors = self.at(TokenKind::Error);
        self.reject_annotations(self.kind().as_str(), &annotations);
        let start = self.bump();
        if self.peek(1) == TokenKind::RBrace {
            self.bump();
            return Err(self.expected("a name"));
        }
        let members = self.identifier_list(!errors)?;
        Ok(MembersDecl {
            annotations,
            members,
            span: start.to(self.last_span()),
        })
    }

    fn typedef_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<Decl> {
        let is_typedef = self.at(TokenKind::Typedef);
        let start = self.bump();
        use TokenKind::*;
        let target =
            if is_typedef && matches!(self.kind(), Struct | Header | HeaderUnion | Enum | At) {
                let annotations = self.opt_annotations()?;
                TypedefTarget::Decl(Box::new(self.derived_type_declaration(annotations)?))
            } else {
                TypedefTarget::Type(self.type_ref()?)
            };
        let name = self.name()?;
        let target = match target {
            TypedefTarget::Type(ty) => TypedefTarget::Type(self.dimensions(ty)?),
            decl => decl,
        };
        self.declare(&name, true);
        self.semicolon()?;
        let decl = Rc::new(TypedefDecl {
            id: self.decl_id(),
            annotations,
            target,
            name,
            span: start.to(self.last_span()),
        });
        Ok(if is_typedef {
            Decl::Typedef(decl)
        } else {
            Decl::NewType(decl)
        })
    }
}
