//! Codes of errors and names of warnings.

use std::fmt;

/// Stable code of an error, printed as `E0123`. The hundreds digit is the phase that reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(u16);

impl Code {
    /// The number that is printed after the `E`.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

/// The number of a code that is written `E0123`.
const fn number(code: &str) -> u16 {
    let digits = code.as_bytes();
    let (mut number, mut at) = (0, 1);
    while at < digits.len() {
        number = 10 * number + (digits[at] - b'0') as u16;
        at += 1;
    }
    number
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $name: Code = Code(number($code));)*

            /// All codes, ascending.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// Each code as it is printed, with the page that explains it.
            pub(super) const PAGES: &'static [(&'static str, &'static str)] =
                &[$(($code, include_str!(concat!("../../explain/", $code, ".md"))),)*];
        }
    };
}

codes! {
    /// Invalid character, number or string.
    LEXICAL = "E0100";
    /// Malformed or misplaced preprocessor directive.
    DIRECTIVE = "E0101";
    /// Included file not found or not readable.
    INCLUDE = "E0102";
    /// Wrong use of a macro.
    MACRO = "E0103";
    /// `#error` in the program.
    USER_ERROR = "E0104";
    /// A limit of the compiler is exceeded.
    LIMIT = "E0105";

    /// Syntax error.
    SYNTAX = "E0200";
    /// Nested too deeply.
    NESTING = "E0201";

    /// Unknown name.
    UNKNOWN_NAME = "E0300";
    /// Duplicate name.
    DUPLICATE = "E0301";
    /// Wrong kind of declaration, such as a type used as a value.
    WRONG_KIND = "E0302";
    /// Unknown field, member or method.
    UNKNOWN_MEMBER = "E0303";

    /// Type mismatch.
    TYPE_MISMATCH = "E0400";
    /// Operator not defined for these operands.
    OPERATOR = "E0401";
    /// No such cast.
    CAST = "E0402";
    /// Type not allowed here.
    BAD_TYPE = "E0403";
    /// Type arguments missing, wrong or not inferable.
    TYPE_ARGUMENTS = "E0404";
    /// Arguments do not match the parameters.
    ARGUMENTS = "E0405";
    /// Not callable.
    NOT_CALLABLE = "E0406";
    /// Not assignable.
    NOT_ASSIGNABLE = "E0407";
    /// Index or slice out of range.
    BOUNDS = "E0408";
    /// Call not allowed in this place.
    CALL_CONTEXT = "E0409";
    /// Recursion.
    RECURSION = "E0410";

    /// Not a compile-time constant.
    NOT_CONSTANT = "E0500";
    /// Constant expression without a value.
    EVALUATION = "E0501";

    /// Statement not allowed here.
    STATEMENT = "E0600";
    /// Invalid parser.
    PARSER_RULE = "E0601";
    /// Invalid table.
    TABLE_RULE = "E0602";
    /// Invalid declaration or parameter.
    DECLARATION_RULE = "E0603";
    /// Invalid annotation.
    ANNOTATION_RULE = "E0604";
    /// No package instance `main`.
    PACKAGE_RULE = "E0605";

    /// Not supported by the target.
    TARGET = "E0700";
    /// Register accessed more than once per packet, or by both ingress and egress.
    REGISTER_ACCESS = "E0701";
    /// Supported by Tofino, not by the software model.
    MODEL = "E0702";
    /// Larger than the chip's memories.
    DOES_NOT_FIT = "E0703";
    /// No unit of a stage can do this.
    UNITS = "E0704";
}

macro_rules! warnings {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// Named warnings, with p4c's names.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Warning {
            $($(#[$doc])* $variant,)*
        }

        impl Warning {
            /// All warnings in order of declaration.
            pub const ALL: &'static [Warning] = &[$(Warning::$variant,)*];

            /// Each name with the page that explains the warning.
            pub(super) const PAGES: &'static [(&'static str, &'static str)] =
                &[$(($name, include_str!(concat!("../../explain/", $name, ".md"))),)*];

            /// Name for `--Wdisable`, `--Werror` and `@noWarn`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Warning::$variant => $name,)*
                }
            }
        }
    };
}

warnings! {
    /// Something declared and never used.
    Unused = "unused";
    /// Read before it is written.
    UninitializedUse = "uninitialized_use";
    /// `out` parameter not written on every path.
    UninitializedOutParam = "uninitialized_out_param";
    /// Statement, state or `select` case that is never reached.
    Unreachable = "unreachable";
    /// A name that hides another one.
    Shadow = "shadow";
    /// Use of something marked `@deprecated`.
    Deprecated = "deprecated";
    /// A `select` without a default.
    Missing = "missing";
    /// A field of a header that is never valid there.
    InvalidHeader = "invalid_header";
    /// A constant that does not fit its type.
    Overflow = "overflow";
    /// Placeholders and values of a log message differ in number.
    Mismatch = "mismatch";
    /// An annotation is ignored by request (`--disable-annotations`).
    Ignore = "ignore";
    /// Unknown table property.
    IgnoreProp = "ignore-prop";
    /// State without a transition, or `select` without cases.
    ParserTransition = "parser-transition";
    /// Entries of a table with the same priority.
    DuplicatePriorities = "duplicate_priorities";
    /// Entries of a table not sorted by priority.
    EntriesOutOfOrder = "entries_out_of_priority_order";
    /// Header extracted twice.
    MultiHeaderExtract = "multi_header_extract";
    /// Field list without fields.
    Invalid = "invalid";
    /// Unknown version of v1model.
    Unknown = "unknown";
    /// `#warning`, or a doubtful directive.
    Preprocessor = "preprocessor";
}

/// Names of p4c's warnings that this compiler reports as errors, or never reports.
const OTHER_NAMES: [&str; 8] = [
    "branch",
    "duplicate",
    "failed",
    "legacy",
    "ordering",
    "type-inference",
    "uninitialized",
    "unsupported",
];

impl Warning {
    /// Whether `name` in an option or in `@noWarn` selects this warning. Hyphens and underscores are equal, as p4c's names have both.
    /// p4c's name of [`Warning::Unreachable`] is `parser-transition`, which selects both.
    pub fn is_named(self, name: &str) -> bool {
        same_name(self.name(), name)
            || (self == Warning::Unreachable && same_name(Warning::ParserTransition.name(), name))
    }

    /// Whether this compiler or p4c has a warning of this name.
    pub fn is_known(name: &str) -> bool {
        let other = OTHER_NAMES.iter().any(|other| same_name(other, name));
        other || Warning::ALL.iter().any(|warning| warning.is_named(name))
    }
}

fn same_name(one: &str, other: &str) -> bool {
    let plain = |c: char| if c == '-' { '_' } else { c };
    one.chars().map(plain).eq(other.chars().map(plain))
}
