//! Translates IR expressions to BMv2 expressions.
//!
//! BMv2 computes with integers of arbitrary size, and booleans are a separate type. An operation whose result may leave the range of its
//! type is therefore followed by a mask, or by `two_comp_mod` for signed types. A `bool` in a field is converted by `d2b` on reads and by
//! `b2d` on writes.

use alfirk_bmv2_json as json;
use json::Operator as Op;
use num_bigint::{BigInt, Sign};

use crate::diag::fault;
use crate::ir::{
    mask, BinaryOp, Expr, FieldPlace, FlatProgram, HeaderPlace, KeyTarget, Scalar, StackId,
    UnaryOp, UnionStackId,
};

/// Maximum width in bits of a shift amount that needs no range check: a left shift adds fewer than 2^8 bits to BMv2's number.
const SAFE_SHIFT_BITS: u32 = 8;

/// Translates the expressions of a program.
#[derive(Clone, Copy)]
pub struct Exprs<'a> {
    program: &'a FlatProgram,
}

impl<'a> Exprs<'a> {
    /// Creates a translator for expressions of `program`.
    pub fn new(program: &'a FlatProgram) -> Self {
        Exprs { program }
    }

    /// The program whose expressions are translated.
    pub fn program(&self) -> &'a FlatProgram {
        self.program
    }

    /// A reference to a field by the names of header and field.
    pub fn field_ref(&self, place: impl Into<FieldPlace>) -> json::FieldRef {
        let place = place.into();
        let storage = &self.program.objects.storage;
        let field = storage.field(place).name.clone();
        match place.header {
            HeaderPlace::Fixed(header) => {
                json::FieldRef::new(storage.header(header).name.clone(), field)
            }
            HeaderPlace::Last(stack) => {
                json::FieldRef::new(storage.stack(stack).name.clone(), field)
            }
            HeaderPlace::LastMember(stack, _) => {
                json::FieldRef::new(storage.union_stack(stack).name.clone(), field)
            }
        }
    }

    /// A reference to what a table key matches: a field, or the validity bit of a header or union.
    pub fn key_target(&self, target: &KeyTarget) -> json::FieldRef {
        let storage = &self.program.objects.storage;
        match target {
            KeyTarget::Field(field) => self.field_ref(*field),
            KeyTarget::Valid(header) => {
                json::FieldRef::new(storage.header(*header).name.clone(), json::FieldRef::VALID)
            }
            KeyTarget::UnionValid(union) => {
                json::FieldRef::new(storage.union(*union).name.clone(), json::FieldRef::VALID)
            }
        }
    }

    /// Translates a field to an expression: as a value, or as the target of an assignment.
    pub fn field(&self, place: impl Into<FieldPlace>) -> json::Expr {
        let place = place.into();
        let storage = &self.program.objects.storage;
        match place.header {
            HeaderPlace::Fixed(_) => json::Expr::Field(self.field_ref(place)),
            HeaderPlace::Last(stack) => json::Expr::StackField {
                stack: storage.stack(stack).name.clone(),
                field: storage.field(place).name.clone(),
            },
            HeaderPlace::LastMember(..) => json::Expr::binary(
                Op::AccessField,
                self.header(place.header),
                json::Expr::Index(place.field),
            ),
        }
    }

    /// Translates a whole header to an expression.
    pub fn header(&self, place: HeaderPlace) -> json::Expr {
        let storage = &self.program.objects.storage;
        match place {
            HeaderPlace::Fixed(header) => json::Expr::Header(storage.header(header).name.clone()),
            HeaderPlace::Last(stack) => json::Expr::binary(
                Op::DereferenceHeaderStack,
                self.stack(stack),
                self.last_index(stack),
            ),
            HeaderPlace::LastMember(stack, member) => {
                let last = json::Expr::unary(Op::LastStackIndex, self.union_stack(stack));
                let union =
                    json::Expr::binary(Op::DereferenceUnionStack, self.union_stack(stack), last);
                json::Expr::binary(Op::AccessUnionHeader, union, json::Expr::Index(member))
            }
        }
    }

    /// Translates a whole header to an operand of a primitive.
    pub fn header_operand(&self, place: HeaderPlace) -> json::Expr {
        match place {
            HeaderPlace::Fixed(_) => self.header(place),
            _ => self.header(place).wrapped(),
        }
    }

    /// Translates a whole header stack to an expression.
    pub fn stack(&self, stack: StackId) -> json::Expr {
        json::Expr::HeaderStack(self.program.objects.storage.stack(stack).name.clone())
    }

    /// Translates a whole stack of unions to an expression.
    pub fn union_stack(&self, stack: UnionStackId) -> json::Expr {
        json::Expr::HeaderUnionStack(self.program.objects.storage.union_stack(stack).name.clone())
    }

    /// The index of the element of a stack that was extracted last.
    fn last_index(&self, stack: StackId) -> json::Expr {
        json::Expr::unary(Op::LastStackIndex, self.stack(stack))
    }

    /// Translates a number or boolean to an operand of a primitive; booleans become 0 and 1.
    pub fn operand(&self, expr: &Expr) -> json::Expr {
        match expr {
            Expr::Number { .. } => self.expr(expr),
            Expr::Bool(value) => json::Expr::hex(hex(&BigInt::from(u8::from(*value)), 1)),
            Expr::Field { place, .. } => match place.header {
                HeaderPlace::LastMember(..) => self.field(*place).wrapped(),
                _ => self.field(*place),
            },
            Expr::Param { index, .. } => json::Expr::RuntimeData(*index as u32),
            Expr::Lookahead { offset, width } => json::Expr::Lookahead {
                offset: *offset,
                width: *width,
            },
            _ => self.number(expr).wrapped(),
        }
    }

    /// Translates an expression to a number; booleans become 0 and 1.
    pub fn number(&self, expr: &Expr) -> json::Expr {
        match (expr, expr.scalar()) {
            (Expr::Field { place, .. }, _) => self.field(*place),
            (Expr::Param { index, .. }, Some(Scalar::Bool)) => json::Expr::Local(*index as u32),
            (_, Some(Scalar::Bool)) => json::Expr::unary(Op::B2d, self.expr(expr)),
            _ => self.expr(expr),
        }
    }

    /// Translates an expression; the result is a boolean if the type of `expr` is `bool`.
    pub fn expr(&self, expr: &Expr) -> json::Expr {
        match expr {
            Expr::Number { value, ty } => json::Expr::hex(hex(value, ty.width())),
            Expr::Bool(value) => json::Expr::Bool(*value),
            Expr::Field { place, ty } => typed_value(*ty, self.field(*place)),
            Expr::Param { index, ty } => {
                // Unlike a field, a parameter has no sign in BMv2.
                let value = json::Expr::Local(*index as u32);
                wrap_if_signed(typed_value(*ty, value), Some(*ty))
            }
            Expr::Valid(HeaderPlace::Fixed(header)) => {
                let name = self.program.objects.storage.header(*header).name.clone();
                json::Expr::unary(Op::D2b, json::Expr::field(name, json::FieldRef::VALID))
            }
            Expr::Valid(place) => json::Expr::unary(Op::Valid, self.header(*place)),
            Expr::UnionValid(union) => {
                let name = self.program.objects.storage.union(*union).name.clone();
                json::Expr::unary(Op::ValidUnion, json::Expr::HeaderUnion(name))
            }
            Expr::Header(place) => self.header(*place),
            Expr::Union(union) => {
                json::Expr::HeaderUnion(self.program.objects.storage.union(*union).name.clone())
            }
            Expr::LastIndex(stack) => masked(self.last_index(*stack), 32),
            Expr::UnionLastIndex(stack) => masked(
                json::Expr::unary(Op::LastStackIndex, self.union_stack(*stack)),
                32,
            ),
            Expr::Lookahead { offset, width } => json::Expr::Lookahead {
                offset: *offset,
                width: *width,
            },
            Expr::Result { .. } => fault(None, "a call of an extern is not lowered"),
            Expr::Unary { op, arg } => self.unary(*op, arg),
            Expr::Binary { op, left, right } => self.binary(*op, left, right),
            Expr::Choose { cond, then, other } => {
                json::Expr::ternary(self.expr(cond), self.expr(then), self.expr(other))
            }
            Expr::Cast { to, arg } => self.cast(*to, arg),
            Expr::Slice { high, low, arg } => self.slice(*high, *low, arg),
        }
    }

    fn unary(&self, op: UnaryOp, arg: &Expr) -> json::Expr {
        let value = self.expr(arg);
        match op {
            UnaryOp::Not => json::Expr::unary(Op::Not, value),
            UnaryOp::Complement => wrap_to_type(json::Expr::unary(Op::BitNot, value), arg.scalar()),
            UnaryOp::Negate => {
                let zero =
                    json::Expr::hex(hex(&BigInt::ZERO, arg.scalar().map_or(1, Scalar::width)));
                wrap_to_type(json::Expr::binary(Op::Sub, zero, value), arg.scalar())
            }
        }
    }

    fn binary(&self, op: BinaryOp, left: &Expr, right: &Expr) -> json::Expr {
        let ty = left.scalar();
        let plain = |op| json::Expr::binary(op, self.expr(left), self.expr(right));
        match op {
            BinaryOp::Add => wrap_to_type(plain(Op::Add), ty),
            BinaryOp::Sub => wrap_to_type(plain(Op::Sub), ty),
            BinaryOp::Mul => wrap_to_type(plain(Op::Mul), ty),
            BinaryOp::Div => wrap_if_signed(plain(Op::Div), ty),
            BinaryOp::Mod => plain(Op::Mod),
            BinaryOp::AddSat => saturated(plain(Op::Add), ty),
            BinaryOp::SubSat => saturated(plain(Op::Sub), ty),
            BinaryOp::Shl | BinaryOp::Shr => self.shift(op, left, right),
            BinaryOp::And => plain(Op::BitAnd),
            BinaryOp::Or => plain(Op::BitOr),
            BinaryOp::Xor => plain(Op::BitXor),
            BinaryOp::Concat => self.concat(left, right),
            BinaryOp::Eq => plain(Op::Eq),
            BinaryOp::Ne => plain(Op::Ne),
            BinaryOp::Lt => plain(Op::Lt),
            BinaryOp::Le => plain(Op::Le),
            BinaryOp::Gt => plain(Op::Gt),
            BinaryOp::Ge => plain(Op::Ge),
            BinaryOp::LogicalAnd => plain(Op::And),
            BinaryOp::LogicalOr => plain(Op::Or),
        }
    }

    /// A shift. An amount that may be large is compared with the width first, so that BMv2 never computes a huge number.
    fn shift(&self, op: BinaryOp, left: &Expr, right: &Expr) -> json::Expr {
        let ty = left.scalar().unwrap_or(Scalar::Bit(1));
        let amount_width = right.scalar().map_or(0, Scalar::width);
        let shifted = match op {
            BinaryOp::Shl => wrap_to_type(
                json::Expr::binary(Op::Shl, self.expr(left), self.expr(right)),
                Some(ty),
            ),
            _ => json::Expr::binary(Op::Shr, self.expr(left), self.expr(right)),
        };
        if right.is_constant() || amount_width <= SAFE_SHIFT_BITS {
            return shifted;
        }
        let width = BigInt::from(ty.width());
        let too_far = json::Expr::binary(
            Op::Ge,
            self.expr(right),
            json::Expr::hex(hex(&width, amount_width)),
        );
        let zero = json::Expr::hex(hex(&BigInt::ZERO, ty.width()));
        let rest = match (op, ty) {
            (BinaryOp::Shr, Scalar::Int(width)) => {
                let sign = json::Expr::hex(hex(&BigInt::from(width - 1), 8));
                json::Expr::binary(Op::Shr, self.expr(left), sign)
            }
            _ => zero,
        };
        json::Expr::ternary(too_far, rest, shifted)
    }

    fn concat(&self, left: &Expr, right: &Expr) -> json::Expr {
        let unsigned = |expr: &Expr| match expr.scalar() {
            Some(Scalar::Int(width)) => masked(self.expr(expr), width),
            _ => self.expr(expr),
        };
        let (left_ty, right_width) = (left.scalar(), right.scalar().map_or(0, Scalar::width));
        let amount = json::Expr::hex(hex(&BigInt::from(right_width), 8));
        let high = json::Expr::binary(Op::Shl, unsigned(left), amount);
        let both = json::Expr::binary(Op::BitOr, high, unsigned(right));
        match left_ty {
            Some(Scalar::Int(width)) => wrap_to_type(both, Some(Scalar::Int(width + right_width))),
            _ => both,
        }
    }

    fn cast(&self, to: Scalar, arg: &Expr) -> json::Expr {
        let value = self.expr(arg);
        match (arg.scalar().unwrap_or(to), to) {
            (Scalar::Bool, Scalar::Bool) => value,
            (Scalar::Bool, _) => json::Expr::unary(Op::B2d, value),
            (_, Scalar::Bool) => json::Expr::unary(Op::D2b, value),
            (Scalar::Bit(from), Scalar::Bit(width)) if from <= width => value,
            (Scalar::Bit(from), Scalar::Int(width)) if from < width => value,
            (Scalar::Int(from), Scalar::Int(width)) if from <= width => value,
            (_, to) => wrap_to_type(value, Some(to)),
        }
    }

    fn slice(&self, high: u32, low: u32, arg: &Expr) -> json::Expr {
        let mut value = self.expr(arg);
        if low > 0 {
            value = json::Expr::binary(Op::Shr, value, json::Expr::hex(hex(&BigInt::from(low), 8)));
        }
        match arg.scalar() {
            Some(Scalar::Bit(width)) if high + 1 == width => value,
            _ => masked(value, high - low + 1),
        }
    }
}

