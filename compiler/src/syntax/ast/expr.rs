//! Expressions (spec § 8).

use super::{ExprId, Ident, Name, Path, TypeRef};
use crate::diag::{ErrorReported, Span};
use num_bigint::BigInt;

/// An expression node: its kind, position and id.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Id of the expression, assigned by the parser; index of the type checker's results.
    pub id: ExprId,
    /// Range of the expression's source text, without enclosing parentheses.
    pub span: Span,
    /// The kind of expression, with its subexpressions.
    pub kind: ExprKind,
}

/// Kinds of expressions. Parentheses have no node, as the tree already has the structure.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// A placeholder for text with a syntax error
    Invalid(ErrorReported),
    /// An integer literal: `12`, `8w0xff`, `4s7`
    Int(IntLiteral),
    /// A Boolean literal: `true` or `false`
    Bool(bool),
    /// `"text"`: the text without quotes, escapes resolved
    String(Name),
    /// `this`: the instance, in the implementation of an abstract method
    This,
    /// `default` or `_` in a keyset, `_` as an argument
    DontCare(DontCare),
    /// `...`: default values for the remaining elements of a list
    Dots,
    /// `x` or `.x`: a value, or a type that a call or a member access is applied to
    Name(Path),
    /// A type that cannot be parsed as a value, before `.` or `(`: `error` in `error.NoMatch`, `T<A>` in `T<A>.apply()`
    Type(TypeRef),
    /// A member access `base.member`
    Member(Box<Expr>, Ident),
    /// An element of a header stack or tuple, `base[index]`
    Index(Box<Expr>, Box<Expr>),
    /// A slice `base[hi:lo]`
    Slice {
        /// The sliced operand.
        base: Box<Expr>,
        /// Left index: the most significant bit of the slice, from 0.
        hi: Box<Expr>,
        /// Right index: the least significant bit of the slice, from 0.
        lo: Box<Expr>,
    },
    /// A slice of constant width, `base[lo +: width]`
    SlicePlus {
        /// The sliced operand.
        base: Box<Expr>,
        /// Index of the least significant bit, which need not be a compile-time value.
        lo: Box<Expr>,
        /// Width of the slice in bits, a compile-time value.
        width: Box<Expr>,
    },
    /// A unary operator and its operand: `-x`, `!x`, ...
    Unary(UnaryOp, Box<Expr>),
    /// A binary operator and its operands: `x + y`, ...
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? x : y`: condition, value if true, value if false
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// An explicit cast `(T) x`
    Cast(TypeRef, Box<Expr>),
    /// `callee<A>(x)`: a call of a function, action, method or constructor
    Call(Box<Call>),
    /// `{x, y}`, whose last element may be [`ExprKind::Dots`]
    List(Vec<Expr>),
    /// `{f = x, g = y}`, optionally with `...` at the end
    Struct {
        /// The named fields in source order.
        fields: Vec<NamedExpr>,
        /// Span of the final `...`; `None` without it.
        dots: Option<Span>,
    },
    /// `{#}`: an invalid header or header union
    InvalidHeader,
    /// A range `lo .. hi`, both inclusive, in keysets and `for` loops
    Range(Box<Expr>, Box<Expr>),
    /// `value &&& mask`, in keysets: matches numbers that equal `value` in the bits of `mask`
    Mask(Box<Expr>, Box<Expr>),
    /// `(x, y)` in keysets: one element for each key
    Keyset(Vec<Expr>),
}

/// The spelling of a wildcard, which matches every value or omits an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DontCare {
    /// `default`
    Default,
    /// `_`
    Underscore,
}

/// An integer literal (spec § 6.4.3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntLiteral {
    /// Value of the digits, not yet wrapped to the width.
    pub value: BigInt,
    /// Width and signedness from a prefix such as `8w` or `8s`; `None` without a prefix.
    pub width: Option<LiteralWidth>,
    /// Base of the digits as written: 2, 8, 10 or 16.
    pub base: u32,
}

/// Width and signedness in a literal's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralWidth {
    /// Width in bits; 0 is possible.
    pub bits: u32,
    /// Whether the literal is signed: prefix `s` rather than `w`.
    pub signed: bool,
}

/// A call `callee<type_args>(args)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The called function, action or method, or the constructed type.
    pub callee: Expr,
    /// Type arguments as written; empty if they are to be inferred.
    pub type_args: Vec<TypeRef>,
    /// Arguments in source order.
    pub args: Vec<Arg>,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Name of the parameter in `name = value`; `None` for a positional argument.
    pub name: Option<Ident>,
    /// Value of the argument; [`ExprKind::DontCare`] for `_`.
    pub value: Expr,
}

impl Arg {
    /// Range of the argument's source text, from its name or value to the end of its value.
    pub fn span(&self) -> Span {
        match &self.name {
            Some(name) => name.span.to(self.value.span),
            None => self.value.span,
        }
    }
}

/// `name = value` in a structure-valued expression or an annotation.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedExpr {
    /// Name of the field, or key of the annotation.
    pub name: Ident,
    /// Value of the field or key.
    pub value: Expr,
}

