//! Application of tables, for the interpreter ([`super::run`]): lookup, and arguments of the action.

use super::ops::{Pc, Slot};
use super::run::{Context, Interpreter};
use super::words::{param_words, words_of, wrap};
use crate::externs::meter::{adjusted, Color};
use crate::frame::Rest;
use crate::numbers::{number, shortest};
use crate::program::{Calculation, LoadedProgram};
use crate::state::State;
use crate::steps::{padded_hex, short_hex, EntryKey, Step};
use crate::tables::{ActionRef, EntryHandle, Target};
use crate::trace::{candidates, stops, NamedValue, TraceEvent};

/// Value stored in the field that receives the index of the matching entry, after a table miss. Direct registers use
/// this field; the value is larger than any index.
const NO_ENTRY: u64 = u32::MAX as u64;

/// Looks up the packet in a table, and stores the arguments of the entry's action. Returns the action's code, if an
/// action is to run, and the instruction after the table.
#[inline(never)]
pub(crate) fn apply(vm: &mut Interpreter, phv: &mut [u64], at: usize) -> (Option<Pc>, Pc) {
    if vm.state.recorder.is_some() {
        return apply_recorded(vm, phv, at);
    }
    look_up(vm.program, vm.state, vm.rest, vm.ctx, phv, at)
}

#[cold]
/// Looks up the packet in a table as [`look_up`] does, and records the table in traces and the log.
fn apply_recorded(vm: &mut Interpreter, phv: &mut [u64], at: usize) -> (Option<Pc>, Pc) {
    let program = vm.program;
    let table = &program.tables[at];
    stops::stop_at_table(program, vm.state, phv, at);
    let number = |slot: usize, bits| number(&phv[slot..slot + words_of(bits)]);
    let key = table.keys.iter().map(|key| NamedValue {
        name: key.name.clone(),
        value: number(usize::from(key.slot), key.bits),
    });
    let key = key.collect();
    let entries = &vm.state.tables[at];
    let entry = entries.peek(phv).map(|place| entries.handle(place).0);
    let traces = vm.state.recorder.as_ref().is_some_and(|r| r.is_tracing());
    let others = match traces {
        true => candidates(program, table, entries, entry, phv),
        false => Vec::new(),
    };
    log_lookup(vm, phv, at, entry);
    let found = look_up(program, vm.state, vm.rest, vm.ctx, phv, at);
    let action = found
        .0
        .and_then(|code| program.actions.iter().find(|action| action.code == code));
    let arguments = usize::from(program.layout.params);
    let data = action.iter().flat_map(|action| &action.params);
    let data = data.map(|param| NamedValue {
        name: param.name.clone(),
        value: self::number(&phv[arguments + param.offset..][..param_words(param.bits)]),
    });
    let event = TraceEvent::Table {
        table: table.name.clone(),
        key,
        hit: entry.is_some(),
        entry,
        entries: vm.state.tables[at].len(),
        action: action.map(|action| action.name.clone()),
        data: data.collect(),
        source: table.source.clone(),
    };
    let name = action.map(|action| action.name.clone());
    let args = action.iter().flat_map(|action| &action.params);
    let args = args.map(|param| {
        let words = &phv[arguments + param.offset..][..param_words(param.bits)];
        short_hex(&shortest(words))
    });
    if let Some(recorder) = &mut vm.state.recorder {
        recorder.changes(program, phv);
        // The statement that the table stands for is in the trace.
        let is_statement = table.name.strip_prefix("tbl_") == name.as_deref();
        if !(is_statement && table.keys.is_empty() && !program.notes.is_empty()) {
            recorder.record(event);
        }
        for other in others {
            recorder.record(other);
        }
        recorder.log(|| Step::Action {
            name,
            args: args.collect(),
        });
    }
    found
}

/// Logs the lookup key and the matching entry.
fn log_lookup(vm: &mut Interpreter, phv: &[u64], at: usize, found: Option<u32>) {
    let (program, table) = (vm.program, &vm.program.tables[at]);
    let Some(mut recorder) = vm.state.recorder.take() else {
        return;
    };
    let name = || table.name.clone();
    recorder.log(|| Step::Apply(name()));
    recorder.log(|| {
        let value = |slot: Slot, bits| shortest(&phv[usize::from(slot)..][..words_of(bits)]);
        let key = table.keys.iter();
        Step::LookUp(
            key.map(|key| {
                (
                    key.name.clone(),
                    padded_hex(&value(key.slot, key.bits), key.bits),
                )
            })
            .collect(),
        )
    });
    let entry =
        found.and_then(|handle| vm.state.tables[at].entry(program, table, EntryHandle(handle)));
    match (found, entry) {
        (Some(handle), Some(entry)) => {
            recorder.log(|| Step::Hit {
                table: name(),
                handle,
            });
            let keys = table.keys.iter().map(|key| EntryKey {
                name: key.name.clone(),
                bits: key.bits,
            });
            recorder.log(|| Step::Entry {
                handle,
                keys: keys.collect(),
                entry,
            });
        }
        _ => recorder.log(|| Step::Miss(name())),
    }
    vm.state.recorder = Some(recorder);
}

