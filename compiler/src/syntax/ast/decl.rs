//! Declarations (spec § 7.2, 10, 11, 13, 14).

use super::{Annotation, Arg, Block, DeclId, Expr, Ident, Param, State, TypeRef};
use crate::diag::Span;
use std::rc::Rc;

/// A declaration, at the top level or nested in another declaration.
#[derive(Clone, Debug, PartialEq)]
pub enum Decl {
    /// `const T x = e;`
    Const(Rc<ConstDecl>),
    /// `T x = e;` inside a parser or control
    Var(Rc<VarDecl>),
    /// `T(args) x;`
    Instantiation(Rc<Instantiation>),
    /// `extern E { ... }`
    Extern(Rc<ExternDecl>),
    /// `extern T f(...);`
    ExternFunction(Rc<FunctionDecl>),
    /// `T f(...) { ... }`
    Function(Rc<FunctionDecl>),
    /// `action a(...) { ... }`
    Action(Rc<ActionDecl>),
    /// `parser P(...);` or `parser P(...)(...) { ... }`
    Parser(Rc<ParserDecl>),
    /// `control C(...);` or `control C(...)(...) { ... }`
    Control(Rc<ControlDecl>),
    /// `package P(...);`
    Package(Rc<PackageDecl>),
    /// `table t { ... }`
    Table(Rc<TableDecl>),
    /// `value_set<T>(n) v;`
    ValueSet(Rc<ValueSetDecl>),
    /// `struct S { ... }`
    Struct(Rc<StructDecl>),
    /// `header H { ... }`
    Header(Rc<StructDecl>),
    /// `header_union U { ... }`
    HeaderUnion(Rc<StructDecl>),
    /// `enum E { ... }` or `enum bit<8> E { ... }`
    Enum(Rc<EnumDecl>),
    /// `error { ... }`
    Error(Rc<MembersDecl>),
    /// `match_kind { ... }`
    MatchKind(Rc<MembersDecl>),
    /// `typedef T A;`
    Typedef(Rc<TypedefDecl>),
    /// `type T A;`
    NewType(Rc<TypedefDecl>),
}

/// A type parameter of a generic declaration, `T` in `<T>`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeParam {
    /// Id of the type variable, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Name of the type parameter: `T` in `<T>`.
    pub name: Ident,
}

/// `const T x = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct ConstDecl {
    /// Id of the constant, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the constant, in source order.
    pub annotations: Vec<Annotation>,
    /// Type of the constant, as written.
    pub ty: TypeRef,
    /// Name of the constant: `x` in `const T x = e;`.
    pub name: Ident,
    /// Initializer of the constant: `e` in `const T x = e;`.
    pub value: Expr,
    /// Range of the constant's source text.
    pub span: Span,
}

/// `T x;` or `T x = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct VarDecl {
    /// Id of the variable, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the variable, in source order.
    pub annotations: Vec<Annotation>,
    /// Type of the variable, as written.
    pub ty: TypeRef,
    /// Name of the variable: `x` in `T x = e;`.
    pub name: Ident,
    /// Initial value; `None` leaves the variable undefined.
    pub init: Option<Expr>,
    /// Range of the variable's source text.
    pub span: Span,
}

/// An instantiation `T(args) x;`, with `= { ... }` if it implements abstract methods.
#[derive(Clone, Debug, PartialEq)]
pub struct Instantiation {
    /// Id of the instance, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Expression id of the constructor call, under which `sema` records its resolution.
    pub call: super::ExprId,
    /// Annotations of the instance, in source order.
    pub annotations: Vec<Annotation>,
    /// Type of the instance, as written; its type arguments may be omitted.
    pub ty: TypeRef,
    /// Constructor arguments in source order.
    pub args: Vec<Arg>,
    /// Name of the instance: `x` in `T(args) x;`.
    pub name: Ident,
    /// Implementations of abstract methods, and instances that they use; `None` without `= { ... }`.
    pub body: Option<Vec<Decl>>,
    /// Range of the instance's source text.
    pub span: Span,
}

/// `extern E<T> { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct ExternDecl {
    /// Id of the type, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the extern type, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the extern type: `E` in `extern E { ... }`.
    pub name: Ident,
    /// Type parameters of the extern type; empty if it is not generic.
    pub type_params: Vec<TypeParam>,
    /// Constructors, one for each overload: `ret` is `None`, the name is the extern's.
    pub constructors: Vec<Rc<FunctionDecl>>,
    /// Methods in source order, abstract ones included.
    pub methods: Vec<Rc<FunctionDecl>>,
    /// Range of the extern type's source text.
    pub span: Span,
}

