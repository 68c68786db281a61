//! Places that expressions name, and reading what is chosen at run time.

use std::rc::Rc;

use super::data::{Data, Place};
use super::frame::{Binding, Frame};
use super::Elaborator;
use crate::diag::Span;
use crate::ir::{self, Effect, HeaderPlace, Scalar};
use crate::passes::inlined::{fits_in_action, Stmt, StmtKind};
use crate::sema::{BuiltinMethod, Callee, DefKind, Resolution, Type};
use crate::syntax::ast::{Expr, ExprKind};

impl Elaborator<'_> {
    /// Whether an expression names a place: a variable or parameter, or a part of one.
    pub fn is_path(&self, expr: &Expr, frame: &Rc<Frame>) -> bool {
        match &expr.kind {
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => matches!(frame.find(id), Some(Binding::Place(_))),
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

    /// The place that an expression names.
    pub fn place(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Place {
        match &expr.kind {
            ExprKind::DontCare(_) => Place::Ignore,
            ExprKind::Name(_) => match self.checked.resolution(expr) {
                Resolution::Decl(id) => match frame.find(id) {
                    Some(Binding::Place(place)) => place,
                    Some(Binding::Data(data)) => place_of(&data),
                    _ => Place::Ignore,
                },
                _ => Place::Ignore,
            },
            ExprKind::Member(base, member) => {
                let place = self.place(base, frame);
                match self.checked.resolution(expr) {
                    Resolution::StackNext => match place {
                        Place::Stack(id) => Place::Next(id),
                        Place::UnionStack(id) => Place::NextUnion(id),
                        _ => Place::Ignore,
                    },
                    Resolution::StackLast => match place {
                        Place::Stack(id) => Place::Header(HeaderPlace::Last(id)),
                        Place::UnionStack(id) => Place::LastUnion(id),
                        _ => Place::Ignore,
                    },
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
                        Some(position) => tuple_part(place, position as usize),
                        None => Place::Ignore,
                    },
                    _ => self.element(place, index, frame),
                }
            }
            ExprKind::Slice { base, hi, lo } => {
                let place = self.place(base, frame);
                match (self.eval_u32(hi, frame), self.eval_u32(lo, frame)) {
                    (Some(high), Some(low)) if high >= low => Place::Slice {
                        base: Box::new(place),
                        low: Box::new(ir::Expr::bits(low, 32)),
                        width: high - low + 1,
                    },
                    _ => Place::Ignore,
                }
            }
            ExprKind::SlicePlus { base, lo, width } => {
                let place = self.place(base, frame);
                let low = self.eval_scalar(lo, frame);
                let low = self.hold(low, lo.span, frame);
                match self.eval_u32(width, frame) {
                    Some(width) => Place::Slice {
                        base: Box::new(place),
                        low: Box::new(low),
                        width,
                    },
                    None => Place::Ignore,
                }
            }
            _ => Place::Ignore,
        }
    }

    /// An element of a stack.
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
            _ => return Place::Ignore,
        };
        let position = match self.eval(index, frame) {
            Data::Scalar(expr) if !expr.is_constant() => {
                let held = self.hold(expr, index.span, frame);
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
                self.error(crate::diag::Code::BOUNDS, index.span, message);
                Place::Ignore
            }
        }
    }

    /// Keeps a number as it is now.
    pub fn hold(&mut self, value: ir::Expr, span: Span, frame: &Rc<Frame>) -> ir::Expr {
        match value.scalar() {
            Some(ty) if !value.is_constant() && !matches!(value, ir::Expr::Param { .. }) => {
                let held = self.temporary(frame, "tmp", ty);
                self.emit(
                    span,
                    Effect::Assign {
                        target: held.into(),
                        value,
                    },
                );
                ir::Expr::field(held, ty)
            }
            _ => value,
        }
    }

    /// A field of a place.
    pub fn member_place(&mut self, place: Place, ty: &Type, field: &str, span: Span) -> Place {
        let place = match place {
            Place::Struct(mut members) => {
                return match members.iter().position(|(name, _)| &**name == field) {
                    Some(index) => members.swap_remove(index).1,
                    None => Place::Ignore,
                }
            }
            place => place,
        };
        let parts = self.parts(ty);
        let Some(index) = parts.iter().position(|(name, _)| &**name == field) else {
            return Place::Ignore;
        };
        match place {
            Place::Header(header) => {
                let first = parts[..index]
                    .iter()
                    .map(|(_, ty)| self.field_count(ty))
                    .sum();
                self.header_field(header, first, &parts[index].1)
            }
            Place::Union(id) => Place::Header(HeaderPlace::Fixed(
                self.program.storage.union(id).members[index],
            )),
            Place::NextUnion(id) => Place::NextMember(id, index as u32),
            Place::LastUnion(id) => Place::Header(HeaderPlace::LastMember(id, index as u32)),
            Place::Dynamic {
                index: at,
                elements,
            } => {
                let elements = elements
                    .into_iter()
                    .map(|place| self.member_place(place, ty, field, span))
                    .collect();
                Place::Dynamic {
                    index: at,
                    elements,
                }
            }
            Place::Next(_) | Place::NextMember(..) => {
                self.target(
                    span,
                    "fields of the next element of a stack can be used only after it is extracted",
                );
                Place::Ignore
            }
            _ => Place::Ignore,
        }
    }

    /// The value in a place. What is chosen at run time is copied to a variable.
    pub fn read(&mut self, place: &Place, ty: &Type, span: Span, frame: &Rc<Frame>) -> Data {
        match place {
            Place::Slice { base, low, width } => {
                let base_ty = self.place_type(base);
                let data = self.read(base, &base_ty, span, frame);
                match low.as_ref() {
                    ir::Expr::Number { value, .. } => {
                        let low = u32::try_from(value).unwrap_or(0);
                        self.slice(data, low + width - 1, low)
                    }
                    low => match data {
                        Data::Scalar(expr) => {
                            let shifted = ir::Expr::binary(ir::BinaryOp::Shr, expr, low.clone());
                            self.slice(Data::Scalar(shifted), width - 1, 0)
                        }
                        other => other,
                    },
                }
            }
            Place::Dynamic { index, elements } => {
                let result = self.allocate(ty, &super::join(&frame.name, "tmp"));
                self.by_index(index, elements.len(), span, |this, position| {
                    let data = this.read(&elements[position], ty, span, frame);
                    this.assign(&result, data, ty, span, frame);
                });
                result.value().unwrap_or(Data::Invalid)
            }
            Place::Next(_) | Place::NextUnion(_) | Place::NextMember(..) | Place::LastUnion(_) => {
                self.target(
                    span,
                    "this element of a stack can only be extracted to, or its fields be read",
                );
                Data::Invalid
            }
            place => place.value().unwrap_or(Data::Invalid),
        }
    }

    /// The type of a number or truth value in a place, as far as slices need it.
    fn place_type(&self, place: &Place) -> Type {
        match place {
            Place::Scalar(_, Scalar::Bool) => Type::Bool,
            Place::Scalar(_, Scalar::Bit(width)) => Type::Bit(*width),
            Place::Scalar(_, Scalar::Int(width)) => Type::Signed(*width),
            Place::Slice { width, .. } => Type::Bit(*width),
            Place::Dynamic { elements, .. } => elements
                .first()
                .map_or(Type::Invalid, |place| self.place_type(place)),
            _ => Type::Invalid,
        }
    }

    /// Code that does `make(i)` when `index` is `i`, and nothing when it is out of range.
    pub fn by_index(
        &mut self,
        index: &ir::Expr,
        count: usize,
        span: Span,
        mut make: impl FnMut(&mut Self, usize),
    ) {
        let ty = index.scalar().unwrap_or(Scalar::Bit(32));
        let mut chain: Vec<Stmt> = Vec::new();
        for position in (0..count).rev() {
            let value = ir::Expr::number(position, ty);
            if value
                != (ir::Expr::Number {
                    value: position.into(),
                    ty,
                })
            {
                // The index cannot become so large.
                continue;
            }
            let then = self.block(|this| make(this, position));
            let cond = ir::Expr::binary(ir::BinaryOp::Eq, index.clone(), value);
            chain = self.block(|this| this.emit_if(span, cond, then, chain));
        }
        self.out.extend(chain);
    }

    /// Emits a choice that the source does not have.
    pub fn emit_if(&mut self, span: Span, cond: ir::Expr, then: Vec<Stmt>, other: Vec<Stmt>) {
        let inline = then.iter().chain(&other).all(fits_in_action);
        self.emit(
            span,
            StmtKind::If {
                cond,
                then,
                other,
                inline,
            },
        );
    }

    /// Whether evaluating an expression can change anything.
    pub fn has_effects(&self, expr: &Expr) -> bool {
        if self.checked.info(expr.id).value.is_some() {
            return false;
        }
        match &expr.kind {
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

/// A part of a tuple, by its position.
fn tuple_part(place: Place, position: usize) -> Place {
    match place {
        Place::Struct(mut members) if position < members.len() => members.swap_remove(position).1,
        Place::Dynamic { index, elements } => Place::Dynamic {
            index,
            elements: elements
                .into_iter()
                .map(|tuple| tuple_part(tuple, position))
                .collect(),
        },
        _ => Place::Ignore,
    }
}

/// The place behind a value that is one.
pub fn place_of(data: &Data) -> Place {
    match data {
        Data::Scalar(ir::Expr::Field { place, ty }) => Place::Scalar(*place, *ty),
        Data::Struct(fields) => Place::Struct(
            fields
                .iter()
                .map(|(name, data)| (name.clone(), place_of(data)))
                .collect(),
        ),
        Data::Header(place) => Place::Header(*place),
        Data::Varbit(place) => Place::Varbit(*place),
        Data::Union(id) => Place::Union(*id),
        Data::Stack(id) => Place::Stack(*id),
        Data::UnionStack(id) => Place::UnionStack(*id),
        _ => Place::Ignore,
    }
}
