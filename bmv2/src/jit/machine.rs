//! The memory that compiled code shares with the switch, and the functions of the switch that compiled code calls.
//!
//! Compiled code receives a pointer to a [`Machine`]. A called function creates references from the machine's pointers
//! and drops them before it returns; compiled code creates none. So there is one reference to each object at a time.

use crate::drop_reason::DropReason;
use crate::exec::apply::look_up;
use crate::exec::deparse::emit;
use crate::exec::ops::{FusedOp, Pc};
use crate::exec::parse::Parser;
use crate::exec::run::{execute, Context, Interpreter};
use crate::exec::verdict::Verdict;
use crate::externs::cells::Cells;
use crate::externs::counter::Counter;
use crate::externs::register::Register;
use crate::frame::{Frame, Rest};
use crate::program::{self, EgressValues, LoadedProgram};
use crate::state::State;
use crate::tables::TableState;
use std::marker::PhantomData;
use std::mem::offset_of;
use std::slice;

/// A compiled function: a pipeline, a parser or a deparser.
pub(super) type Function = unsafe extern "C" fn(*mut Machine);

/// Arguments and results of a compiled function.
#[repr(C)]
pub(super) struct Machine<'a> {
    /// The packet's words.
    pub words: *mut u64,
    /// Number of `words`.
    pub word_count: usize,
    pub ctx: *mut Context,
    /// Bytes of the frame that are contiguous in memory. Eight more bytes can be read.
    pub bytes: *const u8,
    /// Number of `bytes`.
    pub contiguous: u64,
    /// Length of the frame in bytes. It exceeds `contiguous` if the frame has a separate tail.
    pub length: u64,
    /// Position of the parser: the offset of the next byte in the frame.
    pub cursor: u64,
    /// The state's buffer for the deparser's headers.
    pub headers: *mut u8,
    /// Buffer of the frame to be sent, with space for all headers without a variable-length field; null if there is none.
    pub output: *mut u8,
    /// Bytes of the frame, to which the deparser writes headers that are as long as the parsed ones; null if it must not.
    pub in_place: *mut u8,
    /// The state's buffer for the inputs of a hash.
    pub inputs: *mut u8,
    /// Number of bytes that the deparser has written.
    pub emitted: u64,
    /// Error of the parser, or where the deparser has written the headers: 0 if it did not run, else one of [`IN_BUFFER`],
    /// [`IN_OUTPUT`] and [`IN_PLACE`].
    pub result: u64,
    /// Number of steps that may be part of a loop; see `Interpreter::is_endless`.
    pub steps: u64,
    pub program: *const LoadedProgram,
    pub state: *mut State,
    /// The state's tables.
    pub tables: *mut TableState,
    /// The state's register arrays.
    pub registers: *mut Register,
    /// The state's counter arrays.
    pub counters: *mut Cells<Counter>,
    /// The state's counters of coverage.
    pub coverage: *mut u64,
    pub frame: *const Frame,
    pub parser: *const program::Parser,
    pub rest: Rest<'a>,
    /// The drop port in pipelines; 0 in other code.
    pub drop_port: u32,
    /// The drop port of the switch.
    pub switch_drop_port: u32,
    /// Whether a function that has several parts executes only one: the parser, or the deparser.
    pub is_part: u64,
    /// Metadata that the code sets first: [`program::IngressValues`] or [`EgressValues`].
    pub metadata: EgressValues,
    /// Whether a received packet's metadata are to be set in ingress.
    pub is_received: u64,
    /// What ingress has decided: one of [`UNICAST`], [`MULTICAST`] and [`DROPPED`]; 0 if it may have requested more than that,
    /// or has not ended.
    pub verdict: u64,
    /// Port or multicast group of the verdict.
    pub target: u64,
    /// What the pipeline has requested besides sending the packet, or may have: [`EARLY_REQUEST`] and [`LATE_REQUEST`].
    pub requests: u64,
    pub borrowed: PhantomData<&'a mut State>,
}

/// Offsets of the machine's fields, in bytes.
pub(super) mod at {
    use super::{offset_of, Machine, Rest};

