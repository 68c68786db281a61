//! The interpreter of compiled code.

use super::apply::apply;
use super::ops::{Op, Pc, Slot};
use super::words::wrap;
use crate::drop_reason::DropReason;
use crate::frame::Rest;
use crate::program::LoadedProgram;
use crate::state::State;

/// Limit of backward jumps, calls and table applications per packet and pipeline. Compilers do not create endless
/// programs, but a malformed one must not block the switch.
const MAX_STEPS: u32 = 100_000;

/// State of processing a packet that is not in P4 fields or temporaries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// Time in nanoseconds since the switch started.
    pub now: u64,
    /// Number of the packet in traces and the log.
    pub number: u64,
    /// Number of the packet's copy in traces and the log.
    pub copy: u32,
    /// Length of the received packet in bytes, used by counters and byte meters.
    pub ingress_length: usize,
    /// Current length in bytes, after headers were added and removed.
    pub length: i64,
    /// Requested clone, if any.
    pub clone: Option<CloneRequest>,
    /// Field list of a requested resubmission; 0 for no request.
    pub resubmit: u32,
    /// Field list of a requested recirculation; 0 for no request.
    pub recirculate: u32,
    /// Learn list of a requested digest; 0 for no request.
    pub digest: u32,
    /// Maximum length of the output frame in bytes (`truncate`); `None` for no limit.
    pub truncate: Option<u64>,
    /// Whether `exit` was executed.
    pub exit: bool,
    /// Register and source location of each access in the current gress (ingress or egress), for targets that allow one
    /// access per register.
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
    /// Field list whose fields the clone keeps.
    pub list: u32,
}

impl Context {
    /// Resets the context for a packet of `length` bytes at the start of ingress.
    pub fn start(&mut self, length: usize, now: u64) {
        self.now = now;
        self.ingress_length = length;
        self.length = length as i64;
        self.clear_requests();
    }

