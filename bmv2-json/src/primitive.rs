//! Primitives: the statements of actions, and the calls of externs.

use crate::expr::Expr;
use crate::SourceInfo;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::RangeInclusive;

/// A primitive with its position in the P4 source: a statement of an action, a parse state or a deparser.
#[derive(Clone, Debug, PartialEq)]
pub struct PrimitiveCall {
    /// The primitive, with its operands.
    pub primitive: Primitive,
    /// Position of the statement in the P4 source, if the compiler wrote it.
    pub source_info: Option<SourceInfo>,
}

/// Declares [`Primitive`] from a table with one line per primitive: documentation, name in the JSON, variant,
/// operands in the order of the signature, and after a semicolon an operand that may be omitted.
macro_rules! primitives {
    ($(
        $(#[$doc:meta])*
        $name:literal $variant:ident { $($field:ident),* $(; $optional:ident)? }
    )*) => {
        /// A primitive of `simple_switch`, or a method of an extern, with its operands.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Primitive {
            $(
                $(#[$doc])*
                $variant {
                    $(
                        #[doc = concat!("The operand `", stringify!($field), "`.")]
                        $field: Expr,
                    )*
                    $(
                        #[doc = concat!("The operand `", stringify!($optional), "`, which may be omitted.")]
                        $optional: Option<Expr>,
                    )?
                },
            )*
            /// Any other call: the name is unknown, or the number of operands is wrong
            /// ([`Primitive::operand_counts`]). Methods of externs that no switch here knows are named `_TYPE_METHOD`.
            Other {
                /// Name of the primitive.
                name: String,
                /// Operands in the order of the file.
                operands: Vec<Expr>,
            },
        }

        impl Primitive {
            /// Names of all known primitives.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the name in the JSON.
            pub fn name(&self) -> &str {
                match self {
                    $(Primitive::$variant { .. } => $name,)*
                    Primitive::Other { name, .. } => name,
                }
            }

            /// Returns how many operands a primitive may have; `None` for an unknown name.
            pub fn operand_counts(name: &str) -> Option<RangeInclusive<usize>> {
                match name {
                    $($name => {
                        let required = <[&str]>::len(&[$(stringify!($field)),*]);
                        let optional = <[&str]>::len(&[$(stringify!($optional))?]);
                        Some(required..=required + optional)
                    })*
                    _ => None,
                }
            }

            /// Returns the operands in the order of the signature.
            pub fn operands(&self) -> Vec<&Expr> {
                match self {
                    $(Primitive::$variant { $($field,)* $($optional)? } => {
                        let required: &[&Expr] = &[$($field),*];
                        let optional: Option<&Expr> = None $(.or($optional.as_ref()))?;
                        required.iter().copied().chain(optional).collect()
                    })*
                    Primitive::Other { operands, .. } => operands.iter().collect(),
                }
            }

            /// Creates a primitive with a number of operands that it may have.
            fn known(name: &str, operands: &mut impl Iterator<Item = Expr>) -> Option<Primitive> {
                Some(match name {
                    $($name => Primitive::$variant {
                        $($field: operands.next()?,)*
                        $($optional: operands.next())?
                    },)*
                    _ => return None,
                })
            }
        }
    };
}

primitives! {
    /// Continues at a primitive of the same action, counted from 0; one past the last ends the action.
    "_jump" Jump { target }
    /// Continues at `target`, as [`Primitive::Jump`], if the condition is zero.
    "_jump_if_zero" JumpIfZero { condition, target }
    /// Stores a value in a field, wrapped to its width.
    "assign" Assign { target, value }
    /// [`Primitive::Assign`] in files of older compilers.
    "modify_field" ModifyField { target, value }
    /// Copies a field of variable length.
    "assign_VL" AssignVl { target, value }
    /// Copies a header with its validity.
    "assign_header" AssignHeader { target, value }
    /// [`Primitive::AssignHeader`] in files of older compilers.
    "copy_header" CopyHeader { target, value }
    /// Makes a header valid.
    "add_header" AddHeader { header }
    /// [`Primitive::AddHeader`] in files of older compilers.
    "add_header_fast" AddHeaderFast { header }
    /// Makes a header invalid.
    "remove_header" RemoveHeader { header }
    /// Copies a header union.
    "assign_union" AssignUnion { target, value }
    /// Copies a header stack.
    "assign_header_stack" AssignHeaderStack { target, value }
    /// Copies a stack of header unions.
    "assign_union_stack" AssignUnionStack { target, value }
    /// Moves the elements of a stack towards higher indices.
    "push" Push { stack, count }
    /// Moves the elements of a stack towards lower indices.
    "pop" Pop { stack, count }
    /// Adds a value to a field.
    "add_to_field" AddToField { target, value }
    /// Subtracts a value from a field.
    "subtract_from_field" SubtractFromField { target, value }
    /// Stores a sum.
    "add" Add { target, left, right }
    /// Stores a difference.
    "subtract" Subtract { target, left, right }
    /// Stores a bitwise exclusive or.
    "bit_xor" BitXor { target, left, right }
    /// Stores a bitwise or.
    "bit_or" BitOr { target, left, right }
    /// Stores a bitwise and.
    "bit_and" BitAnd { target, left, right }
    /// Stores a number shifted to the left.
    "shift_left" ShiftLeft { target, left, right }
    /// Stores a number shifted to the right.
    "shift_right" ShiftRight { target, left, right }
    /// Stores a register cell in a field.
    "register_read" RegisterRead { target, register, index }
    /// Stores a value in a register cell.
    "register_write" RegisterWrite { register, index, value }
    /// Increments a counter by the packet.
    "count" Count { counter, index }
    /// Stores the packet's colour in a field; `precolor` is the previous colour for a colour-aware meter.
    "execute_meter" ExecuteMeter { meter, index, target; precolor }
    /// Stores `base + calculation mod size` in a field.
    "modify_field_with_hash_based_offset" Hash { target, base, calculation, size }
    /// Stores a uniformly distributed number, from `low` to `high`, in a field.
    "modify_field_rng_uniform" Random { target, low, high }
    /// Sets the egress port of `metadata` to the drop port. Files of older compilers have no operand.
    "mark_to_drop" MarkToDrop { ; metadata }
    /// [`Primitive::MarkToDrop`] in files of older compilers.
    "drop" Drop {}
    /// Sends a learn list to the control plane. The switch ignores the receiver.
    "generate_digest" Digest { receiver, list }
    /// Clones the packet as it was received.
    "clone_ingress_pkt_to_egress" CloneIngress { session; list }
    /// Clones the packet of the egress pipeline.
    "clone_egress_pkt_to_egress" CloneEgress { session; list }
    /// Lets the received packet enter ingress again.
    "resubmit" Resubmit { list }
    /// Lets the deparsed packet enter ingress again.
    "recirculate" Recirculate { list }
    /// Limits the length of the packet in bytes.
    "truncate" Truncate { length }
    /// Writes a message, whose format has a `{}` for each value.
    "log_msg" LogMsg { format; values }
    /// Drops the packet if the condition is false.
    "assert" Assert { condition }
    /// As [`Primitive::Assert`] for the switch; a verifier takes the condition for granted.
    "assume" Assume { condition }
    /// Ends the pipeline after the action.
    "exit" Exit {}
    /// Does nothing.
    "no_op" NoOp {}
    /// Records an access of a register (Tofino).
    "register_access" RegisterAccess { register }
    /// Applies a low-pass filter to a value (Tofino); `spec` and `memory` are register arrays.
    "filter" Filter { target, spec, spec_index, memory, index, value }
    /// Mirrors the packet (Tofino).
    "mirror" Mirror { session; list }
}

impl Primitive {
    /// Creates a primitive from its name and operands; [`Primitive::Other`] if they are not those of a known one.
    pub fn new(name: &str, operands: Vec<Expr>) -> Primitive {
        let fits = Primitive::operand_counts(name).is_some_and(|n| n.contains(&operands.len()));
        let mut operands = operands.into_iter();
        let known = fits.then(|| Primitive::known(name, &mut operands));
        known.flatten().unwrap_or_else(|| Primitive::Other {
            name: name.to_owned(),
            operands: operands.collect(),
        })
    }
}

impl From<Primitive> for PrimitiveCall {
    fn from(primitive: Primitive) -> PrimitiveCall {
        PrimitiveCall {
            primitive,
            source_info: None,
        }
    }
}

impl Serialize for PrimitiveCall {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Primitive", 3)?;
        object.serialize_field("op", self.primitive.name())?;
        object.serialize_field("parameters", &self.primitive.operands())?;
        match &self.source_info {
            Some(info) => object.serialize_field("source_info", info)?,
            None => object.skip_field("source_info")?,
        }
        object.end()
    }
}

