//! Expressions (spec § 8).

use super::{ExprId, Ident, Name, Path, TypeRef};
use crate::diag::Span;
use num_bigint::BigInt;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub struct Expr {
    /// Index into the tables of `sema`.
    pub id: ExprId,
    /// Source position, without enclosing parentheses.
    pub span: Span,
    /// The form.
    pub kind: ExprKind,
}

/// The forms of expressions. Parentheses have no node, as the tree has the structure.
#[derive(Clone, Debug, PartialEq)]
pub enum ExprKind {
    /// Something that did not parse; already reported.
    Invalid,
    /// `12`, `8w0xff`, `4s7`
    Int(IntLiteral),
    /// `true`, `false`
    Bool(bool),
    /// `"text"`, escapes resolved
    String(Name),
    /// `this`
    This,
    /// `default` or `_` in a keyset, `_` as an argument
    DontCare(DontCare),
    /// `...`
    Dots,
    /// `x` or `.x`: a value, or a type that a call or a member access is applied to
    Name(Path),
    /// A type that can be nothing else, before `.` or `(`: `error` in `error.NoMatch`, `T<A>` in `T<A>.apply()`
    Type(TypeRef),
    /// `base.member`
    Member(Box<Expr>, Ident),
    /// `base[index]`
    Index(Box<Expr>, Box<Expr>),
    /// `base[hi:lo]`
    Slice {
        /// The sliced value.
        base: Box<Expr>,
        /// Left index: the most significant bit.
        hi: Box<Expr>,
        /// Right index: the least significant bit.
        lo: Box<Expr>,
    },
    /// `base[lo +: width]`
    SlicePlus {
        /// The sliced value.
        base: Box<Expr>,
        /// Least significant bit, which may be known at run time only.
        lo: Box<Expr>,
        /// Number of bits, known at compile time.
        width: Box<Expr>,
    },
    /// `-x`, `!x`, ...
    Unary(UnaryOp, Box<Expr>),
    /// `x + y`, ...
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `c ? x : y`
    Ternary(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `(T) x`
    Cast(TypeRef, Box<Expr>),
    /// `callee<A>(x)`: function, action, method, constructor
    Call(Box<Call>),
    /// `{x, y}`, whose last element may be [`ExprKind::Dots`]
    List(Vec<Expr>),
    /// `{f = x, g = y}`, with `...` at the end when the last field says so
    Struct {
        /// The named fields in source order.
        fields: Vec<NamedExpr>,
        /// Span of a closing `...`.
        dots: Option<Span>,
    },
    /// `{#}`: an invalid header or header union
    InvalidHeader,
    /// `lo .. hi`, in keysets and `for` loops
    Range(Box<Expr>, Box<Expr>),
    /// `value &&& mask`, in keysets
    Mask(Box<Expr>, Box<Expr>),
    /// `(x, y)` in keysets: one element for each key
    Keyset(Vec<Expr>),
}

/// Spelling of a wildcard.
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
    /// The digits' value, not yet cut to the width.
    pub value: BigInt,
    /// The prefix `8w` or `8s`.
    pub width: Option<LiteralWidth>,
    /// 2, 8, 10 or 16: how the user wrote it.
    pub base: u32,
}

/// Width and signedness in a literal's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiteralWidth {
    /// Width in bits.
    pub bits: u32,
    /// `s` rather than `w`.
    pub signed: bool,
}

/// A call's parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Function, action, method or type.
    pub callee: Expr,
    /// Type arguments, empty when left to inference.
    pub type_args: Vec<TypeRef>,
    /// Arguments in source order.
    pub args: Vec<Arg>,
}

/// An argument: positional when it has no name.
#[derive(Clone, Debug, PartialEq)]
pub struct Arg {
    /// Parameter it is for.
    pub name: Option<Ident>,
    /// Its value; [`ExprKind::DontCare`] for `_`.
    pub value: Expr,
}

impl Arg {
    /// Name and value.
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
    /// Field or key.
    pub name: Ident,
    /// Value.
    pub value: Expr,
}

/// Operators with one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnaryOp {
    /// `!`
    Not,
    /// `~`
    Complement,
    /// `-`
    Minus,
    /// `+`
    Plus,
}

/// Operators with two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BinaryOp {
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `|+|`
    AddSat,
    /// `|-|`
    SubSat,
    /// `<<`
    Shl,
    /// `>>`
    Shr,
    /// `<=`
    Le,
    /// `>=`
    Ge,
    /// `<`
    Lt,
    /// `>`
    Gt,
    /// `!=`
    Ne,
    /// `==`
    Eq,
    /// `&`
    BitAnd,
    /// `^`
    BitXor,
    /// `|`
    BitOr,
    /// `++`
    Concat,
    /// `&&`
    And,
    /// `||`
    Or,
}

impl UnaryOp {
    /// As written.
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
    /// As written.
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

    /// Precedence: larger binds tighter. All operators are left-associative (spec, appendix H).
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
            ExprKind::Invalid
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
