//! What elaboration leaves of externs: objects as they are declared, and calls with their evaluated arguments.

use std::collections::BTreeMap;

use crate::diag::Span;
use crate::ir::{FieldRef, Meta, ObjectKind, Scalar, TableId};
use crate::passes::builder::data::{Data, Place};
use crate::passes::inlined::Stmt;
use crate::sema::Type;
use crate::syntax::ast::{Annotation, Direction, Name};

/// All externs of a program, until [`super::lower`] takes them.
#[derive(Debug, Default)]
pub struct Externs {
    /// Objects, in the order in which they are made.
    pub instances: Vec<Declared>,
    /// Calls, by [`crate::ir::CallId`], in the order in which they were elaborated.
    pub calls: Vec<Call>,
    /// What tables name in their properties.
    pub tables: Vec<TableObjects>,
    /// The objects of the program in the order of P4Info.
    pub listing: Vec<Listed>,
    /// Fields of the user metadata with `@field_list`, by list.
    pub field_lists: BTreeMap<u32, Vec<FieldRef>>,
}

/// The position of an object in [`Externs::instances`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceId(pub usize);

/// An extern object as it is declared.
#[derive(Debug)]
pub struct Declared {
    /// The extern.
    pub ty: Name,
    /// Its type arguments.
    pub type_args: Vec<Type>,
    /// Arguments of its constructor.
    pub args: Vec<Given>,
    /// Full name.
    pub name: String,
    /// What the control plane sees, if it knows such objects.
    pub meta: Option<Meta>,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Where it is declared.
    pub span: Span,
}

/// A call of an extern function or of a method of an extern object.
#[derive(Debug)]
pub struct Call {
    /// What is called.
    pub callee: Callee,
    /// Arguments in the order of the parameters.
    pub args: Vec<Given>,
    /// The type of the result.
    pub ret: Type,
    /// Where the result goes.
    pub result: CallResult,
    /// Abstract methods of the object that the program implements, inlined for this call.
    pub implementations: Vec<Implementation>,
    /// The block of the architecture that it stands in.
    pub region: Region,
    /// Prefix of names made for it.
    pub scope: String,
    /// Where it stands.
    pub span: Span,
}

/// What is called.
#[derive(Clone, Debug)]
pub enum Callee {
    /// An extern function.
    Function(Name),
    /// A method of an object.
    Method(InstanceId, Name),
    /// A method that an implementation of an abstract method calls of its own object: `this.method(...)`.
    Own(Name),
}

/// Where the result of a call goes.
#[derive(Clone, Debug)]
pub enum CallResult {
    /// There is none.
    None,
    /// A number or truth value; [`crate::ir::Expr::Result`] stands for it.
    Scalar(Scalar),
    /// To a variable of its own.
    Place(Place),
}

/// An argument with its parameter.
#[derive(Clone, Debug)]
pub struct Given {
    /// The parameter's name.
    pub param: Option<Name>,
    /// Its type.
    pub ty: Type,
    /// What it gets.
    pub argument: Argument,
    /// Where the argument stands.
    pub span: Span,
}

/// What a parameter of an extern gets.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A value.
    Value(Data),
    /// A place to write to, and for `inout` to read from.
    Place(Place),
    /// An object.
    Object(InstanceId),
    /// Nothing.
    Omitted,
}

/// The body of an abstract method, with variables of its own for its parameters.
#[derive(Debug)]
pub struct Implementation {
    /// The method's name.
    pub name: Name,
    /// Its parameters: direction, type, variable.
    pub params: Vec<(Direction, Type, Place)>,
    /// What it does.
    pub code: Vec<Stmt>,
}

/// Objects that the properties of a table name.
#[derive(Debug)]
pub struct TableObjects {
    /// The table.
    pub table: TableId,
    /// The properties in their order: name, object, and where the value stands. No object is named where something else stands.
    pub properties: Vec<(Name, Option<InstanceId>, Span)>,
    /// What `selector` keys look at.
    pub selectors: Vec<FieldRef>,
}

/// Something that P4Info lists.
#[derive(Debug)]
pub enum Listed {
    /// An object by its kind and name.
    Object(ObjectKind, String),
    /// An extern object.
    Extern(InstanceId),
}

/// Which block of the architecture a statement stands in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Region {
    /// A parser.
    #[default]
    Parser,
    /// The control that verifies checksums.
    Verify,
    /// The control of ingress.
    Ingress,
    /// The control of egress.
    Egress,
    /// The control that updates checksums.
    Compute,
    /// A deparser.
    Deparser,
}

impl Given {
    /// The value, if it is one.
    pub fn data(&self) -> Option<&Data> {
        match &self.argument {
            Argument::Value(data) => Some(data),
            Argument::Place(_) | Argument::Object(_) | Argument::Omitted => None,
        }
    }

    /// The object, if it is one.
    pub fn object(&self) -> Option<InstanceId> {
        match self.argument {
            Argument::Object(id) => Some(id),
            Argument::Value(_) | Argument::Place(_) | Argument::Omitted => None,
        }
    }

    /// Whether the program gives this parameter something.
    pub fn is_given(&self) -> bool {
        !matches!(self.argument, Argument::Omitted)
    }
}
