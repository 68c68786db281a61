//! A loaded program: validated, with all names resolved, compiled to flat code.
//!
//! A program is immutable and shared by `Arc`. `state::State` holds the state that packets and the control plane
//! change.

mod calculation;
mod intrinsic;
mod layout;
mod listing;
mod notes;
mod parser;
mod tofino;

use crate::coverage::Sites;
use crate::exec::big::Big;
use crate::exec::node::{BigOp, Element, Node};
#[cfg(feature = "jit")]
use crate::exec::ops::Op;
use crate::exec::ops::{FusedOp, Pc, Slot};
use crate::externs::register::Register;
use crate::jit::Compiled;
use crate::numbers::number;
use crate::tables::{ActionRef, GroupLimits, NewEntry};
use crate::trace::Source;
use alfirk_bmv2_json::{MatchType, MeterType, TableType};
use rustc_hash::FxHashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

pub(crate) use self::{
    calculation::{Calculation, Input, JoinedInputs},
    intrinsic::{
        EgressMetadata, EgressValues, IngressMetadata, IngressValues, Intrinsic, Meta, Queueing,
    },
    layout::{
        Blocks, DynHeader, DynHeaderOp, DynRef, Field, FieldPlan, Header, Layout, LiveWords, Place,
        RestoredWords, Stack, Union, UnionStack, Varbit,
    },
    listing::Listing,
    notes::{source, Note},
    parser::{Case, CaseOn, Deparser, KeyPart, ParseState, Parser, ParserErrors, ParserStep},
    tofino::{Chip, Front, Gress, Tofino},
};

/// Header of BMv2 JSON in which the compiler keeps local variables and metadata.
pub(crate) const SCALARS: &str = "scalars";
/// Beginning of the names of fields of the user-defined metadata in [`SCALARS`].
pub(crate) const USER_METADATA: &str = "userMetadata.";

/// A P4 program ready to run; see [`LoadedProgram::from_json`].
#[derive(Debug)]
pub struct LoadedProgram {
    pub(crate) code: Vec<FusedOp>,
    /// The code before fusion, from which machine code is compiled.
    #[cfg(feature = "jit")]
    pub(crate) ops: Vec<Op>,
    /// Words that hold constants, with their values.
    #[cfg(feature = "jit")]
    pub(crate) constants: FxHashMap<Slot, u64>,
    /// Machine code of the program, after [`LoadedProgram::compile`].
    pub(crate) compiled: OnceLock<Result<Compiled, CompileError>>,
    /// When and by what the program is compiled, after [`LoadedProgram::compile_after`].
    pub(crate) tier_up: OnceLock<TierUp>,
    pub(crate) layout: Layout,
    pub(crate) bigs: Vec<BigOp>,
    pub(crate) elements: Vec<Element>,
    pub(crate) dyn_headers: Vec<DynHeader>,
    pub(crate) logs: Vec<LogMessage>,
    pub(crate) asserts: Vec<String>,
    pub(crate) parser: Parser,
    pub(crate) ingress: Pc,
    pub(crate) egress: Pc,
    pub(crate) deparser: Deparser,
    pub(crate) verify: Vec<Checksum>,
    pub(crate) update: Vec<Checksum>,
    pub(crate) calculations: Vec<Calculation>,
    pub(crate) field_lists: FxHashMap<u32, Vec<ListItem>>,
    pub(crate) learn_lists: FxHashMap<u32, LearnList>,
    pub(crate) intrinsic: Intrinsic,
    pub(crate) actions: Vec<Action>,
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) registers: Vec<RegisterArray>,
    pub(crate) counters: Vec<CounterArray>,
    pub(crate) meters: Vec<MeterArray>,
    pub(crate) vsets: Vec<ValueSet>,
    pub(crate) errors: Vec<(String, u64)>,
    /// Parsers, controls and deparsers of a program for the Tofino Native Architecture; `None` for other programs.
    pub(crate) tofino: Option<Tofino>,
    /// Source locations of register accesses, for messages.
    pub(crate) access_sites: Vec<String>,
    /// Notes for traces and the log; empty unless the program was loaded with notes.
    pub(crate) notes: Vec<Note>,
    /// What is counted for coverage; empty unless the program was loaded for it.
    pub(crate) sites: Sites,
    /// Name that the P4 source gives to the user-defined metadata, if a statement of the program shows it.
    pub(crate) metadata_name: Option<String>,
}

impl LoadedProgram {
    /// Returns the name of the P4 error constant with this number.
    pub(crate) fn error_name(&self, code: u64) -> String {
        let name = self.errors.iter().find(|(_, number)| *number == code);
        name.map_or_else(|| number(&[code]), |(name, _)| name.clone())
    }

    /// Returns the name of a field for people. The compiler keeps local variables in the header `scalars`, and there also
    /// the user-defined metadata, under the name `userMetadata`; the P4 source has neither name.
    pub(crate) fn source_name(&self, header: &str, field: &str) -> String {
        if header != SCALARS {
            return format!("{header}.{field}");
        }
        match (field.strip_prefix(USER_METADATA), &self.metadata_name) {
            (Some(field), Some(name)) => format!("{name}.{field}"),
            _ => field.to_owned(),
        }
    }

