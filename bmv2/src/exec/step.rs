//! Infrequent instructions of the interpreter ([`super::run`]).

use super::expr::run_big;
use super::headers::{self, StackWords};
use super::ops::{Op, Slot};
use super::run::{CloneRequest, Interpreter};
use super::words::wrap;
use crate::drop_reason::DropReason;
use crate::externs::filter::{Memory, Spec};
use crate::externs::meter::Color;
use crate::program::{LoadedProgram, Note};
use crate::state::State;
use crate::steps::Step;

/// Limit of log messages per packet and pipeline; further ones are discarded.
const MAX_LOGS: usize = 1000;

/// Signal that the packet must be dropped.
pub(super) struct Halt;

impl Interpreter<'_> {
    /// Executes an infrequent instruction.
    #[inline(never)]
    pub(super) fn step(&mut self, phv: &mut [u64], op: Op) -> Result<(), Halt> {
        let Interpreter {
            program,
            state,
            drop_port,
            rest,
            ctx,
            ..
        } = self;
        let layout = &program.layout;
        macro_rules! w {
            ($slot:expr) => {
                phv[$slot as usize]
            };
        }
        match op {
            Op::Sext { d, a, bits } => w!(d) = wrap(w!(a), u32::from(bits), true),
            Op::Mul { d, a, b } => w!(d) = w!(a).wrapping_mul(w!(b)),
            Op::Not { d, a } => w!(d) = !w!(a),
            Op::ShrS { d, a, b } => w!(d) = (w!(a) as i64 >> w!(b).min(63)) as u64,
            Op::DivU { d, a, b } => w!(d) = w!(a).checked_div(w!(b)).unwrap_or(0),
            Op::ModU { d, a, b } => w!(d) = w!(a).checked_rem(w!(b)).unwrap_or(0),
            Op::UsatS { d, a, bits } => {
                let max = u64::MAX >> (64 - bits);
                w!(d) = (w!(a) as i64).max(0).unsigned_abs().min(max);
            }
            Op::UsatU { d, a, bits } => w!(d) = w!(a).min(u64::MAX >> (64 - bits)),
            Op::SatS { d, a, bits } => {
                let max = ((1u64 << (bits - 1)) - 1) as i64;
                w!(d) = (w!(a) as i64).clamp(-max - 1, max) as u64;
            }
            Op::SatU { d, a, bits } => w!(d) = w!(a).min((1 << (bits - 1)) - 1),
            Op::Copy { d, a, n } => {
                phv.copy_within(
                    usize::from(a)..usize::from(a) + usize::from(n),
                    usize::from(d),
                );
            }
            Op::Big { index } => run_big(&program.bigs[index as usize], program, state, phv),
            Op::LoadElement { d, element, i } => {
                let slot = program.elements[usize::from(element)].slot(w!(i));
                w!(d) = slot.map_or(0, |slot| phv[slot]);
            }
            Op::StoreElement { element, i, a } => {
                if let Some(slot) = program.elements[usize::from(element)].slot(w!(i)) {
                    phv[slot] = w!(a);
                }
            }
            Op::AddHeader { h } => ctx.length += headers::add(layout, phv, h),
            Op::RemoveHeader { h } => ctx.length += headers::remove(layout, phv, h),
            Op::AssignHeader { d, s } => headers::assign(layout, phv, d, s),
            Op::DynHeader { op } => {
                let op = &program.dyn_headers[usize::from(op)];
                ctx.length += headers::run_dyn(layout, phv, op);
            }
            Op::HeaderEq { d, a, b } => w!(d) = u64::from(headers::equal(layout, phv, a, b)),
            Op::UnionEq { d, a, b } => w!(d) = u64::from(headers::unions_equal(layout, phv, a, b)),
            Op::UnionValid { d, u } => w!(d) = u64::from(headers::union_valid(layout, phv, u)),
            Op::AssignUnion { d, s } => headers::assign_union(layout, phv, d, s),
            Op::AssignStack { d, s } => headers::assign_stack(layout, phv, d, s),
            Op::AssignUnionStack { d, s } => headers::assign_union_stack(layout, phv, d, s),
            Op::Push { stack, n } => StackWords::of(layout, stack).push(phv, w!(n)),
            Op::Pop { stack, n } => StackWords::of(layout, stack).pop(phv, w!(n)),
            Op::AssignVl { d, s } => headers::assign_varbit(layout, phv, d, s),
            Op::Meter {
                d,
                array,
                i,
                before,
            } => {
                let kind = program.meters[usize::from(array)].kind;
                let cells = &mut state.meters[usize::from(array)];
                if let Some(cell) = usize::try_from(w!(i)).ok().and_then(|i| cells.get_mut(i)) {
                    let before = Color::of(w!(before));
                    w!(d) = cell.execute(kind, ctx.ingress_length, ctx.now / 1000, before) as u64;
                }
            }
            Op::Filter {
                d,
                spec,
                s,
                memory,
                i,
                value,
            } => {
                let spec = Spec::of(&state.registers[usize::from(spec)].read(w!(s)));
                let cells = &mut state.registers[usize::from(memory)];
                let mut memory = Memory::of(&cells.read(w!(i)));
                w!(d) = spec.apply(&mut memory, w!(value), ctx.now);
                cells.write(w!(i), &memory.to_cell());
            }
            Op::Hash {
                d,
                calculation,
                base,
                max,
            } => {
                let at = usize::from(calculation);
                let value = program.calculations[at].output(
                    layout,
                    phv,
                    *rest,
                    &mut state.buffer,
                    &mut state.hashes[at],
                    &mut state.random,
                );
                w!(d) = (value % w!(max).max(1)).wrapping_add(w!(base));
            }
            Op::Random { d, low, high } => w!(d) = state.random.between(w!(low), w!(high)),
            Op::MarkToDrop { spec, bits, group } => {
                w!(spec) = wrap(u64::from(*drop_port), u32::from(bits), false);
                if let Some(group) = group {
                    w!(group) = 0;
                }
            }
            Op::RegisterAccess { array, site } => {
                let before = ctx.accessed.iter().find(|(known, _)| *known == array);
                if let Some((_, first)) = before {
                    let place = |site: u16| &program.access_sites[usize::from(site)];
                    ctx.logs.push(format!(
                        "a packet accesses register {} twice, at {} and at {}: it is dropped",
                        program.registers[usize::from(array)].name,
                        place(*first),
                        place(site),
                    ));
                    ctx.fault = Some(DropReason::RegisterAccessedTwice);
                    return Err(Halt);
                }
                ctx.accessed.push((array, site));
            }
            Op::Digest { list } => ctx.digest = w!(list) as u32,
            Op::CloneIngress { session, list } | Op::CloneEgress { session, list } => {
                let session = w!(session) as u32 & crate::pre::MAX_SESSION;
                ctx.clone = Some(CloneRequest {
                    session,
                    list: w!(list) as u32,
                });
            }
            Op::Resubmit { list } => ctx.resubmit = w!(list) as u32,
            Op::Recirculate { list } => ctx.recirculate = w!(list) as u32,
            Op::Truncate { bytes } => ctx.truncate = Some(w!(bytes)),
            Op::Log { index } => {
                let logs = state
                    .recorder
                    .as_ref()
                    .is_some_and(|recorder| recorder.logs);
                if logs || ctx.logs.len() < MAX_LOGS {
                    let message = super::log::format(program, state, phv, index);
                    match &mut state.recorder {
                        // The message is logged in order with the other steps.
                        Some(recorder) if logs => recorder.log(|| Step::Message(message)),
                        _ => ctx.logs.push(message),
                    }
                }
            }
            Op::Assert { a, index } => {
                if w!(a) == 0 {
                    ctx.logs.push(program.asserts[usize::from(index)].clone());
                    ctx.fault = Some(DropReason::Assertion);
                    return Err(Halt);
                }
            }
            Op::Exit => ctx.exit = true,
            Op::Note { index } => note(program, state, phv, index),
            common => unreachable!("{common:?} is run by the loop"),
        }
        Ok(())
    }
}

