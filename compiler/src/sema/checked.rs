//! The typed program: the results of `sema` for each node of the syntax tree.

use super::types::{Nominal, Substitution, Type};
use super::value::Value;
use crate::arch::Arch;
use crate::syntax::ast::*;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// A typed program: the syntax tree and the results of the type checker.
///
/// The tree is the parser's, unchanged. The results are in tables that are indexed by the ids of the tree's nodes.
#[derive(Debug, Default)]
pub struct CheckedProgram {
    /// The architecture that the program is checked for.
    pub arch: Arch,
    /// The syntax tree.
    pub program: P4Program,
    pub(super) defs: Vec<Option<Def>>,
    pub(super) exprs: Vec<ExprInfo>,
    pub(super) type_refs: Vec<Type>,
    pub(super) type_names: FxHashMap<TypeRefId, DeclId>,
    pub(super) decl_types: FxHashMap<DeclId, Type>,
    pub(super) consts: FxHashMap<DeclId, Value>,
    pub(super) calls: FxHashMap<ExprId, CallInfo>,
    pub(super) errors: Vec<DeclId>,
    pub(super) match_kinds: Vec<DeclId>,
    pub(super) main: Option<Rc<Instantiation>>,
}

/// Results of the type checker for one expression.
#[derive(Clone, Debug)]
pub struct ExprInfo {
    /// Type of the expression itself, before an implicit cast.
    pub ty: Type,
    /// The type that the expression is implicitly cast to; `None` without such a cast.
    pub cast: Option<Type>,
    /// Value of the expression before the implicit cast; `None` if the value is known only at run time or depends on constructor
    /// arguments.
    pub value: Option<Value>,
    /// The declaration or built-in member that the expression refers to.
    pub resolution: Resolution,
    /// Whether the expression is an lvalue (spec § 6.7).
    pub is_lvalue: bool,
}

impl Default for ExprInfo {
    fn default() -> ExprInfo {
        ExprInfo {
            ty: Type::Unknown,
            cast: None,
            value: None,
            resolution: Resolution::None,
            is_lvalue: false,
        }
    }
}

/// Resolution of the name of an [`ExprKind::Name`], or of the member of an [`ExprKind::Member`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Resolution {
    /// No resolution: other expressions, and callees of built-in methods (see [`CallInfo::callee`]).
    #[default]
    None,
    /// A declaration: variable, parameter, constant, instance, field, member of an enum, action, table, type, ...
    Decl(DeclId),
    /// `stack.next`: the element that is extracted next
    StackNext,
    /// `stack.last`: the element that was extracted last
    StackLast,
    /// `stack.lastIndex`: the index of `stack.last`
    StackLastIndex,
    /// `stack.size`: the number of elements, a constant
    StackSize,
    /// `table.apply().hit`: whether an entry matched
    Hit,
    /// `table.apply().miss`: whether no entry matched
    Miss,
    /// `table.apply().action_run`: the executed action, for `switch`
    ActionRun,
}

/// A declaration, and the declaration that it is part of.
#[derive(Clone, Debug)]
pub struct Def {
    /// Kind of the declaration, with its node of the syntax tree.
    pub kind: DefKind,
    /// The parser, control, action, function, extern, struct, enum or table around it; `None` at the top level.
    pub parent: Option<DeclId>,
}