    /// Compiles the program to machine code, unless this was done before. Switches that run the program use the machine code
    /// from then on, as their [`Engine`](crate::Engine) permits.
    ///
    /// This takes milliseconds. Another thread may do it while switches process packets: the results are the same.
    ///
    /// # Errors
    /// Without the feature `jit`, and on processors for which there is no compiler. The program can still be interpreted.
    pub fn compile(&self) -> Result<(), CompileError> {
        let compiled = self.compiled.get_or_init(|| Compiled::new(self));
        compiled.as_ref().map(|_| ()).map_err(Clone::clone)
    }

    /// Calls `compile` once, when the switches with this program have interpreted about this number of packets together; ingress
    /// and egress count separately. Short runs are then spared the time of a compilation that they would not profit from.
    /// `compile` calls [`LoadedProgram::compile`], now or in another thread.
    pub fn compile_after(&self, packets: u32, compile: fn(Arc<LoadedProgram>)) {
        // A second call has no effect: the program's users share one rule.
        let _ = self.tier_up.set(TierUp {
            packets,
            compile,
            interpreted: AtomicU32::new(0),
            is_due: AtomicBool::new(true),
        });
    }

    /// Returns the program's machine code, if there is some. Otherwise counts a packet in `interpreted`, the number of packets
    /// that the switch has interpreted.
    #[inline]
    pub(crate) fn compiled_for(self: &Arc<Self>, interpreted: &mut u32) -> Option<&Compiled> {
        let compiled = self.compiled();
        if compiled.is_none() {
            *interpreted = interpreted.wrapping_add(1);
            if *interpreted % TIER_UP_STEP == 0 {
                self.add_interpreted();
            }
        }
        compiled
    }

    /// Counts [`TIER_UP_STEP`] packets that a switch has interpreted, and has the program compiled if they are enough.
    #[cold]
    fn add_interpreted(self: &Arc<Self>) {
        let Some(tier_up) = self.tier_up.get() else {
            return;
        };
        let before = tier_up
            .interpreted
            .fetch_add(TIER_UP_STEP, Ordering::Relaxed);
        let is_enough = before.saturating_add(TIER_UP_STEP) >= tier_up.packets;
        if is_enough && tier_up.is_due.swap(false, Ordering::Relaxed) {
            (tier_up.compile)(self.clone());
        }
    }

    /// Returns the program's machine code, if there is some.
    #[inline]
    pub(crate) fn compiled(&self) -> Option<&Compiled> {
        self.compiled.get()?.as_ref().ok()
    }

    /// Returns name and number of each error constant of the program.
    pub fn errors(&self) -> &[(String, u64)] {
        &self.errors
    }
}

/// Number of packets after which a switch adds them to the number of all switches.
const TIER_UP_STEP: u32 = 256;

/// When a program is compiled: after some packets.
#[derive(Debug)]
pub(crate) struct TierUp {
    /// Number of packets after which the program is compiled.
    packets: u32,
    /// Number of packets that the switches with this program have interpreted together, in steps of [`TIER_UP_STEP`].
    interpreted: AtomicU32,
    /// Compiles the program.
    compile: fn(Arc<LoadedProgram>),
    /// Whether no switch has begun the compilation yet.
    is_due: AtomicBool,
}

/// Reason why a program has no machine code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the program cannot be compiled to machine code: {0}")]
pub struct CompileError(String);

impl CompileError {
    pub(crate) fn new(reason: impl Into<String>) -> CompileError {
        CompileError(reason.into())
    }
}

#[derive(Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub args: Vec<Node>,
}

#[derive(Debug)]
pub(crate) struct Checksum {
    pub name: String,
    pub calculation: u16,
    /// Condition under which the checksum is verified or updated: the code that computes it, if any, and its word.
    /// `None` for an unconditional checksum.
    pub condition: Option<(Option<Pc>, Slot)>,
    pub header: u16,
    pub slot: Slot,
    pub bits: u32,
}

/// A field, or a constant, whose value a clone, resubmitted or recirculated packet keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ListItem {
    pub slot: Slot,
    pub words: u16,
}

