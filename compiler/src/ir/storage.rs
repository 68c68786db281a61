//! Storage of values: header instances, stacks, unions and their fields.

use super::{HeaderId, HeaderTypeId, Scalar, StackId, UnionId, UnionStackId, UnionTypeId};

/// Width of a field in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldWidth {
    /// A fixed width.
    Fixed(u32),
    /// `varbit<W>`: the maximum width.
    Varbit(u32),
}

/// A field of a header type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name, unique within the type. A field of a nested struct has a dotted name, such as `outer.inner`.
    pub name: String,
    /// Width in bits.
    pub width: FieldWidth,
    /// Whether the field holds a two's-complement number.
    pub signed: bool,
    /// Whether its type is `bool`, stored as one bit.
    pub boolean: bool,
}

impl Field {
    /// The type of the field's value; `None` for a varbit field.
    pub fn scalar(&self) -> Option<Scalar> {
        match self.width {
            FieldWidth::Fixed(_) if self.boolean => Some(Scalar::Bool),
            FieldWidth::Fixed(width) if self.signed => Some(Scalar::Int(width)),
            FieldWidth::Fixed(width) => Some(Scalar::Bit(width)),
            FieldWidth::Varbit(_) => None,
        }
    }
}

/// The layout of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeaderType {
    /// Control-plane name of the type.
    pub name: String,
    /// Fields in wire order.
    pub fields: Vec<Field>,
}

impl HeaderType {
    /// Total width of the fields in bits. A varbit field counts with its maximum width.
    pub fn max_bits(&self) -> u64 {
        self.fields
            .iter()
            .map(|field| match field.width {
                FieldWidth::Fixed(bits) | FieldWidth::Varbit(bits) => u64::from(bits),
            })
            .sum()
    }

    /// Whether the header type has a varbit field.
    pub fn has_varbit(&self) -> bool {
        self.fields
            .iter()
            .any(|field| matches!(field.width, FieldWidth::Varbit(_)))
    }

    /// The position of the field with this name; `None` if there is no such field.
    pub fn position(&self, name: &str) -> Option<u32> {
        self.fields
            .iter()
            .position(|field| field.name == name)
            .map(|position| position as u32)
    }
}

/// A header instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name, unique among header instances.
    pub name: String,
    /// The type, which determines the fields.
    pub ty: HeaderTypeId,
    /// Whether the instance holds metadata, which is always valid and never emitted.
    pub metadata: bool,
}

/// A header stack. Each element is also a header instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Name, unique among stacks.
    pub name: String,
    /// The header type of the elements.
    pub ty: HeaderTypeId,
    /// Header instances of the elements, from index 0.
    pub elements: Vec<HeaderId>,
}

/// The members of a header union.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnionType {
    /// Control-plane name of the type.
    pub name: String,
    /// Members, each with its name and header type.
    pub members: Vec<(String, HeaderTypeId)>,
}

/// A header union. Each member is also a header instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// Name, unique among unions.
    pub name: String,
    /// The union type, which determines the members' names and header types.
    pub ty: UnionTypeId,
    /// Header instances of the members, in the order of the type.
    pub members: Vec<HeaderId>,
}

/// A stack of header unions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnionStack {
    /// Name, unique among union stacks.
    pub name: String,
    /// The union type of the elements.
    pub ty: UnionTypeId,
    /// Unions of the elements, from index 0.
    pub elements: Vec<UnionId>,
}

/// A field of a known header instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldRef {
    /// The header instance.
    pub header: HeaderId,
    /// Position of the field in the instance's header type.
    pub field: u32,
}

/// A header: a fixed instance or, in parsers, an element of a stack that is determined at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeaderPlace {
    /// A header instance that is known at compile time.
    Fixed(HeaderId),
    /// The element of a stack that was extracted last: `stack.last`.
    Last(StackId),
    /// A member of the element that was extracted last of a stack of unions: `stack.last.member`. The number is the member's position.
    LastMember(UnionStackId, u32),
}

/// A field of a [`HeaderPlace`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FieldPlace {
    /// The header that contains the field.
    pub header: HeaderPlace,
    /// Position of the field in the header's type.
    pub field: u32,
}