/// Converts the stored number of a field or parameter to a boolean if its type is `bool`.
fn typed_value(ty: Scalar, value: json::Expr) -> json::Expr {
    match ty {
        Scalar::Bool => json::Expr::unary(Op::D2b, value),
        _ => value,
    }
}

/// `value mod 2^width`.
fn masked(value: json::Expr, width: u32) -> json::Expr {
    json::Expr::binary(Op::BitAnd, value, json::Expr::hex(hex(&mask(width), width)))
}

/// Wraps a number into the range of a type, modulo 2^W.
fn wrap_to_type(value: json::Expr, ty: Option<Scalar>) -> json::Expr {
    match ty {
        Some(Scalar::Int(width)) => with_width(Op::TwoCompMod, value, width),
        Some(ty) => masked(value, ty.width()),
        None => value,
    }
}

/// Wraps a number into the range of a signed type. Unsigned numbers are unchanged: the operation cannot leave their range.
fn wrap_if_signed(value: json::Expr, ty: Option<Scalar>) -> json::Expr {
    match ty {
        Some(Scalar::Int(_)) => wrap_to_type(value, ty),
        _ => value,
    }
}

/// Clamps a number to the range of a type.
fn saturated(value: json::Expr, ty: Option<Scalar>) -> json::Expr {
    match ty {
        Some(Scalar::Int(width)) => with_width(Op::SatCast, value, width),
        Some(ty) => with_width(Op::UsatCast, value, ty.width()),
        None => value,
    }
}

