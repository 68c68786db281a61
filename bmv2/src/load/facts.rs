//! Dataflow facts about a packet's words (fields and temporaries): values of words, and outcomes of conditions, that
//! hold at a point of a pipeline. They follow from the conditions and assignments on the paths to this point.

use super::lower::dest_of;
use crate::exec::ops::{Op, Pc, Slot, Test};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of values stored as excluded for a word.
const MAX_EXCLUDED: usize = 8;

/// Constant words with their values.
pub(super) type Constants = FxHashMap<Slot, u64>;

/// Condition of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Condition {
    /// Comparison of two words.
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

/// A conditional jump: its condition, the outcome with which control falls through, and the target of the jump.
#[derive(Clone, Copy)]
pub(super) struct Branch {
    pub condition: Condition,
    pub falls_through_on: bool,
    pub to: Pc,
}

/// Decodes an instruction that is a conditional jump; `None` for others. `zero` is the word of the constant 0.
pub(super) fn branch(op: Op, zero: Slot) -> Option<Branch> {
    let (condition, falls_through_on, to) = match op {
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
        falls_through_on,
        to,
    })
}

/// Words that an instruction or an action may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Writes {
    Words(Vec<Slot>),
    /// Any word except those that hold constants.
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

/// Returns the words that an instruction other than a jump may write.
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
        // Rare or slow instructions: assume that every word changes.
        _ => Writes::All,
    }
}

/// Returns the word that a computing instruction writes, and the words that it reads; `None` for other instructions.
pub(super) fn def_and_uses(op: Op) -> Option<(Slot, [Slot; 3])> {
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
enum WordFact {
    Is(u64),
    /// The word has none of these values, which are sorted.
    Not(Vec<u64>),
}

/// What is known at one point of the code: about the values of words, and about the outcomes of conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    words: BTreeMap<Slot, WordFact>,
    /// Outcomes of conditions that do not determine the value of a word.
    outcomes: BTreeMap<Condition, bool>,
}

impl Facts {
    /// Returns the value of a word, if known.
    pub fn value(&self, slot: Slot, constants: &Constants) -> Option<u64> {
        match (constants.get(&slot), self.words.get(&slot)) {
            (Some(value), _) | (_, Some(WordFact::Is(value))) => Some(*value),
            _ => None,
        }
    }

    fn is_not(&self, slot: Slot, value: u64) -> bool {
        matches!(self.words.get(&slot), Some(WordFact::Not(values)) if values.contains(&value))
    }

    fn equal(&self, a: Slot, b: Slot, constants: &Constants) -> Option<bool> {
        match (self.value(a, constants), self.value(b, constants)) {
            (Some(a), Some(b)) => Some(a == b),
            (Some(value), None) if self.is_not(b, value) => Some(false),
            (None, Some(value)) if self.is_not(a, value) => Some(false),
            _ => None,
        }
    }

    /// Returns the outcome of a condition, if known.
    pub fn outcome(&self, condition: Condition, constants: &Constants) -> Option<bool> {
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
        known.or_else(|| self.outcomes.get(&condition).copied())
    }

