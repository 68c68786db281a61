//! Objects with a control-plane name: actions, tables, externs and calculations.

use num_bigint::BigInt;

use crate::diag::Span;

use super::{
    ActionId, ActionProfileId, CalculationId, CounterId, Expr, FieldRef, HeaderId, MeterId,
    RegisterId, Scalar, Source, StructuredAnnotation, TableId, TypeSpec, UnionId,
};

/// Control-plane metadata of an object.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Fully qualified control-plane name, such as `ingress.ipv4.routes`.
    pub name: String,
    /// The number in `@id`; `None` without that annotation.
    pub id: Option<u32>,
    /// Whether the object is `@hidden` from the control plane.
    pub hidden: bool,
    /// Unstructured annotations as written, without `@name`, `@id` and documentation.
    pub annotations: Vec<String>,
    /// Structured annotations, `@name[...]`.
    pub structured: Vec<StructuredAnnotation>,
    /// Text of `@brief`; empty without it.
    pub brief: String,
    /// Text of `@description`; empty without it.
    pub description: String,
    /// Position of the declaration, for outputs.
    pub source: Source,
    /// Position of the declaration, for diagnostics.
    pub span: Span,
}

/// The declaration of an action that a table lists or a statement calls.
#[derive(Clone, Debug)]
pub struct Action {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Run-time parameters: those without a direction, which table entries set.
    pub params: Vec<Param>,
}

/// A run-time parameter of an action.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name in the program, which P4Info uses too.
    pub name: String,
    /// Type in the data plane.
    pub ty: Scalar,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` with which the parameter is declared; `None` for other types.
    pub type_name: Option<String>,
    /// The number in `@id`; `None` without that annotation.
    pub id: Option<u32>,
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations, `@name[...]`.
    pub structured: Vec<StructuredAnnotation>,
    /// Text of `@brief`; empty without it.
    pub brief: String,
    /// Text of `@description`; empty without it.
    pub description: String,
}

/// Match kind of a key, or of a field of a value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// `exact`: equality.
    Exact,
    /// `lpm`: longest prefix match.
    Lpm,
    /// `ternary`: equality under the entry's mask.
    Ternary,
    /// `range`: between the entry's bounds, inclusive.
    Range,
    /// `optional`: equality, or any value.
    Optional,
}

/// The value of the packet that a key element matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTarget {
    /// A field of a header or of metadata.
    Field(FieldRef),
    /// `isValid()` of a header: 1 if it is valid, else 0.
    Valid(HeaderId),
    /// `isValid()` of a header union: 1 if a member is valid, else 0.
    UnionValid(UnionId),
}

/// An element of a table's key. Elements of the match kind `selector` are in [`Selector::inputs`].
#[derive(Clone, Debug)]
pub struct Key {
    /// Control-plane name.
    pub name: String,
    /// The value that is matched.
    pub target: KeyTarget,
    /// Width of the value in bits.
    pub width: u32,
    /// Constant mask that the switch applies to the value before the comparison; `None` for all ones.
    pub mask: Option<BigInt>,
    /// The kind of comparison.
    pub kind: MatchKind,
    /// Whether the value is of type `int<W>`.
    pub signed: bool,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` with which the field is declared; `None` for other types.
    pub type_name: Option<String>,
    /// The number in `@id`; `None` without that annotation.
    pub id: Option<u32>,
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations, `@name[...]`.
    pub structured: Vec<StructuredAnnotation>,
    /// Text of `@brief`; empty without it.
    pub brief: String,
    /// Text of `@description`; empty without it.
    pub description: String,
}

#[cfg(test)]
impl Key {
    /// A key element of 8 bits with the match kind `kind`, for tests.
    pub fn of(kind: MatchKind) -> Key {
        Key {
            name: String::new(),
            target: KeyTarget::Valid(HeaderId(0)),
            width: 8,
            mask: None,
            kind,
            signed: false,
            control_width: 8,
            type_name: None,
            id: None,
            annotations: Vec::new(),
            structured: Vec::new(),
            brief: String::new(),
            description: String::new(),
        }
    }
}

/// The permitted uses of an action in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ActionScope {
    /// Allowed in entries and as the default action.
    #[default]
    TableAndDefault,
    /// Allowed only in entries: `@tableonly`.
    TableOnly,
    /// Allowed only as the default action: `@defaultonly`.
    DefaultOnly,
}

/// An element of a table's `actions` list.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// The listed action.
    pub action: ActionId,
    /// Permitted uses of the action in this table.
    pub scope: ActionScope,
    /// Unstructured annotations of the list element, as written.
    pub annotations: Vec<String>,
    /// Structured annotations of the list element.
    pub structured: Vec<StructuredAnnotation>,
}

