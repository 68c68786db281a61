//! Types, annotations and the package, as messages of P4Info.

use alfirk_p4runtime::p4::config::v1 as p4;
use num_bigint::{BigInt, Sign};
use p4::p4_data_type_spec::TypeSpec as Spec;

use super::documentation;
use crate::ir::{
    mask, AnnotationContent, AnnotationValue, NewType, Package, Representation,
    StructuredAnnotation, TypeInfo, TypeSpec,
};

/// Encodes a number as p4c does: big-endian, in the number of bytes of a `width`-bit value. Width 0 is a type that the control plane
/// translates to strings; it has the shortest encoding.
pub fn byte_string(value: &BigInt, width: u32) -> Vec<u8> {
    let length = (width as usize).div_ceil(8).max(1);
    let mut modulus = BigInt::from(1);
    modulus <<= 8 * length;
    let value = match value.sign() {
        Sign::Minus => value + modulus,
        _ => value.clone(),
    };
    let short = value.to_bytes_be().1;
    let mut bytes = vec![0; length.saturating_sub(short.len())];
    bytes.extend(short);
    bytes
}

/// The P4Info message of a type.
pub fn data_type(ty: &TypeSpec) -> p4::P4DataTypeSpec {
    let spec = match ty {
        TypeSpec::Other => None,
        TypeSpec::Bool => Some(Spec::Bool(p4::P4BoolType {})),
        TypeSpec::Bit(_) | TypeSpec::Int(_) | TypeSpec::Varbit(_) => {
            bitstring(ty).map(Spec::Bitstring)
        }
        TypeSpec::Error => Some(Spec::Error(p4::P4ErrorType {})),
        TypeSpec::Tuple(members) => {
            let members = members.iter().map(data_type).collect();
            Some(Spec::Tuple(p4::P4TupleTypeSpec { members }))
        }
        TypeSpec::Struct(name) => Some(Spec::Struct(named(name))),
        TypeSpec::Header(name) => Some(Spec::Header(named(name))),
        TypeSpec::HeaderUnion(name) => Some(Spec::HeaderUnion(named(name))),
        TypeSpec::HeaderStack { header, size } => {
            Some(Spec::HeaderStack(p4::P4HeaderStackTypeSpec {
                header: header.as_deref().map(named),
                size: *size as i32,
            }))
        }
        TypeSpec::HeaderUnionStack { union, size } => {
            Some(Spec::HeaderUnionStack(p4::P4HeaderUnionStackTypeSpec {
                header_union: Some(named(union)),
                size: *size as i32,
            }))
        }
        TypeSpec::Enum(name) => Some(Spec::Enum(named(name))),
        TypeSpec::SerializableEnum(name) => Some(Spec::SerializableEnum(named(name))),
        TypeSpec::NewType(name) => Some(Spec::NewType(named(name))),
    };
    p4::P4DataTypeSpec { type_spec: spec }
}

fn named(name: &str) -> p4::P4NamedType {
    p4::P4NamedType {
        name: name.to_owned(),
    }
}

/// The P4Info message of `bit`, `int` and `varbit`; `None` for other types.
fn bitstring(ty: &TypeSpec) -> Option<p4::P4BitstringLikeTypeSpec> {
    use p4::p4_bitstring_like_type_spec::TypeSpec as Bits;
    let spec = match ty {
        TypeSpec::Bit(width) => Bits::Bit(bit(*width)),
        TypeSpec::Int(width) => Bits::Int(p4::P4IntTypeSpec {
            bitwidth: *width as i32,
        }),
        TypeSpec::Varbit(width) => Bits::Varbit(p4::P4VarbitTypeSpec {
            max_bitwidth: *width as i32,
        }),
        _ => return None,
    };
    Some(p4::P4BitstringLikeTypeSpec {
        type_spec: Some(spec),
        ..Default::default()
    })
}

fn bit(width: u32) -> p4::P4BitTypeSpec {
    p4::P4BitTypeSpec {
        bitwidth: width as i32,
    }
}

