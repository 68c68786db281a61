//! A loaded program: validated, with all names resolved, compiled to flat code.
//!
//! Everything here is immutable after loading and shared by `Arc`. The state that packets and the
//! control plane change is in `state::State`.

use crate::exec::big::Big;
use crate::exec::expr::{words_of, BigOp, Element};
use crate::exec::join::{Cut, Join};
use crate::exec::ops::{Op, Pc, Slot};
use crate::externs::hash::Calculation;
use crate::load::{self, LoadError};
use alfirk_bmv2_json::{BmV2Json, MatchType, MeterType, TableType};
use rustc_hash::FxHashMap;
use std::ops::Range;

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
    /// What it tells the log while it runs.
    pub(crate) notes: Vec<crate::steps::Note>,
}

impl LoadedProgram {
    /// Loads the text that `p4c-bm2-ss` (or `alfirk p4c`) wrote.
    ///
    /// # Errors
    /// Names what is wrong and where; see [`LoadError`]. No input makes it panic.
    pub fn from_json(text: &str) -> Result<LoadedProgram, LoadError> {
        LoadedProgram::from_typed(&BmV2Json::from_text(text)?)
    }

    /// Loads a program that is already in memory.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn from_typed(json: &BmV2Json) -> Result<LoadedProgram, LoadError> {
        load::load(json, false)
    }

    /// Loads a text with notes of its conditions and primitives, for [the log](crate::steps). It does the same,
    /// more slowly.
    ///
    /// # Errors
    /// As [`LoadedProgram::from_json`].
    pub fn with_notes(text: &str) -> Result<LoadedProgram, LoadError> {
        load::load(&BmV2Json::from_text(text)?, true)
    }

    /// The name of an error constant.
    pub(crate) fn error_name(&self, code: u64) -> String {
        let name = self.errors.iter().find(|(_, number)| *number == code);
        name.map_or_else(|| crate::trace::number(&[code]), |(name, _)| name.clone())
    }

    /// Error constants of the program, by name.
    pub fn errors(&self) -> &[(String, u64)] {
        &self.errors
    }
}

/// Where everything is in the packet's words.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    pub union_stacks: Vec<UnionStack>,
    /// Metadata is in front: words `0..metadata_end`.
    pub metadata_end: usize,
    /// Headers, validity bits and stack counters follow: all that belongs to a packet.
    pub state_end: usize,
    /// Large variable-length fields, by place. Behind what is in them all their words are zero, so that
    /// packets are copied and cleared without touching those.
    pub varbits: Vec<Varbit>,
    /// Arguments of the running action.
    pub params: Slot,
    /// The words at start: zeros, then the constants at their places.
    pub initial: Vec<u64>,
}

impl Layout {
    /// Makes a packet's state zero.
    pub fn clear(&self, words: &mut [u64]) {
        let mut at = 0;
        for varbit in &self.varbits {
            let used = varbit.used(words);
            words[at..used.end].fill(0);
            at = varbit.words().end;
        }
        words[at..self.state_end].fill(0);
    }

    /// Copies a packet's state to another packet's words.
    pub fn copy(&self, from: &[u64], to: &mut [u64]) {
        let mut at = 0;
        for varbit in &self.varbits {
            let (used, old) = (varbit.used(from).end, varbit.used(to).end);
            to[at..used].copy_from_slice(&from[at..used]);
            if old > used {
                to[used..old].fill(0);
            }
            at = varbit.words().end;
        }
        to[at..self.state_end].copy_from_slice(&from[at..self.state_end]);
    }
}

/// A header instance. Its words are contiguous: validity, then the fields.
#[derive(Debug)]
pub(crate) struct Header {
    pub name: String,
    pub type_id: usize,
    pub metadata: bool,
    /// Word of the validity bit. Metadata is always valid and has none.
    pub valid: Slot,
    /// First and one past the last word of the fields.
    pub start: Slot,
    pub end: Slot,
    pub fields: Vec<Field>,
    /// Bytes on the wire without the variable-length field.
    pub bytes: usize,
    pub varbit: Option<Varbit>,
    pub union: Option<u16>,
    pub plan: Vec<FieldPlan>,
    /// The same in chunks of eight bytes, for writing and reading. None with a variable-length
    /// field; reading may have none besides.
    pub join: Option<Join>,
    pub cut: Option<Cut>,
    /// Fields fill whole bytes: the header can be extracted and emitted.
    pub whole_bytes: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    pub slot: Slot,
    /// For a varbit the greatest width.
    pub bits: u32,
    pub signed: bool,
    pub varbit: bool,
}

