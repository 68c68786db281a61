//! Statements of parsers, controls and actions.
//!
//! Calls have been inlined; what `return` was is a [`StmtKind::Break`] out of a labelled block.

use super::{
    ActionId, CalculationId, CounterId, DigestId, Expr, ExternInstanceId, FieldListId, FieldPlace,
    FieldRef, HeaderId, HeaderPlace, MeterId, RegisterId, Source, StackId, StateId, StateRef,
    TableId, UnionId, UnionStackId,
};

/// Names a block or loop, unique within the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

/// A statement with its place in the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// What it does.
    pub kind: StmtKind,
    /// Where it came from.
    pub source: Source,
}

/// What a statement does.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// Stores a number or truth value.
    Assign { target: FieldPlace, value: Expr },
    /// Copies a varbit field.
    AssignVarbit {
        target: FieldPlace,
        value: FieldPlace,
    },
    /// Copies a header with its validity.
    AssignHeader {
        target: HeaderPlace,
        value: HeaderPlace,
    },
    /// Copies a header union.
    AssignUnion { target: UnionId, value: UnionId },
    /// Copies a header stack.
    AssignStack { target: StackId, value: StackId },
    /// Copies a stack of header unions.
    AssignUnionStack {
        target: UnionStackId,
        value: UnionStackId,
    },
    /// `setValid` or `setInvalid`.
    SetValidity { target: HeaderPlace, valid: bool },
    /// `push_front` of a header stack.
    Push { target: StackId, count: u32 },
    /// `pop_front` of a header stack.
    Pop { target: StackId, count: u32 },
    /// The same two for a stack of unions.
    PushUnion { target: UnionStackId, count: u32 },
    /// See [`StmtKind::PushUnion`].
    PopUnion { target: UnionStackId, count: u32 },
    /// A call of an architecture extern.
    Primitive(Primitive),
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
    /// Ends the pipeline.
    Exit,
    /// Applies a table; pipelines only.
    Apply(Box<Apply>),
    /// Parser: `extract` into a header, with the length in bits of its varbit field if it has one.
    Extract {
        target: HeaderPlace,
        varbit_bits: Option<Expr>,
    },
    /// Parser: `extract` into the next element of a stack.
    ExtractNext {
        target: StackId,
        varbit_bits: Option<Expr>,
    },
    /// Parser: `extract` into a member of the next element of a union stack.
    ExtractNextMember {
        target: UnionStackId,
        member: u32,
        varbit_bits: Option<Expr>,
    },
    /// Parser: skips bits.
    Advance(Expr),
    /// Parser: rejects with `error` unless `cond` holds.
    Verify { cond: Expr, error: Expr },
    /// During elaboration only: the rest goes on at `join`, after the states from `start` on.
    Enter { start: StateRef, join: StateId },
    /// During elaboration only: a checksum by position.
    Checksum(usize),
    /// During elaboration only: a header that the deparser emits.
    Emit(HeaderId),
}

/// A table application and what follows on its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The table.
    pub table: TableId,
    /// After a hit.
    pub hit: Vec<Stmt>,
    /// After a miss.
    pub miss: Vec<Stmt>,
    /// After one of these actions; empty when the action run does not matter. Used without `hit` and `miss`.
    pub actions: Vec<(Vec<ActionId>, Vec<Stmt>)>,
    /// After any other action.
    pub other: Vec<Stmt>,
    /// During elaboration only: what to store before the pipeline ends when the table's action exits.
    pub exit: Vec<Stmt>,
    /// When the table is applied in several places: whether this was the place, by a variable set just before.
    pub site: Option<Expr>,
}

/// A call of an extern of the architecture.
#[derive(Clone, Debug, PartialEq)]
pub enum Primitive {
    /// `mark_to_drop(standard_metadata)`.
    MarkToDrop,
    /// `register.read`.
    RegisterRead {
        target: FieldRef,
        register: RegisterId,
        index: Expr,
    },
    /// `register.write`.
    RegisterWrite {
        register: RegisterId,
        index: Expr,
        value: Expr,
    },
    /// A packet comes to a register of Tofino's, which it may do once. `site` names the place in the source.
    RegisterAccess { register: RegisterId, site: u32 },
    /// `Mirror.emit`: the fields go in front of the copy.
    Mirror { session: Expr, fields: FieldListId },
    /// `counter.count`.
    Count { counter: CounterId, index: Expr },
    /// `meter.execute_meter`.
    ExecuteMeter {
        meter: MeterId,
        index: Expr,
        target: FieldRef,
    },
    /// `hash`: base + calculation mod max.
    Hash {
        target: FieldRef,
        base: Expr,
        calculation: CalculationId,
        max: Expr,
    },
    /// `random` in `low..=high`.
    Random {
        target: FieldRef,
        low: Expr,
        high: Expr,
    },
    /// `digest`; the fields to send have been stored in the digest's own fields.
    Digest { receiver: Expr, digest: DigestId },
    /// `clone` and its relatives.
    Clone {
        egress: bool,
        session: Expr,
        fields: FieldListId,
    },
    /// `resubmit`.
    Resubmit { fields: FieldListId },
    /// `recirculate`.
    Recirculate { fields: FieldListId },
    /// `truncate` to bytes.
    Truncate(Expr),
    /// `log_msg`.
    LogMsg { format: String, args: Vec<Expr> },
    /// `assert`.
    Assert(Expr),
    /// `assume`.
    Assume(Expr),
    /// A method of an extern object, or an extern function, outside v1model.
    Extern {
        name: String,
        instance: Option<ExternInstanceId>,
        args: Vec<ExternArg>,
    },
}

