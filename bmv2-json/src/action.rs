//! Actions: parameters and a straight list of primitive calls.

use crate::primitive::PrimitiveCall;
use crate::SourceInfo;
use serde::{Deserialize, Serialize};

/// An action of the P4 program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Name, such as `MyIngress.set_nhop`; several actions may share it, since p4c copies actions per use.
    pub name: String,
    /// Number, unique among the program's actions; tables and entries refer to it.
    pub id: i64,
    /// Position of the action in the P4 source. Not in BMv2's own format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
    /// Parameters without direction: values that a table entry supplies.
    #[serde(default)]
    pub runtime_data: Vec<ActionParam>,
    /// Statements of the body, in order.
    #[serde(default)]
    pub primitives: Vec<PrimitiveCall>,
}

/// A parameter of an action, in declaration order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionParam {
    /// Name in the P4 source.
    pub name: String,
    /// Width of the value in bits.
    pub bitwidth: u32,
}
