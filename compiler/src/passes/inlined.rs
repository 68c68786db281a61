//! The program between elaboration and the IR: calls are inlined and names resolved, but bodies keep the structure of the source. Parser
//! states may branch, checksum calls may be conditional, and deparsers are lists of statements.
//!
//! [`super::elaborate`] produces it, and the other passes lower it to the IR. Back ends do not use it.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::deparsers::DeparserForm;
use super::externs::call::Externs;
use crate::diag::{Span, Warning};
use crate::ir::{
    walk, ActionId, CallId, Checksum, Expr, Exprs, Form, HeaderId, Label, MeterId, Objects,
    ParserStmtKind, RegisterId, Scalar, Source, StateId, TableId, Take, ValueSetId,
};
use crate::names::Names;
use crate::sema::Type;

/// The stage of lowering before the IR is finished. It has statements that later passes replace ([`Pending`]).
#[derive(Clone, Debug, PartialEq)]
pub enum Inlined {}

impl Form for Inlined {
    type Own = Pending;
    type Application = AtExit;
}

/// A statement of any block.
pub type Stmt = crate::ir::Stmt<StmtKind>;

/// The kind of a statement.
pub type StmtKind = crate::ir::StmtKind<Inlined>;

/// A table application, with the statements that depend on its result; controls only.
pub type Apply = crate::ir::Apply<Inlined>;

/// Statements that later passes replace. Each is allowed in some blocks only, which [`super::check`] verifies.
#[derive(Clone, Debug, PartialEq)]
pub enum Pending {
    /// A call of an extern, with its arguments in [`Externs::calls`]; only before the pass [`super::externs`].
    Call(CallId),
    /// Consumes bits of the packet or rejects it; parsers only.
    Take(Take),
    /// Runs a sub-parser from the state `start`, and continues at `join`; parsers only.
    Enter { start: StateId, join: StateId },
    /// Verifies or updates a checksum; checksum controls only.
    Checksum(Box<Checksum>),
    /// Emits a header if it is valid; deparsers only.
    Emit(HeaderId),
}

/// Stores to execute if the action of an applied table exits: an `exit` copies out the results of the enclosing calls (P4_16 spec § 12.5).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AtExit {
    /// The stores.
    pub stores: Vec<Stmt>,
}

/// A state of a parser. `T` is the type of its transition: as written, or that of the IR after the pass [`super::selects`].
#[derive(Clone, Debug)]
pub struct State<T = Transition> {
    /// Name, unique in the parser.
    pub name: String,
    /// Statements and transition. `None` for the state after a sub-parser: its statements follow the [`Pending::Enter`] that names it.
    pub code: Option<StateCode<T>>,
    /// Source position of the state.
    pub source: Source,
    /// Whether the compiler generated the state, so that it may be merged with its neighbours.
    pub synthetic: bool,
}

/// The code of a parser state.
#[derive(Clone, Debug)]
pub struct StateCode<T = Transition> {
    /// The statements. After the pass [`super::parser_fields`], their conditions are fields.
    pub body: Vec<Stmt>,
    /// Prefix of generated names.
    pub scope: String,
    /// The transition at the end of the state.
    pub transition: T,
}

/// A transition as written in the program.
#[derive(Clone, Debug)]
pub enum Transition {
    /// An unconditional transition.
    Always(Next),
    /// A `select`: the first matching case determines the next state. If no case matches, the parser rejects with `error.NoMatch`.
    Select {
        keys: Vec<SelectKey>,
        cases: Vec<Case>,
    },
}

/// Target of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A state of the parser.
    State(StateId),
    /// `accept`: the end of parsing.
    End,
    /// `reject`: the end of parsing, with the current parser error.
    Reject,
    /// The end of parsing, with `error.NoMatch`.
    NoMatch,
}

/// A key of `select`.
#[derive(Clone, Debug)]
pub struct SelectKey {
    /// The value; after the pass [`super::parser_fields`], a field.
    pub value: Expr,
    /// Type of the value.
    pub ty: Scalar,
    /// Source position of the key.
    pub source: Source,
}

