//! Instructions that are rarely executed, separated from the interpreter's loop ([`super::run`]).

use super::expr::run_big;
use super::headers::{self, StackWords};
use super::ops::{for_each_op, FusedOp, Slot};
use super::run::{CloneRequest, Interpreter};
use super::words::wrap;
use crate::drop_reason::DropReason;
use crate::externs::filter::{Memory, Spec};
use crate::externs::meter::{adjusted, Color};
use crate::program::{source, LoadedProgram, Note};
use crate::state::State;
use crate::steps::Step;
use crate::trace::{stops, TraceEvent};
use alfirk_bmv2_json::SourceInfo;

/// Limit of log messages per packet and pipeline; further ones are discarded.
const MAX_LOGS: usize = 1000;

/// Error of an instruction: the packet must be dropped.
pub(crate) struct Halt;

impl Interpreter<'_> {
    /// Executes an instruction that is not in the interpreter's loop because it is rare.
    #[inline(never)]
    pub(crate) fn step(&mut self, phv: &mut [u64], op: FusedOp) -> Result<(), Halt> {
        macro_rules! vm {
            () => {
                self
            };
        }
        macro_rules! phv {
            () => {
                phv
            };
        }
        macro_rules! w {
            ($slot:expr) => {
                phv[$slot as usize]
            };
        }
        macro_rules! dispatch {
            (
                names ($zero:ident)
                frequent { $(
                    $(#[doc = $f_doc:literal])*
                    $f:ident $({ $($f_field:ident: $f_role:ident),* })? $f_text:literal,
                    effects $f_effects:tt, value $f_value:expr, flow $f_flow:expr, run $f_run:expr;
                )* }
                rare { $(
                    $(#[doc = $r_doc:literal])*
                    $r:ident $({ $($r_field:ident: $r_role:ident),* })? $r_text:literal,
                    effects $r_effects:tt, value $r_value:expr, flow $r_flow:expr, run $r_run:expr;
                )* }
                fused { $(
                    $(#[doc = $x_doc:literal])*
                    $x:ident { $($x_field:ident: $x_role:ident),* } $x_text:literal,
                    fuses $x_of:tt, run $x_run:expr;
                )* }
            ) => {
                match op {
                    $(FusedOp::$r $({ $($r_field),* })? => { $r_run; })*
                    // Never reached: the loop of `run` executes these itself.
                    $(FusedOp::$f { .. })|* | $(FusedOp::$x { .. })|* => {}
                }
            };
        }
        for_each_op!(dispatch);
        Ok(())
    }

    /// Meters the packet with a cell of a meter array, and returns its colour. `None` for an index beyond the array.
    fn meter(&mut self, array: u16, cell: u64, before: u64) -> Option<u64> {
        let kind = self.program.meters[usize::from(array)].kind;
        let cells = &mut self.state.meters[usize::from(array)];
        let cell = cells.get_mut(cell)?;
        let adjustment = self.state.meter_adjustments[usize::from(array)];
        let length = adjusted(self.ctx.ingress_length, adjustment);
        let now = self.ctx.now / 1000;
        Some(cell.execute(kind, length, now, Color::of(before)) as u64)
    }

    /// Applies a low-pass filter (Tofino's `Lpf`) to a value, and returns the filter's output. `spec` is the cell of
    /// the configuration and `memory` that of the state; each is given by register array and index.
    fn filter(&mut self, spec: (u16, u64), memory: (u16, u64), value: u64) -> u64 {
        let spec = Spec::of(&self.state.registers[usize::from(spec.0)].read(spec.1));
        let cells = &mut self.state.registers[usize::from(memory.0)];
        let mut cell = Memory::of(&cells.read(memory.1));
        let filtered = spec.apply(&mut cell, value, self.ctx.now);
        cells.write(memory.1, &cell.to_cell());
        filtered
    }

    /// Computes a calculation of the program.
    pub(crate) fn hash(&mut self, calculation: u16, phv: &[u64]) -> u64 {
        let at = usize::from(calculation);
        self.program.calculations[at].output(
            &self.program.layout,
            phv,
            self.rest,
            &mut self.state.buffer,
            &mut self.state.hashes[at],
            &mut self.state.random,
        )
    }

    /// Records a register access. A second access to the register for the same packet is a fault, as on Tofino.
    fn access_register(&mut self, array: u16, site: u16) -> Result<(), Halt> {
        let program = self.program;
        let before = self.ctx.accessed.iter().find(|(known, _)| *known == array);
        if let Some((_, first)) = before {
            let place = |site: u16| &program.access_sites[usize::from(site)];
            self.ctx.logs.push(format!(
                "a packet accesses register {} twice, at {} and at {}: it is dropped",
                program.registers[usize::from(array)].name,
                place(*first),
                place(site),
            ));
            self.ctx.fault = Some(DropReason::RegisterAccessedTwice);
            return Err(Halt);
        }
        self.ctx.accessed.push((array, site));
        Ok(())
    }

    fn request_clone(&mut self, session: u64, list: u64) {
        self.ctx.clone = Some(CloneRequest {
            session: session as u32 & crate::pre::MAX_SESSION,
            list: list as u32,
        });
    }

    fn log_message(&mut self, index: u16, phv: &[u64]) {
        let (program, state) = (self.program, &mut *self.state);
        let logs = state
            .recorder
            .as_ref()
            .is_some_and(|recorder| recorder.logs);
        if logs || self.ctx.logs.len() < MAX_LOGS {
            let message = super::log::format(program, state, phv, index);
            match &mut state.recorder {
                // The message is logged in order with the other steps.
                Some(recorder) if logs => recorder.log(|| Step::Message(message)),
                _ => self.ctx.logs.push(message),
            }
        }
    }

    /// Checks the condition of an `assert` or `assume`. If it does not hold, drops the packet and logs the assertion.
    fn assert(&mut self, holds: bool, index: u16) -> Result<(), Halt> {
        if holds {
            return Ok(());
        }
        let text = self.program.asserts[usize::from(index)].clone();
        self.ctx.logs.push(text);
        self.ctx.fault = Some(DropReason::Assertion);
        Err(Halt)
    }
}

/// Adds a note of the program to traces and the log.
#[cold]
fn note(program: &LoadedProgram, state: &mut State, phv: &mut [u64], index: u16) {
    let Some(mut recorder) = state.recorder.take() else {
        return;
    };
    let note = &program.notes[usize::from(index)];
    if matches!(note, Note::Test(_)) {
        state.recorder = Some(recorder);
        return stops::note(program, state, phv, note, false);
    }
    // What changed before is the effect of an earlier statement.
    recorder.changes(program, phv);
    let access = access(program, phv, note);
    if !matches!(note, Note::Outcome { .. }) {
        recorder.log(|| log_note(state, phv, note, access.as_ref()));
    }
    if recorder.is_tracing() {
        if let Some(event) = trace_note(state, note, access.as_ref()) {
            recorder.record(event);
        }
    }
    let has_access = access.is_some_and(|access| access.is_inside());
    state.recorder = Some(recorder);
    stops::note(program, state, phv, note, has_access);
}

/// An array that a packet accesses.
struct Access<'a> {
    kind: &'static str,
    name: &'a str,
    size: usize,
    index: u64,
}

impl Access<'_> {
    fn is_inside(&self) -> bool {
        self.index < self.size as u64
    }
}