/// A function, an extern function, a method, or a constructor of an extern.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDecl {
    /// Id of the function, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the function, in source order.
    pub annotations: Vec<Annotation>,
    /// Whether the method is declared `abstract`; false for other functions.
    pub is_abstract: bool,
    /// Type of the result; `None` for constructors.
    pub ret: Option<TypeRef>,
    /// Name of the function: `f` in `T f(...)`.
    pub name: Ident,
    /// Type parameters of the function; empty if it is not generic.
    pub type_params: Vec<TypeParam>,
    /// Parameters in source order.
    pub params: Vec<Rc<Param>>,
    /// Body; `None` for extern functions and methods.
    pub body: Option<Block>,
    /// Range of the function's source text.
    pub span: Span,
}

/// `action a(...) { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct ActionDecl {
    /// Id of the action, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the action, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the action: `a` in `action a(...)`.
    pub name: Ident,
    /// Parameters: first those with a direction, then those that the control plane sets.
    pub params: Vec<Rc<Param>>,
    /// Body of the action.
    pub body: Block,
    /// Range of the action's source text.
    pub span: Span,
}

/// A parser type (no body) or a parser.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserDecl {
    /// Id of the parser, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the parser, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the parser: `P` in `parser P(...)`.
    pub name: Ident,
    /// Type parameters: only parser types may have them.
    pub type_params: Vec<TypeParam>,
    /// Parameters of `apply`.
    pub params: Vec<Rc<Param>>,
    /// States and constructor parameters; `None` for a parser type.
    pub body: Option<ParserBody>,
    /// Range of the parser's source text.
    pub span: Span,
}

/// The body and the constructor parameters of a parser.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserBody {
    /// Constructor parameters in source order; empty if the parser has none.
    pub ctor_params: Vec<Rc<Param>>,
    /// Constants, variables, instances and value sets, in source order.
    pub locals: Vec<Decl>,
    /// States in source order; the predefined `accept` and `reject` are not included.
    pub states: Vec<Rc<State>>,
}

/// A control type (no body) or a control.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlDecl {
    /// Id of the control, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the control, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the control: `C` in `control C(...)`.
    pub name: Ident,
    /// Type parameters: only control types may have them.
    pub type_params: Vec<TypeParam>,
    /// Parameters of `apply`.
    pub params: Vec<Rc<Param>>,
    /// `apply` block and constructor parameters; `None` for a control type.
    pub body: Option<ControlBody>,
    /// Range of the control's source text.
    pub span: Span,
}

/// The body and the constructor parameters of a control.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlBody {
    /// Constructor parameters in source order; empty if the control has none.
    pub ctor_params: Vec<Rc<Param>>,
    /// Constants, variables, instances, actions and tables, in source order.
    pub locals: Vec<Decl>,
    /// The `apply` block.
    pub apply: Block,
}

/// `package P<T>(...);`
#[derive(Clone, Debug, PartialEq)]
pub struct PackageDecl {
    /// Id of the package type, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the package type, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the package type: `P` in `package P(...);`.
    pub name: Ident,
    /// Type parameters of the package type; empty if it is not generic.
    pub type_params: Vec<TypeParam>,
    /// Constructor parameters in source order.
    pub params: Vec<Rc<Param>>,
    /// Range of the package type's source text.
    pub span: Span,
}

/// The declaration of a struct, header or header union; the variant of [`Decl`] tells which.
#[derive(Clone, Debug, PartialEq)]
pub struct StructDecl {
    /// Id of the type, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the type, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the type: `S` in `struct S { ... }`.
    pub name: Ident,
    /// Type parameters of the type; empty if it is not generic.
    pub type_params: Vec<TypeParam>,
    /// Fields in source order.
    pub fields: Vec<Rc<Field>>,
    /// Range of the type's source text.
    pub span: Span,
}

/// A field of a struct, header or header union.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Id of the field, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the field, in source order.
    pub annotations: Vec<Annotation>,
    /// Type of the field, as written.
    pub ty: TypeRef,
    /// Name of the field: `f` in `T f;`.
    pub name: Ident,
    /// Range of the field's source text.
    pub span: Span,
}

