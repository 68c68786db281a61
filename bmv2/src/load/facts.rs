//! What is known of a packet's words at a place in a pipeline, because of the conditions and assignments on the
//! way to it.

use super::lower::dest_of;
use crate::exec::ops::{Op, Pc, Slot, Test};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Of how many values it is remembered that a word does not have them.
const MAX_NOT: usize = 8;

/// Words that never change, with their values.
pub(super) type Constants = FxHashMap<Slot, u64>;

/// What a conditional jump asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Condition {
    /// Of two words.
    Order { a: Slot, b: Slot, test: Test },
    /// See `Op::JumpUnlessBits`.
    Bits { a: Slot, low: u8, bits: u8, b: Slot },
    /// See `Op::JumpUnlessSubBit`.
    SubBit {
        a: Slot,
        low_a: u8,
        b: Slot,
        low_b: u8,
        bit: u8,
    },
}

impl Condition {
    pub fn words(&self) -> [Slot; 2] {
        match *self {
            Condition::Order { a, b, .. }
            | Condition::Bits { a, b, .. }
            | Condition::SubBit { a, b, .. } => [a, b],
        }
    }
}

/// A conditional jump: what it asks, the answer with which the code goes on, and where the other one leads.
#[derive(Clone, Copy)]
pub(super) struct Branch {
    pub condition: Condition,
    pub goes_on: bool,
    pub to: Pc,
}

/// `zero` is the word of the constant 0.
pub(super) fn branch(op: Op, zero: Slot) -> Option<Branch> {
    let (condition, goes_on, to) = match op {
        Op::JumpIfZero { a, to } => {
            let test = Test::Eq;
            (Condition::Order { a, b: zero, test }, false, to)
        }
        Op::JumpIfNot { a, b, to, test } => match test {
            Test::Ne => {
                let test = Test::Eq;
                (Condition::Order { a, b, test }, false, to)
            }
            test => (Condition::Order { a, b, test }, true, to),
        },
        Op::JumpUnlessBits {
            a,
            low,
            bits,
            b,
            equal,
            to,
        } => (Condition::Bits { a, low, bits, b }, equal, to),
        Op::JumpUnlessSubBit {
            a,
            low_a,
            b,
            low_b,
            bit,
            set,
            to,
        } => {
            let condition = Condition::SubBit {
                a,
                low_a,
                b,
                low_b,
                bit,
            };
            (condition, set, to)
        }
        _ => return None,
    };
    Some(Branch {
        condition,
        goes_on,
        to,
    })
}

/// Words that an instruction or an action may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    Words(Vec<Slot>),
    /// Any that are no constants.
    All,
}

impl Writes {
    pub const NONE: Writes = Writes::Words(Vec::new());

    pub fn add(&mut self, other: Writes) {
        match (&mut *self, other) {
            (Writes::Words(words), Writes::Words(more)) => words.extend(more),
            (_, _) => *self = Writes::All,
        }
    }
}

/// What an instruction that does not jump may write.
pub(super) fn writes(op: Op) -> Writes {
    if let Some(d) = dest_of(&op) {
        return Writes::Words(vec![d]);
    }
    match op {
        Op::Mov { d, .. }
        | Op::RegisterRead { d, .. }
        | Op::Meter { d, .. }
        | Op::Filter { d, .. }
        | Op::Random { d, .. } => Writes::Words(vec![d]),
        Op::Copy { d, n, .. } => Writes::Words((d..d + n).collect()),
        Op::MarkToDrop { spec, group, .. } => {
            Writes::Words([spec].into_iter().chain(group).collect())
        }
        Op::RegisterWrite { .. }
        | Op::Count { .. }
        | Op::RegisterAccess { .. }
        | Op::Digest { .. }
        | Op::CloneIngress { .. }
        | Op::CloneEgress { .. }
        | Op::Resubmit { .. }
        | Op::Recirculate { .. }
        | Op::Truncate { .. }
        | Op::Log { .. }
        | Op::Assert { .. }
        | Op::Exit
        | Op::Note { .. }
        | Op::EndIfExit => Writes::NONE,
        // What takes longer than a few conditions anyway.
        _ => Writes::All,
    }
}

