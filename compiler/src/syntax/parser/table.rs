//! Tables and actions.

use super::*;

impl Parser<'_> {
    pub(super) fn table_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<TableDecl> {
        let start = self.expect(TokenKind::Table)?;
        let name = self.name()?;
        self.declare(&name, false);
        let id = self.decl_id();
        let (properties, _) = self.braced(Self::table_property)?;
        Ok(TableDecl {
            id,
            annotations,
            name,
            properties,
            span: start.to(self.last_span()),
        })
    }

    fn table_property(&mut self) -> Parse<TableProperty> {
        let annotations = self.opt_annotations()?;
        let start = self.span();
        let is_const = self.eat(TokenKind::Const);
        let kind = self.kind();
        let name = match kind {
            kind if kind.is_name() => self.name()?,
            _ => {
                return Err(self.expected("a table property"));
            }
        };
        self.expect(TokenKind::Assign)?;
        let value = match kind {
            TokenKind::Key => TablePropertyValue::Key(self.braced(Self::key_element)?.0),
            TokenKind::Actions => {
                TablePropertyValue::Actions(self.braced(Self::action_list_element)?.0)
            }
            TokenKind::Entries => TablePropertyValue::Entries(self.braced(Self::entry)?.0),
            _ if &*name.name == "default_action" => {
                let parenthesis = self.eat(TokenKind::LParen);
                let action = self.action_ref(Vec::new())?;
                if parenthesis {
                    self.expect(TokenKind::RParen)?;
                }
                self.semicolon()?;
                TablePropertyValue::DefaultAction(action)
            }
            _ => {
                let value = self.expression()?;
                self.semicolon()?;
                TablePropertyValue::Expr(value)
            }
        };
        if matches!(kind, TokenKind::Key | TokenKind::Actions) {
            self.reject_annotations(kind.as_str(), &annotations);
            if is_const {
                let message = format!("`{name}` cannot be `const`");
                self.error(Diagnostic::error(Code::SYNTAX, start, message));
            }
        }
        Ok(TableProperty {
            annotations,
            is_const,
            name,
            value,
            span: start.to(self.last_span()),
        })
    }

    fn key_element(&mut self) -> Parse<KeyElement> {
        let start = self.span();
        let expr = self.expression()?;
        self.expect(TokenKind::Colon)?;
        let match_kind = self.name()?;
        let annotations = self.opt_annotations()?;
        self.semicolon()?;
        Ok(KeyElement {
            expr,
            match_kind,
            annotations,
            span: start.to(self.last_span()),
        })
    }

    fn action_list_element(&mut self) -> Parse<ActionRef> {
        let annotations = self.opt_annotations()?;
        let action = self.action_ref(annotations)?;
        self.semicolon()?;
        Ok(action)
    }

    fn action_ref(&mut self, annotations: Vec<Annotation>) -> Parse<ActionRef> {
        let start = self.span();
        let call = self.expr_id(0);
        let path = self.path()?;
        let args = if self.at(TokenKind::LParen) {
            Some(self.argument_list()?)
        } else {
            None
        };
        Ok(ActionRef {
            call,
            annotations,
            path,
            args,
            span: start.to(self.last_span()),
        })
    }

    fn entry(&mut self) -> Parse<Entry> {
        let start = self.span();
        let is_const = self.eat(TokenKind::Const);
        let priority = if self.at(TokenKind::Priority) && self.peek(1) == TokenKind::Assign {
            self.bump();
            self.bump();
            // The grammar allows a number, or an expression in parentheses.
            let priority = self.primary()?;
            self.expect(TokenKind::Colon)?;
            Some(priority)
        } else {
            None
        };
        let keyset = self.keyset_expression()?;
        self.expect(TokenKind::Colon)?;
        let action = self.action_ref(Vec::new())?;
        let annotations = self.opt_annotations()?;
        self.semicolon()?;
        Ok(Entry {
            annotations,
            is_const,
            priority,
            keyset,
            action,
            span: start.to(self.last_span()),
        })
    }

    pub(super) fn action_declaration(&mut self, annotations: Vec<Annotation>) -> Parse<ActionDecl> {
        let start = self.expect(TokenKind::Action)?;
        let name = self.name()?;
        self.declare(&name, false);
        let id = self.decl_id();
        self.scoped(|p| {
            let params = p.parameter_list()?;
            let body = p.block_statement()?;
            Ok(ActionDecl {
                id,
                annotations,
                name,
                params,
                body,
                span: start.to(p.last_span()),
            })
        })
    }
}
