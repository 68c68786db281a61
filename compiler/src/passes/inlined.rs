//! The program between elaboration and the IR: calls are inlined and names resolved, but bodies keep the form of the source. Parser
//! states branch, checksums have conditions, deparsers are controls.
//!
//! [`super::elaborate`] produces it, and the other passes lower it to the IR. Back ends do not use it.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::externs::call::Externs;
use crate::diag::{Span, Warning};
use crate::ir::{
    ActionId, CallId, Checksum, Effect, Expr, Follow, HeaderId, Label, MeterId, Objects,
    ParserStmtKind, RegisterId, Scalar, Source, StateId, TableId, Take, ValueSetId,
};
use crate::names::Names;
use crate::sema::Type;

/// A statement of any block.
pub type Stmt = crate::ir::Stmt<StmtKind>;

/// What a statement does. Each kind is allowed in some blocks only: see [`super::check`].
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Allowed everywhere.
    Effect(Effect),
    /// Takes one of two ways. `inline` ones were made by the compiler and stay inside of an action.
    If {
        cond: Expr,
        then: Vec<Stmt>,
        other: Vec<Stmt>,
        inline: bool,
    },
    /// A body that [`StmtKind::Break`] can leave.
    Block { label: Label, body: Vec<Stmt> },
    /// A body run again and again until left by [`StmtKind::Break`].
    Loop { label: Label, body: Vec<Stmt> },
    /// Leaves a block or loop.
    Break(Label),
    /// Ends the pipeline; controls and actions only.
    Exit,
    /// Applies a table; controls only.
    Apply(Box<Apply>),
    /// A call of an extern, with its arguments in [`Externs::calls`]; only before the pass [`super::externs`].
    Call(CallId),
    /// Parsers only.
    Take(Take),
    /// The rest goes on at `join`, after the states of a sub-parser from `start` on; parsers only.
    Enter { start: StateId, join: StateId },
    /// A checksum to verify or to update; checksum controls only.
    Checksum(Box<Checksum>),
    /// A header that is sent if it is valid; deparsers only.
    Emit(HeaderId),
}

/// A table application and what follows on its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The table.
    pub table: TableId,
    /// What follows on its result.
    pub then: Follow<Stmt>,
    /// What to store before the pipeline ends when the table's action exits: an `exit` passes out what the calls around
    /// it have done so far (spec § 12.5).
    pub exit: Vec<Stmt>,
}

/// A state of a parser, with transitions as written or, after [`super::selects`], those of the IR.
#[derive(Clone, Debug)]
pub struct State<T = Transition> {
    /// Name, unique in the parser.
    pub name: String,
    /// What it does; none for the state behind a sub-parser, which is what follows [`StmtKind::Enter`].
    pub code: Option<StateCode<T>>,
    /// Where the state stands.
    pub source: Source,
    /// Made by the compiler: it may vanish into the states before and after it.
    pub synthetic: bool,
}

/// What a state of a parser does.
#[derive(Clone, Debug)]
pub struct StateCode<T = Transition> {
    /// Its statements. Behind [`super::parser_fields`], the conditions in them are fields.
    pub body: Vec<Stmt>,
    /// Prefix of names made for it.
    pub scope: String,
    /// What comes after the body.
    pub transition: T,
}

/// What comes after the body of a state.
#[derive(Clone, Debug)]
pub enum Transition {
    /// Always the same.
    Always(Next),
    /// By the first case that matches; when none does, the parser rejects with `error.NoMatch`.
    Select {
        keys: Vec<SelectKey>,
        cases: Vec<Case>,
    },
}

/// Where a transition leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Another state.
    State(StateId),
    /// The end of parsing.
    End,
    /// `reject`: the end, with whatever error there is.
    Reject,
    /// The end, with `error.NoMatch`.
    NoMatch,
}

/// An operand of `select`.
#[derive(Clone, Debug)]
pub struct SelectKey {
    /// Its value; behind [`super::parser_fields`], a field.
    pub value: Expr,
    /// Its type.
    pub ty: Scalar,
    /// Where it stands.
    pub source: Source,
}

