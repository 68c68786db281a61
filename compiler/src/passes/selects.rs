//! Pass: selects.
//!
//! Input: states whose transitions have keysets as written. Output: the same states with [`crate::ir::Transition`]. Invariants: a case
//! matches each key with a value under a mask, or all keys together with a value set. Exactly the last case of a `select` matches
//! everything. Values that match no case of the program lead to one state that rejects with `error.NoMatch`.
//!
//! Switches have no ranges in parsers: a range becomes the set of masks that together match it.

use num_bigint::BigInt;

use super::control_view::ENUM_BITS;
use super::inlined::{self, Case, KeysetElement, Next, SelectKey, State, StateCode};
use crate::diag::{Code, Diagnostics};
use crate::ir::{
    mask, Expr, Keyset, Objects, Scalar, Source, StateId, StateRef, Stmt, Take, Transition,
};
use crate::names::Names;

/// Pairs of a value and a mask, for all keys of a case or for the alternatives of one key.
type Masks = Vec<(BigInt, BigInt)>;

/// Maximum number of target cases per case of the program; ranges need several cases with a value and a mask.
const MAX_COMBINATIONS: usize = 1 << 16;

/// Lowers the transitions of a parser's states.
pub fn lower(
    states: Vec<State>,
    objects: &Objects,
    diagnostics: &mut Diagnostics,
) -> Vec<State<Transition>> {
    let mut ends = EndStates {
        count: states.len(),
        reject_continues: objects.arch.target().continues_after_reject(),
        first_rejection: None,
    };
    let lowered = states.into_iter().map(|state| {
        let code = state.code.map(|code| StateCode {
            body: code.body,
            scope: code.scope,
            transition: transition(code.transition, &state.source, &mut ends, diagnostics),
        });
        State {
            name: state.name,
            code,
            source: state.source,
            synthetic: state.synthetic,
        }
    });
    let mut lowered: Vec<_> = lowered.collect();
    if let Some(source) = ends.first_rejection {
        lowered.push(no_match(&lowered, &objects.errors, source));
    }
    lowered
}

/// The end states of a parser.
struct EndStates {
    /// Number of states of the program, which is also the position of the rejecting state.
    count: usize,
    /// Whether a rejected packet continues to the control after the parser. If not, it needs a parser error, by which the switch drops it.
    reject_continues: bool,
    /// Source position of the first transition to the rejecting state, if there is one.
    first_rejection: Option<Source>,
}

impl EndStates {
    /// Converts the target of a transition to a state of the IR. Transitions that reject lead to the rejecting state,
    /// or to the end of parsing if rejected packets continue. `from`: source position of the transition's state.
    fn resolve(&mut self, next: Next, from: &Source) -> StateRef {
        match next {
            Next::State(id) => StateRef::State(id),
            Next::End => StateRef::End,
            Next::Reject if self.reject_continues => StateRef::End,
            Next::Reject | Next::NoMatch => {
                self.first_rejection.get_or_insert_with(|| from.clone());
                StateRef::State(StateId::from(self.count))
            }
        }
    }
}

/// The state that rejects with `error.NoMatch`, as the target would accept without a match.
fn no_match(states: &[State<Transition>], errors: &[String], source: Source) -> State<Transition> {
    let mut names = Names::default();
    for state in states {
        names.insert(state.name.clone());
    }
    let number = errors.iter().position(|name| name == "NoMatch");
    let verify = Take::Verify {
        cond: Expr::Bool(false),
        error: Expr::bits(number.unwrap_or(0), ENUM_BITS),
    };
    State {
        name: names.unique("noMatch"),
        code: Some(StateCode {
            body: vec![Stmt {
                kind: verify.into(),
                source,
            }],
            scope: String::new(),
            transition: Transition::Always(StateRef::End),
        }),
        source: Source::default(),
        synthetic: false,
    }
}