impl SelectKey {
    /// The key in the IR; `None` if the value is not a field.
    pub fn untyped(&self) -> Option<crate::ir::SelectKey> {
        match self.value {
            Expr::Field { place, .. } => Some(crate::ir::SelectKey {
                place,
                width: self.ty.width(),
            }),
            _ => None,
        }
    }
}

/// A case of `select`.
#[derive(Clone, Debug)]
pub struct Case {
    /// The matched values.
    pub keyset: Keyset,
    /// The target of the transition.
    pub next: Next,
    /// Source position of the case.
    pub source: Source,
}

/// The values that a case of `select` matches.
#[derive(Clone, Debug)]
pub enum Keyset {
    /// An element for each key.
    Elements(Vec<KeysetElement>),
    /// Membership of all keys together in a value set.
    ValueSet(ValueSetId),
}

/// The code of a block of the package, by the kind of block.
#[derive(Clone, Debug)]
pub enum BlockCode {
    /// The states of a parser, which begins in the first one.
    Parser(Vec<State>),
    /// A control between parser and deparser.
    Control(Vec<Stmt>),
    /// A control that verifies or updates checksums.
    Checksums(Vec<Stmt>),
    /// A deparser.
    Deparser(Vec<Stmt>),
}

/// A block of the package.
#[derive(Clone, Debug)]
pub struct Block {
    /// The target's name for the block.
    pub name: &'static str,
    /// Source position of the parser or control.
    pub source: Source,
    /// The statements of the control, or the states of the parser.
    pub code: BlockCode,
}

/// An element of a keyset as written, in a table entry or a case of `select`. Numbers may be negative or wider than the key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeysetElement {
    /// `_` or `default`.
    Any,
    /// A number.
    Value(BigInt),
    /// `value &&& mask`.
    Mask(BigInt, BigInt),
    /// `low .. high`, both inclusive.
    Range(BigInt, BigInt),
}

/// A table entry as written in the program.
#[derive(Debug)]
pub struct WrittenEntry {
    /// The elements of the keyset, with their source positions.
    pub elements: Vec<(KeysetElement, Span)>,
    /// The action that runs on a hit.
    pub action: ActionId,
    /// Values of the action's run-time parameters.
    pub args: Vec<BigInt>,
    /// The priority in the program; `None` if the entry has none.
    pub priority: Option<BigInt>,
    /// The number in `@priority`, an annotation for the switch that is older than priorities in P4; `None` without the annotation.
    pub annotated_priority: Option<u32>,
    /// Whether the entry is `const`.
    pub constant: bool,
    /// Source position of the entry, for outputs.
    pub source: Source,
    /// Source position of the entry, for diagnostics.
    pub span: Span,
    /// Source position of the keyset.
    pub keyset_span: Span,
}

/// The entries of a table as written.
#[derive(Debug)]
pub struct TableEntries {
    /// The table.
    pub table: TableId,
    /// The entries in the order of the source.
    pub list: Vec<WrittenEntry>,
    /// Whether the list of entries is `const`.
    pub constant: bool,
    /// The table property `largest_priority_wins`: whether the largest priority number takes precedence.
    pub largest_wins: bool,
    /// The table property `priority_delta`: difference of the priorities of an entry without a priority and the previous entry.
    pub priority_delta: BigInt,
    /// Warnings that `@noWarn` disables.
    pub silenced: Vec<Warning>,
}

/// A division whose operands are not both constant.
#[derive(Debug)]
pub struct Division {
    /// Source position.
    pub span: Span,
    /// Whether the operator is `/`; otherwise it is `%`.
    pub quotient: bool,
    /// The dividend.
    pub left: Expr,
    /// The divisor.
    pub right: Expr,
}

