//! `log_msg`: a format string with placeholders `{}`, and the values for them.

use super::call::ExternArg;
use super::Lowering;
use crate::diag::{Code, Span, Warning};
use crate::ir::{self, Effect, Primitive, Scalar};
use crate::passes::builder::data::Data;
use crate::sema::Type;

impl Lowering<'_> {
    /// Lowers a call of `log_msg`, with structured values split into their scalars. Warns of a wrong number of values.
    pub fn log_msg(&mut self, args: &[ExternArg], span: Span) {
        let Some(Data::String(format)) = args.first().and_then(ExternArg::data) else {
            self.error(
                Code::NOT_CONSTANT,
                span,
                "the message must be a string known at compile time",
            );
            return;
        };
        let mut format = format.to_string();
        let mut values = Vec::new();
        if let Some(bound) = args.get(1) {
            format = self.expand_placeholders(&format, &bound.ty);
            if let Some(data) = bound.data().cloned() {
                for leaf in self.leaves(data, &bound.ty) {
                    match leaf.data {
                        Data::Scalar(expr) => values.push(expr),
                        Data::Int(value) => {
                            let width = (value.bits() as u32).max(1);
                            values.push(ir::Expr::number(value, Scalar::Int(width + 1)));
                        }
                        _ => {
                            self.target(span, "only numbers can be logged");
                        }
                    }
                }
            }
        }
        let placeholders = format.matches("{}").count();
        if placeholders != values.len() {
            let message = format!(
                "the message has {placeholders} placeholders `{{}}`, but there are {} values",
                values.len()
            );
            self.warn(Warning::Mismatch, span, message);
        }
        self.emit(
            span,
            Effect::Primitive(Primitive::LogMsg {
                format,
                args: values,
            }),
        );
    }

    /// The format string with a placeholder for each scalar, as the switch requires. As in p4c's pass `FlattenLogMsg`, the placeholder of a
    /// struct becomes `(name:{},name:{})`.
    fn expand_placeholders(&self, format: &str, ty: &Type) -> String {
        let mut text = String::new();
        let mut rest = format;
        for (_, part) in self.parts(ty).iter() {
            let Some((before, after)) = rest.split_once("{}") else {
                break;
            };
            text.push_str(before);
            text.push_str(&self.placeholder(part));
            rest = after;
        }
        text + rest
    }

    /// The placeholder for a value of type `ty`.
    fn placeholder(&self, ty: &Type) -> String {
        let has_parts = matches!(
            self.checked.representation(ty),
            Type::Struct(_)
                | Type::Header(_)
                | Type::HeaderUnion(_)
                | Type::Stack(..)
                | Type::Tuple(_)
                | Type::Record(_)
        );
        if !has_parts {
            return "{}".to_owned();
        }
        // The number of parts, which only lists need, is 0, as messages cannot contain lists.
        let parts = self.parts_of(ty, 0);
        let placeholders: Vec<_> = parts
            .iter()
            .map(|(name, ty)| match &**name {
                "" => self.placeholder(ty),
                name => format!("{name}:{}", self.placeholder(ty)),
            })
            .collect();
        format!("({})", placeholders.join(","))
    }
}
