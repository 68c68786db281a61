//! Types as the control plane sees them.

use super::annotations::{documentation, field_annotations, field_name, unstructured_but};
use super::{join, Elaborator};
use crate::diag::Code;
use crate::ir::{
    ControllerField, ControllerHeader, NewType, PlatformProperties, Representation,
    SerializableEnum, TypeSpec,
};
use crate::sema::{DefKind, Nominal, Type, Value};
use crate::syntax::ast::{
    Annotated, Annotation, AnnotationBody, Decl, ExprKind, StructDecl, TypeRefKind, TypedefDecl,
};

/// What `@p4runtime_translation` makes of a type.
enum Translation {
    /// Numbers of this width, or of the type's own.
    Bits(Option<u32>),
    /// Strings.
    String,
    /// What is written there is neither.
    Wrong,
}

impl Elaborator<'_> {
    /// Width that the control plane sees, and the name of the `type`, if it is one.
    pub fn control_type(&mut self, ty: &Type) -> (u32, Option<String>) {
        let width = match self.scalar(ty) {
            Some(_) if matches!(self.checked.representation(ty), Type::Error) => 0,
            Some(scalar) => scalar.width(),
            None => 0,
        };
        let Type::NewType(nominal) = ty else {
            // Named types are described wherever a value has them.
            self.type_spec(ty);
            return (width, None);
        };
        self.new_type(nominal);
        let width = match self.translation_of(nominal) {
            Some((_, Translation::String)) => 0,
            Some((_, Translation::Bits(Some(width)))) => width,
            _ => width,
        };
        (width, Some(nominal.name.to_string()))
    }

    fn new_type_decl(&self, nominal: &Nominal) -> Option<std::rc::Rc<TypedefDecl>> {
        match &self.checked.def(nominal.id).kind {
            DefKind::NewType(decl) => Some(decl.clone()),
            _ => None,
        }
    }

    fn translation_of(&self, nominal: &Nominal) -> Option<(String, Translation)> {
        let decl = self.new_type_decl(nominal)?;
        let annotation = decl.annotations.annotation("p4runtime_translation")?;
        let uri = match &annotation.body {
            // Of these tokens the second argument may be no expression.
            AnnotationBody::Tokens { tokens, .. } => {
                tokens.first().and_then(|token| token.string.clone())
            }
            _ => None,
        };
        let uri = uri.map(|uri| uri.to_string()).unwrap_or_default();
        let translation = match annotation
            .exprs()
            .and_then(|exprs| exprs.get(1))
            .map(|expr| &expr.kind)
        {
            Some(ExprKind::Int(literal)) => Translation::Bits(u32::try_from(&literal.value).ok()),
            Some(ExprKind::Type(ty)) => match &ty.kind {
                TypeRefKind::String => Translation::String,
                TypeRefKind::Bit(Some(width)) => match &width.kind {
                    ExprKind::Int(literal) => Translation::Bits(u32::try_from(&literal.value).ok()),
                    _ => Translation::Wrong,
                },
                TypeRefKind::Bit(None) => Translation::Bits(Some(1)),
                _ => Translation::Wrong,
            },
            // The second argument may be a type that the annotation's grammar does not read as an expression.
            _ => translation_by_text(annotation),
        };
        Some((uri, translation))
    }

    /// Lists a `type`.
    fn new_type(&mut self, nominal: &Nominal) {
        let name = self.type_name(nominal);
        if self
            .program
            .control_types
            .type_info
            .new_types
            .contains_key(&name)
        {
            return;
        }
        let Some(decl) = self.new_type_decl(nominal) else {
            return;
        };
        let spec = NewType {
            annotations: unstructured_but(&decl.annotations, &["p4runtime_translation"]),
            structured: self.structured(&decl.annotations),
            representation: None,
        };
        self.program
            .control_types
            .type_info
            .new_types
            .insert(name.clone(), spec);
        let ty = Type::NewType(nominal.clone());
        let representation = match self.translation_of(nominal) {
            Some((uri, translation)) => {
                let own = self.scalar(&ty).map_or(0, |scalar| scalar.width());
                match translation {
                    Translation::Wrong => {
                        let annotation = decl.annotations.annotation("p4runtime_translation");
                        let span = annotation.map_or(decl.name.span, |annotation| annotation.span);
                        self.error(
                            Code::ANNOTATION_RULE,
                            span,
                            "the second argument of @p4runtime_translation is `bit<N>` with a number N, a number, or `string`",
                        );
                        return;
                    }
                    Translation::String => Representation::Strings { uri },
                    Translation::Bits(width) => Representation::Bits {
                        uri,
                        width: width.unwrap_or(own),
                    },
                }
            }
            None => {
                // A `type` of a `type` is described as what both are made of.
                let mut under = ty;
                while let Type::NewType(_) = under {
                    under = self.checked.underlying(&under).unwrap_or(Type::Invalid);
                }
                Representation::Original(self.type_spec(&under))
            }
        };
        if let Some(spec) = self
            .program
            .control_types
            .type_info
            .new_types
            .get_mut(&name)
        {
            spec.representation = Some(representation);
        }
    }

    /// A type expression of the control plane; named types in it are listed.
    pub fn type_spec(&mut self, ty: &Type) -> TypeSpec {
        match ty {
            Type::Bool => TypeSpec::Bool,
            Type::Bit(width) => TypeSpec::Bit(*width),
            Type::Signed(width) => TypeSpec::Int(*width),
            Type::Varbit(width) => TypeSpec::Varbit(*width),
            Type::Error => {
                self.list_errors();
                TypeSpec::Error
            }
            Type::Tuple(types) => {
                TypeSpec::Tuple(types.iter().map(|ty| self.type_spec(ty)).collect())
            }
            Type::Record(fields) => {
                TypeSpec::Tuple(fields.iter().map(|(_, ty)| self.type_spec(ty)).collect())
            }
            Type::Struct(nominal) => TypeSpec::Struct(self.list_struct(nominal, ty)),
            Type::Header(nominal) => TypeSpec::Header(self.list_header(nominal, ty)),
            Type::HeaderUnion(nominal) => TypeSpec::HeaderUnion(self.list_union(nominal, ty)),
            Type::Stack(element, size) => match &**element {
                Type::HeaderUnion(nominal) => TypeSpec::HeaderUnionStack {
                    union: self.list_union(nominal, element),
                    size: *size,
                },
                element => TypeSpec::HeaderStack {
                    header: element
                        .nominal()
                        .map(|nominal| self.list_header(nominal, element)),
                    size: *size,
                },
            },
            Type::Enum(nominal) => TypeSpec::Enum(self.list_enum(nominal)),
            Type::SerializableEnum(nominal) => {
                TypeSpec::SerializableEnum(self.list_serializable(nominal))
            }
            Type::NewType(nominal) => {
                self.new_type(nominal);
                TypeSpec::NewType(self.type_name(nominal))
            }
            _ => TypeSpec::Other,
        }
    }

    fn list_struct(&mut self, nominal: &Nominal, ty: &Type) -> String {
        let name = self.type_name(nominal);
        if self
            .program
            .control_types
            .type_info
            .structs
            .contains_key(&name)
        {
            return name;
        }
        let members = self
            .checked
            .fields(ty)
            .iter()
            .map(|(field, ty)| {
                let name = field_name(&field.annotations, &field.name.name);
                (name, self.type_spec(ty))
            })
            .collect();
        self.program
            .control_types
            .type_info
            .structs
            .insert(name.clone(), members);
        name
    }

    fn list_header(&mut self, nominal: &Nominal, ty: &Type) -> String {
        let name = self.type_name(nominal);
        if self
            .program
            .control_types
            .type_info
            .headers
            .contains_key(&name)
        {
            return name;
        }
        let members = self
            .checked
            .fields(ty)
            .iter()
            .map(|(field, ty)| {
                let ty = self.checked.representation(ty);
                let name = field_name(&field.annotations, &field.name.name);
                (name, self.type_spec(&ty))
            })
            .collect();
        self.program
            .control_types
            .type_info
            .headers
            .insert(name.clone(), members);
        name
    }

    fn list_union(&mut self, nominal: &Nominal, ty: &Type) -> String {
        let name = self.type_name(nominal);
        if self
            .program
            .control_types
            .type_info
            .header_unions
            .contains_key(&name)
        {
            return name;
        }
        let members = self
            .checked
            .fields(ty)
            .iter()
            .map(|(field, ty)| {
                let header = ty.nominal().map(|nominal| self.list_header(nominal, ty));
                (field_name(&field.annotations, &field.name.name), header)
            })
            .collect();
        self.program
            .control_types
            .type_info
            .header_unions
            .insert(name.clone(), members);
        name
    }

    fn list_enum(&mut self, nominal: &Nominal) -> String {
        let name = self.type_name(nominal);
        if let DefKind::Enum(decl) = &self.checked.def(nominal.id).kind {
            let members = decl
                .members
                .iter()
                .map(|member| member.name.name.to_string())
                .collect();
            self.program
                .control_types
                .type_info
                .enums
                .insert(name.clone(), members);
        }
        name
    }

    fn list_serializable(&mut self, nominal: &Nominal) -> String {
        let name = self.type_name(nominal);
        let width = self
            .scalar(&Type::SerializableEnum(nominal.clone()))
            .map_or(0, |scalar| scalar.width());
        if let DefKind::Enum(decl) = &self.checked.def(nominal.id).kind {
            let members = decl
                .members
                .iter()
                .map(|member| {
                    let value = match self.checked.const_value(member.id) {
                        Some(Value::Int(value)) => value.clone(),
                        _ => Default::default(),
                    };
                    (member.name.name.to_string(), value)
                })
                .collect();
            let spec = SerializableEnum { width, members };
            self.program
                .control_types
                .type_info
                .serializable_enums
                .insert(name.clone(), spec);
        }
        name
    }

    fn list_errors(&mut self) {
        let members = self.program.errors.clone();
        self.program.control_types.type_info.errors = Some(members);
    }

    /// Tells of controller headers and of the package.
    pub fn finish_types(&mut self) {
        let checked = self.checked;
        for decl in &checked.program.decls {
            if let Decl::Header(decl) = decl {
                if let Some(annotation) = decl.annotations.annotation("controller_header") {
                    self.controller_header(decl, annotation);
                }
            }
        }
        self.program.control_types.package.arch = self.program.arch.name().to_owned();
        if let Some(main) = checked.main() {
            self.package(&main.annotations);
        }
    }

    /// What the annotations of `main` say.
    fn package(&mut self, annotations: &[Annotation]) {
        let (brief, description) = documentation(annotations);
        let listed = unstructured_but(annotations, &["pkginfo", "platform_property"]);
        let structured = self.structured(annotations);
        let package = &mut self.program.control_types.package;
        package.annotations = listed;
        package.structured = structured;
        package.brief = brief;
        package.description = description;
        let pairs = |name: &str| {
            let annotation = annotations.annotation(name);
            annotation.and_then(Annotation::key_values)
        };
        for pair in pairs("pkginfo").unwrap_or_default() {
            let ExprKind::String(text) = &pair.value.kind else {
                let what = "a value in @pkginfo is a string";
                self.error(Code::ANNOTATION_RULE, pair.value.span, what);
                continue;
            };
            let package = &mut self.program.control_types.package;
            let field = match &*pair.name.name {
                "name" => &mut package.name,
                "version" => &mut package.version,
                "organization" => &mut package.organization,
                "contact" => &mut package.contact,
                "url" => &mut package.url,
                "arch" => &mut package.arch,
                _ => continue,
            };
            *field = text.to_string();
        }
        let Some(pairs) = pairs("platform_property") else {
            return;
        };
        let mut properties = PlatformProperties::default();
        for pair in pairs {
            let value = self.annotation_number(&pair.value);
            let Some(value) = value.and_then(|value| i32::try_from(value).ok()) else {
                let what = "a value in @platform_property is a number below 2^31";
                self.error(Code::ANNOTATION_RULE, pair.value.span, what);
                continue;
            };
            match &*pair.name.name {
                "multicast_group_table_size" => properties.multicast_group_table_size = value,
                "multicast_group_table_total_replicas" => {
                    properties.multicast_group_table_total_replicas = value;
                }
                "multicast_group_table_max_replicas_per_entry" => {
                    properties.multicast_group_table_max_replicas_per_entry = value;
                }
                _ => {}
            }
        }
        self.program.control_types.package.properties = Some(properties);
    }

    fn controller_header(&mut self, decl: &StructDecl, annotation: &Annotation) {
        let Some(name) = annotation.string() else {
            self.error(
                Code::ANNOTATION_RULE,
                annotation.span,
                "@controller_header takes one string: \"packet_in\" or \"packet_out\"",
            );
            return;
        };
        let mut fields = Vec::new();
        let nominal = Nominal::plain(decl.id, decl.name.name.clone());
        let header = Type::Header(nominal.clone());
        self.controller_fields(&header, "", &[], &mut fields);
        let meta = self.meta(self.type_name(&nominal), &decl.annotations, decl.name.span);
        self.program
            .control_types
            .controller_headers
            .push(ControllerHeader {
                meta,
                name: name.to_owned(),
                fields,
            });
    }

    /// Fields of a controller header; those of structs in it are fields of the header, with the annotations of both.
    fn controller_fields(
        &mut self,
        ty: &Type,
        prefix: &str,
        around: &[Annotation],
        into: &mut Vec<ControllerField>,
    ) {
        let nested = |ty: &Type| matches!(self.checked.representation(ty), Type::Struct(_));
        let fields = self.checked.fields(ty);
        // A `@name` counts only where nothing is flattened.
        let named = prefix.is_empty() && !fields.iter().any(|(_, ty)| nested(ty));
        for (field, ty) in fields {
            let name = match named {
                true => field_name(&field.annotations, &field.name.name),
                false => join(prefix, &field.name.name),
            };
            let mut annotations = field.annotations.clone();
            let outer = around
                .iter()
                .filter(|outer| field.annotations.annotation(&outer.name.name).is_none());
            annotations.extend(outer.cloned());
            if matches!(self.checked.representation(&ty), Type::Struct(_)) {
                self.controller_fields(&ty, &name, &annotations, into);
                continue;
            }
            let hidden = annotations.annotation("hidden").is_some();
            let (control_width, type_name) = match hidden {
                true => (0, None),
                false => self.control_type(&ty),
            };
            let (id, annotations, structured) = field_annotations(self, &annotations);
            into.push(ControllerField {
                name,
                hidden,
                control_width,
                type_name,
                id,
                annotations,
                structured,
            });
        }
    }
}

/// Reads the second argument of `@p4runtime_translation` from its tokens.
fn translation_by_text(annotation: &Annotation) -> Translation {
    let text = annotation.body_text();
    let second = text.rsplit(',').next().unwrap_or_default().trim();
    let bits = second
        .strip_prefix("bit")
        .map(|rest| rest.trim_matches(|c: char| c.is_whitespace() || matches!(c, '<' | '>')));
    match (second, bits) {
        ("string", _) => Translation::String,
        ("bit", _) => Translation::Bits(Some(1)),
        (number, None) | (_, Some(number)) => match number.parse() {
            Ok(width) => Translation::Bits(Some(width)),
            Err(_) => Translation::Wrong,
        },
    }
}
