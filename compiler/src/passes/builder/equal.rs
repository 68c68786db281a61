//! Equality of two values of any type.

use super::data::Data;
use super::{ops, Builder};
use crate::diag::Span;
use crate::ir::{self, HeaderPlace, Scalar};
use crate::sema::Type;
use crate::syntax::ast::BinaryOp;

impl Builder<'_> {
    /// The condition that two values of type `ty` are equal.
    pub fn equal(&mut self, a: Data, b: Data, ty: &Type, span: Span) -> ir::Expr {
        if let Type::Stack(element, size) = self.checked.representation(ty) {
            let pairs = self
                .elements(a, size)
                .into_iter()
                .zip(self.elements(b, size));
            let same = pairs.map(|(a, b)| self.equal(a, b, &element, span));
            return ops::all(same.collect());
        }
        match (a, b) {
            (Data::Header(a), Data::Header(b)) => same_header(a, b),
            (Data::Header(place), Data::InvalidHeader)
            | (Data::InvalidHeader, Data::Header(place)) => ir::Expr::Valid(place).not(),
            (Data::InvalidHeader, Data::InvalidHeader) => ir::Expr::Bool(true),
            (Data::HeaderOf(_), Data::InvalidHeader) | (Data::InvalidHeader, Data::HeaderOf(_)) => {
                ir::Expr::Bool(false)
            }
            (Data::Header(place), other @ Data::HeaderOf(_))
            | (other @ Data::HeaderOf(_), Data::Header(place)) => {
                let fields = self.equal_parts(Data::Header(place), other, ty, span);
                ops::and(ir::Expr::Valid(place), fields)
            }
            (Data::Union(a), Data::Union(b)) => same_union(a, b),
            (Data::Union(id), Data::InvalidHeader) | (Data::InvalidHeader, Data::Union(id)) => {
                ir::Expr::UnionValid(id).not()
            }
            (a @ (Data::Struct(_) | Data::HeaderOf(_)), b)
            | (a, b @ (Data::Struct(_) | Data::HeaderOf(_))) => self.equal_parts(a, b, ty, span),
            (Data::Varbit(a), Data::Varbit(b)) => {
                // The switch compares the contents of both fields as numbers, even if their current widths differ.
                let ty = match ty {
                    Type::Varbit(width) => Scalar::Bit(*width),
                    _ => Scalar::Bit(0),
                };
                let field = |place| ir::Expr::Field { place, ty };
                ir::Expr::binary(ir::BinaryOp::Eq, field(a), field(b))
            }
            (a, b) => match self.binary(BinaryOp::Eq, a, b, span) {
                Data::Scalar(expr) => expr,
                _ => ir::Expr::Bool(false),
            },
        }
    }

    /// The elements of a value that is a stack of `size` elements.
    fn elements(&self, stack: Data, size: u32) -> Vec<Data> {
        let storage = &self.program.storage;
        match stack {
            Data::Stack(id) => {
                let elements = storage.stack(id).elements.iter();
                elements
                    .map(|header| Data::Header(HeaderPlace::Fixed(*header)))
                    .collect()
            }
            Data::UnionStack(id) => {
                let elements = storage.union_stack(id).elements.iter();
                elements.map(|union| Data::Union(*union)).collect()
            }
            Data::Struct(values) => {
                let mut values: Vec<Data> = values.into_iter().map(|(_, data)| data).collect();
                values.resize(size as usize, Data::InvalidHeader);
                values
            }
            other => vec![other; size as usize],
        }
    }

    /// The condition that all parts of two structured values are equal.
    fn equal_parts(&mut self, a: Data, b: Data, ty: &Type, span: Span) -> ir::Expr {
        let parts = self.parts(ty);
        if self.count_parts(span, parts.len()).is_err() {
            return ir::Expr::Bool(true);
        }
        let (left, right) = (self.every_part(a, &parts), self.every_part(b, &parts));
        let pairs = left.into_iter().zip(right).zip(parts.iter());
        let same = pairs.map(|((a, b), (_, part))| self.equal(a, b, part, span));
        ops::all(same.collect())
    }
}

/// The condition that two headers are equal. The switch's comparison is false if both are invalid, where the language requires true (spec § 8.17).
fn same_header(a: HeaderPlace, b: HeaderPlace) -> ir::Expr {
    let none = ops::and(ir::Expr::Valid(a).not(), ir::Expr::Valid(b).not());
    let equal = ir::Expr::binary(ir::BinaryOp::Eq, ir::Expr::Header(a), ir::Expr::Header(b));
    ops::or(none, equal)
}

/// The condition that two unions are equal. As for headers, two invalid unions are equal.
fn same_union(a: ir::UnionId, b: ir::UnionId) -> ir::Expr {
    let none = ops::and(ir::Expr::UnionValid(a).not(), ir::Expr::UnionValid(b).not());
    let equal = ir::Expr::binary(ir::BinaryOp::Eq, ir::Expr::Union(a), ir::Expr::Union(b));
    ops::or(none, equal)
}