impl<'de> Deserialize<'de> for PrimitiveCall {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PrimitiveCall, D::Error> {
        #[derive(Deserialize)]
        struct Primitive {
            op: String,
            #[serde(default)]
            parameters: Vec<Expr>,
            #[serde(default)]
            source_info: Option<SourceInfo>,
        }
        let raw = Primitive::deserialize(deserializer)?;
        Ok(PrimitiveCall {
            primitive: self::Primitive::new(&raw.op, raw.parameters),
            source_info: raw.source_info,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_written_as_it_was_read() {
        for name in Primitive::NAMES.iter().copied().chain(["_Type_method"]) {
            for count in 0..=8 {
                let operands: Vec<Expr> = (0..count).map(Expr::Local).collect();
                let primitive = Primitive::new(name, operands.clone());
                let allowed = Primitive::operand_counts(name);
                let fits = allowed.is_some_and(|counts| counts.contains(&operands.len()));
                let is_other = matches!(primitive, Primitive::Other { .. });
                assert_eq!(is_other, !fits, "{name} with {count} operands");
                assert_eq!(primitive.name(), name);
                let list: Vec<&Expr> = operands.iter().collect();
                assert_eq!(primitive.operands(), list, "{name}");
                let call = PrimitiveCall::from(primitive);
                let text = serde_json::to_string(&call).unwrap();
                assert_eq!(serde_json::from_str::<PrimitiveCall>(&text).unwrap(), call);
            }
        }
    }
}
