//! Storage of lvalues, and side effects of expressions.

use std::rc::Rc;

use super::frame::{Binding, Frame};
use super::Elaborator;
use crate::diag::Span;
use crate::ir::{self, HeaderPlace};
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::place_of;
use crate::sema::{BuiltinMethod, Callee, DefKind, Resolution, Type};
use crate::syntax::ast::{Expr, ExprKind};

impl Elaborator<'_> {
    /// Whether an expression is an lvalue: a variable or parameter, or a part of one.
    pub fn is_path(&self, expr: &Expr, frame: &Rc<Frame>) -> bool {
        match &expr.kind {
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => frame.is_place(id),
                _ => false,
            },
            ExprKind::Member(base, _) => {
                !matches!(
                    self.checked.resolution(expr),
                    Resolution::Hit
                        | Resolution::Miss
                        | Resolution::ActionRun
                        | Resolution::StackSize
                ) && self.is_path(base, frame)
            }
            ExprKind::Index(base, _) => {
                matches!(self.type_of(base, frame), Type::Stack(..) | Type::Tuple(_))
                    && self.is_path(base, frame)
            }
            _ => false,
        }
    }

    /// The storage of an lvalue.
    pub fn place(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Place {
        match &expr.kind {
            ExprKind::DontCare(_) => Place::Ignore,
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => match frame.find(id) {
                    Some(Binding::Place(place)) => self.next_element(place, expr.span, frame),
                    Some(Binding::Data(data)) => place_of(&data),
                    _ => self.no_place(expr.span, "a variable has no storage"),
                },
                _ => self.no_place(expr.span, "a name is not resolved"),
            },
            ExprKind::Member(base, member) => {
                let place = self.place(base, frame);
                match self.checked.resolution(expr) {
                    Resolution::StackNext => {
                        let next = match place {
                            Place::Stack(id) => Place::Next(id),
                            Place::UnionStack(id) => Place::NextUnion(id),
                            _ => self.no_place(expr.span, "`next` is not that of a stack"),
                        };
                        self.next_element(next, expr.span, frame)
                    }
                    Resolution::StackLast => self.last_element(place, expr.span),
                    _ => {
                        let ty = self.type_of(base, frame);
                        self.member_place(place, &ty, &member.name, expr.span)
                    }
                }
            }
            ExprKind::Index(base, index) => {
                let place = self.place(base, frame);
                match self.type_of(base, frame) {
                    Type::Tuple(_) => match self.eval_u32(index, frame) {
                        Ok(position) => self.tuple_part(place, position as usize, expr.span),
                        Err(reported) => reported.into(),
                    },
                    _ => self.element(place, index, frame),
                }
            }
            ExprKind::Slice { base, hi, lo } => {
                let place = self.place(base, frame);
                match self.slice_bounds(hi, lo, frame) {
                    Ok((high, low)) => Place::Slice {
                        base: Box::new(place),
                        low: Box::new(ir::Expr::bits(low, 32)),
                        width: high - low + 1,
                    },
                    Err(absent) => absent.into(),
                }
            }
            ExprKind::SlicePlus { base, lo, width } => {
                let place = self.place(base, frame);
                let low = self.eval_scalar(lo, frame);
                let low = self.save_value(low, lo.span, &frame.name);
                match self.eval_u32(width, frame) {
                    Ok(width) => Place::Slice {
                        base: Box::new(place),
                        low: Box::new(low),
                        width,
                    },
                    Err(reported) => reported.into(),
                }
            }
            _ => self.no_place(expr.span, "an expression is not an lvalue"),
        }
    }

    /// The storage of the element of a stack at an index, which may be computed at run time. Reports a constant index out of range.
    pub fn element(&mut self, stack: Place, index: &Expr, frame: &Rc<Frame>) -> Place {
        let storage = &self.program.storage;
        let elements: Vec<Place> = match stack {
            Place::Stack(id) => {
                let elements = &storage.stack(id).elements;
                elements
                    .iter()
                    .map(|header| Place::Header(HeaderPlace::Fixed(*header)))
                    .collect()
            }
            Place::UnionStack(id) => storage
                .union_stack(id)
                .elements
                .iter()
                .map(|id| Place::Union(*id))
                .collect(),
            _ => return self.no_place(index.span, "an indexed place is not a stack"),
        };
        let position = match self.eval(index, frame) {
            Data::Scalar(expr) if !expr.is_constant() => {
                let held = self.save_value(expr, index.span, &frame.name);
                return Place::Dynamic {
                    index: Box::new(held),
                    elements,
                };
            }
            data => data.constant(),
        };
        match position.and_then(|position| usize::try_from(position).ok()) {
            Some(position) if position < elements.len() => elements[position].clone(),
            _ => {
                let message = format!(
                    "the index is out of range: the stack has {} elements",
                    elements.len()
                );
                let reported = self.error(crate::diag::Code::BOUNDS, index.span, message);
                reported.into()
            }
        }
    }

    /// The storage of an element of a tuple.
    fn tuple_part(&mut self, place: Place, position: usize, span: Span) -> Place {
        match place {
            Place::Struct(members) if position < members.len() => members[position].1.clone(),
            Place::Dynamic { index, elements } => {
                let elements = elements.into_iter();
                let elements = elements.map(|tuple| self.tuple_part(tuple, position, span));
                let elements = elements.collect();
                Place::Dynamic { index, elements }
            }
            _ => self.no_place(span, "a tuple has no such element"),
        }
    }

    /// Whether the evaluation of an expression has side effects. The result is cached.
    pub fn has_effects(&self, expr: &Expr) -> bool {
        if self.checked.info(expr.id).value.is_some() {
            return false;
        }
        if let Some(known) = self.effects.borrow().get(&expr.id) {
            return *known;
        }
        let has = self.find_effects(expr);
        self.effects.borrow_mut().insert(expr.id, has);
        has
    }

    /// Whether an expression, or a part of it, has side effects.
    fn find_effects(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::Name(_) | ExprKind::Int(_) => false,
            ExprKind::Member(base, _) => self.has_effects(base),
            ExprKind::Index(a, b)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Range(a, b)
            | ExprKind::Mask(a, b) => self.has_effects(a) || self.has_effects(b),
            ExprKind::Slice { base, .. } => self.has_effects(base),
            ExprKind::SlicePlus { base, lo, .. } => self.has_effects(base) || self.has_effects(lo),
            ExprKind::Unary(_, a) | ExprKind::Cast(_, a) => self.has_effects(a),
            ExprKind::Ternary(a, b, c) => {
                self.has_effects(a) || self.has_effects(b) || self.has_effects(c)
            }
            ExprKind::List(items) | ExprKind::Keyset(items) => {
                items.iter().any(|item| self.has_effects(item))
            }
            ExprKind::Struct { fields, .. } => {
                fields.iter().any(|field| self.has_effects(&field.value))
            }
            ExprKind::Call(call) => match self.checked.call(expr.id).map(|info| info.callee) {
                Some(Callee::Builtin(method)) => {
                    matches!(
                        method,
                        BuiltinMethod::SetValid
                            | BuiltinMethod::SetInvalid
                            | BuiltinMethod::PushFront
                            | BuiltinMethod::PopFront
                    ) || super::method_base(&call.callee).is_some_and(|base| self.has_effects(base))
                }
                Some(Callee::Method(id)) => match &self.checked.def(id).kind {
                    DefKind::Method(decl) => !matches!(&*decl.name.name, "lookahead" | "length"),
                    _ => true,
                },
                _ => true,
            },
            _ => false,
        }
    }
}
