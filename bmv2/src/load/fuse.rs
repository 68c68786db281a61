//! Instruction fusion: a peephole pass over the final code.
//!
//! An instruction may be replaced by a fused one ([`FusedOp`]), which also does the work of the next instructions and
//! skips them. The skipped instructions stay in place, so every jump target remains valid, even one between them.

use crate::exec::ops::{Branch, Condition, FusedOp, Op, Pc, Slot, Test};

/// Fuses instructions of the code; `zero` is the word of the constant 0.
pub(super) fn fuse(code: &[Op], zero: Slot) -> Vec<FusedOp> {
    let at = |i: usize| code.get(i).copied().unwrap_or(Op::End);
    (0..code.len())
        .map(|i| {
            fill(&code[i..])
                .or_else(|| moves(at(i), at(i + 1), at(i + 2)))
                .or_else(|| move_and_test(code, i, zero))
                .or_else(|| bits(at(i), at(i + 1)))
                .or_else(|| read_and_compare(i, at(i), at(i + 1), zero))
                .or_else(|| conditions(code, i, zero))
                .unwrap_or_else(|| single(at(i)))
        })
        .collect()
}

/// Fuses four or more moves of one word to consecutive words, such as the initialisation of a control's variables.
fn fill(code: &[Op]) -> Option<FusedOp> {
    let Op::Mov { d, a } = *code.first()? else {
        return None;
    };
    let follows = |(op, d): &(&Op, Slot)| **op == Op::Mov { d: *d, a };
    let n = code.iter().zip(d..).take_while(follows).count();
    // The source is not overwritten by an earlier move, so every target gets the same value.
    let n = u16::try_from(n).ok()?;
    let is_apart = a < d || a - d >= n;
    (n >= 4 && is_apart).then_some(FusedOp::Fill { d, a, n })
}

/// Returns the destination and the source of a move; `None` for other instructions.
fn as_move(op: Op) -> Option<(Slot, Slot)> {
    let Op::Mov { d, a } = op else {
        return None;
    };
    Some((d, a))
}

/// Fuses up to three moves, or a move with a jump.
fn moves(first: Op, second: Op, third: Op) -> Option<FusedOp> {
    let (d, a) = as_move(first)?;
    if let Op::Jump { to } = second {
        return Some(FusedOp::MovJump { d, a, to });
    }
    let (e, b) = as_move(second)?;
    Some(match as_move(third) {
        Some((f, c)) => FusedOp::Mov3 { d, a, e, b, f, c },
        None => FusedOp::Mov2 { d, a, e, b },
    })
}

/// Fuses a move with a condition, if the condition cannot be fused with another one.
fn move_and_test(code: &[Op], here: usize, zero: Slot) -> Option<FusedOp> {
    let Op::Mov { d, a } = *code.get(here)? else {
        return None;
    };
    let (x, y, equal, to) = condition(*code.get(here + 1)?, zero)?;
    conditions(code, here + 1, zero)
        .is_none()
        .then_some(FusedOp::MovJumpUnless {
            d,
            a,
            x,
            y,
            equal,
            to,
        })
}

/// Fuses two instructions that select bits.
fn bits(first: Op, second: Op) -> Option<FusedOp> {
    let Op::Bits { d, a, low, bits } = first else {
        return None;
    };
    let Op::Bits {
        d: e,
        a: b,
        low: low_2,
        bits: bits_2,
    } = second
    else {
        return None;
    };
    Some(FusedOp::Bits2 {
        d,
        a,
        e,
        b,
        low: [low, low_2],
        bits: [bits, bits_2],
    })
}

/// Returns the comparison of a conditional jump on equality: two words, whether equality falls through, and the
/// target. `None` for other instructions.
fn condition(op: Op, zero: Slot) -> Option<(Slot, Slot, bool, Pc)> {
    let Branch {
        condition,
        falls_through_on,
        to,
    } = op.flow(zero).branch()?;
    match condition {
        Condition::Order {
            a,
            b,
            test: Test::Eq,
        } => Some((a, b, falls_through_on, to)),
        Condition::Order { .. } | Condition::Bits { .. } | Condition::SubBit { .. } => None,
    }
}

/// Returns the distance of a forward jump from the instruction after `here` to `to`; `None` if the jump is not forward,
/// or too long.
fn forward(here: usize, to: Pc) -> Option<u16> {
    let offset = (to as usize).checked_sub(here + 1).filter(|n| *n > 0)?;
    u16::try_from(offset).ok()
}

/// Fuses two forward conditional jumps: the one at `here` with the next instruction or with the one at its target.
fn conditions(code: &[Op], here: usize, zero: Slot) -> Option<FusedOp> {
    let (a, b, equal, to) = condition(*code.get(here)?, zero)?;
    let second = |at: usize| condition(*code.get(at)?, zero);
    if let Some((x, y, equal_2, to_2)) = second(here + 1) {
        return Some(FusedOp::JumpPair {
            a,
            b,
            x,
            y,
            equal: [equal, equal_2],
            to: [forward(here, to)?, forward(here, to_2)?],
        });
    }
    forward(here, to)?;
    let (x, y, equal_2, to_2) = second(to as usize)?;
    Some(FusedOp::JumpElse {
        a,
        b,
        x,
        y,
        equal: [equal, equal_2],
        to: [forward(here, to + 1)?, forward(here, to_2)?],
    })
}

/// Fuses a register read with a forward conditional jump on its value.
fn read_and_compare(here: usize, first: Op, second: Op, zero: Slot) -> Option<FusedOp> {
    let Op::RegisterRead { d, array, i } = first else {
        return None;
    };
    let branch = second.flow(zero).branch()?;
    match branch.condition {
        Condition::SubBit {
            a,
            low_a,
            b,
            low_b,
            bit,
        } if a == d => Some(FusedOp::ReadJump {
            d,
            array,
            i,
            low_a,
            b,
            low_b,
            bit,
            set: branch.falls_through_on,
            to: forward(here, branch.to)?,
        }),
        Condition::SubBit { .. } | Condition::Order { .. } | Condition::Bits { .. } => None,
    }
}

/// Returns an instruction without fusion. An instruction with several modes gets the variant for its mode, which the
/// interpreter executes with fewer tests.
fn single(op: Op) -> FusedOp {
    match op {
        Op::JumpIfNot {
            a,
            b,
            to,
            test: Test::Eq,
        } => FusedOp::JumpUnlessEq { a, b, to },
        Op::JumpIfNot {
            a,
            b,
            to,
            test: Test::Ne,
        } => FusedOp::JumpUnlessNe { a, b, to },
        op => FusedOp::from(op),
    }
}