/// Words that a known result of an instruction comes from, and the word it goes to.
pub(super) fn computes(op: Op) -> Option<(Slot, [Slot; 3])> {
    match op {
        Op::Mov { d, a } | Op::Mask { d, a, .. } | Op::Bits { d, a, .. } => Some((d, [a; 3])),
        Op::And { d, a, b }
        | Op::Or { d, a, b }
        | Op::Xor { d, a, b }
        | Op::Eq { d, a, b }
        | Op::Ne { d, a, b }
        | Op::LtU { d, a, b }
        | Op::LeU { d, a, b } => Some((d, [a, b, b])),
        Op::AndEq { d, x, a, b }
        | Op::AndNe { d, x, a, b }
        | Op::OrEq { d, x, a, b }
        | Op::OrNe { d, x, a, b } => Some((d, [x, a, b])),
        _ => None,
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Known {
    Is(u64),
    /// None of these, in order.
    Not(Vec<u64>),
}

/// What is known of words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    words: BTreeMap<Slot, Known>,
    /// Answers to conditions that say of no word what it is.
    answers: BTreeMap<Condition, bool>,
}

impl Facts {
    /// The value of a word, where that is known.
    pub fn value(&self, slot: Slot, constants: &Constants) -> Option<u64> {
        match (constants.get(&slot), self.words.get(&slot)) {
            (Some(value), _) | (_, Some(Known::Is(value))) => Some(*value),
            _ => None,
        }
    }

    fn is_not(&self, slot: Slot, value: u64) -> bool {
        matches!(self.words.get(&slot), Some(Known::Not(values)) if values.contains(&value))
    }

    fn equal(&self, a: Slot, b: Slot, constants: &Constants) -> Option<bool> {
        match (self.value(a, constants), self.value(b, constants)) {
            (Some(a), Some(b)) => Some(a == b),
            (Some(value), None) if self.is_not(b, value) => Some(false),
            (None, Some(value)) if self.is_not(a, value) => Some(false),
            _ => None,
        }
    }

    /// The answer to a condition, where it is known.
    pub fn answer(&self, condition: Condition, constants: &Constants) -> Option<bool> {
        let known = match condition {
            Condition::Order {
                a,
                b,
                test: Test::Eq,
            } => self.equal(a, b, constants),
            Condition::Order { a, b, test } => {
                let (a, b) = (self.value(a, constants), self.value(b, constants));
                a.zip(b).map(|(a, b)| test.holds(a, b))
            }
            Condition::Bits { a, low, bits, b } => {
                let (a, b) = (self.value(a, constants), self.value(b, constants));
                a.zip(b)
                    .map(|(a, b)| crate::exec::run::field(a, low, bits) == b)
            }
            Condition::SubBit { .. } => None,
        };
        known.or_else(|| self.answers.get(&condition).copied())
    }

    /// Takes an answer that was not known for given.
    pub fn assume(&mut self, condition: Condition, answer: bool, constants: &Constants) {
        let pair = match condition {
            Condition::Order {
                a,
                b,
                test: Test::Eq,
            } => match (self.value(a, constants), self.value(b, constants)) {
                (Some(value), None) => Some((b, value)),
                (None, Some(value)) => Some((a, value)),
                _ => None,
            },
            _ => None,
        };
        let Some((slot, value)) = pair else {
            self.answers.insert(condition, answer);
            return;
        };
        if answer {
            self.words.insert(slot, Known::Is(value));
            return;
        }
        let known = self.words.entry(slot).or_insert(Known::Not(Vec::new()));
        if let Known::Not(values) = known {
            if let (Err(at), true) = (values.binary_search(&value), values.len() < MAX_NOT) {
                values.insert(at, value);
            }
        }
    }

    /// What an instruction that does not jump leaves known.
    pub fn pass(&mut self, op: Op, constants: &Constants) {
        let Some((d, [x, a, b])) = computes(op) else {
            return self.forget(&writes(op));
        };
        let value = |slot| self.value(slot, constants);
        let equal = |equal| self.equal(a, b, constants).map(|e| u64::from(e == equal));
        let both = |of: fn(u64, u64) -> u64| value(a).zip(value(x)).map(|(b, a)| of(a, b));
        let known = match op {
            Op::Mov { .. } => match value(a) {
                None => self.words.get(&a).cloned(),
                value => value.map(Known::Is),
            },
            Op::Mask { bits, .. } => {
                value(a).map(|a| Known::Is(crate::exec::run::field(a, 0, bits)))
            }
            Op::Bits { low, bits, .. } => {
                value(a).map(|a| Known::Is(crate::exec::run::field(a, low, bits)))
            }
            Op::And { .. } => both(|a, b| a & b).map(Known::Is),
            Op::Or { .. } => both(|a, b| a | b).map(Known::Is),
            Op::Xor { .. } => both(|a, b| a ^ b).map(Known::Is),
            Op::Eq { .. } => self.equal(x, a, constants).map(|e| Known::Is(u64::from(e))),
            Op::Ne { .. } => self
                .equal(x, a, constants)
                .map(|e| Known::Is(u64::from(!e))),
            Op::LtU { .. } => both(|a, b| u64::from(a < b)).map(Known::Is),
            Op::LeU { .. } => both(|a, b| u64::from(a <= b)).map(Known::Is),
            Op::AndEq { .. } | Op::AndNe { .. } => {
                match (value(x), equal(matches!(op, Op::AndEq { .. }))) {
                    (Some(0), _) | (_, Some(0)) => Some(Known::Is(0)),
                    (Some(x), Some(y)) => Some(Known::Is(x & y)),
                    _ => None,
                }
            }
            _ => match (value(x), equal(matches!(op, Op::OrEq { .. }))) {
                (Some(x), Some(y)) => Some(Known::Is(x | y)),
                _ => None,
            },
        };
        self.write(d);
        if let Some(known) = known {
            self.words.insert(d, known);
        }
    }

    fn write(&mut self, slot: Slot) {
        self.words.remove(&slot);
        self.answers.retain(|c, _| !c.words().contains(&slot));
    }

    pub fn forget(&mut self, writes: &Writes) {
        match writes {
            Writes::Words(words) => words.iter().for_each(|slot| self.write(*slot)),
            Writes::All => *self = Facts::default(),
        }
    }

    /// Keeps what is about words and conditions that matter.
    pub fn restrict(
        &mut self,
        word: impl Fn(&Slot) -> bool,
        condition: impl Fn(&Condition) -> bool,
    ) {
        self.words.retain(|slot, _| word(slot));
        self.answers.retain(|asked, _| condition(asked));
    }

    /// Keeps what others hold, too. True when that was less.
    pub fn meet(&mut self, other: &Facts) -> bool {
        let before = self.clone();
        let without = |values: &[u64], value: u64| -> Vec<u64> {
            values.iter().copied().filter(|v| *v != value).collect()
        };
        self.words.retain(|slot, known| {
            let both = match (&*known, other.words.get(slot)) {
                (_, None) => return false,
                (Known::Is(a), Some(Known::Is(b))) => return a == b,
                (Known::Is(value), Some(Known::Not(values)))
                | (Known::Not(values), Some(Known::Is(value))) => without(values, *value),
                (Known::Not(a), Some(Known::Not(b))) => {
                    a.iter().copied().filter(|v| b.contains(v)).collect()
                }
            };
            let any = !both.is_empty();
            *known = Known::Not(both);
            any
        });
        let others = &other.answers;
        self.answers
            .retain(|condition, answer| others.get(condition) == Some(answer));
        *self != before
    }

    /// Whether all of this is known where `other` is.
    pub fn follow_from(&self, other: &Facts) -> bool {
        let word = |(slot, known): (&Slot, &Known)| match (known, other.words.get(slot)) {
            (Known::Is(a), Some(Known::Is(b))) => a == b,
            (Known::Not(a), Some(Known::Is(b))) => !a.contains(b),
            (Known::Not(a), Some(Known::Not(b))) => a.iter().all(|value| b.contains(value)),
            _ => false,
        };
        self.words.iter().all(word)
            && self
                .answers
                .iter()
                .all(|(condition, answer)| other.answers.get(condition) == Some(answer))
    }

    /// How much is known.
    pub fn len(&self) -> usize {
        self.words.len() + self.answers.len()
    }
}
