//! Annotations.

use super::expr::unescape;
use super::*;

impl Parser<'_> {
    pub(super) fn opt_annotations(&mut self) -> Parse<Vec<Annotation>> {
        let mut list = Vec::new();
        while self.at(TokenKind::At) {
            list.push(self.annotation()?);
        }
        Ok(list)
    }

    fn annotation(&mut self) -> Parse<Annotation> {
        let start = self.expect(TokenKind::At)?;
        let pragma = &*self.token().text == "pragma" && !self.token().first_on_line;
        if pragma && self.peek(1) != TokenKind::LParen {
            self.bump();
            return self.pragma(start);
        }
        let token = self.token();
        let is_word = token.kind == TokenKind::Ident || TokenKind::keyword(&token.text).is_some();
        let name = if is_word && token.kind != TokenKind::Underscore {
            let name = Ident {
                name: token.text.clone(),
                span: token.span,
            };
            self.bump();
            name
        } else {
            self.name()?
        };
        let body = match self.kind() {
            TokenKind::LParen => self.annotation_body()?,
            TokenKind::LBracket => {
                self.bump();
                self.structured_annotation_body(TokenKind::RBracket)?
            }
            _ => AnnotationBody::Empty,
        };
        Ok(Annotation {
            name,
            body,
            span: start.to(self.last_span()),
        })
    }

    /// `@pragma name tokens`, up to the end of the line
    fn pragma(&mut self, start: Span) -> Parse<Annotation> {
        let name = self.name()?;
        let mut tokens = Vec::new();
        while !self.token().first_on_line && !self.at(TokenKind::End) {
            tokens.push(self.annotation_token());
        }
        let body = AnnotationBody::Tokens {
            tokens,
            parsed: None,
        };
        Ok(Annotation {
            name,
            body,
            span: start.to(self.last_span()),
        })
    }

    fn annotation_token(&mut self) -> AnnotationToken {
        let token = self.token();
        let result = AnnotationToken {
            text: token.text.clone(),
            string: (token.kind == TokenKind::String).then(|| unescape(&token.text)),
            space_before: token.space_before || token.first_on_line,
            span: token.span,
        };
        self.bump();
        result
    }

    /// `(tokens)`, kept as tokens and, if they have that form, as expressions too
    fn annotation_body(&mut self) -> Parse<AnnotationBody> {
        let open = self.expect(TokenKind::LParen)?;
        let start = self.pos;
        let parsed = self.attempt(|p| p.structured_annotation_body(TokenKind::RParen));
        let parsed_end = self.pos;
        self.pos = start;
        let mut tokens = Vec::new();
        let mut depth = 0u32;
        loop {
            match self.kind() {
                TokenKind::LParen => depth += 1,
                TokenKind::RParen if depth == 0 => break,
                TokenKind::RParen => depth -= 1,
                TokenKind::End => {
                    let span = self.span();
                    self.report(
                        Diagnostic::error(Code::SYNTAX, span, "expected `)`, found end of file")
                            .other(open, "to close this parenthesis"),
                    );
                    return Err(Bail);
                }
                _ => {}
            }
            tokens.push(self.annotation_token());
        }
        self.bump();
        debug_assert!(parsed.is_none() || parsed_end == self.pos);
        Ok(AnnotationBody::Tokens {
            tokens,
            parsed: parsed.map(Box::new),
        })
    }

    fn structured_annotation_body(&mut self, close: TokenKind) -> Parse<AnnotationBody> {
        if self.kind().is_name() && self.peek(1) == TokenKind::Assign {
            return Ok(AnnotationBody::KeyValues(self.list(
                close,
                true,
                Self::kv_pair,
            )?));
        }
        Ok(AnnotationBody::List(self.list(
            close,
            true,
            Self::expression,
        )?))
    }
}
