//! Registers, and what stateful ALUs do with their cells.
//!
//! A cell is a number in the output. One that is a struct has the struct's fields one behind the other, the first in
//! the highest bits.

use std::rc::Rc;

use super::super::call::{Argument, Bound};
use super::super::externs::value;
use super::super::frame::ObjectId;
use super::super::frame::{Binding, Frame, ReturnTarget};
use super::super::{join, ops, Elaborator};
use super::Object;
use crate::diag::Span;
use crate::ir::{Effect, Expr, FieldRef, Primitive, RegisterId, Scalar};
use crate::passes::builder::data::{Data, Place};
use crate::sema::{CallInfo, Type};
use crate::syntax::ast::{BinaryOp, Direction, Name};

type Arguments = [(Option<Name>, Bound)];

/// The entry that was hit, as an index.
fn entry_index(entry: FieldRef) -> Expr {
    Expr::field(entry, Scalar::Bit(super::direct::ENTRY_BITS))
}

impl Elaborator<'_> {
    /// Bits of a cell; none for a type that a register cannot hold.
    pub fn cell_bits(&self, ty: &Type) -> Option<u32> {
        if let Some(scalar) = self.scalar(ty) {
            return Some(scalar.width());
        }
        let parts = self.parts(ty);
        if parts.is_empty() {
            return None;
        }
        parts.iter().map(|(_, part)| self.cell_bits(part)).sum()
    }

    /// A value as the number that its cell holds.
    pub fn packed(&mut self, data: Data, ty: &Type) -> Option<Expr> {
        let mut all: Option<Expr> = None;
        for leaf in self.leaves(data, ty) {
            let scalar = self.scalar(&leaf.ty)?;
            let value = match self.cast(leaf.data, &leaf.ty) {
                Data::Scalar(value) => ops::cast(value, Scalar::Bit(scalar.width())),
                _ => return None,
            };
            all = Some(match all {
                None => value,
                Some(all) => ops::binary(BinaryOp::Concat, all, value),
            });
        }
        all
    }

    /// Stores what a cell holds at a place of the cell's type.
    fn unpack(&mut self, cell: &Expr, place: &Place, ty: &Type, span: Span, frame: &Rc<Frame>) {
        let mut end = self.cell_bits(ty).unwrap_or(0);
        self.unpack_part(cell, &mut end, place, ty, span, frame);
    }

    fn unpack_part(
        &mut self,
        cell: &Expr,
        end: &mut u32,
        place: &Place,
        ty: &Type,
        span: Span,
        frame: &Rc<Frame>,
    ) {
        match place {
            Place::Struct(members) => {
                let parts = self.parts(ty);
                for ((_, member), (_, part)) in members.iter().zip(&parts) {
                    self.unpack_part(cell, end, member, part, span, frame);
                }
            }
            Place::Scalar(_, scalar) => {
                let (high, low) = (*end, *end - scalar.width());
                *end = low;
                let bits = match cell.scalar().map(Scalar::width) {
                    Some(all) if low == 0 && high == all => cell.clone(),
                    _ => Expr::Slice {
                        high: high - 1,
                        low,
                        arg: Box::new(cell.clone()),
                    },
                };
                let value = Data::Scalar(ops::cast(bits, *scalar));
                self.assign(place, value, ty, span, &frame.name);
            }
            _ => {}
        }
    }

    /// Marks an access, which a packet can make once for each register.
    pub(super) fn access(&mut self, register: RegisterId, span: Span) {
        let site = self.into.register_sites.len() as u32;
        self.into.register_sites.push(span);
        self.emit(
            span,
            Effect::Primitive(Primitive::RegisterAccess { register, site }),
        );
    }

    /// Reads a cell into a variable of its own.
    pub fn read_cell(
        &mut self,
        register: RegisterId,
        index: &Expr,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Expr {
        let ty = self.program.registers[register.index()].ty;
        let target = self.temporary(&frame.name, "cell", ty);
        self.emit(
            span,
            Effect::Primitive(Primitive::RegisterRead {
                target,
                register,
                index: index.clone(),
            }),
        );
        Expr::field(target, ty)
    }

    /// `Register.read`, `write` and `clear`, and those of a `DirectRegister`, whose cell is that of an entry.
    pub fn tofino_register_call(
        &mut self,
        (register, entry): (RegisterId, Option<FieldRef>),
        method: &str,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let cell = self.tofino.cells.get(&register).cloned();
        if method == "clear" {
            self.beyond_model(span, "the model has no clear of registers yet");
            return Data::Invalid;
        }
        // The cell of an entry needs no index.
        let (index, written) = match entry {
            Some(entry) => (Some(entry_index(entry)), 0),
            None => (value(args, 0), 1),
        };
        let (Some(index), Some(cell)) = (index, cell) else {
            return Data::Invalid;
        };
        let index = self.hold(index, span, &frame.name);
        self.access(register, span);
        let old = self.read_cell(register, &index, span, frame);
        let place = self.allocate(&cell, &join(&frame.name, "tmp"));
        self.unpack(&old, &place, &cell, span, frame);
        if method == "write" {
            if let Some((_, bound)) = args.get(written) {
                if let Argument::Value(data) = bound.argument.clone() {
                    if let Some(value) = self.packed(data, &cell) {
                        self.emit(
                            span,
                            Effect::Primitive(Primitive::RegisterWrite {
                                register,
                                index,
                                value,
                            }),
                        );
                    }
                }
            }
        }
        place.value().unwrap_or(Data::Invalid)
    }

    /// A method that `apply` calls of its own stateful ALU: `this.predicate(...)`.
    pub fn stateful_alu_call(
        &mut self,
        method: &str,
        args: &[Bound],
        info: &CallInfo,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        if method != "predicate" {
            if matches!(method, "min8" | "max8" | "min16" | "max16") {
                let checked = self.checked;
                let named: Vec<_> = args
                    .iter()
                    .map(|bound| (bound.param.map(|id| checked.name(id)), bound.clone()))
                    .collect();
                return self.extreme_call(method, &named, span, frame);
            }
            self.beyond_model(
                span,
                format!("the model has no {method} of stateful ALUs yet"),
            );
            return Data::Invalid;
        }
        // One bit of as many as there are outcomes of all comparisons; the first comparison is the lowest bit of its number.
        let mut number: Option<Expr> = None;
        for bound in args {
            let holds = match &bound.argument {
                Argument::Value(Data::Scalar(holds)) => ops::cast(holds.clone(), Scalar::Bit(1)),
                _ => Expr::bits(0, 1),
            };
            number = Some(match number {
                None => holds,
                Some(lower) => ops::binary(BinaryOp::Concat, holds, lower),
            });
        }
        let Some(number) = number else {
            return Data::Invalid;
        };
        let outcomes = Expr::bits(1, 1 << args.len());
        let one = ops::binary(BinaryOp::Shl, outcomes, number);
        match self.scalar(&info.ret.substitute(&frame.substitution)) {
            Some(wanted) => Data::Scalar(ops::cast(one, wanted)),
            None => Data::Scalar(one),
        }
    }

    /// `RegisterAction.execute`: reads the cell, runs `apply` on it, writes it back, and gives what `apply` gave out.
    pub fn execute(
        &mut self,
        action: ObjectId,
        info: &CallInfo,
        args: &Arguments,
        span: Span,
        frame: &Rc<Frame>,
    ) -> Data {
        let Object::RegisterAction {
            register,
            entry,
            apply: Some((decl, around)),
        } = self.tofino_object(action).clone()
        else {
            return Data::Invalid;
        };
        let cell = self.tofino.cells.get(&register).cloned();
        let index = match entry {
            Some(entry) => Some(entry_index(entry)),
            None => value(args, 0),
        };
        let (Some(index), Some(cell), Some(body)) = (index, cell, &decl.body) else {
            return Data::Invalid;
        };
        let first_result = usize::from(entry.is_none());
        let index = self.hold(index, span, &frame.name);
        self.access(register, span);
        let old = self.read_cell(register, &index, span, frame);

        let mut callee = Frame::inside(&around);
        callee.name = join(&around.name, "cell");
        callee.in_action = true;
        let mut results = Vec::new();
        let mut word = None;
        for param in &decl.params {
            let ty = self.written_type(&param.ty, &callee);
            let name = join(&callee.name, &param.name.name);
            let place = self.allocate(&ty, &name);
            match param.direction {
                Direction::InOut => {
                    self.unpack(&old, &place, &cell, span, frame);
                    word = Some(place.clone());
                }
                _ => {
                    let zero = self.default_value(&ty);
                    self.assign(&place, zero, &ty, span, &frame.name);
                    results.push((place.clone(), ty));
                }
            }
            callee.bind(param.id, Binding::Place(place));
        }
        let label = self.label();
        callee.returns = Some(ReturnTarget {
            label,
            result: None,
        });
        let callee = Rc::new(callee);
        let loops = std::mem::take(&mut self.loops);
        let code = self.block(|this| this.statements(&body.stmts, &callee));
        self.loops = loops;
        self.emit_block(span, label, code);

        let new = word.and_then(|place| place.value());
        if let Some(value) = new.and_then(|data| self.packed(data, &cell)) {
            self.emit(
                span,
                Effect::Primitive(Primitive::RegisterWrite {
                    register,
                    index,
                    value,
                }),
            );
        }
        // Further results of RegisterAction2 and its relatives go to `out` arguments.
        for ((place, ty), (_, bound)) in results.iter().skip(1).zip(args.iter().skip(first_result))
        {
            if let (Argument::Place(target), Some(data)) = (&bound.argument, place.value()) {
                self.assign(target, data, ty, bound.span, &frame.name);
            }
        }
        match results.first().and_then(|(place, _)| place.value()) {
            Some(data) => data,
            // `apply` gives nothing out, so nobody can count on the result.
            None => self.default_value(&info.ret.substitute(&frame.substitution)),
        }
    }
}