/// The kind of a declaration, with its node of the syntax tree.
#[derive(Clone, Debug)]
pub enum DefKind {
    /// A constant; see [`CheckedProgram::const_value`].
    Const(Rc<ConstDecl>),
    /// A variable, also the variable of a `for` loop.
    Var(Rc<VarDecl>),
    /// A parameter of `apply`, of an action, function or method.
    Param(Rc<Param>),
    /// A constructor parameter of a parser, control, package or extern.
    CtorParam(Rc<Param>),
    /// An instance of an extern, parser, control or package.
    Instance(Rc<Instantiation>),
    /// An extern type: `extern E { ... }`.
    Extern(Rc<ExternDecl>),
    /// A constructor of an extern type.
    Constructor(Rc<FunctionDecl>),
    /// A method of an extern type.
    Method(Rc<FunctionDecl>),
    /// An extern function: `extern T f(...);`.
    ExternFunction(Rc<FunctionDecl>),
    /// A function with a body, also the implementation of an abstract method.
    Function(Rc<FunctionDecl>),
    /// An action: `action a(...) { ... }`.
    Action(Rc<ActionDecl>),
    /// A parser (with a body) or a parser type (without).
    Parser(Rc<ParserDecl>),
    /// A state of the parent parser: `state s { ... }`.
    State(Rc<State>),
    /// A control (with a body) or a control type (without).
    Control(Rc<ControlDecl>),
    /// A package type: `package P(...);`.
    Package(Rc<PackageDecl>),
    /// A table: `table t { ... }`.
    Table(Rc<TableDecl>),
    /// A value set: `value_set<T>(n) v;`.
    ValueSet(Rc<ValueSetDecl>),
    /// A struct type: `struct S { ... }`.
    Struct(Rc<StructDecl>),
    /// A header type: `header H { ... }`.
    Header(Rc<StructDecl>),
    /// A header union type: `header_union U { ... }`.
    HeaderUnion(Rc<StructDecl>),
    /// A field of the parent struct, and its index in order of declaration.
    Field(Rc<Field>, usize),
    /// An enum type: `enum E { ... }`.
    Enum(Rc<EnumDecl>),
    /// A member of the parent enum, and its index in order of declaration.
    EnumMember(Rc<Member>, usize),
    /// A member of `error`, and its index among all errors of the program; the index is the error's number.
    ErrorMember(Rc<Member>, usize),
    /// A member of `match_kind`, such as `exact`.
    MatchKindMember(Rc<Member>),
    /// An alias made by `typedef`.
    Typedef(Rc<TypedefDecl>),
    /// A type made by `type`.
    NewType(Rc<TypedefDecl>),
    /// A type parameter of the parent declaration, and its index in the list of type parameters.
    TypeParam(Name, usize),
}

/// Resolution of a call, a constructor call, an instantiation or a reference to an action.
#[derive(Clone, Debug)]
pub struct CallInfo {
    /// The called declaration.
    pub callee: Callee,
    /// Type arguments in order of the callee's type parameters. For a constructor, these are the type parameters of the
    /// constructed type.
    pub type_args: Vec<Type>,
    /// The bound parameters, in order of declaration. A reference to an action in a table's list binds only the parameters with a
    /// direction. Entries and default actions bind all parameters.
    pub args: Vec<ArgInfo>,
    /// Type of the result, type arguments applied.
    pub ret: Type,
}

/// A parameter of a call, and the source of its value.
#[derive(Clone, Debug)]
pub struct ArgInfo {
    /// The parameter; `None` for parameters of built-in methods.
    pub param: Option<DeclId>,
    /// Direction of the parameter: `in`, `out`, `inout` or none.
    pub direction: Direction,
    /// Type of the parameter, type arguments applied.
    pub ty: Type,
    /// Source of the parameter's value.
    pub source: ArgSource,
}

/// The source of a parameter's value in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgSource {
    /// The argument with this index in source order.
    Arg(usize),
    /// The parameter's default value, [`Param::default`].
    Default,
    /// No value: an omitted `@optional` parameter, or `_` for an `out` parameter.
    Omitted,
}

/// The callee of a call, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callee {
    /// A call of an action, or a reference to it in a table.
    Action(DeclId),
    /// A call of a function with a body.
    Function(DeclId),
    /// A call of an extern function.
    ExternFunction(DeclId),
    /// A method of an extern instance; the instance is the base of the callee's [`ExprKind::Member`]. An abstract method has the id of
    /// the extern's declaration, not of its implementation.
    Method(DeclId),
    /// `apply` of an instance of a parser or parser type.
    ParserApply(DeclId),
    /// `apply` of an instance of a control or control type.
    ControlApply(DeclId),
    /// `C.apply(...)`: direct application of a control or parser type, which creates an instance for this call (spec § 15.1).
    DirectApply(DeclId),
    /// `apply` of a table.
    TableApply(DeclId),
    /// An instantiation of an extern type.
    ExternConstructor {
        /// The extern type.
        ext: DeclId,
        /// The constructor that matches the arguments.
        constructor: DeclId,
    },
    /// An instantiation of a parser.
    ParserConstructor(DeclId),
    /// An instantiation of a control.
    ControlConstructor(DeclId),
    /// An instantiation of a package.
    PackageConstructor(DeclId),
    /// A call of a method that the language defines, such as `isValid`.
    Builtin(BuiltinMethod),
}

