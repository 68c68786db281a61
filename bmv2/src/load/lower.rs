//! Lowering of expressions to 64-bit instructions, where the result equals that in unbounded integers.
//!
//! This is based on two facts. First, the low 64 bits of sums, differences, products, bitwise operations and left
//! shifts can be computed modulo 2^64. Second, if a node's range fits a word, its value modulo 2^64 is its value.
//! Other operations, such as the comparison of two 128-bit fields, become an `Op::Big`.

use super::expr::Dest;
use super::{LoadError, Loader};
use crate::exec::big::Big;
use crate::exec::node::{BigDest, BigOp, Binary, Cast, Kind, Node, Unary};
use crate::exec::ops::{Op, Slot, Test};
use crate::exec::words::words_of;
use std::borrow::Cow;

impl Loader<'_> {
    /// Emits code that computes the low 64 bits of a node's value. Returns the word of the result.
    pub(super) fn low(&mut self, node: &Node) -> Result<Slot, LoadError> {
        match self.try_low(node)? {
            Some(slot) => Ok(slot),
            None => self.big_word(node),
        }
    }

    /// Emits code that computes the exact value of a node. Returns the word of the result, or `None` if the value may
    /// not fit a word.
    pub(super) fn exact(&mut self, node: &Node) -> Result<Option<Slot>, LoadError> {
        if node.is_u64() || node.is_i64() {
            self.low(node).map(Some)
        } else {
            Ok(None)
        }
    }

    /// Emits code that computes an index or amount as an unsigned word. A value that does not fit becomes `u64::MAX`.
    pub(super) fn amount(&mut self, node: &Node) -> Result<Slot, LoadError> {
        if node.is_u64() {
            return self.low(node);
        }
        let capped = Node::new(Kind::Cast(Cast::SatUnsigned, 64, Box::new(node.clone())));
        // `to_amount` converts negative amounts to `u64::MAX`; a saturating cast would convert them to zero.
        let negative = Node::new(Kind::Binary(
            Binary::Lt,
            Box::new(node.clone()),
            Box::new(Node::constant(Big::default())),
        ));
        let greatest = Node::constant(Big::from_u64(u64::MAX));
        self.low(&Node::new(Kind::Ternary(
            Box::new(negative),
            Box::new(greatest),
            Box::new(capped),
        )))
    }

    fn big_word(&mut self, node: &Node) -> Result<Slot, LoadError> {
        let slot = self.temp()?;
        self.big(node.clone(), BigDest::Word(slot));
        Ok(slot)
    }

    fn big(&mut self, node: Node, dest: BigDest) {
        let index = self.bigs.len() as u32;
        self.bigs.push(BigOp { node, dest });
        self.emit(Op::Big { index });
    }

    fn try_low(&mut self, node: &Node) -> Result<Option<Slot>, LoadError> {
        let slot = match &node.kind {
            Kind::Const(value) => self.constant(value.low())?,
            // The first word of a wide field is the least significant one.
            Kind::Field { slot, .. } => *slot,
            Kind::Element { element, index } => {
                let i = self.amount(index)?;
                self.load_element(*element, i)?
            }
            Kind::Last { element, next } => {
                let one = self.constant(1)?;
                let i = self.temp()?;
                self.emit(Op::Sub {
                    d: i,
                    a: *next,
                    b: one,
                });
                self.load_element(*element, i)?
            }
            Kind::Register { array, bits, index } => {
                if *bits > 64 {
                    return Ok(None);
                }
                let i = self.amount(index)?;
                let (d, zero) = (self.temp()?, self.constant(0)?);
                self.emit(Op::Mov { d, a: zero });
                self.emit(Op::RegisterRead {
                    d,
                    array: *array,
                    i,
                });
                d
            }
            Kind::Unary(Unary::Not, a) => {
                let a = self.low(a)?;
                let d = self.temp()?;
                self.emit(Op::Not { d, a });
                d
            }
            Kind::Unary(op @ (Unary::LogicNot | Unary::NonZero), a) => {
                let Some(a) = self.exact(a)? else {
                    return Ok(None);
                };
                let (d, b) = (self.temp()?, self.constant(0)?);
                self.emit(match op {
                    Unary::NonZero => Op::Ne { d, a, b },
                    Unary::LogicNot | Unary::Not | Unary::Decrement => Op::Eq { d, a, b },
                });
                d
            }
            Kind::Unary(Unary::Decrement, a) => {
                let a = self.low(a)?;
                let (d, b) = (self.temp()?, self.constant(1)?);
                self.emit(Op::Sub { d, a, b });
                d
            }
            Kind::Binary(op, a, b) => return self.binary_low(*op, a, b),
            Kind::Ternary(cond, a, b) => {
                let d = self.temp()?;
                let to_b = self.branch(cond, false)?;
                let slot = self.low(a)?;
                self.emit(Op::Mov { d, a: slot });
                let to_end = self.emit(Op::Jump { to: 0 });
                self.land(to_b);
                let slot = self.low(b)?;
                self.emit(Op::Mov { d, a: slot });
                let end = self.pc();
                self.patch(to_end, end);
                d
            }
            Kind::Cast(cast, bits, a) => {
                if *bits > 64 {
                    // Wrapping to more than 64 bits does not change the low word.
                    return if *cast == Cast::TwoComp {
                        self.low(a).map(Some)
                    } else {
                        Ok(None)
                    };
                }
                let (bits, d);
                let op = match cast {
                    Cast::TwoComp => {
                        let value = self.low(a)?;
                        if node.range == a.range {
                            return Ok(Some(value));
                        }
                        (bits, d) = (node_bits(node), self.temp()?);
                        Op::Sext { d, a: value, bits }
                    }
                    Cast::SatUnsigned | Cast::SatSigned => {
                        let Some(value) = self.exact(a)? else {
                            return Ok(None);
                        };
                        (bits, d) = (node_bits(node), self.temp()?);
                        match (cast, a.is_i64()) {
                            (Cast::SatUnsigned, true) => Op::UsatS { d, a: value, bits },
                            (Cast::SatUnsigned, false) => Op::UsatU { d, a: value, bits },
                            (_, true) => Op::SatS { d, a: value, bits },
                            (_, false) => Op::SatU { d, a: value, bits },
                        }
                    }
                };
                self.emit(op);
                d
            }
            Kind::HeaderEq(a, b) => {
                let d = self.temp()?;
                self.emit(Op::HeaderEq { d, a: *a, b: *b });
                d
            }
            Kind::UnionEq(a, b) => {
                let d = self.temp()?;
                self.emit(Op::UnionEq { d, a: *a, b: *b });
                d
            }
            Kind::UnionValid(u) => {
                let d = self.temp()?;
                self.emit(Op::UnionValid { d, u: *u });
                d
            }
        };
        Ok(Some(slot))
    }

    fn load_element(&mut self, element: u16, i: Slot) -> Result<Slot, LoadError> {
        let d = self.temp()?;
        self.emit(Op::LoadElement { d, element, i });
        Ok(d)
    }

    fn binary_low(&mut self, op: Binary, a: &Node, b: &Node) -> Result<Option<Slot>, LoadError> {
        if let Some(slot) = self.pattern(op, a, b)? {
            return Ok(Some(slot));
        }
        if op == Binary::Shr {
            if let Some(slot) = self.wide_shift(a, b)? {
                return Ok(Some(slot));
            }
        }
        let mut op = match op {
            Binary::Add => {
                let (d, a, b) = self.words_of_binary(a, b)?;
                Op::Add { d, a, b }
            }
            Binary::Sub => {
                let (d, a, b) = self.words_of_binary(a, b)?;
                Op::Sub { d, a, b }
            }
            Binary::Mul => {
                let (d, a, b) = self.words_of_binary(a, b)?;
                Op::Mul { d, a, b }
            }
            Binary::BitAnd | Binary::And => {
                let (d, a, b) = self.words_of_binary(a, b)?;
                Op::And { d, a, b }
            }
            Binary::BitOr | Binary::Or => {
                let (d, a, b) = self.words_of_binary(a, b)?;
                Op::Or { d, a, b }
            }
            Binary::BitXor => {
                let (d, a, b) = self.words_of_binary(a, b)?;
                Op::Xor { d, a, b }
            }
            Binary::Shl => {
                let (a, b) = (self.low(a)?, self.amount(b)?);
                Op::Shl {
                    d: self.temp()?,
                    a,
                    b,
                }
            }
            Binary::Shr => {
                let signed = !a.is_u64();
                let Some(a) = self.exact(a)? else {
                    return Ok(None);
                };
                let b = self.amount(b)?;
                let d = self.temp()?;
                if signed {
                    Op::ShrS { d, a, b }
                } else {
                    Op::ShrU { d, a, b }
                }
            }
            Binary::Div | Binary::Mod => {
                if !a.is_u64() || !b.is_u64() {
                    return Ok(None);
                }
                let (a, b) = (self.low(a)?, self.low(b)?);
                let d = self.temp()?;
                if op == Binary::Div {
                    Op::DivU { d, a, b }
                } else {
                    Op::ModU { d, a, b }
                }
            }
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le => {
                let Some((a, b, test)) = self.comparison(op, a, b)? else {
                    return Ok(None);
                };
                let d = self.temp()?;
                match test {
                    Test::Eq => Op::Eq { d, a, b },
                    Test::Ne => Op::Ne { d, a, b },
                    Test::LtU => Op::LtU { d, a, b },
                    Test::LeU => Op::LeU { d, a, b },
                    Test::LtS => Op::LtS { d, a, b },
                    Test::LeS => Op::LeS { d, a, b },
                }
            }
        };
        self.emit(op);
        Ok(op.result_mut().copied())
    }

    /// Emits code for the operands of an operation modulo 2^64. Returns a new word for the operation's result, and the
    /// words of both operands.
    /// Emits code that computes the low 64 bits of a wide field after a shift to the right by a constant number of bits.
    /// Returns the word of the result; `None` for other operations.
    fn wide_shift(&mut self, field: &Node, amount: &Node) -> Result<Option<Slot>, LoadError> {
        let (
            Kind::Field {
                slot,
                bits,
                signed: false,
            },
            Kind::Const(amount),
        ) = (&field.kind, &amount.kind)
        else {
            return Ok(None);
        };
        let amount = amount.to_amount();
        // The first word is the least significant one. Bits above the width of the field are zero.
        let last = words_of(*bits).saturating_sub(1);
        let (word, low) = match usize::try_from(amount / 64) {
            Ok(word) if word <= last => (word, (amount % 64) as u8),
            _ => return self.constant(0).map(Some),
        };
        let a = slot + word as Slot;
        if low == 0 {
            return Ok(Some(a));
        }
        let d = self.temp()?;
        self.emit(match word == last {
            true => Op::Bits {
                d,
                a,
                low,
                bits: 64,
            },
            false => Op::Join {
                d,
                a: a + 1,
                shift: 64 - low,
                b: a,
                low,
                bits: 64 - low,
            },
        });
        Ok(Some(d))
    }

    fn words_of_binary(&mut self, a: &Node, b: &Node) -> Result<(Slot, Slot, Slot), LoadError> {
        let (a, b) = (self.low(a)?, self.low(b)?);
        Ok((self.temp()?, a, b))
    }

    /// Emits code for an operation that one special instruction implements, such as the selection of bits. Returns the
    /// word of the result; `None` for other operations.
    fn pattern(&mut self, op: Binary, a: &Node, b: &Node) -> Result<Option<Slot>, LoadError> {
        let mut op = match op {
            Binary::BitAnd | Binary::Shr => {
                if let Some(found) = difference_bit(op, a, b) {
                    let (a, low_a, b, low_b) = self.difference_operands(&found)?;
                    let (d, bit) = (self.temp()?, found.bit);
                    Op::SubBit {
                        d,
                        a,
                        low_a,
                        b,
                        low_b,
                        bit,
                    }
                } else if let Some((field, low, bits)) = bits(op, a, b) {
                    match &field.kind {
                        Kind::Binary(sum @ (Binary::Add | Binary::Sub), a, b) if low == 0 => {
                            let (a, b) = (self.low(a)?, self.low(b)?);
                            let d = self.temp()?;
                            match sum {
                                Binary::Add => Op::AddBits { d, a, b, bits },
                                _ => Op::SubBits { d, a, b, bits },
                            }
                        }
                        _ => {
                            let a = self.low(field)?;
                            let d = self.temp()?;
                            Op::Bits { d, a, low, bits }
                        }
                    }
                } else {
                    return self.with_comparison(op, a, b);
                }
            }
            Binary::BitOr => {
                let joined = join(a, b).or_else(|| join(b, a));
                let Some((high, shift, field, low, bits)) = joined else {
                    return self.with_comparison(op, a, b);
                };
                let (a, b) = (self.low(high)?, self.low(field)?);
                let d = self.temp()?;
                Op::Join {
                    d,
                    a,
                    shift,
                    b,
                    low,
                    bits,
                }
            }
            Binary::And | Binary::Or => return self.with_comparison(op, a, b),
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Mod
            | Binary::Shl
            | Binary::BitXor
            | Binary::Eq
            | Binary::Ne
            | Binary::Lt
            | Binary::Le => return Ok(None),
        };
        self.emit(op);
        Ok(op.result_mut().copied())
    }

    /// Emits one instruction for a conjunction or disjunction of which one operand is `==` or `!=`. Returns the word of
    /// the result; `None` for other operations.
    fn with_comparison(
        &mut self,
        op: Binary,
        a: &Node,
        b: &Node,
    ) -> Result<Option<Slot>, LoadError> {
        let is_and = match op {
            Binary::And | Binary::BitAnd => true,
            Binary::Or | Binary::BitOr => false,
            Binary::Add
            | Binary::Sub
            | Binary::Mul
            | Binary::Div
            | Binary::Mod
            | Binary::Shl
            | Binary::Shr
            | Binary::BitXor
            | Binary::Eq
            | Binary::Ne
            | Binary::Lt
            | Binary::Le => return Ok(None),
        };
        let is_comparison = |node: &Node| {
            matches!(&node.kind, Kind::Binary(Binary::Eq | Binary::Ne, a, b)
                if a.is_u64() && b.is_u64() || a.is_i64() && b.is_i64())
        };
        let (x, comparison) = match (is_comparison(b), is_comparison(a)) {
            (true, _) => (a, b),
            (_, true) => (b, a),
            _ => return Ok(None),
        };
        let Kind::Binary(equality, a, b) = &comparison.kind else {
            return Ok(None);
        };
        let x = self.low(x)?;
        let (a, b) = (self.low(a)?, self.low(b)?);
        let d = self.temp()?;
        let op = match (is_and, *equality == Binary::Eq) {
            (true, true) => Op::AndEq { d, x, a, b },
            (true, false) => Op::AndNe { d, x, a, b },
            (false, true) => Op::OrEq { d, x, a, b },
            (false, false) => Op::OrNe { d, x, a, b },
        };
        self.emit(op);
        Ok(Some(d))
    }

    /// Emits code for the two numbers of a [`DifferenceBit`]. Returns the word of each, and the lowest bit that is used
    /// of each.
    fn difference_operands(
        &mut self,
        bit: &DifferenceBit,
    ) -> Result<(Slot, u8, Slot, u8), LoadError> {
        Ok((self.low(bit.a)?, bit.low_a, self.low(bit.b)?, bit.low_b))
    }

    /// Emits a conditional jump for the comparison of bits of a field (`node`) with a constant (`other`). Returns the
    /// jumps to patch; `None` for other operands.
    fn branch_on_bits(
        &mut self,
        node: &Node,
        other: &Node,
        wanted: bool,
    ) -> Result<Option<Vec<usize>>, LoadError> {
        let (Kind::Binary(op, a, b), Kind::Const(value)) = (&node.kind, &other.kind) else {
            return Ok(None);
        };
        // Jumps unless the condition holds.
        let equal = !wanted;
        if let Some(found) = difference_bit(*op, a, b) {
            let value = value.to_i128();
            if !matches!(value, Some(0 | 1)) {
                return Ok(None);
            }
            let (a, low_a, b, low_b) = self.difference_operands(&found)?;
            return Ok(Some(vec![self.emit(Op::JumpUnlessSubBit {
                a,
                low_a,
                b,
                low_b,
                bit: found.bit,
                set: (value == Some(1)) == equal,
                to: 0,
            })]));
        }
        let (Some((field, low, bits)), true) = (bits(*op, a, b), other.is_u64()) else {
            return Ok(None);
        };
        let (a, b) = (self.low(field)?, self.constant(value.low())?);
        Ok(Some(vec![self.emit(Op::JumpUnlessBits {
            a,
            low,
            bits,
            b,
            equal,
            to: 0,
        })]))
    }

    /// Emits code for the operands of a comparison. Returns their words and an operator on words that gives the same
    /// result; `None` if an operand may exceed a word.
    fn comparison(
        &mut self,
        op: Binary,
        a: &Node,
        b: &Node,
    ) -> Result<Option<(Slot, Slot, Test)>, LoadError> {
        let unsigned = a.is_u64() && b.is_u64();
        if !(unsigned || a.is_i64() && b.is_i64()) {
            return Ok(None);
        }
        let test = match (op, unsigned) {
            (Binary::Eq, _) => Test::Eq,
            (Binary::Ne, _) => Test::Ne,
            (Binary::Lt, true) => Test::LtU,
            (Binary::Lt, false) => Test::LtS,
            (_, true) => Test::LeU,
            (_, false) => Test::LeS,
        };
        Ok(Some((self.low(a)?, self.low(b)?, test)))
    }

    /// Emits code that jumps if a boolean equals `wanted`, and else continues at the next instruction. Returns the
    /// jumps whose targets must be set.
    pub(super) fn branch(&mut self, node: &Node, wanted: bool) -> Result<Vec<usize>, LoadError> {
        match &node.kind {
            Kind::Const(value) => {
                return Ok(if value.is_zero() != wanted {
                    vec![self.emit(Op::Jump { to: 0 })]
                } else {
                    vec![]
                });
            }
            Kind::Unary(Unary::LogicNot, a) => return self.branch(a, !wanted),
            Kind::Binary(op @ (Binary::And | Binary::Or), a, b) => {
                // One operand decides: a false one for `and`, a true one for `or`.
                let one_decides = *op == Binary::Or;
                let mut jumps = self.branch(a, one_decides)?;
                if wanted == one_decides {
                    jumps.extend(self.branch(b, wanted)?);
                    return Ok(jumps);
                }
                let others = self.branch(b, wanted)?;
                self.land(jumps);
                return Ok(others);
            }
            Kind::Binary(op @ (Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le), a, b) => {
                if matches!(op, Binary::Eq | Binary::Ne) {
                    let wanted = wanted == (*op == Binary::Eq);
                    if let Some(jumps) = self.branch_on_bits(a, b, wanted)? {
                        return Ok(jumps);
                    }
                }
                if let Some((a, b, test)) = self.comparison(*op, a, b)? {
                    let (a, b, test) = if wanted {
                        negate(a, b, test)
                    } else {
                        (a, b, test)
                    };
                    return Ok(vec![self.emit(Op::JumpIfNot { a, b, to: 0, test })]);
                }
            }
            Kind::Unary(Unary::NonZero, a) => {
                if let Some(a) = self.exact(a)? {
                    return self.branch_on(a, wanted);
                }
            }
            _ => {}
        }
        let a = self.low(node)?;
        self.branch_on(a, wanted)
    }

    fn branch_on(&mut self, a: Slot, wanted: bool) -> Result<Vec<usize>, LoadError> {
        let op = match wanted {
            false => Op::JumpIfZero { a, to: 0 },
            true => Op::JumpIfNot {
                a,
                b: self.constant(0)?,
                to: 0,
                test: Test::Eq,
            },
        };
        Ok(vec![self.emit(op)])
    }

    /// Sets the target of jumps to the instruction that is emitted next.
    pub(super) fn land(&mut self, jumps: Vec<usize>) {
        let here = self.pc();
        for jump in jumps {
            self.patch(jump, here);
        }
    }

    /// Emits code that assigns a value to a field or register cell, wrapped to the width of the target.
    pub(super) fn assign(&mut self, dest: Dest, value: &Node) -> Result<(), LoadError> {
        match dest {
            // A field of width 0 has no value.
            Dest::Field { bits: 0, .. } => Ok(()),
            Dest::Field { slot, bits, signed } => {
                let value = &self.saturated(slot, bits, signed, value);
                self.assign_field(slot, bits, signed, value)
            }
            Dest::Element { element, index } => {
                let e = self.elements[usize::from(element)];
                if e.bits == 0 {
                    return Ok(());
                }
                let value = &self.saturated(e.start, e.bits, e.signed, value);
                if e.bits > 64 {
                    self.big(value.as_ref().clone(), BigDest::Element { element, index });
                    return Ok(());
                }
                let value = self.wrapped(value, e.bits, e.signed)?;
                let i = self.amount(&index)?;
                self.emit(Op::StoreElement {
                    element,
                    i,
                    a: value,
                });
                Ok(())
            }
            Dest::Register { array, bits, index } => self.write_register(array, bits, index, value),
        }
    }

    /// Returns the value saturated to the field's width, if the field is one that saturates; else the value.
    fn saturated<'n>(&self, slot: Slot, bits: u32, signed: bool, value: &'n Node) -> Cow<'n, Node> {
        if !self.saturating.contains(&slot) {
            return Cow::Borrowed(value);
        }
        let cast = if signed {
            Cast::SatSigned
        } else {
            Cast::SatUnsigned
        };
        Cow::Owned(Node::new(Kind::Cast(cast, bits, Box::new(value.clone()))))
    }

    pub(super) fn write_register(
        &mut self,
        array: u16,
        bits: u32,
        index: Node,
        value: &Node,
    ) -> Result<(), LoadError> {
        if bits > 64 {
            self.big(value.clone(), BigDest::Register { array, index });
            return Ok(());
        }
        let i = self.amount(&index)?;
        let a = self.low(value)?;
        self.emit(Op::RegisterWrite { array, i, a });
        Ok(())
    }

    fn assign_field(
        &mut self,
        slot: Slot,
        bits: u32,
        signed: bool,
        value: &Node,
    ) -> Result<(), LoadError> {
        if let Kind::Ternary(cond, a, b) = &value.kind {
            let to_b = self.branch(cond, false)?;
            self.assign_field(slot, bits, signed, a)?;
            let to_end = self.emit(Op::Jump { to: 0 });
            self.land(to_b);
            self.assign_field(slot, bits, signed, b)?;
            self.land(vec![to_end]);
            return Ok(());
        }
        if (1..=64).contains(&bits) && !signed && self.assign_compound(slot, value)? {
            return Ok(());
        }
        if bits <= 64 {
            let first = self.code.len();
            let from = self.wrapped(value, bits, signed)?;
            // If the last instruction wrote a temporary, it can write the field instead.
            match self.code[first..].last_mut().and_then(Op::result_mut) {
                Some(d) if *d == from && self.temps.contains(&from) => *d = slot,
                _ if from == slot => {}
                _ => {
                    self.emit(Op::Mov { d: slot, a: from });
                }
            }
            return Ok(());
        }
        match &value.kind {
            Kind::Field {
                slot: from,
                bits: b,
                signed: s,
            } if *b == bits && (*s == signed || !s) => {
                self.emit(Op::Copy {
                    d: slot,
                    a: *from,
                    n: words_of(bits) as u16,
                });
            }
            Kind::Const(value) => {
                let value = value.truncate(bits);
                let words: Vec<u64> = (0..words_of(bits)).map(|i| value.word(i)).collect();
                let from = self.wide_constant(&words)?;
                self.emit(Op::Copy {
                    d: slot,
                    a: from,
                    n: words.len() as u16,
                });
            }
            _ => self.big(value.clone(), BigDest::Field { slot, bits, signed }),
        }
        Ok(())
    }

    /// Emits code for a value in the form in which a field of up to 64 bits stores it.
    pub(super) fn wrapped(
        &mut self,
        value: &Node,
        bits: u32,
        signed: bool,
    ) -> Result<Slot, LoadError> {
        let a = self.low(value)?;
        let fits = value.range.is_some_and(|(low, high)| match signed {
            false => low >= 0 && high < 1 << bits,
            true => low >= -(1 << (bits - 1)) && high < 1 << (bits - 1),
        });
        if fits || bits == 64 {
            return Ok(a);
        }
        let (d, bits) = (self.temp()?, bits as u8);
        self.emit(if signed {
            Op::Sext { d, a, bits }
        } else {
            Op::Mask { d, a, bits }
        });
        Ok(d)
    }
}

