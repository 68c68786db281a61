//! Values of P4 types (P4Runtime § 8.4.3), and their flat fields. The flat fields are the numbers of which a value
//! consists in the switch core, the crate `alfirk_bmv2`.
//!
//! The BMv2 compiler flattens structs and tuples into their members, makes a `bool` one bit wide and numbers the
//! members of an enum from 0. Headers, unions and stacks occur in neither registers nor digests of v1model; such a type
//! is rejected when the P4Info is read.

use alfirk_p4runtime::{
    bytestring,
    p4::{
        config::v1::{
            p4_bitstring_like_type_spec::TypeSpec as Bitstring, p4_data_type_spec::TypeSpec,
            p4_new_type_spec::Representation, P4DataTypeSpec, P4TypeInfo,
        },
        v1::{p4_data::Data, P4Data, P4StructLike},
    },
};
use std::sync::Arc;

use thiserror::Error;

use super::translation::{Translation, TranslationError, Translations, Use};

/// A P4 type, with the names of its parts resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataType {
    /// `bit<W>`, with its width in bits.
    Bits(usize),
    /// `int<W>`, with its width in bits. A flat field contains the value as an unsigned W-bit number, a message as
    /// two's complement in the fewest bytes (§ 8.4).
    Int(usize),
    /// `bool`.
    Bool,
    /// An enum without an underlying type: its members in order.
    Enum(Vec<String>),
    /// An enum with an underlying `bit<W>`, with its width in bits.
    SerializableEnum(usize),
    /// A struct: the types of its members in order.
    Struct(Vec<DataType>),
    /// A tuple: the types of its members in order.
    Tuple(Vec<DataType>),
    /// A translated type. Its values are encoded in messages as in match keys.
    Translated(Arc<Translation>),
}

