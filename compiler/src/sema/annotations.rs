//! Annotations (spec § 20).

use super::checker::Checker;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use rustc_hash::FxHashMap;

impl Checker<'_> {
    /// Checks that annotations of one name are either all structured or all unstructured (spec § 20.1).
    fn check_annotation_forms(&mut self, annotations: &[Annotation]) {
        let structured = |a: &Annotation| match a.body {
            AnnotationBody::Empty => None,
            AnnotationBody::Tokens { .. } => Some(false),
            AnnotationBody::List(_) | AnnotationBody::KeyValues(_) => Some(true),
        };
        for (i, annotation) in annotations.iter().enumerate() {
            let same = |a: &&Annotation| a.name.name == annotation.name.name;
            let mut before = annotations[..i].iter().filter(same);
            let Some(form) = structured(annotation) else {
                continue;
            };
            if let Some(other) = before.find(|other| structured(other) == Some(!form)) {
                let message = format!("`@{}` has both `(...)` and `[...]` here", annotation.name);
                self.report(
                    Diagnostic::error(Code::ANNOTATION_RULE, annotation.span, message)
                        .other(other.span, "the other form"),
                );
            }
        }
    }

    /// Checks the structured annotations of a declaration and evaluates their expressions. Names in annotations are not resolved, as the
    /// tool that reads an annotation defines their meaning.
    pub fn structured_annotations(&mut self, annotations: &[Annotation]) {
        self.check_annotation_forms(annotations);
        for annotation in annotations {
            if &*annotation.name.name == "name" && annotation.string().is_none() {
                self.error(
                    Code::ANNOTATION_RULE,
                    annotation.span,
                    "`@name` takes one string",
                );
            }
            let exprs: Vec<&Expr> = match &annotation.body {
                AnnotationBody::List(list) => list.iter().collect(),
                AnnotationBody::KeyValues(list) => {
                    let mut seen: FxHashMap<&Name, Span> = FxHashMap::default();
                    for pair in list {
                        if let Some(first) = seen.insert(&pair.name.name, pair.name.span) {
                            self.report(
                                Diagnostic::error(
                                    Code::ANNOTATION_RULE,
                                    pair.name.span,
                                    format!("key `{}` is given twice", pair.name),
                                )
                                .other(first, "first occurrence"),
                            );
                        }
                    }
                    list.iter().map(|pair| &pair.value).collect()
                }
                AnnotationBody::Tokens { parsed, .. } => {
                    // An unstructured body: evaluate the expressions in it that can be evaluated, and report nothing.
                    if let Some(AnnotationBody::List(list)) = parsed.as_deref() {
                        for e in list.iter().filter(|e| {
                            matches!(
                                e.kind,
                                ExprKind::Int(_) | ExprKind::Bool(_) | ExprKind::String(_)
                            )
                        }) {
                            self.expr(e);
                        }
                    }
                    continue;
                }
                AnnotationBody::Empty => continue,
            };
            for e in exprs {
                let ty = self.expr(e);
                if !ty.is_invalid() && self.out.info(e.id).value.is_none() {
                    self.report_not_constant(e, "a value in an annotation");
                }
            }
        }
    }
}
