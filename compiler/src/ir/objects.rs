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
    /// Full name, such as `ingress.ipv4.routes`.
    pub name: String,
    /// Explicit `@id`.
    pub id: Option<u32>,
    /// Whether it is `@hidden` from the control plane.
    pub hidden: bool,
    /// Unstructured annotations as written, without `@name`, `@id` and documentation.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
    /// `@brief`.
    pub brief: String,
    /// `@description`.
    pub description: String,
    /// Source position, for outputs.
    pub source: Source,
    /// Source position, for diagnostics.
    pub span: Span,
}

/// An action that a table calls.
#[derive(Clone, Debug)]
pub struct Action {
    /// Name and annotations.
    pub meta: Meta,
    /// Parameters that the control plane sets.
    pub params: Vec<Param>,
}

/// A run-time parameter of an action.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name.
    pub name: String,
    /// Type of the value.
    pub ty: Scalar,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of its `type`, if it is declared with one.
    pub type_name: Option<String>,
    /// Explicit `@id`.
    pub id: Option<u32>,
    /// Annotations.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
    /// `@brief`.
    pub brief: String,
    /// `@description`.
    pub description: String,
}

/// Match kind of a key, or of a field of a value set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// `exact`.
    Exact,
    /// `lpm`.
    Lpm,
    /// `ternary`.
    Ternary,
    /// `range`.
    Range,
    /// `optional`.
    Optional,
}

/// The input of a key element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTarget {
    /// A field.
    Field(FieldRef),
    /// The validity of a header.
    Valid(HeaderId),
    /// The validity of a union.
    UnionValid(UnionId),
}

/// An element of a table's key, other than a `selector` one.
#[derive(Clone, Debug)]
pub struct Key {
    /// Control-plane name.
    pub name: String,
    /// The compared input.
    pub target: KeyTarget,
    /// Width in bits.
    pub width: u32,
    /// A constant mask that is applied before the comparison.
    pub mask: Option<BigInt>,
    /// Match kind.
    pub kind: MatchKind,
    /// Whether the value is a signed number.
    pub signed: bool,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of its `type`, if it is declared with one.
    pub type_name: Option<String>,
    /// Explicit `@id`.
    pub id: Option<u32>,
    /// Annotations.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
    /// `@brief`.
    pub brief: String,
    /// `@description`.
    pub description: String,
}

#[cfg(test)]
impl Key {
    /// A key of 8 bits, for tests.
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

/// Allowed use of an action in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ActionScope {
    /// In entries and as the default.
    #[default]
    TableAndDefault,
    /// `@tableonly`.
    TableOnly,
    /// `@defaultonly`.
    DefaultOnly,
}

/// An action in a table's list.
#[derive(Clone, Debug)]
pub struct ActionRef {
    /// The action.
    pub action: ActionId,
    /// Allowed use.
    pub scope: ActionScope,
    /// Annotations of the reference.
    pub annotations: Vec<String>,
    /// Structured annotations of the reference.
    pub structured: Vec<StructuredAnnotation>,
}

/// The default action of a table.
#[derive(Clone, Debug)]
pub struct DefaultAction {
    /// The action.
    pub action: ActionId,
    /// Its run-time arguments.
    pub args: Vec<BigInt>,
    /// Whether it is `const`.
    pub constant: bool,
}

/// The value of one key element in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKey {
    /// `exact`.
    Exact(BigInt),
    /// `lpm`: value and prefix length.
    Lpm(BigInt, u32),
    /// `ternary`: value and mask. Also `optional`, with a mask of all ones or none.
    Ternary(BigInt, BigInt),
    /// `range`: the lower and the upper end, inclusive.
    Range(BigInt, BigInt),
}

/// A table entry of the program.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One for each key element.
    pub keys: Vec<EntryKey>,
    /// The action.
    pub action: ActionId,
    /// Its run-time arguments.
    pub args: Vec<BigInt>,
    /// Priority for the switch, where the smallest wins. See [`Table::ranked_entries`].
    pub priority: u32,
    /// Priority for P4Runtime, where the largest wins and the minimum is 1.
    pub control_priority: i32,
    /// Whether the entry, or all entries, are `const`.
    pub constant: bool,
    /// Source position.
    pub source: Source,
}

