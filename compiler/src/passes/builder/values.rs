//! Values of structured types: their parts, their scalar values, and conversions.

use std::rc::Rc;

use num_bigint::BigInt;

use super::data::Data;
use super::Builder;
use crate::diag::Span;
use crate::ir::{self, HeaderPlace};
use crate::names::join;
use crate::sema::Type;
use crate::syntax::ast::Name;

/// Names and types of the parts of a structured type.
pub type Parts = Rc<[(Name, Type)]>;

/// A part of a structured value that has no parts itself, such as a scalar or a varbit field.
pub struct Leaf {
    /// The value of the part.
    pub data: Data,
    /// Type of the part.
    pub ty: Type,
}

impl Builder<'_> {
    /// Copies a value to a new variable, unless it is constant.
    pub fn materialize(&mut self, data: Data, ty: &Type, span: Span, scope: &str) -> Data {
        if data.is_constant() {
            return data;
        }
        if let (Type::Int, Data::Scalar(value)) = (ty, &data) {
            return Data::Scalar(self.save_value(value.clone(), span, scope));
        }
        let place = self.allocate(ty, &join(scope, "tmp"));
        self.assign(&place, data, ty, span, scope);
        self.value_of(&place, span)
    }

    /// Names and types of the fields of a struct or header, the members of a union, or the elements of a tuple. Names of elements are empty.
    pub fn parts(&self, ty: &Type) -> Parts {
        if let Some(known) = self.fields.borrow().get(ty) {
            return Rc::clone(known);
        }
        let parts: Parts = match self.checked.representation(ty) {
            Type::Tuple(types) => types.iter().map(|ty| (unnamed(), ty.clone())).collect(),
            Type::Record(fields) => return fields,
            representation => {
                let fields = self.checked.fields(&representation).into_iter();
                fields
                    .map(|(field, ty)| (field.name.name.clone(), ty))
                    .collect()
            }
        };
        self.fields
            .borrow_mut()
            .insert(ty.clone(), Rc::clone(&parts));
        parts
    }

    /// The parts of a type as by [`Builder::parts`], or the elements of a stack, or of a list with `count` elements.
    pub fn parts_of(&self, ty: &Type, count: usize) -> Parts {
        match self.checked.representation(ty) {
            Type::List(element) => vec![(unnamed(), (*element).clone()); count].into(),
            Type::Stack(element, size) => {
                vec![(unnamed(), (*element).clone()); size as usize].into()
            }
            ty => self.parts(&ty),
        }
    }

    /// A value of the structured type `ty` with these parts.
    pub fn aggregate(&mut self, values: Vec<(Name, Data)>, ty: &Type) -> Data {
        match self.checked.representation(ty) {
            Type::Header(_) => Data::HeaderOf(values.into_iter().map(|(_, data)| data).collect()),
            _ => Data::Struct(values),
        }
    }

    /// The default value of a type (P4_16 spec § 7.3).
    pub fn default_value(&mut self, ty: &Type) -> Data {
        match self.count_type_parts(ty) {
            Ok(()) => self.default_part(ty),
            Err(reported) => reported.into(),
        }
    }

    /// The default value of a type whose parts are counted already.
    fn default_part(&mut self, ty: &Type) -> Data {
        if let Some(scalar) = self.scalar(ty) {
            return Data::Scalar(ir::Expr::number(0, scalar));
        }
        match self.checked.representation(ty) {
            Type::Struct(_) | Type::Tuple(_) | Type::Record(_) => {
                let parts = self.parts(ty);
                Data::Struct(
                    parts
                        .iter()
                        .map(|(name, ty)| (name.clone(), self.default_part(ty)))
                        .collect(),
                )
            }
            Type::Header(_) | Type::HeaderUnion(_) | Type::Stack(..) => Data::InvalidHeader,
            Type::Int => Data::Int(BigInt::ZERO),
            Type::String => Data::String(Name::from("")),
            // Types without a representation at run time have no values.
            _ => Data::Nothing,
        }
    }

    /// Converts a value to the type `to`, which the checker has found to be possible.
    pub fn cast(&mut self, data: Data, to: &Type) -> Data {
        if let Some(scalar) = self.scalar(to) {
            return self.cast_scalar(data, scalar);
        }
        if *to == Type::Int {
            return self.cast_int(data);
        }
        let Data::Struct(values) = data else {
            return data;
        };
        let parts = self.parts_of(to, values.len());
        if parts.len() != values.len() {
            return Data::Struct(values);
        }
        let by_name = values.iter().all(|(name, _)| !name.is_empty())
            && parts
                .iter()
                .all(|(name, _)| values.iter().any(|(known, _)| known == name));
        let mut values: Vec<(Name, Data)> = match by_name {
            true => parts
                .iter()
                .filter_map(|(name, _)| values.iter().find(|(known, _)| known == name).cloned())
                .collect(),
            false => values,
        };
        for ((name, data), (part, ty)) in values.iter_mut().zip(parts.iter()) {
            *name = part.clone();
            *data = self.cast(std::mem::take(data), ty);
        }
        self.aggregate(values, to)
    }

    /// The value of the field `field` of a value of type `ty`.
    pub fn project(&mut self, data: Data, ty: &Type, field: &str) -> Data {
        let parts = self.parts(ty);
        match parts.iter().position(|(name, _)| &**name == field) {
            Some(index) => self.part(data, &parts, index),
            None => self.no_data(None, "a member of a value does not exist"),
        }
    }

    /// The part of a structured value at the position `index`.
    pub fn part(&mut self, data: Data, parts: &[(Name, Type)], index: usize) -> Data {
        match data {
            Data::Struct(mut fields) if index < fields.len() => fields.swap_remove(index).1,
            Data::HeaderOf(mut fields) if index < fields.len() => fields.swap_remove(index),
            Data::InvalidHeader => self.default_value(&parts[index].1),
            Data::Header(place) => {
                let first = parts[..index]
                    .iter()
                    .map(|(_, ty)| self.field_count(ty))
                    .sum();
                let field = self.header_field(place, first, &parts[index].1);
                self.value_of(&field, None)
            }
            Data::Union(id) => {
                let member = self.program.storage.union(id).members[index];
                Data::Header(HeaderPlace::Fixed(member))
            }
            Data::Invalid(absent) => Data::Invalid(absent),
            _ => self.no_data(None, "a value has no parts"),
        }
    }

    /// All parts of a structured value.
    pub fn every_part(&mut self, data: Data, parts: &[(Name, Type)]) -> Vec<Data> {
        match data {
            Data::Struct(fields) if fields.len() == parts.len() => {
                fields.into_iter().map(|(_, data)| data).collect()
            }
            Data::HeaderOf(fields) if fields.len() == parts.len() => fields,
            Data::Header(place) => {
                let mut position = 0;
                let fields = parts.iter().map(|(_, ty)| {
                    let field = self.header_field(place, position, ty);
                    position += self.field_count(ty);
                    self.value_of(&field, None)
                });
                fields.collect()
            }
            data => (0..parts.len())
                .map(|index| self.part(data.clone(), parts, index))
                .collect(),
        }
    }

    /// The leaves of a structured value, in depth-first order.
    pub fn leaves(&mut self, data: Data, ty: &Type) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        self.add_leaves(data, ty, &mut leaves);
        leaves
    }

    /// Adds the leaves of a structured value to `leaves`.
    pub fn add_leaves(&mut self, data: Data, ty: &Type, leaves: &mut Vec<Leaf>) {
        let parts = self.parts(ty);
        match data {
            Data::Struct(values) => {
                for ((_, value), (_, ty)) in values.into_iter().zip(parts.iter()) {
                    self.add_leaves(value, ty, leaves);
                }
            }
            Data::HeaderOf(values) => {
                for (value, (_, ty)) in values.into_iter().zip(parts.iter()) {
                    self.add_leaves(value, ty, leaves);
                }
            }
            Data::Header(place) => {
                let mut position = 0;
                for (_, part) in parts.iter() {
                    let field = self.header_field(place, position, part);
                    position += self.field_count(part);
                    let value = self.value_of(&field, None);
                    self.add_leaves(value, part, leaves);
                }
            }
            Data::Stack(id) => {
                let Type::Stack(element, _) = ty else {
                    self.impossible(None, "a stack does not have the type of a stack");
                    return;
                };
                for header in self.program.storage.stack(id).elements.clone() {
                    self.add_leaves(
                        Data::Header(ir::HeaderPlace::Fixed(header)),
                        element,
                        leaves,
                    );
                }
            }
            data => leaves.push(Leaf {
                data,
                ty: ty.clone(),
            }),
        }
    }

    /// Width of a type in bits (P4_16 spec § 9): the maximum width if `max`, else the minimum, with empty varbit fields.
    pub fn bits(&self, ty: &Type, max: bool) -> u64 {
        if let Some(scalar) = self.scalar(ty) {
            return u64::from(scalar.width());
        }
        match self.checked.representation(ty) {
            Type::Varbit(width) => u64::from(if max { width } else { 0 }),
            Type::Stack(element, size) => self.bits(&element, max) * u64::from(size),
            Type::HeaderUnion(_) => {
                let members = self
                    .checked
                    .fields(ty)
                    .into_iter()
                    .map(|(_, ty)| self.bits(&ty, max));
                (if max { members.max() } else { members.min() }).unwrap_or(0)
            }
            _ => self
                .parts(ty)
                .iter()
                .map(|(_, ty)| self.bits(ty, max))
                .sum(),
        }
    }
}

/// The empty name, which elements of tuples have.
pub fn unnamed() -> Name {
    Name::from("")
}
