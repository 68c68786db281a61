//! Values and places of any P4 type while a program is being elaborated.

use std::collections::BTreeSet;
use std::rc::Rc;

use num_bigint::BigInt;

use super::Absent;
use crate::ir::{
    CallId, Expr, FieldPlace, FieldRef, HeaderId, HeaderPlace, Scalar, StackId, Storage, UnionId,
    UnionStackId,
};
use crate::syntax::ast::Name;

/// A value of any type, in terms of the fields that hold it. The fields are read where the value is used, so a write to
/// one of them before that use changes the value.
#[derive(Clone, Debug, Default)]
pub enum Data {
    /// No value: the result of a call without a result, or one that is stored already.
    #[default]
    Nothing,
    /// A placeholder for a value that is missing.
    Invalid(Absent),
    /// A number, boolean, error or enum member.
    Scalar(Expr),
    /// A constant of type `int`, which has no width.
    Int(BigInt),
    /// A string constant.
    String(Name),
    /// A struct, tuple or list, as pairs of a name and a value; elements of tuples and lists have empty names.
    Struct(Vec<(Name, Data)>),
    /// The current value of a header instance.
    Header(HeaderPlace),
    /// A valid header, by the values of its fields.
    HeaderOf(Vec<Data>),
    /// `{#}`, an invalid header; also the default value of headers, unions and stacks.
    InvalidHeader,
    /// A varbit field.
    Varbit(FieldPlace),
    /// A header union.
    Union(UnionId),
    /// A header stack.
    Stack(StackId),
    /// A stack of header unions.
    UnionStack(UnionStackId),
}

/// Storage that can be assigned to.
#[derive(Clone, Debug)]
pub enum Place {
    /// Storage whose content is discarded: `_`, or a variable of a type without a representation at run time.
    Ignore,
    /// A placeholder for storage that is missing.
    Invalid(Absent),
    /// A field with a number or boolean.
    Scalar(FieldPlace, Scalar),
    /// A slice of a place.
    Slice {
        /// The place of the whole number.
        base: Box<Place>,
        /// Position of the least significant bit, which may be computed at run time.
        low: Box<Expr>,
        /// Number of bits.
        width: u32,
    },
    /// A varbit field.
    Varbit(FieldPlace),
    /// A struct or tuple. Shared, as each use of a variable clones its place.
    Struct(Rc<[(Name, Place)]>),
    /// A header.
    Header(HeaderPlace),
    /// The next element of a stack: `stack.next`.
    Next(StackId),
    /// The next element of a stack of unions.
    NextUnion(UnionStackId),
    /// A member of the next element of a stack of unions, by its position in the union type.
    NextMember(UnionStackId, u32),
    /// The element of a stack of unions that was extracted last.
    LastUnion(UnionStackId),
    /// A header union.
    Union(UnionId),
    /// A header stack.
    Stack(StackId),
    /// A stack of header unions.
    UnionStack(UnionStackId),
    /// An element of a stack whose index is computed at run time.
    Dynamic {
        /// The index.
        index: Box<Expr>,
        /// All elements that may be selected, from index 0.
        elements: Vec<Place>,
    },
}

impl Data {
    /// A boolean constant.
    pub fn boolean(value: bool) -> Data {
        Data::Scalar(Expr::Bool(value))
    }

    /// The expression of a number or boolean; `None` for other values.
    pub fn expr(&self) -> Option<&Expr> {
        match self {
            Data::Scalar(expr) => Some(expr),
            _ => None,
        }
    }

    /// The value of a constant number or boolean (0 or 1); `None` for other values.
    pub fn constant(&self) -> Option<BigInt> {
        match self {
            Data::Int(value) | Data::Scalar(Expr::Number { value, .. }) => Some(value.clone()),
            Data::Scalar(Expr::Bool(value)) => Some(BigInt::from(u8::from(*value))),
            _ => None,
        }
    }

