//! Table keys: the fields that they match, and their control-plane names.

use std::rc::Rc;

use num_bigint::BigInt;

use super::frame::{Frame, TableInfo};
use super::{join, Elaborator};
use crate::diag::{Code, Diagnostic};
use crate::ir::{self, Effect, Key, KeyTarget, MatchKind};
use crate::passes::annotations::{documentation, field_annotations};
use crate::passes::builder::data::Data;
use crate::sema::{Callee, DefKind, Resolution, Type, Value};
use crate::syntax::ast::{
    Annotated, Annotation, BinaryOp, DeclId, Expr, ExprKind, KeyElement, TableDecl,
};
use crate::targets::KeyUse;

/// The elaborated key of a table.
pub struct Keys {
    /// The elements that are matched with entries.
    pub keys: Vec<Key>,
    /// Elements that are not fields: their positions in the key, and the fields in which each application stores them.
    pub computed: Vec<(usize, ir::FieldRef)>,
    /// The fields of elements with the match kind `selector`.
    pub selectors: Vec<ir::FieldRef>,
}

impl Elaborator<'_> {
    /// Elaborates the key of a table.
    pub fn keys(&mut self, decl: &TableDecl, frame: &Rc<Frame>) -> Keys {
        let (mut keys, mut computed, mut selectors) = (Vec::new(), Vec::new(), Vec::new());
        for (position, element) in decl.key().iter().enumerate() {
            let ty = self.type_as_used(&element.expr, frame);
            let Some(scalar) = self.scalar(&ty) else {
                self.target(
                    element.expr.span,
                    format!("a key must be a number on this target, not {ty}"),
                );
                continue;
            };
            let (target, key_mask) = match self.direct_key(&element.expr, frame) {
                Some(direct) => direct,
                None => {
                    let field = self.temporary(&frame.name, "key", scalar);
                    computed.push((position, field));
                    (KeyTarget::Field(field), None)
                }
            };
            let usage = self.options.arch.target().key_use(&element.match_kind.name);
            if usage == Some(KeyUse::Selector) {
                let field = match (target, key_mask) {
                    (KeyTarget::Field(field), None) => field,
                    _ => {
                        let field = self.temporary(&frame.name, "key", scalar);
                        computed.push((position, field));
                        field
                    }
                };
                selectors.push(field);
                continue;
            }
            let kind = match usage {
                Some(KeyUse::Match(kind)) => kind,
                Some(KeyUse::Selector) | None => {
                    let other = &element.match_kind;
                    let message = format!("this target does not support match kind {other}");
                    self.target(other.span, message);
                    MatchKind::Exact
                }
            };
            keys.push(self.key(element, decl, kind, (target, key_mask), (&ty, scalar)));
        }
        let prefixes = keys.iter().filter(|key| key.kind == MatchKind::Lpm).count();
        let others = |key: &Key| !matches!(key.kind, MatchKind::Exact | MatchKind::Lpm);
        if prefixes > 1 && !keys.iter().any(others) {
            let what = "a table can have at most one `lpm` key";
            self.target(decl.name.span, what);
        }
        Keys {
            keys,
            computed,
            selectors,
        }
    }

    /// A key element that matches `target` under `mask`.
    fn key(
        &mut self,
        element: &KeyElement,
        decl: &TableDecl,
        kind: MatchKind,
        (target, mask): (KeyTarget, Option<BigInt>),
        (ty, scalar): (&Type, ir::Scalar),
    ) -> Key {
        let name = match element
            .annotations
            .annotation("name")
            .and_then(|annotation| annotation.string())
        {
            Some(name) => name.to_owned(),
            None => self.key_name(&element.expr).unwrap_or_else(|| {
                let what = Diagnostic::error(
                    Code::TABLE_RULE,
                    element.expr.span,
                    format!(
                        "the control plane needs a name for this key of table {}",
                        decl.name
                    ),
                )
                .help("add one: @name(\"...\")");
                self.diagnostics.report(what);
                String::new()
            }),
        };
        let (control_width, type_name) = self.control_type(ty);
        let (brief, description) = documentation(&element.annotations);
        let (id, annotations, structured) =
            field_annotations(self.checked, self.diagnostics, &element.annotations);
        Key {
            name,
            target,
            width: scalar.width(),
            mask,
            kind,
            signed: scalar.signed(),
            control_width,
            type_name,
            id,
            annotations,
            structured,
            brief,
            description,
        }
    }

    /// The target and mask of a key element that the switch can read directly: a field, optionally under a constant mask, or the validity of a
    /// header. `None` for other expressions.
    fn direct_key(
        &mut self,
        expr: &Expr,
        frame: &Rc<Frame>,
    ) -> Option<(KeyTarget, Option<BigInt>)> {
        if let (ExprKind::Binary(BinaryOp::BitAnd, left, right), None) =
            (&expr.kind, self.checked.value(expr))
        {
            let constant = self.checked.value(right)?;
            let (target, None) = self.direct_key(left, frame)? else {
                return None;
            };
            return Some((target, Some(constant.as_int()?.clone())));
        }
        let is_valid = matches!(
            self.checked.call(expr.id).map(|info| info.callee),
            Some(Callee::Builtin(crate::sema::BuiltinMethod::IsValid))
        );
        if !is_valid && !self.is_path(expr, frame) {
            return None;
        }
        let mut data = Data::Nothing;
        let code = self.block(|this| data = this.eval(expr, frame));
        if !code.is_empty() {
            return None;
        }
        match data {
            Data::Scalar(ir::Expr::Field { place, .. }) => {
                Some((KeyTarget::Field(place.fixed()?), None))
            }
            Data::Scalar(ir::Expr::Valid(ir::HeaderPlace::Fixed(header))) => {
                Some((KeyTarget::Valid(header), None))
            }
            _ => None,
        }
    }

    /// Emits stores of the key elements that are not fields, before an application of the table.
    pub fn compute_keys(&mut self, id: DeclId, info: &TableInfo, frame: &Rc<Frame>) {
        let DefKind::Table(decl) = &self.checked.def(id).kind else {
            self.impossible(None, "an applied table is not a table");
            return;
        };
        let decl = Rc::clone(decl);
        for (position, field) in &info.computed {
            if let Some(element) = decl.key().get(*position) {
                let value = self.eval_scalar(&element.expr, frame);
                self.emit(
                    element.expr.span,
                    Effect::Assign {
                        target: (*field).into(),
                        value,
                    },
                );
            }
        }
    }

    /// The control-plane name of a key element without `@name`: the text of the expression. `None` if it is too complex.
    fn key_name(&self, expr: &Expr) -> Option<String> {
        Some(match &expr.kind {
            ExprKind::Name(path) => match self.checked.resolution(expr) {
                // As in p4c, the name of a constant is its value.
                Resolution::Decl(id) => match &self.checked.def(id).kind {
                    DefKind::Const(constant) => {
                        match (&constant.value.kind, &self.checked.info(expr.id).value) {
                            (ExprKind::Int(_), _) => self.key_name(&constant.value)?,
                            (_, Some(Value::Int(value))) => value.to_string(),
                            _ => return None,
                        }
                    }
                    _ => path.name.name.to_string(),
                },
                _ => path.name.name.to_string(),
            },
            ExprKind::Member(base, member) => {
                let field = match self.checked.resolution(expr) {
                    Resolution::Decl(id) => match &self.checked.def(id).kind {
                        DefKind::Field(field, _) => Some(field),
                        _ => None,
                    },
                    _ => None,
                };
                let given = field
                    .and_then(|field| field.annotations.annotation("name"))
                    .and_then(Annotation::string);
                match given.and_then(|given| given.strip_prefix('.')) {
                    Some(absolute) => absolute.to_owned(),
                    None => join(&self.key_name(base)?, given.unwrap_or(&member.name)),
                }
            }
            ExprKind::Index(base, index) => {
                format!("{}[{}]", self.key_name(base)?, self.key_name(index)?)
            }
            ExprKind::Slice { base, hi, lo } => {
                format!(
                    "{}[{}:{}]",
                    self.key_name(base)?,
                    self.key_name(hi)?,
                    self.key_name(lo)?
                )
            }
            ExprKind::Int(literal) => match literal.base {
                16 => format!("0x{:x}", literal.value),
                8 => format!("0o{:o}", literal.value),
                2 => format!("0b{:b}", literal.value),
                _ => literal.value.to_string(),
            },
            ExprKind::Binary(BinaryOp::BitAnd, left, right) => {
                format!("{} & {}", self.key_name(left)?, self.key_name(right)?)
            }
            ExprKind::Call(call) => {
                let valid = matches!(
                    self.checked.call(expr.id).map(|info| info.callee),
                    Some(Callee::Builtin(crate::sema::BuiltinMethod::IsValid))
                );
                match (valid, super::method_base(&call.callee)) {
                    (true, Some(base)) => join(&self.key_name(base)?, "$valid$"),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }
}