/// Methods of headers, header unions, stacks and types with a size. The object is the base of the callee's [`ExprKind::Member`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BuiltinMethod {
    /// `h.isValid()`: whether the header is valid
    IsValid,
    /// `h.setValid()`: makes the header valid
    SetValid,
    /// `h.setInvalid()`: makes the header invalid
    SetInvalid,
    /// `stack.push_front(n)`: shifts elements by n to higher indices
    PushFront,
    /// `stack.pop_front(n)`: shifts elements by n to lower indices
    PopFront,
    /// `x.minSizeInBits()`: minimum size, `varbit` fields empty
    MinSizeInBits,
    /// `x.minSizeInBytes()`: minimum size, rounded up to bytes
    MinSizeInBytes,
    /// `x.maxSizeInBits()`: maximum size, `varbit` fields at their maximum width
    MaxSizeInBits,
    /// `x.maxSizeInBytes()`: maximum size, rounded up to bytes
    MaxSizeInBytes,
}

impl CheckedProgram {
    /// The declaration with this id.
    ///
    /// # Panics
    /// When the id belongs to another program.
    pub fn def(&self, id: DeclId) -> &Def {
        self.defs[id.0 as usize]
            .as_ref()
            .expect("the checker defines every id that the parser dealt out")
    }

    /// The declaration with this id; `None` if an error in the program prevented its definition.
    pub fn opt_def(&self, id: DeclId) -> Option<&Def> {
        self.defs.get(id.0 as usize)?.as_ref()
    }

    /// The type checker's results for an expression.
    ///
    /// # Panics
    /// When the id belongs to a larger program.
    pub fn info(&self, id: ExprId) -> &ExprInfo {
        &self.exprs[id.0 as usize]
    }

    /// Type of an expression before its implicit cast.
    pub fn type_of(&self, expr: &Expr) -> &Type {
        &self.info(expr.id).ty
    }

    /// Type of an expression after its implicit cast.
    pub fn type_as_used(&self, expr: &Expr) -> &Type {
        let info = self.info(expr.id);
        info.cast.as_ref().unwrap_or(&info.ty)
    }

    /// Value of an expression after its implicit cast; `None` if the expression is not a compile-time constant.
    pub fn value(&self, expr: &Expr) -> Option<Value> {
        let info = self.info(expr.id);
        let value = info.value.as_ref()?;
        match &info.cast {
            None => Some(value.clone()),
            Some(to) => self.cast_value(value, &info.ty, to),
        }
    }

    /// Casts a constant between types, which may be `type`s and serializable enums. `None` if the cast does not exist.
    pub fn cast_value(&self, value: &Value, from: &Type, to: &Type) -> Option<Value> {
        super::value::cast(value, &self.representation(from), &self.representation(to)).ok()
    }

    /// Resolution of a name or member.
    pub fn resolution(&self, expr: &Expr) -> Resolution {
        self.info(expr.id).resolution
    }

    /// The resolution of a call, of an instantiation ([`Instantiation::call`]) or of a reference to an action ([`ActionRef::call`]).
    /// `None` for other expressions and after an error.
    pub fn call(&self, id: ExprId) -> Option<&CallInfo> {
        self.calls.get(&id)
    }

    /// The type that a written type denotes.
    pub fn type_ref(&self, ty: &TypeRef) -> &Type {
        &self.type_refs[ty.id.0 as usize]
    }

    /// The declaration that a written type names. For a `typedef` name it is the `typedef`, not the type it stands for. `None` for types
    /// without a name.
    pub fn type_name(&self, ty: &TypeRef) -> Option<DeclId> {
        self.type_names.get(&ty.id).copied()
    }

    /// Type of a variable, constant, parameter, field, instance, member, table or value set (type of its elements). `None` for other
    /// declarations.
    pub fn decl_type(&self, id: DeclId) -> Option<&Type> {
        self.decl_types.get(&id)
    }

    /// Value of a constant, or of a member of a serializable enum. `None` for other declarations and for constants without a valid value.
    pub fn const_value(&self, id: DeclId) -> Option<&Value> {
        self.consts.get(&id)
    }

    /// All errors of the program in order of declaration: an error's number is its index.
    pub fn errors(&self) -> &[DeclId] {
        &self.errors
    }