/// A program between elaboration and the IR.
#[derive(Debug, Default)]
pub struct InlinedProgram {
    /// The declared objects.
    pub objects: Objects,
    /// Extern objects and extern calls; empty after the pass [`super::externs`].
    pub externs: Externs,
    /// The blocks of the package, in order of processing.
    pub blocks: Vec<Block>,
    /// The bodies of [`Objects::actions`], by position.
    pub action_bodies: Vec<Vec<Stmt>>,
    /// The entries as written, one element per table with entries.
    pub entries: Vec<TableEntries>,
    /// Divisions whose operands are not both constant.
    pub divisions: Vec<Division>,
    /// Source positions of accesses of registers that a packet may access once, indexed by `Primitive::RegisterAccess`.
    pub register_sites: Vec<Span>,
    /// Direct registers, which have a cell for each entry of a table.
    pub direct_registers: BTreeSet<RegisterId>,
    /// Positions of reads of direct meters' colours.
    pub meter_reads: Vec<(MeterId, Span)>,
    /// P4 types that objects visible to the control plane use; [`super::control_types`] describes them.
    pub shown_types: Vec<Type>,
    /// Names of scalars and headers in use.
    pub names: Names,
    /// Number of labels so far.
    pub labels: u32,
}

impl InlinedProgram {
    /// An unused name for a scalar or header: `wanted`, with a number if it is in use.
    pub fn unique(&mut self, wanted: &str) -> String {
        self.names.unique(wanted)
    }

    /// A new label.
    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    /// The bodies of all blocks and actions.
    pub fn bodies(&self) -> impl Iterator<Item = &Vec<Stmt>> {
        let of_blocks = self.blocks.iter().flat_map(|block| match &block.code {
            BlockCode::Parser(states) => {
                let code = states.iter().filter_map(|state| state.code.as_ref());
                code.map(|code| &code.body).collect()
            }
            BlockCode::Control(body) | BlockCode::Checksums(body) | BlockCode::Deparser(body) => {
                vec![body]
            }
        });
        of_blocks.chain(&self.action_bodies)
    }

    /// Bodies of controls, and of deparsers with the statements of a control, each with the name of the block.
    pub fn controls(&self) -> impl Iterator<Item = (&'static str, &Vec<Stmt>)> {
        let form = self.objects.arch.target().deparser_form();
        let has_statements = form == DeparserForm::Statements;
        self.blocks
            .iter()
            .filter_map(move |block| match &block.code {
                BlockCode::Control(body) => Some((block.name, body)),
                BlockCode::Deparser(body) if has_statements => Some((block.name, body)),
                BlockCode::Parser(_) | BlockCode::Checksums(_) | BlockCode::Deparser(_) => None,
            })
    }
}

impl Exprs for Pending {
    fn exprs(&self) -> Vec<&Expr> {
        match self {
            Pending::Take(take) => take.exprs(),
            Pending::Checksum(checksum) => vec![&checksum.condition],
            Pending::Call(_) | Pending::Enter { .. } | Pending::Emit(_) => Vec::new(),
        }
    }
}

impl Exprs for AtExit {
    fn exprs(&self) -> Vec<&Expr> {
        Vec::new()
    }
}

impl From<Pending> for StmtKind {
    fn from(pending: Pending) -> Self {
        StmtKind::Own(pending)
    }
}

impl From<Take> for StmtKind {
    fn from(take: Take) -> Self {
        StmtKind::Own(Pending::Take(take))
    }
}

/// Whether a body contains an `exit`. Bodies that follow a table application are not searched.
pub fn has_exit(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Exit => true,
        StmtKind::If { then, other, .. } => has_exit(then) || has_exit(other),
        StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => has_exit(body),
        _ => false,
    })
}

/// Whether a body contains a break out of `label`.
pub fn has_break_to(body: &[Stmt], label: Label) -> bool {
    let mut found = false;
    walk(body, &mut |stmt| {
        found |= matches!(&stmt.kind, StmtKind::Break(known) if *known == label);
    });
    found
}

/// Whether a statement can be part of an action: neither the statement nor a nested one applies a table.
pub fn fits_in_action(stmt: &Stmt) -> bool {
    let known = matches!(stmt.kind, StmtKind::If { inline: true, .. });
    known
        || !matches!(stmt.kind, StmtKind::Apply(_))
            && (stmt.kind.bodies().flatten()).all(fits_in_action)
}

/// Converts an effect or a parser operation to a parser statement of the IR; `None` for other statements.
pub fn to_parser_stmt(kind: StmtKind) -> Option<ParserStmtKind> {
    match kind {
        StmtKind::Effect(effect) => Some(ParserStmtKind::Effect(effect)),
        StmtKind::Own(Pending::Take(take)) => Some(ParserStmtKind::Take(take)),
        _ => None,
    }
}
