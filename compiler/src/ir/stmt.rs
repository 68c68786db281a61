//! Statements of controls and actions.
//!
//! All calls are inlined, so a `return` is a [`StmtKind::Break`] out of the labelled block of the inlined body.

use std::convert::Infallible;
use std::fmt::Debug;

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

/// A stage of lowering, which defines the statements that exist only at this stage, in addition to those of all stages.
pub trait Form: Clone + Debug + PartialEq {
    /// Statements that exist only at this stage.
    type Own: Clone + Debug + PartialEq + Exprs;
    /// Data of table applications that exists only at this stage.
    type Application: Clone + Debug + PartialEq + Exprs;
}

/// A part of a statement that evaluates expressions.
pub trait Exprs {
    /// The expressions that are evaluated, without those of nested statements.
    fn exprs(&self) -> Vec<&Expr>;
}

/// The last stage of lowering, the finished IR, which has only the statements of all stages.
#[derive(Clone, Debug, PartialEq)]
pub enum Flat {}

impl Form for Flat {
    type Own = Infallible;
    type Application = Site;
}

/// Data of a table application in the finished IR.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Site {
    /// For a table with several applications: an expression that is true after this application. `None` for the only application of a table.
    pub here: Option<Expr>,
}

impl Exprs for Infallible {
    fn exprs(&self) -> Vec<&Expr> {
        match *self {}
    }
}

impl Exprs for Site {
    fn exprs(&self) -> Vec<&Expr> {
        self.here.iter().collect()
    }
}

/// The kind of a statement in a control or action, at the stage of lowering `F`.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind<F: Form = Flat> {
    /// A store or a call, as also allowed in parsers.
    Effect(Effect),
    /// A conditional statement.
    If {
        /// The condition, a `bool`.
        cond: Expr,
        /// Statements that run if the condition is true.
        then: Vec<Stmt<StmtKind<F>>>,
        /// Statements that run if the condition is false.
        other: Vec<Stmt<StmtKind<F>>>,
        /// Whether the compiler generated the statement as part of an action, so that back ends must not make it a control-flow node.
        inline: bool,
    },
    /// A block that [`StmtKind::Break`] can leave.
    Block {
        /// Label of the block, the target of breaks.
        label: Label,
        /// Statements of the block.
        body: Vec<Stmt<StmtKind<F>>>,
    },
    /// An infinite loop that [`StmtKind::Break`] can leave.
    Loop {
        /// Label of the loop, the target of breaks.
        label: Label,
        /// Statements of an iteration.
        body: Vec<Stmt<StmtKind<F>>>,
    },
    /// Leaves the enclosing block or loop with this label.
    Break(Label),
    /// Ends the pipeline.
    Exit,
    /// Applies a table; only in controls.
    Apply(Box<Apply<F>>),
    /// A statement that exists only at the stage of lowering `F`.
    Own(F::Own),
}

/// A table application, with the statements that depend on its result.
#[derive(Clone, Debug, PartialEq)]
pub struct Apply<F: Form = Flat> {
    /// The applied table.
    pub table: TableId,
    /// The statements that depend on the result.
    pub then: Follow<Stmt<StmtKind<F>>>,
    /// Data that exists only at the stage of lowering `F`.
    pub own: F::Application,
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

impl<F: Form> StmtKind<F> {
    /// The bodies nested directly in the statement.
    pub fn bodies(&self) -> impl Iterator<Item = &Vec<Stmt<StmtKind<F>>>> {
        let (own, then) = match self {
            StmtKind::If { then, other, .. } => ([Some(then), Some(other)], None),
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => {
                ([Some(body), None], None)
            }
            StmtKind::Apply(apply) => ([None, None], Some(&apply.then)),
            StmtKind::Effect(_) | StmtKind::Break(_) | StmtKind::Exit | StmtKind::Own(_) => {
                ([None, None], None)
            }
        };
        own.into_iter()
            .flatten()
            .chain(then.into_iter().flat_map(Follow::bodies))
    }

    /// Mutable references to the bodies nested directly in the statement.
    pub fn bodies_mut(&mut self) -> Vec<&mut Vec<Stmt<StmtKind<F>>>> {
        match self {
            StmtKind::If { then, other, .. } => vec![then, other],
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => vec![body],
            StmtKind::Apply(apply) => apply.then.bodies_mut(),
            StmtKind::Effect(_) | StmtKind::Break(_) | StmtKind::Exit | StmtKind::Own(_) => {
                Vec::new()
            }
        }
    }

    /// The expressions that the statement evaluates, without those of nested statements.
    pub fn exprs(&self) -> Vec<&Expr> {
        match self {
            StmtKind::Effect(effect) => effect.exprs(),
            StmtKind::If { cond, .. } => vec![cond],
            StmtKind::Apply(apply) => apply.own.exprs(),
            StmtKind::Own(own) => own.exprs(),
            StmtKind::Block { .. }
            | StmtKind::Loop { .. }
            | StmtKind::Break(_)
            | StmtKind::Exit => Vec::new(),
        }
    }
}

/// Visits all statements of a body in pre-order, including nested ones, at any stage of lowering.
pub fn walk<'s, F: Form>(
    body: &'s [Stmt<StmtKind<F>>],
    visit: &mut impl FnMut(&'s Stmt<StmtKind<F>>),
) {
    for stmt in body {
        visit(stmt);
        for body in stmt.kind.bodies() {
            walk(body, visit);
        }
    }
}

/// Visits the expressions of all statements of a body, including nested ones.
pub fn walk_exprs<'s, F: Form>(body: &'s [Stmt<StmtKind<F>>], visit: &mut impl FnMut(&'s Expr)) {
    walk(body, &mut |stmt| {
        stmt.kind.exprs().into_iter().for_each(&mut *visit)
    });
}

impl<F: Form> From<Effect> for StmtKind<F> {
    fn from(effect: Effect) -> Self {
        StmtKind::Effect(effect)
    }
}
