//! Objects with a control-plane name: actions, tables, externs and calculations.

use num_bigint::BigInt;

use crate::diag::Span;

use super::{
    ActionId, ActionProfileId, CalculationId, CounterId, Expr, FieldRef, HeaderId, MeterId,
    RegisterId, Scalar, Source, StructuredAnnotation, TableId, TypeSpec, UnionId,
};

/// What the control plane sees of an object besides its content.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Meta {
    /// Full name, such as `ingress.ipv4.routes`.
    pub name: String,
    /// Explicit `@id`.
    pub id: Option<u32>,
    /// Whether `@hidden` keeps it from the control plane.
    pub hidden: bool,
    /// Unstructured annotations as written, `@name` and `@id` and documentation left out.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
    /// `@brief`.
    pub brief: String,
    /// `@description`.
    pub description: String,
    /// Where it stands, as outputs name it.
    pub source: Source,
    /// The same for messages.
    pub span: Span,
}

/// An action as tables call it.
#[derive(Clone, Debug)]
pub struct Action {
    /// Name and annotations.
    pub meta: Meta,
    /// Parameters that the control plane fills in.
    pub params: Vec<Param>,
}

/// A run-time parameter of an action.
#[derive(Clone, Debug)]
pub struct Param {
    /// Name.
    pub name: String,
    /// Type of the value.
    pub ty: Scalar,
    /// Width seen by the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` it was declared with.
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

/// How a key or the field of a value set matches.
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

/// What a key element looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyTarget {
    /// A field.
    Field(FieldRef),
    /// The validity of a header.
    Valid(HeaderId),
    /// The validity of a union.
    UnionValid(UnionId),
}

/// An element of a table's key; selector inputs are not among them.
#[derive(Clone, Debug)]
pub struct Key {
    /// Control-plane name.
    pub name: String,
    /// What is compared.
    pub target: KeyTarget,
    /// Bits of it.
    pub width: u32,
    /// A constant mask that the program applies first.
    pub mask: Option<BigInt>,
    /// How it matches.
    pub kind: MatchKind,
    /// Whether the value is a signed number.
    pub signed: bool,
    /// Width seen by the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` it has.
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

/// Where an action of a table may be used.
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
    /// Where it may be used.
    pub scope: ActionScope,
    /// Annotations of the reference.
    pub annotations: Vec<String>,
    /// Structured annotations of the reference.
    pub structured: Vec<StructuredAnnotation>,
}

/// What runs when no entry matches.
#[derive(Clone, Debug)]
pub struct DefaultAction {
    /// The action.
    pub action: ActionId,
    /// Its run-time arguments.
    pub args: Vec<BigInt>,
    /// Whether the program says `const`.
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
    /// `range`: both ends belong to it.
    Range(BigInt, BigInt),
}

/// An entry given by the program.
#[derive(Clone, Debug)]
pub struct Entry {
    /// One for each key element.
    pub keys: Vec<EntryKey>,
    /// The action.
    pub action: ActionId,
    /// Its run-time arguments.
    pub args: Vec<BigInt>,
    /// For the switch: the smallest wins. See [`Table::ranked_entries`].
    pub priority: u32,
    /// As P4Runtime counts: the largest wins, and the smallest there is is 1.
    pub control_priority: i32,
    /// Whether the program says `const` of it or of all.
    pub constant: bool,
    /// Where it stands.
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
    /// Most entries.
    pub size: u64,
    /// Whether the program says how many.
    pub sized: bool,
    /// Entries given by the program.
    pub entries: Vec<Entry>,
    /// Whether those are `const`; the control plane can then write none.
    pub const_entries: bool,
    /// Whether the priorities of the entries for the switch are their ranks, from 1; else they are 2^31 - 1 less those of P4Runtime.
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
    /// How SRAM holds its entries, though not all keys are exact ones: Tofino's `Alpm` and `Atcam`.
    pub algorithmic: Option<Partitions>,
}

impl Table {
    /// Most entries of a table that does not say how many, as in p4c.
    pub const DEFAULT_SIZE: u64 = 1024;