/// `enum E { ... }`; serializable when it has an underlying type.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumDecl {
    /// Id of the type, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the enum, in source order.
    pub annotations: Vec<Annotation>,
    /// Underlying type; `None` if the enum is not serializable.
    pub underlying: Option<TypeRef>,
    /// Name of the enum: `E` in `enum E { ... }`.
    pub name: Ident,
    /// Members in source order.
    pub members: Vec<Rc<Member>>,
    /// Range of the enum's source text.
    pub span: Span,
}

/// A member of an enum, of `error` or of `match_kind`.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Id of the member, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations in source order. P4Info contains those of enum members.
    pub annotations: Vec<Annotation>,
    /// Name of the member: `A` in `enum E { A, B }`.
    pub name: Ident,
    /// Value of a member of a serializable enum; `None` for other members.
    pub value: Option<Expr>,
}

/// `error { ... }` or `match_kind { ... }`: adds members to the one type of that name.
#[derive(Clone, Debug, PartialEq)]
pub struct MembersDecl {
    /// Annotations of the declaration, in source order.
    pub annotations: Vec<Annotation>,
    /// Members in source order.
    pub members: Vec<Rc<Member>>,
    /// Range of the declaration's source text.
    pub span: Span,
}

/// `typedef T A;` (an alias) or `type T A;` (a new type).
#[derive(Clone, Debug, PartialEq)]
pub struct TypedefDecl {
    /// Id of the alias or new type, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the declaration, in source order.
    pub annotations: Vec<Annotation>,
    /// The type that the declaration gives a name: `T` in `typedef T A;`.
    pub target: TypedefTarget,
    /// Name of the alias or new type: `A` in `typedef T A;`.
    pub name: Ident,
    /// Range of the declaration's source text.
    pub span: Span,
}

/// The type that a `typedef` or `type` declaration names.
#[derive(Clone, Debug, PartialEq)]
pub enum TypedefTarget {
    /// `typedef T A;`
    Type(TypeRef),
    /// `typedef struct S { ... } A;`, which declares `S` too
    Decl(Box<Decl>),
}

/// `value_set<T>(n) v;`
#[derive(Clone, Debug, PartialEq)]
pub struct ValueSetDecl {
    /// Id of the value set, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the value set, in source order.
    pub annotations: Vec<Annotation>,
    /// Type of the set's elements, as written.
    pub ty: TypeRef,
    /// Maximum number of elements, a compile-time constant.
    pub size: Expr,
    /// Name of the value set: `v` in `value_set<T>(n) v;`.
    pub name: Ident,
    /// Range of the value set's source text.
    pub span: Span,
}

/// `table t { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct TableDecl {
    /// Id of the table, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the table, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the table: `t` in `table t { ... }`.
    pub name: Ident,
    /// Properties in source order.
    pub properties: Vec<TableProperty>,
    /// Range of the table's source text.
    pub span: Span,
}

/// A property of a table, `name = value;`.
#[derive(Clone, Debug, PartialEq)]
pub struct TableProperty {
    /// Annotations of the property, in source order.
    pub annotations: Vec<Annotation>,
    /// Whether the property or entry is declared `const`.
    pub is_const: bool,
    /// `key`, `actions`, `entries`, `size`, `default_action`, ...
    pub name: Ident,
    /// Value of the property, by kind of property.
    pub value: TablePropertyValue,
    /// Range of the property's source text.
    pub span: Span,
}

/// The value of a table's property, by kind of property.
#[derive(Clone, Debug, PartialEq)]
pub enum TablePropertyValue {
    /// `key = { ... }`
    Key(Vec<KeyElement>),
    /// `actions = { ... }`
    Actions(Vec<ActionRef>),
    /// `entries = { ... }`
    Entries(Vec<Entry>),
    /// `default_action = a(x);`, where `a` alone means `a()`
    DefaultAction(ActionRef),
    /// Any other property: `size = 4;`, `counters = direct_counter(...);`
    Expr(Expr),
}

/// `expression: match_kind;` in a table's key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyElement {
    /// The expression whose value is compared with the entries.
    pub expr: Expr,
    /// The match kind, such as `exact` or `lpm`.
    pub match_kind: Ident,
    /// Annotations of the key element, in source order.
    pub annotations: Vec<Annotation>,
    /// Range of the key element's source text.
    pub span: Span,
}

