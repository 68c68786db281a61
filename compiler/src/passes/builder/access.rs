//! Reads of storage, including stack elements whose index is computed at run time, and validity of headers.

use super::data::{Data, Place};
use super::Builder;
use crate::diag::Span;
use crate::ir::{self, Effect, HeaderPlace, Scalar};
use crate::names::join;
use crate::passes::inlined::{fits_in_action, Stmt, StmtKind};
use crate::sema::Type;

impl Builder<'_> {
    /// Copies a number or boolean to a new variable, so that later writes to the fields that the value reads do not
    /// change it. Constants and action parameters need no copy.
    pub fn save_value(&mut self, value: ir::Expr, span: Span, scope: &str) -> ir::Expr {
        match value.scalar() {
            Some(ty) if !value.is_constant() && !matches!(value, ir::Expr::Param { .. }) => {
                let held = self.temporary(scope, "tmp", ty);
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

    /// The storage of the member `field` of a place of type `ty`.
    pub fn member_place(&mut self, place: Place, ty: &Type, field: &str, span: Span) -> Place {
        let place = match place {
            Place::Struct(members) => {
                return match members.iter().find(|(name, _)| &**name == field) {
                    Some((_, member)) => member.clone(),
                    None => self.no_place(span, "a struct has no storage for a member"),
                }
            }
            Place::Invalid(absent) => return absent.into(),
            place => place,
        };
        let parts = self.parts(ty);
        let Some(index) = parts.iter().position(|(name, _)| &**name == field) else {
            return self.no_place(span, "a member does not exist");
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
            Place::Next(_) | Place::NextMember(..) => self
                .target(
                    span,
                    "fields of the next element of a stack can be used only after it is extracted",
                )
                .into(),
            _ => self.no_place(span, "a place has no members"),
        }
    }

    /// The value in a place of type `ty`. An element that is selected at run time is copied to a variable.
    pub fn read(&mut self, place: &Place, ty: &Type, span: Span, scope: &str) -> Data {
        match place {
            Place::Slice { base, low, width } => {
                let base_ty = self.place_type(base);
                let data = self.read(base, &base_ty, span, scope);
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
                let result = self.allocate(ty, &join(scope, "tmp"));
                self.branch_on_index(index, elements.len(), span, |this, position| {
                    let data = this.read(&elements[position], ty, span, scope);
                    this.assign(&result, data, ty, span, scope);
                });
                self.value_of(&result, span)
            }
            Place::LastUnion(id) => {
                let last = self.last_union(*id);
                self.read(&last, ty, span, scope)
            }
            Place::Next(_) | Place::NextUnion(_) | Place::NextMember(..) => self
                .target(
                    span,
                    "this element of a stack can only be extracted to, or have its fields read",
                )
                .into(),
            place => self.value_of(place, span),
        }
    }

    /// The type of the number or boolean in a place. The place must be one that can be sliced.
    fn place_type(&self, place: &Place) -> Type {
        match place {
            Place::Scalar(_, Scalar::Bool) => Type::Bool,
            Place::Scalar(_, Scalar::Bit(width)) => Type::Bit(*width),
            Place::Scalar(_, Scalar::Int(width)) => Type::Signed(*width),
            Place::Slice { width, .. } => Type::Bit(*width),
            Place::Dynamic { elements, .. } => elements
                .first()
                .map_or(Type::Unknown, |place| self.place_type(place)),
            _ => Type::Unknown,
        }
    }

    /// Emits branches on `index`: if it is `i`, the statements that `make(i)` emits are executed. None are executed if it is not less than
    /// `count`.
    pub fn branch_on_index(
        &mut self,
        index: &ir::Expr,
        count: usize,
        span: Span,
        mut make: impl FnMut(&mut Self, usize),
    ) {
        let ty = index.scalar().unwrap_or(Scalar::Bit(32));
        let mut chain: Vec<Stmt> = Vec::new();
        if self.count_parts(span, 2 * count).is_err() {
            return;
        }
        for position in (0..count).rev() {
            let value = ir::Expr::number(position, ty);
            if value
                != (ir::Expr::Number {
                    value: position.into(),
                    ty,
                })
            {
                // The index has too few bits for larger values.
                continue;
            }
            let then = self.block(|this| make(this, position));
            let cond = ir::Expr::binary(ir::BinaryOp::Eq, index.clone(), value);
            chain = self.block(|this| this.emit_if(span, cond, then, chain));
        }
        self.out.extend(chain);
    }

    /// The validity of the header or union in a place, as a boolean value.
    pub fn validity(&mut self, place: &Place, span: Span, scope: &str) -> Data {
        match place {
            Place::Header(place) => Data::Scalar(ir::Expr::Valid(*place)),
            Place::Union(id) => Data::Scalar(ir::Expr::UnionValid(*id)),
            Place::Dynamic { index, elements } => {
                let result = self.temporary(scope, "tmp", Scalar::Bool);
                let value = ir::Expr::Bool(false);
                self.emit(
                    span,
                    Effect::Assign {
                        target: result.into(),
                        value,
                    },
                );
                self.branch_on_index(index, elements.len(), span, |this, position| {
                    if let Data::Scalar(value) = this.validity(&elements[position], span, scope) {
                        this.emit(
                            span,
                            Effect::Assign {
                                target: result.into(),
                                value,
                            },
                        );
                    }
                });
                Data::Scalar(ir::Expr::field(result, Scalar::Bool))
            }
            Place::LastUnion(id) => {
                let last = self.last_union(*id);
                self.validity(&last, span, scope)
            }
            Place::Invalid(absent) => Data::Invalid(*absent),
            _ => self.no_data(
                span,
                "a place that is neither a header nor a union has no validity",
            ),
        }
    }

    /// The element of a stack of unions that was extracted last, selected by its index: the target cannot address it as a whole.
    fn last_union(&self, id: ir::UnionStackId) -> Place {
        let elements = self.program.storage.union_stack(id).elements.iter();
        Place::Dynamic {
            index: Box::new(ir::Expr::UnionLastIndex(id)),
            elements: elements.map(|union| Place::Union(*union)).collect(),
        }
    }

    /// Makes the header in a place valid.
    pub fn set_valid(&mut self, place: &Place, span: Span) {
        match place {
            Place::Header(target) => self.emit(
                span,
                Effect::SetValidity {
                    target: *target,
                    valid: true,
                },
            ),
            Place::Dynamic { index, elements } => {
                self.branch_on_index(index, elements.len(), span, |this, position| {
                    this.set_valid(&elements[position], span)
                });
            }
            Place::Next(_) | Place::NextMember(..) => {
                self.target(
                    span,
                    "the next element of a stack can only be extracted to on this target",
                );
            }
            Place::Invalid(_) => {}
            _ => {
                self.impossible(span, "a place that is not a header is made valid");
            }
        }
    }

    /// Emits a generated conditional statement, which is kept within an action if possible.
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
}

/// The storage of a value that consists of fields, headers, unions or stacks; `Place::Ignore` for other values.
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
        Data::Invalid(absent) => Place::Invalid(*absent),
        Data::Nothing
        | Data::Scalar(_)
        | Data::Int(_)
        | Data::String(_)
        | Data::HeaderOf(_)
        | Data::InvalidHeader => Place::Ignore,
    }
}