/// Lowers a transition. `from`: source position of its state.
fn transition(
    written: inlined::Transition,
    from: &Source,
    ends: &mut EndStates,
    diagnostics: &mut Diagnostics,
) -> Transition {
    let (keys, written) = match written {
        inlined::Transition::Always(next) => {
            return Transition::Always(ends.resolve(next, from));
        }
        inlined::Transition::Select { keys, cases } => (keys, cases),
    };
    let mut cases: Vec<(Keyset, StateRef)> = Vec::new();
    let mut sources = Vec::new();
    let mut lacks_default = true;
    for case in written {
        for keyset in keysets(&case, &keys, diagnostics) {
            lacks_default = keyset != Keyset::Default;
            cases.push((keyset, ends.resolve(case.next, from)));
            sources.push(case.source.clone());
        }
        if !lacks_default {
            // Later cases are unreachable.
            break;
        }
    }
    if lacks_default {
        cases.push((Keyset::Default, ends.resolve(Next::NoMatch, from)));
        sources.push(Source::default());
    }
    match &cases[..] {
        [(Keyset::Default, only), ..] => Transition::Always(*only),
        _ => {
            let mut fields = Vec::with_capacity(keys.len());
            for key in &keys {
                match key.untyped() {
                    Some(field) => fields.push(field),
                    None => {
                        let what = "a key of `select` is not a field";
                        diagnostics.follow_up(Some(key.source.span), what);
                    }
                }
            }
            let keys = fields;
            Transition::Select {
                keys,
                cases,
                sources,
            }
        }
    }
}

/// The target keysets that together match a case, several if it has ranges. Empty after a reported error.
fn keysets(case: &Case, keys: &[SelectKey], diagnostics: &mut Diagnostics) -> Vec<Keyset> {
    let elements = match &case.keyset {
        inlined::Keyset::ValueSet(set) => return vec![Keyset::ValueSet(*set)],
        inlined::Keyset::Elements(elements) => elements,
    };
    let mut combinations: Vec<Masks> = vec![Vec::new()];
    for (element, key) in elements.iter().zip(keys) {
        let alternatives = masks(element, key.ty);
        if combinations.len().saturating_mul(alternatives.len()) > MAX_COMBINATIONS {
            let what = "the ranges of this case need too many masks";
            diagnostics.error(Code::LIMIT, case.source.span, what);
            return Vec::new();
        }
        let mut next = Vec::with_capacity(combinations.len() * alternatives.len());
        for combination in &combinations {
            for alternative in &alternatives {
                let mut combination = combination.clone();
                combination.push(alternative.clone());
                next.push(combination);
            }
        }
        combinations = next;
    }
    let matches_all = |masks: &Masks| masks.iter().all(|(_, mask)| *mask == BigInt::ZERO);
    match combinations.iter().all(matches_all) {
        true => vec![Keyset::Default],
        false => combinations.into_iter().map(Keyset::Values).collect(),
    }
}

/// The values and masks that together match an element of type `ty`.
fn masks(element: &KeysetElement, ty: Scalar) -> Masks {
    let ones = mask(ty.width());
    match element {
        KeysetElement::Any => vec![(BigInt::ZERO, BigInt::ZERO)],
        KeysetElement::Value(value) => vec![(value & &ones, ones)],
        KeysetElement::Mask(value, bits) => {
            let bits = bits & ones;
            vec![(value & &bits, bits)]
        }
        KeysetElement::Range(low, high) => range_masks(low, high, ty),
    }
}

