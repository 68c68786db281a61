//! Types as the control plane sees them.

use alfirk_p4runtime::p4::config::v1 as p4;

use num_bigint::{BigInt, Sign};

use crate::ir::{Meta, StructuredAnnotation};

/// A type expression; named types point into [`ControlTypes::type_info`].
pub type TypeSpec = p4::P4DataTypeSpec;

/// A header with `@controller_header`.
#[derive(Clone, Debug)]
pub struct ControllerHeader {
    /// The header type, whose name gives the id.
    pub meta: Meta,
    /// What it is called: `packet_in` or `packet_out`.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<ControllerField>,
}

/// A field of a [`ControllerHeader`].
#[derive(Clone, Debug)]
pub struct ControllerField {
    /// Name.
    pub name: String,
    /// Whether `@hidden` keeps it from the control plane. It has an id nevertheless.
    pub hidden: bool,
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
    /// Whether something asks for type information that may have no type to tell of: an extern object, or a call of an
    /// extern function in a control.
    pub type_info_present: bool,
    /// What annotations of `main` tell of the program.
    pub package: p4::PkgInfo,
}

/// A number as p4c writes it: big-endian, as many bytes as `width` bits take. A width of 0 stands for a translation to strings,
/// whose rule only the control plane knows: then it is the shortest form.
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
