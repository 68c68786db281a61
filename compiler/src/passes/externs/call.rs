//! Externs as elaboration leaves them: objects as declared, and calls with evaluated arguments.

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
    /// Objects, in order of instantiation.
    pub instances: Vec<Declared>,
    /// Calls, by [`crate::ir::CallId`], in the order in which they were elaborated.
    pub calls: Vec<Call>,
    /// Objects that table properties name.
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
    /// Type arguments.
    pub type_args: Vec<Type>,
    /// Arguments of its constructor.
    pub args: Vec<ExternArg>,
    /// Full name.
    pub name: String,
    /// Control-plane metadata, for externs that are visible to the control plane.
    pub meta: Option<Meta>,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Position of the declaration.
    pub span: Span,
}

/// A call of an extern function or of a method of an extern object.
#[derive(Debug)]
pub struct Call {
    /// The called function or method.
    pub callee: Callee,
    /// Arguments in the order of the parameters.
    pub args: Vec<ExternArg>,
    /// Type of the result.
    pub ret: Type,
    /// Destination of the result.
    pub result: CallResult,
    /// Abstract methods of the object that the program implements, inlined for this call.
    pub implementations: Vec<Implementation>,
    /// The block of the architecture that contains the call.
    pub region: Region,
    /// Prefix of generated names.
    pub scope: String,
    /// Position of the call.
    pub span: Span,
}

/// The function or method of a [`Call`].
#[derive(Clone, Debug)]
pub enum Callee {
    /// An extern function.
    Function(Name),
    /// A method of an object.
    Method(InstanceId, Name),
    /// A method that an implementation of an abstract method calls of its own object: `this.method(...)`.
    Own(Name),
}

/// Destination of a call's result.
#[derive(Clone, Debug)]
pub enum CallResult {
    /// The call has no result.
    None,
    /// A number or boolean, used as [`crate::ir::Expr::Result`].
    Scalar(Scalar),
    /// A variable created for the result.
    Place(Place),
}

/// An argument of an extern, with its parameter.
#[derive(Clone, Debug)]
pub struct ExternArg {
    /// Name of the parameter.
    pub param: Option<Name>,
    /// Type of the parameter.
    pub ty: Type,
    /// The argument.
    pub argument: Argument,
    /// Position of the argument.
    pub span: Span,
}

/// The kinds of arguments of externs.
#[derive(Clone, Debug)]
pub enum Argument {
    /// A value.
    Value(Data),
    /// Storage of an `out` or `inout` argument.
    Place(Place),
    /// An object.
    Object(InstanceId),
    /// No argument for an optional parameter.
    Omitted,
}

/// The implementation of an abstract method, with variables for its parameters.
#[derive(Debug)]
pub struct Implementation {
    /// The method's name.
    pub name: Name,
    /// Its parameters: direction, type, variable.
    pub params: Vec<(Direction, Type, Place)>,
    /// The body.
    pub code: Vec<Stmt>,
}

/// Objects that the properties of a table name.
#[derive(Debug)]
pub struct TableObjects {
    /// The table.
    pub table: TableId,
    /// The properties in order: name, object and position of the value. The object is `None` if the value is not an object.
    pub properties: Vec<(Name, Option<InstanceId>, Span)>,
    /// Fields of the `selector` keys.
    pub selectors: Vec<FieldRef>,
}

/// An entry of the list of objects in P4Info.
#[derive(Debug)]
pub enum Listed {
    /// An object by its kind and name.
    Object(ObjectKind, String),
    /// An extern object.
    Extern(InstanceId),
}

/// The block of the architecture that contains a statement.
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

impl ExternArg {
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

    /// Whether the call passes an argument.
    pub fn is_passed(&self) -> bool {
        !matches!(self.argument, Argument::Omitted)
    }
}