/// Matches bits of a field that fits a word: `(field >> low) & mask`, or only the shift, or only the mask. Returns the
/// field, its lowest selected bit, and the number of bits.
fn bits<'n>(op: Binary, a: &'n Node, b: &Node) -> Option<(&'n Node, u8, u8)> {
    let Kind::Const(b) = &b.kind else {
        return None;
    };
    let shift = |n: &Big| u8::try_from(n.to_amount()).ok().filter(|n| *n < 64);
    let (field, low, bits) = match op {
        Binary::Shr => (a, shift(b)?, 64),
        Binary::BitAnd => {
            let mask = u64::try_from(b.to_i128()?).ok()?;
            let bits = mask.count_ones() as u8;
            if mask == 0 || mask != u64::MAX >> (64 - bits) {
                return None;
            }
            match &a.kind {
                Kind::Binary(Binary::Shr, field, n) => match &n.kind {
                    Kind::Const(n) => (&**field, shift(n)?, bits),
                    _ => (a, 0, bits),
                },
                _ => (a, 0, bits),
            }
        }
        _ => return None,
    };
    (low == 0 && bits < 64 || field.is_u64()).then_some((field, low, bits))
}

/// A bit of the difference of two numbers or of their upper parts.
struct DifferenceBit<'n> {
    a: &'n Node,
    low_a: u8,
    b: &'n Node,
    low_b: u8,
    bit: u8,
}