impl SelectKey {
    /// The same for the target, which knows no types; none for what is not a field.
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
    /// What it matches.
    pub keyset: Keyset,
    /// Where it leads.
    pub next: Next,
    /// Where the keyset stands.
    pub span: Span,
}

/// What a case of `select` matches.
#[derive(Clone, Debug)]
pub enum Keyset {
    /// An element for each key.
    Elements(Vec<KeysetElement>),
    /// Membership in a value set, of all keys at once.
    ValueSet(ValueSetId),
}

/// What a block of the package does.
#[derive(Clone, Debug)]
pub enum BlockCode {
    /// States, the first one at the start.
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
    /// The name by which the target finds it.
    pub name: &'static str,
    /// Where it stands.
    pub source: Source,
    /// What it does.
    pub code: BlockCode,
}

/// An element of a keyset as written, in entries of tables and cases of `select`. Numbers may be negative or wider than the key.
#[derive(Clone, Debug, PartialEq)]
pub enum KeysetElement {
    /// `_` or `default`.
    Any,
    /// A number.
    Value(BigInt),
    /// `value &&& mask`.
    Mask(BigInt, BigInt),
    /// `low .. high`; both ends belong to it.
    Range(BigInt, BigInt),
}

/// An entry as written.
#[derive(Debug)]
pub struct WrittenEntry {
    /// What its key matches, and where that stands.
    pub elements: Vec<(KeysetElement, Span)>,
    /// The action.
    pub action: ActionId,
    /// Its run-time arguments.
    pub args: Vec<BigInt>,
    /// The priority that it is given.
    pub priority: Option<BigInt>,
    /// `@priority`, by which programs for BMv2 gave it before the language had priorities.
    pub annotated_priority: Option<u32>,
    /// Whether the program says `const` of it.
    pub constant: bool,
    /// Where it stands, as outputs name it.
    pub source: Source,
    /// The same for messages.
    pub span: Span,
    /// Where its key stands.
    pub keyset_span: Span,
}

/// The entries that a program gives a table.
#[derive(Debug)]
pub struct TableEntries {
    /// The table.
    pub table: TableId,
    /// The entries in the order of the source.
    pub list: Vec<WrittenEntry>,
    /// Whether the program says `const` of all.
    pub constant: bool,
    /// `largest_priority_wins`.
    pub largest_wins: bool,
    /// `priority_delta`: how far an entry without a priority is from the one before it.
    pub priority_delta: BigInt,
    /// Warnings that `@noWarn` turns off here.
    pub silenced: Vec<Warning>,
}

/// A division of operands that are not both known where it stands.
#[derive(Debug)]
pub struct Division {
    /// Where it stands.
    pub span: Span,
    /// `/`, or else `%`.
    pub quotient: bool,
    /// What is divided.
    pub left: Expr,
    /// By what.
    pub right: Expr,
}

/// A whole program.
#[derive(Debug, Default)]
pub struct InlinedProgram {
    /// What it declares.
    pub objects: Objects,
    /// Objects and calls of externs, between elaboration and [`super::externs`].
    pub externs: Externs,
    /// The blocks of its package, in the order in which a packet meets them.
    pub blocks: Vec<Block>,
    /// What the actions of [`Objects::actions`] do, by their positions.
    pub action_bodies: Vec<Vec<Stmt>>,
    /// Entries that the program gives tables, for each table once.
    pub entries: Vec<TableEntries>,
    /// Divisions whose operands were not known where they stand.
    pub divisions: Vec<Division>,
    /// Places in the source where registers of Tofino's are accessed; `Primitive::RegisterAccess` counts them.
    pub register_sites: Vec<Span>,
    /// Registers with a cell for each entry of a table.
    pub direct_registers: BTreeSet<RegisterId>,
    /// Where the colours of direct meters are read.
    pub meter_reads: Vec<(MeterId, Span)>,
    /// Types that objects show to the control plane.
    pub shown_types: Vec<Type>,
    /// Names of scalars and headers in use.
    pub names: Names,
    /// How many labels there are.
    pub labels: u32,
}

