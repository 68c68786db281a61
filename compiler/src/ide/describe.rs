//! Hover text of a name: its declaration, width, value and comment.

use super::Analysis;
use crate::diag::{FileId, Span};
use crate::sema::{DefKind, Value};
use crate::syntax::ast::*;

/// The description of a name or expression that an editor shows under the mouse pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hover {
    /// Span of the described name or expression.
    pub span: Span,
    /// The description in Markdown.
    pub markdown: String,
}

/// Maximum number of lines of a shown declaration; longer ones are truncated.
const MAX_LINES: usize = 24;

impl Analysis {
    /// Hover text of the name or expression at byte `offset` of `file`; `None` if there is none.
    pub fn hover(&self, file: FileId, offset: u32) -> Option<Hover> {
        if let Some(occurrence) = self.occurrence_at(file, offset) {
            let markdown = match occurrence.target {
                Some(id) => self.describe(id),
                None => None,
            };
            if let Some(markdown) = markdown {
                let span = occurrence.span;
                return Some(Hover { span, markdown });
            }
        }
        let (span, id) = self.index.expr_at(file, offset)?;
        let info = self.checked.info(id);
        if info.ty.is_invalid() {
            return None;
        }
        let mut lines = vec![code(&info.ty.to_string())];
        if let Some(cast) = &info.cast {
            lines.push(format!("cast to `{cast}`"));
        }
        lines.extend(info.value.as_ref().and_then(value_text));
        Some(Hover {
            span,
            markdown: lines.join("\n\n"),
        })
    }

    /// Describes a declaration in Markdown: its head, parent, width, value and comment.
    fn describe(&self, id: DeclId) -> Option<String> {
        let def = self.checked.opt_def(id)?;
        let mut parts = vec![code(&self.declaration(id, &def.kind))];
        let around = def.parent.and_then(|parent| {
            let parent = &self.checked.opt_def(parent)?.kind;
            let of_part = matches!(
                def.kind,
                DefKind::Field(..)
                    | DefKind::EnumMember(..)
                    | DefKind::Method(_)
                    | DefKind::Table(_)
                    | DefKind::Action(_)
            );
            of_part.then(|| format!("of `{}`", parent.name()))
        });
        let width = self.width(id, &def.kind);
        let value = self.checked.const_value(id).and_then(value_text);
        let facts: Vec<String> = around.into_iter().chain(width).chain(value).collect();
        if !facts.is_empty() {
            parts.push(facts.join(", "));
        }
        parts.extend(self.comment(id));
        Some(parts.join("\n\n"))
    }

    /// The head of a declaration as written, without annotations and body.
    pub(super) fn declaration(&self, id: DeclId, kind: &DefKind) -> String {
        let text = |from: u32, to: u32, span: Span| {
            let text = self.sources.text(Span {
                lo: from,
                hi: to,
                ..span
            });
            one_line(text.trim_end().trim_end_matches(['{', ';', ',']))
        };
        let header = |span: Span, annotations: &[Annotation], body: Option<&Block>| {
            let from = annotations.last().map_or(span.lo, |a| a.span.hi);
            let to = match body {
                Some(body) => body.span.lo,
                None => self.end_of_header(span, from),
            };
            text(from, to, span)
        };
        let written = match kind {
            DefKind::Const(d) => header(d.span, &d.annotations, None),
            DefKind::Var(d) => header(d.span, &d.annotations, None),
            DefKind::Param(d) | DefKind::CtorParam(d) => header(d.span, &d.annotations, None),
            DefKind::Instance(d) => header(d.span, &d.annotations, None),
            DefKind::Extern(d) => format!("extern {}{}", d.name, type_params(&d.type_params)),
            DefKind::Constructor(d)
            | DefKind::Method(d)
            | DefKind::ExternFunction(d)
            | DefKind::Function(d) => header(d.span, &d.annotations, d.body.as_ref()),
            DefKind::Action(d) => header(d.span, &d.annotations, Some(&d.body)),
            DefKind::Parser(d) => header(d.span, &d.annotations, None),
            DefKind::Control(d) => header(d.span, &d.annotations, None),
            DefKind::Package(d) => header(d.span, &d.annotations, None),
            DefKind::State(d) => format!("state {}", d.name),
            DefKind::Table(d) => self.table(d),
            DefKind::ValueSet(d) => header(d.span, &d.annotations, None),
            DefKind::Struct(d) | DefKind::Header(d) | DefKind::HeaderUnion(d) => {
                self.full_text(d.span, &d.annotations)
            }
            DefKind::Enum(d) => self.full_text(d.span, &d.annotations),
            DefKind::Field(d, _) => header(d.span, &d.annotations, None),
            DefKind::EnumMember(d, _) => match &d.value {
                Some(value) => format!("{} = {}", d.name, self.sources.text(value.span)),
                None => d.name.to_string(),
            },
            DefKind::ErrorMember(d, _) => format!("error.{}", d.name),
            DefKind::MatchKindMember(d) => format!("match_kind {}", d.name),
            DefKind::Typedef(d) | DefKind::NewType(d) => header(d.span, &d.annotations, None),
            DefKind::TypeParam(name, _) => format!("type parameter {name}"),
        };
        match written.trim() {
            "" => self.checked.name(id).to_string(),
            written => written.to_owned(),
        }
    }

