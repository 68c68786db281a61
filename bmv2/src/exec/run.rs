//! The interpreter of compiled code.

use super::apply::apply;
use super::ops::{for_each_op, FusedOp, Pc, Slot};
use super::words::wrap;
use crate::drop_reason::DropReason;
use crate::frame::Rest;
use crate::program::LoadedProgram;
use crate::state::State;

/// Limit of backward jumps, calls and table applications per packet and pipeline. Compilers do not create endless
/// programs, but a malformed one must not block the switch.
pub(crate) const MAX_STEPS: u32 = 100_000;

/// Value of [`Context::truncate`] for a packet that is not truncated.
pub(crate) const NOT_TRUNCATED: u64 = u64::MAX;

/// State of processing a packet that is not in P4 fields or temporaries.
#[derive(Clone, Debug)]
pub(crate) struct Context {
    /// Time in nanoseconds since the switch started.
    pub now: u64,
    /// Number that identifies the packet in traces and the log.
    pub number: u64,
    /// Number of the packet's copy in traces and the log.
    pub copy: u32,
    /// Port of the packet when ingress began, which a clone of the received packet has; 0 on Tofino.
    pub ingress_port: u64,
    /// Length of the received packet in bytes, used by counters and byte meters.
    pub ingress_length: usize,
    /// Current length of the packet in bytes. Headers that were added or removed change it.
    pub length: i64,
    /// Clone that the packet has requested, if any.
    pub clone: Option<CloneRequest>,
    /// Field list of a requested resubmission; 0 for no request.
    pub resubmit: u32,
    /// Field list of a requested recirculation; 0 for no request.
    pub recirculate: u32,
    /// Learn list of a requested digest; 0 for no request.
    pub digest: u32,
    /// Maximum length of the output frame in bytes (`truncate`); [`NOT_TRUNCATED`] for no limit.
    pub truncate: u64,
    /// Whether the packet has executed `exit`.
    pub exit: bool,
    /// Register and source location of each register access in the current gress (ingress or egress). Tofino allows one
    /// access per register, gress and packet.
    pub accessed: Vec<(u16, u16)>,
    /// Reason for which the packet must be dropped, if any.
    pub fault: Option<DropReason>,
    /// Texts of `log_msg` calls and failed assertions.
    pub logs: Vec<String>,
}

/// A clone requested by a clone primitive. A later call replaces the request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CloneRequest {
    /// Number of the clone session.
    pub session: u32,
    /// Number of the field list with the fields whose values the clone keeps.
    pub list: u32,
}

impl Default for Context {
    fn default() -> Context {
        Context {
            now: 0,
            number: 0,
            copy: 0,
            ingress_port: 0,
            ingress_length: 0,
            length: 0,
            clone: None,
            resubmit: 0,
            recirculate: 0,
            digest: 0,
            truncate: NOT_TRUNCATED,
            exit: false,
            accessed: Vec::new(),
            fault: None,
            logs: Vec::new(),
        }
    }
}

impl Context {
    /// Resets the context for a packet of `length` bytes from a port at the start of ingress.
    #[inline]
    pub fn start(&mut self, length: usize, ingress_port: u64, now: u64) {
        self.now = now;
        self.ingress_port = ingress_port;
        self.ingress_length = length;
        self.length = length as i64;
        self.clear_requests();
    }

    /// Copies the fields of another context one by one, and reuses the memory of its lists.
    pub fn copy_from(&mut self, other: &Context) {
        let Context {
            now,
            number,
            copy,
            ingress_port,
            ingress_length,
            length,
            clone,
            resubmit,
            recirculate,
            digest,
            truncate,
            exit,
            ref accessed,
            fault,
            ref logs,
        } = *other;
        self.now = now;
        self.number = number;
        self.copy = copy;
        self.ingress_port = ingress_port;
        self.ingress_length = ingress_length;
        self.length = length;
        self.clone = clone;
        self.resubmit = resubmit;
        self.recirculate = recirculate;
        self.digest = digest;
        self.truncate = truncate;
        self.exit = exit;
        self.fault = fault;
        // Most lists are empty, and even then a copy is a call.
        if !(self.accessed.is_empty() && accessed.is_empty()) {
            self.accessed.clone_from(accessed);
        }
        if !(self.logs.is_empty() && logs.is_empty()) {
            self.logs.clone_from(logs);
        }
    }

    /// Clears the requests of primitives (clone, resubmission, drop, ...) and the log messages.
    pub fn clear_requests(&mut self) {
        self.clone = None;
        self.resubmit = 0;
        self.recirculate = 0;
        self.digest = 0;
        self.truncate = NOT_TRUNCATED;
        self.exit = false;
        self.fault = None;
        self.logs.clear();
    }
}

/// Executes instructions from `pc` to `End`, or to a `Return` outside of an action.
pub(crate) fn run(
    program: &LoadedProgram,
    state: &mut State,
    drop_port: u32,
    phv: &mut [u64],
    rest: Rest,
    ctx: &mut Context,
    pc: Pc,
) {
    let vm = Interpreter::new(program, state, drop_port, rest, ctx);
    execute(vm, phv, pc);
}

