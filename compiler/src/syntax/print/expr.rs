//! Expressions, types and annotations.

use super::Printer;
use crate::syntax::ast::*;

/// Precedence of `? :`, below all binary operators.
const TERNARY: u8 = 0;
/// Precedence of prefix operators and casts, above all binary operators.
const PREFIX: u8 = 11;
/// Precedence of calls, member accesses and indices.
const POSTFIX: u8 = 12;

impl Printer {
    pub(super) fn expr(&mut self, expr: &Expr) {
        self.expr_in(expr, TERNARY);
    }

    /// Prints an operand, in parentheses if its precedence is below `min`.
    fn expr_in(&mut self, expr: &Expr, min: u8) {
        if precedence(&expr.kind) < min {
            self.word("(");
            self.expr_without_parentheses(expr);
            self.word(")");
        } else {
            self.expr_without_parentheses(expr);
        }
    }

    fn expr_without_parentheses(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Invalid(_) => self.word("/* invalid */ 0"),
            ExprKind::Int(literal) => self.int(literal),
            ExprKind::Bool(b) => self.word(if *b { "true" } else { "false" }),
            ExprKind::String(text) => self.string(text),
            ExprKind::This => self.word("this"),
            ExprKind::DontCare(DontCare::Default) => self.word("default"),
            ExprKind::DontCare(DontCare::Underscore) => self.word("_"),
            ExprKind::Dots => self.word("..."),
            ExprKind::Name(path) => self.path(path),
            ExprKind::Type(ty) => self.type_ref(ty),
            ExprKind::Member(base, name) => {
                self.expr_in(base, POSTFIX);
                self.word(".");
                self.word(&name.name);
            }
            ExprKind::Index(base, index) => {
                self.expr_in(base, POSTFIX);
                self.word("[");
                self.expr(index);
                self.word("]");
            }
            ExprKind::Slice { base, hi, lo } => {
                self.expr_in(base, POSTFIX);
                self.word("[");
                self.expr(hi);
                self.word(":");
                self.expr(lo);
                self.word("]");
            }
            ExprKind::SlicePlus { base, lo, width } => {
                self.expr_in(base, POSTFIX);
                self.word("[");
                self.expr(lo);
                self.word(" +: ");
                self.expr(width);
                self.word("]");
            }
            ExprKind::Unary(op, operand) => {
                self.word(op.as_str());
                // `- -x` must not run into one token.
                if matches!(operand.kind, ExprKind::Unary(inner, _) if inner == *op) {
                    self.word(" ");
                }
                self.expr_in(operand, PREFIX);
            }
            ExprKind::Binary(op, left, right) => {
                self.expr_in(left, op.precedence());
                self.word(" ");
                self.word(op.as_str());
                self.word(" ");
                self.expr_in(right, op.precedence() + 1);
            }
            ExprKind::Ternary(condition, yes, no) => {
                self.expr_in(condition, TERNARY + 1);
                self.word(" ? ");
                self.expr(yes);
                self.word(" : ");
                self.expr(no);
            }
            ExprKind::Cast(ty, operand) => {
                self.word("(");
                self.type_ref(ty);
                self.word(")");
                self.expr_in(operand, PREFIX);
            }
            ExprKind::Call(call) => {
                self.expr_in(&call.callee, POSTFIX);
                if !call.type_args.is_empty() {
                    self.type_args(&call.type_args);
                }
                self.args(&call.args);
            }
            ExprKind::List(list) => {
                self.word("{ ");
                self.list(list, Printer::expr);
                self.word(" }");
            }
            ExprKind::Struct { fields, dots } => {
                self.word("{ ");
                self.list(fields, Printer::named);
                if dots.is_some() {
                    self.word(", ...");
                }
                self.word(" }");
            }
            ExprKind::InvalidHeader => self.word("{#}"),
            ExprKind::Range(low, high) => {
                self.expr(low);
                self.word(" .. ");
                self.expr(high);
            }
            ExprKind::Mask(value, mask) => {
                self.expr(value);
                self.word(" &&& ");
                self.expr(mask);
            }
            ExprKind::Keyset(list) => {
                self.word("(");
                self.list(list, Printer::expr);
                self.word(")");
            }
        }
    }

    fn named(&mut self, named: &NamedExpr) {
        self.word(&named.name.name);
        self.word(" = ");
        self.expr(&named.value);
    }

    fn int(&mut self, literal: &IntLiteral) {
        if let Some(width) = literal.width {
            self.word(&format!(
                "{}{}",
                width.bits,
                if width.signed { 's' } else { 'w' }
            ));
        }
        let (prefix, base) = match literal.base {
            16 => ("0x", 16),
            8 => ("0o", 8),
            2 => ("0b", 2),
            _ => ("", 10),
        };
        self.word(prefix);
        self.word(&literal.value.to_str_radix(base));
    }

    fn string(&mut self, text: &str) {
        self.word("\"");
        for c in text.chars() {
            match c {
                '"' => self.word("\\\""),
                '\\' => self.word("\\\\"),
                '\n' => self.word("\\n"),
                c => self.out.push(c),
            }
        }
        self.word("\"");
    }

    pub(super) fn path(&mut self, path: &Path) {
        if path.absolute {
            self.word(".");
        }
        self.word(&path.name.name);
    }

    pub(super) fn args(&mut self, args: &[Arg]) {
        self.word("(");
        self.list(args, |p, arg| {
            if let Some(name) = &arg.name {
                p.word(&name.name);
                p.word(" = ");
            }
            p.expr(&arg.value);
        });
        self.word(")");
    }

    fn type_args(&mut self, args: &[TypeRef]) {
        self.word("<");
        self.list(args, Printer::type_ref);
        self.word(">");
    }

    pub(super) fn type_ref(&mut self, ty: &TypeRef) {
        match &ty.kind {
            TypeRefKind::Bool => self.word("bool"),
            TypeRefKind::Error => self.word("error"),
            TypeRefKind::MatchKind => self.word("match_kind"),
            TypeRefKind::String => self.word("string"),
            TypeRefKind::Void => self.word("void"),
            TypeRefKind::Int => self.word("int"),
            TypeRefKind::Bit(None) => self.word("bit"),
            TypeRefKind::Bit(Some(width)) => self.sized("bit", width),
            TypeRefKind::SignedInt(width) => self.sized("int", width),
            TypeRefKind::Varbit(width) => self.sized("varbit", width),
            TypeRefKind::Name(path) => self.path(path),
            TypeRefKind::Specialized(path, args) => {
                self.path(path);
                self.type_args(args);
            }
            TypeRefKind::Stack(element, size) => {
                self.type_ref(element);
                self.word("[");
                self.expr(size);
                self.word("]");
            }
            TypeRefKind::Tuple(types) => {
                self.word("tuple");
                self.type_args(types);
            }
            TypeRefKind::List(element) => {
                self.word("list<");
                self.type_ref(element);
                self.word(">");
            }
            TypeRefKind::DontCare => self.word("_"),
        }
    }

    fn sized(&mut self, name: &str, width: &Expr) {
        self.word(name);
        self.word("<");
        if matches!(width.kind, ExprKind::Int(_)) {
            self.expr(width);
        } else {
            self.word("(");
            self.expr(width);
            self.word(")");
        }
        self.word(">");
    }

    /// Prints annotations: each on its own line if `lines`, otherwise each followed by a blank.
    pub(super) fn annotations(&mut self, annotations: &[Annotation], lines: bool) {
        for annotation in annotations {
            if lines {
                self.line_start();
            }
            self.word("@");
            self.word(&annotation.name.name);
            match &annotation.body {
                AnnotationBody::Empty => {}
                AnnotationBody::Tokens { .. } => {
                    self.word("(");
                    self.word(&annotation.body_text());
                    self.word(")");
                }
                AnnotationBody::List(list) => {
                    self.word("[");
                    self.list(list, Printer::expr);
                    self.word("]");
                }
                AnnotationBody::KeyValues(list) => {
                    self.word("[");
                    self.list(list, Printer::named);
                    self.word("]");
                }
            }
            self.word(if lines { "\n" } else { " " });
        }
    }
}

fn precedence(kind: &ExprKind) -> u8 {
    match kind {
        ExprKind::Ternary(..) => TERNARY,
        ExprKind::Binary(op, ..) => op.precedence(),
        ExprKind::Unary(..) | ExprKind::Cast(..) => PREFIX,
        _ => POSTFIX,
    }
}
