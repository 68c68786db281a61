//! What parsers do with the packet: extract, advance, look ahead.

use std::rc::Rc;

use super::call::Argument;
use super::data::{Data, Place};
use super::frame::{Binding, Frame};
use super::{join, Elaborator};
use crate::diag::Span;
use crate::ir::{self, Effect, FieldRef, Scalar, Take};
use crate::sema::{CallInfo, Resolution, Type};
use crate::syntax::ast::{Call, Expr, ExprKind};

impl Elaborator<'_> {
    /// A call of a method of the packet in a parser.
    pub fn packet_in(
        &mut self,
        method: &str,
        info: &CallInfo,
        call: &Call,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        match method {
            "extract" => self.extract(info, call, span, frame),
            "advance" => {
                let bound = self.arguments(info, &call.args, frame);
                if let Some(Argument::Value(Data::Scalar(bits))) =
                    bound.first().map(|bound| &bound.argument)
                {
                    let bits = bits.clone();
                    self.emit(span, Take::Advance(bits));
                }
            }
            "lookahead" => {
                let ty = info.ret.substitute(&frame.substitution);
                return self.lookahead(&ty, span, frame);
            }
            "length" if self.program.arch.is_tofino() => {
                self.target(
                    span,
                    "a parser does not know the packet's length on this target",
                );
            }
            "length" => {
                let storage = &self.program.storage;
                let field = storage
                    .header_type(ir::Storage::STANDARD_METADATA)
                    .position("packet_length");
                let header = ir::Storage::STANDARD_METADATA;
                return match field {
                    Some(field) => {
                        Data::Scalar(ir::Expr::field(FieldRef { header, field }, Scalar::Bit(32)))
                    }
                    None => Data::Invalid,
                };
            }
            _ => {}
        }
        Data::Invalid
    }

    fn extract(&mut self, info: &CallInfo, call: &Call, span: Span, frame: &Rc<Frame>) {
        let Some(first) = call.args.first() else {
            return;
        };
        let Some(param) = info.args.first() else {
            return;
        };
        let ty = param.ty.substitute(&frame.substitution);
        let place = match &first.value.kind {
            ExprKind::DontCare(_) => self.allocate(&ty, &join(&frame.name, "tmp")),
            _ => self.place(&first.value, frame),
        };
        let varbit_bits = call
            .args
            .get(1)
            .map(|arg| self.eval_scalar(&arg.value, frame));
        let kind = match place {
            Place::Header(target) => match target {
                ir::HeaderPlace::Fixed(target) => Take::Extract {
                    target,
                    varbit_bits,
                },
                _ => {
                    self.target(
                        first.value.span,
                        "extract to the next element of the stack: use .next",
                    );
                    return;
                }
            },
            Place::Next(target) => {
                self.now_last(&first.value, ir::HeaderPlace::Last(target), frame);
                Take::ExtractNext {
                    target,
                    varbit_bits,
                }
            }
            Place::NextMember(target, member) => {
                let last = ir::HeaderPlace::LastMember(target, member);
                self.now_last(&first.value, last, frame);
                Take::ExtractNextMember {
                    target,
                    member,
                    varbit_bits,
                }
            }
            Place::Dynamic { index, elements } => {
                self.within_stack(&index, elements.len(), span);
                self.by_index(&index, elements.len(), span, |this, position| {
                    if let Place::Header(ir::HeaderPlace::Fixed(target)) = elements[position] {
                        this.emit(
                            span,
                            Take::Extract {
                                target,
                                varbit_bits: varbit_bits.clone(),
                            },
                        );
                    }
                });
                return;
            }
            _ => return,
        };
        self.emit(span, kind);
    }

    /// Emits the check that an index is one of a stack's. Without it a parser that counts its headers might go around for ever.
    fn within_stack(&mut self, index: &ir::Expr, count: usize, span: Span) {
        let ty = index.scalar().unwrap_or(Scalar::Bit(32));
        let number = |value: usize| ir::Expr::Number {
            value: value.into(),
            ty,
        };
        let end = ir::Expr::number(count, ty);
        let below = ir::Expr::binary(ir::BinaryOp::Lt, index.clone(), end.clone());
        let cond = match (end == number(count), ty) {
            (true, Scalar::Int(_)) => {
                let from = ir::Expr::binary(ir::BinaryOp::Ge, index.clone(), number(0));
                ir::Expr::binary(ir::BinaryOp::LogicalAnd, from, below)
            }
            (false, Scalar::Int(_)) => ir::Expr::binary(ir::BinaryOp::Ge, index.clone(), number(0)),
            (true, _) => below,
            // The index cannot become so large.
            (false, _) => return,
        };
        self.verify(cond, "StackOutOfBounds", span);
    }

    /// A parameter that stood for the next element of a stack stands for the last one, once that is extracted.
    fn now_last(&mut self, target: &Expr, last: ir::HeaderPlace, frame: &Rc<Frame>) {
        if let (ExprKind::Name(_), Resolution::Decl(id)) =
            (&target.kind, self.checked.resolution(target))
        {
            frame.rebind(id, Binding::Place(Place::Header(last)));
        }
    }

    /// `lookahead<T>()`: the bits are read field by field into a variable.
    pub fn lookahead(&mut self, ty: &Type, span: Span, frame: &Rc<Frame>) -> Data {
        let place = self.allocate(ty, &join(&frame.name, "tmp"));
        let mut offset = 0;
        self.look(&place, ty, &mut offset, span);
        place.value().unwrap_or(Data::Invalid)
    }

    fn look(&mut self, place: &Place, ty: &Type, offset: &mut u32, span: Span) {
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
                    // BMv2 looks ahead only straight into a field, and fields are as wide as what is read.
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
                for ((_, member), (_, ty)) in members.iter().zip(&parts) {
                    self.look(member, ty, offset, span);
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
                for (_, part) in self.parts(ty) {
                    let field = self.header_field(*header, position, &part);
                    position += self.field_count(&part);
                    self.look(&field, &part, offset, span);
                }
            }
            Place::Stack(stack) => {
                let Type::Stack(element, _) = self.checked.representation(ty) else {
                    return;
                };
                for header in self.program.storage.stack(*stack).elements.clone() {
                    let place = Place::Header(ir::HeaderPlace::Fixed(header));
                    self.look(&place, &element, offset, span);
                }
            }
            _ => self.target(
                span,
                format!("a value of type {ty} cannot be looked ahead at on this target"),
            ),
        }
    }
}
