//! Instruction fusion: a peephole pass over the final code.
//!
//! An instruction may be replaced by a fused one, which also does the work of the next one or two instructions and
//! skips them. The skipped instructions stay in place, so every jump target remains valid, even one between them.

use crate::exec::ops::{Op, Pc, Slot, Test};

/// Fuses instructions of the code; `zero` is the word of the constant 0.
pub(super) fn fuse(code: &[Op], zero: Slot) -> Vec<Op> {
    let at = |i: usize| code.get(i).copied().unwrap_or(Op::End);
    (0..code.len())
        .map(|i| {
            fill(&code[i..])
                .or_else(|| moves(at(i), at(i + 1), at(i + 2)))
                .or_else(|| move_and_test(code, i, zero))
                .or_else(|| bits(at(i), at(i + 1)))
                .or_else(|| read_and_compare(i, at(i), at(i + 1)))
                .or_else(|| conditions(code, i, zero))
                .unwrap_or_else(|| single(at(i)))
        })
        .collect()
}

/// Fuses four or more moves of one word to consecutive words, such as the initialisation of a control's variables.
fn fill(code: &[Op]) -> Option<Op> {
    let Op::Mov { d, a } = *code.first()? else {
        return None;
    };
    let follows = |(op, d): &(&Op, Slot)| **op == Op::Mov { d: *d, a };
    let n = code.iter().zip(d..).take_while(follows).count();
    // The source is not overwritten by an earlier move, so every target gets the same value.
    let n = u16::try_from(n).ok()?;
    let is_apart = a < d || a - d >= n;
    (n >= 4 && is_apart).then_some(Op::Fill { d, a, n })
}

/// Fuses up to three moves, or a move with a jump.
fn moves(first: Op, second: Op, third: Op) -> Option<Op> {
    let Op::Mov { d, a } = first else {
        return None;
    };
    match (second, third) {
        (Op::Mov { d: e, a: b }, Op::Mov { d: f, a: c }) => Some(Op::Mov3 { d, a, e, b, f, c }),
        (Op::Mov { d: e, a: b }, _) => Some(Op::Mov2 { d, a, e, b }),
        (Op::Jump { to }, _) => Some(Op::MovJump { d, a, to }),
        _ => None,
    }
}

/// Fuses a move with a condition, if the condition cannot be fused with another one.
fn move_and_test(code: &[Op], here: usize, zero: Slot) -> Option<Op> {
    let Op::Mov { d, a } = *code.get(here)? else {
        return None;
    };
    let (x, y, equal, to) = condition(*code.get(here + 1)?, zero)?;
    conditions(code, here + 1, zero)
        .is_none()
        .then_some(Op::MovJumpUnless {
            d,
            a,
            x,
            y,
            equal,
            to,
        })
}

fn bits(first: Op, second: Op) -> Option<Op> {
    match (first, second) {
        (
            Op::Bits { d, a, low, bits },
            Op::Bits {
                d: e,
                a: b,
                low: low_2,
                bits: bits_2,
            },
        ) => Some(Op::Bits2 {
            d,
            a,
            e,
            b,
            low: [low, low_2],
            bits: [bits, bits_2],
        }),
        _ => None,
    }
}

/// Returns the comparison of `JumpIfZero`, or of `JumpIfNot` with an equality: two words, whether equality falls
/// through, and the target. `None` for other instructions.
fn condition(op: Op, zero: Slot) -> Option<(Slot, Slot, bool, Pc)> {
    match op {
        Op::JumpIfZero { a, to } => Some((a, zero, false, to)),
        Op::JumpIfNot { a, b, to, test } => Some((a, b, equality(test)?, to)),
        _ => None,
    }
}

/// Returns the forward distance of a jump from the instruction after `here`, if it is positive.
fn forward(here: usize, to: Pc) -> Option<u16> {
    let offset = (to as usize).checked_sub(here + 1).filter(|n| *n > 0)?;
    u16::try_from(offset).ok()
}

/// Fuses two forward conditional jumps: the one at `here` with the next instruction or with the one at its target.
fn conditions(code: &[Op], here: usize, zero: Slot) -> Option<Op> {
    let (a, b, equal, to) = condition(*code.get(here)?, zero)?;
    let second = |at: usize| condition(*code.get(at)?, zero);
    if let Some((x, y, equal_2, to_2)) = second(here + 1) {
        return Some(Op::JumpPair {
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
    Some(Op::JumpElse {
        a,
        b,
        x,
        y,
        equal: [equal, equal_2],
        to: [forward(here, to + 1)?, forward(here, to_2)?],
    })
}

/// Fuses a register read with a forward conditional jump on its value.
fn read_and_compare(here: usize, first: Op, second: Op) -> Option<Op> {
    match (first, second) {
        (
            Op::RegisterRead { d, array, i },
            Op::JumpUnlessSubBit {
                a,
                low_a,
                b,
                low_b,
                bit,
                set,
                to,
            },
        ) if a == d => Some(Op::ReadJump {
            d,
            array,
            i,
            low_a,
            b,
            low_b,
            bit,
            set,
            to: forward(here, to)?,
        }),
        _ => None,
    }
}

fn single(op: Op) -> Op {
    match op {
        Op::JumpIfNot { a, b, to, test } => match test {
            Test::Eq => Op::JumpUnlessEq { a, b, to },
            Test::Ne => Op::JumpUnlessNe { a, b, to },
            _ => op,
        },
        op => op,
    }
}

fn equality(test: Test) -> Option<bool> {
    match test {
        Test::Eq => Some(true),
        Test::Ne => Some(false),
        _ => None,
    }
}
