//! Meters, counters, registers, calculations, checksums, field lists and other extern objects.

use crate::expr::{Expr, FieldRef};
use crate::serde_util::null_as_default;
use crate::SourceInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An array of meters, indexed by the program or attached to a table's entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterArray {
    /// Name of the meter extern.
    pub name: String,
    /// Number, unique among meter arrays.
    pub id: i64,
    /// Position of the declaration in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Whether the array has one meter per entry of a table.
    #[serde(default)]
    pub is_direct: bool,
    /// Number of meters of an indirect array; `None` for a direct one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Number of rates: 2 for P4's two-rate three-colour meters.
    #[serde(default = "two")]
    pub rate_count: u32,
    /// Whether rates count packets or bytes. Its key is `type`.
    #[serde(rename = "type")]
    pub kind: MeterType,
    /// Name of the table of a direct meter; `None` for an indirect array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
    /// Field to which a direct meter writes its colour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_target: Option<FieldRef>,
    /// Field with the packet's colour before a direct meter. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub precolor: Option<FieldRef>,
}

fn two() -> u32 {
    2
}

/// Unit of a meter's rates and burst sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeterType {
    /// Packets, and packets per second.
    Packets,
    /// Bytes, and bytes per second.
    Bytes,
}

/// An array of counters of packets and bytes, indexed by the program or attached to a table's entries.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterArray {
    /// Name of the counter extern.
    pub name: String,
    /// Number, unique among counter arrays.
    pub id: i64,
    /// Position of the declaration in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of counters of an indirect array; `None` for a direct one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Whether the array has one counter per entry of a table.
    #[serde(default)]
    pub is_direct: bool,
    /// Name of the table of a direct counter; `None` for an indirect array.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

/// An array of registers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegisterArray {
    /// Name of the register extern.
    pub name: String,
    /// Number, unique among register arrays.
    pub id: i64,
    /// Position of the declaration in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Number of cells.
    pub size: u64,
    /// Width of a cell in bits.
    pub bitwidth: u32,
    /// Initial value of all cells, if not 0, as a hexadecimal number. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_value: Option<String>,
}

/// A hash over a list of inputs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Calculation {
    /// Name that primitives and checksums refer to.
    pub name: String,
    /// Number, unique among calculations.
    pub id: i64,
    /// Position in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Name of the algorithm, such as `csum16`, `crc32` or `xor16`.
    pub algo: String,
    /// Parameters of the algorithm `crc`. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<CrcParameters>,
    /// Operands, concatenated without padding and hashed.
    #[serde(default)]
    pub input: Vec<Expr>,
}

/// Parameters of a CRC in Williams' Rocksoft model. Numbers are hexadecimal strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrcParameters {
    /// Width of the result in bits: 8, 16, 32 or 64.
    pub bitwidth: u32,
    /// The polynomial, without its highest bit, which is always set; not reflected.
    pub polynomial: String,
    /// Initial remainder.
    pub initial: String,
    /// Value XORed to the final remainder.
    pub final_xor: String,
    /// Whether input bytes and the remainder are processed lowest bit first.
    pub reflected: bool,
}

/// A checksum verified after the parser or updated before the deparser.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checksum {
    /// Name of the checksum, generated by the compiler.
    pub name: String,
    /// Number, unique among checksums.
    pub id: i64,
    /// Position of the call in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Header field that holds the checksum.
    pub target: FieldRef,
    /// `generic`; BMv2's `ipv4` is an older form. Its key is `type`.
    #[serde(rename = "type", default = "generic")]
    pub kind: String,
    /// Name of the [`Calculation`] whose result is compared or written.
    pub calculation: String,
    /// Whether the switch verifies the checksum after the parser.
    #[serde(default = "yes")]
    pub verify: bool,
    /// Whether the switch writes the checksum before the deparser.
    #[serde(default = "yes")]
    pub update: bool,
    /// Condition under which the checksum is verified or updated; `None` means always.
    #[serde(default)]
    pub if_cond: Option<Expr>,
}

fn generic() -> String {
    "generic".to_owned()
}

fn yes() -> bool {
    true
}

/// A field list (kept by clone, resubmit, recirculate) or learn list (sent by digest).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FieldList {
    /// Number that primitives pass to name the list, from 1.
    pub id: i64,
    /// Name of the list, generated by the compiler or the digest's struct type.
    pub name: String,
    /// Position in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Fields of the list, in order.
    #[serde(default, deserialize_with = "null_as_default")]
    pub elements: Vec<Expr>,
}

/// An instance of an extern.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternInstance {
    /// Name of the instance.
    pub name: String,
    /// Number, unique among extern instances.
    pub id: i64,
    /// Name of the extern type. Its key is `type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Position of the declaration in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Constructor arguments.
    #[serde(default)]
    pub attribute_values: Vec<ExternAttribute>,
}

/// A constructor argument of an extern instance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternAttribute {
    /// Name of the constructor's parameter.
    pub name: String,
    /// Type of the value: `hexstr`, `string` or `expression`. Its key is `type`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The value, in the shape of its type.
    pub value: Value,
}