/// The P4Info message of all named types.
pub fn type_info(types: &TypeInfo) -> p4::P4TypeInfo {
    let mut info = p4::P4TypeInfo::default();
    for (name, fields) in &types.structs {
        let members = fields
            .iter()
            .map(|(name, ty)| p4::p4_struct_type_spec::Member {
                name: name.clone(),
                type_spec: Some(data_type(ty)),
            })
            .collect();
        let spec = p4::P4StructTypeSpec {
            members,
            ..Default::default()
        };
        info.structs.insert(name.clone(), spec);
    }
    for (name, fields) in &types.headers {
        let members = fields
            .iter()
            .map(|(name, ty)| p4::p4_header_type_spec::Member {
                name: name.clone(),
                type_spec: bitstring(ty),
            })
            .collect();
        let spec = p4::P4HeaderTypeSpec {
            members,
            ..Default::default()
        };
        info.headers.insert(name.clone(), spec);
    }
    for (name, members) in &types.header_unions {
        let members = members
            .iter()
            .map(|(name, header)| p4::p4_header_union_type_spec::Member {
                name: name.clone(),
                header: header.as_deref().map(named),
            })
            .collect();
        let spec = p4::P4HeaderUnionTypeSpec {
            members,
            ..Default::default()
        };
        info.header_unions.insert(name.clone(), spec);
    }
    for (name, members) in &types.enums {
        let members = members
            .iter()
            .map(|name| p4::p4_enum_type_spec::Member {
                name: name.clone(),
                ..Default::default()
            })
            .collect();
        let spec = p4::P4EnumTypeSpec {
            members,
            ..Default::default()
        };
        info.enums.insert(name.clone(), spec);
    }
    for (name, of) in &types.serializable_enums {
        let members = of
            .members
            .iter()
            .map(|(name, value)| p4::p4_serializable_enum_type_spec::Member {
                name: name.clone(),
                value: byte_string(&(value & mask(of.width)), of.width),
                ..Default::default()
            })
            .collect();
        let spec = p4::P4SerializableEnumTypeSpec {
            underlying_type: Some(bit(of.width)),
            members,
            ..Default::default()
        };
        info.serializable_enums.insert(name.clone(), spec);
    }
    let errors = types.errors.clone();
    info.error = errors.map(|members| p4::P4ErrorTypeSpec { members });
    for (name, of) in &types.new_types {
        info.new_types.insert(name.clone(), new_type(of));
    }
    info
}

fn new_type(of: &NewType) -> p4::P4NewTypeSpec {
    use p4::p4_new_type_spec::Representation as Spec;
    use p4::p4_new_type_translation::{SdnString, SdnType};
    let translated = |uri: &String, sdn| {
        Spec::TranslatedType(p4::P4NewTypeTranslation {
            uri: uri.clone(),
            sdn_type: Some(sdn),
        })
    };
    let representation = of.representation.as_ref().map(|of| match of {
        Representation::Original(ty) => Spec::OriginalType(data_type(ty)),
        Representation::Bits { uri, width } => translated(uri, SdnType::SdnBitwidth(*width as i32)),
        Representation::Strings { uri } => translated(uri, SdnType::SdnString(SdnString {})),
    });
    p4::P4NewTypeSpec {
        annotations: of.annotations.clone(),
        structured_annotations: structured(&of.structured),
        representation,
        ..Default::default()
    }
}

/// The P4Info messages of structured annotations. As p4c, an empty body is omitted.
pub fn structured(annotations: &[StructuredAnnotation]) -> Vec<p4::StructuredAnnotation> {
    use p4::structured_annotation::Body;
    let of = |annotation: &StructuredAnnotation| p4::StructuredAnnotation {
        name: annotation.name.clone(),
        body: match &annotation.body {
            AnnotationContent::Empty => None,
            AnnotationContent::Values(values) => Some(Body::ExpressionList(p4::ExpressionList {
                expressions: values.iter().map(expression).collect(),
            })),
            AnnotationContent::Pairs(pairs) => Some(Body::KvPairList(p4::KeyValuePairList {
                kv_pairs: (pairs.iter())
                    .map(|(key, value)| p4::KeyValuePair {
                        key: key.clone(),
                        value: value.as_ref().map(expression),
                    })
                    .collect(),
            })),
        },
        source_location: None,
    };
    annotations.iter().map(of).collect()
}

fn expression(value: &AnnotationValue) -> p4::Expression {
    use p4::expression::Value;
    p4::Expression {
        value: Some(match value {
            AnnotationValue::Number(number) => Value::Int64Value(*number),
            AnnotationValue::Bool(value) => Value::BoolValue(*value),
            AnnotationValue::String(text) => Value::StringValue(text.clone()),
        }),
    }
}

/// The P4Info message of the package `main`.
pub fn package(of: &Package) -> p4::PkgInfo {
    p4::PkgInfo {
        name: of.name.clone(),
        version: of.version.clone(),
        doc: documentation(&of.brief, &of.description),
        annotations: of.annotations.clone(),
        arch: of.arch.clone(),
        organization: of.organization.clone(),
        contact: of.contact.clone(),
        url: of.url.clone(),
        structured_annotations: structured(&of.structured),
        platform_properties: of.properties.map(|of| p4::PlatformProperties {
            multicast_group_table_size: of.multicast_group_table_size,
            multicast_group_table_total_replicas: of.multicast_group_table_total_replicas,
            multicast_group_table_max_replicas_per_entry: of
                .multicast_group_table_max_replicas_per_entry,
        }),
        ..Default::default()
    }
}