/// Matches `((a >> low_a) - (b >> low_b)) >> bit & 1`, the order of two serial numbers.
fn difference_bit<'n>(op: Binary, a: &'n Node, b: &Node) -> Option<DifferenceBit<'n>> {
    let (difference, bit, 1) = bits(op, a, b).or_else(|| one_bit(op, a, b))? else {
        return None;
    };
    let Kind::Binary(Binary::Sub, a, b) = &difference.kind else {
        return None;
    };
    let upper = |node: &'n Node| match &node.kind {
        Kind::Binary(Binary::Shr, field, n) => match bits(Binary::Shr, field, n) {
            Some((field, low, _)) => (field, low),
            None => (node, 0),
        },
        _ => (node, 0),
    };
    let ((a, low_a), (b, low_b)) = (upper(a), upper(b));
    Some(DifferenceBit {
        a,
        low_a,
        b,
        low_b,
        bit,
    })
}

/// Matches one bit of a number of any width: `(x >> n) & 1`. Returns `x`, `n`, and 1 as the number of bits.
fn one_bit<'n>(op: Binary, a: &'n Node, b: &Node) -> Option<(&'n Node, u8, u8)> {
    let (Binary::BitAnd, Kind::Const(mask), Kind::Binary(Binary::Shr, x, n)) =
        (op, &b.kind, &a.kind)
    else {
        return None;
    };
    let Kind::Const(n) = &n.kind else {
        return None;
    };
    let n = u8::try_from(n.to_amount()).ok().filter(|n| *n < 64)?;
    (mask.to_i128() == Some(1)).then_some((x, n, 1))
}

