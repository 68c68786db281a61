//! Types of the typed program (spec § 7).

use crate::syntax::ast::{DeclId, Name};
use std::fmt;
use std::rc::Rc;

/// Most parts of one type.
pub const MAX_TYPE_SIZE: usize = 4096;

/// A type, with `typedef`s expanded and constant widths evaluated. Cheap to clone; equality is the language's type equality.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// Type after a reported error; compatible with all types, to avoid follow-up errors.
    Invalid,
    /// `void`
    Void,
    /// `bool`
    Bool,
    /// `int`: arbitrary precision, compile-time only
    Int,
    /// `bit<W>`
    Bit(u32),
    /// `int<W>`, two's complement
    Signed(u32),
    /// `varbit<W>`, W the largest width
    Varbit(u32),
    /// `string`
    String,
    /// `error`
    Error,
    /// `match_kind`
    MatchKind,
    /// An enum without underlying type.
    Enum(Nominal),
    /// An enum with underlying type; see [`super::CheckedProgram::underlying`].
    SerializableEnum(Nominal),
    /// A type made by `type`; see [`super::CheckedProgram::underlying`].
    NewType(Nominal),
    /// A struct.
    Struct(Nominal),
    /// A header.
    Header(Nominal),
    /// A header union.
    HeaderUnion(Nominal),
    /// A stack of headers or header unions, and its size.
    Stack(Rc<Type>, u32),
    /// `tuple<...>`, also the type of a list expression that no context gives another type.
    Tuple(Rc<[Type]>),
    /// A structure-valued expression to which no context gives a type.
    Record(Rc<[(Name, Type)]>),
    /// `list<T>`
    List(Rc<Type>),
    /// A set of values: keysets.
    Set(Rc<Type>),
    /// An instance of an extern.
    Extern(Nominal),
    /// An instance of a parser, or a parser type.
    Parser(Nominal),
    /// An instance of a control, or a control type.
    Control(Nominal),
    /// An instance of a package.
    Package(Nominal),
    /// A table.
    Table(Nominal),
    /// The result of `table.apply()`.
    ApplyResult(Nominal),
    /// The value of `table.apply().action_run`.
    ActionRun(Nominal),
    /// Something to be called: an action, a function or a method by name. Not a value.
    Callable(Name),
    /// A type parameter, inside of the generic declaration.
    Var(Nominal),
    /// A type that inference has not found yet. Never seen in a [`super::CheckedProgram`].
    Infer(u32),
}

/// A declared type and its type arguments. Two are equal when they name the same declaration with equal arguments.
#[derive(Clone, Debug)]
pub struct Nominal {
    /// The declaration.
    pub id: DeclId,
    /// Its name.
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
            Type::Invalid => f.write_str("{unknown}"),
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
    /// The declaration behind a declared type.
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

    /// Width in bits of `bit<W>` and `int<W>`.
    pub fn bits(&self) -> Option<u32> {
        match self {
            Type::Bit(w) | Type::Signed(w) => Some(*w),
            _ => None,
        }
    }

    /// `bit<W>`, `int<W>` or `int`.
    pub fn is_numeric(&self) -> bool {
        matches!(self, Type::Bit(_) | Type::Signed(_) | Type::Int)
    }

    /// Struct, header or header union.
    pub fn is_struct_like(&self) -> bool {
        matches!(
            self,
            Type::Struct(_) | Type::Header(_) | Type::HeaderUnion(_)
        )
    }

    /// Instances of externs, parsers, controls and packages: things that exist at compile time and cannot be copied.
    pub fn is_instance(&self) -> bool {
        matches!(
            self,
            Type::Extern(_) | Type::Parser(_) | Type::Control(_) | Type::Package(_)
        )
    }

    /// Replaces types bottom up: `f` sees each type whose parts have been replaced, and returns its replacement or `None` to keep it.
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

    /// Whether `test` holds for this type or one that it is made of (not for types of fields).
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

    /// Whether the type, written out, has more than [`MAX_TYPE_SIZE`] parts. Aliases and type arguments can double a type again and
    /// again; all walks over types rely on this bound.
    pub fn is_too_large(&self) -> bool {
        let mut parts = 0;
        self.any(&mut |_| {
            parts += 1;
            parts > MAX_TYPE_SIZE
        })
    }

    /// Puts types in the place of type parameters. Parameters that `args` does not know stay.
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
    /// Pairs type parameters with types, in order.
    pub fn new(
        params: impl IntoIterator<Item = DeclId>,
        args: impl IntoIterator<Item = Type>,
    ) -> Substitution {
        Substitution(params.into_iter().zip(args).collect())
    }

    /// The type that stands for `param`.
    pub fn get(&self, param: DeclId) -> Option<&Type> {
        self.0.iter().find(|(id, _)| *id == param).map(|(_, ty)| ty)
    }

    /// Adds the pairs of `other`.
    pub fn extend(&mut self, other: &Substitution) {
        self.0.extend(other.0.iter().cloned());
    }

    /// Whether there is no pair.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