/// The default action of a table, which runs on a miss.
#[derive(Clone, Debug)]
pub struct DefaultAction {
    /// The action to run.
    pub action: ActionId,
    /// Values of the action's run-time parameters, in the order of [`Action::params`].
    pub args: Vec<BigInt>,
    /// Whether the default action is declared `const`, so that the control plane cannot change it.
    pub constant: bool,
}

/// The value of one key element in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKey {
    /// For `exact`: the value.
    Exact(BigInt),
    /// For `lpm`: the value, and the prefix length in bits.
    Lpm(BigInt, u32),
    /// For `ternary`: the value and the mask. Also for `optional`, with a mask of all ones or of zero.
    Ternary(BigInt, BigInt),
    /// For `range`: the lower and the upper bound, inclusive.
    Range(BigInt, BigInt),
}

/// A table entry that the program declares in `entries`.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Values to match, in the order of [`Table::keys`].
    pub keys: Vec<EntryKey>,
    /// The action that runs on a hit.
    pub action: ActionId,
    /// Values of the action's run-time parameters, in the order of [`Action::params`].
    pub args: Vec<BigInt>,
    /// Priority for the switch, where the smallest number wins. See [`Table::ranked_entries`].
    pub priority: u32,
    /// Priority for P4Runtime, where the largest number wins and the minimum is 1.
    pub control_priority: i32,
    /// Whether this entry or the whole list is `const`.
    pub constant: bool,
    /// Position of the entry in the source.
    pub source: Source,
}

/// A match-action table that the program declares.
#[derive(Clone, Debug)]
pub struct Table {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Elements of the key, in the order of the program; empty for a table without a key.
    pub keys: Vec<Key>,
    /// The listed actions in the order of the program. A default action that the list lacks is last.
    pub actions: Vec<ActionRef>,
    /// The action that runs on a miss.
    pub default: DefaultAction,
    /// Maximum number of entries.
    pub size: u64,
    /// Whether the program sets the size.
    pub sized: bool,
    /// The entries that the program declares.
    pub entries: Vec<Entry>,
    /// Whether the list of entries is `const`, so that the control plane cannot write entries.
    pub const_entries: bool,
    /// Whether the switch priorities of the entries are their ranks, from 1; otherwise they are 2^31 - 1 minus the P4Runtime priority.
    pub ranked_entries: bool,
    /// The action profile or selector; `None` for a table whose entries hold their actions.
    pub implementation: Option<ActionProfileId>,
    /// The direct counter, if the table has one.
    pub counter: Option<CounterId>,
    /// The direct meter, if the table has one.
    pub meter: Option<MeterId>,
    /// Direct registers, with one cell per entry.
    pub direct_cells: Vec<DirectCells>,
    /// Whether entries may have an idle timeout: the table property `support_timeout`.
    pub support_timeout: bool,
    /// Partitions in SRAM for keys that are not all `exact` (algorithmic LPM or TCAM). `None` for other tables.
    pub algorithmic: Option<Partitions>,
}

impl Table {
    /// Default size of a table, as in p4c.
    pub const DEFAULT_SIZE: u64 = 1024;

    /// Whether entries need a priority because several may match a packet (P4Runtime § 9.1).
    pub fn needs_priority(&self) -> bool {
        self.keys.iter().any(|key| {
            matches!(
                key.kind,
                MatchKind::Ternary | MatchKind::Range | MatchKind::Optional
            )
        })
    }

    /// Creates a table without keys, actions and entries.
    pub fn new(meta: Meta) -> Table {
        Table {
            meta,
            keys: Vec::new(),
            actions: Vec::new(),
            default: DefaultAction {
                action: ActionId(0),
                args: Vec::new(),
                constant: false,
            },
            size: Table::DEFAULT_SIZE,
            sized: false,
            entries: Vec::new(),
            const_entries: false,
            ranked_entries: false,
            implementation: None,
            counter: None,
            meter: None,
            direct_cells: Vec::new(),
            support_timeout: false,
            algorithmic: None,
        }
    }
}

/// Division of a table into partitions. A lookup searches one partition, which an exact part of the key or a TCAM of
/// prefixes selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// Number of partitions.
    pub count: u64,
    /// TCAM prefixes per partition; 0 if the key selects the partition.
    pub subtrees: u64,
}

impl Partitions {
    /// The partitions of an `Alpm` without arguments.
    pub const ALPM: Partitions = Partitions {
        count: 1024,
        subtrees: 2,
    };
}