/// Error of a P4 type, or of a value that does not fit its type.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DataError {
    /// The switch cannot store values of this type.
    #[error("this target cannot store {0}")]
    Unsupported(&'static str),
    /// `type_info` does not define a type of this name.
    #[error("type {0} is not in the P4Info's type_info")]
    UnknownType(String),
    /// A type that contains itself, is nested too deeply, or has more than `MAX_NODES` nodes.
    #[error("type contains itself or has too many members")]
    TooLarge,
    /// The value does not have the form that its type requires.
    #[error("value is not a {expected}")]
    Mismatch {
        /// The form that the type requires, such as `struct`.
        expected: &'static str,
    },
    /// A struct or tuple value with a wrong number of members.
    #[error("value has {got} members, type has {expected}")]
    Members {
        /// Number of members that the type has.
        expected: usize,
        /// Number of members that the value has.
        got: usize,
    },
    /// A byte string that is empty or too wide.
    #[error(transparent)]
    Bytes(#[from] bytestring::BytestringError),
    /// An invalid value of a translated type.
    #[error(transparent)]
    Translation(#[from] TranslationError),
    /// A name that is not a member of the enum.
    #[error("enum has no member \"{0}\"")]
    UnknownMember(String),
}

const MAX_DEPTH: usize = 64;
/// Maximum number of nodes of one type. Types refer to each other by name, so a short `type_info` can describe an
/// endless type.
const MAX_NODES: usize = 4096;
/// Width, in bits, that p4c gives to enums without an underlying type.
const ENUM_BITS: usize = 32;

impl DataType {
    /// Resolves the names in a type of a P4Info.
    pub fn new(
        spec: &P4DataTypeSpec,
        types: &P4TypeInfo,
        translations: &Translations,
    ) -> Result<DataType, DataError> {
        DataType::resolve(spec, (types, translations), MAX_DEPTH, &mut { MAX_NODES })
    }

    fn resolve(
        spec: &P4DataTypeSpec,
        known: (&P4TypeInfo, &Translations),
        depth: usize,
        nodes: &mut usize,
    ) -> Result<DataType, DataError> {
        let (types, translations) = known;
        let depth = depth.checked_sub(1).ok_or(DataError::TooLarge)?;
        *nodes = nodes.checked_sub(1).ok_or(DataError::TooLarge)?;
        let unknown = |name: &str| DataError::UnknownType(name.to_owned());
        let width = |bits: i32| DataType::Bits(usize::try_from(bits).unwrap_or(0));
        Ok(match spec.type_spec.as_ref() {
            Some(TypeSpec::Bitstring(like)) => match like.type_spec.as_ref() {
                Some(Bitstring::Bit(bit)) => width(bit.bitwidth),
                Some(Bitstring::Int(int)) => {
                    DataType::Int(usize::try_from(int.bitwidth).unwrap_or(0))
                }
                Some(Bitstring::Varbit(_)) => return Err(DataError::Unsupported("a varbit")),
                None => return Err(DataError::Unsupported("an unset type")),
            },
            Some(TypeSpec::Bool(_)) => DataType::Bool,
            Some(TypeSpec::Tuple(tuple)) => DataType::Tuple(
                tuple
                    .members
                    .iter()
                    .map(|member| DataType::resolve(member, known, depth, nodes))
                    .collect::<Result<_, _>>()?,
            ),
            Some(TypeSpec::Struct(named)) => {
                let spec = types.structs.get(&named.name);
                let spec = spec.ok_or_else(|| unknown(&named.name))?;
                let members = spec.members.iter().map(|member| {
                    let spec = member.type_spec.as_ref();
                    let spec = spec.ok_or(DataError::Unsupported("an unset type"))?;
                    DataType::resolve(spec, known, depth, nodes)
                });
                DataType::Struct(members.collect::<Result<_, _>>()?)
            }
            Some(TypeSpec::Enum(named)) => {
                let spec = types.enums.get(&named.name);
                let spec = spec.ok_or_else(|| unknown(&named.name))?;
                DataType::Enum(spec.members.iter().map(|m| m.name.clone()).collect())
            }
            Some(TypeSpec::SerializableEnum(named)) => {
                let spec = types.serializable_enums.get(&named.name);
                let spec = spec.ok_or_else(|| unknown(&named.name))?;
                let bits = spec.underlying_type.as_ref().map_or(0, |t| t.bitwidth);
                DataType::SerializableEnum(usize::try_from(bits).unwrap_or(0))
            }
            Some(TypeSpec::NewType(named)) => {
                let spec = types.new_types.get(&named.name);
                match spec.and_then(|spec| spec.representation.as_ref()) {
                    Some(Representation::OriginalType(original)) => {
                        DataType::resolve(original, known, depth, nodes)?
                    }
                    Some(Representation::TranslatedType(_)) => {
                        let of = translations.get(&named.name);
                        DataType::Translated(of.ok_or_else(|| unknown(&named.name))?.clone())
                    }
                    None => return Err(unknown(&named.name)),
                }
            }
            Some(TypeSpec::Error(_)) => return Err(DataError::Unsupported("an error")),
            Some(TypeSpec::Header(_)) => return Err(DataError::Unsupported("a header")),
            Some(TypeSpec::HeaderUnion(_)) => return Err(DataError::Unsupported("a header union")),
            Some(TypeSpec::HeaderStack(_) | TypeSpec::HeaderUnionStack(_)) => {
                return Err(DataError::Unsupported("a header stack"))
            }
            None => return Err(DataError::Unsupported("an unset type")),
        })
    }

    /// Returns the number of flat fields of a value of the type.
    pub fn fields(&self) -> usize {
        match self {
            DataType::Struct(members) | DataType::Tuple(members) => {
                members.iter().map(DataType::fields).sum()
            }
            _ => 1,
        }
    }

    /// Returns the width of each flat field of the type, in bits.
    pub fn widths(&self) -> Vec<usize> {
        match self {
            DataType::Struct(members) | DataType::Tuple(members) => {
                members.iter().flat_map(DataType::widths).collect()
            }
            DataType::Bits(bits) | DataType::Int(bits) | DataType::SerializableEnum(bits) => {
                vec![*bits]
            }
            DataType::Bool => vec![1],
            DataType::Enum(_) => vec![ENUM_BITS],
            DataType::Translated(of) => vec![of.bits()],
        }
    }

    /// Builds a message value from its flat fields. Missing fields are zero.
    pub fn unflatten<'a>(&self, fields: &mut impl Iterator<Item = &'a [u8]>) -> P4Data {
        let data = match self {
            DataType::Struct(members) => Data::Struct(P4StructLike {
                members: members.iter().map(|m| m.unflatten(fields)).collect(),
            }),
            DataType::Tuple(members) => Data::Tuple(P4StructLike {
                members: members.iter().map(|m| m.unflatten(fields)).collect(),
            }),
            scalar => {
                let bytes = fields.next().unwrap_or(&[0]);
                let bytes = if bytes.is_empty() { &[0] } else { bytes };
                scalar.scalar_from(bytestring::canonical(bytes))
            }
        };
        P4Data { data: Some(data) }
    }

    fn scalar_from(&self, bytes: &[u8]) -> Data {
        match self {
            DataType::Int(bits) => Data::Bitstring(signed(bytes, *bits)),
            DataType::Translated(of) => Data::Bitstring(of.controller_value(bytes)),
            DataType::Bool => Data::Bool(bytes != [0]),
            DataType::SerializableEnum(_) => Data::EnumValue(bytes.to_vec()),
            DataType::Enum(members) => {
                let number = bytestring::decode(bytes, ENUM_BITS).ok();
                let member = number
                    .and_then(|n| usize::try_from(n).ok())
                    .and_then(|n| members.get(n));
                Data::Enum(member.cloned().unwrap_or_default())
            }
            _ => Data::Bitstring(bytes.to_vec()),
        }
    }

    /// Splits a message value into its flat fields, which are in canonical form.
    pub fn flatten(&self, value: &P4Data) -> Result<Vec<Vec<u8>>, DataError> {
        let mut fields = Vec::with_capacity(self.fields());
        self.flatten_into(value, &mut fields)?;
        Ok(fields)
    }

    fn flatten_into(&self, value: &P4Data, fields: &mut Vec<Vec<u8>>) -> Result<(), DataError> {
        let mismatch = |expected| Err(DataError::Mismatch { expected });
        match (self, value.data.as_ref()) {
            (DataType::Bits(bits), Some(Data::Bitstring(bytes)))
            | (DataType::SerializableEnum(bits), Some(Data::EnumValue(bytes))) => {
                bytestring::check(bytes, *bits)?;
                fields.push(bytestring::canonical(bytes).to_vec());
            }
            (DataType::Int(bits), Some(Data::Bitstring(bytes))) => {
                let value = unsigned(bytes, *bits);
                bytestring::check(&value, *bits)?;
                fields.push(bytestring::canonical(&value).to_vec());
            }
            (DataType::Bool, Some(Data::Bool(value))) => fields.push(vec![u8::from(*value)]),
            (DataType::Enum(members), Some(Data::Enum(name))) => {
                let number = members.iter().position(|member| member == name);
                let number = number.ok_or_else(|| DataError::UnknownMember(name.clone()))?;
                fields.push(bytestring::encode(number as u64));
            }
            (DataType::Struct(types), Some(Data::Struct(values)))
            | (DataType::Tuple(types), Some(Data::Tuple(values))) => {
                if types.len() != values.members.len() {
                    return Err(DataError::Members {
                        expected: types.len(),
                        got: values.members.len(),
                    });
                }
                for (member, value) in types.iter().zip(&values.members) {
                    member.flatten_into(value, fields)?;
                }
            }
            (DataType::Translated(of), Some(Data::Bitstring(bytes))) => {
                fields.push(of.data_value(bytes, Use::Write)?);
            }
            (DataType::Bits(_) | DataType::Int(_) | DataType::Translated(_), _) => {
                return mismatch("bitstring")
            }
            (DataType::SerializableEnum(_), _) => return mismatch("enum_value"),
            (DataType::Bool, _) => return mismatch("bool"),
            (DataType::Enum(_), _) => return mismatch("enum"),
            (DataType::Struct(_), _) => return mismatch("struct"),
            (DataType::Tuple(_), _) => return mismatch("tuple"),
        }
        Ok(())
    }
}

/// Encodes a `bits`-wide number as two's complement in the fewest bytes.
fn signed(number: &[u8], bits: usize) -> Vec<u8> {
    let len = bits.div_ceil(8).max(1);
    let mut bytes = vec![0; len.saturating_sub(number.len())];
    bytes.extend_from_slice(&number[number.len().saturating_sub(len)..]);
    let top = (bits.max(1) - 1) % 8;
    let negative = bytes[0] >> top & 1 == 1;
    if negative {
        bytes[0] |= !(u8::MAX >> (7 - top));
    }
    let filler = if negative { 0xff } else { 0 };
    let is_filler = |at: usize| bytes[at] == filler && (bytes[at + 1] & 0x80 == 0x80) == negative;
    let start = (0..len - 1).find(|at| !is_filler(*at));
    bytes.split_off(start.unwrap_or(len - 1))
}

/// Decodes two's complement of any length to a `bits`-wide number. Excess bits that are not a sign extension are kept,
/// so that the range check rejects them.
fn unsigned(bytes: &[u8], bits: usize) -> Vec<u8> {
    let len = bits.div_ceil(8).max(1);
    let negative = bytes.first().is_some_and(|first| first & 0x80 != 0);
    let mut value = bytes.to_vec();
    if negative {
        while value.len() < len {
            value.insert(0, 0xff);
        }
        while value.len() > len && value[0] == 0xff {
            value.remove(0);
        }
        let top = (bits.max(1) - 1) % 8;
        let beyond = !(u8::MAX >> (7 - top));
        let with_sign = !(u8::MAX.checked_shr(8 - top as u32).unwrap_or(0));
        if value.len() == len && value[0] & with_sign == with_sign {
            value[0] &= !beyond;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use alfirk_p4runtime::text;

    fn types() -> P4TypeInfo {
        text::parse(
            r#"
            structs { key: "digest_t" value {
              members { name: "mac" type_spec { bitstring { bit { bitwidth: 48 } } } }
              members { name: "up" type_spec { bool {} } }
              members { name: "inner" type_spec { struct { name: "inner_t" } } }
            } }
            structs { key: "inner_t" value {
              members { name: "color" type_spec { enum { name: "color_t" } } }
              members { name: "port" type_spec { new_type { name: "port_t" } } }
            } }
            structs { key: "loop_t" value {
              members { name: "again" type_spec { struct { name: "loop_t" } } }
            } }
            enums { key: "color_t" value { members { name: "RED" } members { name: "BLUE" } } }
            new_types { key: "port_t" value {
              original_type { bitstring { bit { bitwidth: 9 } } }
            } }
            "#,
        )
        .unwrap()
    }

    fn data_type(name: &str) -> Result<DataType, DataError> {
        let spec = text::parse(&format!("struct {{ name: \"{name}\" }}")).unwrap();
        DataType::new(&spec, &types(), &Translations::new())
    }

    #[test]
    fn structs_are_flattened_and_rebuilt() {
        let ty = data_type("digest_t").unwrap();
        assert_eq!(ty.fields(), 4);
        let value: P4Data = text::parse(
            r#"struct {
                 members { bitstring: "\x01\x02" } members { bool: true }
                 members { struct { members { enum: "BLUE" } members { bitstring: "\x01\xff" } } }
               }"#,
        )
        .unwrap();
        let flat = ty.flatten(&value).unwrap();
        assert_eq!(flat, [vec![1, 2], vec![1], vec![1], vec![1, 0xff]]);
        assert_eq!(ty.unflatten(&mut flat.iter().map(Vec::as_slice)), value);
    }

    #[test]
    fn errors_describe_the_invalid_value() {
        let ty = data_type("inner_t").unwrap();
        let error_of = |text: &str| ty.flatten(&text::parse(text).unwrap()).unwrap_err();
        assert_eq!(
            error_of("bool: true"),
            DataError::Mismatch { expected: "struct" }
        );
        assert_eq!(
            error_of("struct { members { enum: \"RED\" } }"),
            DataError::Members {
                expected: 2,
                got: 1
            }
        );
        assert_eq!(
            error_of("struct { members { enum: \"PINK\" } members { bitstring: \"1\" } }"),
            DataError::UnknownMember("PINK".into())
        );
        assert!(matches!(
            error_of("struct { members { enum: \"RED\" } members { bitstring: \"\\x02\\x00\" } }"),
            DataError::Bytes(_)
        ));
    }

    #[test]
    fn recursive_and_unknown_types_are_rejected() {
        assert_eq!(data_type("loop_t"), Err(DataError::TooLarge));
        assert_eq!(data_type("nix"), Err(DataError::UnknownType("nix".into())));
    }

    #[test]
    fn signed_numbers_are_twos_complement_in_few_bytes() {
        for (number, bits, shown) in [
            (&[0][..], 32, &[0][..]),
            (&[0x7f], 32, &[0x7f]),
            (&[0x80], 32, &[0, 0x80]),
            (&[0xff], 32, &[0, 0xff]),
            (&[0xff, 0xff, 0xff, 0xff], 32, &[0xff]),
            (&[0xff, 0xff, 0xff, 0x7f], 32, &[0xff, 0x7f]),
            (&[0x80, 0, 0, 0], 32, &[0x80, 0, 0, 0]),
            (&[0xff], 8, &[0xff]),
            (&[0x0f, 0xff], 12, &[0xff]),
            (&[0x08, 0x00], 12, &[0xf8, 0x00]),
            (&[0x07, 0xff], 12, &[0x07, 0xff]),
        ] {
            assert_eq!(signed(number, bits), shown, "{number:?} of {bits} bits");
            let back = unsigned(shown, bits);
            assert_eq!(
                bytestring::canonical(&back),
                number,
                "{shown:?} of {bits} bits"
            );
        }
        // -2049 and 2048 do not fit 12 bits; a value may have more bytes than necessary.
        assert!(bytestring::check(&unsigned(&[0xf7, 0xff], 12), 12).is_err());
        assert_eq!(
            bytestring::canonical(&unsigned(&[0xff, 0xff, 0xff], 12)),
            [0x0f, 0xff]
        );
    }
}