/// A table of the source.
#[derive(Clone, Debug)]
pub struct Table {
    /// Name and annotations.
    pub meta: Meta,
    /// The key.
    pub keys: Vec<Key>,
    /// The actions in the order of the source, implied ones last.
    pub actions: Vec<ActionRef>,
    /// The default action.
    pub default: DefaultAction,
    /// Maximum number of entries.
    pub size: u64,
    /// Whether the program sets the size.
    pub sized: bool,
    /// The entries of the program.
    pub entries: Vec<Entry>,
    /// Whether the entries are `const`, so that the control plane cannot write any.
    pub const_entries: bool,
    /// Whether the switch priorities of the entries are their ranks, from 1; otherwise they are 2^31 - 1 minus the P4Runtime priority.
    pub ranked_entries: bool,
    /// Action profile or selector.
    pub implementation: Option<ActionProfileId>,
    /// Direct counter.
    pub counter: Option<CounterId>,
    /// Direct meter.
    pub meter: Option<MeterId>,
    /// Direct registers.
    pub direct_cells: Vec<DirectCells>,
    /// `support_timeout`.
    pub support_timeout: bool,
    /// Partitions in SRAM for keys that are not all `exact`: Tofino's `Alpm` and `Atcam`.
    pub algorithmic: Option<Partitions>,
}

impl Table {
    /// Default size of a table, as in p4c.
    pub const DEFAULT_SIZE: u64 = 1024;

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

/// Partitions of a table, one of which is searched. It is selected by an exact part of the key, or by a TCAM of `subtrees` prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// Number of partitions.
    pub count: u64,
    /// TCAM prefixes per partition; 0 if the key selects the partition.
    pub subtrees: u64,
}

impl Partitions {
    /// The default of an `Alpm`.
    pub const ALPM: Partitions = Partitions {
        count: 1024,
        subtrees: 2,
    };
}

/// A hash or checksum algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Algorithm {
    Crc32,
    Crc32Custom,
    Crc16,
    Crc16Custom,
    Random,
    Identity,
    Csum16,
    Xor16,
    /// A CRC by its parameters.
    Crc(CrcParameters),
}

/// A CRC in the Rocksoft model. Numbers have `width` bits.
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
    /// The member of `HashAlgorithm` with this name.
    pub fn from_name(name: &str) -> Option<Algorithm> {
        Some(match name {
            "crc32" => Algorithm::Crc32,
            "crc32_custom" => Algorithm::Crc32Custom,
            "crc16" => Algorithm::Crc16,
            "crc16_custom" => Algorithm::Crc16Custom,
            "random" => Algorithm::Random,
            "identity" => Algorithm::Identity,
            "csum16" => Algorithm::Csum16,
            "xor16" => Algorithm::Xor16,
            _ => return None,
        })
    }

    /// The name of the member.
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

    /// Width of the result in bits; `None` if it is that of the destination.
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

/// Member selection of an action selector.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The hash.
    pub algorithm: Algorithm,
    /// Its inputs, taken from the tables' `selector` keys.
    pub inputs: Vec<FieldRef>,
    /// Whether flows keep their member when another one leaves the group: Tofino's `RESILIENT`.
    pub resilient: bool,
}

/// Meaning of a selector's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeSemantics {
    /// `sum_of_weights`.
    SumOfWeights,
    /// `sum_of_members`.
    SumOfMembers {
        /// `@max_member_weight`; 0 when none is given.
        max_weight: u32,
    },
}

/// An action profile or, with a selector, an action selector.
#[derive(Clone, Debug)]
pub struct ActionProfile {
    /// Name and annotations.
    pub meta: Meta,
    /// Maximum number of members.
    pub size: u64,
    /// `@max_group_size`.
    pub max_group_size: u32,
    /// Maximum number of groups; 0 if the program sets none.
    pub groups: u64,
    /// `@selector_size_semantics`.
    pub semantics: Option<SizeSemantics>,
    /// The selector, if it is one; filled in by the first table that uses it.
    pub selector: Option<Selector>,
    /// Tables that use it.
    pub tables: Vec<TableId>,
}

/// Unit of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum CounterUnit {
    Packets,
    Bytes,
    Both,
}

