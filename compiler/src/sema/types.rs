//! Types of the typed program (spec § 7).

use crate::diag::ErrorReported;
use crate::syntax::ast::{DeclId, Name};
use std::fmt;
use std::rc::Rc;

/// Maximum number of parts of a type after expansion of its type arguments.
pub const MAX_TYPE_SIZE: usize = 4096;

/// A type, with `typedef`s expanded and widths evaluated. Cheap to clone. Equality is type equality of the language.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Type after a reported error; compatible with all types, to avoid follow-up errors.
    Invalid(ErrorReported),
    /// The type of a node that has none: the checker has not visited it. Compatible with all types.
    Unknown,
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `int`: arbitrary precision, compile-time only
    Int,
    /// `bit<W>`: unsigned integer of W bits
    Bit(u32),
    /// `int<W>`: signed integer of W bits, two's complement
    Signed(u32),
    /// `varbit<W>`: bit string of variable width, at most W bits
    Varbit(u32),
    /// `string`
    String,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// A declared enum without underlying type: `enum E { ... }`.
    Enum(Nominal),
    /// A declared enum with underlying type: `enum bit<8> E { ... }`; see [`super::CheckedProgram::underlying`].
    SerializableEnum(Nominal),
    /// A new type declared by `type`; see [`super::CheckedProgram::underlying`].
    NewType(Nominal),
    /// A declared struct type.
    Struct(Nominal),
    /// A declared header type.
    Header(Nominal),
    /// A declared header union type.
    HeaderUnion(Nominal),
    /// A stack of headers or header unions: element type and number of elements.
    Stack(Rc<Type>, u32),
    /// `tuple<...>`; also the type of `{x, y}` without a type from the context.
    Tuple(Rc<[Type]>),
    /// The type of `{f = x, g = y}` without a type from the context: names and types of the fields.
    Record(Rc<[(Name, Type)]>),
    /// `list<T>`
    List(Rc<Type>),
    /// A set of values of this type: the type of keysets.
    Set(Rc<Type>),
    /// A declared extern type, whose values are its instances.
    Extern(Nominal),
    /// An instance of a parser, or a parser type.
    Parser(Nominal),
    /// An instance of a control, or a control type.
    Control(Nominal),
    /// A declared package type, whose values are its instances.
    Package(Nominal),
    /// The type of a table's name, which can be applied.
    Table(Nominal),
    /// The result of `table.apply()`.
    ApplyResult(Nominal),
    /// The value of `table.apply().action_run`.
    ActionRun(Nominal),
    /// An action, function or method that is named but not called; the string is its name. Not the type of a value.
    Callable(Name),
    /// A type parameter, inside its generic declaration.
    Var(Nominal),
    /// An inference variable, by number. Does not occur in a [`super::CheckedProgram`].
    Infer(u32),
}

/// A declared type and its type arguments. Two are equal if they have the same declaration and equal arguments.
#[derive(Clone, Debug)]
pub struct Nominal {
    /// Declaration of the type; the identity of the type.
    pub id: DeclId,
    /// Name of the type, for messages.
    pub name: Name,
    /// Type arguments, empty for types that are not generic.
    pub args: Rc<[Type]>,
}

impl Nominal {
    /// A declared type that is not generic.
    pub fn plain(id: DeclId, name: Name) -> Nominal {
        Nominal {
            id,
            name,
            args: Rc::new([]),
        }
    }
}

impl PartialEq for Nominal {
    fn eq(&self, other: &Nominal) -> bool {
        self.id == other.id && self.args == other.args
    }
}

impl Eq for Nominal {}

impl std::hash::Hash for Nominal {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.id.hash(state);
        self.args.hash(state);
    }
}

impl fmt::Display for Nominal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        if !self.args.is_empty() {
            write_list(f, &self.args)?;
        }
        Ok(())
    }
}

fn write_list(f: &mut fmt::Formatter<'_>, types: &[Type]) -> fmt::Result {
    f.write_str("<")?;
    for (i, ty) in types.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{ty}")?;
    }
    f.write_str(">")
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Invalid(_) | Type::Unknown => f.write_str("{unknown}"),
            Type::Void => f.write_str("void"),
            Type::Bool => f.write_str("bool"),
            Type::Int => f.write_str("int"),
            Type::Bit(w) => write!(f, "bit<{w}>"),
            Type::Signed(w) => write!(f, "int<{w}>"),
            Type::Varbit(w) => write!(f, "varbit<{w}>"),
            Type::String => f.write_str("string"),
            Type::Error => f.write_str("error"),
            Type::MatchKind => f.write_str("match_kind"),
            Type::Enum(n)
            | Type::SerializableEnum(n)
            | Type::NewType(n)
            | Type::Struct(n)
            | Type::Header(n)
            | Type::HeaderUnion(n)
            | Type::Extern(n)
            | Type::Parser(n)
            | Type::Control(n)
            | Type::Package(n)
            | Type::Var(n) => n.fmt(f),
            Type::Stack(element, size) => write!(f, "{element}[{size}]"),
            Type::Tuple(types) => {
                f.write_str("tuple")?;
                write_list(f, types)
            }
            Type::Record(fields) => {
                f.write_str("{")?;
                for (i, (name, ty)) in fields.iter().enumerate() {
                    write!(f, "{}{ty} {name}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
            Type::List(element) => write!(f, "list<{element}>"),
            Type::Set(element) => write!(f, "set<{element}>"),
            Type::Table(n) => write!(f, "table {n}"),
            Type::ApplyResult(n) => write!(f, "result of {n}.apply()"),
            Type::ActionRun(n) => write!(f, "action of {n}"),
            Type::Callable(name) => write!(f, "function {name}"),
            Type::Infer(_) => f.write_str("_"),
        }
    }
}