/// A reference to an action, `a` or `a(x)`: in a table's list `actions`, as its default action, or in an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRef {
    /// Expression id of the reference, under which `sema` records the action, and how its arguments map
    /// to parameters.
    pub call: super::ExprId,
    /// Annotations of the reference, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the action: `a` in `a(x)`.
    pub path: super::Path,
    /// Arguments in source order; `None` without parentheses.
    pub args: Option<Vec<Arg>>,
    /// Range of the reference's source text.
    pub span: Span,
}

/// An entry in the property `entries` of a table: `keyset: action;`.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Annotations, which are written after the action.
    pub annotations: Vec<Annotation>,
    /// Whether the entry is declared `const`.
    pub is_const: bool,
    /// The expression `e` of `priority = e:`; `None` without a priority.
    pub priority: Option<Expr>,
    /// The keysets of the entry, as in [`super::SelectCase::keyset`].
    pub keyset: Expr,
    /// The action that the entry selects, with its arguments.
    pub action: ActionRef,
    /// Range of the entry's source text.
    pub span: Span,
}

impl Decl {
    /// Id and name of the declaration; `None` for `error` and `match_kind`, which declare only their members.
    pub fn id(&self) -> Option<(DeclId, &Ident)> {
        Some(match self {
            Decl::Const(d) => (d.id, &d.name),
            Decl::Var(d) => (d.id, &d.name),
            Decl::Instantiation(d) => (d.id, &d.name),
            Decl::Extern(d) => (d.id, &d.name),
            Decl::ExternFunction(d) | Decl::Function(d) => (d.id, &d.name),
            Decl::Action(d) => (d.id, &d.name),
            Decl::Parser(d) => (d.id, &d.name),
            Decl::Control(d) => (d.id, &d.name),
            Decl::Package(d) => (d.id, &d.name),
            Decl::Table(d) => (d.id, &d.name),
            Decl::ValueSet(d) => (d.id, &d.name),
            Decl::Struct(d) | Decl::Header(d) | Decl::HeaderUnion(d) => (d.id, &d.name),
            Decl::Enum(d) => (d.id, &d.name),
            Decl::Typedef(d) | Decl::NewType(d) => (d.id, &d.name),
            Decl::Error(_) | Decl::MatchKind(_) => return None,
        })
    }

    /// Range of the declaration's source text.
    pub fn span(&self) -> Span {
        match self {
            Decl::Const(d) => d.span,
            Decl::Var(d) => d.span,
            Decl::Instantiation(d) => d.span,
            Decl::Extern(d) => d.span,
            Decl::ExternFunction(d) | Decl::Function(d) => d.span,
            Decl::Action(d) => d.span,
            Decl::Parser(d) => d.span,
            Decl::Control(d) => d.span,
            Decl::Package(d) => d.span,
            Decl::Table(d) => d.span,
            Decl::ValueSet(d) => d.span,
            Decl::Struct(d) | Decl::Header(d) | Decl::HeaderUnion(d) => d.span,
            Decl::Enum(d) => d.span,
            Decl::Typedef(d) | Decl::NewType(d) => d.span,
            Decl::Error(d) | Decl::MatchKind(d) => d.span,
        }
    }
}

impl TableDecl {
    /// The first property with this name; `None` if the table has none.
    pub fn property(&self, name: &str) -> Option<&TableProperty> {
        self.properties.iter().find(|p| &*p.name.name == name)
    }

    /// Elements of the property `key`; empty without it.
    pub fn key(&self) -> &[KeyElement] {
        self.properties
            .iter()
            .find_map(|p| match &p.value {
                TablePropertyValue::Key(key) => Some(&key[..]),
                _ => None,
            })
            .unwrap_or(&[])
    }

    /// Elements of the property `actions`; empty without it.
    pub fn actions(&self) -> &[ActionRef] {
        self.properties
            .iter()
            .find_map(|p| match &p.value {
                TablePropertyValue::Actions(actions) => Some(&actions[..]),
                _ => None,
            })
            .unwrap_or(&[])
    }

    /// The property `default_action` and its action; `None` without it.
    pub fn default_action(&self) -> Option<(&TableProperty, &ActionRef)> {
        self.properties.iter().find_map(|p| match &p.value {
            TablePropertyValue::DefaultAction(action) => Some((p, action)),
            _ => None,
        })
    }

    /// The property `entries` and its entries; `None` without it.
    pub fn entries(&self) -> Option<(&TableProperty, &[Entry])> {
        self.properties.iter().find_map(|p| match &p.value {
            TablePropertyValue::Entries(entries) => Some((p, &entries[..])),
            _ => None,
        })
    }
}
