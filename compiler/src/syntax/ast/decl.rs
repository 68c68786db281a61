//! Declarations (spec § 7.2, 10, 11, 13, 14).

use super::{Annotation, Arg, Block, DeclId, Expr, Ident, Param, State, TypeRef};
use crate::diag::Span;
use std::rc::Rc;

/// A declaration, at the top level or inside of another one.
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

/// A type parameter, `T` in `<T>`.
#[derive(Clone, Debug, PartialEq)]
pub struct TypeParam {
    /// Id of the type variable.
    pub id: DeclId,
    /// Name.
    pub name: Ident,
}

/// `const T x = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct ConstDecl {
    /// Id of the constant.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type.
    pub ty: TypeRef,
    /// Name.
    pub name: Ident,
    /// Value.
    pub value: Expr,
    /// Source position.
    pub span: Span,
}

/// `T x;` or `T x = e;`
#[derive(Clone, Debug, PartialEq)]
pub struct VarDecl {
    /// Id of the variable.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type.
    pub ty: TypeRef,
    /// Name.
    pub name: Ident,
    /// Initial value.
    pub init: Option<Expr>,
    /// Source position.
    pub span: Span,
}

/// `T(args) x;`, with `= { ... }` when abstract methods are implemented.
#[derive(Clone, Debug, PartialEq)]
pub struct Instantiation {
    /// Id of the instance.
    pub id: DeclId,
    /// Expression id of the constructor call, under which `sema` records its resolution.
    pub call: super::ExprId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type, with type arguments if given.
    pub ty: TypeRef,
    /// Constructor arguments.
    pub args: Vec<Arg>,
    /// Name.
    pub name: Ident,
    /// Implementations of abstract methods, and instances that they use.
    pub body: Option<Vec<Decl>>,
    /// Source position.
    pub span: Span,
}

/// `extern E<T> { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct ExternDecl {
    /// Id of the type.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Constructors: `ret` is `None`, the name is the extern's.
    pub constructors: Vec<Rc<FunctionDecl>>,
    /// Methods.
    pub methods: Vec<Rc<FunctionDecl>>,
    /// Source position.
    pub span: Span,
}

/// A function, an extern function, a method, or a constructor of an extern.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionDecl {
    /// Id of the function.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Declared `abstract` (methods).
    pub is_abstract: bool,
    /// Type of the result; `None` for constructors.
    pub ret: Option<TypeRef>,
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Parameters.
    pub params: Vec<Rc<Param>>,
    /// Body; `None` for extern functions and methods.
    pub body: Option<Block>,
    /// Source position.
    pub span: Span,
}

/// `action a(...) { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct ActionDecl {
    /// Id of the action.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Parameters: first those with a direction, then those that the control plane sets.
    pub params: Vec<Rc<Param>>,
    /// Body.
    pub body: Block,
    /// Source position.
    pub span: Span,
}

/// A parser type (no body) or a parser.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserDecl {
    /// Id of the parser.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Type parameters: only parser types may have them.
    pub type_params: Vec<TypeParam>,
    /// Parameters of `apply`.
    pub params: Vec<Rc<Param>>,
    /// `None` for a parser type.
    pub body: Option<ParserBody>,
    /// Source position.
    pub span: Span,
}

/// The body and the constructor parameters of a parser.
#[derive(Clone, Debug, PartialEq)]
pub struct ParserBody {
    /// Constructor parameters.
    pub ctor_params: Vec<Rc<Param>>,
    /// Constants, variables, instances, value sets.
    pub locals: Vec<Decl>,
    /// States in source order.
    pub states: Vec<Rc<State>>,
}

/// A control type (no body) or a control.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlDecl {
    /// Id of the control.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Type parameters: only control types may have them.
    pub type_params: Vec<TypeParam>,
    /// Parameters of `apply`.
    pub params: Vec<Rc<Param>>,
    /// `None` for a control type.
    pub body: Option<ControlBody>,
    /// Source position.
    pub span: Span,
}

/// The body and the constructor parameters of a control.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlBody {
    /// Constructor parameters.
    pub ctor_params: Vec<Rc<Param>>,
    /// Constants, variables, instances, actions, tables.
    pub locals: Vec<Decl>,
    /// The block after `apply`.
    pub apply: Block,
}

/// `package P<T>(...);`
#[derive(Clone, Debug, PartialEq)]
pub struct PackageDecl {
    /// Id of the package type.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Constructor parameters.
    pub params: Vec<Rc<Param>>,
    /// Source position.
    pub span: Span,
}

/// `struct`, `header` or `header_union`.
#[derive(Clone, Debug, PartialEq)]
pub struct StructDecl {
    /// Id of the type.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Type parameters.
    pub type_params: Vec<TypeParam>,
    /// Fields.
    pub fields: Vec<Rc<Field>>,
    /// Source position.
    pub span: Span,
}

