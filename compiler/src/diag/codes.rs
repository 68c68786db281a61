//! Codes of errors and names of warnings.

use std::fmt;

/// Stable code of an error, printed as `E0123`. The hundreds are the phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Code(pub u16);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "E{:04}", self.0)
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Code {
            $($(#[$doc])* pub const $name: Code = Code($number);)*
        }
    };
}

codes! {
    /// A character, number or string that is no token.
    LEXICAL = 100;
    /// A preprocessor directive that is malformed or in the wrong place.
    DIRECTIVE = 101;
    /// A file that `#include` does not find or cannot read.
    INCLUDE = 102;
    /// Wrong use of a macro.
    MACRO = 103;
    /// `#error`.
    USER_ERROR = 104;
    /// The program exceeds a limit of the compiler.
    LIMIT = 105;

    /// The program does not follow the grammar.
    SYNTAX = 200;
    /// Nested too deeply.
    NESTING = 201;

    /// A name that nothing declares.
    UNKNOWN_NAME = 300;
    /// A name declared twice.
    DUPLICATE = 301;
    /// A name used for something of another kind: a type as a value, ...
    WRONG_KIND = 302;
    /// A field, member or method that does not exist.
    UNKNOWN_MEMBER = 303;

    /// An expression has another type than its context takes.
    TYPE_MISMATCH = 400;
    /// An operator does not have these operands.
    OPERATOR = 401;
    /// A cast that does not exist.
    CAST = 402;
    /// A type that is not allowed there.
    BAD_TYPE = 403;
    /// Type arguments are wrong, or cannot be inferred.
    TYPE_ARGUMENTS = 404;
    /// Arguments do not fit the parameters.
    ARGUMENTS = 405;
    /// Something that cannot be called is called.
    NOT_CALLABLE = 406;
    /// Something that cannot be assigned to is assigned to.
    NOT_ASSIGNABLE = 407;
    /// A slice or index out of range.
    BOUNDS = 408;
    /// A call in a place where it is not allowed.
    CALL_CONTEXT = 409;
    /// Something recursive.
    RECURSION = 410;

    /// A value that is not known at compile time.
    NOT_CONSTANT = 500;
    /// A constant expression that has no value.
    EVALUATION = 501;

    /// A statement that is not allowed there.
    STATEMENT = 600;
    /// A rule about parsers and states.
    PARSER_RULE = 601;
    /// A rule about tables.
    TABLE_RULE = 602;
    /// A rule about actions, functions, controls and their parameters.
    DECLARATION_RULE = 603;
    /// A rule about annotations.
    ANNOTATION_RULE = 604;
    /// A rule about packages and the main instance.
    PACKAGE_RULE = 605;

    /// Something that the target cannot do.
    TARGET = 700;
    /// A register that a packet accesses twice, or that both gresses access.
    REGISTER_ACCESS = 701;
    /// Something that Tofino can do and our model of it cannot.
    MODEL = 702;
    /// A table or an array that is larger than the memories of the whole chip.
    DOES_NOT_FIT = 703;
    /// Something that no unit of a stage of the chip can do.
    UNITS = 704;
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
    /// A value read before it is written.
    UninitializedUse = "uninitialized_use";
    /// An `out` parameter that is not written on all ways.
    UninitializedOutParam = "uninitialized_out_param";
    /// A state or statement that is never reached.
    Unreachable = "unreachable";
    /// A name that hides another one.
    Shadow = "shadow";
    /// Use of something marked `@deprecated`.
    Deprecated = "deprecated";
    /// Something advisable that is missing.
    Missing = "missing";
    /// A field of a header that is never valid there.
    InvalidHeader = "invalid_header";
    /// A constant that does not fit its type.
    Overflow = "overflow";
    /// Operands whose widths or values cannot match.
    Mismatch = "mismatch";
    /// A part of the program that has no effect here.
    Ignore = "ignore";
    /// A property of a table that the target does not know.
    IgnoreProp = "ignore-prop";
    /// A transition that is missing or has no effect.
    ParserTransition = "parser-transition";
    /// An unusual order of declarations or arguments.
    Ordering = "ordering";
    /// Entries of a table with the same priority.
    DuplicatePriorities = "duplicate_priorities";
    /// Entries of a table in another order than that of their priorities.
    EntriesOutOfOrder = "entries_out_of_priority_order";
    /// A header that a parser may extract twice.
    MultiHeaderExtract = "multi_header_extract";
    /// The same thing given twice.
    Duplicate = "duplicate";
    /// A value that is not valid there and replaced.
    Invalid = "invalid";
    /// Something unknown that is ignored.
    Unknown = "unknown";
    /// Something that the target does otherwise than written.
    Unsupported = "unsupported";
    /// `#warning`, and doubtful directives.
    Preprocessor = "preprocessor";
}

/// Names of p4c's for what is an error here, or what nothing here gives cause to.
const OTHER_NAMES: [&str; 5] = [
    "branch",
    "failed",
    "legacy",
    "type-inference",
    "uninitialized",
];

impl Warning {
    /// Whether options and `@noWarn` mean this warning by a name. Hyphens and underscores are alike, as p4c's names have both, and
    /// p4c counts what is never reached among the transitions of parsers.
    pub fn answers_to(self, name: &str) -> bool {
        same_name(self.name(), name)
            || (self == Warning::Unreachable && same_name(Warning::ParserTransition.name(), name))
    }

    /// Whether there is a warning of this name, here or in p4c.
    pub fn is_known(name: &str) -> bool {
        let other = OTHER_NAMES.iter().any(|other| same_name(other, name));
        other || Warning::ALL.iter().any(|warning| warning.answers_to(name))
    }
}

fn same_name(one: &str, other: &str) -> bool {
    let plain = |c: char| if c == '-' { '_' } else { c };
    one.chars().map(plain).eq(other.chars().map(plain))
}
