//! Dataflow facts about a packet's words (fields and temporaries): values of words, and outcomes of conditions, that
//! hold at a point of a pipeline. They follow from the conditions and assignments on the paths to this point.

use crate::exec::ops::{Computation, Condition, Effect, Op, Operand, Slot, Test};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Maximum number of excluded values that are stored for a word (see `WordFact::Not`).
const MAX_EXCLUDED: usize = 8;

/// Words that hold constants, with their values.
pub(super) type Constants = FxHashMap<Slot, u64>;

/// Words that an instruction or an action may write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Writes {
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

/// Returns the words that an instruction may write.
pub(crate) fn writes(op: Op) -> Writes {
    for effect in op.effects() {
        match effect {
            Effect::Headers | Effect::Words | Effect::Tables => return Writes::All,
            Effect::Drop | Effect::Externs | Effect::Packet | Effect::Log => {}
        }
    }
    let (mut words, mut first) = (Vec::new(), None);
    op.operands(|operand| match operand {
        Operand::Result(d) | Operand::Def(d) | Operand::MayDef(d) => words.push(d),
        Operand::OptionalDef(d) => words.extend(d),
        Operand::DefWords(d) => first = Some(d),
        Operand::Count(n) => {
            if let Some(d) = first {
                words.extend(d..d + n);
            }
        }
        Operand::Word(_)
        | Operand::Words(_)
        | Operand::Width(_)
        | Operand::Bit(_)
        | Operand::BitPair(_)
        | Operand::BitValue(_)
        | Operand::Test(_)
        | Operand::Equality(_)
        | Operand::Equalities(_)
        | Operand::Target(_)
        | Operand::Offset(_)
        | Operand::Offsets(_)
        | Operand::Header(_)
        | Operand::Union(_)
        | Operand::Stack(_)
        | Operand::UnionStack(_)
        | Operand::AnyStack(_)
        | Operand::Element(_)
        | Operand::DynHeader(_)
        | Operand::Register(_)
        | Operand::Counter(_)
        | Operand::Meter(_)
        | Operand::Calculation(_)
        | Operand::Table(_)
        | Operand::Action(_)
        | Operand::Big(_)
        | Operand::LogMessage(_)
        | Operand::Assertion(_)
        | Operand::Site(_)
        | Operand::Note(_)
        | Operand::CoverageCounter(_) => {}
    });
    Writes::Words(words)
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum WordFact {
    Is(u64),
    /// The word has none of these values. The list is sorted.
    Not(Vec<u64>),
}

/// Dataflow facts that hold at one point of the code: values of words, and outcomes of conditions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    words: BTreeMap<Slot, WordFact>,
    /// Outcomes of conditions that facts about single words cannot express.
    outcomes: BTreeMap<Condition, bool>,
}

impl Facts {
    /// Returns the value of a word if it is known at this point of the code.
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

    /// Returns the outcome of a condition if it is known at this point of the code.
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

    /// Adds the fact that a condition has this outcome. The outcome must have been unknown.
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

    /// Transfer function of the dataflow analysis, for an instruction that is not a jump.
    pub fn transfer(&mut self, op: Op, constants: &Constants) {
        let Some((d, computed)) = op.value() else {
            return self.invalidate(&writes(op));
        };
        let value = |slot| self.value(slot, constants);
        let test = |a, b, wanted| {
            let equal = self.equal(a, b, constants);
            equal.map(|equal| u64::from(equal == wanted))
        };
        let known = match computed {
            Computation::Copy { a } => match value(a) {
                None => self.words.get(&a).cloned(),
                value => value.map(WordFact::Is),
            },
            Computation::Field { a, low, bits } => value(a)
                .map(|a| crate::exec::run::field(a, low, bits))
                .map(WordFact::Is),
            Computation::Binary { a, b, of } => value(a)
                .zip(value(b))
                .map(|(a, b)| of(a, b))
                .map(WordFact::Is),
            Computation::Equal { a, b, equal } => test(a, b, equal).map(WordFact::Is),
            Computation::AndEqual { x, a, b, equal } => match (value(x), test(a, b, equal)) {
                (Some(0), _) | (_, Some(0)) => Some(WordFact::Is(0)),
                (x, y) => x.zip(y).map(|(x, y)| WordFact::Is(x & y)),
            },
            Computation::OrEqual { x, a, b, equal } => {
                let both = value(x).zip(test(a, b, equal));
                both.map(|(x, y)| WordFact::Is(x | y))
            }
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

    /// Keeps only the facts about words for which `word` is true, and about conditions for which `condition` is true.
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

    /// Returns whether each of these facts follows from `other`.
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

    /// Returns the number of facts: known values and outcomes.
    pub fn len(&self) -> usize {
        self.words.len() + self.outcomes.len()
    }
}
