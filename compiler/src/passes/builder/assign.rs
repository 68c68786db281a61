//! Assignment of values of any type to places of any kind.

use super::data::{Data, Footprint, Place};
use super::{ops, Builder};
use crate::diag::Span;
use crate::ir::{self, Effect, HeaderPlace, Scalar};
use crate::sema::Type;
use crate::syntax::ast::Name;

impl Builder<'_> {
    /// Stores a value of type `ty` in a place.
    pub fn assign(&mut self, place: &Place, data: Data, ty: &Type, span: Span, scope: &str) {
        match place {
            Place::Ignore | Place::Invalid(_) => {}
            Place::Scalar(target, scalar) => match self.cast_scalar(data, *scalar) {
                Data::Scalar(value) => self.assign_field((*target, *scalar), value, span),
                data => self.not_stored(&data, span),
            },
            Place::Slice { base, low, width } => {
                match self.cast_scalar(data, Scalar::Bit(*width)) {
                    Data::Scalar(value) => {
                        self.assign_slice(base, low, *width, value, span, scope);
                    }
                    data => self.not_stored(&data, span),
                }
            }
            Place::Varbit(target) => match data {
                Data::Varbit(value) => {
                    if value != *target {
                        let target = *target;
                        self.emit(span, Effect::AssignVarbit { target, value });
                    }
                }
                data => self.not_stored(&data, span),
            },
            Place::Struct(members) => {
                let values = match data {
                    Data::Struct(values) => values,
                    data => return self.not_stored(&data, span),
                };
                let parts = self.parts(ty);
                let moves = members.iter().zip(values).enumerate().map(
                    |(index, ((_, place), (_, data)))| {
                        (
                            place.clone(),
                            data,
                            parts.get(index).map_or(Type::Unknown, |(_, ty)| ty.clone()),
                        )
                    },
                );
                self.assign_all(moves.collect(), span, scope);
            }
            Place::Header(target) => self.assign_header(*target, data, ty, span, scope),
            Place::Union(target) => match data {
                Data::Union(value) => {
                    if value != *target {
                        let target = *target;
                        self.emit(span, Effect::AssignUnion { target, value });
                    }
                }
                Data::InvalidHeader => self.invalidate(place, span),
                data => self.not_stored(&data, span),
            },
            Place::Stack(target) => match data {
                Data::Stack(value) => {
                    if value != *target {
                        let target = *target;
                        self.emit(span, Effect::AssignStack { target, value });
                    }
                }
                Data::Struct(values) => {
                    let elements = self.program.storage.stack(*target).elements.iter();
                    let places = elements.map(|header| Place::Header(HeaderPlace::Fixed(*header)));
                    self.assign_elements(places.collect(), values, ty, span, scope);
                }
                Data::InvalidHeader => self.invalidate(place, span),
                data => self.not_stored(&data, span),
            },
            Place::UnionStack(target) => match data {
                Data::UnionStack(value) => {
                    if value != *target {
                        let target = *target;
                        self.emit(span, Effect::AssignUnionStack { target, value });
                    }
                }
                Data::Struct(values) => {
                    let elements = self.program.storage.union_stack(*target).elements.iter();
                    let places = elements.map(|union| Place::Union(*union));
                    self.assign_elements(places.collect(), values, ty, span, scope);
                }
                Data::InvalidHeader => self.invalidate(place, span),
                data => self.not_stored(&data, span),
            },
            Place::Dynamic { index, elements } => {
                self.branch_on_index(index, elements.len(), span, |this, position| {
                    this.assign(&elements[position], data.clone(), ty, span, scope);
                });
            }
            Place::Next(_) | Place::NextUnion(_) | Place::NextMember(..) | Place::LastUnion(_) => {
                self.target(
                    span,
                    "the next element of a stack can only be extracted to on this target",
                );
            }
        }
    }

    /// Reports an internal error for a value that cannot be stored in a place of its type, unless it is a placeholder.
    fn not_stored(&mut self, data: &Data, span: Span) {
        if !matches!(data, Data::Invalid(_)) {
            self.impossible(span, "a value does not fit the place that stores it");
        }
    }

    /// Assigns the elements of a list to those of a stack of type `ty`.
    fn assign_elements(
        &mut self,
        elements: Vec<Place>,
        values: Vec<(Name, Data)>,
        ty: &Type,
        span: Span,
        scope: &str,
    ) {
        let element = match self.checked.representation(ty) {
            Type::Stack(element, _) => (*element).clone(),
            _ => Type::Unknown,
        };
        // Elements of the stack without a value become invalid.
        let rest = std::iter::repeat_with(|| (super::unnamed(), Data::InvalidHeader));
        let moves = elements
            .into_iter()
            .zip(values.into_iter().chain(rest))
            .map(|(place, (_, data))| (place, data, element.clone()));
        self.assign_all(moves.collect(), span, scope);
    }

    /// Stores a number or boolean in a field, unless the value is the field itself.
    fn assign_field(&mut self, target: (ir::FieldPlace, Scalar), value: ir::Expr, span: Span) {
        let (target, _) = target;
        if matches!(&value, ir::Expr::Field { place, .. } if *place == target) {
            return;
        }
        self.emit(span, Effect::Assign { target, value });
    }

    /// Stores a value in a header, which may be a member of a union.
    fn assign_header(
        &mut self,
        target: HeaderPlace,
        data: Data,
        ty: &Type,
        span: Span,
        scope: &str,
    ) {
        match data {
            Data::Header(value) => {
                if value != target {
                    self.emit(span, Effect::AssignHeader { target, value });
                }
                // The target invalidates the other members of a union only if the value is valid. The language invalidates them also
                // if the value is invalid (spec § 8.19).
                for other in self.program.storage.union_siblings(target) {
                    self.remove_header(other, span);
                }
            }
            Data::InvalidHeader => self.invalidate(&Place::Header(target), span),
            Data::HeaderOf(values) => {
                let parts = self.parts(ty);
                let mut position = 0;
                let mut moves = Vec::new();
                for ((_, part), data) in parts.iter().zip(values) {
                    moves.push((
                        self.header_field(target, position, part),
                        data,
                        part.clone(),
                    ));
                    position += self.field_count(part);
                }
                // `setValid` may clear the fields and invalidates the other members of a union, so values that read them are saved
                // first.
                let own = Place::Header(target).footprint(&self.program.storage);
                for (_, data, part) in &mut moves {
                    if data.footprint(&self.program.storage).overlaps(&own) {
                        *data = self.materialize(data.clone(), part, span, scope);
                    }
                }
                self.emit(
                    span,
                    Effect::SetValidity {
                        target,
                        valid: true,
                    },
                );
                self.assign_all(moves, span, scope);
            }
            data => self.not_stored(&data, span),
        }
    }

    /// Assigns several values in parallel: values that an earlier assignment changes are saved first.
    pub fn assign_all(&mut self, mut moves: Vec<(Place, Data, Type)>, span: Span, scope: &str) {
        let mut written = Footprint::default();
        let mut clash = false;
        for (place, data, _) in &moves {
            clash |= data.footprint(&self.program.storage).overlaps(&written);
            written.extend(&place.footprint(&self.program.storage));
        }
        if clash {
            for (_, data, ty) in &mut moves {
                if data.footprint(&self.program.storage).overlaps(&written) {
                    *data = self.materialize(data.clone(), ty, span, scope);
                }
            }
        }
        for (place, data, ty) in moves {
            self.assign(&place, data, &ty, span, scope);
        }
    }

    /// Replaces the bits `low` to `low + width - 1` of a number.
    fn assign_slice(
        &mut self,
        base: &Place,
        low: &ir::Expr,
        width: u32,
        value: ir::Expr,
        span: Span,
        scope: &str,
    ) {
        if let Place::Dynamic { index, elements } = base {
            self.branch_on_index(index, elements.len(), span, |this, position| {
                this.assign_slice(&elements[position], low, width, value.clone(), span, scope);
            });
            return;
        }
        let (old, ty) = match base {
            Place::Scalar(place, ty) => (ir::Expr::field(*place, *ty), *ty),
            Place::Slice { width, .. } => {
                let ty = Scalar::Bit(*width);
                match self.read(base, &Type::Bit(*width), span, scope) {
                    Data::Scalar(expr) => (expr, ty),
                    _ => return,
                }
            }
            _ => return,
        };
        let bits = ty.width();
        let whole = Scalar::Bit(bits);
        let old = ops::cast(old, whole);
        let field = ops::cast(value, whole);
        let ones = ir::Expr::bits(ir::mask(width), bits);
        let (hole, field) = match low {
            ir::Expr::Number { value: low, .. } => {
                let low = u32::try_from(low).unwrap_or(0);
                let hole = ir::Expr::bits(ir::mask(bits) ^ (ir::mask(width) << low), bits);
                (hole, shift_left(field, ir::Expr::bits(low, 8), low == 0))
            }
            low => {
                let shifted = shift_left(ones, low.clone(), false);
                let hole = ir::Expr::unary(ir::UnaryOp::Complement, shifted);
                (hole, shift_left(field, low.clone(), false))
            }
        };
        let kept = ir::Expr::binary(ir::BinaryOp::And, old, hole);
        let joined = ir::Expr::binary(ir::BinaryOp::Or, kept, field);
        let joined = ops::cast(joined, ty);
        let ty = match ty {
            Scalar::Int(width) => Type::Signed(width),
            _ => Type::Bit(bits),
        };
        self.assign(base, Data::Scalar(joined), &ty, span, scope);
    }

    /// Invalidates all headers in a place.
    pub fn invalidate(&mut self, place: &Place, span: Span) {
        match place {
            Place::Struct(members) => members
                .iter()
                .for_each(|(_, member)| self.invalidate(member, span)),
            // `setInvalid` of a member of a union invalidates all members (spec § 8.19).
            Place::Header(target) => {
                let others = self.program.storage.union_siblings(*target);
                self.remove_header(*target, span);
                for other in others {
                    self.remove_header(other, span);
                }
            }
            Place::Union(id) => {
                for header in self.program.storage.union(*id).members.clone() {
                    self.remove_header(HeaderPlace::Fixed(header), span);
                }
            }
            Place::Stack(id) => {
                for header in self.program.storage.stack(*id).elements.clone() {
                    self.remove_header(HeaderPlace::Fixed(header), span);
                }
            }
            Place::UnionStack(id) => {
                for union in self.program.storage.union_stack(*id).elements.clone() {
                    self.invalidate(&Place::Union(union), span);
                }
            }
            Place::Dynamic { index, elements } => {
                self.branch_on_index(index, elements.len(), span, |this, position| {
                    this.invalidate(&elements[position], span)
                });
            }
            _ => {}
        }
    }

    /// Invalidates a header; other members of its union are unchanged.
    fn remove_header(&mut self, target: HeaderPlace, span: Span) {
        let valid = false;
        self.emit(span, Effect::SetValidity { target, valid });
    }
}

/// `value << amount`, folded for constants; the value itself if `by_zero`.
fn shift_left(value: ir::Expr, amount: ir::Expr, by_zero: bool) -> ir::Expr {
    match (value, amount) {
        (value, _) if by_zero => value,
        (ir::Expr::Number { value, ty }, ir::Expr::Number { value: amount, .. }) => {
            ir::Expr::number(value << u32::try_from(amount).unwrap_or(0), ty)
        }
        (value, amount) => ir::Expr::binary(ir::BinaryOp::Shl, value, amount),
    }
}