/// Matches `(high << shift) | bits of a field`; returns the high part, the shift, the field, and the lowest bit and
/// number of its bits.
fn join<'n>(high: &'n Node, low: &'n Node) -> Option<(&'n Node, u8, &'n Node, u8, u8)> {
    let Kind::Binary(Binary::Shl, high, n) = &high.kind else {
        return None;
    };
    let Kind::Const(n) = &n.kind else {
        return None;
    };
    let shift = u8::try_from(n.to_amount()).ok().filter(|n| *n < 64)?;
    let part = match &low.kind {
        Kind::Binary(op, a, b) => bits(*op, a, b),
        _ => None,
    };
    let (field, from, bits) = part.unwrap_or((low, 0, 64));
    Some((high, shift, field, from, bits))
}

fn node_bits(node: &Node) -> u8 {
    match node.kind {
        Kind::Cast(_, bits, _) => bits as u8,
        _ => 64,
    }
}

/// Returns a comparison that holds exactly when the given one does not.
fn negate(a: Slot, b: Slot, test: Test) -> (Slot, Slot, Test) {
    match test {
        Test::Eq => (a, b, Test::Ne),
        Test::Ne => (a, b, Test::Eq),
        Test::LtU => (b, a, Test::LeU),
        Test::LeU => (b, a, Test::LtU),
        Test::LtS => (b, a, Test::LeS),
        Test::LeS => (b, a, Test::LtS),
    }
}