    pub const WORDS: usize = offset_of!(Machine, words);
    pub const CTX: usize = offset_of!(Machine, ctx);
    pub const BYTES: usize = offset_of!(Machine, bytes);
    pub const CONTIGUOUS: usize = offset_of!(Machine, contiguous);
    pub const LENGTH: usize = offset_of!(Machine, length);
    pub const CURSOR: usize = offset_of!(Machine, cursor);
    pub const HEADERS: usize = offset_of!(Machine, headers);
    pub const OUTPUT: usize = offset_of!(Machine, output);
    pub const IN_PLACE: usize = offset_of!(Machine, in_place);
    pub const INPUTS: usize = offset_of!(Machine, inputs);
    pub const EMITTED: usize = offset_of!(Machine, emitted);
    pub const RESULT: usize = offset_of!(Machine, result);
    pub const STEPS: usize = offset_of!(Machine, steps);
    pub const STATE: usize = offset_of!(Machine, state);
    pub const REGISTERS: usize = offset_of!(Machine, registers);
    pub const COUNTERS: usize = offset_of!(Machine, counters);
    pub const COVERAGE: usize = offset_of!(Machine, coverage);
    pub const FRAME: usize = offset_of!(Machine, frame);
    pub const REST_FRAME: usize = offset_of!(Machine, rest) + Rest::FRAME;
    pub const REST_AT: usize = offset_of!(Machine, rest) + Rest::AT;
    pub const DROP_PORT: usize = offset_of!(Machine, drop_port);
    pub const SWITCH_DROP_PORT: usize = offset_of!(Machine, switch_drop_port);
    pub const IS_PART: usize = offset_of!(Machine, is_part);
    pub const METADATA: usize = offset_of!(Machine, metadata);
    pub const IS_RECEIVED: usize = offset_of!(Machine, is_received);
    pub const VERDICT: usize = offset_of!(Machine, verdict);
    pub const TARGET: usize = offset_of!(Machine, target);
    pub const REQUESTS: usize = offset_of!(Machine, requests);
}

impl<'a> Machine<'a> {
    /// Creates a machine for code that has neither a frame to parse nor a frame to send.
    pub fn new(
        program: &'a LoadedProgram,
        state: &'a mut State,
        drop_port: u32,
        words: &'a mut [u64],
        rest: Rest<'a>,
        ctx: &'a mut Context,
    ) -> Machine<'a> {
        Machine {
            words: words.as_mut_ptr(),
            word_count: words.len(),
            ctx,
            bytes: std::ptr::null(),
            contiguous: 0,
            length: 0,
            cursor: 0,
            headers: state.headers.as_mut_ptr(),
            output: std::ptr::null_mut(),
            in_place: std::ptr::null_mut(),
            inputs: state.inputs.as_mut_ptr(),
            emitted: 0,
            result: 0,
            steps: 0,
            program,
            tables: state.tables.as_mut_ptr(),
            registers: state.registers.as_mut_ptr(),
            counters: state.counters.as_mut_ptr(),
            coverage: state.coverage.as_mut_ptr(),
            state,
            frame: std::ptr::null(),
            parser: std::ptr::null(),
            rest,
            drop_port,
            switch_drop_port: drop_port,
            is_part: 0,
            metadata: EgressValues::default(),
            is_received: 0,
            verdict: 0,
            target: 0,
            requests: 0,
            borrowed: PhantomData,
        }
    }

    /// Sets the frame that a parser reads.
    pub fn set_frame(&mut self, frame: &'a Frame, parser: &'a program::Parser) {
        let head = frame.head();
        self.bytes = head.as_ptr();
        self.contiguous = head.len() as u64;
        self.length = frame.len() as u64;
        self.frame = frame;
        self.parser = parser;
    }

    /// Returns what ingress has decided.
    #[inline]
    pub fn verdict(&self) -> Option<Verdict> {
        let target = self.target as u32;
        match self.verdict {
            UNICAST => Some(Verdict::Unicast(target)),
            MULTICAST => Some(Verdict::Multicast(target)),
            DROPPED => Some(Verdict::Dropped),
            _ => None,
        }
    }

    fn program(&self) -> &'a LoadedProgram {
        // SAFETY: `new` received a reference that lives for 'a.
        unsafe { &*self.program }
    }

    /// Returns an interpreter on the machine's objects, and the packet's words.
    ///
    /// # Safety
    /// No other reference to the state, the context or the words may exist.
    unsafe fn interpreter(&mut self) -> (Interpreter<'_>, &mut [u64]) {
        let (program, drop_port, rest) = (self.program(), self.drop_port, self.rest);
        // SAFETY: as stated above.
        let (state, ctx, words) = unsafe { self.objects() };
        let vm = Interpreter::new(program, state, drop_port, rest, ctx);
        (vm, words)
    }

    /// Returns the state, the context, and the packet's words.
    ///
    /// # Safety
    /// As for [`Machine::interpreter`].
    #[inline(always)]
    unsafe fn objects(&mut self) -> (&mut State, &mut Context, &mut [u64]) {
        // SAFETY: `new` received exclusive references to these objects.
        unsafe {
            (
                &mut *self.state,
                &mut *self.ctx,
                slice::from_raw_parts_mut(self.words, self.word_count),
            )
        }
    }
}

/// Value of [`Machine::result`]: the deparser has written the headers to [`Machine::headers`].
pub(super) const IN_BUFFER: u64 = 1;