/// Applies the operator `op`, which converts a number to `width` bits.
fn with_width(op: Op, value: json::Expr, width: u32) -> json::Expr {
    json::Expr::binary(op, value, json::Expr::hex(hex(&BigInt::from(width), 32)))
}

/// Writes a number in hexadecimal with the digits of whole bytes, such as `0x00ff` for 255 with a width of 16 bits.
pub fn hex(value: &BigInt, width: u32) -> String {
    let digits = (width.div_ceil(8).max(1) * 2) as usize;
    let sign = if value.sign() == Sign::Minus { "-" } else { "" };
    let number = value.magnitude().to_str_radix(16);
    let zeros = digits.saturating_sub(number.len());
    let mut text = String::with_capacity(sign.len() + 2 + zeros + number.len());
    text.push_str(sign);
    text.push_str("0x");
    text.extend(std::iter::repeat_n('0', zeros));
    text.push_str(&number);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_has_whole_bytes_of_the_width() {
        assert_eq!(hex(&BigInt::from(255), 16), "0x00ff");
        assert_eq!(hex(&BigInt::from(1), 9), "0x0001");
        assert_eq!(hex(&BigInt::from(-1), 8), "-0x01");
        assert_eq!(hex(&BigInt::ZERO, 1), "0x00");
    }
}
