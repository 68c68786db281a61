//! The intermediate representation (IR): a P4 program with all names, generics, constants and calls resolved.
//!
//! Parsers, controls and functions are inlined, and instances have their full control-plane names. Each variable is stored in a header
//! instance ([`Storage`]), and expressions have no side effects. Statements of controls and actions keep their nesting ([`Stmt`]); back ends
//! convert them to control-flow nodes and primitives.
//!
//! `passes` builds the IR; back ends, the targets' checks and `p4info` read it. **It is independent of output formats.** It depends on no
//! other module of the compiler but `arch` and `diag`.

mod control;
mod effect;
mod expr;
mod objects;
mod parser;
mod stmt;
mod storage;

pub use control::{
    AnnotationContent, AnnotationValue, ControlTypes, ControllerField, ControllerHeader, NewType,
    ObjectKind, Package, PlatformProperties, Representation, SerializableEnum,
    StructuredAnnotation, TypeInfo, TypeSpec,
};
pub use effect::{Effect, ExternOperand, Filter, Primitive};
pub use expr::{mask, wrap, BinaryOp, Expr, Scalar, UnaryOp};
pub use objects::{
    Action, ActionProfile, ActionRef, ActionScope, Algorithm, Calculation, CalculationInput,
    Checksum, Counter, CounterUnit, CrcParameters, DefaultAction, Digest, DirectCells, Entry,
    EntryKey, ExternAttribute, ExternInstance, FieldList, Key, KeyTarget, MatchKind, Meta, Meter,
    MeterUnit, Param, Partitions, PortMetadata, Register, RegisterRole, Selector, SizeSemantics,
    Table,
};
pub use parser::{
    Keyset, ParseState, Parser, ParserStmtKind, SelectKey, StateRef, Take, Transition, ValueSet,
    ValueSetField,
};
pub use stmt::{walk, walk_exprs, Apply, Exprs, Flat, Follow, Form, Site, Stmt, StmtKind};
pub use storage::{
    Field, FieldPlace, FieldRef, FieldWidth, Header, HeaderPlace, HeaderType, Stack, Storage,
    Union, UnionStack, UnionType,
};

use crate::arch::Arch;
use crate::diag::Span;

/// Declares a dense index type: the position of an object in its vector.
macro_rules! index {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u32);

        impl $name {
            /// The position as a vector index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                $name(u32::try_from(index).expect("fewer than 2^32 objects of a kind"))
            }
        }
    )*};
}

index! {
    /// The label of a block or loop, the target of a [`StmtKind::Break`]; unique within the program.
    Label,
    /// Index of a header type, in [`Storage::header_types`].
    HeaderTypeId,
    /// Index of a header instance, in [`Storage::headers`].
    HeaderId,
    /// Index of a header stack, in [`Storage::stacks`].
    StackId,
    /// Index of a header union type, in [`Storage::union_types`].
    UnionTypeId,
    /// Index of a header union, in [`Storage::unions`].
    UnionId,
    /// Index of a stack of header unions, in [`Storage::union_stacks`].
    UnionStackId,
    /// Index of a parse state, in [`Parser::states`].
    StateId,
    /// Index of a parser value set, in [`Objects::value_sets`].
    ValueSetId,
    /// Index of an action, in [`Objects::actions`].
    ActionId,
    /// Index of a table, in [`Objects::tables`].
    TableId,
    /// Index of an action profile or selector, in [`Objects::action_profiles`].
    ActionProfileId,
    /// Index of a counter array, in [`Objects::counters`].
    CounterId,
    /// Index of a meter array, in [`Objects::meters`].
    MeterId,
    /// Index of a register array, in [`Objects::registers`].
    RegisterId,
    /// Index of a calculation, in [`Objects::calculations`].
    CalculationId,
    /// Index of a digest, in [`Objects::digests`].
    DigestId,
    /// Index of a field list, in [`Objects::field_lists`].
    FieldListId,
    /// Index of an instance of an extern that the compiler does not know, in [`Objects::extern_instances`].
    ExternInstanceId,
    /// A call of an extern; the pass `externs` replaces it.
    CallId
}

