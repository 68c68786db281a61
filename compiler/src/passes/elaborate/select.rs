//! `select` and value sets. The pass [`crate::passes::selects`] lowers the keysets for the target.

use std::rc::Rc;

use super::frame::Frame;
use super::Elaborator;
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{MatchKind, ValueSet, ValueSetField, ValueSetId};
use crate::passes::annotations::{
    documentation, field_annotations, field_name, full_name, unstructured_but,
};
use crate::passes::builder::data::Data;
use crate::passes::inlined::{Keyset, KeysetElement, SelectKey};
use crate::sema::{Resolution, Type};
use crate::syntax::ast::{Annotated, Annotation, Expr, ExprKind, Name, Select, ValueSetDecl};

/// A `select` with evaluated keys and keysets.
#[derive(Default)]
pub struct EvaluatedSelect {
    /// The keys; a key of a structured type is split into its scalars.
    pub keys: Vec<SelectKey>,
    /// The cases: keyset, name of the next state, and source position of the keyset.
    pub cases: Vec<(Keyset, Name, Span)>,
}

impl Elaborator<'_> {
    /// Evaluates the keys and the keysets of a `select`.
    pub fn select(&mut self, select: &Select, frame: &Rc<Frame>) -> EvaluatedSelect {
        let exprs: Vec<&Expr> = select.keys.iter().collect();
        let mut keys = Vec::new();
        for (data, expr) in self.eval_operands(&exprs, frame).into_iter().zip(&exprs) {
            let ty = self.type_as_used(expr, frame);
            for leaf in self.leaves(data, &ty) {
                let Some(scalar) = self.scalar(&leaf.ty) else {
                    let message = format!(
                        "a key of `select` must be a number on this target, not {}",
                        leaf.ty
                    );
                    self.target(expr.span, message);
                    return EvaluatedSelect::default();
                };
                let Data::Scalar(value) = leaf.data else {
                    self.impossible(expr.span, "a key of `select` is not a number");
                    continue;
                };
                keys.push(SelectKey {
                    value,
                    ty: scalar,
                    source: self.source(expr.span),
                });
            }
        }
        let mut cases = Vec::new();
        for case in &select.cases {
            let Some(keyset) = self.keyset(&case.keyset, keys.len(), frame) else {
                continue;
            };
            let is_default = matches!(&keyset, Keyset::Elements(elements)
                if elements.iter().all(|element| *element == KeysetElement::Any));
            cases.push((keyset, case.target.name.clone(), case.keyset.span));
            if is_default {
                // Later cases are unreachable, so their states are not elaborated.
                break;
            }
        }
        EvaluatedSelect { keys, cases }
    }

    /// The keyset of a case for `keys` keys; `None` after a reported error.
    fn keyset(&mut self, keyset: &Expr, keys: usize, frame: &Rc<Frame>) -> Option<Keyset> {
        if let Some(set) = self.named_value_set(keyset, frame) {
            return Some(Keyset::ValueSet(set));
        }
        let elements: Vec<&Expr> = match &keyset.kind {
            ExprKind::DontCare(_) => {
                return Some(Keyset::Elements(vec![KeysetElement::Any; keys]));
            }
            ExprKind::Keyset(elements) | ExprKind::List(elements) if elements.len() == keys => {
                elements.iter().collect()
            }
            _ => vec![keyset],
        };
        if let [only] = &elements[..] {
            if let Some(set) = self.named_value_set(only, frame) {
                return Some(Keyset::ValueSet(set));
            }
        }
        let mut all = Vec::with_capacity(keys);
        for element in elements {
            if self.named_value_set(element, frame).is_some() {
                self.target(
                    element.span,
                    "a value set must match all keys of the `select` on this target",
                );
                return None;
            }
            match &element.kind {
                ExprKind::DontCare(_) | ExprKind::Mask(..) | ExprKind::Range(..) => {
                    all.push(self.keyset_element(element, frame)?);
                }
                _ => self.values_of(element, &mut all, frame)?,
            }
        }
        Some(Keyset::Elements(all))
    }

    /// Adds the scalars of an element of any type as values; `None` after a reported error if one is not constant.
    fn values_of(
        &mut self,
        element: &Expr,
        all: &mut Vec<KeysetElement>,
        frame: &Rc<Frame>,
    ) -> Option<()> {
        let ty = match self.type_as_used(element, frame) {
            Type::Set(inner) => (*inner).clone(),
            ty => ty,
        };
        let data = self.eval(element, frame);
        for leaf in self.leaves(data, &ty) {
            let Some(value) = leaf.data.constant() else {
                self.target(
                    element.span,
                    "a case of `select` must be known at compile time on this target",
                );
                return None;
            };
            all.push(KeysetElement::Value(value));
        }
        Some(())
    }

    /// The value set that an expression names; `None` for other expressions.
    fn named_value_set(&self, expr: &Expr, frame: &Rc<Frame>) -> Option<ValueSetId> {
        let ExprKind::Name(_) = expr.kind else {
            return None;
        };
        let Resolution::Decl(id) = self.checked.resolution(expr) else {
            return None;
        };
        let known = frame.parser.as_ref()?.value_sets.borrow().get(&id).copied();
        known
    }

    /// Match kind of a value set's field: the argument of `@match`, or `exact` without it. Reports an invalid argument.
    fn match_annotation(&mut self, annotations: &[Annotation]) -> MatchKind {
        let Some(annotation) = annotations.annotation("match") else {
            return MatchKind::Exact;
        };
        match annotation.body_text().trim() {
            "exact" => MatchKind::Exact,
            "ternary" => MatchKind::Ternary,
            "lpm" => MatchKind::Lpm,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            other => {
                let message = format!("`@match` takes a match kind, not `{other}`");
                self.diagnostics.report(
                    Diagnostic::error(Code::ANNOTATION_RULE, annotation.span, message)
                        .note("value sets match `exact`, `ternary`, `lpm`, `range` or `optional`"),
                );
                MatchKind::Exact
            }
        }
    }

    /// Elaborates the declaration of a value set; `None` after a reported error.
    pub fn value_set(&mut self, decl: &Rc<ValueSetDecl>, frame: &Rc<Frame>) -> Option<ValueSetId> {
        let ty = self.written_type(&decl.ty, frame);
        let size = self.eval_u32(&decl.size, frame).ok()?;
        let name = full_name(&frame.name, &decl.annotations, &decl.name.name);
        let meta = self.named_meta("value set", name, &decl.annotations, decl.name.span);
        let mut fields = Vec::new();
        match self.checked.representation(&ty) {
            Type::Struct(_) => self.add_members(&mut fields, "", &ty, decl)?,
            Type::Tuple(types) => {
                for ty in types.iter() {
                    self.add_member(
                        &mut fields,
                        String::new(),
                        ty,
                        MatchKind::Exact,
                        None,
                        Vec::new(),
                        decl,
                    )?;
                }
            }
            _ => self.add_member(
                &mut fields,
                String::new(),
                &ty,
                MatchKind::Exact,
                None,
                Vec::new(),
                decl,
            )?,
        }
        let width = fields.iter().map(|field| field.width).sum();
        let source = self.source(decl.name.span);
        let id = ValueSetId::from(self.program.value_sets.len());
        self.program.value_sets.push(ValueSet {
            meta,
            size: u64::from(size),
            width,
            fields,
            source,
        });
        Some(id)
    }

    /// Adds the fields of a struct, including those of nested structs, as fields of a value set; `None` after a reported error.
    fn add_members(
        &mut self,
        fields: &mut Vec<ValueSetField>,
        prefix: &str,
        ty: &Type,
        decl: &ValueSetDecl,
    ) -> Option<()> {
        for (field, ty) in self.checked.fields(ty) {
            let field_name = field_name(&field.annotations, &field.name.name);
            let name = super::join(prefix, &field_name);
            if matches!(self.checked.representation(&ty), Type::Struct(_)) {
                self.add_members(fields, &name, &ty, decl)?;
                continue;
            }
            let kind = self.match_annotation(&field.annotations);
            let (id, _, _) = field_annotations(self.checked, self.diagnostics, &field.annotations);
            let annotations = unstructured_but(&field.annotations, &["match"]);
            self.add_member(fields, name, &ty, kind, id, annotations, decl)?;
            if let Some(made) = fields.last_mut() {
                (made.brief, made.description) = documentation(&field.annotations);
            }
        }
        Some(())
    }

    /// Adds a field of a value set; `None` after a reported error if its type is not supported.
    #[allow(clippy::too_many_arguments)]
    fn add_member(
        &mut self,
        fields: &mut Vec<ValueSetField>,
        name: String,
        ty: &Type,
        kind: MatchKind,
        id: Option<u32>,
        annotations: Vec<String>,
        decl: &ValueSetDecl,
    ) -> Option<()> {
        let Some(scalar) = self.scalar(ty) else {
            self.target(
                decl.span,
                format!("a value set holds numbers on this target, not {ty}"),
            );
            return None;
        };
        let (control_width, type_name) = self.control_type(ty);
        let ty = self.type_spec(ty);
        fields.push(ValueSetField {
            name,
            width: scalar.width(),
            control_width,
            type_name,
            kind,
            annotations,
            brief: String::new(),
            description: String::new(),
            id,
            ty,
        });
        Some(())
    }
}