impl Type {
    /// Whether the type is missing, because of an error or because the node was not visited.
    pub fn is_invalid(&self) -> bool {
        matches!(self, Type::Invalid(_) | Type::Unknown)
    }

    /// The declared type and its type arguments; `None` for built-in types such as `bit<W>` and for stacks, tuples and lists.
    pub fn nominal(&self) -> Option<&Nominal> {
        match self {
            Type::Enum(n)
            | Type::SerializableEnum(n)
            | Type::NewType(n)
            | Type::Struct(n)
            | Type::Header(n)
            | Type::HeaderUnion(n)
            | Type::Extern(n)
            | Type::Parser(n)
            | Type::Control(n)
            | Type::Package(n)
            | Type::Table(n)
            | Type::ApplyResult(n)
            | Type::ActionRun(n)
            | Type::Var(n) => Some(n),
            _ => None,
        }
    }

    /// Width of `bit<W>` and `int<W>`, in bits; `None` for other types.
    pub fn bits(&self) -> Option<u32> {
        match self {
            Type::Bit(w) | Type::Signed(w) => Some(*w),
            _ => None,
        }
    }

    /// Whether the type is `bit<W>`, `int<W>` or `int`.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Type::Bit(_) | Type::Signed(_) | Type::Int)
    }

    /// Whether the type is a struct, header or header union, which have fields.
    pub fn is_struct_like(&self) -> bool {
        matches!(
            self,
            Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_)
        )
    }

    /// Whether values of the type are instances of externs, parsers, controls or packages. Instances exist at compile time and cannot be
    /// copied.
    pub fn is_instance(&self) -> bool {
        matches!(
            self,
            Type::Extern(_) | Type::Parser(_) | Type::Control(_) | Type::Package(_)
        )
    }

    /// Replaces types bottom up: `f` is called with each type after its parts were replaced, and returns the replacement or `None` to
    /// keep the type.
    pub fn map(&self, f: &mut dyn FnMut(&Type) -> Option<Type>) -> Type {
        let nominal = |n: &Nominal, f: &mut dyn FnMut(&Type) -> Option<Type>| {
            if n.args.is_empty() {
                n.clone()
            } else {
                Nominal {
                    args: n.args.iter().map(|t| t.map(f)).collect(),
                    ..n.clone()
                }
            }
        };
        let mapped = match self {
            Type::Struct(n) => Type::Struct(nominal(n, f)),
            Type::Header(n) => Type::Header(nominal(n, f)),
            Type::HeaderUnion(n) => Type::HeaderUnion(nominal(n, f)),
            Type::Extern(n) => Type::Extern(nominal(n, f)),
            Type::Parser(n) => Type::Parser(nominal(n, f)),
            Type::Control(n) => Type::Control(nominal(n, f)),
            Type::Package(n) => Type::Package(nominal(n, f)),
            Type::Stack(t, n) => Type::Stack(Rc::new(t.map(f)), *n),
            Type::Tuple(list) => Type::Tuple(list.iter().map(|t| t.map(f)).collect()),
            Type::Record(list) => {
                Type::Record(list.iter().map(|(n, t)| (n.clone(), t.map(f))).collect())
            }
            Type::List(t) => Type::List(Rc::new(t.map(f))),
            Type::Set(t) => Type::Set(Rc::new(t.map(f))),
            _ => self.clone(),
        };
        f(&mapped).unwrap_or(mapped)
    }

    /// Whether `test` holds for this type or one of its parts: type arguments, elements of stacks, tuples, lists and records. Fields of
    /// declared structs are not parts.
    pub fn any(&self, test: &mut dyn FnMut(&Type) -> bool) -> bool {
        if test(self) {
            return true;
        }
        match self {
            Type::Stack(t, _) | Type::List(t) | Type::Set(t) => t.any(test),
            Type::Tuple(list) => list.iter().any(|t| t.any(test)),
            Type::Record(list) => list.iter().any(|(_, t)| t.any(test)),
            _ => self
                .nominal()
                .is_some_and(|n| n.args.iter().any(|t| t.any(test))),
        }
    }

    /// Whether the expanded type has more than [`MAX_TYPE_SIZE`] parts. Nested aliases and type arguments can double a type at each
    /// level; all traversals of types rely on this bound.
    pub fn is_too_large(&self) -> bool {
        let mut parts = 0;
        self.any(&mut |_| {
            parts += 1;
            parts > MAX_TYPE_SIZE
        })
    }

    /// Replaces type parameters by their types. Type parameters without an entry in `args` stay.
    pub fn substitute(&self, args: &Substitution) -> Type {
        if args.is_empty() {
            return self.clone();
        }
        self.map(&mut |ty| match ty {
            Type::Var(n) => args.get(n.id).cloned(),
            _ => None,
        })
    }
}

/// A mapping of type parameters to types.
#[derive(Clone, Debug, Default)]
pub struct Substitution(Vec<(DeclId, Type)>);

impl Substitution {
    /// Maps the type parameters to the types, in order. If one list is longer, its further elements are ignored.
    pub fn new(
        params: impl IntoIterator<Item = DeclId>,
        args: impl IntoIterator<Item = Type>,
    ) -> Substitution {
        Substitution(params.into_iter().zip(args).collect())
    }

    /// The type that replaces the type parameter `param`; `None` if it has no entry.
    pub fn get(&self, param: DeclId) -> Option<&Type> {
        self.0.iter().find(|(id, _)| *id == param).map(|(_, ty)| ty)
    }

    /// Adds all entries of `other`.
    pub fn extend(&mut self, other: &Substitution) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Whether the mapping has no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