/// Values and masks that together match the numbers from `low` to `high`, inclusive.
fn range_masks(low: &BigInt, high: &BigInt, ty: Scalar) -> Masks {
    let ones = mask(ty.width());
    if ty.signed() && *low < BigInt::ZERO && *high >= BigInt::ZERO {
        // In two's complement, negative numbers are greater as unsigned ones.
        let mut masks = range_masks(low, &BigInt::from(-1), ty);
        masks.extend(range_masks(&BigInt::ZERO, high, ty));
        return masks;
    }
    let (mut low, high) = (low & &ones, high & &ones);
    let mut masks = Vec::new();
    while low <= high {
        // The largest aligned block of a power of two from `low` that does not exceed `high`.
        let mut bits = low
            .trailing_zeros()
            .unwrap_or(u64::from(ty.width()))
            .min(u64::from(ty.width()));
        while &low + (BigInt::from(1) << bits) - 1 > high {
            bits -= 1;
        }
        let block = BigInt::from(1) << bits;
        masks.push((low.clone(), &ones ^ (&block - 1)));
        low += block;
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{FieldRef, HeaderId};

    fn case(elements: &[KeysetElement], next: Next) -> Case {
        Case {
            keyset: inlined::Keyset::Elements(elements.to_vec()),
            next,
            source: Source::default(),
        }
    }

    /// Lowers a parser with one `select` on 8-bit keys, one per element of its cases.
    fn lowered(cases: &[Case]) -> Vec<State<Transition>> {
        let inlined::Keyset::Elements(elements) = &cases[0].keyset else {
            unreachable!("cases of tests have elements");
        };
        let place = FieldRef {
            header: HeaderId(0),
            field: 0,
        };
        let ty = Scalar::Bit(8);
        let key = SelectKey {
            value: Expr::field(place, ty),
            ty,
            source: Source::default(),
        };
        let transition = inlined::Transition::Select {
            keys: vec![key; elements.len()],
            cases: cases.to_vec(),
        };
        let state = State {
            name: "noMatch".to_owned(),
            code: Some(StateCode {
                body: Vec::new(),
                scope: String::new(),
                transition,
            }),
            source: Source::default(),
            synthetic: false,
        };
        let objects = Objects {
            errors: ["NoError", "NoMatch"].map(str::to_owned).to_vec(),
            ..Objects::default()
        };
        lower(vec![state], &objects, &mut Diagnostics::new())
    }

    fn transition_of(states: &[State<Transition>]) -> &Transition {
        &states[0].code.as_ref().expect("it has code").transition
    }

    #[test]
    fn cases_after_a_default_case_are_omitted() {
        let all = KeysetElement::Range(BigInt::ZERO, BigInt::from(255));
        let (here, there) = (Next::State(StateId(0)), Next::End);
        let states = lowered(&[
            case(&[all], here),
            case(&[KeysetElement::Value(BigInt::from(1))], there),
        ]);
        let always = Transition::Always(StateRef::State(StateId(0)));
        assert_eq!((states.len(), transition_of(&states)), (1, &always));
    }

    #[test]
    fn unmatched_values_lead_to_a_rejecting_state() {
        let one = KeysetElement::Value(BigInt::from(1));
        let states = lowered(&[case(&[one], Next::End)]);
        let Transition::Select { cases, .. } = transition_of(&states) else {
            panic!("expected a select: {states:?}");
        };
        let rejecting = StateRef::State(StateId(1));
        assert_eq!(cases.last(), Some(&(Keyset::Default, rejecting)));
        // The program has a state of that name.
        assert_eq!(states[1].name, "noMatch_0");
    }

    #[test]
    fn ranges_of_several_keys_are_multiplied_out() {
        let range = || KeysetElement::Range(BigInt::from(1), BigInt::from(2));
        let states = lowered(&[case(&[range(), KeysetElement::Any, range()], Next::End)]);
        let Transition::Select { cases, .. } = transition_of(&states) else {
            panic!("expected a select: {states:?}");
        };
        assert_eq!(cases.len(), 2 * 2 + 1);
    }

    /// The numbers of `width` bits that one of the masks matches.
    fn matched(masks: &Masks, width: u32) -> Vec<u32> {
        (0..1u32 << width)
            .filter(|n| {
                masks
                    .iter()
                    .any(|(value, mask)| BigInt::from(*n) & mask == *value)
            })
            .collect()
    }

    #[test]
    fn masks_of_a_range_match_exactly_its_numbers() {
        for low in 0..16u32 {
            for high in low..16 {
                let masks = range_masks(&low.into(), &high.into(), Scalar::Bit(4));
                assert_eq!(
                    matched(&masks, 4),
                    (low..=high).collect::<Vec<_>>(),
                    "{low}..{high}"
                );
                assert!(masks.len() <= 6, "{low}..{high} took {} masks", masks.len());
            }
        }
    }

    #[test]
    fn signed_range_may_contain_zero() {
        let masks = range_masks(&BigInt::from(-2), &BigInt::from(1), Scalar::Int(4));
        assert_eq!(matched(&masks, 4), [0, 1, 14, 15]);
    }
}