/// An argument of an extern outside v1model.
#[derive(Clone, Debug, PartialEq)]
pub enum ExternArg {
    /// A value, or a field to store in.
    Expr(Expr),
    /// A whole header.
    Header(HeaderPlace),
    /// A string.
    String(String),
}

impl Apply {
    /// All that may follow the table.
    pub fn bodies(&self) -> impl Iterator<Item = &Vec<Stmt>> {
        let actions = self.actions.iter().map(|(_, body)| body);
        [&self.hit, &self.miss, &self.other]
            .into_iter()
            .chain(actions)
    }

    /// The same, to be changed.
    pub fn bodies_mut(&mut self) -> impl Iterator<Item = &mut Vec<Stmt>> {
        let actions = self.actions.iter_mut().map(|(_, body)| body);
        [&mut self.hit, &mut self.miss, &mut self.other]
            .into_iter()
            .chain(actions)
    }
}

/// Calls `visit` on the expressions of all statements of a body, those inside of others too.
pub fn walk_exprs(body: &[Stmt], visit: &mut impl FnMut(&Expr)) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::Assign { value, .. } | StmtKind::Advance(value) => visit(value),
            StmtKind::If {
                cond, then, other, ..
            } => {
                visit(cond);
                walk_exprs(then, visit);
                walk_exprs(other, visit);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => walk_exprs(body, visit),
            StmtKind::Apply(apply) => {
                apply.site.iter().for_each(&mut *visit);
                walk_exprs(&apply.exit, visit);
                apply.bodies().for_each(|body| walk_exprs(body, visit));
            }
            StmtKind::Extract { varbit_bits, .. }
            | StmtKind::ExtractNext { varbit_bits, .. }
            | StmtKind::ExtractNextMember { varbit_bits, .. } => {
                varbit_bits.iter().for_each(&mut *visit)
            }
            StmtKind::Verify { cond, error } => {
                visit(cond);
                visit(error);
            }
            StmtKind::Primitive(primitive) => primitive.exprs().into_iter().for_each(&mut *visit),
            _ => {}
        }
    }
}

impl Primitive {
    /// The values that it takes.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            Primitive::RegisterRead { index, .. }
            | Primitive::Count { index, .. }
            | Primitive::ExecuteMeter { index, .. } => vec![index],
            Primitive::RegisterWrite { index, value, .. } => vec![index, value],
            Primitive::Hash { base, max, .. } => vec![base, max],
            Primitive::Random { low, high, .. } => vec![low, high],
            Primitive::Digest { receiver: expr, .. }
            | Primitive::Clone { session: expr, .. }
            | Primitive::Mirror { session: expr, .. }
            | Primitive::Truncate(expr)
            | Primitive::Assert(expr)
            | Primitive::Assume(expr) => vec![expr],
            Primitive::LogMsg { args, .. } => args.iter().collect(),
            Primitive::Extern { args, .. } => (args.iter())
                .filter_map(|arg| match arg {
                    ExternArg::Expr(expr) => Some(expr),
                    _ => None,
                })
                .collect(),
            Primitive::MarkToDrop
            | Primitive::RegisterAccess { .. }
            | Primitive::Resubmit { .. }
            | Primitive::Recirculate { .. } => Vec::new(),
        }
    }
}

impl Stmt {
    /// Whether the statement, with all inside it, can be part of an action: it applies no table.
    pub fn fits_in_action(&self) -> bool {
        match &self.kind {
            StmtKind::Apply(_) => false,
            StmtKind::If { then, other, .. } => {
                then.iter().all(Stmt::fits_in_action) && other.iter().all(Stmt::fits_in_action)
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                body.iter().all(Stmt::fits_in_action)
            }
            _ => true,
        }
    }
}
