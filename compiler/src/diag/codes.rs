//! Codes of errors and names of warnings.

use std::fmt;

/// Stable code of an error, printed as `E0123`. The hundreds digit tells the phase: 1 preprocessor, 2 parser, 3 names, 4 types, 5
/// constants, 6 rules of constructs, 7 target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(u16);

impl Code {
    /// The number after the `E`, such as 123.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

/// Parses a code such as `E0123` to its number.
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

            /// All codes in ascending order.
            pub const ALL: &'static [Code] = &[$(Code::$name,)*];

            /// Each code as printed, and the Markdown of its explanation.
            pub(super) const PAGES: &'static [(&'static str, &'static str)] =
                &[$(($code, include_str!(concat!("../../explain/", $code, ".md"))),)*];
        }
    };
}

codes! {
    /// The text contains an invalid character, number or string.
    LEXICAL = "E0100";
    /// A preprocessor directive is malformed or misplaced.
    DIRECTIVE = "E0101";
    /// An included file is missing or not readable.
    INCLUDE = "E0102";
    /// A macro is defined or used incorrectly.
    MACRO = "E0103";
    /// The program contains `#error`.
    USER_ERROR = "E0104";
    /// The program exceeds a limit of the compiler, such as the number of tokens.
    LIMIT = "E0105";

    /// The text does not match the grammar.
    SYNTAX = "E0200";
    /// The program is nested too deeply.
    NESTING = "E0201";

    /// A name is not declared.
    UNKNOWN_NAME = "E0300";
    /// A name is declared twice in one scope.
    DUPLICATE = "E0301";
    /// A name refers to the wrong kind of declaration, such as a type used as a value.
    WRONG_KIND = "E0302";
    /// A field, member or method does not exist.
    UNKNOWN_MEMBER = "E0303";

    /// An expression does not have the type that its context requires.
    TYPE_MISMATCH = "E0400";
    /// An operator is not defined for its operands.
    OPERATOR = "E0401";
    /// There is no cast between two types.
    CAST = "E0402";
    /// A type is not allowed in its position.
    BAD_TYPE = "E0403";
    /// Type arguments are missing, wrong or not inferable.
    TYPE_ARGUMENTS = "E0404";
    /// Arguments do not match the parameters.
    ARGUMENTS = "E0405";
    /// The callee is not a function, action, method or type that can be called.
    NOT_CALLABLE = "E0406";
    /// An expression that is assigned to is not an lvalue.
    NOT_ASSIGNABLE = "E0407";
    /// An index or slice is out of range.
    BOUNDS = "E0408";
    /// A call is not allowed in its position, such as `apply` of a table in an action.
    CALL_CONTEXT = "E0409";
    /// A function, action, parser or control uses itself.
    RECURSION = "E0410";

    /// A value must be known at compile time and is not.
    NOT_CONSTANT = "E0500";
    /// A constant expression has no value, such as a division by zero.
    EVALUATION = "E0501";

    /// A statement is not allowed in its position.
    STATEMENT = "E0600";
    /// A parser breaks a rule, such as a missing state `start`.
    PARSER_RULE = "E0601";
    /// A table breaks a rule, such as a missing property `actions`.
    TABLE_RULE = "E0602";
    /// A declaration or parameter breaks a rule.
    DECLARATION_RULE = "E0603";
    /// An annotation has wrong arguments, or both its unstructured and its structured form.
    ANNOTATION_RULE = "E0604";
    /// The program has no package instance `main`, or an unsuitable one.
    PACKAGE_RULE = "E0605";

    /// The target does not support a construct.
    TARGET = "E0700";
    /// A register is accessed more than once per packet, or by both ingress and egress.
    REGISTER_ACCESS = "E0701";
    /// The hardware of the target supports a construct that its software model does not support.
    MODEL = "E0702";
    /// An object needs more memory than the chip has.
    DOES_NOT_FIT = "E0703";
    /// No unit of a pipeline stage (stateful ALU, gateway, hash or action unit) can compute an expression or statement.
    UNITS = "E0704";
}

macro_rules! warnings {
    ($($(#[$doc:meta])* $variant:ident = $name:literal;)*) => {
        /// Warnings, with the names that p4c uses.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Warning {
            $($(#[$doc])* $variant,)*
        }

        impl Warning {
            /// All warnings, in order of their names here.
            pub const ALL: &'static [Warning] = &[$(Warning::$variant,)*];

            /// Each name, and the Markdown of the warning's explanation.
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
    /// A declaration is never used.
    Unused = "unused";
    /// A variable is read before it is written.
    UninitializedUse = "uninitialized_use";
    /// An `out` parameter is not written on every path.
    UninitializedOutParam = "uninitialized_out_param";
    /// A statement, state or `select` case is never reached.
    Unreachable = "unreachable";
    /// A name hides an outer declaration of that name.
    Shadow = "shadow";
    /// A declaration with the annotation `@deprecated` is used.
    Deprecated = "deprecated";
    /// A `select` has no default case, and its cases do not match all values.
    Missing = "missing";
    /// A field is accessed while its header is invalid.
    InvalidHeader = "invalid_header";
    /// A constant does not fit its type and is wrapped.
    Overflow = "overflow";
    /// The numbers of placeholders and of values in a log message differ.
    Mismatch = "mismatch";
    /// An annotation is ignored because of `--disable-annotations`.
    Ignore = "ignore";
    /// A table property is unknown and ignored.
    IgnoreProp = "ignore-prop";
    /// A state has no transition, or a `select` has no cases.
    ParserTransition = "parser-transition";
    /// Two entries of a table have the same priority.
    DuplicatePriorities = "duplicate_priorities";
    /// The entries of a table are not sorted by priority.
    EntriesOutOfOrder = "entries_out_of_priority_order";
    /// A header may be extracted twice.
    MultiHeaderExtract = "multi_header_extract";
    /// A packet is cloned, resubmitted or recirculated with a field list that has no fields.
    Invalid = "invalid";
    /// The program requests an unknown version of its architecture.
    Unknown = "unknown";
    /// The program contains `#warning`, or a directive that is unknown or suspicious.
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
    /// Whether `name` in an option or in `@noWarn` selects this warning. Hyphens and underscores are equivalent, as p4c's names contain either.
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