/// A counter array.
#[derive(Clone, Debug)]
pub struct Counter {
    /// Name and annotations.
    pub meta: Meta,
    /// Cells; 0 for a direct counter.
    pub size: u64,
    /// Name of the `type` of its index, if it is declared with one.
    pub index_type: Option<String>,
    /// Unit.
    pub unit: CounterUnit,
    /// Width of a cell in bits, of the bytes if it counts both: Tofino has several widths.
    pub width: u32,
    /// Whether it is direct, with a cell for each entry of a table.
    pub direct: bool,
    /// The table of a direct counter.
    pub table: Option<TableId>,
}

/// Unit of a meter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MeterUnit {
    Packets,
    Bytes,
}

/// A meter array.
#[derive(Clone, Debug)]
pub struct Meter {
    /// Name and annotations.
    pub meta: Meta,
    /// Cells; 0 for a direct meter.
    pub size: u64,
    /// Name of the `type` of its index, if it is declared with one.
    pub index_type: Option<String>,
    /// Unit.
    pub unit: MeterUnit,
    /// Whether it is direct, with a cell for each entry of a table.
    pub direct: bool,
    /// The table of a direct meter.
    pub table: Option<TableId>,
    /// Field for the colour of a direct meter.
    pub result: Option<FieldRef>,
    /// Field with a packet's previous colour, for a colour-aware direct meter.
    pub precolor: Option<FieldRef>,
}

/// A register array.
#[derive(Clone, Debug)]
pub struct Register {
    /// Name and annotations.
    pub meta: Meta,
    /// Cells.
    pub size: u64,
    /// Name of the `type` of its index, if it is declared with one.
    pub index_type: Option<String>,
    /// Type of a cell.
    pub ty: Scalar,
    /// Initial value of all cells.
    pub initial: BigInt,
    /// Type of a cell for the control plane.
    pub type_spec: TypeSpec,
    /// Whether it is hidden from the control plane.
    pub hidden: bool,
}

/// A register with a cell for each entry of a table.
#[derive(Clone, Copy, Debug)]
pub struct DirectCells {
    /// The cells.
    pub register: RegisterId,
    /// Field in which the switch stores the index of the hit entry.
    pub entry: FieldRef,
}

/// An input of a hash or checksum.
#[derive(Clone, Debug, PartialEq)]
pub enum CalculationInput {
    /// A field, `varbit` ones too.
    Field(FieldRef),
    /// A constant.
    Constant { value: BigInt, width: u32 },
    /// The payload and all headers after the last one named.
    Payload,
}

/// A hash or checksum with its inputs.
#[derive(Clone, Debug)]
pub struct Calculation {
    /// The function.
    pub algorithm: Algorithm,
    /// What it runs over.
    pub inputs: Vec<CalculationInput>,
    /// Source position.
    pub source: Source,
}

/// A checksum to verify or to update.
#[derive(Clone, Debug, PartialEq)]
pub struct Checksum {
    /// Verified after the parser, or else updated before the deparser.
    pub verify: bool,
    /// Condition of the checksum; `None` is always.
    pub condition: Expr,
    /// The field of the checksum.
    pub target: FieldRef,
    /// The value.
    pub calculation: CalculationId,
    /// Source position.
    pub source: Source,
}

/// A digest and the fields that carry it.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Name of the digest's type.
    pub meta: Meta,
    /// Fields that hold the values to send.
    pub fields: Vec<FieldRef>,
    /// The type for the control plane.
    pub type_spec: TypeSpec,
}

/// Fields that are preserved by clone, resubmit or recirculate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldList {
    /// Name, for logs.
    pub name: String,
    /// The fields.
    pub fields: Vec<FieldRef>,
}

/// An instance of an extern object outside v1model.
#[derive(Clone, Debug)]
pub struct ExternInstance {
    /// Control-plane name.
    pub name: String,
    /// Name of the extern.
    pub ty: String,
    /// Constructor arguments by parameter name.
    pub attributes: Vec<(String, ExternAttribute)>,
    /// Source position.
    pub source: Source,
}

/// A constructor argument of an [`ExternInstance`].
#[derive(Clone, Debug)]
pub enum ExternAttribute {
    /// A number or truth value.
    Number(BigInt),
    /// A string, or the name of an enum's member.
    String(String),
}
