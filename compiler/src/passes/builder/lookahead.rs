//! `packet_in.lookahead`, for values of any type.

use super::data::{Data, Place};
use super::Builder;
use crate::diag::Span;
use crate::ir::{self, Effect};
use crate::names::join;
use crate::sema::Type;

impl Builder<'_> {
    /// `lookahead<T>()`: reads the bits field by field into a new variable.
    pub fn lookahead(&mut self, ty: &Type, span: Span, scope: &str) -> Data {
        let place = self.allocate(ty, &join(scope, "tmp"));
        self.lookahead_into(&place, ty, span);
        self.value_of(&place, span)
    }

    /// Reads the next bits of the packet into a place of type `ty`, without consuming them.
    pub fn lookahead_into(&mut self, place: &Place, ty: &Type, span: Span) {
        self.lookahead_part(place, ty, &mut 0, span);
    }

    /// Reads the bits at `offset` into a place, and adds their number to `offset`.
    fn lookahead_part(&mut self, place: &Place, ty: &Type, offset: &mut u32, span: Span) {
        match place {
            Place::Scalar(target, scalar) => {
                let width = scalar.width();
                let ahead = ir::Expr::Lookahead {
                    offset: *offset,
                    width,
                };
                *offset += width;
                let value = super::ops::cast(ahead, *scalar);
                match value {
                    // The switch copies the bits to a field of the same width, so the conversion is not needed.
                    ir::Expr::Cast { arg, .. } => {
                        self.emit(
                            span,
                            Effect::Assign {
                                target: *target,
                                value: *arg,
                            },
                        );
                    }
                    value => self.emit(
                        span,
                        Effect::Assign {
                            target: *target,
                            value,
                        },
                    ),
                }
            }
            Place::Struct(members) => {
                let parts = self.parts(ty);
                for ((_, member), (_, ty)) in members.iter().zip(parts.iter()) {
                    self.lookahead_part(member, ty, offset, span);
                }
            }
            Place::Header(header) => {
                self.emit(
                    span,
                    Effect::SetValidity {
                        target: *header,
                        valid: true,
                    },
                );
                let mut position = 0;
                for (_, part) in self.parts(ty).iter() {
                    let field = self.header_field(*header, position, part);
                    position += self.field_count(part);
                    self.lookahead_part(&field, part, offset, span);
                }
            }
            Place::Stack(stack) => {
                let Type::Stack(element, _) = self.checked.representation(ty) else {
                    self.impossible(span, "a stack does not have the type of a stack");
                    return;
                };
                for header in self.program.storage.stack(*stack).elements.clone() {
                    let place = Place::Header(ir::HeaderPlace::Fixed(header));
                    self.lookahead_part(&place, &element, offset, span);
                }
            }
            _ => {
                self.target(
                    span,
                    format!("a value of type {ty} cannot be read by lookahead on this target"),
                );
            }
        }
    }
}