#[derive(Debug)]
pub(crate) struct LearnList {
    pub name: String,
    pub items: Vec<Node>,
    pub bits: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub name: String,
    pub id: i64,
    pub params: Vec<Param>,
    /// Number of 64-bit words of all parameters together.
    pub words: usize,
    pub code: Pc,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub name: String,
    pub bits: u32,
    /// Index of the parameter's first word, counted from `Layout::params`.
    pub offset: usize,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub name: String,
    pub kind: TableType,
    pub match_type: MatchType,
    pub keys: Vec<Key>,
    /// Declaration of the table in the P4 source, if the program names it.
    pub source: Option<Source>,
    pub max_size: u64,
    pub with_counters: bool,
    pub support_timeout: bool,
    pub direct_meter: Option<DirectMeter>,
    pub direct_registers: Vec<DirectRegister>,
    /// Actions that entries may have, each with the next instruction after it.
    pub actions: Vec<(u16, Pc)>,
    /// Next instruction after a hit, if it is the same for all actions.
    pub on_hit: Option<Pc>,
    pub on_miss: Option<Pc>,
    /// Next instruction after a miss, if the table has no default action.
    pub after_miss: Pc,
    pub profile: Option<u16>,
    pub default: Option<DefaultAction>,
    /// Entries that the program defines.
    pub entries: Vec<InitialEntry>,
    /// Whether the control plane can neither add nor change entries.
    pub const_entries: bool,
    /// First counter of the table's coverage; the others follow, by result ([`crate::coverage::table_counter`]).
    pub coverage: Option<u32>,
    /// Whether the priorities of the program's entries are ranks from 1, as in BMv2's own format.
    pub ranked: bool,
}

#[cfg(feature = "jit")]
impl Table {
    /// Returns whether a lookup does nothing but count the hit and choose an action.
    pub fn is_plain(&self) -> bool {
        self.profile.is_none()
            && self.direct_meter.is_none()
            && self.direct_registers.is_empty()
            && self.coverage.is_none()
    }
}

/// A table entry that the program defines.
#[derive(Clone, Debug)]
pub(crate) struct InitialEntry {
    pub entry: NewEntry,
    /// Whether the control plane cannot change the entry.
    pub is_const: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct DefaultAction {
    pub action: u16,
    pub args: Vec<u64>,
    pub action_const: bool,
    pub entry_const: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectMeter {
    pub slot: Slot,
    pub bits: u32,
    pub kind: MeterType,
    /// Word of the packet's previous colour; `None` if the meter does not consider it.
    pub precolor: Option<Slot>,
}

/// A direct register: one cell per entry of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectRegister {
    pub array: u16,
    /// Word that receives the index of the entry that matched.
    pub slot: Slot,
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub name: String,
    pub match_type: MatchType,
    pub slot: Slot,
    pub bits: u32,
    /// Mask that is always applied to the field, least significant word first; `None` for no mask.
    pub mask: Option<Vec<u64>>,
}

#[derive(Debug)]
pub(crate) struct Profile {
    pub name: String,
    pub max_size: u64,
    pub selector: Option<Calculation>,
}

#[derive(Debug)]
pub(crate) struct RegisterArray {
    pub name: String,
    pub size: usize,
    pub bits: u32,
    /// Initial value of all cells of the array.
    pub initial: Big,
}

impl RegisterArray {
    /// Sets all cells to their initial value.
    pub(crate) fn reset(&self, register: &mut Register) {
        register.clear();
        if !self.initial.is_zero() {
            (0..self.size as u64).for_each(|cell| register.write(cell, &self.initial));
        }
    }
}

#[derive(Debug)]
pub(crate) struct CounterArray {
    pub name: String,
    pub size: usize,
    /// The table of a direct counter; `None` for an indirect one.
    pub table: Option<u16>,
}

#[derive(Debug)]
pub(crate) struct MeterArray {
    pub name: String,
    pub size: usize,
    pub kind: MeterType,
    pub table: Option<u16>,
}

#[derive(Debug)]
pub(crate) struct ValueSet {
    pub name: String,
    pub bits: u32,
    pub max_size: Option<u64>,
}

impl Profile {
    /// Returns the limits of the selector's group sizes that the program defines.
    pub fn group_limits(&self) -> GroupLimits {
        GroupLimits {
            size: match self.selector {
                Some(_) => self.max_size,
                None => 0,
            },
            ..GroupLimits::default()
        }
    }
}

impl Table {
    /// Returns whether the table's entries have priorities, since several may match one packet and prefix lengths do
    /// not decide.
    pub fn has_priorities(&self) -> bool {
        matches!(
            self.match_type,
            MatchType::Ternary | MatchType::Range | MatchType::Optional
        )
    }

    /// Returns the next instruction after a hit of `action`; `None` when the table does not have the action.
    pub fn next_on_hit(&self, action: u16) -> Option<Pc> {
        let next = self.actions.iter().find(|(a, _)| *a == action)?.1;
        Some(self.on_hit.unwrap_or(next))
    }

    /// Returns the next instruction after a miss with the default action `action`.
    pub fn next_on_miss(&self, action: u16) -> Option<Pc> {
        let next = self
            .actions
            .iter()
            .find(|(a, _)| *a == action)
            .map(|(_, next)| *next);
        self.on_miss.or(next)
    }

    /// Returns the default action that the program defines; `None` if it defines none.
    pub(crate) fn initial_default(&self, program: &LoadedProgram) -> Option<ActionRef> {
        let default = self.default.as_ref()?;
        Some(ActionRef {
            action: default.action,
            code: program.actions[usize::from(default.action)].code,
            next: self.next_on_miss(default.action).unwrap_or(self.after_miss),
            args: default.args.iter().copied().collect(),
        })
    }
}
