//! Data for the control plane only: types, annotations, controller headers and the package.

use std::collections::BTreeMap;

use num_bigint::BigInt;

use super::Meta;

/// Kinds of objects that P4Info lists in the order of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)]
pub enum ObjectKind {
    Action,
    Table,
    ValueSet,
    ActionProfile,
    Counter,
    Meter,
    Register,
}

/// An annotation in brackets.
#[derive(Clone, Debug, PartialEq)]
pub struct StructuredAnnotation {
    /// Its name.
    pub name: String,
    /// The values in the brackets.
    pub body: AnnotationContent,
}

/// The values of a structured annotation. Values other than numbers, booleans and strings are omitted.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationContent {
    /// Nothing.
    Empty,
    /// `@name[1, "two"]`.
    Values(Vec<AnnotationValue>),
    /// `@name[one=1]`.
    Pairs(Vec<(String, Option<AnnotationValue>)>),
}

/// A constant in an annotation.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum AnnotationValue {
    Number(i64),
    Bool(bool),
    String(String),
}

/// A type expression; named types are in [`TypeInfo`].
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub enum TypeSpec {
    /// A type without an equivalent in P4Info.
    #[default]
    Other,
    Bool,
    Bit(u32),
    Int(u32),
    Varbit(u32),
    Error,
    /// Tuples, and structs without a name.
    Tuple(Vec<TypeSpec>),
    Struct(String),
    Header(String),
    HeaderUnion(String),
    HeaderStack {
        header: Option<String>,
        size: u32,
    },
    HeaderUnionStack {
        union: String,
        size: u32,
    },
    Enum(String),
    SerializableEnum(String),
    NewType(String),
}

/// Named types in use.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeInfo {
    /// Fields of structs.
    pub structs: BTreeMap<String, Vec<(String, TypeSpec)>>,
    /// Fields of headers.
    pub headers: BTreeMap<String, Vec<(String, TypeSpec)>>,
    /// Members of header unions, and the names of their headers.
    pub header_unions: BTreeMap<String, Vec<(String, Option<String>)>>,
    /// Members of enums.
    pub enums: BTreeMap<String, Vec<String>>,
    /// Members of enums with numbers.
    pub serializable_enums: BTreeMap<String, SerializableEnum>,
    /// All errors, if the type `error` is in use.
    pub errors: Option<Vec<String>>,
    /// Types declared with `type`.
    pub new_types: BTreeMap<String, NewType>,
}

/// An enum whose members are numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct SerializableEnum {
    /// Bits of a number.
    pub width: u32,
    /// Names and numbers.
    pub members: Vec<(String, BigInt)>,
}

/// A `type`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewType {
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
    /// Representation for the control plane; `None` while it is being computed.
    pub representation: Option<Representation>,
}

/// Representation of a `type`'s values for the control plane.
#[derive(Clone, Debug, PartialEq)]
pub enum Representation {
    /// That of the underlying type.
    Original(TypeSpec),
    /// `@p4runtime_translation`: the control plane uses numbers of this width in bits.
    Bits { uri: String, width: u32 },
    /// `@p4runtime_translation`: the control plane uses strings.
    Strings { uri: String },
}

/// A header with `@controller_header`.
#[derive(Clone, Debug)]
pub struct ControllerHeader {
    /// The header type, whose name gives the id.
    pub meta: Meta,
    /// Name: `packet_in` or `packet_out`.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<ControllerField>,
}

/// A field of a [`ControllerHeader`].
#[derive(Clone, Debug)]
pub struct ControllerField {
    /// Name.
    pub name: String,
    /// Whether it is `@hidden` from the control plane. Hidden fields have an id too.
    pub hidden: bool,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of its `type`, if it is declared with one.
    pub type_name: Option<String>,
    /// Explicit `@id`.
    pub id: Option<u32>,
    /// Annotations.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
}

/// Description of the program by the annotations of `main`.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)]
pub struct Package {
    pub name: String,
    pub version: String,
    pub organization: String,
    pub contact: String,
    pub url: String,
    /// Name of the architecture, if the annotations set one.
    pub arch: String,
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations.
    pub structured: Vec<StructuredAnnotation>,
    /// `@brief`.
    pub brief: String,
    /// `@description`.
    pub description: String,
    /// `@platform_property`.
    pub properties: Option<PlatformProperties>,
}

/// Limits of the platform; 0 is unspecified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct PlatformProperties {
    pub multicast_group_table_size: i32,
    pub multicast_group_table_total_replicas: i32,
    pub multicast_group_table_max_replicas_per_entry: i32,
}

/// Types and headers of the control plane.
#[derive(Clone, Debug, Default)]
pub struct ControlTypes {
    /// Named types in use.
    pub type_info: TypeInfo,
    /// Headers of packet-in and packet-out messages.
    pub controller_headers: Vec<ControllerHeader>,
    /// Whether P4Info has type information even without a type in it, as with an extern object or a call of an
    /// extern function in a control.
    pub type_info_present: bool,
    /// Description of the program by the annotations of `main`.
    pub package: Package,
}
