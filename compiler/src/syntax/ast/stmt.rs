//! Statements (spec § 12) and the bodies of parser states (spec § 13).

use super::{
    Annotation, BinaryOp, ConstDecl, DeclId, Expr, Ident, Instantiation, TypeRef, VarDecl,
};
use crate::diag::{ErrorReported, Span};
use std::rc::Rc;

/// A statement, or a declaration among statements.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Range of the statement's source text, including the final semicolon.
    pub span: Span,
    /// The kind of statement, with its parts.
    pub kind: StmtKind,
}

/// Kinds of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// An empty statement `;`
    Empty,
    /// `left = right;`, or with `op`, `left op= right;`
    Assign {
        /// The assigned lvalue, which may be a slice.
        left: Expr,
        /// Operator of a compound assignment, such as `+` of `+=`; `None` for `=`. `left` is evaluated once.
        op: Option<BinaryOp>,
        /// The assigned value.
        right: Expr,
    },
    /// `f(x);`, also `T.apply(x);` (direct application): the expression is a call
    Call(Expr),
    /// A conditional statement `if (c) s else t`
    If {
        /// Condition of type `bool`.
        condition: Expr,
        /// Branch for a true condition.
        then: Box<Stmt>,
        /// Branch for a false condition; `None` without `else`.
        otherwise: Option<Box<Stmt>>,
    },
    /// `{ ... }`
    Block(Block),
    /// A `switch (e) { ... }` over values or the actions of a table
    Switch {
        /// The expression to compare with the labels, or `table.apply().action_run`.
        subject: Expr,
        /// Cases in source order.
        cases: Vec<SwitchCase>,
    },
    /// A loop `for (init; condition; update) body`
    For {
        /// Annotations before `for`, such as `@unroll`.
        annotations: Vec<Annotation>,
        /// Declarations, assignments and calls before the first iteration; the variables are visible in the loop only.
        init: Vec<Stmt>,
        /// Condition of type `bool`, evaluated before each iteration.
        condition: Expr,
        /// Assignments and calls after each iteration.
        update: Vec<Stmt>,
        /// Body of the loop.
        body: Box<Stmt>,
    },
    /// A loop `for (T x in e) body` over a collection
    ForIn {
        /// Annotations before `for`, such as `@unroll`.
        annotations: Vec<Annotation>,
        /// The loop variable; it has no initializer.
        variable: Rc<VarDecl>,
        /// The iterated range, header stack or list.
        collection: Expr,
        /// Body of the loop.
        body: Box<Stmt>,
    },
    /// `break;`: leaves the innermost loop
    Break,
    /// `continue;`: starts the next iteration of the innermost loop
    Continue,
    /// `return;` or `return e;`: leaves the function, action or control
    Return(Option<Expr>),
    /// `exit;`: ends all enclosing controls
    Exit,
    /// A local constant, `const T x = e;`
    Const(Rc<ConstDecl>),
    /// A local variable, `T x;` or `T x = e;`
    Var(Rc<VarDecl>),
    /// `T(args) x;` among the statements of a parser state or a block
    Instantiation(Rc<Instantiation>),
    /// A placeholder for text with a syntax error
    Invalid(ErrorReported),
}