    /// Clears what primitives requested (clone, resubmission, drop, ...), and the log messages.
    pub fn clear_requests(&mut self) {
        self.clone = None;
        self.resubmit = 0;
        self.recirculate = 0;
        self.digest = 0;
        self.truncate = None;
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
    let mut vm = Interpreter {
        program,
        state,
        drop_port,
        rest,
        ctx,
        return_pc: None,
        steps: 0,
    };
    let code = &program.code[..];
    // Remaining code; iterating is cheaper than indexing by pc.
    let mut next = code[pc as usize..].iter();
    macro_rules! w {
        ($slot:expr) => {
            phv[$slot as usize]
        };
    }
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
    macro_rules! skip {
        ($n:expr) => {
            next = next.as_slice()[usize::from($n)..].iter()
        };
    }
    macro_rules! read {
        ($d:expr, $array:expr, $i:expr) => {
            vm.state.register_accesses += 1;
            if let Some(value) = vm.state.registers[usize::from($array)].get(w!($i)) {
                w!($d) = value;
            }
        };
    }
    // Only frequent instructions are here, so that the loop's few variables stay in registers. `Interpreter::step`
    // executes the others.
    while let Some(op) = next.next() {
        match *op {
            Op::Mov { d, a } => w!(d) = w!(a),
            Op::Mask { d, a, bits } => w!(d) = wrap(w!(a), u32::from(bits), false),
            Op::Add { d, a, b } => w!(d) = w!(a).wrapping_add(w!(b)),
            Op::Sub { d, a, b } => w!(d) = w!(a).wrapping_sub(w!(b)),
            Op::And { d, a, b } => w!(d) = w!(a) & w!(b),
            Op::Or { d, a, b } => w!(d) = w!(a) | w!(b),
            Op::Xor { d, a, b } => w!(d) = w!(a) ^ w!(b),
            Op::Shl { d, a, b } => w!(d) = shl(w!(a), w!(b)),
            Op::ShrU { d, a, b } => w!(d) = shr(w!(a), w!(b)),
            Op::Eq { d, a, b } => w!(d) = u64::from(w!(a) == w!(b)),
            Op::Ne { d, a, b } => w!(d) = u64::from(w!(a) != w!(b)),
            Op::LtU { d, a, b } => w!(d) = u64::from(w!(a) < w!(b)),
            Op::LeU { d, a, b } => w!(d) = u64::from(w!(a) <= w!(b)),
            Op::LtS { d, a, b } => w!(d) = u64::from((w!(a) as i64) < w!(b) as i64),
            Op::LeS { d, a, b } => w!(d) = u64::from(w!(a) as i64 <= w!(b) as i64),
            Op::Bits { d, a, low, bits } => w!(d) = field(w!(a), low, bits),
            Op::AddBits { d, a, b, bits } => w!(d) = field(w!(a).wrapping_add(w!(b)), 0, bits),
            Op::SubBits { d, a, b, bits } => w!(d) = field(w!(a).wrapping_sub(w!(b)), 0, bits),
            Op::Join {
                d,
                a,
                shift,
                b,
                low,
                bits,
            } => w!(d) = w!(a) << (shift & 63) | field(w!(b), low, bits),
            Op::SubBit {
                d,
                a,
                low_a,
                b,
                low_b,
                bit,
            } => w!(d) = sub_bit(w!(a), low_a, w!(b), low_b, bit),
            Op::AndEq { d, x, a, b } => w!(d) = w!(x) & u64::from(w!(a) == w!(b)),
            Op::AndNe { d, x, a, b } => w!(d) = w!(x) & u64::from(w!(a) != w!(b)),
            Op::OrEq { d, x, a, b } => w!(d) = w!(x) | u64::from(w!(a) == w!(b)),
            Op::OrNe { d, x, a, b } => w!(d) = w!(x) | u64::from(w!(a) != w!(b)),
            Op::Jump { to } => jump!(to),
            Op::JumpUnlessBits {
                a,
                low,
                bits,
                b,
                equal,
                to,
            } => {
                if (field(w!(a), low, bits) == w!(b)) != equal {
                    jump!(to);
                }
            }
            Op::JumpUnlessSubBit {
                a,
                low_a,
                b,
                low_b,
                bit,
                set,
                to,
            } => {
                if (sub_bit(w!(a), low_a, w!(b), low_b, bit) == 1) != set {
                    jump!(to);
                }
            }
            Op::JumpIfZero { a, to } => {
                if w!(a) == 0 {
                    jump!(to);
                }
            }
            Op::JumpUnlessEq { a, b, to } => {
                if w!(a) != w!(b) {
                    jump!(to);
                }
            }
            Op::JumpUnlessNe { a, b, to } => {
                if w!(a) == w!(b) {
                    jump!(to);
                }
            }
            Op::JumpIfNot { a, b, to, test } => {
                let (a, b) = (w!(a), w!(b));
                if !test.holds(a, b) {
                    jump!(to);
                }
            }
            Op::Mov2 { d, a, e, b } => {
                w!(d) = w!(a);
                w!(e) = w!(b);
                skip!(1u16);
            }
            Op::Mov3 { d, a, e, b, f, c } => {
                w!(d) = w!(a);
                w!(e) = w!(b);
                w!(f) = w!(c);
                skip!(2u16);
            }
            Op::Fill { d, a, n } => {
                let value = w!(a);
                let d = usize::from(d);
                phv[d..d + usize::from(n)].fill(value);
                skip!(n - 1);
            }
            Op::MovJump { d, a, to } => {
                w!(d) = w!(a);
                skip!(1u16);
                jump!(to);
            }
            Op::JumpPair {
                a,
                b,
                x,
                y,
                equal,
                to,
            } => {
                if (w!(a) == w!(b)) != equal[0] {
                    skip!(to[0]);
                    continue;
                }
                if (w!(x) == w!(y)) != equal[1] {
                    skip!(to[1]);
                    continue;
                }
                skip!(1u16);
            }
            Op::JumpElse {
                a,
                b,
                x,
                y,
                equal,
                to,
            } => {
                if (w!(a) == w!(b)) != equal[0] {
                    let holds = (w!(x) == w!(y)) == equal[1];
                    skip!(to[usize::from(!holds)]);
                    continue;
                }
            }
            Op::MovJumpUnless {
                d,
                a,
                x,
                y,
                equal,
                to,
            } => {
                w!(d) = w!(a);
                skip!(1u16);
                if (w!(x) == w!(y)) != equal {
                    jump!(to);
                }
            }
            Op::Bits2 {
                d,
                a,
                e,
                b,
                low,
                bits,
            } => {
                w!(d) = field(w!(a), low[0], bits[0]);
                w!(e) = field(w!(b), low[1], bits[1]);
                skip!(1u16);
            }
            Op::RegisterRead { d, array, i } => {
                read!(d, array, i);
            }
            Op::ReadJump {
                d,
                array,
                i,
                low_a,
                b,
                low_b,
                bit,
                set,
                to,
            } => {
                read!(d, array, i);
                if (sub_bit(w!(d), low_a, w!(b), low_b, bit) == 1) != set {
                    skip!(to);
                    continue;
                }
                skip!(1u16);
            }
            Op::RegisterWrite { array, i, a } => {
                vm.state.register_accesses += 1;
                vm.state.registers[usize::from(array)].set(w!(i), w!(a));
            }
            Op::Count { array, i } => {
                let cells = &mut vm.state.counters[usize::from(array)];
                if let Some(cell) = usize::try_from(w!(i)).ok().and_then(|i| cells.get_mut(i)) {
                    cell.count(vm.ctx.ingress_length);
                }
            }
            Op::Apply { table } => {
                if vm.is_endless() {
                    return;
                }
                let (action, after) = apply(&mut vm, phv, usize::from(table));
                match action {
                    Some(action) => {
                        vm.return_pc = Some(after);
                        next = code[action as usize..].iter();
                        continue;
                    }
                    None => jump!(after),
                }
            }
            Op::Call { action } => {
                if vm.is_endless() {
                    return;
                }
                vm.return_pc = Some((code.len() - next.len()) as Pc);
                next = code[program.actions[usize::from(action)].code as usize..].iter();
                continue;
            }
            Op::EndIfExit => {
                if vm.ctx.exit {
                    return;
                }
            }
            Op::Return => match vm.return_pc.take() {
                Some(_) if vm.ctx.exit => return,
                Some(after) => jump!(after),
                None => return,
            },
            Op::End => return,
            // Listed by name: the jump table of an exhaustive match without `_` needs no range check.
            rare @ (Op::Sext { .. }
            | Op::Mul { .. }
            | Op::Not { .. }
            | Op::ShrS { .. }
            | Op::DivU { .. }
            | Op::ModU { .. }
            | Op::UsatS { .. }
            | Op::UsatU { .. }
            | Op::SatS { .. }
            | Op::SatU { .. }
            | Op::Copy { .. }
            | Op::Big { .. }
            | Op::LoadElement { .. }
            | Op::StoreElement { .. }
            | Op::AddHeader { .. }
            | Op::RemoveHeader { .. }
            | Op::AssignHeader { .. }
            | Op::DynHeader { .. }
            | Op::HeaderEq { .. }
            | Op::UnionEq { .. }
            | Op::UnionValid { .. }
            | Op::AssignUnion { .. }
            | Op::AssignStack { .. }
            | Op::AssignUnionStack { .. }
            | Op::Push { .. }
            | Op::Pop { .. }
            | Op::AssignVl { .. }
            | Op::Meter { .. }
            | Op::Filter { .. }
            | Op::Hash { .. }
            | Op::Random { .. }
            | Op::MarkToDrop { .. }
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
            | Op::Note { .. }) => {
                if vm.step(phv, rare).is_err() {
                    return;
                }
            }
        }
    }
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

/// Returns a bit of the difference of two shifted numbers.
#[inline(always)]
fn sub_bit(a: u64, low_a: u8, b: u64, low_b: u8, bit: u8) -> u64 {
    let difference = (a >> (low_a & 63)).wrapping_sub(b >> (low_b & 63));
    difference >> (bit & 63) & 1
}

/// Interpreter state besides the packet's words.
pub(super) struct Interpreter<'a> {
    pub program: &'a LoadedProgram,
    pub state: &'a mut State,
    pub drop_port: u32,
    pub rest: Rest<'a>,
    pub ctx: &'a mut Context,
    /// Return address of the running action; `None` while no action runs.
    return_pc: Option<Pc>,
    steps: u32,
}

impl Interpreter<'_> {
    /// Counts a step that could be part of a loop. Returns true beyond the limit.
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

/// Evaluates a condition and returns its outcome: runs the code that computes its word, if there is any, and reads the
/// word.
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