/// Executes instructions from `pc`, as [`run`] does, from the state of an interpreter.
#[inline]
pub(crate) fn execute(mut vm: Interpreter, phv: &mut [u64], pc: Pc) {
    let code = &vm.program.code[..];
    // Remaining code; iterating is cheaper than indexing by pc.
    let mut next = code[pc as usize..].iter();
    macro_rules! vm {
        () => {
            vm
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
    // Continues at `$to`, which may be backward.
    macro_rules! jump {
        ($to:expr) => {{
            let to = $to as usize;
            if to < code.len() - next.len() && vm.is_endless() {
                return;
            }
            next = code[to..].iter();
            continue;
        }};
    }
    // Continues at an action.
    macro_rules! enter {
        ($to:expr) => {{
            next = code[$to as usize..].iter();
            continue;
        }};
    }
    // Skips instructions that the current one has fused.
    macro_rules! skip {
        ($n:expr) => {
            next = next.as_slice()[usize::from($n)..].iter()
        };
    }
    // Continues forward, `$n` instructions after the next one.
    macro_rules! forward {
        ($n:expr) => {{
            skip!($n);
            continue;
        }};
    }
    // The position of the next instruction.
    macro_rules! pc {
        () => {
            (code.len() - next.len()) as Pc
        };
    }
    macro_rules! read {
        ($d:expr, $array:expr, $i:expr) => {{
            vm.state.register_accesses += 1;
            if let Some(value) = vm.state.registers[usize::from($array)].get(w!($i)) {
                w!($d) = value;
            }
        }};
    }
    // Only frequent instructions are here, so that the loop's few variables stay in registers. `Interpreter::step`
    // executes the rare ones. They are listed by name: the jump table of an exhaustive match without `_` needs no range
    // check.
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
            while let Some(op) = next.next() {
                match *op {
                    $(FusedOp::$f $({ $($f_field),* })? => $f_run,)*
                    $(FusedOp::$x { $($x_field),* } => { $x_run })*
                    rare @ ($(FusedOp::$r { .. })|*) => {
                        if vm.step(phv, rare).is_err() {
                            return;
                        }
                    }
                }
            }
        };
    }
    for_each_op!(dispatch);
}

#[inline(always)]
fn shl(a: u64, b: u64) -> u64 {
    if b < 64 {
        a << b
    } else {
        0
    }
}

#[inline(always)]
fn shr(a: u64, b: u64) -> u64 {
    if b < 64 {
        a >> b
    } else {
        0
    }
}

/// Returns bits `low` to `low + bits - 1`. The loader guarantees `low < 64` and `1 <= bits <= 64`.
#[inline(always)]
pub(crate) fn field(a: u64, low: u8, bits: u8) -> u64 {
    a >> (low & 63) & u64::MAX >> (64u8.wrapping_sub(bits) & 63)
}

/// Returns bit `bit` of `(a >> low_a) - (b >> low_b)`, modulo 2^64.
#[inline(always)]
fn sub_bit(a: u64, low_a: u8, b: u64, low_b: u8, bit: u8) -> u64 {
    let difference = (a >> (low_a & 63)).wrapping_sub(b >> (low_b & 63));
    difference >> (bit & 63) & 1
}

/// State of the interpreter, except for the packet's words.
pub(crate) struct Interpreter<'a> {
    pub program: &'a LoadedProgram,
    pub state: &'a mut State,
    pub drop_port: u32,
    pub rest: Rest<'a>,
    pub ctx: &'a mut Context,
    /// Return address of the running action; `None` while no action runs.
    return_pc: Option<Pc>,
    steps: u32,
}

impl<'a> Interpreter<'a> {
    /// Creates an interpreter for code that is not an action.
    #[inline]
    pub fn new(
        program: &'a LoadedProgram,
        state: &'a mut State,
        drop_port: u32,
        rest: Rest<'a>,
        ctx: &'a mut Context,
    ) -> Interpreter<'a> {
        Interpreter {
            program,
            state,
            drop_port,
            rest,
            ctx,
            return_pc: None,
            steps: 0,
        }
    }

    /// Sets the return address of the running action, and the number of steps that are counted already.
    #[cfg(feature = "jit")]
    pub fn at(self, return_pc: Option<Pc>, steps: u32) -> Interpreter<'a> {
        Interpreter {
            return_pc,
            steps,
            ..self
        }
    }

    /// Counts a jump, call or table that could be part of a loop. Returns true beyond [`MAX_STEPS`]; the packet must be
    /// dropped then.
    #[inline(always)]
    fn is_endless(&mut self) -> bool {
        self.steps += 1;
        let endless = self.steps > MAX_STEPS;
        if endless {
            self.ctx.fault = Some(DropReason::EndlessLoop);
        }
        endless
    }
}

/// Evaluates a condition and returns its outcome. `code` computes the condition, if it is not a field; `slot` is the
/// word with the outcome.
#[inline]
pub(crate) fn test(
    program: &LoadedProgram,
    state: &mut State,
    phv: &mut [u64],
    ctx: &mut Context,
    (code, slot): (Option<Pc>, Slot),
) -> bool {
    if let Some(code) = code {
        run(program, state, 0, phv, Rest::NONE, ctx, code);
    }
    phv[usize::from(slot)] != 0
}
