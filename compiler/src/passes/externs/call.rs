//! Extern objects and calls between elaboration and their lowering: objects as declared, and calls with evaluated arguments.

use std::collections::BTreeMap;

use crate::diag::Span;
use crate::ir::{FieldRef, Meta, ObjectKind, Scalar, TableId};
use crate::passes::builder::data::{Data, Place};
use crate::passes::inlined::Stmt;
use crate::sema::Type;
use crate::syntax::ast::{Annotation, Direction, Name};

/// All extern objects and calls of a program, which [`super::lower`] replaces.
#[derive(Debug, Default)]
pub struct Externs {
    /// Objects by [`InstanceId`], in the order of instantiation.
    pub instances: Vec<DeclaredObject>,
    /// Calls by [`crate::ir::CallId`], in the order of elaboration.
    pub calls: Vec<Call>,
    /// Objects that table properties name, by table.
    pub tables: Vec<TableObjects>,
    /// All objects of the program in the order of P4Info.
    pub listing: Vec<Listed>,
    /// Fields of the user metadata with `@field_list`, by the number of the list.
    pub field_lists: BTreeMap<u32, Vec<FieldRef>>,
}

/// The position of an object in [`Externs::instances`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InstanceId(pub usize);

/// An extern object as declared in the program.
#[derive(Debug)]
pub struct DeclaredObject {
    /// Name of the extern type.
    pub ty: Name,
    /// Type arguments of the instantiation.
    pub type_args: Vec<Type>,
    /// Arguments of the constructor.
    pub args: Vec<ExternArg>,
    /// Fully qualified control-plane name.
    pub name: String,
    /// Control-plane metadata; `None` for externs that are not visible to the control plane.
    pub meta: Option<Meta>,
    /// Annotations of the declaration.
    pub annotations: Vec<Annotation>,
    /// Source position of the declaration.
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
    /// The program's implementations of the object's abstract methods, elaborated for this call.
    pub implementations: Vec<Implementation>,
    /// The block of the architecture that contains the call.
    pub region: Region,
    /// Prefix of the names of generated variables.
    pub scope: String,
    /// Source position of the call.
    pub span: Span,
}

/// The function or method of a [`Call`].
#[derive(Clone, Debug)]
pub enum Callee {
    /// An extern function.
    Function(Name),
    /// A method of an object.
    Method(InstanceId, Name),
    /// A method of the object whose abstract method the program implements, called in the implementation: `this.method(...)`.
    This(Name),
}

/// Destination of a call's result.
#[derive(Clone, Debug)]
pub enum CallResult {
    /// The call has no result.
    None,
    /// The result is a number or boolean of this type, which expressions use as [`crate::ir::Expr::Result`].
    Scalar(Scalar),
    /// The result is stored in this variable.
    Place(Place),
}

/// An argument of an extern's constructor, function or method, with its parameter.
#[derive(Clone, Debug)]
pub struct ExternArg {
    /// Name of the parameter; `None` if it is unknown.
    pub param: Option<Name>,
    /// Type of the parameter.
    pub ty: Type,
    /// The evaluated argument.
    pub argument: Argument,
    /// Source position of the argument.
    pub span: Span,
}

/// An evaluated argument of an extern.
#[derive(Clone, Debug)]
pub enum Argument {
    /// The value for an `in` parameter or a parameter without a direction.
    Value(Data),
    /// The storage for an `out` or `inout` parameter.
    Place(Place),
    /// An extern object.
    Object(InstanceId),
    /// A missing argument for an optional parameter.
    Omitted,
}

/// The program's implementation of an abstract method, with variables for its parameters.
#[derive(Debug)]
pub struct Implementation {
    /// Name of the method.
    pub name: Name,
    /// Parameters: direction, type and variable.
    pub params: Vec<(Direction, Type, Place)>,
    /// Statements of the body.
    pub code: Vec<Stmt>,
}

/// Extern objects that the properties of a table name.
#[derive(Debug)]
pub struct TableObjects {
    /// The table with the properties.
    pub table: TableId,
    /// The properties in the order of the program: name, object and position of the value. The object is `None` if the value is not an
    /// extern object.
    pub properties: Vec<(Name, Option<InstanceId>, Span)>,
    /// Fields of the key elements with the match kind `selector`.
    pub selectors: Vec<FieldRef>,
}

/// An element of the list of objects in P4Info.
#[derive(Debug)]
pub enum Listed {
    /// An object other than an extern, by its kind and control-plane name.
    Object(ObjectKind, String),
    /// An extern object.
    Extern(InstanceId),
}

/// The kind of the architecture's block that contains a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Region {
    /// A parser.
    #[default]
    Parser,
    /// The control that verifies checksums.
    Verify,
    /// The match-action control of ingress.
    Ingress,
    /// The match-action control of egress.
    Egress,
    /// The control that updates checksums.
    Compute,
    /// A deparser.
    Deparser,
}

impl ExternArg {
    /// The value of the argument; `None` for storage, objects and missing arguments.
    pub fn data(&self) -> Option<&Data> {
        match &self.argument {
            Argument::Value(data) => Some(data),
            Argument::Place(_) | Argument::Object(_) | Argument::Omitted => None,
        }
    }

    /// The extern object; `None` for other arguments.
    pub fn object(&self) -> Option<InstanceId> {
        match self.argument {
            Argument::Object(id) => Some(id),
            Argument::Value(_) | Argument::Place(_) | Argument::Omitted => None,
        }
    }

    /// Whether the call has an argument for the parameter.
    pub fn is_passed(&self) -> bool {
        !matches!(self.argument, Argument::Omitted)
    }
}