/// Looks up the packet in a table, without recording. Arguments and results are those of [`apply`].
#[inline(always)]
pub(crate) fn look_up(
    program: &LoadedProgram,
    state: &mut State,
    rest: Rest,
    ctx: &Context,
    phv: &mut [u64],
    at: usize,
) -> (Option<Pc>, Pc) {
    let table = &program.tables[at];
    let tables = &mut state.tables[at];
    let (hit, target) = match tables.hit(phv, ctx.ingress_length, ctx.now) {
        Some(found) => {
            if let (Some((meter, adjustment)), Some(direct)) = (found.meter, table.direct_meter) {
                let before = direct.precolor.map_or(0, |slot| phv[usize::from(slot)]);
                let before = Color::of(before);
                let length = adjusted(ctx.ingress_length, adjustment);
                let color = meter.execute(direct.kind, length, ctx.now / 1000, before);
                phv[usize::from(direct.slot)] = wrap(color as u64, direct.bits, false);
            }
            for cells in &table.direct_registers {
                phv[usize::from(cells.slot)] = u64::from(found.slot);
            }
            (true, found.target)
        }
        None => {
            for cells in &table.direct_registers {
                phv[usize::from(cells.slot)] = NO_ENTRY;
            }
            if let Some(action) = &tables.default {
                state
                    .coverage
                    .count_apply(table, false, Some(action.action));
                return (Some(enter(program, phv, action)), action.next);
            }
            match tables.default_target.as_deref() {
                Some(target) => (false, target),
                None => {
                    state.coverage.count_apply(table, false, None);
                    return (None, table.on_miss.unwrap_or(table.after_miss));
                }
            }
        }
    };
    let member = match target {
        Target::Action(action) => {
            state.coverage.count_apply(table, hit, Some(action.action));
            return (Some(enter(program, phv, action)), action.next);
        }
        Target::Member(id) => *id,
        Target::Group(id) => {
            let profile = table.profile.map(usize::from).unwrap_or_default();
            let group = state.profiles.get(profile).and_then(|p| p.groups.get(id));
            let Some(group) = group else {
                state.coverage.count_apply(table, hit, None);
                return (None, table.after_miss);
            };
            let chosen = match &mut state.random.choices {
                Some(choices) => choices.member(&table.name, &group.members()),
                None => None,
            };
            let chosen = chosen.or_else(|| {
                let selector = program.profiles[profile].selector.as_ref();
                let hash = selector.map_or(0, |selector| {
                    selector_hash(
                        selector,
                        program,
                        phv,
                        rest,
                        &mut state.buffer,
                        &mut state.selector_hashes[profile],
                        &mut state.random,
                    )
                });
                group.choose(hash)
            });
            match chosen {
                Some(member) => member,
                None => {
                    state.coverage.count_apply(table, hit, None);
                    return (None, table.on_hit.unwrap_or(table.after_miss));
                }
            }
        }
    };
    let profile = table.profile.map(usize::from).unwrap_or_default();
    let Some(member) = state
        .profiles
        .get(profile)
        .and_then(|p| p.members.get(&member))
    else {
        state.coverage.count_apply(table, hit, None);
        return (None, table.after_miss);
    };
    let action = &member.action;
    state.coverage.count_apply(table, hit, Some(action.action));
    let next = if hit {
        table.next_on_hit(action.action)
    } else {
        table.next_on_miss(action.action)
    };
    (
        Some(enter(program, phv, action)),
        next.unwrap_or(table.after_miss),
    )
}

#[inline]
fn enter(program: &LoadedProgram, phv: &mut [u64], action: &ActionRef) -> Pc {
    let params = usize::from(program.layout.params);
    action.set_params(&mut phv[params..params + action.args.len()]);
    action.code
}

fn selector_hash(
    selector: &Calculation,
    program: &LoadedProgram,
    phv: &[u64],
    rest: Rest,
    buffer: &mut crate::externs::hash::BitBuffer,
    state: &mut crate::externs::hash::HashState,
    random: &mut crate::externs::random::Random,
) -> u64 {
    selector.output(&program.layout, phv, rest, buffer, state, random)
}
