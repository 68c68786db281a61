//! Parsers, with their states and transitions.

use alfirk_bmv2_json as json;
use json::{ExtractTarget, ParserOp, TransitionOn};
use num_bigint::BigInt;

use super::{
    effect::effect,
    expr::{hex, Exprs},
    source_info,
};
use crate::ir::{
    mask, Effect, Expr, FieldPlace, FlatProgram, HeaderPlace, Keyset, ParseState, Parser,
    ParserStmtKind, SelectKey, StateRef, Stmt, Take, Transition,
};

/// Writes a parser.
pub fn emit(program: &FlatProgram, parser: &Parser, id: i64) -> json::Parser {
    let states = States {
        exprs: Exprs::new(program),
        program,
        parser,
    };
    json::Parser {
        name: parser.name.to_owned(),
        id,
        init_state: parser.states.first().map(|state| state.name.clone()),
        parse_states: (parser.states.iter().enumerate())
            .map(|(id, state)| states.state(id as i64, state))
            .collect(),
    }
}

/// Writes the states of a parser.
struct States<'a> {
    exprs: Exprs<'a>,
    program: &'a FlatProgram,
    parser: &'a Parser,
}

impl States<'_> {
    fn state(&self, id: i64, state: &ParseState) -> json::ParseState {
        let (transition_key, transitions) = match &state.transition {
            Transition::Always(next) => {
                let only = json::Transition {
                    on: TransitionOn::Default,
                    next_state: self.name(*next),
                    source_info: None,
                };
                (Vec::new(), vec![only])
            }
            Transition::Select {
                keys,
                cases,
                sources,
            } => (
                keys.iter().map(|key| self.key_field(key.place)).collect(),
                cases
                    .iter()
                    .zip(sources)
                    .map(|((keyset, next), source)| json::Transition {
                        on: self.transition_on(keys, keyset),
                        next_state: self.name(*next),
                        source_info: source_info(source),
                    })
                    .collect(),
            ),
        };
        json::ParseState {
            name: state.name.clone(),
            id,
            source_info: source_info(&state.source),
            parser_ops: (state.body.iter())
                .map(|stmt| json::ParserStatement {
                    op: self.parser_op(stmt),
                    source_info: source_info(&stmt.source),
                })
                .collect(),
            transitions,
            transition_key,
        }
    }

    /// The name of a state; `None` for the end of parsing.
    fn name(&self, state: StateRef) -> Option<String> {
        match state {
            StateRef::State(id) => Some(self.parser.states[id.index()].name.clone()),
            StateRef::End => None,
        }
    }

    fn key_field(&self, place: FieldPlace) -> json::Expr {
        let storage = &self.program.objects.storage;
        match place.header {
            HeaderPlace::LastMember(stack, member) => {
                let stack = storage.union_stack(stack);
                json::Expr::UnionStackField {
                    stack: stack.name.clone(),
                    header: storage.union_types[stack.ty.index()].members[member as usize]
                        .0
                        .clone(),
                    field: storage.field(place).name.clone(),
                }
            }
            _ => self.exprs.field(place),
        }
    }

    /// The condition of a transition. Value and mask are those of the concatenated keys, each padded to whole bytes.
    fn transition_on(&self, keys: &[SelectKey], keyset: &Keyset) -> TransitionOn {
        let join = |values: &mut dyn Iterator<Item = (&BigInt, u32)>| {
            let mut text = "0x".to_owned();
            for (value, width) in values {
                text.push_str(&hex(value, width)[2..]);
            }
            text
        };
        match keyset {
            Keyset::Default => TransitionOn::Default,
            Keyset::ValueSet(id) => {
                let name = self.program.objects.value_sets[id.index()]
                    .meta
                    .name
                    .clone();
                TransitionOn::ParseVset { name, mask: None }
            }
            Keyset::Values(values) => {
                let widths = || keys.iter().map(|key| key.width);
                let exact = values
                    .iter()
                    .zip(widths())
                    .all(|((_, m), width)| *m == mask(width));
                TransitionOn::Hexstr {
                    value: join(&mut values.iter().map(|(value, _)| value).zip(widths())),
                    mask: (!exact)
                        .then(|| join(&mut values.iter().map(|(_, mask)| mask).zip(widths()))),
                }
            }
        }
    }

    fn parser_op(&self, stmt: &Stmt<ParserStmtKind>) -> ParserOp {
        let storage = &self.program.objects.storage;
        let extract = |target, bits: &Option<Expr>| match bits {
            None => ParserOp::Extract(target),
            Some(bits) => ParserOp::ExtractVl(target, self.exprs.expr(bits).wrapped()),
        };
        match &stmt.kind {
            ParserStmtKind::Take(take) => match take {
                Take::Extract {
                    target,
                    varbit_bits,
                } => extract(
                    ExtractTarget::Regular(storage.header(*target).name.clone()),
                    varbit_bits,
                ),
                Take::ExtractNext {
                    target,
                    varbit_bits,
                } => extract(
                    ExtractTarget::Stack(storage.stack(*target).name.clone()),
                    varbit_bits,
                ),
                Take::ExtractNextMember {
                    target,
                    member,
                    varbit_bits,
                } => {
                    let stack = storage.union_stack(*target);
                    let members = &storage.union_types[stack.ty.index()].members;
                    let target = ExtractTarget::UnionStack {
                        stack: stack.name.clone(),
                        header: members[*member as usize].0.clone(),
                    };
                    extract(target, varbit_bits)
                }
                Take::Advance(bits) => ParserOp::Advance(self.exprs.operand(bits)),
                Take::Verify { cond, error } => {
                    ParserOp::Verify(self.exprs.expr(cond), self.exprs.expr(error))
                }
            },
            ParserStmtKind::Effect(Effect::Assign { target, value })
                if matches!(target.header, HeaderPlace::Fixed(_)) =>
            {
                ParserOp::Set(self.exprs.field(*target), self.set_operand(value))
            }
            ParserStmtKind::Effect(what) => {
                ParserOp::Primitive(Box::new(effect(self.exprs, what, &stmt.source)))
            }
        }
    }

    /// The right operand of `set`: a field of a fixed header, a constant, a lookahead or an expression.
    fn set_operand(&self, value: &Expr) -> json::Expr {
        match value {
            Expr::Field {
                place:
                    FieldPlace {
                        header: HeaderPlace::Last(_) | HeaderPlace::LastMember(..),
                        ..
                    },
                ..
            } => self.exprs.number(value).wrapped(),
            _ => self.exprs.operand(value),
        }
    }
}
