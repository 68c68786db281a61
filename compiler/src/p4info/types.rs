//! Types as the control plane sees them.

use alfirk_p4runtime::p4::config::v1 as p4;

use crate::ir::StructuredAnnotation;

/// A type expression; named types point into [`ControlTypes::type_info`].
pub type TypeSpec = p4::P4DataTypeSpec;

/// A header with `@controller_header`.
#[derive(Clone, Debug)]
pub struct ControllerHeader {
    /// `packet_in` or `packet_out`.
    pub name: String,
    /// Explicit `@id` of the header.
    pub id: Option<u32>,
    /// Annotations of the header.
    pub annotations: Vec<String>,
    /// Structured annotations of the header.
    pub structured: Vec<StructuredAnnotation>,
    /// Fields in wire order.
    pub fields: Vec<ControllerField>,
}

/// A field of a [`ControllerHeader`].
#[derive(Clone, Debug)]
pub struct ControllerField {
    /// Name.
    pub name: String,
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
}

/// All that the control plane must know of types.
#[derive(Clone, Debug, Default)]
pub struct ControlTypes {
    /// Named types in use.
    pub type_info: p4::P4TypeInfo,
    /// Headers of packet-in and packet-out messages.
    pub controller_headers: Vec<ControllerHeader>,
    /// Structured or unstructured `@pkginfo` of the program, as key and value.
    pub package: Vec<(String, String)>,
}

/// `bit<width>`.
pub fn bits(width: u32) -> TypeSpec {
    bitstring(p4::p4_bitstring_like_type_spec::TypeSpec::Bit(
        p4::P4BitTypeSpec {
            bitwidth: width as i32,
        },
    ))
}

/// `int<width>`.
pub fn signed(width: u32) -> TypeSpec {
    bitstring(p4::p4_bitstring_like_type_spec::TypeSpec::Int(
        p4::P4IntTypeSpec {
            bitwidth: width as i32,
        },
    ))
}

/// `varbit<width>`.
pub fn varbit(width: u32) -> TypeSpec {
    bitstring(p4::p4_bitstring_like_type_spec::TypeSpec::Varbit(
        p4::P4VarbitTypeSpec {
            max_bitwidth: width as i32,
        },
    ))
}

/// `bool`.
pub fn boolean() -> TypeSpec {
    TypeSpec {
        type_spec: Some(p4::p4_data_type_spec::TypeSpec::Bool(p4::P4BoolType {})),
    }
}

fn bitstring(spec: p4::p4_bitstring_like_type_spec::TypeSpec) -> TypeSpec {
    let spec = p4::P4BitstringLikeTypeSpec {
        type_spec: Some(spec),
        ..Default::default()
    };
    TypeSpec {
        type_spec: Some(p4::p4_data_type_spec::TypeSpec::Bitstring(spec)),
    }
}