/// A hash or checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// CRC-32 of Ethernet.
    Crc32,
    /// A CRC with a 32-bit result, whose polynomial the control plane sets.
    Crc32Custom,
    /// CRC-16/ARC.
    Crc16,
    /// A CRC with a 16-bit result, whose polynomial the control plane sets.
    Crc16Custom,
    /// A random number, independent of the inputs.
    Random,
    /// The input bits as a number.
    Identity,
    /// The Internet checksum (RFC 1071).
    Csum16,
    /// The XOR of the input's 16-bit words.
    Xor16,
    /// A CRC with fixed parameters.
    Crc(CrcParameters),
}

/// Parameters of a CRC in the Rocksoft model. `polynomial`, `initial` and `final_xor` are numbers of `width` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParameters {
    /// Width of the result in bits.
    pub width: u32,
    /// Polynomial without its highest bit, not reflected.
    pub polynomial: u64,
    /// Initial remainder.
    pub initial: u64,
    /// Final XOR value.
    pub final_xor: u64,
    /// Whether input bytes and the remainder are reflected (least significant bit first).
    pub reflected: bool,
}

impl Algorithm {
    /// The algorithm's name for the switch.
    pub fn name(self) -> &'static str {
        match self {
            Algorithm::Crc32 => "crc32",
            Algorithm::Crc32Custom => "crc32_custom",
            Algorithm::Crc16 => "crc16",
            Algorithm::Crc16Custom => "crc16_custom",
            Algorithm::Random => "random",
            Algorithm::Identity => "identity",
            Algorithm::Csum16 => "csum16",
            Algorithm::Xor16 => "xor16",
            Algorithm::Crc(_) => "crc",
        }
    }

    /// Width of the result in bits; `None` if it is the destination's width.
    pub fn width(self) -> Option<u32> {
        match self {
            Algorithm::Crc32 | Algorithm::Crc32Custom => Some(32),
            Algorithm::Crc16 | Algorithm::Crc16Custom | Algorithm::Csum16 | Algorithm::Xor16 => {
                Some(16)
            }
            Algorithm::Crc(parameters) => Some(parameters.width),
            Algorithm::Random | Algorithm::Identity => None,
        }
    }
}

/// The hash by which an action selector selects a member of a group.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The hash function.
    pub algorithm: Algorithm,
    /// Inputs of the hash: the fields of the table's key elements with the match kind `selector`.
    pub inputs: Vec<FieldRef>,
    /// Whether flows keep their member when another member leaves the group.
    pub resilient: bool,
}

/// The quantity that a selector's `size` and `max_group_size` limit: `@selector_size_semantics`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeSemantics {
    /// `sum_of_weights`: the sum of the members' weights.
    SumOfWeights,
    /// `sum_of_members`: the number of members.
    SumOfMembers {
        /// Maximum weight of a member (`@max_member_weight`); 0 without that annotation.
        max_weight: u32,
    },
}

/// An action profile or, with a selector, an action selector.
#[derive(Clone, Debug)]
pub struct ActionProfile {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Maximum number of members.
    pub size: u64,
    /// Maximum size of a group (`@max_group_size`); 0 without that annotation.
    pub max_group_size: u32,
    /// Maximum number of groups; 0 if the program does not set it.
    pub groups: u64,
    /// The action profile that a selector uses, if the program declares it as an object of its own.
    pub members: Option<Meta>,
    /// Meaning of the sizes of an action selector; `None` if the program does not set it.
    pub semantics: Option<SizeSemantics>,
    /// How an action selector selects a member; `None` for an action profile. Set when the first table that uses the
    /// selector is compiled.
    pub selector: Option<Selector>,
    /// Tables whose `implementation` is this action profile or selector.
    pub tables: Vec<TableId>,
}

/// The quantity that a counter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterUnit {
    /// Number of packets.
    Packets,
    /// Bytes of the packets.
    Bytes,
    /// Packets and bytes, in one cell.
    Both,
}

/// A counter array, or the direct counter of a table.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Number of cells; 0 for a direct counter.
    pub size: u64,
    /// Name of the `type` with which the index is declared; `None` for other types.
    pub index_type: Option<String>,
    /// The counted quantity.
    pub unit: CounterUnit,
    /// Width of a cell in bits; of its byte count for [`CounterUnit::Both`]. Targets may have several widths.
    pub width: u32,
    /// Whether it is a direct counter, which has a cell for each entry of a table.
    pub direct: bool,
    /// The table of a direct counter; `None` for an array, or if no table uses the direct counter.
    pub table: Option<TableId>,
}

/// The quantity whose rate a meter measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeterUnit {
    /// Packets per second.
    Packets,
    /// Bytes per second.
    Bytes,
}

