//! Packet operations of parsers: extract, advance and lookahead.

use std::rc::Rc;

use super::call::Argument;
use super::frame::{Binding, Frame};
use super::{join, Elaborator};
use crate::diag::Span;
use crate::ir::{self, Scalar, Take};
use crate::passes::builder::data::{Data, Place};
use crate::sema::{CallInfo, Resolution, Type};
use crate::syntax::ast::{Call, Expr, ExprKind};

impl Elaborator<'_> {
    /// Elaborates a call of a method of `packet_in`.
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
                match bound.first().map(|bound| &bound.argument) {
                    Some(Argument::Value(Data::Scalar(bits))) => {
                        let bits = bits.clone();
                        self.emit(span, Take::Advance(bits));
                    }
                    _ => return self.no_data(span, "`advance` has no number of bits"),
                }
            }
            "lookahead" => {
                let ty = info.ret.substitute(&frame.substitution);
                return self.lookahead(&ty, span, &frame.name);
            }
            "length" => {
                let target = self.options.arch.target();
                return target.packet_length(&mut self.build, span);
            }
            _ => return self.no_data(span, "an unknown method of `packet_in` is called"),
        }
        Data::Nothing
    }

    /// Elaborates `packet_in.extract`.
    fn extract(&mut self, info: &CallInfo, call: &Call, span: Span, frame: &Rc<Frame>) {
        let (Some(first), Some(param)) = (call.args.first(), info.args.first()) else {
            self.impossible(span, "`extract` has no argument");
            return;
        };
        let ty = param.ty.substitute(&frame.substitution);
        let place = match &first.value.kind {
            ExprKind::DontCare(_) => self.allocate(&ty, &join(&frame.name, "tmp")),
            _ => self.extracted_place(&first.value, frame),
        };
        if matches!(self.checked.representation(&ty), Type::HeaderUnion(_)) {
            let message = "a header union cannot be extracted as a whole on this target: extract to one of its members";
            self.target(first.value.span, message);
            return;
        }
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
                self.rebind_to_last(&first.value, ir::HeaderPlace::Last(target), frame);
                Take::ExtractNext {
                    target,
                    varbit_bits,
                }
            }
            Place::NextMember(target, member) => {
                let last = ir::HeaderPlace::LastMember(target, member);
                self.rebind_to_last(&first.value, last, frame);
                Take::ExtractNextMember {
                    target,
                    member,
                    varbit_bits,
                }
            }
            Place::Dynamic { index, elements } => {
                self.verify_index(&index, elements.len(), span);
                self.branch_on_index(&index, elements.len(), span, |this, position| {
                    let varbit_bits = varbit_bits.clone();
                    match elements[position] {
                        Place::Header(ir::HeaderPlace::Fixed(target)) => this.emit(
                            span,
                            Take::Extract {
                                target,
                                varbit_bits,
                            },
                        ),
                        _ => {
                            this.impossible(span, "an element of a stack is not a header");
                        }
                    }
                });
                return;
            }
            _ => {
                self.impossible(span, "`extract` has an argument that is not a header");
                return;
            }
        };
        self.emit(span, kind);
    }

    /// Emits a `verify` that a stack's index is less than `count`. Without it, a parser that counts headers might not terminate.
    fn verify_index(&mut self, index: &ir::Expr, count: usize, span: Span) {
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
            // The index has too few bits for larger values.
            (false, _) => return,
        };
        self.verify(cond, "StackOutOfBounds", span);
    }

    /// Rebinds a parameter that aliases `stack.next` to `stack.last`, after the element is extracted.
    fn rebind_to_last(&mut self, target: &Expr, last: ir::HeaderPlace, frame: &Rc<Frame>) {
        if let (ExprKind::Name(_), Resolution::Decl(id)) =
            (&target.kind, self.checked.resolution(target))
        {
            frame.rebind(id, Binding::Place(Place::Header(last)));
        }
    }
}