    /// Whether the value is constant: it reads neither fields nor parameters.
    pub fn is_constant(&self) -> bool {
        match self {
            Data::Scalar(expr) => expr.is_constant(),
            Data::Struct(fields) => fields.iter().all(|(_, data)| data.is_constant()),
            Data::HeaderOf(fields) => fields.iter().all(Data::is_constant),
            Data::Nothing
            | Data::Invalid(_)
            | Data::Int(_)
            | Data::String(_)
            | Data::InvalidHeader => true,
            _ => false,
        }
    }

    /// Whether the expression is so long that a parameter should store the value instead of repeating the expression at each read.
    /// Repetition would make the code of nested calls grow exponentially with their depth.
    pub fn is_long(&self) -> bool {
        // Maximum number of nodes of an expression that is repeated.
        const LONG: usize = 16;
        match self {
            Data::Scalar(expr) => {
                let mut nodes = 0;
                expr.walk(&mut |_| nodes += 1);
                nodes > LONG
            }
            Data::Struct(fields) => fields.iter().any(|(_, data)| data.is_long()),
            Data::HeaderOf(fields) => fields.iter().any(Data::is_long),
            _ => false,
        }
    }

    /// The variables and headers that the value reads.
    pub fn footprint(&self, storage: &Storage) -> Footprint {
        let mut print = Footprint::default();
        self.add_to(storage, &mut print);
        print
    }

    fn add_to(&self, storage: &Storage, print: &mut Footprint) {
        match self {
            Data::Scalar(expr) => print.add_reads_of(storage, expr),
            Data::Struct(fields) => fields
                .iter()
                .for_each(|(_, data)| data.add_to(storage, print)),
            Data::HeaderOf(fields) => fields.iter().for_each(|data| data.add_to(storage, print)),
            Data::Header(place) => print.add_header(storage, *place),
            Data::Varbit(place) => print.add_field(storage, *place),
            Data::Union(id) => print.add_union(storage, *id),
            Data::Stack(id) => print.add_stack(storage, *id),
            Data::UnionStack(id) => print.add_union_stack(storage, *id),
            Data::Nothing
            | Data::Invalid(_)
            | Data::Int(_)
            | Data::String(_)
            | Data::InvalidHeader => {}
        }
    }
}

impl Place {
    /// The value in the place. `None` for a slice, a next element of a stack, or an element that is selected at run time.
    pub fn value(&self) -> Option<Data> {
        Some(match self {
            Place::Ignore => Data::Nothing,
            Place::Invalid(absent) => Data::Invalid(*absent),
            Place::Scalar(place, ty) => Data::Scalar(Expr::field(*place, *ty)),
            Place::Varbit(place) => Data::Varbit(*place),
            Place::Struct(fields) => Data::Struct(
                fields
                    .iter()
                    .map(|(name, place)| Some((Rc::clone(name), place.value()?)))
                    .collect::<Option<_>>()?,
            ),
            Place::Header(place) => Data::Header(*place),
            Place::Union(id) => Data::Union(*id),
            Place::Stack(id) => Data::Stack(*id),
            Place::UnionStack(id) => Data::UnionStack(*id),
            Place::Slice { .. }
            | Place::Next(_)
            | Place::NextUnion(_)
            | Place::NextMember(..)
            | Place::LastUnion(_)
            | Place::Dynamic { .. } => return None,
        })
    }

    /// Whether the place always denotes the same storage, so that a parameter can alias it.
    pub fn is_fixed(&self) -> bool {
        match self {
            Place::Scalar(place, _) | Place::Varbit(place) => {
                matches!(place.header, HeaderPlace::Fixed(_))
            }
            Place::Struct(fields) => fields.iter().all(|(_, place)| place.is_fixed()),
            Place::Header(place) => matches!(place, HeaderPlace::Fixed(_)),
            Place::Union(_) | Place::Stack(_) | Place::UnionStack(_) => true,
            _ => false,
        }
    }

