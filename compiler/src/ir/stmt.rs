//! Statements of controls and actions.
//!
//! Calls are inlined. A `return` is a [`StmtKind::Break`] out of a labelled block.

use super::{ActionId, Effect, Expr, Label, Source, TableId};

/// A statement with its place in the source.
///
/// What it does depends on where it stands: [`StmtKind`] in controls and actions, [`super::ParserStmtKind`] in parser
/// states, [`super::Primitive`] in deparsers.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt<Kind = StmtKind> {
    /// What it does.
    pub kind: Kind,
    /// Where it came from.
    pub source: Source,
}

/// What a statement of a control or an action does.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// What parsers can do, too.
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
    /// Ends the pipeline.
    Exit,
    /// Applies a table; controls only.
    Apply(Box<Apply>),
}

/// A table application and what follows on its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The table.
    pub table: TableId,
    /// What follows on its result.
    pub then: Follow<Stmt>,
    /// When the table is applied in several places: whether this was the place, by a variable set just before.
    pub site: Option<Expr>,
}

/// What follows the application of a table, in statements of type `S`.
#[derive(Clone, Debug, PartialEq)]
pub enum Follow<S> {
    /// By whether an entry matched.
    Hit { hit: Vec<S>, miss: Vec<S> },
    /// By the action that ran: after one of these, or after any other.
    Action {
        actions: Vec<(Vec<ActionId>, Vec<S>)>,
        other: Vec<S>,
    },
}

impl<S> Default for Follow<S> {
    /// Nothing.
    fn default() -> Self {
        Follow::Hit {
            hit: Vec::new(),
            miss: Vec::new(),
        }
    }
}

impl<S> Follow<S> {
    /// All bodies.
    pub fn bodies(&self) -> Vec<&Vec<S>> {
        match self {
            Follow::Hit { hit, miss } => vec![hit, miss],
            Follow::Action { actions, other } => {
                let actions = actions.iter().map(|(_, body)| body);
                actions.chain([other]).collect()
            }
        }
    }

    /// The same, to be changed.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<S>> {
        match self {
            Follow::Hit { hit, miss } => vec![hit, miss],
            Follow::Action { actions, other } => {
                let actions = actions.iter_mut().map(|(_, body)| body);
                actions.chain([other]).collect()
            }
        }
    }

    /// The same with every body made anew.
    pub fn map<T>(self, mut make: impl FnMut(Vec<S>) -> Vec<T>) -> Follow<T> {
        match self {
            Follow::Hit { hit, miss } => Follow::Hit {
                hit: make(hit),
                miss: make(miss),
            },
            Follow::Action { actions, other } => Follow::Action {
                actions: (actions.into_iter())
                    .map(|(ids, body)| (ids, make(body)))
                    .collect(),
                other: make(other),
            },
        }
    }
}

impl StmtKind {
    /// The bodies inside of the statement.
    pub fn bodies(&self) -> Vec<&Vec<Stmt>> {
        match self {
            StmtKind::If { then, other, .. } => vec![then, other],
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => vec![body],
            StmtKind::Apply(apply) => apply.then.bodies(),
            StmtKind::Effect(_) | StmtKind::Break(_) | StmtKind::Exit => Vec::new(),
        }
    }

    /// The same, to be changed.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            StmtKind::If { then, other, .. } => vec![then, other],
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => vec![body],
            StmtKind::Apply(apply) => apply.then.bodies_mut(),
            StmtKind::Effect(_) | StmtKind::Break(_) | StmtKind::Exit => Vec::new(),
        }
    }

    /// The values that the statement itself takes, without those of bodies inside.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            StmtKind::Effect(effect) => effect.exprs(),
            StmtKind::If { cond, .. } => vec![cond],
            StmtKind::Apply(apply) => apply.site.iter().collect(),
            StmtKind::Block { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Break(_)
            | StmtKind::Exit => Vec::new(),
        }
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

/// Calls `visit` on the expressions of all statements of a body, those inside of others too.
pub fn walk_exprs<'s>(body: &'s [Stmt], visit: &mut impl FnMut(&'s Expr)) {
    walk(body, &mut |stmt| {
        stmt.kind.exprs().into_iter().for_each(&mut *visit)
    });
}

impl From<Effect> for StmtKind {
    fn from(effect: Effect) -> Self {
        StmtKind::Effect(effect)
    }
}
