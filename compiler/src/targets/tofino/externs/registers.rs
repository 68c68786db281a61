//! Registers, and the operations of stateful ALUs on their cells.
//!
//! In the output, a cell is one number. A struct becomes the concatenation of its fields, with the first field in the most significant bits.

use crate::diag::Span;
use crate::ir::{Effect, Expr, FieldRef, Primitive, RegisterId, Scalar};
use crate::names::join;
use crate::passes::builder::data::{Data, Place};
use crate::passes::builder::{ops, Builder};
use crate::passes::externs::call::{Argument, Call, CallResult, ExternArg, Implementation};
use crate::passes::externs::Lowering;
use crate::sema::Type;
use crate::syntax::ast::{BinaryOp, Direction};

/// The index of the hit entry, which the switch stores in the field `entry`.
fn entry_index(entry: FieldRef) -> Expr {
    Expr::field(entry, Scalar::Bit(super::direct::ENTRY_BITS))
}

impl Lowering<'_> {
    /// Stores the value `cell` of a register's cell in a place of the cell's type.
    fn unpack(&mut self, cell: &Expr, place: &Place, ty: &Type, span: Span, scope: &str) {
        let mut end = self.cell_bits(ty).unwrap_or(0);
        self.unpack_part(cell, &mut end, place, ty, span, scope);
    }

    /// Stores the bits of a cell below position `end` in a place, and subtracts their number from `end`.
    fn unpack_part(
        &mut self,
        cell: &Expr,
        end: &mut u32,
        place: &Place,
        ty: &Type,
        span: Span,
        scope: &str,
    ) {
        match place {
            Place::Struct(members) => {
                let parts = self.parts(ty);
                for ((_, member), (_, part)) in members.iter().zip(parts.iter()) {
                    self.unpack_part(cell, end, member, part, span, scope);
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
                self.assign(place, value, ty, span, scope);
            }
            _ => {}
        }
    }

    /// Emits the marker of a register access: a packet may access a register only once.
    pub(super) fn mark_access(&mut self, register: RegisterId, span: Span) {
        let site = self.into.register_sites.len() as u32;
        self.into.register_sites.push(span);
        self.emit(
            span,
            Effect::Primitive(Primitive::RegisterAccess { register, site }),
        );
    }

    /// Reads a cell into a new variable.
    pub fn read_cell(
        &mut self,
        register: RegisterId,
        index: &Expr,
        span: Span,
        scope: &str,
    ) -> Expr {
        let ty = self.program.registers[register.index()].ty;
        let target = self.temporary(scope, "cell", ty);
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

    /// Lowers `read`, `write` and `clear` of a `Register`, or of a `DirectRegister`, whose `entry` selects the cell.
    pub fn tofino_register_call(
        &mut self,
        (register, entry): (RegisterId, Option<FieldRef>),
        method: &str,
        call: &Call,
    ) -> Data {
        let (args, span, scope) = (&call.args[..], call.span, &*call.scope);
        let cell = self.tofino().cells.get(&register).cloned();
        if method == "clear" {
            let message = "the software model does not support clear of a register";
            return self.beyond_model(span, message).into();
        }
        // Methods of a `DirectRegister` have no parameter `index`.
        let (index, written) = match entry {
            Some(entry) => (Ok(entry_index(entry)), 0),
            None => (self.number_at(args, 0, span), 1),
        };
        let (index, cell) = match (index, cell) {
            (Ok(index), Some(cell)) => (index, cell),
            (Err(absent), _) => return absent.into(),
            (_, None) => return self.no_data(span, "a register has no type of its cells"),
        };
        let index = self.save_value(index, span, scope);
        self.mark_access(register, span);
        let old = self.read_cell(register, &index, span, scope);
        let place = match &call.result {
            CallResult::Place(place) => place.clone(),
            CallResult::None | CallResult::Scalar(_) => self.allocate(&cell, &join(scope, "tmp")),
        };
        self.unpack(&old, &place, &cell, span, scope);
        if method == "write" {
            let data = args.get(written).and_then(ExternArg::data).cloned();
            match data.and_then(|data| self.packed(data, &cell)) {
                Some(value) => {
                    let write = Primitive::RegisterWrite {
                        register,
                        index,
                        value,
                    };
                    self.emit(span, Effect::Primitive(write));
                }
                None => return self.no_data(span, "the value of a register is not numbers"),
            }
        }
        match call.result {
            CallResult::Scalar(_) => self.value_of(&place, span),
            CallResult::None | CallResult::Place(_) => Data::Nothing,
        }
    }

    /// Lowers a call `this.method(...)` in the implementation of `apply` of a RegisterAction.
    pub fn call_of_this(&mut self, method: &str, call: &Call) -> Data {
        if matches!(method, "min8" | "max8" | "min16" | "max16") {
            return self.min_max_call(method, &call.args, call.span, &call.scope);
        }
        let message = format!("the software model does not support {method} of a stateful ALU");
        self.beyond_model(call.span, message).into()
    }

    /// Lowers `RegisterAction.execute`: reads the cell, inlines `apply`, writes the cell back, and returns the first output of `apply`.
    pub fn execute(
        &mut self,
        register: RegisterId,
        entry: Option<FieldRef>,
        call: &mut Call,
    ) -> Data {
        let implementations = std::mem::take(&mut call.implementations);
        let is_apply = |known: &Implementation| &*known.name == "apply";
        let Some(apply) = implementations.into_iter().find(is_apply) else {
            return self.no_data(call.span, "a RegisterAction has no `apply`");
        };
        let (args, span, scope) = (&call.args[..], call.span, &*call.scope);
        let cell = self.tofino().cells.get(&register).cloned();
        let index = match entry {
            Some(entry) => Ok(entry_index(entry)),
            None => self.number_at(args, 0, span),
        };
        let (index, cell) = match (index, cell) {
            (Ok(index), Some(cell)) => (index, cell),
            (Err(absent), _) => return absent.into(),
            (_, None) => return self.no_data(span, "a register has no type of its cells"),
        };
        let first_result = usize::from(entry.is_none());
        let index = self.save_value(index, span, scope);
        self.mark_access(register, span);
        let old = self.read_cell(register, &index, span, scope);

        let mut results = Vec::new();
        let mut word = None;
        for (direction, ty, place) in apply.params {
            match direction {
                Direction::InOut => {
                    self.unpack(&old, &place, &cell, span, scope);
                    word = Some(place);
                }
                _ => {
                    let zero = self.default_value(&ty);
                    self.assign(&place, zero, &ty, span, scope);
                    results.push((place, ty));
                }
            }
        }
        self.out.extend(apply.code);

        let new = word.and_then(|place| place.value());
        if let Some(value) = new.and_then(|data| self.packed(data, &cell)) {
            let write = Primitive::RegisterWrite {
                register,
                index,
                value,
            };
            self.emit(span, Effect::Primitive(write));
        }
        // RegisterAction2, 3 and 4 return further results in `out` arguments.
        for ((place, ty), given) in results.iter().skip(1).zip(args.iter().skip(first_result)) {
            if let (Argument::Place(target), Some(data)) = (&given.argument, place.value()) {
                self.assign(target, data, ty, given.span, scope);
            }
        }
        match results.first().and_then(|(place, _)| place.value()) {
            Some(data) => data,
            // Without an output of `apply`, the result is undefined.
            None => self.default_value(&call.ret),
        }
    }
}

/// The value of `this.predicate(...)`: `1 << n`, where the comparisons are the bits of `n`, with the first one as the least significant bit.
pub fn predicate(build: &mut Builder, call: &Call) -> Data {
    let mut number: Option<Expr> = None;
    for given in &call.args {
        let holds = match given.data() {
            Some(Data::Scalar(holds)) => ops::cast(holds.clone(), Scalar::Bit(1)),
            _ => Expr::bits(0, 1),
        };
        number = Some(match number {
            None => holds,
            Some(lower) => ops::binary(BinaryOp::Concat, holds, lower),
        });
    }
    let Some(number) = number else {
        return build.no_data(call.span, "`predicate` has no argument");
    };
    let outcomes = Expr::bits(1, 1 << call.args.len());
    let one = ops::binary(BinaryOp::Shl, outcomes, number);
    match build.scalar(&call.ret) {
        Some(wanted) => Data::Scalar(ops::cast(one, wanted)),
        None => Data::Scalar(one),
    }
}

impl Builder<'_> {
    /// Width in bits of a cell of type `ty`; `None` for a type that a register cannot hold.
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

    /// A value of type `ty` as one number, the concatenation of its scalars; `None` if a part is not a scalar.
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
}