impl InlinedProgram {
    /// A name that no scalar and no header has yet.
    pub fn unique(&mut self, wanted: &str) -> String {
        self.names.unique(wanted)
    }

    /// A label of no block and no loop yet.
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

    /// Bodies of controls, deparsers of Tofino included, which do more than emit headers.
    pub fn controls(&self) -> impl Iterator<Item = (&'static str, &Vec<Stmt>)> {
        self.blocks.iter().filter_map(|block| match &block.code {
            BlockCode::Control(body) => Some((block.name, body)),
            BlockCode::Deparser(body) if self.objects.arch.is_tofino() => Some((block.name, body)),
            BlockCode::Parser(_) | BlockCode::Checksums(_) | BlockCode::Deparser(_) => None,
        })
    }
}

impl StmtKind {
    /// The values that the statement itself looks at.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            StmtKind::Effect(effect) => effect.exprs(),
            StmtKind::If { cond, .. } => vec![cond],
            StmtKind::Take(take) => take.exprs(),
            StmtKind::Checksum(checksum) => vec![&checksum.condition],
            StmtKind::Block { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Break(_)
            | StmtKind::Exit
            | StmtKind::Apply(_)
            | StmtKind::Call(_)
            | StmtKind::Enter { .. }
            | StmtKind::Emit(_) => Vec::new(),
        }
    }

    /// The bodies inside of the statement.
    pub fn bodies(&self) -> Vec<&Vec<Stmt>> {
        match self {
            StmtKind::If { then, other, .. } => vec![then, other],
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => vec![body],
            StmtKind::Apply(apply) => apply.then.bodies(),
            StmtKind::Effect(_)
            | StmtKind::Break(_)
            | StmtKind::Exit
            | StmtKind::Call(_)
            | StmtKind::Take(_)
            | StmtKind::Enter { .. }
            | StmtKind::Checksum(_)
            | StmtKind::Emit(_) => Vec::new(),
        }
    }
}

impl From<Effect> for StmtKind {
    fn from(effect: Effect) -> Self {
        StmtKind::Effect(effect)
    }
}

impl From<Take> for StmtKind {
    fn from(take: Take) -> Self {
        StmtKind::Take(take)
    }
}

/// Calls `visit` on all statements of a body, those inside of others too, each before what is inside of it.
pub fn walk<'s>(body: &'s [Stmt], visit: &mut impl FnMut(&'s Stmt)) {
    for stmt in body {
        visit(stmt);
        for body in stmt.kind.bodies() {
            walk(body, visit);
        }
    }
}

/// Whether a body has an `exit` of its own, outside of what follows tables.
pub fn exits(body: &[Stmt]) -> bool {
    body.iter().any(|stmt| match &stmt.kind {
        StmtKind::Exit => true,
        StmtKind::If { then, other, .. } => exits(then) || exits(other),
        StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => exits(body),
        _ => false,
    })
}

/// Whether a body has a break out of `label`.
pub fn leaves(body: &[Stmt], label: Label) -> bool {
    let mut found = false;
    walk(body, &mut |stmt| {
        found |= matches!(&stmt.kind, StmtKind::Break(known) if *known == label);
    });
    found
}

/// Whether a statement, with all inside it, can be part of an action: it applies no table.
pub fn fits_in_action(stmt: &Stmt) -> bool {
    let known = matches!(stmt.kind, StmtKind::If { inline: true, .. });
    known
        || !matches!(stmt.kind, StmtKind::Apply(_))
            && (stmt.kind.bodies().into_iter().flatten()).all(fits_in_action)
}

/// A statement of a parser state without inner structure; none for others.
pub fn straight(kind: StmtKind) -> Option<ParserStmtKind> {
    match kind {
        StmtKind::Effect(effect) => Some(ParserStmtKind::Effect(effect)),
        StmtKind::Take(take) => Some(ParserStmtKind::Take(take)),
        _ => None,
    }
}