/// Value of [`Machine::result`]: the deparser has written the headers to [`Machine::output`].
pub(super) const IN_OUTPUT: u64 = 2;

/// Value of [`Machine::result`]: the deparser has written the headers to [`Machine::in_place`].
pub(super) const IN_PLACE: u64 = 3;

/// Bit of [`Machine::requests`]: something that is done before the deparser runs, as a clone, or that may prevent it.
pub(super) const EARLY_REQUEST: u64 = 1;

/// Bit of [`Machine::requests`]: truncation or recirculation, which are done with the deparsed frame.
pub(super) const LATE_REQUEST: u64 = 2;

/// Values of [`Machine::verdict`].
pub(super) const UNICAST: u64 = 1;
pub(super) const MULTICAST: u64 = 2;
pub(super) const DROPPED: u64 = 3;

/// Bit of [`call_apply`]'s result that is set if an action is to run.
pub(super) const RUNS_ACTION: u32 = 63;

/// Executes an instruction by the interpreter's own code. Returns 1 if the packet must be dropped.
pub(super) unsafe extern "C" fn call_step(machine: *mut Machine, pc: u64) -> u64 {
    // SAFETY: compiled code passes the machine that it received, and holds no references.
    let (mut vm, words) = unsafe { (*machine).interpreter() };
    let op = FusedOp::from(vm.program.ops[pc as usize]);
    u64::from(vm.step(words, op).is_err())
}

/// Applies a table. Returns the action's first instruction from bit 32 on, and the next instruction after the table in
/// bits 0 to 31; bit [`RUNS_ACTION`] is set if there is an action.
pub(super) unsafe extern "C" fn call_apply(machine: *mut Machine, table: u64) -> u64 {
    // SAFETY: as in `call_step`.
    let machine = unsafe { &mut *machine };
    let (program, rest) = (machine.program(), machine.rest);
    // SAFETY: as in `call_step`.
    let (state, ctx, words) = unsafe { machine.objects() };
    // No compiled code runs while packets are recorded.
    applied(look_up(program, state, rest, ctx, words, table as usize))
}

/// Applies a table for which [`program::Table::is_plain`] is true and whose key fits one word, with the packed key. `params`:
/// first word of the parameters of actions. The result is that of [`call_apply`].
pub(super) unsafe extern "C" fn call_apply_word(
    machine: *mut Machine,
    table: u64,
    key: u64,
    params: u64,
) -> u64 {
    // SAFETY: as in `call_step`.
    let machine = unsafe { &mut *machine };
    let number = table as usize;
    // SAFETY: as in `call_step`; the program has the table.
    let (table, ctx) = unsafe { (&mut *machine.tables.add(number), &*machine.ctx) };
    let Some(action) = table.action_of_word(key, ctx.ingress_length, ctx.now) else {
        let table = &machine.program().tables[number];
        return applied((None, table.on_miss.unwrap_or(table.after_miss)));
    };
    // SAFETY: as in `call_step`.
    let words = unsafe { slice::from_raw_parts_mut(machine.words, machine.word_count) };
    let params = params as usize;
    action.set_params(&mut words[params..params + action.args.len()]);
    applied((Some(action.code), action.next))
}

/// Returns the result of [`call_apply`].
#[inline(always)]
fn applied((action, after): (Option<Pc>, Pc)) -> u64 {
    match action {
        Some(action) => 1 << RUNS_ACTION | u64::from(action) << 32 | u64::from(after),
        None => u64::from(after),
    }
}

/// Executes code from `start` to its end by the interpreter. `after` is the return address if the code is an action;
/// [`NO_ADDRESS`] if it is not.
pub(super) unsafe extern "C" fn call_resume(machine: *mut Machine, start: u64, after: u64) {
    // SAFETY: as in `call_step`.
    let steps = unsafe { (*machine).steps };
    // SAFETY: as in `call_step`.
    let (vm, words) = unsafe { (*machine).interpreter() };
    let after = (after != NO_ADDRESS).then_some(after as u32);
    execute(vm.at(after, steps as u32), words, start as u32);
}

/// Value that is not a position of an instruction.
pub(super) const NO_ADDRESS: u64 = 1 << 32;

/// Writes a register cell.
pub(super) unsafe extern "C" fn call_register_write(
    machine: *mut Machine,
    array: u64,
    index: u64,
    value: u64,
) {
    // SAFETY: as in `call_step`.
    let state = unsafe { &mut *(*machine).state };
    state.registers[array as usize].set(index, value);
}

/// Writes a word of a register array of any width.
pub(super) unsafe extern "C" fn call_register_word(
    machine: *mut Machine,
    array: u64,
    at: u64,
    value: u64,
) {
    // SAFETY: as in `call_step`.
    let state = unsafe { &mut *(*machine).state };
    state.registers[array as usize].set_word(at as usize, value);
}

