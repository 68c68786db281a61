//! Property tests: random code behaves the same before and after jump threading.

use super::*;
use crate::exec::ops::Test;
use crate::exec::run::field;
use proptest::prelude::*;

/// Number of variable words, which the constants 0 to 2 follow.
const WORDS: Slot = 5;
const ZERO: Slot = WORDS;
const LENGTH: u32 = 40;
/// Start of the pipeline in the program's code.
const BASE: Pc = 7;

fn word() -> impl Strategy<Value = Slot> {
    0..WORDS
}

/// A random word, half of them constant.
fn operand() -> impl Strategy<Value = Slot> {
    prop_oneof![0..WORDS, WORDS..WORDS + 3]
}

fn test() -> impl Strategy<Value = Test> {
    let mut all = vec![Test::Eq, Test::Ne, Test::LtU, Test::LeU];
    all.extend([Test::LtS, Test::LeS]);
    // Most tests are of equality, about which most facts are known.
    prop_oneof![
        Just(Test::Eq),
        Just(Test::Ne),
        proptest::sample::select(all)
    ]
}

/// A random instruction; jumps are forward.
fn op() -> impl Strategy<Value = Op> {
    let to = 1..12u32;
    let three = || (word(), operand(), operand());
    prop_oneof![
        4 => (word(), operand()).prop_map(|(d, a)| Op::Mov { d, a }),
        1 => three().prop_map(|(d, a, b)| Op::Eq { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::Ne { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::And { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::Or { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::LtU { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::LeU { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::Xor { d, a, b }),
        1 => three().prop_map(|(d, a, b)| Op::Sub { d, a, b }),
        1 => (three(), operand()).prop_map(|((d, x, a), b)| Op::AndEq { d, x, a, b }),
        1 => (three(), operand()).prop_map(|((d, x, a), b)| Op::AndNe { d, x, a, b }),
        1 => (three(), operand()).prop_map(|((d, x, a), b)| Op::OrEq { d, x, a, b }),
        1 => (three(), operand()).prop_map(|((d, x, a), b)| Op::OrNe { d, x, a, b }),
        1 => (word(), operand()).prop_map(|(d, a)| Op::Bits { d, a, low: 1, bits: 1 }),
        1 => (word(), operand()).prop_map(|(d, a)| Op::Mask { d, a, bits: 1 }),
        4 => (operand(), to.clone()).prop_map(|(a, to)| Op::JumpIfZero { a, to }),
        8 => (operand(), operand(), test(), to.clone())
            .prop_map(|(a, b, test, to)| Op::JumpIfNot { a, b, to, test }),
        2 => (operand(), operand(), any::<bool>(), to.clone()).prop_map(|(a, b, equal, to)| {
            Op::JumpUnlessBits { a, low: 0, bits: 1, b, equal, to }
        }),
        2 => (operand(), operand(), any::<bool>(), to.clone()).prop_map(|(a, b, set, to)| {
            Op::JumpUnlessSubBit { a, low_a: 0, b, low_b: 0, bit: 1, set, to }
        }),
        2 => to.prop_map(|to| Op::Jump { to }),
        1 => (0..2u16).prop_map(|table| Op::Apply { table }),
        1 => Just(Op::MarkToDrop { spec: 0, bits: 1, group: Some(1) }),
        // An instruction that may write any word.
        1 => Just(Op::AddHeader { h: 0 }),
    ]
}

fn program() -> impl Strategy<Value = Vec<Op>> {
    proptest::collection::vec(op(), LENGTH as usize).prop_map(|mut code| {
        for (here, op) in (BASE..).zip(&mut code) {
            match op {
                Op::Jump { to }
                | Op::JumpIfZero { to, .. }
                | Op::JumpIfNot { to, .. }
                | Op::JumpUnlessBits { to, .. }
                | Op::JumpUnlessSubBit { to, .. } => *to = (here + *to).min(BASE + LENGTH),
                _ => {}
            }
        }
        code.push(Op::End);
        code
    })
}

/// Effects of tables. Their targets are at the end of the code, so that a packet applies few tables.
fn tables() -> BTreeMap<u16, TableEffect> {
    let table = |slots: &[Slot], next: &[Pc]| TableEffect {
        writes: Writes::Words(slots.to_vec()),
        next: next.iter().map(|n| BASE + n).collect(),
    };
    BTreeMap::from([(0, table(&[2], &[20, 30])), (1, table(&[], &[31, LENGTH]))])
}

/// Runs code; returns the final words and the executed instructions other than assignments and jumps.
fn run(code: &[Op], mut pc: Pc, at: impl Fn(Pc) -> Pc, words: &[u64]) -> (Vec<u64>, Vec<Op>) {
    let (mut words, mut seen) = (words.to_vec(), Vec::new());
    words.extend([0, 1, 2]);
    let tables = tables();
    // Infrequent instructions change words by the number of the step, which is the same in both runs.
    let stir = |words: &mut [u64], slot: Slot, step: usize| {
        words[usize::from(slot)] = words[usize::from(slot)].wrapping_add(step as u64) % 3;
    };
    while seen.len() < 20 {
        let op = code[(pc - BASE) as usize];
        pc += 1;
        let w = |slot: Slot| words[usize::from(slot)];
        let bit = |equal: bool| u64::from(equal);
        let (d, value) = match op {
            Op::Mov { d, a } => (d, w(a)),
            Op::Eq { d, a, b } => (d, bit(w(a) == w(b))),
            Op::Ne { d, a, b } => (d, bit(w(a) != w(b))),
            Op::LtU { d, a, b } => (d, bit(w(a) < w(b))),
            Op::LeU { d, a, b } => (d, bit(w(a) <= w(b))),
            Op::And { d, a, b } => (d, w(a) & w(b)),
            Op::Or { d, a, b } => (d, w(a) | w(b)),
            Op::Xor { d, a, b } => (d, w(a) ^ w(b)),
            Op::Sub { d, a, b } => (d, w(a).wrapping_sub(w(b))),
            Op::AndEq { d, x, a, b } => (d, w(x) & bit(w(a) == w(b))),
            Op::AndNe { d, x, a, b } => (d, w(x) & bit(w(a) != w(b))),
            Op::OrEq { d, x, a, b } => (d, w(x) | bit(w(a) == w(b))),
            Op::OrNe { d, x, a, b } => (d, w(x) | bit(w(a) != w(b))),
            Op::Bits { d, a, low, bits } => (d, field(w(a), low, bits)),
            Op::Mask { d, a, bits } => (d, field(w(a), 0, bits)),
            Op::Jump { to } => {
                pc = to;
                continue;
            }
            Op::End => return (words, seen),
            Op::Apply { table } => {
                seen.push(op);
                let effect = &tables[&table];
                if let Writes::Words(slots) = &effect.writes {
                    slots
                        .iter()
                        .for_each(|slot| stir(&mut words, *slot, seen.len()));
                }
                pc = at(effect.next[(words[0] % 2) as usize]);
                continue;
            }
            Op::AddHeader { .. } | Op::MarkToDrop { .. } => {
                seen.push(op);
                let last = if matches!(op, Op::AddHeader { .. }) {
                    WORDS
                } else {
                    2
                };
                (0..last).for_each(|slot| stir(&mut words, slot, seen.len()));
                continue;
            }
            Op::JumpUnlessBits {
                a,
                low,
                bits,
                b,
                equal,
                to,
            } => {
                if (field(w(a), low, bits) == w(b)) != equal {
                    pc = to;
                }
                continue;
            }
            Op::JumpUnlessSubBit {
                a, b, bit, set, to, ..
            } => {
                if (w(a).wrapping_sub(w(b)) >> bit & 1 == 1) != set {
                    pc = to;
                }
                continue;
            }
            Op::JumpIfZero { a, to } => {
                if w(a) == 0 {
                    pc = to;
                }
                continue;
            }
            Op::JumpIfNot { a, b, to, test } => {
                if !test.holds(w(a), w(b)) {
                    pc = to;
                }
                continue;
            }
            other => unreachable!("{other:?} is not version_count here"),
        };
        words[usize::from(d)] = value;
    }
    (words, seen)
}

fn flow(code: &[Op]) -> Flow<'_> {
    Flow {
        code,
        base: BASE,
        start: BASE,
        tables: tables(),
        constants: (0..3).map(|value| (ZERO + value, value.into())).collect(),
        zero: ZERO,
    }
}

proptest! {
    #[test]
    fn threaded_code_is_equivalent(
        code in program(),
        packets in proptest::collection::vec(proptest::collection::vec(0u64..3, WORDS as usize), 30),
    ) {
        let Threaded { code: threaded, at, .. } = thread_jumps(&flow(&code)).expect("it is short");
        for packet in &packets {
            let expected = run(&code, BASE, |pc| pc, packet);
            let found = run(&threaded, at[&BASE], |pc| at[&pc], packet);
            prop_assert_eq!(found, expected);
        }
    }
}

#[test]
fn no_condition_is_tested_twice() {
    // if (w0 == 1) { w1 = 1; } else { w1 = 0; }  if (w1 == 1) { w2 = 2; }  if (w0 == 1) { w3 = 2; }
    let (one, two) = (ZERO + 1, ZERO + 2);
    let unless = |a, to| {
        let (b, test) = (one, Test::Eq);
        let to = BASE + to;
        Op::JumpIfNot { a, b, to, test }
    };
    let code = [
        unless(0, 3),
        Op::Mov { d: 1, a: one },
        Op::Jump { to: BASE + 4 },
        Op::Mov { d: 1, a: ZERO },
        unless(1, 6),
        Op::Mov { d: 2, a: two },
        unless(0, 8),
        Op::Mov { d: 3, a: two },
        Op::End,
    ];
    let flow = Flow {
        tables: BTreeMap::new(),
        ..flow(&code)
    };
    let Threaded {
        code: threaded, at, ..
    } = thread_jumps(&flow).expect("it is short");
    assert_eq!(at[&BASE], BASE);
    let expected = [
        unless(0, 5),
        Op::Mov { d: 1, a: one },
        Op::Mov { d: 2, a: two },
        Op::Mov { d: 3, a: two },
        Op::End,
        Op::Mov { d: 1, a: ZERO },
        Op::End,
    ];
    assert_eq!(threaded, expected);
}

#[test]
fn growth_of_code_is_bounded() {
    // Each condition splits what follows into two versions.
    let (zero, one) = (300, 301);
    let mut code = Vec::new();
    for i in 0..60u16 {
        let to = BASE + code.len() as Pc + 2;
        code.push(Op::JumpIfZero { a: 100 + i, to });
        code.push(Op::Mov { d: i, a: one });
    }
    for i in 0..60u16 {
        let to = BASE + code.len() as Pc + 2;
        code.push(Op::JumpIfZero { a: i, to });
        code.push(Op::Mov { d: 200, a: zero });
    }
    code.push(Op::End);
    let flow = Flow {
        constants: FxHashMap::from_iter([(zero, 0), (one, 1)]),
        zero,
        tables: BTreeMap::new(),
        ..flow(&code)
    };
    let Threaded { code: threaded, .. } = thread_jumps(&flow).expect("it is short enough");
    assert!(
        threaded.len() <= 2 * MAX_VERSIONS * code.len(),
        "{}",
        threaded.len()
    );
}