/// The variable-length field of a header.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Varbit {
    pub slot: Slot,
    pub max_bits: u32,
    /// Word with the present length in bits.
    pub length: Slot,
}

impl Varbit {
    /// All words that it may take.
    pub fn words(&self) -> Range<usize> {
        let start = usize::from(self.slot);
        start..start + words_of(self.max_bits)
    }

    /// The words that it takes in a packet.
    pub fn used(&self, words: &[u64]) -> Range<usize> {
        let all = self.words();
        let bits = words[usize::from(self.length)].min(u64::from(self.max_bits));
        all.start..all.start + words_of(bits as u32)
    }
}

/// How one field lies on the wire. Offsets after a varbit are those with an empty varbit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldPlan {
    pub slot: Slot,
    pub bits: u32,
    pub signed: bool,
    /// The field is the varbit, or comes after it.
    pub place: Place,
    pub offset: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Fixed,
    Varbit,
    AfterVarbit,
}

#[derive(Debug)]
pub(crate) struct Stack {
    pub headers: Vec<u16>,
    /// Words from one element to the next.
    pub stride: usize,
    /// First word of element 0 (its validity).
    pub start: usize,
    /// Word with the index of the next element.
    pub next: Slot,
}

#[derive(Debug)]
pub(crate) struct Union {
    pub name: String,
    pub headers: Vec<u16>,
}

#[derive(Debug)]
pub(crate) struct UnionStack {
    pub unions: Vec<u16>,
    pub stride: usize,
    pub start: usize,
    pub next: Slot,
}

/// A header operation whose operands are elements at indexes known only at run time.
#[derive(Clone, Debug)]
pub(crate) struct DynHeader {
    pub op: DynHeaderOp,
    pub dest: DynRef,
    pub source: Option<DynRef>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DynHeaderOp {
    Add,
    Remove,
    Assign,
}

/// Candidates, and the word that picks one. A plain header has one candidate and no word.
#[derive(Clone, Debug)]
pub(crate) struct DynRef {
    pub headers: Vec<u16>,
    pub index: Option<Slot>,
}

#[derive(Debug)]
pub(crate) struct LogMessage {
    pub format: String,
    pub args: Vec<crate::exec::expr::Node>,
}

#[derive(Debug, Default)]
pub(crate) struct Parser {
    pub start: Option<u16>,
    pub states: Vec<ParseState>,
    pub errors: ParserErrors,
}

/// Numbers of the core library's errors in this program.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ParserErrors {
    pub no_error: u64,
    pub packet_too_short: u64,
    pub stack_out_of_bounds: u64,
    pub header_too_short: u64,
    pub parser_timeout: u64,
    pub parser_invalid_argument: u64,
}

#[derive(Debug, Default)]
pub(crate) struct ParseState {
    pub name: String,
    pub steps: Vec<Step>,
    pub key: Vec<KeyPart>,
    /// Bytes of the key; each part is padded to whole bytes.
    pub key_bytes: usize,
    /// Bytes that lookaheads in the key need.
    pub lookahead_bytes: usize,
    pub cases: Vec<Case>,
    pub default: Option<u16>,
}