/// Logs a note: the text of a condition or primitive, stored when the program was loaded.
#[cold]
fn note(program: &LoadedProgram, state: &mut State, phv: &[u64], index: u16) {
    let Some(mut recorder) = state.recorder.take() else {
        return;
    };
    let word = |slot: Slot| phv[usize::from(slot)];
    let cell =
        |what, name: &str, size: usize, index: u64, text: &dyn Fn(&str) -> String| match index
            < size as u64
        {
            true => Step::Note(text(name)),
            false => Step::OutOfBounds {
                what,
                name: name.to_owned(),
                size,
                index,
            },
        };
    recorder.log(|| match &program.notes[usize::from(index)] {
        Note::Text(text) => Step::Note(text.clone()),
        Note::RegisterRead { array, i } | Note::RegisterWrite { array, i } => {
            let (at, i) = (usize::from(*array), word(*i));
            let register = &program.registers[at];
            let value = || state.registers[at].read(i);
            let reads = matches!(program.notes[usize::from(index)], Note::RegisterRead { .. });
            cell(
                "register",
                &register.name,
                register.size,
                i,
                &|name| match reads {
                    true => format!("Read register '{name}' at index {i} read value {}", value()),
                    false => format!(
                        "Wrote register '{name}' at index {i} with value {}",
                        value()
                    ),
                },
            )
        }
        Note::Count { array, i } => {
            let (counter, i) = (&program.counters[usize::from(*array)], word(*i));
            cell("counter", &counter.name, counter.size, i, &|name| {
                format!("Updated counter '{name}' at index {i}")
            })
        }
        Note::Meter { array, i } => {
            let (meter, i) = (&program.meters[usize::from(*array)], word(*i));
            cell("meter", &meter.name, meter.size, i, &|name| {
                format!("Updated meter '{name}' at index {i}")
            })
        }
        Note::Hash { base, max, value } => {
            let (base, max, value) = (word(*base), word(*max), word(*value));
            Step::Note(format!("hash(base={base}, max={max}) = {value}"))
        }
        Note::Random { low, high, value } => {
            let (low, high, value) = (word(*low), word(*high), word(*value));
            Step::Note(format!("random(lo={low}, hi={high}) = {value}"))
        }
    });
    state.recorder = Some(recorder);
}