/// A field of a struct, header or header union.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Id of the field.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type.
    pub ty: TypeRef,
    /// Name.
    pub name: Ident,
    /// Source position.
    pub span: Span,
}

/// `enum E { ... }`; serializable when it has an underlying type.
#[derive(Clone, Debug, PartialEq)]
pub struct EnumDecl {
    /// Id of the type.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Underlying type.
    pub underlying: Option<TypeRef>,
    /// Name.
    pub name: Ident,
    /// Members.
    pub members: Vec<Rc<Member>>,
    /// Source position.
    pub span: Span,
}

/// A member of an enum, of `error` or of `match_kind`.
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Id of the member.
    pub id: DeclId,
    /// Annotations (P4Runtime's translation of enum members uses them).
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Value, in serializable enums.
    pub value: Option<Expr>,
}

/// `error { ... }` or `match_kind { ... }`: adds members to the one type of that name.
#[derive(Clone, Debug, PartialEq)]
pub struct MembersDecl {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Members.
    pub members: Vec<Rc<Member>>,
    /// Source position.
    pub span: Span,
}

/// `typedef T A;` (an alias) or `type T A;` (a new type).
#[derive(Clone, Debug, PartialEq)]
pub struct TypedefDecl {
    /// Id of the new name.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The aliased or underlying type.
    pub target: TypedefTarget,
    /// The new name.
    pub name: Ident,
    /// Source position.
    pub span: Span,
}

/// Right-hand side of a `typedef`.
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
    /// Id of the value set.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Type of its elements.
    pub ty: TypeRef,
    /// Largest number of elements.
    pub size: Expr,
    /// Name.
    pub name: Ident,
    /// Source position.
    pub span: Span,
}

/// `table t { ... }`
#[derive(Clone, Debug, PartialEq)]
pub struct TableDecl {
    /// Id of the table.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Properties in source order.
    pub properties: Vec<TableProperty>,
    /// Source position.
    pub span: Span,
}

/// A property of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableProperty {
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Declared `const`.
    pub is_const: bool,
    /// `key`, `actions`, `entries`, `size`, `default_action`, ...
    pub name: Ident,
    /// Its value.
    pub value: TablePropertyValue,
    /// Source position.
    pub span: Span,
}

/// Value of a table's property.
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
    /// The matched expressions.
    pub expr: Expr,
    /// The match kind.
    pub match_kind: Ident,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Source position.
    pub span: Span,
}

/// `a` or `a(x)`: in a table's list, as its default action, or in an entry.
#[derive(Clone, Debug, PartialEq)]
pub struct ActionRef {
    /// Expression id of the reference, under which `sema` records the action, and how its arguments map
    /// to parameters.
    pub call: super::ExprId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// The action.
    pub path: super::Path,
    /// Arguments, `None` when there are no parentheses.
    pub args: Option<Vec<Arg>>,
    /// Source position.
    pub span: Span,
}

/// An entry of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Annotations, which follow the action.
    pub annotations: Vec<Annotation>,
    /// Declared `const`.
    pub is_const: bool,
    /// `priority = e`
    pub priority: Option<Expr>,
    /// As in [`super::SelectCase::keyset`].
    pub keyset: Expr,
    /// The action with its arguments.
    pub action: ActionRef,
    /// Source position.
    pub span: Span,
}

impl Decl {
    /// Id and name of what is declared; `None` for `error` and `match_kind`, whose members are declared.
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

    /// Source position.
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
    /// The first property with this name.
    pub fn property(&self, name: &str) -> Option<&TableProperty> {
        self.properties.iter().find(|p| &*p.name.name == name)
    }

    /// Elements of the key, empty when there is none.
    pub fn key(&self) -> &[KeyElement] {
        self.properties
            .iter()
            .find_map(|p| match &p.value {
                TablePropertyValue::Key(key) => Some(&key[..]),
                _ => None,
            })
            .unwrap_or(&[])
    }

    /// The list of actions.
    pub fn actions(&self) -> &[ActionRef] {
        self.properties
            .iter()
            .find_map(|p| match &p.value {
                TablePropertyValue::Actions(actions) => Some(&actions[..]),
                _ => None,
            })
            .unwrap_or(&[])
    }

    /// The property and its action.
    pub fn default_action(&self) -> Option<(&TableProperty, &ActionRef)> {
        self.properties.iter().find_map(|p| match &p.value {
            TablePropertyValue::DefaultAction(action) => Some((p, action)),
            _ => None,
        })
    }

    /// The property and its entries.
    pub fn entries(&self) -> Option<(&TableProperty, &[Entry])> {
        self.properties.iter().find_map(|p| match &p.value {
            TablePropertyValue::Entries(entries) => Some((p, &entries[..])),
            _ => None,
        })
    }
}
