//! Names, ids, documentation and other annotations for the control plane.

use super::source;
use crate::diag::{Code, Diagnostic, Diagnostics, SourceMap, Span};
use crate::ir::{AnnotationContent, AnnotationValue, Meta, StructuredAnnotation};
use crate::names::join;
use crate::sema::{CheckedProgram, Value};
use crate::syntax::ast::{
    Annotated, Annotation, AnnotationBody, AnnotationToken, Decl, Expr, ExprKind, UnaryOp,
};

/// Annotations with dedicated fields in P4Info, which are not listed as annotations.
const NOT_LISTED: [&str; 4] = ["name", "id", "brief", "description"];

/// Annotations that p4c parses as expressions or key-value pairs. p4c keeps all others as tokens.
const READ_AS_EXPRESSIONS: [&str; 12] = [
    "controller_header",
    "deprecated",
    "field_list",
    "length",
    "match",
    "max_group_size",
    "max_member_weight",
    "noWarn",
    "p4runtime_translation",
    "platform_property",
    "selector_size_semantics",
    "synchronous",
];

/// The control-plane name of a declaration `name` within `prefix`. `@name` replaces the name, and the prefix too if it starts with a dot.
pub fn full_name(prefix: &str, annotations: &[Annotation], name: &str) -> String {
    match annotations.annotation("name").and_then(Annotation::string) {
        Some(given) => match given.strip_prefix('.') {
            Some(absolute) => absolute.to_owned(),
            None => join(prefix, given),
        },
        None => join(prefix, name),
    }
}

/// The control-plane name of a field or parameter.
pub fn field_name(annotations: &[Annotation], name: &str) -> String {
    full_name("", annotations, name)
}

/// The name of a local variable, for logs of the switch.
pub fn local_name(annotations: &[Annotation], name: &str) -> String {
    full_name("", annotations, name)
}

/// The number in `@id`, and the unstructured and structured annotations, of a parameter or field.
pub fn field_annotations(
    checked: &CheckedProgram,
    diagnostics: &mut Diagnostics,
    annotations: &[Annotation],
) -> (Option<u32>, Vec<String>, Vec<StructuredAnnotation>) {
    (
        annotated_id(checked, diagnostics, annotations),
        unstructured(annotations),
        structured(checked, annotations),
    )
}

/// The texts of `@brief` and `@description`; empty without them.
pub fn documentation(annotations: &[Annotation]) -> (String, String) {
    let text = |name: &str| {
        let annotation = annotations.annotation(name);
        let text = annotation.and_then(Annotation::string);
        text.unwrap_or_default().to_owned()
    };
    (text("brief"), text("description"))
}

/// Unstructured annotations as text, in exactly the form that p4c writes.
pub fn unstructured(annotations: &[Annotation]) -> Vec<String> {
    unstructured_but(annotations, &[])
}

/// Unstructured annotations as text, without those in `listed_elsewhere`, which have dedicated fields for this kind of object.
pub fn unstructured_but(annotations: &[Annotation], listed_elsewhere: &[&str]) -> Vec<String> {
    annotations
        .iter()
        .filter(|annotation| !NOT_LISTED.contains(&&*annotation.name.name))
        .filter(|annotation| !listed_elsewhere.contains(&&*annotation.name.name))
        .filter_map(|annotation| match &annotation.body {
            AnnotationBody::Empty => Some(format!("@{}", annotation.name)),
            AnnotationBody::Tokens { tokens, .. } if tokens.is_empty() => {
                Some(format!("@{}", annotation.name))
            }
            AnnotationBody::Tokens { tokens, .. } => {
                let text = match READ_AS_EXPRESSIONS.contains(&&*annotation.name.name) {
                    true => expressions_text(tokens),
                    false => tokens_text(tokens),
                };
                Some(format!("@{}({text})", annotation.name))
            }
            _ => None,
        })
        .collect()
}

/// The text of tokens, separated by blanks.
fn tokens_text(tokens: &[AnnotationToken]) -> String {
    let tokens: Vec<&str> = tokens.iter().map(|token| &*token.text).collect();
    tokens.join(" ")
}

/// The text of a list of expressions: blanks only after commas, and escapes in strings escaped again, as by p4c.
fn expressions_text(tokens: &[AnnotationToken]) -> String {
    let mut text = String::new();
    for token in tokens {
        match &*token.text {
            "," => text.push_str(", "),
            written if token.string.is_some() && written.len() >= 2 => {
                let inside = &written[1..written.len() - 1];
                let escaped = inside.replace('\\', "\\\\").replace('"', "\\\"");
                text.push_str(&format!("\"{escaped}\""));
            }
            written => text.push_str(written),
        }
    }
    text
}