/// A meter array, or the direct meter of a table.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Number of cells; 0 for a direct meter.
    pub size: u64,
    /// Name of the `type` with which the index is declared; `None` for other types.
    pub index_type: Option<String>,
    /// The quantity whose rate is measured.
    pub unit: MeterUnit,
    /// Whether it is a direct meter, which has a cell for each entry of a table.
    pub direct: bool,
    /// The table of a direct meter; `None` for an array, or if no table uses the direct meter.
    pub table: Option<TableId>,
    /// Field in which a direct meter stores the packet's colour; `None` for an array.
    pub result: Option<FieldRef>,
    /// Field with the packet's previous colour, for a colour-aware direct meter.
    pub precolor: Option<FieldRef>,
}

/// A register array.
#[derive(Clone, Debug)]
pub struct Register {
    /// Control-plane name and annotations.
    pub meta: Meta,
    /// Number of cells.
    pub size: u64,
    /// Name of the `type` with which the index is declared; `None` for other types.
    pub index_type: Option<String>,
    /// Type of a cell.
    pub ty: Scalar,
    /// Initial value of all cells.
    pub initial: BigInt,
    /// Type of a cell for the control plane.
    pub type_spec: TypeSpec,
    /// Whether the control plane cannot access the register: the state of a filter, or a direct register.
    pub hidden: bool,
    /// The object of the program that the register implements.
    pub role: RegisterRole,
}

/// The object of a program that a register implements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RegisterRole {
    /// A register array.
    #[default]
    Array,
    /// A parameter of stateful ALUs, in a register of one cell.
    Parameter,
    /// A direct register of a table.
    Direct,
    /// Configurations of low-pass filters.
    Filter {
        /// Whether the filter has a state for each entry of a table.
        direct: bool,
    },
    /// States of low-pass filters.
    FilterState,
    /// Profiles of weighted random early detection.
    EarlyDetection {
        /// Whether the profile belongs to a table.
        direct: bool,
    },
}

/// A direct register: a register with a cell for each entry of a table.
#[derive(Clone, Copy, Debug)]
pub struct DirectCells {
    /// The register array with the cells.
    pub register: RegisterId,
    /// Field in which the switch stores the index of the hit entry.
    pub entry: FieldRef,
}

/// The table with metadata of the ports, which the ingress parser reads.
#[derive(Clone, Debug, PartialEq)]
pub struct PortMetadata {
    /// Name of the ingress parser.
    pub parser: String,
    /// Name of the parser's parameter with the intrinsic metadata of ingress.
    pub intrinsic: String,
    /// Type of the metadata of a port; `None` if the parser does not use them.
    pub type_spec: Option<TypeSpec>,
}

/// An input of a hash or checksum.
#[derive(Clone, Debug, PartialEq)]
pub enum CalculationInput {
    /// A field, which may be a `varbit`.
    Field(FieldRef),
    /// A constant.
    Constant {
        /// The value, non-negative.
        value: BigInt,
        /// Width in bits.
        width: u32,
    },
    /// The payload, preceded by all headers after the last header that the inputs name.
    Payload,
}

/// A hash or checksum with its inputs.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// The hash or checksum function.
    pub algorithm: Algorithm,
    /// Inputs, concatenated in this order.
    pub inputs: Vec<CalculationInput>,
    /// Position of the call in the source.
    pub source: Source,
}

/// A checksum that is verified or updated.
#[derive(Clone, Debug, PartialEq)]
pub struct Checksum {
    /// True if the checksum is verified after the parser; false if it is updated before the deparser.
    pub verify: bool,
    /// Condition under which the checksum is verified or updated.
    pub condition: Expr,
    /// The field that holds the checksum.
    pub target: FieldRef,
    /// The checksum function and its inputs.
    pub calculation: CalculationId,
    /// Position of the call in the source.
    pub source: Source,
}

/// A digest message and the fields with its values.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Metadata of the digest's struct type, whose name is the digest's name.
    pub meta: Meta,
    /// Fields with the values to send, in the order of the struct type.
    pub fields: Vec<FieldRef>,
    /// The struct type for the control plane.
    pub type_spec: TypeSpec,
}

/// Metadata fields that clone, resubmit or recirculate preserve, or that a mirrored packet carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldList {
    /// Name, for logs.
    pub name: String,
    /// The fields, in the order of declaration.
    pub fields: Vec<FieldRef>,
}

/// An instance of an extern object that the compiler does not know (`--emit-externs`).
#[derive(Clone, Debug)]
pub struct ExternInstance {
    /// Control-plane name of the instance.
    pub name: String,
    /// Name of the extern type.
    pub ty: String,
    /// Constructor arguments, each with the name of its parameter.
    pub attributes: Vec<(String, ExternAttribute)>,
    /// Position of the declaration in the source.
    pub source: Source,
}

/// A constructor argument of an [`ExternInstance`].
#[derive(Clone, Debug)]
pub enum ExternAttribute {
    /// A number, or a boolean as 0 or 1.
    Number(BigInt),
    /// A string, or the name of an enum's member.
    String(String),
}
