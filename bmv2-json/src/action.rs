//! Actions: parameters and a straight list of primitive calls.

use crate::expr::Expr;
use crate::SourceInfo;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Action {
    pub name: String,
    pub id: i64,
    #[serde(default)]
    pub runtime_data: Vec<ActionParam>,
    #[serde(default)]
    pub primitives: Vec<Primitive>,
}

/// A parameter of an action, in declaration order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ActionParam {
    pub name: String,
    pub bitwidth: u32,
}

/// A primitive call, such as `assign`, `register_read` or `mark_to_drop`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Primitive {
    pub op: String,
    #[serde(default)]
    pub parameters: Vec<Expr>,
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
