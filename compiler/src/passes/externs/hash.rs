//! Calculations: hashes and checksums of values of any type.

use num_bigint::BigInt;

use super::Lowering;
use crate::diag::{Code, Span};
use crate::ir::{self, Algorithm, Calculation, CalculationId, CalculationInput, Effect};
use crate::passes::builder::data::Data;
use crate::sema::Type;

impl Lowering<'_> {
    /// Adds a calculation to the program.
    pub fn calculation(
        &mut self,
        algorithm: Algorithm,
        inputs: Vec<CalculationInput>,
        span: Span,
    ) -> CalculationId {
        let id = CalculationId::from(self.program.calculations.len());
        let source = self.source(span);
        self.program.calculations.push(Calculation {
            algorithm,
            inputs,
            source,
        });
        id
    }

    /// The inputs of a hash or checksum: the scalars of `data`. Computed values are first stored in variables named after `scope`, and
    /// reported if `scope` is `None`.
    pub fn calculation_inputs(
        &mut self,
        data: Data,
        ty: &Type,
        span: Span,
        scope: Option<&str>,
    ) -> Vec<CalculationInput> {
        let mut inputs = Vec::new();
        for leaf in self.leaves(data, ty) {
            let scalar = self.scalar(&leaf.ty);
            match (leaf.data, scalar) {
                (Data::Scalar(ir::Expr::Number { value, ty }), _) => {
                    let width = ty.width();
                    inputs.push(CalculationInput::Constant {
                        value: value & ir::mask(width),
                        width,
                    });
                }
                (Data::Scalar(ir::Expr::Bool(value)), _) => {
                    inputs.push(CalculationInput::Constant {
                        value: BigInt::from(u8::from(value)),
                        width: 1,
                    });
                }
                (Data::Scalar(ir::Expr::Field { place, .. }) | Data::Varbit(place), _)
                    if place.fixed().is_some() =>
                {
                    inputs.extend(place.fixed().map(CalculationInput::Field));
                }
                (Data::Scalar(value), _) => match (scope, value.scalar()) {
                    (Some(scope), Some(scalar)) => {
                        let held = self.temporary(scope, "tmp", scalar);
                        self.emit(
                            span,
                            Effect::Assign {
                                target: held.into(),
                                value,
                            },
                        );
                        inputs.push(CalculationInput::Field(held));
                    }
                    _ => {
                        self.target(span, "a checksum on this target covers only fields and constants, not computed values");
                    }
                },
                (Data::Int(_), _) => {
                    self.error(
                        Code::TYPE_MISMATCH,
                        span,
                        "integers in the data must have a width, such as 16w1",
                    );
                }
                (Data::Invalid(_), _) => {}
                _ => {
                    self.target(
                        span,
                        "this kind of value cannot be an input of a hash or checksum",
                    );
                }
            }
        }
        inputs
    }
}