    /// Offset of the end of a declaration's head: the first brace or semicolon outside parentheses.
    fn end_of_header(&self, span: Span, from: u32) -> u32 {
        let text = self.sources.text(Span { lo: from, ..span });
        let mut depth = 0_i32;
        for (at, c) in text.char_indices() {
            match c {
                '(' | '[' | '<' => depth += 1,
                ')' | ']' | '>' => depth -= 1,
                '{' | ';' if depth <= 0 => return from + at as u32,
                _ => {}
            }
        }
        span.hi
    }

    /// The source text of a declaration with its body, without annotations.
    fn full_text(&self, span: Span, annotations: &[Annotation]) -> String {
        let from = annotations.last().map_or(span.lo, |a| a.span.hi);
        let text = self.sources.text(Span { lo: from, ..span }).trim();
        let lines: Vec<&str> = text.lines().collect();
        match lines.len() > MAX_LINES {
            true => format!("{}\n    ...\n}}", lines[..MAX_LINES].join("\n")),
            false => text.to_owned(),
        }
    }

    /// A summary of a table: its keys and actions.
    fn table(&self, d: &TableDecl) -> String {
        let keys = d.key().iter().map(|element| {
            let key = one_line(self.sources.text(element.expr.span));
            format!("    {key}: {}\n", element.match_kind)
        });
        let actions: Vec<&str> = d.actions().iter().map(|a| &*a.path.name.name).collect();
        format!(
            "table {} {{\n{}}} -> {}",
            d.name,
            keys.collect::<String>(),
            actions.join(" | ")
        )
    }

    fn width(&self, id: DeclId, kind: &DefKind) -> Option<String> {
        let ty = match kind {
            DefKind::Header(_) | DefKind::Struct(_) => return self.width_of_struct(kind),
            _ => self.checked.decl_type(id)?,
        };
        let bits = self.checked.representation(ty).bits()?;
        Some(format!("{bits} bit{}", if bits == 1 { "" } else { "s" }))
    }

    fn width_of_struct(&self, kind: &DefKind) -> Option<String> {
        let (DefKind::Struct(d) | DefKind::Header(d)) = kind else {
            return None;
        };
        if !d.type_params.is_empty() {
            return None;
        }
        let widths = d.fields.iter().map(|field| {
            let ty = self.checked.type_ref(&field.ty);
            self.checked.representation(ty).bits().map(u64::from)
        });
        let bits: u64 = widths.collect::<Option<Vec<u64>>>()?.iter().sum();
        Some(match bits % 8 {
            0 => format!("{bits} bits, {} bytes", bits / 8),
            _ => format!("{bits} bits"),
        })
    }

    /// The comment after a declaration on its line, or the comment above it.
    fn comment(&self, id: DeclId) -> Option<String> {
        let name = self.sources.reported_span(self.index.name_of(id)?);
        let file = self.sources.file(name.file);
        let line = file.line_index(name.lo);
        let mut above = Vec::new();
        let mut at = line;
        while at > 0 {
            let text = file.line_text(at - 1).trim();
            let is_comment =
                text.starts_with("//") || text.starts_with('*') || text.starts_with("/*");
            // Annotations may be between a declaration and its comment.
            if !is_comment && !text.starts_with('@') {
                break;
            }
            if is_comment {
                above.push(
                    text.trim_start_matches(['/', '*', '!'])
                        .trim_end_matches("*/")
                        .trim(),
                );
            }
            at -= 1;
        }
        above.reverse();
        let text = file.line_text(line);
        let column = (name.hi - file.line_start(line)) as usize;
        let beside = text
            .get(column..)
            .and_then(|rest| Some(rest.split_once("//")?.1.trim()));
        let lines: Vec<&str> = above
            .into_iter()
            .chain(beside)
            .filter(|line| !line.is_empty())
            .collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }
}

/// A number in decimal and hexadecimal.
fn value_text(value: &Value) -> Option<String> {
    match value {
        Value::Int(n) => {
            let hex = format!("{n:#x}");
            Some(match n.bits() > 3 {
                true => format!("= {n} ({hex})"),
                false => format!("= {n}"),
            })
        }
        Value::Bool(b) => Some(format!("= {b}")),
        _ => None,
    }
}

fn type_params(params: &[TypeParam]) -> String {
    let names: Vec<&str> = params.iter().map(|p| &*p.name.name).collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("<{}>", names.join(", ")),
    }
}

fn code(text: &str) -> String {
    format!("```p4\n{text}\n```")
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
