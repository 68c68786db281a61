//! The intermediate representation (IR): a P4 program without names, generics, constants and calls.
//!
//! It is flat. Parsers, controls and functions are inlined, instances have their full control-plane names, each variable is stored in a header
//! instance ([`Storage`]), and expressions are pure. Statements of controls and actions keep their structure ([`Stmt`]); back ends convert
//! it to control-flow nodes and primitives.
//!
//! `passes` builds the IR; `bmv2`, `stages` and `p4info` read it. **It is independent of output formats**, both BMv2 JSON and P4Info. It
//! depends on no other module of the compiler but `arch`.

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
    MeterUnit, Param, Partitions, Register, Selector, SizeSemantics, Table,
};
pub use parser::{
    Keyset, ParseState, Parser, ParserStmtKind, SelectKey, StateRef, Take, Transition, ValueSet,
    ValueSetField,
};
pub use stmt::{walk, walk_exprs, Apply, Follow, Stmt, StmtKind};
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
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
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
    /// A block or loop that can be left, unique within the program.
    Label,
    /// A header type, in [`Storage::header_types`].
    HeaderTypeId,
    /// A header instance, in [`Storage::headers`].
    HeaderId,
    /// A header stack, in [`Storage::stacks`].
    StackId,
    /// A header union type, in [`Storage::union_types`].
    UnionTypeId,
    /// A header union, in [`Storage::unions`].
    UnionId,
    /// A stack of header unions, in [`Storage::union_stacks`].
    UnionStackId,
    /// A parse state, in [`Parser::states`].
    StateId,
    /// A parser value set, in [`Objects::value_sets`].
    ValueSetId,
    /// An action, in [`Objects::actions`].
    ActionId,
    /// A table, in [`Objects::tables`].
    TableId,
    /// An action profile or selector, in [`Objects::action_profiles`].
    ActionProfileId,
    /// A counter array, in [`Objects::counters`].
    CounterId,
    /// A meter array, in [`Objects::meters`].
    MeterId,
    /// A register array, in [`Objects::registers`].
    RegisterId,
    /// A calculation, in [`Objects::calculations`].
    CalculationId,
    /// A digest, in [`Objects::digests`].
    DigestId,
    /// A field list, in [`Objects::field_lists`].
    FieldListId,
    /// An instance of an extern that is not part of v1model, in [`Objects::extern_instances`].
    ExternInstanceId,
    /// A call of an extern, lowered by the pass `externs`.
    CallId
}

/// A source position for the outputs.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Source {
    /// The file as it was named on the command line or in the `#include`.
    pub file: std::rc::Rc<str>,
    /// Line, from 1; 0 when there is no position.
    pub line: u32,
    /// Column in characters, from 0, as p4c counts.
    pub column: u32,
    /// The source text, shortened to its first line.
    pub fragment: String,
    /// Source position, for diagnostics.
    pub span: Span,
}

/// A control between a parser and a deparser.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    /// Name for the target: `ingress`, `egress`.
    pub name: &'static str,
    /// Its statements.
    pub body: Vec<Stmt>,
    /// Source position of its control.
    pub source: Source,
}

/// A deparser.
#[derive(Clone, Debug, Default)]
pub struct Deparser {
    /// Name of the block for the target.
    pub name: &'static str,
    /// Headers in the order in which it emits them.
    pub headers: Vec<HeaderId>,
    /// Other statements, which run before headers are emitted: on v1model logs, assertions and truncation.
    pub calls: Vec<Stmt<Primitive>>,
    /// Source position of its control.
    pub source: Source,
}

/// The declared objects of a program, without the code that uses them.
///
/// P4Info is generated from this structure alone.
#[derive(Clone, Debug, Default)]
pub struct Objects {
    /// The source file as named by the user.
    pub source: String,
    /// All errors; the position is the value.
    pub errors: Vec<String>,
    /// Enums without a base type: name and members; a member's position is its value.
    pub enums: Vec<(String, Vec<String>)>,
    /// Header types and instances.
    pub storage: Storage,
    /// Parser value sets.
    pub value_sets: Vec<ValueSet>,
    /// Its architecture.
    pub arch: Arch,
    /// All actions that a table names.
    pub actions: Vec<Action>,
    /// Actions that bodies call directly; used only for P4Info.
    pub called_actions: Vec<Action>,
    /// All tables of the source.
    pub tables: Vec<Table>,
    /// Action profiles and selectors.
    pub action_profiles: Vec<ActionProfile>,
    /// Counter arrays, direct ones included.
    pub counters: Vec<Counter>,
    /// Meter arrays, direct ones included.
    pub meters: Vec<Meter>,
    /// Register arrays.
    pub registers: Vec<Register>,
    /// Inputs of hashes and checksums.
    pub calculations: Vec<Calculation>,
    /// Digests that the data plane sends to the control plane.
    pub digests: Vec<Digest>,
    /// Fields kept by clone, resubmit and recirculate.
    pub field_lists: Vec<FieldList>,
    /// Instances of extern objects outside v1model (`--emit-externs`).
    pub extern_instances: Vec<ExternInstance>,
    /// Names of objects that the control plane sees, in the order of P4Info.
    pub listing: Vec<(ObjectKind, String)>,
    /// Types and controller headers for the control plane.
    pub control_types: ControlTypes,
    /// Names of fields that the target reads or writes, with the fields.
    pub aliases: Vec<(String, FieldRef)>,
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

/// A whole program: its objects and its code.
#[derive(Clone, Debug, Default)]
pub struct FlatProgram {
    /// What it declares.
    pub objects: Objects,
    /// Parsers, in order of processing: one on v1model.
    pub parsers: Vec<Parser>,
    /// Controls between parsers and deparsers, in order of processing.
    pub pipelines: Vec<Pipeline>,
    /// Deparsers, in order of processing: one on v1model.
    pub deparsers: Vec<Deparser>,
    /// Checksums verified after the parser and updated before the deparser.
    pub checksums: Vec<Checksum>,
    /// The bodies of [`Objects::actions`], by position.
    pub action_bodies: Vec<Vec<Stmt>>,
}

impl FlatProgram {
    /// The body of an action.
    pub fn action_body(&self, id: ActionId) -> &[Stmt] {
        &self.action_bodies[id.index()]
    }
}