    /// A table that has nothing yet but its name.
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

/// Parts of a table of which a packet looks through one. An exact part of the key says which, or what `subtrees` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitions {
    /// How many.
    pub count: u64,
    /// Prefixes in a TCAM that lead to each partition; 0 where the key itself names the partition.
    pub subtrees: u64,
}

impl Partitions {
    /// Those of an `Alpm` that does not say how many.
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

/// A CRC as the Rocksoft model describes it. Numbers have `width` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CrcParameters {
    /// Bits of the result.
    pub width: u32,
    /// Without the highest bit, which is always set; not reflected.
    pub polynomial: u64,
    /// The remainder at the start.
    pub initial: u64,
    /// What the remainder is combined with in the end.
    pub final_xor: u64,
    /// Whether bytes are taken with the lowest bit first, and the remainder likewise.
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

    /// Bits of the result; none where it has as many as are asked for.
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

/// How a selector picks a member.
#[derive(Clone, Debug)]
pub struct Selector {
    /// The hash.
    pub algorithm: Algorithm,
    /// Its inputs, taken from the tables' `selector` keys.
    pub inputs: Vec<FieldRef>,
    /// Whether packets keep their member when another one leaves the group: Tofino's `RESILIENT`.
    pub resilient: bool,
}

/// What the size of a selector counts.
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
    /// Most members.
    pub size: u64,
    /// `@max_group_size`.
    pub max_group_size: u32,
    /// Most groups, where the program says so; 0 when it does not.
    pub groups: u64,
    /// `@selector_size_semantics`.
    pub semantics: Option<SizeSemantics>,
    /// The selector, if it is one; filled in by the first table that uses it.
    pub selector: Option<Selector>,
    /// Tables that use it.
    pub tables: Vec<TableId>,
}

/// What a counter counts.
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
    /// Name of the `type` that its index has.
    pub index_type: Option<String>,
    /// What it counts.
    pub unit: CounterUnit,
    /// Bits that the program gives a cell, of the bytes if it counts both: Tofino has shorter and longer ones.
    pub width: u32,
    /// Whether it is a direct one.
    pub direct: bool,
    /// The table of a direct counter.
    pub table: Option<TableId>,
}

/// What a meter measures.
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
    /// Name of the `type` that its index has.
    pub index_type: Option<String>,
    /// What it measures.
    pub unit: MeterUnit,
    /// Whether it is a direct one.
    pub direct: bool,
    /// The table of a direct meter.
    pub table: Option<TableId>,
    /// Where a direct meter stores the colour.
    pub result: Option<FieldRef>,
    /// Where a direct meter finds the colour that a packet had before.
    pub precolor: Option<FieldRef>,
}

/// A register array.
#[derive(Clone, Debug)]
pub struct Register {
    /// Name and annotations.
    pub meta: Meta,
    /// Cells.
    pub size: u64,
    /// Name of the `type` that its index has.
    pub index_type: Option<String>,
    /// Type of a cell.
    pub ty: Scalar,
    /// What all cells hold at first.
    pub initial: BigInt,
    /// The same as the control plane sees it.
    pub type_spec: TypeSpec,
    /// Whether the control plane does not see it.
    pub hidden: bool,
}

/// A register with a cell for each entry of a table.
#[derive(Clone, Copy, Debug)]
pub struct DirectCells {
    /// The cells.
    pub register: RegisterId,
    /// Where the switch says which entry was hit.
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
    /// Where it stands.
    pub source: Source,
}

/// A checksum to verify or to update.
#[derive(Clone, Debug, PartialEq)]
pub struct Checksum {
    /// Verified after the parser, or else updated before the deparser.
    pub verify: bool,
    /// Only when this holds.
    pub condition: Expr,
    /// The field that holds it.
    pub target: FieldRef,
    /// The value.
    pub calculation: CalculationId,
    /// Where it stands.
    pub source: Source,
}

/// A digest and the fields that carry it.
#[derive(Clone, Debug)]
pub struct Digest {
    /// Name of the digest's type.
    pub meta: Meta,
    /// Fields of their own that hold the values to send.
    pub fields: Vec<FieldRef>,
    /// What the control plane sees.
    pub type_spec: TypeSpec,
}

/// Fields that outlive clone, resubmit or recirculate.
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
    /// Where it stands.
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