/// Returns the array that a note is about.
fn access<'a>(program: &'a LoadedProgram, phv: &[u64], note: &Note) -> Option<Access<'a>> {
    let (kind, name, size, slot) = match *note {
        Note::RegisterRead { array, i } | Note::RegisterWrite { array, i } => {
            let array = &program.registers[usize::from(array)];
            ("register", &array.name, array.size, i)
        }
        Note::Count { array, i } => {
            let array = &program.counters[usize::from(array)];
            ("counter", &array.name, array.size, i)
        }
        Note::Meter { array, i } => {
            let array = &program.meters[usize::from(array)];
            ("meter", &array.name, array.size, i)
        }
        _ => return None,
    };
    Some(Access {
        kind,
        name,
        size,
        index: phv[usize::from(slot)],
    })
}

/// Returns a note as BMv2 logs it.
fn log_note(state: &State, phv: &[u64], note: &Note, access: Option<&Access>) -> Step {
    let word = |slot: Slot| phv[usize::from(slot)];
    if let Some(access) = access.filter(|access| !access.is_inside()) {
        return Step::OutOfBounds {
            what: access.kind,
            name: access.name.to_owned(),
            size: access.size,
            index: access.index,
        };
    }
    let cell = access.map(|access| (access.name, access.index));
    let (name, i) = cell.unwrap_or_default();
    let at = |info: &SourceInfo| format!("{}({}) ", info.filename, info.line);
    Step::Note(match note {
        Note::Action(name) => format!("Action {name}"),
        Note::Test(_) | Note::Outcome { .. } => String::new(),
        Note::Primitive(None) | Note::Part(None) => "Primitive (no source info)".to_owned(),
        Note::Primitive(Some(info)) | Note::Part(Some(info)) => {
            format!("{}Primitive {}", at(info), info.source_fragment)
        }
        Note::Condition { info, name, holds } => {
            let text = info.as_ref().map_or(name, |info| &info.source_fragment);
            let at = info.as_ref().map(at).unwrap_or_default();
            format!("{at}Condition \"{text}\" ({name}) is {holds}")
        }
        Note::RegisterRead { array, .. } => {
            let value = state.registers[usize::from(*array)].read(i);
            format!("Read register '{name}' at index {i} read value {value}")
        }
        Note::RegisterWrite { array, .. } => {
            let value = state.registers[usize::from(*array)].read(i);
            format!("Wrote register '{name}' at index {i} with value {value}")
        }
        Note::Count { .. } => format!("Updated counter '{name}' at index {i}"),
        Note::Meter { .. } => format!("Updated meter '{name}' at index {i}"),
        Note::Hash { base, max, value } => {
            let (base, max, value) = (word(*base), word(*max), word(*value));
            format!("hash(base={base}, max={max}) = {value}")
        }
        Note::Random { low, high, value } => {
            let (low, high, value) = (word(*low), word(*high), word(*value));
            format!("random(lo={low}, hi={high}) = {value}")
        }
    })
}

/// Returns a note as a step of a trace; `None` for those whose effect another step shows.
fn trace_note(state: &State, note: &Note, access: Option<&Access>) -> Option<TraceEvent> {
    if let Some(access) = access {
        let (kind, name, index) = (access.kind, access.name.to_owned(), access.index);
        return Some(match note {
            _ if !access.is_inside() => TraceEvent::OutOfBounds {
                kind,
                name,
                index,
                size: access.size,
            },
            Note::RegisterRead { array, .. } | Note::RegisterWrite { array, .. } => {
                TraceEvent::Register {
                    register: name,
                    index,
                    written: matches!(note, Note::RegisterWrite { .. }),
                    value: state.registers[usize::from(*array)].read(index).to_hex(),
                }
            }
            _ => TraceEvent::Updated { kind, name, index },
        });
    }
    match note {
        Note::Primitive(info) => Some(TraceEvent::Statement {
            source: source(info.as_ref()?),
        }),
        Note::Condition { info, holds, .. } | Note::Outcome { info, holds } => {
            Some(TraceEvent::Condition {
                source: source(info.as_ref()?),
                holds: *holds,
            })
        }
        _ => None,
    }
}