/// Control-plane metadata of an object that is declared at `span`, from its annotations.
pub fn meta(
    checked: &CheckedProgram,
    sources: &SourceMap,
    diagnostics: &mut Diagnostics,
    name: String,
    annotations: &[Annotation],
    span: Span,
) -> Meta {
    let (brief, description) = documentation(annotations);
    Meta {
        name,
        id: annotated_id(checked, diagnostics, annotations),
        hidden: annotations.annotation("hidden").is_some(),
        annotations: unstructured(annotations),
        structured: structured(checked, annotations),
        brief,
        description,
        source: source(sources, span),
        span,
    }
}

/// The number in `@id`; `None` without that annotation, or after a reported error.
fn annotated_id(
    checked: &CheckedProgram,
    diagnostics: &mut Diagnostics,
    annotations: &[Annotation],
) -> Option<u32> {
    let annotation = annotations.annotation("id")?;
    let id = match annotation.exprs() {
        Some([expr]) => number(checked, expr),
        _ => None,
    };
    match id {
        None | Some(0) => {
            diagnostics.report(Diagnostic::error(
                Code::ANNOTATION_RULE,
                annotation.span,
                "@id takes one number from 1 to 2^32 - 1",
            ));
            None
        }
        id => id,
    }
}

/// A number below 2^32 in an annotation; `None` for other expressions.
pub fn number(checked: &CheckedProgram, expr: &Expr) -> Option<u32> {
    match &expr.kind {
        ExprKind::Int(literal) => u32::try_from(&literal.value).ok(),
        _ => match value(checked, expr)? {
            Value::Int(value) => u32::try_from(&value).ok(),
            _ => None,
        },
    }
}

/// The value of a constant expression in an annotation; `None` if it is not constant. The checker may not have resolved its names, so they
/// are searched at the top level.
fn value(checked: &CheckedProgram, expr: &Expr) -> Option<Value> {
    if let Some(value) = checked.info(expr.id).value.clone() {
        return Some(value);
    }
    match &expr.kind {
        ExprKind::Int(literal) => Some(Value::Int(literal.value.clone())),
        ExprKind::Bool(value) => Some(Value::Bool(*value)),
        ExprKind::String(text) => Some(Value::String(text.clone())),
        ExprKind::Unary(UnaryOp::Minus, arg) => match value(checked, arg)? {
            Value::Int(value) => Some(Value::Int(-value)),
            _ => None,
        },
        ExprKind::Cast(_, arg) => value(checked, arg),
        ExprKind::Name(path) => named_constant(checked, &path.name.name),
        ExprKind::Member(base, member) => match &base.kind {
            ExprKind::Name(path) => named_member(checked, &path.name.name, &member.name),
            _ => None,
        },
        _ => None,
    }
}

/// The value of the top-level constant `name`; `None` if there is none.
fn named_constant(checked: &CheckedProgram, name: &str) -> Option<Value> {
    checked.program.decls.iter().find_map(|decl| match decl {
        Decl::Const(decl) if &*decl.name.name == name => checked.const_value(decl.id).cloned(),
        _ => None,
    })
}

/// The value of the member `member` of the top-level enum `name`; `None` if there is none.
fn named_member(checked: &CheckedProgram, name: &str, member: &str) -> Option<Value> {
    checked.program.decls.iter().find_map(|decl| match decl {
        Decl::Enum(decl) if &*decl.name.name == name => {
            let member = decl
                .members
                .iter()
                .find(|known| &*known.name.name == member)?;
            checked.const_value(member.id).cloned()
        }
        _ => None,
    })
}

/// The structured annotations, `@name[...]`, of a declaration.
pub fn structured(
    checked: &CheckedProgram,
    annotations: &[Annotation],
) -> Vec<StructuredAnnotation> {
    let mut list = Vec::new();
    for annotation in annotations {
        let name = annotation.name.name.to_string();
        let body = match &annotation.body {
            AnnotationBody::List(exprs) if exprs.is_empty() => AnnotationContent::Empty,
            AnnotationBody::List(exprs) => AnnotationContent::Values(
                exprs
                    .iter()
                    .filter_map(|expr| content(checked, expr))
                    .collect(),
            ),
            AnnotationBody::KeyValues(pairs) => AnnotationContent::Pairs(
                pairs
                    .iter()
                    .map(|pair| {
                        let value = content(checked, &pair.value);
                        (pair.name.name.to_string(), value)
                    })
                    .collect(),
            ),
            _ => continue,
        };
        list.push(StructuredAnnotation { name, body });
    }
    list
}

/// A value in a structured annotation; `None` if it is neither a number, a boolean nor a string.
fn content(checked: &CheckedProgram, expr: &Expr) -> Option<AnnotationValue> {
    Some(match value(checked, expr)? {
        Value::Int(value) => AnnotationValue::Number(i64::try_from(&value).ok()?),
        Value::Bool(value) => AnnotationValue::Bool(value),
        Value::String(text) => AnnotationValue::String(text.to_string()),
        _ => return None,
    })
}
