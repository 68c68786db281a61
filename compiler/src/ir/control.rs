//! Data that only P4Info needs: types, annotations, controller headers and the description of the program.

use std::collections::BTreeMap;

use num_bigint::BigInt;

use super::Meta;

/// A kind of object that P4Info lists in the order of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectKind {
    /// An action, in P4Info's `actions`.
    Action,
    /// A match-action table, in P4Info's `tables`.
    Table,
    /// A parser value set, in P4Info's `value_sets`.
    ValueSet,
    /// An action profile or action selector, in P4Info's `action_profiles`.
    ActionProfile,
    /// A counter array or a direct counter, in P4Info's `counters` or `direct_counters`.
    Counter,
    /// A meter array or a direct meter, in P4Info's `meters` or `direct_meters`.
    Meter,
    /// A register array, in P4Info's `registers`.
    Register,
}

/// A structured annotation, `@name[...]` (P4_16 specification, "Structured annotations").
#[derive(Clone, Debug, PartialEq)]
pub struct StructuredAnnotation {
    /// Name of the annotation without `@`.
    pub name: String,
    /// Content of the brackets.
    pub body: AnnotationContent,
}

/// The values of a structured annotation. Values other than numbers, booleans and strings are omitted.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationContent {
    /// Empty brackets: `@name[]`.
    Empty,
    /// A list of values: `@name[1, "two"]`.
    Values(Vec<AnnotationValue>),
    /// A list of keys with their values: `@name[one=1]`. `None` for a value that is neither a number, a boolean nor a string.
    Pairs(Vec<(String, Option<AnnotationValue>)>),
}

/// A value in a structured annotation.
#[derive(Clone, Debug, PartialEq)]
pub enum AnnotationValue {
    /// An integer constant.
    Number(i64),
    /// A boolean constant.
    Bool(bool),
    /// A string literal without its quotes.
    String(String),
}

/// A type expression, P4Info's `P4DataTypeSpec`. Named types are defined in [`TypeInfo`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum TypeSpec {
    /// A type without an equivalent in P4Info.
    #[default]
    Other,
    /// `bool`.
    Bool,
    /// `bit<W>`, with the width in bits.
    Bit(u32),
    /// `int<W>`, with the width in bits.
    Int(u32),
    /// `varbit<W>`, with the maximum width in bits.
    Varbit(u32),
    /// The type `error`.
    Error,
    /// A tuple or a struct without a name, by its member types.
    Tuple(Vec<TypeSpec>),
    /// A struct, by name in [`TypeInfo::structs`].
    Struct(String),
    /// A header, by name in [`TypeInfo::headers`].
    Header(String),
    /// A header union, by name in [`TypeInfo::header_unions`].
    HeaderUnion(String),
    /// A header stack.
    HeaderStack {
        /// Name of the elements' header type; `None` if it has no name.
        header: Option<String>,
        /// Number of elements.
        size: u32,
    },
    /// A stack of header unions.
    HeaderUnionStack {
        /// Name of the elements' header union type.
        union: String,
        /// Number of elements.
        size: u32,
    },
    /// An enum without an underlying type, by name in [`TypeInfo::enums`].
    Enum(String),
    /// An enum with an underlying type, by name in [`TypeInfo::serializable_enums`].
    SerializableEnum(String),
    /// A type declared with `type`, by name in [`TypeInfo::new_types`].
    NewType(String),
}

/// The named types that objects of P4Info use, by control-plane name: P4Info's `P4TypeInfo`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TypeInfo {
    /// Structs, with the names and types of their fields.
    pub structs: BTreeMap<String, Vec<(String, TypeSpec)>>,
    /// Headers, with the names and types of their fields in wire order.
    pub headers: BTreeMap<String, Vec<(String, TypeSpec)>>,
    /// Header unions, with their members' names and header types. `None` for a header type without a name.
    pub header_unions: BTreeMap<String, Vec<(String, Option<String>)>>,
    /// Enums without an underlying type, with the names of their members.
    pub enums: BTreeMap<String, Vec<String>>,
    /// Enums with an underlying type.
    pub serializable_enums: BTreeMap<String, SerializableEnum>,
    /// Names of all errors; `None` if no object uses the type `error`.
    pub errors: Option<Vec<String>>,
    /// Types declared with `type`.
    pub new_types: BTreeMap<String, NewType>,
}