/// A direct part of a statement, see [`StmtKind::for_each_part`].
pub enum StmtPart<'a> {
    /// The left side of an assignment.
    Lvalue(&'a Expr),
    /// An expression that is evaluated: an assigned value, a call, a condition or the subject of a `switch`.
    Expr(&'a Expr),
    /// A statement of a branch, a block, a case or a loop.
    Stmt(&'a Stmt),
    /// A declared variable, also that of a loop.
    Var(&'a Rc<VarDecl>),
    /// A declared instance.
    Instantiation(&'a Rc<Instantiation>),
}

impl StmtKind {
    /// Calls `visit` for each direct part of the statement in source order, without constants and the labels of cases.
    pub fn for_each_part<'a>(&'a self, visit: &mut impl FnMut(StmtPart<'a>)) {
        match self {
            StmtKind::Assign { left, right, .. } => {
                visit(StmtPart::Lvalue(left));
                visit(StmtPart::Expr(right));
            }
            StmtKind::Call(value) | StmtKind::Return(Some(value)) => visit(StmtPart::Expr(value)),
            StmtKind::If {
                condition,
                then,
                otherwise,
            } => {
                visit(StmtPart::Expr(condition));
                visit(StmtPart::Stmt(then));
                if let Some(otherwise) = otherwise {
                    visit(StmtPart::Stmt(otherwise));
                }
            }
            StmtKind::Block(block) => block.for_each_stmt(visit),
            StmtKind::Switch { subject, cases } => {
                visit(StmtPart::Expr(subject));
                for body in cases.iter().filter_map(|case| case.body.as_ref()) {
                    body.for_each_stmt(visit);
                }
            }
            StmtKind::For {
                init,
                condition,
                update,
                body,
                ..
            } => {
                init.iter().for_each(|stmt| visit(StmtPart::Stmt(stmt)));
                visit(StmtPart::Expr(condition));
                update.iter().for_each(|stmt| visit(StmtPart::Stmt(stmt)));
                visit(StmtPart::Stmt(body));
            }
            StmtKind::ForIn {
                variable,
                collection,
                body,
                ..
            } => {
                visit(StmtPart::Var(variable));
                visit(StmtPart::Expr(collection));
                visit(StmtPart::Stmt(body));
            }
            StmtKind::Var(variable) => visit(StmtPart::Var(variable)),
            StmtKind::Instantiation(instance) => visit(StmtPart::Instantiation(instance)),
            StmtKind::Empty
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(None)
            | StmtKind::Exit
            | StmtKind::Const(_)
            | StmtKind::Invalid(_) => {}
        }
    }
}

/// A block statement `{ ... }`, with annotations before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Annotations before the opening brace, in source order.
    pub annotations: Vec<Annotation>,
    /// Statements and declarations in source order.
    pub stmts: Vec<Stmt>,
    /// Range of source text from brace to brace.
    pub span: Span,
}

impl Block {
    fn for_each_stmt<'a>(&'a self, visit: &mut impl FnMut(StmtPart<'a>)) {
        self.stmts
            .iter()
            .for_each(|stmt| visit(StmtPart::Stmt(stmt)));
    }
}

/// A case of a `switch`: `label: { ... }`, or `label:` to fall through.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchCase {
    /// The label: a constant expression, or [`super::ExprKind::DontCare`] for `default`. If the subject is `action_run`, the name of an
    /// action.
    pub label: Expr,
    /// Body of the case; `None` falls through to the next case.
    pub body: Option<Block>,
    /// Range of source text of label and body.
    pub span: Span,
}

/// A state of a parser: `state s { ... transition ...; }`.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Id of the state, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations of the state, in source order.
    pub annotations: Vec<Annotation>,
    /// Name of the state: `s` in `state s { ... }`.
    pub name: Ident,
    /// Statements before the transition.
    pub stmts: Vec<Stmt>,
    /// The transition at the end of the state.
    pub transition: Transition,
    /// Range of source text from the annotations to the closing brace.
    pub span: Span,
}

/// The transition statement at the end of a parser state.
#[derive(Clone, Debug, PartialEq)]
pub enum Transition {
    /// No transition statement: an implicit `transition reject`.
    None,
    /// `transition name;`, also `accept` and `reject`
    Direct(Ident),
    /// `transition select (...) { ... }`
    Select(Select),
}

/// `select (keys) { cases }`
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// The expressions whose values are compared with the keysets.
    pub keys: Vec<Expr>,
    /// Cases in source order; the first case that matches is taken.
    pub cases: Vec<SelectCase>,
    /// Range of the `select` expression's source text.
    pub span: Span,
}

/// A case of a `select`: `keyset: state;`.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCase {
    /// The keyset. For one key: an expression, [`super::ExprKind::Mask`], [`super::ExprKind::Range`] or [`super::ExprKind::DontCare`].
    /// For several keys: [`super::ExprKind::Keyset`] with one of these for each key.
    pub keyset: Expr,
    /// Name of the next state.
    pub target: Ident,
    /// Range of the case's source text.
    pub span: Span,
}

/// A parameter of an action, function, method, parser, control, constructor or package.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Id of the parameter, assigned by the parser; key of the type checker's results.
    pub id: DeclId,
    /// Annotations in source order; `@optional` allows the argument to be omitted.
    pub annotations: Vec<Annotation>,
    /// Direction; `Direction::None` if none is written.
    pub direction: Direction,
    /// Type of the parameter, as written.
    pub ty: TypeRef,
    /// Name of the parameter: `x` in `in T x`.
    pub name: Ident,
    /// Default value, used if the argument is omitted; `None` if there is none.
    pub default: Option<Expr>,
    /// Range of the parameter's source text.
    pub span: Span,
}

/// Directions of parameters (spec § 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No direction: a compile-time value, or a parameter of an action that the control plane sets.
    None,
    /// `in`: a read-only copy of the argument
    In,
    /// `out`: copied to the argument after the call, undefined before
    Out,
    /// `inout`: copied from the argument before the call and to it after the call
    InOut,
}

impl Direction {
    /// The keyword; empty without a direction.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::None => "",
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }

    /// Whether the callee writes to the argument, which must be an lvalue: `out` and `inout`.
    pub fn writes(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut)
    }

    /// Whether the callee reads the argument: `in`, `inout` and without direction.
    pub fn reads(self) -> bool {
        self != Direction::Out
    }
}
