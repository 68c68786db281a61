//! Statements of controls and actions.
//!
//! All calls are inlined, so a `return` is a [`StmtKind::Break`] out of the labelled block of the inlined body.

use super::{ActionId, Effect, Expr, Label, Source, TableId};

/// A statement with its source position.
///
/// The type of `kind` depends on the block: [`StmtKind`] in controls and actions, [`super::ParserStmtKind`] in parser
/// states, [`super::Primitive`] in deparsers.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt<Kind = StmtKind> {
    /// The operation of the statement.
    pub kind: Kind,
    /// Position of the statement in the P4 source.
    pub source: Source,
}

/// The kind of a statement in a control or action.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// A store or a call, as also allowed in parsers.
    Effect(Effect),
    /// A conditional statement.
    If {
        /// The condition, a `bool`.
        cond: Expr,
        /// Statements that run if the condition is true.
        then: Vec<Stmt>,
        /// Statements that run if the condition is false.
        other: Vec<Stmt>,
        /// Whether the compiler generated the statement as part of an action, so that back ends must not make it a control-flow node.
        inline: bool,
    },
    /// A block that [`StmtKind::Break`] can leave.
    Block {
        /// Label of the block, the target of breaks.
        label: Label,
        /// Statements of the block.
        body: Vec<Stmt>,
    },
    /// An infinite loop that [`StmtKind::Break`] can leave.
    Loop {
        /// Label of the loop, the target of breaks.
        label: Label,
        /// Statements of an iteration.
        body: Vec<Stmt>,
    },
    /// Leaves the enclosing block or loop with this label.
    Break(Label),
    /// Ends the pipeline.
    Exit,
    /// Applies a table; only in controls.
    Apply(Box<Apply>),
}

/// A table application, with the statements that depend on its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply {
    /// The applied table.
    pub table: TableId,
    /// The statements that depend on the result.
    pub then: Follow<Stmt>,
    /// For a table with several applications: an expression that is true after this application. `None` for the only application of a table.
    pub site: Option<Expr>,
}

/// The bodies that depend on the result of a table application, with statements of type `S`.
#[derive(Clone, Debug, PartialEq)]
pub enum Follow<S> {
    /// The next body depends on hit or miss.
    Hit {
        /// Body after a hit.
        hit: Vec<S>,
        /// Body after a miss.
        miss: Vec<S>,
    },
    /// The next body depends on the executed action (`action_run`).
    Action {
        /// Bodies, each with the actions after which it runs.
        actions: Vec<(Vec<ActionId>, Vec<S>)>,
        /// Body after any other action.
        other: Vec<S>,
    },
}

impl<S> Default for Follow<S> {
    /// Empty bodies for hit and miss.
    fn default() -> Self {
        Follow::Hit {
            hit: Vec::new(),
            miss: Vec::new(),
        }
    }
}

impl<S> Follow<S> {
    /// All bodies: hit and miss, or those of the actions and then `other`.
    pub fn bodies(&self) -> Vec<&Vec<S>> {
        match self {
            Follow::Hit { hit, miss } => vec![hit, miss],
            Follow::Action { actions, other } => {
                let actions = actions.iter().map(|(_, body)| body);
                actions.chain([other]).collect()
            }
        }
    }

    /// Mutable references to all bodies, in the order of [`Follow::bodies`].
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<S>> {
        match self {
            Follow::Hit { hit, miss } => vec![hit, miss],
            Follow::Action { actions, other } => {
                let actions = actions.iter_mut().map(|(_, body)| body);
                actions.chain([other]).collect()
            }
        }
    }

    /// Converts each body with `make`.
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
    /// The bodies nested directly in the statement.
    pub fn bodies(&self) -> Vec<&Vec<Stmt>> {
        match self {
            StmtKind::If { then, other, .. } => vec![then, other],
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => vec![body],
            StmtKind::Apply(apply) => apply.then.bodies(),
            StmtKind::Effect(_) | StmtKind::Break(_) | StmtKind::Exit => Vec::new(),
        }
    }

    /// Mutable references to the bodies nested directly in the statement.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt>> {
        match self {
            StmtKind::If { then, other, .. } => vec![then, other],
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => vec![body],
            StmtKind::Apply(apply) => apply.then.bodies_mut(),
            StmtKind::Effect(_) | StmtKind::Break(_) | StmtKind::Exit => Vec::new(),
        }
    }

    /// The expressions that the statement evaluates, without those of nested statements.
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

/// Visits all statements of a body in pre-order, including nested ones.
pub fn walk<'s>(body: &'s [Stmt], visit: &mut impl FnMut(&'s Stmt)) {
    for stmt in body {
        visit(stmt);
        for body in stmt.kind.bodies() {
            walk(body, visit);
        }
    }
}

/// Visits the expressions of all statements of a body, including nested ones.
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
