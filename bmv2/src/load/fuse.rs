//! Fusing instructions that often follow each other.
//!
//! Input: the program's final code. Output: code of the same length that does the same, in which an
//! instruction may also do the work of the next one or two and then passes over them. These stay
//! where they are, so every jump, also one between them, leads where it led.

use crate::exec::ops::{Op, Slot, Test};

pub(super) fn fuse(code: &[Op]) -> Vec<Op> {
    let at = |i: usize| code.get(i).copied().unwrap_or(Op::End);
    (0..code.len())
        .map(|i| {
            triple(at(i), at(i + 1), at(i + 2))
                .or_else(|| pair(at(i), at(i + 1)))
                .unwrap_or_else(|| single(at(i)))
        })
        .collect()
}

fn triple(first: Op, second: Op, third: Op) -> Option<Op> {
    match (pair(first, second)?, third) {
        (Op::Mov2 { d, a, e, b }, Op::Mov { d: f, a: c }) => Some(Op::Mov3 { d, a, e, b, f, c }),
        (Op::SubAnd { d, a, b, e, m }, Op::ShrU { d: f, a: x, b: s }) if x == e => {
            Some(Op::SubAndShr {
                d,
                a,
                b,
                e,
                m,
                f,
                s,
            })
        }
        _ => None,
    }
}

fn pair(first: Op, second: Op) -> Option<Op> {
    // The operand of a commutative instruction that is not `d`.
    let other = |d: Slot, x: Slot, y: Slot| match (x == d, y == d) {
        (true, _) => Some(y),
        (_, true) => Some(x),
        _ => None,
    };
    Some(match (first, second) {
        (Op::Mov { d, a }, Op::Mov { d: e, a: b }) => Op::Mov2 { d, a, e, b },
        (Op::Mov { d, a }, Op::Jump { to }) => Op::MovJump { d, a, to },
        (Op::Shl { d, a, b }, Op::And { d: e, a: x, b: y }) => {
            let m = other(d, x, y)?;
            Op::ShlAnd { d, a, b, e, m }
        }
        (Op::Shl { d, a, b }, Op::Or { d: e, a: x, b: y }) => {
            let m = other(d, x, y)?;
            Op::ShlOr { d, a, b, e, m }
        }
        (Op::ShrU { d, a, b }, Op::And { d: e, a: x, b: y }) => {
            let m = other(d, x, y)?;
            Op::ShrAnd { d, a, b, e, m }
        }
        (Op::ShrU { d, a, b }, Op::Or { d: e, a: x, b: y }) => {
            let m = other(d, x, y)?;
            Op::ShrOr { d, a, b, e, m }
        }
        (Op::ShrU { d, a, b }, Op::Shl { d: e, a: x, b: c }) if x == d => {
            Op::ShrShl { d, a, b, e, c }
        }
        (Op::And { d, a, b }, Op::Or { d: e, a: x, b: y }) => {
            let m = other(d, x, y)?;
            Op::AndOr { d, a, b, e, m }
        }
        (Op::Sub { d, a, b }, Op::And { d: e, a: x, b: y }) => {
            let m = other(d, x, y)?;
            Op::SubAnd { d, a, b, e, m }
        }
        (
            Op::And { d, a, b },
            Op::JumpIfNot {
                a: x,
                b: y,
                to,
                test,
            },
        ) => Op::AndJump {
            d,
            a,
            b,
            x,
            y,
            equal: equality(test)?,
            to,
        },
        (
            Op::ShrU { d, a, b },
            Op::JumpIfNot {
                a: x,
                b: y,
                to,
                test,
            },
        ) => Op::ShrJump {
            d,
            a,
            b,
            x,
            y,
            equal: equality(test)?,
            to,
        },
        _ => return None,
    })
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