/// An enum with an underlying type, whose members have numeric values.
#[derive(Clone, Debug, PartialEq)]
pub struct SerializableEnum {
    /// Width of the underlying type in bits.
    pub width: u32,
    /// Members, each with its name and value.
    pub members: Vec<(String, BigInt)>,
}

/// A type declared with `type`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewType {
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations, `@name[...]`.
    pub structured: Vec<StructuredAnnotation>,
    /// Representation for the control plane; `None` while it is being computed.
    pub representation: Option<Representation>,
}

/// Representation of a `type`'s values for the control plane.
#[derive(Clone, Debug, PartialEq)]
pub enum Representation {
    /// The representation of the underlying type.
    Original(TypeSpec),
    /// A number: `@p4runtime_translation(uri, width)`.
    Bits {
        /// Identifier of the translation, the annotation's first argument.
        uri: String,
        /// Width in bits of the control plane's numbers.
        width: u32,
    },
    /// A string: `@p4runtime_translation(uri, string)`.
    Strings {
        /// Identifier of the translation, the annotation's first argument.
        uri: String,
    },
}

/// A header with `@controller_header`.
#[derive(Clone, Debug)]
pub struct ControllerHeader {
    /// Metadata of the header type; P4Info's id is a hash of its name.
    pub meta: Meta,
    /// The annotation's argument: `packet_in` or `packet_out`.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<ControllerField>,
}

/// A field of a [`ControllerHeader`].
#[derive(Clone, Debug)]
pub struct ControllerField {
    /// Name of the field in the header type.
    pub name: String,
    /// Whether the field is `@hidden` from the control plane. Hidden fields have an id too.
    pub hidden: bool,
    /// Width in bits for the control plane; 0 for a translation to strings.
    pub control_width: u32,
    /// Name of the `type` with which the field is declared; `None` for other types.
    pub type_name: Option<String>,
    /// The number in `@id`; `None` without that annotation.
    pub id: Option<u32>,
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations, `@name[...]`.
    pub structured: Vec<StructuredAnnotation>,
}

/// Description of the program from the annotations of `main`: P4Info's `PkgInfo`. Strings are empty if not set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Package {
    /// Name of the program: `@pkginfo(name=...)`.
    pub name: String,
    /// Version of the program, in any form.
    pub version: String,
    /// Author or owner of the program.
    pub organization: String,
    /// Contact of the author, such as an e-mail address.
    pub contact: String,
    /// Web address of the program.
    pub url: String,
    /// Name of the architecture; `@pkginfo(arch=...)` replaces it.
    pub arch: String,
    /// Unstructured annotations as written.
    pub annotations: Vec<String>,
    /// Structured annotations, `@name[...]`.
    pub structured: Vec<StructuredAnnotation>,
    /// Text of `@brief`.
    pub brief: String,
    /// Text of `@description`.
    pub description: String,
    /// Limits in `@platform_property`; `None` without that annotation.
    pub properties: Option<PlatformProperties>,
}

/// Limits that the program needs of the platform's packet replication engine; 0 is unspecified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlatformProperties {
    /// Number of multicast groups.
    pub multicast_group_table_size: i32,
    /// Number of replicas of all multicast groups together.
    pub multicast_group_table_total_replicas: i32,
    /// Maximum number of replicas of one multicast group.
    pub multicast_group_table_max_replicas_per_entry: i32,
}

/// The types, controller headers and package description of P4Info.
#[derive(Clone, Debug, Default)]
pub struct ControlTypes {
    /// Named types that objects of P4Info use.
    pub type_info: TypeInfo,
    /// Headers of packet-in and packet-out messages.
    pub controller_headers: Vec<ControllerHeader>,
    /// Whether P4Info has the field `type_info` even if it is empty. p4c writes it for programs with an extern object or with a call of an
    /// extern function in a control.
    pub type_info_present: bool,
    /// Description of the program from the annotations of `main`.
    pub package: Package,
}