/// A statement of the parser. Expressions are code that ends in `Return` and leaves its result
/// in a word.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Extract {
        header: u16,
    },
    ExtractVl {
        header: u16,
        code: Pc,
        bits: Slot,
    },
    /// The length depends on the header's own first fields (P4_14).
    ExtractOwnVl {
        header: u16,
        code: Pc,
        bits: Slot,
    },
    ExtractStack {
        stack: u16,
    },
    ExtractStackVl {
        stack: u16,
        code: Pc,
        bits: Slot,
    },
    ExtractUnionStack {
        stack: u16,
        member: u16,
    },
    ExtractUnionStackVl {
        stack: u16,
        member: u16,
        code: Pc,
        bits: Slot,
    },
    /// Assignments and primitives.
    Code {
        code: Pc,
    },
    Lookahead {
        offset: u32,
        bits: u32,
        slot: Slot,
        field_bits: u32,
        signed: bool,
    },
    Verify {
        code: Pc,
        cond: Slot,
        error: Slot,
    },
    Shift {
        bytes: u32,
    },
    Advance {
        code: Pc,
        bits: Slot,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum KeyPart {
    Field {
        slot: Slot,
        bits: u32,
    },
    /// A field of the last element, by its offset from the element's start.
    StackLast {
        stack: u16,
        offset: u16,
        bits: u32,
    },
    UnionStackLast {
        stack: u16,
        offset: u16,
        bits: u32,
    },
    Lookahead {
        offset: u32,
        bits: u32,
    },
}

impl KeyPart {
    pub fn bits(&self) -> u32 {
        match *self {
            KeyPart::Field { bits, .. }
            | KeyPart::StackLast { bits, .. }
            | KeyPart::UnionStackLast { bits, .. }
            | KeyPart::Lookahead { bits, .. } => bits,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Case {
    pub on: CaseOn,
    pub next: Option<u16>,
}

#[derive(Debug)]
pub(crate) enum CaseOn {
    /// Keys of up to 8 bytes.
    Word {
        value: u64,
        mask: u64,
    },
    Bytes {
        value: Vec<u8>,
        mask: Vec<u8>,
    },
    Set {
        set: u16,
        mask: Option<Vec<u8>>,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Deparser {
    pub order: Vec<u16>,
    /// Bytes of all of them, at their longest.
    pub max_bytes: usize,
    /// Primitives of the deparser.
    pub code: Option<Pc>,
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

/// The chip that a program of the Tofino Native Architecture is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chip {
    Tofino,
    Tofino2,
}

/// A program of the Tofino Native Architecture.
#[derive(Debug)]
pub(crate) struct Tofino {
    pub chip: Chip,
    pub ingress: Gress,
    pub egress: Gress,
    pub ingress_metadata: IngressMetadata,
    pub egress_metadata: EgressMetadata,
    /// Field lists as bytes in front of mirrored and resubmitted packets.
    pub fronts: FxHashMap<u32, Front>,
}

/// Ingress or egress.
#[derive(Debug)]
pub(crate) struct Gress {
    pub parser: Parser,
    pub control: Pc,
    /// What the deparser does besides emitting headers.
    pub deparse: Pc,
    pub deparser: Deparser,
}

/// Fields side by side.
#[derive(Debug)]
pub(crate) struct Front {
    pub bytes: usize,
    pub join: Join,
}

/// Intrinsic metadata of ingress, where the program has it.
#[derive(Clone, Debug)]
pub(crate) struct IngressMetadata {
    /// What stands in front of a packet at the parser.
    pub header: Option<u16>,
    pub ingress_port: Option<Meta>,
    pub resubmit_flag: Option<Meta>,
    pub mac_tstamp: Option<Meta>,
    pub global_tstamp: Option<Meta>,
    /// None where the program does not read it: packets with errors are dropped then.
    pub parser_err: Option<Meta>,
    pub drop_ctl: Option<Meta>,
    pub ucast_egress_port: Option<Meta>,
    pub bypass_egress: Option<Meta>,
    pub qid: Option<Meta>,
    pub copy_to_cpu: Option<Meta>,
    pub mcast_grp_a: Option<Meta>,
    pub mcast_grp_b: Option<Meta>,
    pub level1_exclusion_id: Option<Meta>,
    pub level2_exclusion_id: Option<Meta>,
    pub rid: Option<Meta>,
}

/// Intrinsic metadata of egress, where the program has it.
#[derive(Clone, Debug)]
pub(crate) struct EgressMetadata {
    pub header: Option<u16>,
    pub egress_port: Option<Meta>,
    pub enq_qdepth: Option<Meta>,
    pub enq_tstamp: Option<Meta>,
    pub deq_qdepth: Option<Meta>,
    pub deq_timedelta: Option<Meta>,
    pub egress_rid: Option<Meta>,
    pub egress_qid: Option<Meta>,
    pub pkt_length: Option<Meta>,
    pub global_tstamp: Option<Meta>,
    pub parser_err: Option<Meta>,
    pub drop_ctl: Option<Meta>,
}

#[derive(Debug)]
pub(crate) struct LearnList {
    pub name: String,
    pub items: Vec<crate::exec::expr::Node>,
    pub bits: Vec<u32>,
}

/// Words of the fields that the architecture reads and writes, where the program has them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Intrinsic {
    pub ingress_port: Option<Meta>,
    pub packet_length: Option<Meta>,
    pub instance_type: Option<Meta>,
    pub egress_spec: Option<Meta>,
    pub egress_port: Option<Meta>,
    pub parser_error: Option<Meta>,
    pub checksum_error: Option<Meta>,
    pub ingress_global_timestamp: Option<Meta>,
    pub egress_global_timestamp: Option<Meta>,
    pub mcast_grp: Option<Meta>,
    pub egress_rid: Option<Meta>,
    pub priority: Option<Meta>,
    pub queueing: Option<Queueing>,
    pub qid: Option<Meta>,
}

/// BMv2 fills these only when a program declares all four.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queueing {
    pub enq_timestamp: Meta,
    pub enq_qdepth: Meta,
    pub deq_timedelta: Meta,
    pub deq_qdepth: Meta,
}

/// A metadata field of at most 64 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Meta {
    pub slot: Slot,
    pub mask: u64,
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
    /// Allowed actions and where each leads.
    pub actions: Vec<(u16, Pc)>,
    /// Where a hit leads, when that does not depend on the action.
    pub on_hit: Option<Pc>,
    pub on_miss: Option<Pc>,
    /// Where a miss without any action leads.
    pub on_nothing: Pc,
    pub profile: Option<u16>,
    pub default: Option<DefaultAction>,
    /// Entries of the program; the table cannot be changed then.
    pub entries: Option<Vec<crate::tables::NewEntry>>,
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
    pub(crate) fn initial_default(
        &self,
        program: &LoadedProgram,
    ) -> Option<crate::tables::ActionRef> {
        let default = self.default.as_ref()?;
        Some(crate::tables::ActionRef {
            action: default.action,
            code: program.actions[usize::from(default.action)].code,
            next: self.next_on_miss(default.action).unwrap_or(self.on_nothing),
            args: default.args.iter().copied().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Two varbits of 20 and 10 words between other words, 40 in all.
    fn layout() -> Layout {
        let varbit = |slot, max_bits, length| Varbit {
            slot,
            max_bits,
            length,
        };
        Layout {
            varbits: vec![varbit(2, 1280, 22), varbit(25, 640, 35)],
            state_end: 38,
            ..Layout::default()
        }
    }

    prop_compose! {
        /// A packet's words, with so much in its varbits, and two words behind its state.
        fn packet()(
            words in proptest::collection::vec(1u64.., 40),
            lengths in (0u64..=1280, 0u64..=640),
        ) -> Vec<u64> {
            let mut words = words;
            words[22] = lengths.0 / 8 * 8;
            words[35] = lengths.1 / 8 * 8;
            for varbit in layout().varbits {
                let unused = varbit.used(&words).end..varbit.words().end;
                words[unused].fill(0);
            }
            words
        }
    }

    proptest! {
        #[test]
        fn packets_are_copied_and_cleared_whole(from in packet(), to in packet()) {
            let (layout, mut words) = (layout(), to.clone());
            layout.copy(&from, &mut words);
            prop_assert_eq!(&words[..38], &from[..38]);
            prop_assert_eq!(&words[38..], &to[38..]);
            layout.clear(&mut words);
            prop_assert!(words[..38].iter().all(|word| *word == 0));
            prop_assert_eq!(&words[38..], &to[38..]);
        }
    }
}