/// Unary operators, all prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `!`: logical negation of a `bool`
    Not,
    /// `~`: bitwise complement
    Complement,
    /// `-`: arithmetic negation
    Minus,
    /// `+`: no change of the value
    Plus,
}

/// Binary operators, all infix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `*`: multiplication
    Mul,
    /// `/`: integer division
    Div,
    /// `%`: remainder of a division
    Mod,
    /// `+`: addition, wrapping for `bit<W>` and `int<W>`
    Add,
    /// `-`: subtraction, wrapping for `bit<W>` and `int<W>`
    Sub,
    /// `|+|`: saturating addition
    AddSat,
    /// `|-|`: saturating subtraction
    SubSat,
    /// `<<`: shift to the left
    Shl,
    /// `>>`: shift to the right, arithmetic for signed numbers
    Shr,
    /// `<=`: less than or equal
    Le,
    /// `>=`: greater than or equal
    Ge,
    /// `<`: less than
    Lt,
    /// `>`: greater than
    Gt,
    /// `!=`: not equal
    Ne,
    /// `==`: equal
    Eq,
    /// `&`: bitwise AND
    BitAnd,
    /// `^`: bitwise exclusive OR
    BitXor,
    /// `|`: bitwise OR
    BitOr,
    /// `++`: concatenation of bits or strings
    Concat,
    /// `&&`: logical AND, short-circuit
    And,
    /// `||`: logical OR, short-circuit
    Or,
}

impl UnaryOp {
    /// The operator in source text, such as `!`.
    pub fn as_str(self) -> &'static str {
        match self {
            UnaryOp::Not => "!",
            UnaryOp::Complement => "~",
            UnaryOp::Minus => "-",
            UnaryOp::Plus => "+",
        }
    }
}

impl BinaryOp {
    /// The operator in source text, such as `|+|`.
    pub fn as_str(self) -> &'static str {
        match self {
            BinaryOp::Mul => "*",
            BinaryOp::Div => "/",
            BinaryOp::Mod => "%",
            BinaryOp::Add => "+",
            BinaryOp::Sub => "-",
            BinaryOp::AddSat => "|+|",
            BinaryOp::SubSat => "|-|",
            BinaryOp::Shl => "<<",
            BinaryOp::Shr => ">>",
            BinaryOp::Le => "<=",
            BinaryOp::Ge => ">=",
            BinaryOp::Lt => "<",
            BinaryOp::Gt => ">",
            BinaryOp::Ne => "!=",
            BinaryOp::Eq => "==",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitXor => "^",
            BinaryOp::BitOr => "|",
            BinaryOp::Concat => "++",
            BinaryOp::And => "&&",
            BinaryOp::Or => "||",
        }
    }

    /// Precedence, from 1; operators with a larger number bind tighter. All operators are left-associative (spec, appendix H).
    pub fn precedence(self) -> u8 {
        match self {
            BinaryOp::Or => 1,
            BinaryOp::And => 2,
            BinaryOp::Eq | BinaryOp::Ne => 3,
            BinaryOp::Lt | BinaryOp::Gt | BinaryOp::Le | BinaryOp::Ge => 4,
            BinaryOp::BitOr => 5,
            BinaryOp::BitXor => 6,
            BinaryOp::BitAnd => 7,
            BinaryOp::Shl | BinaryOp::Shr => 8,
            BinaryOp::Concat
            | BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::AddSat
            | BinaryOp::SubSat => 9,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::Mod => 10,
        }
    }
}

impl ExprKind {
    /// Calls `f` with each direct subexpression, in source order. Types have none.
    pub fn for_each_child<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            ExprKind::Invalid(_)
            | ExprKind::Int(_)
            | ExprKind::Bool(_)
            | ExprKind::String(_)
            | ExprKind::This
            | ExprKind::DontCare(_)
            | ExprKind::Dots
            | ExprKind::Name(_)
            | ExprKind::Type(_)
            | ExprKind::InvalidHeader => {}
            ExprKind::Member(base, _) => f(base),
            ExprKind::Unary(_, operand) | ExprKind::Cast(_, operand) => f(operand),
            ExprKind::Index(a, b)
            | ExprKind::Binary(_, a, b)
            | ExprKind::Range(a, b)
            | ExprKind::Mask(a, b) => {
                f(a);
                f(b);
            }
            ExprKind::Slice {
                base: a,
                hi: b,
                lo: c,
            }
            | ExprKind::SlicePlus {
                base: a,
                lo: b,
                width: c,
            }
            | ExprKind::Ternary(a, b, c) => {
                f(a);
                f(b);
                f(c);
            }
            ExprKind::Call(call) => {
                f(&call.callee);
                call.args.iter().for_each(|arg| f(&arg.value));
            }
            ExprKind::List(list) | ExprKind::Keyset(list) => list.iter().for_each(f),
            ExprKind::Struct { fields, .. } => fields.iter().for_each(|field| f(&field.value)),
        }
    }
}

impl Expr {
    /// Calls `f` with this expression and its subexpressions, in pre-order.
    pub fn walk<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        f(self);
        self.kind.for_each_child(&mut |child| child.walk(f));
    }
}