    /// All match kinds in order of declaration.
    pub fn match_kinds(&self) -> &[DeclId] {
        &self.match_kinds
    }

    /// The package instance named `main`; `None` if the program has none.
    pub fn main(&self) -> Option<&Rc<Instantiation>> {
        self.main.as_ref()
    }

    /// Name of a declaration as written in the source.
    pub fn name(&self, id: DeclId) -> Name {
        self.def(id).kind.name()
    }

    /// Fields of a struct, header or header union with their types, type arguments applied; empty for other types.
    pub fn fields(&self, ty: &Type) -> Vec<(Rc<Field>, Type)> {
        let Some(nominal) = ty.nominal() else {
            return Vec::new();
        };
        let Some(Def {
            kind: DefKind::Struct(d) | DefKind::Header(d) | DefKind::HeaderUnion(d),
            ..
        }) = self.opt_def(nominal.id)
        else {
            return Vec::new();
        };
        let args = self.substitution(nominal, &d.type_params);
        d.fields
            .iter()
            .map(|f| (f.clone(), self.type_ref(&f.ty).substitute(&args)))
            .collect()
    }

    /// The substitution of a declared type's parameters by its type arguments.
    pub fn substitution(&self, nominal: &Nominal, params: &[TypeParam]) -> Substitution {
        Substitution::new(params.iter().map(|p| p.id), nominal.args.iter().cloned())
    }

    /// The underlying type of a serializable enum or a `type`, one level deep; `None` for other types.
    pub fn underlying(&self, ty: &Type) -> Option<Type> {
        self.underlying_ref(ty).cloned()
    }

    /// A reference to [`CheckedProgram::underlying`].
    fn underlying_ref(&self, ty: &Type) -> Option<&Type> {
        match ty {
            Type::SerializableEnum(n) | Type::NewType(n) => match &self.opt_def(n.id)?.kind {
                DefKind::Enum(d) => d.underlying.as_ref().map(|t| self.type_ref(t)),
                DefKind::NewType(d) => match &d.target {
                    TypedefTarget::Type(t) => Some(self.type_ref(t)),
                    TypedefTarget::Decl(_) => None,
                },
                _ => None,
            },
            _ => None,
        }
    }

    /// The type that represents the values of `ty`: serializable enums and `type`s are replaced by their underlying types, repeatedly.
    pub fn representation(&self, ty: &Type) -> Type {
        self.represented(ty).clone()
    }

    /// A reference to [`CheckedProgram::representation`].
    pub fn represented<'a>(&'a self, mut ty: &'a Type) -> &'a Type {
        while let Some(under) = self.underlying_ref(ty) {
            ty = under;
        }
        ty
    }
}

impl DefKind {
    /// Name of the declaration as written in the source.
    pub fn name(&self) -> Name {
        match self {
            DefKind::Const(d) => d.name.name.clone(),
            DefKind::Var(d) => d.name.name.clone(),
            DefKind::Param(d) | DefKind::CtorParam(d) => d.name.name.clone(),
            DefKind::Instance(d) => d.name.name.clone(),
            DefKind::Extern(d) => d.name.name.clone(),
            DefKind::Constructor(d)
            | DefKind::Method(d)
            | DefKind::ExternFunction(d)
            | DefKind::Function(d) => d.name.name.clone(),
            DefKind::Action(d) => d.name.name.clone(),
            DefKind::Parser(d) => d.name.name.clone(),
            DefKind::State(d) => d.name.name.clone(),
            DefKind::Control(d) => d.name.name.clone(),
            DefKind::Package(d) => d.name.name.clone(),
            DefKind::Table(d) => d.name.name.clone(),
            DefKind::ValueSet(d) => d.name.name.clone(),
            DefKind::Struct(d) | DefKind::Header(d) | DefKind::HeaderUnion(d) => {
                d.name.name.clone()
            }
            DefKind::Field(d, _) => d.name.name.clone(),
            DefKind::Enum(d) => d.name.name.clone(),
            DefKind::EnumMember(d, _)
            | DefKind::ErrorMember(d, _)
            | DefKind::MatchKindMember(d) => d.name.name.clone(),
            DefKind::Typedef(d) | DefKind::NewType(d) => d.name.name.clone(),
            DefKind::TypeParam(name, _) => name.clone(),
        }
    }
}