    /// The scalar and varbit fields in the place.
    pub fn variables(&self) -> Vec<FieldRef> {
        match self {
            Place::Scalar(field, _) | Place::Varbit(field) => field.fixed().into_iter().collect(),
            Place::Struct(members) => {
                let members = members.iter();
                members.flat_map(|(_, member)| member.variables()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// The variables and headers that a write to the place may change.
    pub fn footprint(&self, storage: &Storage) -> Footprint {
        let mut print = Footprint::default();
        self.add_to(storage, &mut print);
        print
    }

    fn add_to(&self, storage: &Storage, print: &mut Footprint) {
        match self {
            Place::Ignore | Place::Invalid(_) => {}
            Place::Scalar(place, _) | Place::Varbit(place) => print.add_field(storage, *place),
            Place::Slice { base, low, .. } => {
                base.add_to(storage, print);
                print.add_reads_of(storage, low);
            }
            Place::Struct(fields) => fields
                .iter()
                .for_each(|(_, place)| place.add_to(storage, print)),
            Place::Header(place) => {
                print.add_header(storage, *place);
                if let HeaderPlace::Fixed(id) = place {
                    // A write to a member of a union may invalidate the other members.
                    print.headers.extend(storage.union_members(*id));
                }
            }
            Place::Next(id) | Place::Stack(id) => print.add_stack(storage, *id),
            Place::NextUnion(id)
            | Place::NextMember(id, _)
            | Place::LastUnion(id)
            | Place::UnionStack(id) => {
                print.add_union_stack(storage, *id);
            }
            Place::Union(id) => print.add_union(storage, *id),
            Place::Dynamic { index, elements } => {
                print.add_reads_of(storage, index);
                elements
                    .iter()
                    .for_each(|place| place.add_to(storage, print));
            }
        }
    }
}

/// The set of headers, variables and call results that a value reads or a place covers.
#[derive(Clone, Debug, Default)]
pub struct Footprint {
    headers: BTreeSet<HeaderId>,
    scalars: BTreeSet<FieldRef>,
    results: BTreeSet<CallId>,
}

impl Footprint {
    /// Whether both sets have a variable or header in common.
    pub fn overlaps(&self, other: &Footprint) -> bool {
        !self.headers.is_disjoint(&other.headers) || !self.scalars.is_disjoint(&other.scalars)
    }

    /// Adds the elements of `other`.
    pub fn extend(&mut self, other: &Footprint) {
        self.headers.extend(&other.headers);
        self.scalars.extend(&other.scalars);
        self.results.extend(&other.results);
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.headers.is_empty() && self.scalars.is_empty() && self.results.is_empty()
    }

    fn add_reads_of(&mut self, storage: &Storage, expr: &Expr) {
        expr.walk(&mut |node| match node {
            Expr::Field { place, .. } => self.add_field(storage, *place),
            Expr::Valid(place) | Expr::Header(place) => self.add_header(storage, *place),
            Expr::UnionValid(id) | Expr::Union(id) => self.add_union(storage, *id),
            Expr::LastIndex(id) => self.add_stack(storage, *id),
            Expr::UnionLastIndex(id) => self.add_union_stack(storage, *id),
            // The pass `externs` stores the result in a new variable, which no other value or place covers.
            Expr::Result { call, .. } => {
                self.results.insert(*call);
            }
            _ => {}
        });
    }

    fn add_field(&mut self, storage: &Storage, place: FieldPlace) {
        match place.header {
            HeaderPlace::Fixed(header) if storage.header(header).metadata => {
                self.scalars.insert(FieldRef {
                    header,
                    field: place.field,
                });
            }
            header => self.add_header(storage, header),
        }
    }

    fn add_header(&mut self, storage: &Storage, place: HeaderPlace) {
        match place {
            HeaderPlace::Fixed(id) => {
                self.headers.insert(id);
            }
            HeaderPlace::Last(id) => self.add_stack(storage, id),
            HeaderPlace::LastMember(id, _) => self.add_union_stack(storage, id),
        }
    }

    fn add_stack(&mut self, storage: &Storage, id: StackId) {
        self.headers.extend(&storage.stack(id).elements);
    }

    fn add_union(&mut self, storage: &Storage, id: UnionId) {
        self.headers.extend(&storage.union(id).members);
    }

    fn add_union_stack(&mut self, storage: &Storage, id: UnionStackId) {
        for union in &storage.union_stack(id).elements {
            self.add_union(storage, *union);
        }
    }
}
