//! Clone, resubmit and recirculate, and the metadata fields that they preserve.

use crate::diag::{Code, Span, Warning};
use crate::ir::{self, Effect, FieldList, FieldListId, Primitive};
use crate::passes::builder::data::Data;
use crate::passes::externs::call::{Argument, ExternArg, Region};
use crate::passes::externs::{enum_argument, Lowering};

impl Lowering<'_> {
    /// Lowers `clone` and its variants.
    pub fn clone_packet(&mut self, args: &[ExternArg], span: Span) {
        let egress = match enum_argument(self, args, "type").as_deref() {
            Some("I2E") => false,
            Some("E2E") => true,
            _ => {
                self.error(
                    Code::NOT_CONSTANT,
                    span,
                    "the type of a clone must be known at compile time",
                );
                return;
            }
        };
        let (kind, region) = if egress {
            ("E2E", Region::Egress)
        } else {
            ("I2E", Region::Ingress)
        };
        if !self.only_in(region, &format!("clone with CloneType.{kind}"), span) {
            return;
        }
        let Ok(session) = self.number_at(args, 1, span) else {
            return;
        };
        let fields = self.field_list(args, 2, span);
        self.emit(
            span,
            Effect::Primitive(Primitive::Clone {
                egress,
                session,
                fields,
            }),
        );
    }

    /// The field list that the argument at `position` selects, by the number of a `@field_list` or as a struct of
    /// fields. Without such an argument, the list is empty. Lists with the same fields are shared.
    pub fn field_list(&mut self, args: &[ExternArg], position: usize, span: Span) -> FieldListId {
        let (name, fields) = match args.get(position) {
            None => ("empty".to_owned(), Vec::new()),
            Some(bound) if bound.param.as_deref() == Some("index") => {
                let list = (bound.data().and_then(Data::constant))
                    .and_then(|list| u32::try_from(list).ok());
                let Some(list) = list else {
                    self.error(
                        Code::NOT_CONSTANT,
                        bound.span,
                        "the field list must be a number known at compile time",
                    );
                    return FieldListId(0);
                };
                if !self.field_lists.contains_key(&list) {
                    let message = format!(
                        "no field of the user metadata has @field_list({list}), so no metadata is preserved"
                    );
                    self.warn(Warning::Invalid, bound.span, message);
                }
                (
                    format!("field_list{list}"),
                    self.field_lists.get(&list).cloned().unwrap_or_default(),
                )
            }
            Some(bound) => {
                let Argument::Value(data) = bound.argument.clone() else {
                    self.impossible(span, "the data of a field list is not a value");
                    return FieldListId(0);
                };
                let mut fields = Vec::new();
                for leaf in self.leaves(data, &bound.ty) {
                    match leaf.data {
                        Data::Scalar(ir::Expr::Field { place, .. }) if place.fixed().is_some() => {
                            fields.extend(place.fixed());
                        }
                        data if data.is_constant() => {}
                        _ => {
                            self.target(
                                span,
                                "only fields can be preserved on this target, not computed values",
                            );
                        }
                    }
                }
                ("fl".to_owned(), fields)
            }
        };
        let known = self
            .program
            .field_lists
            .iter()
            .position(|list| list.fields == fields);
        if let Some(known) = known {
            return FieldListId::from(known);
        }
        let taken = |this: &Self, name: &str| {
            this.program
                .field_lists
                .iter()
                .any(|list| list.name == name)
        };
        let mut unique = name.clone();
        let mut number = 0;
        while taken(self, &unique) {
            unique = format!("{name}_{number}");
            number += 1;
        }
        self.program.field_lists.push(FieldList {
            name: unique,
            fields,
        });
        FieldListId::from(self.program.field_lists.len() - 1)
    }
}
