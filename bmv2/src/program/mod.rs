//! A loaded program: validated, with all names resolved, compiled to flat code.
//!
//! Everything here is immutable after loading and shared by `Arc`. The state that packets and the
//! control plane change is in `state::State`.

mod calculation;
mod intrinsic;
mod layout;
mod parser;
mod tofino;

use crate::exec::big::Big;
use crate::exec::node::{BigOp, Element, Node};
use crate::exec::ops::{Op, Pc, Slot};
use crate::numbers::number;
use crate::tables::{ActionRef, GroupLimits, NewEntry};
use alfirk_bmv2_json::{MatchType, MeterType, TableType};
use rustc_hash::FxHashMap;

pub(crate) use self::{
    calculation::{Calculation, Input, Joined},
    intrinsic::{EgressMetadata, IngressMetadata, Intrinsic, Meta, Queueing},
    layout::{
        DynHeader, DynHeaderOp, DynRef, Field, FieldPlan, Header, Layout, Place, Stack, Union,
        UnionStack, Varbit,
    },
    parser::{Case, CaseOn, Deparser, KeyPart, ParseState, Parser, ParserErrors, Step},
    tofino::{Chip, Front, Gress, Tofino},
};

/// A P4 program ready to run; see [`LoadedProgram::from_json`].
#[derive(Debug)]
pub struct LoadedProgram {
    pub(crate) code: Vec<Op>,
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
    /// What a program of the Tofino Native Architecture has instead of parser, controls and deparser of simple_switch.
    pub(crate) tofino: Option<Tofino>,
    /// Places in the source that access registers, for messages.
    pub(crate) access_sites: Vec<String>,
    /// What it writes to the log while it runs.
    pub(crate) notes: Vec<Note>,
}

impl LoadedProgram {
    /// The name of an error constant.
    pub(crate) fn error_name(&self, code: u64) -> String {
        let name = self.errors.iter().find(|(_, number)| *number == code);
        name.map_or_else(|| number(&[code]), |(name, _)| name.clone())
    }

    /// Error constants of the program, by name.
    pub fn errors(&self) -> &[(String, u64)] {
        &self.errors
    }
}

#[derive(Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub args: Vec<Node>,
}

/// What a program writes to the log while it runs, at its place in the code.
#[derive(Clone, Debug)]
pub(crate) enum Note {
    Text(String),
    RegisterRead { array: u16, i: Slot },
    RegisterWrite { array: u16, i: Slot },
    Count { array: u16, i: Slot },
    Meter { array: u16, i: Slot },
    Hash { base: Slot, max: Slot, value: Slot },
    Random { low: Slot, high: Slot, value: Slot },
}

#[derive(Debug)]
pub(crate) struct Checksum {
    pub name: String,
    pub calculation: u16,
    /// The word of the condition, and the code that fills it where it takes any.
    pub condition: Option<(Option<Pc>, Slot)>,
    pub header: u16,
    pub slot: Slot,
    pub bits: u32,
}

/// A field or constant kept by clone, resubmit or recirculate.
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
    /// Words of all arguments.
    pub words: usize,
    pub code: Pc,
}

#[derive(Clone, Debug)]
pub(crate) struct Param {
    pub name: String,
    pub bits: u32,
    /// First word after `Layout::params`.
    pub offset: usize,
}

#[derive(Debug)]
pub(crate) struct Table {
    pub name: String,
    pub kind: TableType,
    pub match_type: MatchType,
    pub keys: Vec<Key>,
    pub max_size: u64,
    pub with_counters: bool,
    pub support_timeout: bool,
    pub direct_meter: Option<DirectMeter>,
    pub direct_registers: Vec<DirectRegister>,
    /// Allowed actions and where each leads.
    pub actions: Vec<(u16, Pc)>,
    /// Where a hit leads, when that does not depend on the action.
    pub on_hit: Option<Pc>,
    pub on_miss: Option<Pc>,
    /// Where a miss without any action leads.
    pub on_nothing: Pc,
    pub profile: Option<u16>,
    pub default: Option<DefaultAction>,
    /// Entries of the program.
    pub entries: Vec<InitialEntry>,
    /// The control plane can add no entries, and change none.
    pub const_entries: bool,
    /// The entries of the program have their ranks as priorities, from 1, as in BMv2's own format.
    pub ranked: bool,
}

/// An entry of the program.
#[derive(Clone, Debug)]
pub(crate) struct InitialEntry {
    pub entry: NewEntry,
    /// The control plane cannot change it.
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
    /// The colour that the packet had before.
    pub precolor: Option<Slot>,
}

/// A register with a cell for each entry of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DirectRegister {
    pub array: u16,
    /// Where the number of the entry goes that a packet hits.
    pub slot: Slot,
}

#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub name: String,
    pub match_type: MatchType,
    pub slot: Slot,
    pub bits: u32,
    /// Always applied to the field, least significant word first.
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
    /// What all cells hold at first.
    pub initial: Big,
}

#[derive(Debug)]
pub(crate) struct CounterArray {
    pub name: String,
    pub size: usize,
    /// The table of a direct counter.
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
    /// How large groups may be as far as the program says.
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
    /// Entries need a priority: several may match one packet, and no prefix decides.
    pub fn has_priorities(&self) -> bool {
        matches!(
            self.match_type,
            MatchType::Ternary | MatchType::Range | MatchType::Optional
        )
    }

    /// Where a hit of `action` leads; none when the table does not have the action.
    pub fn next_on_hit(&self, action: u16) -> Option<Pc> {
        let next = self.actions.iter().find(|(a, _)| *a == action)?.1;
        Some(self.on_hit.unwrap_or(next))
    }

    /// Where a miss leads whose default action is `action`.
    pub fn next_on_miss(&self, action: u16) -> Option<Pc> {
        let next = self
            .actions
            .iter()
            .find(|(a, _)| *a == action)
            .map(|(_, next)| *next);
        self.on_miss.or(next)
    }

    /// The program's own default action.
    pub(crate) fn initial_default(&self, program: &LoadedProgram) -> Option<ActionRef> {
        let default = self.default.as_ref()?;
        Some(ActionRef {
            action: default.action,
            code: program.actions[usize::from(default.action)].code,
            next: self.next_on_miss(default.action).unwrap_or(self.on_nothing),
            args: default.args.iter().copied().collect(),
        })
    }
}
