//! Statements (spec § 12) and the bodies of parser states (spec § 13).

use super::{
    Annotation, BinaryOp, ConstDecl, DeclId, Expr, Ident, Instantiation, TypeRef, VarDecl,
};
use crate::diag::Span;
use std::rc::Rc;

/// A statement, or a declaration among statements.
#[derive(Clone, Debug, PartialEq)]
pub struct Stmt {
    /// Source position, including the final semicolon.
    pub span: Span,
    /// The form.
    pub kind: StmtKind,
}

/// The forms of statements.
#[derive(Clone, Debug, PartialEq)]
pub enum StmtKind {
    /// `;`
    Empty,
    /// `left = right;`, or with `op`, `left op= right;`
    Assign {
        /// The l-value; may be a slice.
        left: Expr,
        /// Operator of a compound assignment. `left` is evaluated once.
        op: Option<BinaryOp>,
        /// The value.
        right: Expr,
    },
    /// `f(x);`, also `T.apply(x);` (direct application): the expression is a call
    Call(Expr),
    /// `if (c) s else t`
    If {
        /// Condition.
        condition: Expr,
        /// Taken when true.
        then: Box<Stmt>,
        /// Taken when false.
        otherwise: Option<Box<Stmt>>,
    },
    /// `{ ... }`
    Block(Block),
    /// `switch (e) { ... }`
    Switch {
        /// An expression, or `table.apply().action_run`.
        subject: Expr,
        /// Cases in source order.
        cases: Vec<SwitchCase>,
    },
    /// `for (init; condition; update) body`
    For {
        /// Annotations before `for`, such as `@unroll`.
        annotations: Vec<Annotation>,
        /// Declarations, assignments and calls; their variables are seen in the loop only.
        init: Vec<Stmt>,
        /// Condition.
        condition: Expr,
        /// Assignments and calls.
        update: Vec<Stmt>,
        /// Body.
        body: Box<Stmt>,
    },
    /// `for (T x in e) body`
    ForIn {
        /// Annotations before `for`, such as `@unroll`.
        annotations: Vec<Annotation>,
        /// The loop variable; it has no initializer.
        variable: Rc<VarDecl>,
        /// A range, a header stack or a list.
        collection: Expr,
        /// Body.
        body: Box<Stmt>,
    },
    /// `break;`
    Break,
    /// `continue;`
    Continue,
    /// `return;` or `return e;`
    Return(Option<Expr>),
    /// `exit;`
    Exit,
    /// `const T x = e;`
    Const(Rc<ConstDecl>),
    /// `T x;` or `T x = e;`
    Var(Rc<VarDecl>),
    /// `T(args) x;` among the statements of a parser state or a block
    Instantiation(Rc<Instantiation>),
    /// Something that did not parse; already reported.
    Invalid,
}

/// `{ ... }` with annotations before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    /// Annotations before the brace.
    pub annotations: Vec<Annotation>,
    /// Statements and declarations.
    pub stmts: Vec<Stmt>,
    /// From brace to brace.
    pub span: Span,
}

/// `label: { ... }`, or `label:` to fall through.
#[derive(Clone, Debug, PartialEq)]
pub struct SwitchCase {
    /// An expression, or [`super::ExprKind::DontCare`] for `default`. For `action_run`, the action's name.
    pub label: Expr,
    /// `None`: falls through to the next case.
    pub body: Option<Block>,
    /// Label and body.
    pub span: Span,
}

/// A state of a parser.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// Id of the state.
    pub id: DeclId,
    /// Annotations.
    pub annotations: Vec<Annotation>,
    /// Name.
    pub name: Ident,
    /// Statements before the transition.
    pub stmts: Vec<Stmt>,
    /// The transition; a missing one is `reject`.
    pub transition: Transition,
    /// From annotations to the closing brace.
    pub span: Span,
}

/// The transition of a state.
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
    /// The matched expressions.
    pub keys: Vec<Expr>,
    /// Cases in order of precedence.
    pub cases: Vec<SelectCase>,
    /// Source position.
    pub span: Span,
}

/// `keyset: state;`
#[derive(Clone, Debug, PartialEq)]
pub struct SelectCase {
    /// One keyset for each key: an expression, [`super::ExprKind::Mask`], [`super::ExprKind::Range`], [`super::ExprKind::DontCare`] or
    /// [`super::ExprKind::Keyset`] with several.
    pub keyset: Expr,
    /// The target state.
    pub target: Ident,
    /// Source position.
    pub span: Span,
}

/// A parameter of anything that has parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Param {
    /// Id of the parameter.
    pub id: DeclId,
    /// Annotations; `@optional` allows the argument to be left out.
    pub annotations: Vec<Annotation>,
    /// Direction.
    pub direction: Direction,
    /// Type.
    pub ty: TypeRef,
    /// Name.
    pub name: Ident,
    /// Default value, used without an argument.
    pub default: Option<Expr>,
    /// Source position.
    pub span: Span,
}

/// Directions of parameters (spec § 6.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// No direction: a compile-time value, or for an action's parameter one that the control plane sets.
    None,
    /// `in`
    In,
    /// `out`
    Out,
    /// `inout`
    InOut,
}

impl Direction {
    /// The keyword, empty for none.
    pub fn as_str(self) -> &'static str {
        match self {
            Direction::None => "",
            Direction::In => "in",
            Direction::Out => "out",
            Direction::InOut => "inout",
        }
    }

    /// Whether the argument must be an l-value: `out` and `inout`.
    pub fn writes(self) -> bool {
        matches!(self, Direction::Out | Direction::InOut)
    }

    /// Whether the argument's value is used: `in`, `inout` and directionless.
    pub fn reads(self) -> bool {
        self != Direction::Out
    }
}