/// Records that the program has exceeded the limit of steps.
pub(super) unsafe extern "C" fn call_endless(machine: *mut Machine) {
    // SAFETY: as in `call_step`.
    let ctx = unsafe { &mut *(*machine).ctx };
    ctx.fault = Some(DropReason::EndlessLoop);
}

/// Returns 1 if the packet must be dropped.
pub(super) unsafe extern "C" fn call_has_fault(machine: *mut Machine) -> u64 {
    // SAFETY: as in `call_step`.
    u64::from(unsafe { (*(*machine).ctx).fault.is_some() })
}

/// Makes the whole frame contiguous.
pub(super) unsafe extern "C" fn call_whole(machine: *mut Machine) {
    // SAFETY: as in `call_step`; a parser's machine has a frame.
    let (machine, frame) = unsafe { (&mut *machine, &*(*machine).frame) };
    machine.bytes = frame.padded(0, frame.len()).as_ptr();
    machine.contiguous = machine.length;
}

/// Executes a statement of a parser state by the interpreter's own code. Returns 1 after a parser error, which is in
/// `result`.
pub(super) unsafe extern "C" fn call_parser_step(
    machine: *mut Machine,
    state: u64,
    step: u64,
) -> u64 {
    // SAFETY: as in `call_step`; a parser's machine has a frame and a parser.
    let (parser, frame) = unsafe { (&*(*machine).parser, &*(*machine).frame) };
    let step = &parser.states[state as usize].steps[step as usize];
    // SAFETY: as in `call_step`.
    unsafe {
        with_parser(machine, parser, frame, |run, state, ctx| {
            run.step(step, state, ctx)
        })
    }
}

/// Selects the next parser state by the interpreter's own code. Returns its number plus 1, 0 at the end of the parser,
/// or [`PARSER_ERROR`] after a parser error, which is in `result`.
pub(super) unsafe extern "C" fn call_parser_next(machine: *mut Machine, state: u64) -> u64 {
    // SAFETY: as in `call_parser_step`.
    let (parser, frame) = unsafe { (&*(*machine).parser, &*(*machine).frame) };
    let state = &parser.states[state as usize];
    let mut next = None;
    // SAFETY: as in `call_step`.
    let failed = unsafe {
        with_parser(machine, parser, frame, |run, vars, _| {
            next = run.next(state, vars)?;
            Ok(())
        })
    };
    match failed {
        0 => next.map_or(0, |next| u64::from(next) + 1),
        _ => PARSER_ERROR,
    }
}

/// Result of [`call_parser_next`] after a parser error; larger than the number of any state.
pub(super) const PARSER_ERROR: u64 = 1 << 32;

/// Runs a part of the interpreter's parser at the machine's position. Returns 1 after a parser error.
unsafe fn with_parser(
    machine: *mut Machine,
    parser: &program::Parser,
    frame: &Frame,
    part: impl FnOnce(&mut Parser, &mut State, &mut Context) -> Result<(), u64>,
) -> u64 {
    // SAFETY: as in `call_step`.
    let machine = unsafe { &mut *machine };
    let cursor = machine.cursor as usize;
    // SAFETY: as in `call_step`.
    let (vm, words) = unsafe { machine.interpreter() };
    let mut run = Parser::new(vm.program, parser, words, frame, cursor);
    let result = part(&mut run, vm.state, vm.ctx);
    machine.cursor = run.cursor() as u64;
    match result {
        Ok(()) => 0,
        Err(error) => {
            machine.result = error;
            1
        }
    }
}

/// Computes a calculation of the program.
pub(super) unsafe extern "C" fn call_calculate(machine: *mut Machine, calculation: u64) -> u64 {
    // SAFETY: as in `call_step`.
    let (mut vm, words) = unsafe { (*machine).interpreter() };
    vm.hash(calculation as u16, words)
}

/// Computes a calculation whose inputs, without the payload, are in the state's buffer.
pub(super) unsafe extern "C" fn call_hash_joined(machine: *mut Machine, calculation: u64) -> u64 {
    // SAFETY: as in `call_step`.
    let machine = unsafe { &mut *machine };
    let (program, rest) = (machine.program(), machine.rest);
    // SAFETY: as in `call_step`.
    let (state, _, _) = unsafe { machine.objects() };
    program.calculations[calculation as usize].hash_joined(&state.inputs, rest)
}

/// Writes a header to the deparser's output by the interpreter's own code. Returns its length in bytes.
pub(super) unsafe extern "C" fn call_emit(machine: *mut Machine, header: u64, at: u64) -> u64 {
    // SAFETY: as in `call_step`.
    let (vm, words) = unsafe { (*machine).interpreter() };
    let header = &vm.program.layout.headers[header as usize];
    emit(header, words, &mut vm.state.headers[at as usize..]) as u64
}
