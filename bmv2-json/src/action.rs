//! Actions: parameters and a straight list of primitive calls.

use crate::expr::Expr;
use crate::SourceInfo;
use serde::{Deserialize, Serialize};

/// An action of the P4 program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    /// Name, such as `MyIngress.set_nhop`; several actions may share it, since p4c copies actions per use.
    pub name: String,
    /// Number, unique among the program's actions; tables and entries refer to it.
    pub id: i64,
    /// Parameters without direction: values that a table entry supplies.
    #[serde(default)]
    pub runtime_data: Vec<ActionParam>,
    /// Statements of the body, in order.
    #[serde(default)]
    pub primitives: Vec<Primitive>,
}

/// A parameter of an action, in declaration order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionParam {
    /// Name in the P4 source.
    pub name: String,
    /// Width of the value in bits.
    pub bitwidth: u32,
}

/// A primitive call, such as `assign`, `register_read` or `mark_to_drop`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    /// Name of the primitive, from `simple_switch`'s list or an extern's method as `_TYPE_METHOD`.
    pub op: String,
    /// Operands, in the order of the primitive's signature.
    #[serde(default)]
    pub parameters: Vec<Expr>,
    /// Position of the statement in the P4 source, if the compiler wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_info: Option<SourceInfo>,
}

impl Primitive {
    /// A call without source information.
    pub fn new(op: impl Into<String>, parameters: Vec<Expr>) -> Primitive {
        Primitive {
            op: op.into(),
            parameters,
            source_info: None,
        }
    }
}