impl FieldPlace {
    /// The field, if its header is a fixed instance; `None` for an element of a stack that is determined at run time.
    pub fn fixed(self) -> Option<FieldRef> {
        match self.header {
            HeaderPlace::Fixed(header) => Some(FieldRef {
                header,
                field: self.field,
            }),
            HeaderPlace::Last(_) | HeaderPlace::LastMember(..) => None,
        }
    }
}

impl From<FieldRef> for FieldPlace {
    fn from(place: FieldRef) -> Self {
        FieldPlace {
            header: HeaderPlace::Fixed(place.header),
            field: place.field,
        }
    }
}

/// All header types and instances of a program.
#[derive(Clone, Debug, Default)]
pub struct Storage {
    /// Types of headers and metadata.
    pub header_types: Vec<HeaderType>,
    /// Header instances, elements of stacks and members of unions included.
    pub headers: Vec<Header>,
    /// Header stacks.
    pub stacks: Vec<Stack>,
    /// Header union types.
    pub union_types: Vec<UnionType>,
    /// Header unions, elements of union stacks included.
    pub unions: Vec<Union>,
    /// Stacks of header unions.
    pub union_stacks: Vec<UnionStack>,
    /// The header that holds every variable that is not a header. The target determines its name.
    pub variables: HeaderId,
}

impl Storage {
    /// The header instance with this id.
    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[id.index()]
    }

    /// The type of the header instance with this id.
    pub fn header_type(&self, id: HeaderId) -> &HeaderType {
        &self.header_types[self.header(id).ty.index()]
    }

    /// The stack with this id.
    pub fn stack(&self, id: StackId) -> &Stack {
        &self.stacks[id.index()]
    }

    /// The union with this id.
    pub fn union(&self, id: UnionId) -> &Union {
        &self.unions[id.index()]
    }

    /// The union stack with this id.
    pub fn union_stack(&self, id: UnionStackId) -> &UnionStack {
        &self.union_stacks[id.index()]
    }

    /// All members of the union that contains a header, of which at most one is valid. Empty if the header is not in a union.
    pub fn union_members(&self, id: HeaderId) -> &[HeaderId] {
        let union = self.unions.iter().find(|union| union.members.contains(&id));
        union.map_or(&[], |union| &union.members)
    }

    /// The other members of the union that contains a header. Empty if the header is not in a union.
    pub fn union_siblings(&self, place: HeaderPlace) -> Vec<HeaderPlace> {
        match place {
            HeaderPlace::Fixed(id) => (self.union_members(id).iter())
                .filter(|member| **member != id)
                .map(|member| HeaderPlace::Fixed(*member))
                .collect(),
            HeaderPlace::Last(_) => Vec::new(),
            HeaderPlace::LastMember(stack, own) => {
                let ty = self.union_stack(stack).ty;
                let members = self.union_types[ty.index()].members.len() as u32;
                (0..members)
                    .filter(|member| *member != own)
                    .map(|member| HeaderPlace::LastMember(stack, member))
                    .collect()
            }
        }
    }

    /// The type of the header at a place.
    pub fn place_type(&self, place: HeaderPlace) -> &HeaderType {
        let ty = match place {
            HeaderPlace::Fixed(id) => self.header(id).ty,
            HeaderPlace::Last(id) => self.stack(id).ty,
            HeaderPlace::LastMember(id, member) => {
                self.union_types[self.union_stack(id).ty.index()].members[member as usize].1
            }
        };
        &self.header_types[ty.index()]
    }

    /// The field at a place.
    pub fn field(&self, place: impl Into<FieldPlace>) -> &Field {
        let place = place.into();
        &self.place_type(place.header).fields[place.field as usize]
    }

    /// Adds a field for a variable to the header of variables. `name` must be unused.
    pub fn add_scalar(&mut self, name: String, scalar: Scalar) -> FieldRef {
        let fields = &mut self.header_types[self.headers[self.variables.index()].ty.index()].fields;
        let field = fields.len() as u32;
        fields.push(Field {
            name,
            width: FieldWidth::Fixed(scalar.width()),
            signed: matches!(scalar, Scalar::Int(_)),
            boolean: scalar == Scalar::Bool,
        });
        FieldRef {
            header: self.variables,
            field,
        }
    }
}