/// A source position for outputs, with the source text.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Source {
    /// The file as it was named on the command line or in the `#include`.
    pub file: std::rc::Rc<str>,
    /// Line, from 1; 0 if there is no position.
    pub line: u32,
    /// Column in characters, from 0, as p4c counts.
    pub column: u32,
    /// First line of the source text of the statement or declaration.
    pub fragment: String,
    /// The same position for diagnostics.
    pub span: Span,
}

/// A match-action pipeline: a control between a parser and a deparser.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// The target's name for the pipeline, such as `ingress`. A pipeline that consists of a deparser's statements has
    /// the name of the deparser.
    pub name: &'static str,
    /// Statements of the control's `apply` block.
    pub body: Vec<Stmt>,
    /// Source position of the control.
    pub source: Source,
}

/// A deparser.
#[derive(Clone, Debug, Default)]
pub struct Deparser {
    /// The target's name for the deparser.
    pub name: &'static str,
    /// Headers in the order in which they are emitted.
    pub headers: Vec<HeaderId>,
    /// Other statements, which run before headers are emitted, if they are not a pipeline of their own: logs, assertions and truncation.
    pub calls: Vec<Stmt<Primitive>>,
    /// Source position of the control.
    pub source: Source,
}

/// The declared objects of a program, without the code that uses them.
///
/// P4Info is generated from this structure alone.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The source file as named by the user.
    pub source: String,
    /// Names of all members of the type `error`; a member's position is its value.
    pub errors: Vec<String>,
    /// Enums without an underlying type, each with its name and members; a member's position is its value.
    pub enums: Vec<(String, Vec<String>)>,
    /// Header types and instances.
    pub storage: Storage,
    /// Parser value sets.
    pub value_sets: Vec<ValueSet>,
    /// The architecture that the program is compiled for.
    pub arch: Arch,
    /// All actions that tables list.
    pub actions: Vec<Action>,
    /// Actions that statements call directly; used only for P4Info.
    pub called_actions: Vec<Action>,
    /// All tables that the program declares.
    pub tables: Vec<Table>,
    /// Action profiles and selectors.
    pub action_profiles: Vec<ActionProfile>,
    /// Counter arrays, direct ones included.
    pub counters: Vec<Counter>,
    /// Meter arrays, direct ones included.
    pub meters: Vec<Meter>,
    /// Register arrays.
    pub registers: Vec<Register>,
    /// Hashes and checksums with their inputs.
    pub calculations: Vec<Calculation>,
    /// Digests that the data plane sends to the control plane.
    pub digests: Vec<Digest>,
    /// Metadata fields that clone, resubmit and recirculate preserve.
    pub field_lists: Vec<FieldList>,
    /// Instances of extern objects that the compiler does not know (`--emit-externs`).
    pub extern_instances: Vec<ExternInstance>,
    /// Kinds and names of the objects visible to the control plane, in the order of P4Info.
    pub listing: Vec<(ObjectKind, String)>,
    /// Types and controller headers for the control plane.
    pub control_types: ControlTypes,
    /// Fields that the target reads or writes, each with the target's name for it.
    pub aliases: Vec<(String, FieldRef)>,
    /// Name of the chip's pipe that runs the program, for the control plane; empty for a target without pipes.
    pub pipe: String,
    /// The table with metadata of the ports; `None` for a target without it.
    pub port_metadata: Option<PortMetadata>,
}

impl Objects {
    /// The table with this id.
    pub fn table(&self, id: TableId) -> &Table {
        &self.tables[id.index()]
    }

    /// The action with this id.
    pub fn action(&self, id: ActionId) -> &Action {
        &self.actions[id.index()]
    }
}

/// A program in the IR: its declared objects and its code.
#[derive(Clone, Debug, Default)]
pub struct FlatProgram {
    /// The declared objects.
    pub objects: Objects,
    /// Parsers, in order of processing.
    pub parsers: Vec<Parser>,
    /// Controls between parsers and deparsers, in order of processing.
    pub pipelines: Vec<Pipeline>,
    /// Deparsers, in order of processing.
    pub deparsers: Vec<Deparser>,
    /// Checksums that are verified after the parser or updated before the deparser.
    pub checksums: Vec<Checksum>,
    /// The bodies of [`Objects::actions`], by position.
    pub action_bodies: Vec<Vec<Stmt>>,
}

impl FlatProgram {
    /// The statements of an action.
    pub fn action_body(&self, id: ActionId) -> &[Stmt] {
        &self.action_bodies[id.index()]
    }
}
