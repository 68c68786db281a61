//! The externs `Hash` and `Checksum`.

use num_bigint::BigInt;

use super::{Object, ObjectId};
use crate::diag::Span;
use crate::ir::{self, Algorithm, CalculationInput, Effect, Expr, FieldRef, Primitive, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::{ops, Builder};
use crate::passes::externs::call::{Argument, Call, ExternArg};
use crate::passes::externs::{enum_argument, number, Lowering};
use crate::sema::Type;
use crate::syntax::ast::BinaryOp;

/// Type of an Internet checksum.
const SUM: Scalar = Scalar::Bit(16);
/// The ones' complement sum over data that includes a correct Internet checksum.
const ALL_ONES: u32 = 0xffff;

impl Lowering<'_> {
    /// Lowers `Hash.get`. `algorithm` is `None` for the identity, which elaboration has folded.
    pub fn tofino_hash(
        &mut self,
        algorithm: Option<Algorithm>,
        ret: &Type,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let Some(wanted) = self.scalar(ret) else {
            return self.not_a_number(ret, span);
        };
        let data = args
            .first()
            .and_then(|bound| Some((bound.data()?.clone(), &bound.ty)));
        let Some((data, ty)) = data else {
            return self.no_data(span, "the data of a hash is not a value");
        };
        let Some(algorithm) = algorithm else {
            return self.no_data(span, "elaboration has not folded the identity hash");
        };
        let inputs = self.calculation_inputs(data, ty, span, Some(scope));
        let width = algorithm.width().unwrap_or(32);
        let value = self.computed(algorithm, inputs, width, span, scope);
        Data::Scalar(ops::cast(value, wanted))
    }

    /// Emits a calculation, and returns its result of `width` bits, which is stored in a new variable.
    fn computed(
        &mut self,
        algorithm: Algorithm,
        inputs: Vec<CalculationInput>,
        width: u32,
        span: Span,
        scope: &str,
    ) -> Expr {
        let calculation = self.calculation(algorithm, inputs, span);
        let ty = Scalar::Bit(width);
        let target = self.temporary(scope, "hash", ty);
        let hash = Primitive::Hash {
            target,
            base: Expr::bits(0, width),
            calculation,
            // The range of the result has all numbers of `width` bits.
            max: Expr::bits(BigInt::from(1) << width, width + 1),
        };
        self.emit(span, Effect::Primitive(hash));
        Expr::field(target, ty)
    }

    /// Lowers a call of a method of `Checksum`. `sum` is the variable with the sum so far; it is created on first use.
    pub fn checksum_call(
        &mut self,
        id: ObjectId,
        sum: Option<FieldRef>,
        method: &str,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let inputs = match args.first() {
            Some(bound) if matches!(method, "update" | "add" | "subtract") => {
                let Some(data) = bound.data().cloned() else {
                    return self.no_data(span, "the data of a checksum is not a value");
                };
                self.calculation_inputs(data, &bound.ty, span, Some(scope))
            }
            _ => Vec::new(),
        };
        if method == "update" {
            let value = self.computed(Algorithm::Csum16, inputs, 16, span, scope);
            let zeros_as_ones = number(args, "zeros_as_ones") == Some(1.into());
            return Data::Scalar(match zeros_as_ones {
                false => value,
                true => {
                    let zero = ops::binary(BinaryOp::Eq, value.clone(), Expr::bits(0, 16));
                    self.choose(zero, Expr::bits(ALL_ONES, 16), value)
                }
            });
        }
        let sum = sum.unwrap_or_else(|| {
            let sum = self.temporary(scope, "sum", SUM);
            *self.tofino_object(id) = Object::Checksum { sum: Some(sum) };
            sum
        });
        let so_far = Expr::field(sum, SUM);
        match method {
            // `csum16` returns the complement of the sum, so the result is complemented again.
            "add" => {
                let inputs = [vec![CalculationInput::Field(sum)], inputs].concat();
                let value = self.computed(Algorithm::Csum16, inputs, 16, span, scope);
                let value = Expr::unary(ir::UnaryOp::Complement, value);
                self.store(sum, value, span);
            }
            "subtract" => {
                let value = self.computed(Algorithm::Csum16, inputs, 16, span, scope);
                let Expr::Field { place, .. } = value else {
                    return self.no_data(span, "a calculation does not store its result");
                };
                let negative = place.fixed().map(CalculationInput::Field);
                let inputs = negative.into_iter().chain([CalculationInput::Field(sum)]);
                let both = self.computed(Algorithm::Csum16, inputs.collect(), 16, span, scope);
                let both = Expr::unary(ir::UnaryOp::Complement, both);
                self.store(sum, both, span);
            }
            "get" => return Data::Scalar(self.save_value(so_far, span, scope)),
            "subtract_all_and_deposit" => {
                if let Some(bound) = args.first() {
                    if let Argument::Place(place) = &bound.argument {
                        let value = self.cast(Data::Scalar(so_far), &bound.ty);
                        self.assign(place, value, &bound.ty, span, scope);
                    }
                }
            }
            // The result is true if the checksum is wrong.
            "verify" => {
                let wrong = ops::binary(BinaryOp::Ne, so_far, Expr::bits(ALL_ONES, 16));
                return Data::Scalar(self.save_value(wrong, span, scope));
            }
            _ => return self.no_data(span, "an unknown method of a Checksum is called"),
        }
        Data::Nothing
    }

    /// Emits an assignment to a field.
    fn store(&mut self, target: FieldRef, value: Expr, span: Span) {
        let target = target.into();
        self.emit(span, Effect::Assign { target, value });
    }
}

/// Whether the constructor arguments of a `Hash` select the identity.
pub fn is_identity(build: &Builder, args: &[ExternArg]) -> bool {
    let has_polynomial = args.iter().any(|given| given.object().is_some());
    !has_polynomial && enum_argument(build, args, "algo").as_deref() == Some("IDENTITY")
}

/// The result of an identity hash: the lowest bits of the concatenated inputs.
pub fn identity(build: &mut Builder, call: &Call) -> Data {
    let Some(bits) = call
        .args
        .first()
        .and_then(|given| build.packed(given.data()?.clone(), &given.ty))
    else {
        return build.no_data(call.span, "the data of an identity hash are not numbers");
    };
    match build.scalar(&call.ret) {
        Some(wanted) => Data::Scalar(ops::cast(bits, wanted)),
        None => build.no_data(call.span, "the result of a hash is not a number"),
    }
}
