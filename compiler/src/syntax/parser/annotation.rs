//! Annotations.

use super::expr::unescape;
use super::*;
use crate::diag::Warning;

impl Parser<'_> {
    /// Parses annotations, omitting those that `--disable-annotations` names.
    pub(super) fn opt_annotations(&mut self) -> Parse<Vec<Annotation>> {
        let mut list = Vec::new();
        while self.at(TokenKind::At) {
            let annotation = self.annotation()?;
            let name = &annotation.name;
            if !self.disabled.contains(&*name.name) {
                list.push(annotation);
                continue;
            }
            let message = format!("@{name} is ignored because of --disable-annotations");
            self.diagnostics
                .warning(Warning::Ignore, annotation.span, message);
        }
        Ok(list)
    }

    fn annotation(&mut self) -> Parse<Annotation> {
        let start = self.expect(TokenKind::At)?;
        let token = self.token();
        if &*token.text == "pragma" && !token.space_before && !token.first_on_line {
            self.bump();
            return self.pragma(start);
        }
        let name = self.annotation_name()?;
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

    /// Parses `annotationName`: any identifier or keyword.
    fn annotation_name(&mut self) -> Parse<Ident> {
        let token = self.token();
        let is_word = token.kind == TokenKind::Ident || TokenKind::keyword(&token.text).is_some();
        if !is_word {
            return self.name();
        }
        let name = Ident {
            name: token.text.clone(),
            span: token.span,
        };
        self.bump();
        Ok(name)
    }

    /// Parses `@pragma name tokens`, which extends to the end of the line.
    fn pragma(&mut self, start: Span) -> Parse<Annotation> {
        let name = self.annotation_name()?;
        let mut tokens = Vec::new();
        while !self.token().first_on_line && !self.at(TokenKind::End) {
            self.annotation_token(&mut tokens)?;
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

    /// Parses one `annotationToken` and appends it to `tokens`.
    fn annotation_token(&mut self, tokens: &mut Vec<AnnotationToken>) -> Parse<()> {
        use TokenKind::*;
        let token = self.token();
        // The grammar's `annotationToken` does not include these tokens.
        if matches!(token.kind, Priority | Dots | InvalidHeader)
            || token.kind.compound_assignment().is_some()
        {
            let (text, span) = (token.text.clone(), token.span);
            return Err(self.error(
                Diagnostic::error(
                    Code::SYNTAX,
                    span,
                    format!("`{text}` cannot be in an annotation"),
                )
                .help("make it part of a string"),
            ));
        }
        let whole = AnnotationToken {
            text: token.text.clone(),
            string: (token.kind == TokenKind::String).then(|| unescape(&token.text)),
            space_before: token.space_before || token.first_on_line,
            span: token.span,
        };
        // Text that begins with a number, such as `1abc`, is split into a number and a name.
        let number = match token.kind {
            Number => number_length(&token.text),
            _ => token.text.len(),
        };
        let (first, rest) = whole.text.split_at(number);
        if rest.is_empty() {
            tokens.push(whole);
        } else {
            let part = |text: &str, space_before| AnnotationToken {
                text: text.into(),
                space_before,
                ..whole.clone()
            };
            tokens.extend([part(first, whole.space_before), part(rest, false)]);
        }
        self.bump();
        Ok(())
    }

    /// Parses `(tokens)`: keeps the tokens, and also the expressions if the tokens have that form.
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
                    return Err(self.error(
                        Diagnostic::error(Code::SYNTAX, span, "expected `)`, found end of file")
                            .other(open, "to close this parenthesis"),
                    ));
                }
                _ => {}
            }
            self.annotation_token(&mut tokens)?;
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

/// Reports and removes tokens that are not part of P4. They are allowed in the bodies of annotations.
pub(super) fn without_unknown(tokens: Vec<Token>, diagnostics: &mut Diagnostics) -> Vec<Token> {
    let unknown = |token: &Token| {
        matches!(
            token.kind,
            TokenKind::Unknown | TokenKind::Hash | TokenKind::HashHash
        )
    };
    if !tokens.iter().any(unknown) {
        return tokens;
    }
    let mut kept = Vec::with_capacity(tokens.len());
    let mut body = AnnotationContext::None;
    for (i, token) in tokens.iter().enumerate() {
        let before = |back: usize| i.checked_sub(back).map(|at| &tokens[at]);
        let after_at = |back: usize| before(back).is_some_and(|t| t.kind == TokenKind::At);
        body = match (body, token.kind) {
            (AnnotationContext::None, TokenKind::LParen) if after_at(2) => {
                AnnotationContext::Parentheses(1)
            }
            (AnnotationContext::None, TokenKind::Ident)
                if after_at(1) && &*token.text == "pragma" =>
            {
                AnnotationContext::Line
            }
            (AnnotationContext::Parentheses(open), TokenKind::LParen) => {
                AnnotationContext::Parentheses(open + 1)
            }
            (AnnotationContext::Parentheses(1), TokenKind::RParen) => AnnotationContext::None,
            (AnnotationContext::Parentheses(open), TokenKind::RParen) => {
                AnnotationContext::Parentheses(open - 1)
            }
            (AnnotationContext::Line, _) if token.first_on_line => AnnotationContext::None,
            (body, _) => body,
        };
        if body != AnnotationContext::None || !unknown(token) {
            kept.push(token.clone());
            continue;
        }
        let text = token.text.escape_default();
        let error = match token.kind {
            TokenKind::Unknown => Diagnostic::error(
                Code::LEXICAL,
                token.span,
                format!("`{text}` is not a token of P4"),
            ),
            _ => Diagnostic::error(Code::LEXICAL, token.span, format!("unexpected `{text}`"))
                .note("a preprocessor directive must be at the start of a line"),
        };
        diagnostics.report(error);
    }
    kept
}

/// Length in bytes of the number at the start of a text, by the rules of the grammar.
fn number_length(text: &str) -> usize {
    let digits = |from: usize, base: u32| {
        let end = text[from..].find(|c: char| c != '_' && !c.is_digit(base));
        end.map_or(text.len(), |length| from + length)
    };
    let plain = digits(0, 10);
    // The width before `w` or `s` consists of digits only, without `_`.
    let width = text
        .find(|c: char| !c.is_ascii_digit())
        .filter(|at| text[*at..].starts_with(['w', 's']));
    let starts = [Some(0), width.map(|at| at + 1)];
    let ends = starts.into_iter().flatten().flat_map(|start| {
        let base = match text
            .get(start..start + 2)
            .map(str::to_ascii_lowercase)
            .as_deref()
        {
            Some("0x") => Some(16),
            Some("0d") => Some(10),
            Some("0o") => Some(8),
            Some("0b") => Some(2),
            _ => None,
        };
        let based = base
            .map(|base| digits(start + 2, base))
            .filter(|end| *end > start + 2);
        let unbased = digits(start, 10);
        [based, (unbased > start).then_some(unbased)]
    });
    ends.flatten().max().unwrap_or(plain)
}

/// Whether a token is part of an annotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AnnotationContext {
    /// Outside annotations.
    None,
    /// In the body of an annotation; the number is the depth of parentheses.
    Parentheses(u32),
    /// In the line of `@pragma`.
    Line,
}
