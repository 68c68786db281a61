//! Meters, which may be colour-aware (RFC 2698) and may have their own encoding of colours.

use crate::passes::externs::call::ExternArg;
use crate::passes::externs::{enum_argument, named, named_value, number, LoweredObject, Lowering};
use num_traits::Zero;

use crate::diag::Span;
use crate::ir::{Effect, Expr, FieldRef, Meta, MeterId, MeterUnit, Primitive, Scalar};
use crate::passes::builder::data::Data;
use crate::passes::builder::ops;
use crate::syntax::ast::BinaryOp;

/// Type of a colour.
const COLOR: Scalar = Scalar::Bit(8);
/// Encoding of green, yellow and red in the enum `MeterColor_t`.
const COLORS: [u8; 3] = [0, 1, 3];

impl Lowering<'_> {
    /// Creates a `Meter` or `DirectMeter`.
    pub fn tofino_meter(
        &mut self,
        ty: &str,
        args: &[ExternArg],
        size: u64,
        meta: Meta,
    ) -> LoweredObject {
        let direct = ty == "DirectMeter";
        let kind = enum_argument(self, args, "type");
        let unit = match kind.as_deref() {
            Some("BYTES") => MeterUnit::Bytes,
            _ => MeterUnit::Packets,
        };
        let (id, made) = self.add_meter(meta, size, unit, direct);
        let own = |wanted: &str| number(args, wanted).and_then(|color| u8::try_from(color).ok());
        if let [Some(green), Some(yellow), Some(red)] = ["green", "yellow", "red"].map(own) {
            self.tofino_mut().colors.insert(id, [green, yellow, red]);
        }
        made
    }

    /// Lowers `Meter.execute(index)`, which is colour-aware if it has an argument `color`.
    pub fn meter_call(
        &mut self,
        meter: MeterId,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        let index = match self.number_at(args, 0, span) {
            Ok(index) => index,
            Err(absent) => return absent.into(),
        };
        self.report_byte_adjustment(args, span);
        let precolor = named_value(args, "color").map(|color| self.save_value(color, span, scope));
        let target = self.temporary(scope, "color", COLOR);
        let execute = Primitive::ExecuteMeter {
            meter,
            index,
            target,
            precolor,
        };
        self.emit(span, Effect::Primitive(execute));
        self.color(meter, target)
    }

    /// Lowers `DirectMeter.execute()`. The switch executes the meter when the entry is hit, and stores the colour in a field. At that time it
    /// also reads the previous colour of a colour-aware meter.
    pub fn direct_meter_call(
        &mut self,
        meter: MeterId,
        args: &[ExternArg],
        span: Span,
        scope: &str,
    ) -> Data {
        self.report_byte_adjustment(args, span);
        if let Some(color) = named_value(args, "color") {
            let field = match ops::cast(color, COLOR) {
                Expr::Field { place, .. } => place.fixed(),
                _ => None,
            };
            let known = self.program.meters[meter.index()].precolor;
            match field {
                Some(field) if known.is_none_or(|known| known == field) => {
                    self.program.meters[meter.index()].precolor = Some(field);
                }
                _ => {
                    self.beyond_model(
                        span,
                        "in the software model, a direct meter reads the previous colour from one 8-bit field, set before the table",
                    );
                }
            }
        }
        self.into.meter_reads.push((meter, span));
        let known = self.program.meters[meter.index()].result;
        let color = known.unwrap_or_else(|| self.temporary(scope, "color", COLOR));
        self.program.meters[meter.index()].result = Some(color);
        self.color(meter, color)
    }

    /// Reports an argument `adjust_byte_count` other than 0, which the model does not support.
    pub fn report_byte_adjustment(&mut self, args: &[ExternArg], span: Span) {
        if !named(args, "adjust_byte_count").is_some_and(ExternArg::is_passed) {
            return;
        }
        let adjustment = named_value(args, "adjust_byte_count");
        let is_none = matches!(adjustment, Some(Expr::Number { value, .. }) if value.is_zero());
        if !is_none {
            let message = "the software model does not support adjust_byte_count: counters and meters count the length of the packet";
            self.beyond_model(span, message);
        }
    }

    /// Converts the colour that the switch stores (0 green, 1 yellow, 2 red) to the encoding of the meter.
    fn color(&self, meter: MeterId, stored: FieldRef) -> Data {
        let stored = Expr::field(stored, COLOR);
        let [green, yellow, red] = self.tofino().colors.get(&meter).copied().unwrap_or(COLORS);
        let is = |color: u32| ops::binary(BinaryOp::Eq, stored.clone(), Expr::bits(color, 8));
        let known = |color: u8| Expr::bits(color, 8);
        let others = self.choose(is(1), known(yellow), known(green));
        Data::Scalar(self.choose(is(2), known(red), others))
    }
}