    /// Adds the outcome of a condition whose outcome was unknown.
    pub fn assume(&mut self, condition: Condition, outcome: bool, constants: &Constants) {
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
            self.outcomes.insert(condition, outcome);
            return;
        };
        if outcome {
            self.words.insert(slot, WordFact::Is(value));
            return;
        }
        let known = self.words.entry(slot).or_insert(WordFact::Not(Vec::new()));
        if let WordFact::Not(values) = known {
            if let (Err(at), true) = (values.binary_search(&value), values.len() < MAX_EXCLUDED) {
                values.insert(at, value);
            }
        }
    }

    /// Transfer function of an instruction other than a jump.
    pub fn transfer(&mut self, op: Op, constants: &Constants) {
        let Some((d, [x, a, b])) = def_and_uses(op) else {
            return self.invalidate(&writes(op));
        };
        let value = |slot| self.value(slot, constants);
        let equal = |equal| self.equal(a, b, constants).map(|e| u64::from(e == equal));
        let both = |of: fn(u64, u64) -> u64| value(a).zip(value(x)).map(|(b, a)| of(a, b));
        let known = match op {
            Op::Mov { .. } => match value(a) {
                None => self.words.get(&a).cloned(),
                value => value.map(WordFact::Is),
            },
            Op::Mask { bits, .. } => {
                value(a).map(|a| WordFact::Is(crate::exec::run::field(a, 0, bits)))
            }
            Op::Bits { low, bits, .. } => {
                value(a).map(|a| WordFact::Is(crate::exec::run::field(a, low, bits)))
            }
            Op::And { .. } => both(|a, b| a & b).map(WordFact::Is),
            Op::Or { .. } => both(|a, b| a | b).map(WordFact::Is),
            Op::Xor { .. } => both(|a, b| a ^ b).map(WordFact::Is),
            Op::Eq { .. } => self
                .equal(x, a, constants)
                .map(|e| WordFact::Is(u64::from(e))),
            Op::Ne { .. } => self
                .equal(x, a, constants)
                .map(|e| WordFact::Is(u64::from(!e))),
            Op::LtU { .. } => both(|a, b| u64::from(a < b)).map(WordFact::Is),
            Op::LeU { .. } => both(|a, b| u64::from(a <= b)).map(WordFact::Is),
            Op::AndEq { .. } | Op::AndNe { .. } => {
                match (value(x), equal(matches!(op, Op::AndEq { .. }))) {
                    (Some(0), _) | (_, Some(0)) => Some(WordFact::Is(0)),
                    (Some(x), Some(y)) => Some(WordFact::Is(x & y)),
                    _ => None,
                }
            }
            _ => match (value(x), equal(matches!(op, Op::OrEq { .. }))) {
                (Some(x), Some(y)) => Some(WordFact::Is(x | y)),
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
        self.outcomes.retain(|c, _| !c.words().contains(&slot));
    }

    pub fn invalidate(&mut self, writes: &Writes) {
        match writes {
            Writes::Words(words) => words.iter().for_each(|slot| self.write(*slot)),
            Writes::All => *self = Facts::default(),
        }
    }

    /// Keeps only the facts about words and conditions for which the predicates `word` and `condition` are true.
    pub fn restrict(
        &mut self,
        word: impl Fn(&Slot) -> bool,
        condition: impl Fn(&Condition) -> bool,
    ) {
        self.words.retain(|slot, _| word(slot));
        self.outcomes.retain(|tested, _| condition(tested));
    }

    /// Meet of the lattice: keeps the facts that also hold in `other`. Returns true if facts were lost.
    pub fn meet(&mut self, other: &Facts) -> bool {
        let before = self.clone();
        let without = |values: &[u64], value: u64| -> Vec<u64> {
            values.iter().copied().filter(|v| *v != value).collect()
        };
        self.words.retain(|slot, known| {
            let both = match (&*known, other.words.get(slot)) {
                (_, None) => return false,
                (WordFact::Is(a), Some(WordFact::Is(b))) => return a == b,
                (WordFact::Is(value), Some(WordFact::Not(values)))
                | (WordFact::Not(values), Some(WordFact::Is(value))) => without(values, *value),
                (WordFact::Not(a), Some(WordFact::Not(b))) => {
                    a.iter().copied().filter(|v| b.contains(v)).collect()
                }
            };
            let any = !both.is_empty();
            *known = WordFact::Not(both);
            any
        });
        let others = &other.outcomes;
        self.outcomes
            .retain(|condition, outcome| others.get(condition) == Some(outcome));
        *self != before
    }

    /// Returns whether `other` implies all of these facts.
    pub fn is_implied_by(&self, other: &Facts) -> bool {
        let word = |(slot, known): (&Slot, &WordFact)| match (known, other.words.get(slot)) {
            (WordFact::Is(a), Some(WordFact::Is(b))) => a == b,
            (WordFact::Not(a), Some(WordFact::Is(b))) => !a.contains(b),
            (WordFact::Not(a), Some(WordFact::Not(b))) => a.iter().all(|value| b.contains(value)),
            _ => false,
        };
        self.words.iter().all(word)
            && self
                .outcomes
                .iter()
                .all(|(condition, outcome)| other.outcomes.get(condition) == Some(outcome))
    }

    /// Returns the number of facts.
    pub fn len(&self) -> usize {
        self.words.len() + self.outcomes.len()
    }
}
