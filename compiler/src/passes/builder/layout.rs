//! Storage for variables of any type.

use std::rc::Rc;

use super::data::Place;
use super::{join, Builder, MAX_HEADERS};
use crate::diag::{Code, Diagnostic};
use crate::ir::{
    Field, FieldPlace, FieldRef, FieldWidth, Header, HeaderId, HeaderPlace, HeaderType,
    HeaderTypeId, Scalar, Stack, StackId, TypeSpec, Union, UnionId, UnionStack, UnionStackId,
    UnionType, UnionTypeId,
};
use crate::passes::annotations::field_name;
use crate::passes::control_view;
use crate::sema::{DefKind, Nominal, Type};
use crate::syntax::ast::{Annotated, Annotation};

impl Builder<'_> {
    /// The IR type of a number, boolean, error or enum member; `None` for other types.
    pub fn scalar(&self, ty: &Type) -> Option<Scalar> {
        control_view::scalar(self.checked, ty)
    }

    /// Control-plane name of a type, followed by its type arguments.
    pub fn type_name(&self, nominal: &Nominal) -> String {
        control_view::type_name(self.checked, nominal)
    }

    /// The type expression of a type in P4Info. Adds the type to those that P4Info must describe.
    pub fn type_spec(&mut self, ty: &Type) -> TypeSpec {
        self.into.shown_types.push(ty.clone());
        control_view::spec(self.checked, ty)
    }

    /// Width of a value in bits for the control plane, and the name of its type if that is declared with `type`. Adds the type to
    /// those that P4Info must describe.
    pub fn control_type(&mut self, ty: &Type) -> (u32, Option<String>) {
        self.into.shown_types.push(ty.clone());
        control_view::width_and_name(self.checked, ty)
    }

    /// Creates a variable of type `ty`. The names of its headers and scalars are derived from `name`.
    pub fn allocate(&mut self, ty: &Type, name: &str) -> Place {
        match self.count_type_parts(ty) {
            Ok(()) => self.allocate_part(ty, name),
            Err(reported) => reported.into(),
        }
    }

    /// Creates a variable or a part of one, whose parts are counted already.
    fn allocate_part(&mut self, ty: &Type, name: &str) -> Place {
        if let Some(scalar) = self.scalar(ty) {
            let name = self.unique(name);
            let field = self.program.storage.add_scalar(name, scalar);
            return Place::Scalar(field.into(), scalar);
        }
        match self.checked.representation(ty) {
            Type::Struct(_) => {
                let fields = self.checked.fields(ty);
                let members = fields.iter().map(|(field, ty)| {
                    let name = join(name, &field.name.name);
                    (Rc::clone(&field.name.name), self.allocate_part(ty, &name))
                });
                Place::Struct(members.collect())
            }
            Type::Tuple(types) => {
                let members = types.iter().enumerate().map(|(index, ty)| {
                    let name = join(name, &format!("f{index}"));
                    (super::unnamed(), self.allocate_part(ty, &name))
                });
                Place::Struct(members.collect())
            }
            Type::Record(fields) => {
                let members = fields.iter().map(|(field, ty)| {
                    let name = join(name, field);
                    (Rc::clone(field), self.allocate_part(ty, &name))
                });
                Place::Struct(members.collect())
            }
            Type::Header(_) => Place::Header(HeaderPlace::Fixed(self.header(ty, name))),
            Type::HeaderUnion(_) => Place::Union(self.union(ty, name)),
            Type::Stack(element, size) => self.stack(&element, size, name),
            Type::Varbit(width) => self.varbit(width, name),
            // Values of other types, such as strings, are constant and have no storage.
            _ => Place::Ignore,
        }
    }

    /// Creates the headers of the package, a struct of type `ty`. Each has the name of its field in the struct.
    pub fn top_level_headers(&mut self, ty: &Type) -> Place {
        let fields = self.checked.fields(ty);
        let members = fields.iter().map(|(field, ty)| {
            let name = field_name(&field.annotations, &field.name.name);
            (Rc::clone(&field.name.name), self.allocate(ty, &name))
        });
        Place::Struct(members.collect())
    }

    /// Creates a header instance.
    pub fn header(&mut self, ty: &Type, name: &str) -> HeaderId {
        let layout = self.header_type(ty);
        let name = self.unique(name);
        self.add_header(layout, name)
    }

    fn add_header(&mut self, ty: HeaderTypeId, name: String) -> HeaderId {
        let id = HeaderId::from(self.program.storage.headers.len());
        self.program.storage.headers.push(Header {
            name,
            ty,
            metadata: false,
        });
        id
    }

    /// Adds a header type.
    pub fn add_header_type(&mut self, ty: HeaderType) -> HeaderTypeId {
        let id = HeaderTypeId::from(self.program.storage.header_types.len());
        self.program.storage.header_types.push(ty);
        id
    }

    /// The IR type of a header type, created on first use. Reports a header that does not have whole bytes.
    pub fn header_type(&mut self, ty: &Type) -> HeaderTypeId {
        if let Some((_, id)) = self.header_types.iter().find(|(known, _)| known == ty) {
            return *id;
        }
        if self.count_type_parts(ty).is_err() {
            return HeaderTypeId::from(0);
        }
        let mut fields = Vec::new();
        self.flatten("", ty, &mut fields);
        let nominal = ty.nominal().cloned();
        let mut name = nominal
            .as_ref()
            .map_or_else(|| "header".to_owned(), |nominal| self.type_name(nominal));
        let base = name.clone();
        let mut number = 0;
        while self
            .program
            .storage
            .header_types
            .iter()
            .any(|known| known.name == name)
        {
            name = format!("{base}_{number}");
            number += 1;
        }
        let mut layout = HeaderType { name, fields };
        let odd = (layout.max_bits() % 8) as u32;
        if odd != 0 && self.is_flexible(ty) {
            let padding = scalar_field("_padding".to_owned(), Scalar::Bit(8 - odd));
            layout.fields.push(padding);
        } else if odd != 0 {
            self.report_odd_header(nominal.as_ref(), &layout);
        }
        let id = self.add_header_type(layout);
        self.header_types.push((ty.clone(), id));
        id
    }

    /// Whether the compiler may choose the layout of a header: the header or a field has `@flexible`, and the target supports that.
    fn is_flexible(&self, ty: &Type) -> bool {
        let flexible = |annotations: &[Annotation]| annotations.annotation("flexible").is_some();
        let of_type = ty
            .nominal()
            .map(|nominal| &self.checked.def(nominal.id).kind);
        self.program.arch.target().pads_flexible_headers()
            && (matches!(of_type, Some(DefKind::Header(decl) | DefKind::Struct(decl)) if flexible(&decl.annotations))
                || (self.checked.fields(ty).iter())
                    .any(|(field, ty)| flexible(&field.annotations) || self.is_flexible(ty)))
    }

    /// Reports a header whose width is not a multiple of 8 bits.
    fn report_odd_header(&mut self, nominal: Option<&Nominal>, layout: &HeaderType) {
        let span = nominal.and_then(|nominal| match &self.checked.def(nominal.id).kind {
            DefKind::Header(decl) => Some(decl.name.span),
            _ => None,
        });
        let message = format!(
            "header {} has {} bits, and this target moves headers only in whole bytes",
            layout.name,
            layout.max_bits()
        );
        let what = Diagnostic {
            span,
            ..Diagnostic::error(Code::TARGET, span.unwrap_or_default(), message)
        };
        let missing = 8 - layout.max_bits() % 8;
        self.diagnostics
            .report_error(what.help(format!("add padding: bit<{missing}> padding;")));
    }

    /// Adds the fields of a header, including those of nested structs.
    fn flatten(&mut self, prefix: &str, ty: &Type, into: &mut Vec<Field>) {
        for (field, ty) in self.checked.fields(ty) {
            let name = join(prefix, &field.name.name);
            match (self.scalar(&ty), self.checked.representation(&ty)) {
                (Some(scalar), _) => into.push(scalar_field(name, scalar)),
                (None, Type::Varbit(width)) => into.push(Field {
                    name,
                    width: FieldWidth::Varbit(width),
                    signed: false,
                    boolean: false,
                }),
                (None, Type::Struct(_)) => self.flatten(&name, &ty, into),
                _ => {
                    self.impossible(field.name.span, "a field of a header has no width");
                }
            }
        }
    }

    /// Number of header fields of a value of type `ty`, including those of nested structs.
    pub fn field_count(&self, ty: &Type) -> u32 {
        match self.checked.represented(ty) {
            Type::Struct(_) | Type::Header(_) => self
                .checked
                .fields(ty)
                .iter()
                .map(|(_, ty)| self.field_count(ty))
                .sum(),
            _ => 1,
        }
    }

    /// The place of a header's field, or of a nested struct, of type `ty`, whose first field has the position `first`.
    pub fn header_field(&mut self, header: HeaderPlace, first: u32, ty: &Type) -> Place {
        let place = FieldPlace {
            header,
            field: first,
        };
        if let Some(scalar) = self.scalar(ty) {
            return Place::Scalar(place, scalar);
        }
        match self.checked.representation(ty) {
            Type::Varbit(_) => Place::Varbit(place),
            Type::Struct(_) => {
                let mut position = first;
                let fields = self.checked.fields(ty);
                let members = fields.iter().map(|(field, ty)| {
                    let member = self.header_field(header, position, ty);
                    position += self.field_count(ty);
                    (Rc::clone(&field.name.name), member)
                });
                Place::Struct(members.collect())
            }
            _ => self.no_place(None, "a field of a header has no width"),
        }
    }

    /// The IR type of a header union type, created on first use.
    fn union_type(&mut self, ty: &Type) -> UnionTypeId {
        if let Some((_, id)) = self.union_types.iter().find(|(known, _)| known == ty) {
            return *id;
        }
        let fields = self.checked.fields(ty);
        let members = fields
            .iter()
            .map(|(field, ty)| (field.name.name.to_string(), self.header_type(ty)))
            .collect();
        let name = ty
            .nominal()
            .cloned()
            .map_or_else(|| "union".to_owned(), |nominal| self.type_name(&nominal));
        let id = UnionTypeId::from(self.program.storage.union_types.len());
        self.program
            .storage
            .union_types
            .push(UnionType { name, members });
        self.union_types.push((ty.clone(), id));
        id
    }

    /// Creates a header union.
    fn union(&mut self, ty: &Type, name: &str) -> UnionId {
        let union_type = self.union_type(ty);
        let name = self.unique(name);
        let fields = self.checked.fields(ty);
        let members = fields
            .iter()
            .map(|(field, ty)| self.header(ty, &join(&name, &field.name.name)))
            .collect();
        let id = UnionId::from(self.program.storage.unions.len());
        self.program.storage.unions.push(Union {
            name,
            ty: union_type,
            members,
        });
        id
    }

    /// Creates a stack of headers or of header unions. Reports an exceeded number of headers.
    fn stack(&mut self, element: &Type, size: u32, name: &str) -> Place {
        let members = self.checked.fields(element).len().max(1);
        let headers = match element {
            Type::HeaderUnion(_) => members.saturating_mul(size as usize),
            _ => size as usize,
        };
        if self.program.storage.headers.len().saturating_add(headers) > MAX_HEADERS {
            let what =
                format!("{name} makes more than {MAX_HEADERS} headers, the limit of this target");
            let what = Diagnostic::global(Code::LIMIT, what);
            return self.diagnostics.report_last(what).into();
        }
        let name = self.unique(name);
        if matches!(element, Type::HeaderUnion(_)) {
            let ty = self.union_type(element);
            let elements = (0..size)
                .map(|index| self.union(element, &format!("{name}[{index}]")))
                .collect();
            let id = UnionStackId::from(self.program.storage.union_stacks.len());
            self.program
                .storage
                .union_stacks
                .push(UnionStack { name, ty, elements });
            return Place::UnionStack(id);
        }
        let ty = self.header_type(element);
        let elements = (0..size)
            .map(|index| self.header(element, &format!("{name}[{index}]")))
            .collect();
        let id = StackId::from(self.program.storage.stacks.len());
        self.program
            .storage
            .stacks
            .push(Stack { name, ty, elements });
        Place::Stack(id)
    }

    /// Creates a varbit variable, as the only field of a new header.
    fn varbit(&mut self, width: u32, name: &str) -> Place {
        let field = Field {
            name: "data".to_owned(),
            width: FieldWidth::Varbit(width),
            signed: false,
            boolean: false,
        };
        let mut type_name = format!("varbit_{width}");
        while self
            .program
            .storage
            .header_types
            .iter()
            .any(|known| known.name == type_name)
        {
            type_name.push('_');
        }
        let ty = self.add_header_type(HeaderType {
            name: type_name,
            fields: vec![field],
        });
        let name = self.unique(name);
        let header = self.add_header(ty, name);
        Place::Varbit(FieldRef { header, field: 0 }.into())
    }
}

/// A field with the type `scalar`.
pub fn scalar_field(name: String, scalar: Scalar) -> Field {
    Field {
        name,
        width: FieldWidth::Fixed(scalar.width()),
        signed: scalar.signed(),
        boolean: scalar == Scalar::Bool,
    }
}
