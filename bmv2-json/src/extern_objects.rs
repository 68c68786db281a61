//! Meters, counters, registers, calculations, checksums, field lists and other extern objects.

use crate::expr::{Expr, FieldRef};
use crate::serde_util::null_as_default;
use crate::SourceInfo;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeterArray {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub is_direct: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// Number of rates: 2 for P4's two-rate three-colour meters.
    #[serde(default = "two")]
    pub rate_count: u32,
    #[serde(rename = "type")]
    pub kind: MeterType,
    /// The table of a direct meter.
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MeterType {
    Packets,
    Bytes,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterArray {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    #[serde(default)]
    pub is_direct: bool,
    /// The table of a direct counter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub binding: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RegisterArray {
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
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
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub algo: String,
    /// Parameters of the algorithm `crc`. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub crc: Option<CrcParameters>,
    #[serde(default)]
    pub input: Vec<Expr>,
}

/// A CRC in the Rocksoft model. Numbers are hexadecimal.
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
    pub name: String,
    pub id: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    pub target: FieldRef,
    #[serde(rename = "type", default = "generic")]
    pub kind: String,
    pub calculation: String,
    #[serde(default = "yes")]
    pub verify: bool,
    #[serde(default = "yes")]
    pub update: bool,
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
    pub id: i64,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default, deserialize_with = "null_as_default")]
    pub elements: Vec<Expr>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternInstance {
    pub name: String,
    pub id: i64,
    #[serde(rename = "type")]
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    #[serde(default)]
    pub attribute_values: Vec<ExternAttribute>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExternAttribute {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub value: Value,
}
