//! Pass: control_types.
//!
//! Input: the program, and the types that its objects show to the control plane ([`super::inlined::InlinedProgram::shown_types`]).
//! Output: [`ControlTypes`]. Invariant: every type that an object or a listed type uses is listed, with its annotations. Controller headers
//! and the package are described; their invalid annotations are reported.

use super::annotations::{self, documentation, field_annotations, field_name, unstructured_but};
use super::control_view::{self, Translation};
use crate::diag::{Code, Diagnostic, Diagnostics, SourceMap, Span};
use crate::ir::{
    ControlTypes, ControllerField, ControllerHeader, NewType, Objects, PlatformProperties,
    Representation, SerializableEnum,
};
use crate::names::join;
use crate::sema::{CheckedProgram, DefKind, Nominal, Type, Value};
use crate::syntax::ast::{Annotated, Annotation, Decl, ExprKind, StructDecl};

/// Describes the types of a program for the control plane.
pub fn describe(
    checked: &CheckedProgram,
    sources: &SourceMap,
    shown: &[Type],
    objects: &mut Objects,
    diagnostics: &mut Diagnostics,
) {
    let mut describer = Describer {
        checked,
        sources,
        diagnostics,
        errors: &objects.errors,
        types: std::mem::take(&mut objects.control_types),
    };
    shown.iter().for_each(|ty| describer.list(ty));
    describer.headers();
    describer.types.package.arch = objects.arch.name().to_owned();
    if let Some(main) = checked.main() {
        describer.package(&main.annotations);
    }
    objects.control_types = describer.types;
}

/// Collects the descriptions of types, controller headers and the package for the control plane.
struct Describer<'a> {
    checked: &'a CheckedProgram,
    sources: &'a SourceMap,
    diagnostics: &'a mut Diagnostics,
    /// Names of all members of the type `error`.
    errors: &'a [String],
    /// The description so far.
    types: ControlTypes,
}

impl Describer<'_> {
    fn error(&mut self, code: Code, span: Span, message: &str) {
        let what = Diagnostic::error(code, span, message);
        self.diagnostics.report(what);
    }

    /// Lists a type, if it has a name, and the named types that it contains.
    fn list(&mut self, ty: &Type) {
        match ty {
            Type::Error => self.types.type_info.errors = Some(self.errors.to_vec()),
            Type::Tuple(types) => types.iter().for_each(|ty| self.list(ty)),
            Type::Record(fields) => fields.iter().for_each(|(_, ty)| self.list(ty)),
            Type::Struct(nominal) => self.list_struct(nominal, ty),
            Type::Header(nominal) => self.list_header(nominal, ty),
            Type::HeaderUnion(nominal) => self.list_union(nominal, ty),
            Type::Stack(element, _) => match &**element {
                Type::HeaderUnion(nominal) => self.list_union(nominal, element),
                element => {
                    if let Some(nominal) = element.nominal() {
                        self.list_header(nominal, element);
                    }
                }
            },
            Type::Enum(nominal) => self.list_enum(nominal),
            Type::SerializableEnum(nominal) => self.list_serializable(nominal),
            Type::NewType(nominal) => self.list_new_type(nominal),
            _ => {}
        }
    }

    fn name(&self, nominal: &Nominal) -> String {
        control_view::type_name(self.checked, nominal)
    }

    fn list_new_type(&mut self, nominal: &Nominal) {
        let name = self.name(nominal);
        if self.types.type_info.new_types.contains_key(&name) {
            return;
        }
        let Some(decl) = control_view::new_type_decl(self.checked, nominal) else {
            return;
        };
        let spec = NewType {
            annotations: unstructured_but(&decl.annotations, &["p4runtime_translation"]),
            structured: annotations::structured(self.checked, &decl.annotations),
            representation: None,
        };
        let new_types = &mut self.types.type_info.new_types;
        new_types.insert(name.clone(), spec);
        let ty = Type::NewType(nominal.clone());
        let own = || control_view::scalar(self.checked, &ty).map_or(0, |scalar| scalar.width());
        let representation = match control_view::translation_of(self.checked, nominal) {
            Some((_, Translation::Invalid)) => {
                let annotation = decl.annotations.annotation("p4runtime_translation");
                let span = annotation.map_or(decl.name.span, |annotation| annotation.span);
                self.error(
                    Code::ANNOTATION_RULE,
                    span,
                    "the second argument of @p4runtime_translation is `bit<N>` with a number N, a number, or `string`",
                );
                return;
            }
            Some((uri, Translation::String)) => Representation::Strings { uri },
            Some((uri, Translation::Bits(width))) => Representation::Bits {
                uri,
                width: width.unwrap_or_else(own),
            },
            None => {
                // A `type` of a `type` is described by the underlying type.
                let mut under = ty;
                while let Type::NewType(_) = under {
                    under = self.checked.underlying(&under).unwrap_or(Type::Unknown);
                }
                self.list(&under);
                Representation::Original(control_view::spec(self.checked, &under))
            }
        };
        if let Some(spec) = self.types.type_info.new_types.get_mut(&name) {
            spec.representation = Some(representation);
        }
    }

    fn list_struct(&mut self, nominal: &Nominal, ty: &Type) {
        let name = self.name(nominal);
        if self.types.type_info.structs.contains_key(&name) {
            return;
        }
        let fields = self.checked.fields(ty);
        fields.iter().for_each(|(_, ty)| self.list(ty));
        let members = fields.iter().map(|(field, ty)| {
            let name = field_name(&field.annotations, &field.name.name);
            (name, control_view::spec(self.checked, ty))
        });
        let members = members.collect();
        self.types.type_info.structs.insert(name, members);
    }

    fn list_header(&mut self, nominal: &Nominal, ty: &Type) {
        let name = self.name(nominal);
        if self.types.type_info.headers.contains_key(&name) {
            return;
        }
        let fields = self.checked.fields(ty).into_iter();
        let fields = fields.map(|(field, ty)| (field, self.checked.representation(&ty)));
        let fields: Vec<_> = fields.collect();
        fields.iter().for_each(|(_, ty)| self.list(ty));
        let members = fields.iter().map(|(field, ty)| {
            let name = field_name(&field.annotations, &field.name.name);
            (name, control_view::spec(self.checked, ty))
        });
        let members = members.collect();
        self.types.type_info.headers.insert(name, members);
    }

    fn list_union(&mut self, nominal: &Nominal, ty: &Type) {
        let name = self.name(nominal);
        if self.types.type_info.header_unions.contains_key(&name) {
            return;
        }
        let fields = self.checked.fields(ty);
        fields.iter().for_each(|(_, ty)| {
            if let Some(nominal) = ty.nominal() {
                self.list_header(nominal, ty);
            }
        });
        let members = fields.iter().map(|(field, ty)| {
            let header = ty.nominal().map(|nominal| self.name(nominal));
            (field_name(&field.annotations, &field.name.name), header)
        });
        let members = members.collect();
        self.types.type_info.header_unions.insert(name, members);
    }

    fn list_enum(&mut self, nominal: &Nominal) {
        if let DefKind::Enum(decl) = &self.checked.def(nominal.id).kind {
            let members = decl.members.iter();
            let members = members.map(|member| member.name.name.to_string()).collect();
            let name = self.name(nominal);
            self.types.type_info.enums.insert(name, members);
        }
    }

    fn list_serializable(&mut self, nominal: &Nominal) {
        let ty = Type::SerializableEnum(nominal.clone());
        let width = control_view::scalar(self.checked, &ty).map_or(0, |scalar| scalar.width());
        if let DefKind::Enum(decl) = &self.checked.def(nominal.id).kind {
            let members = decl.members.iter().map(|member| {
                let value = match self.checked.const_value(member.id) {
                    Some(Value::Int(value)) => value.clone(),
                    _ => Default::default(),
                };
                (member.name.name.to_string(), value)
            });
            let members = members.collect();
            let name = self.name(nominal);
            let spec = SerializableEnum { width, members };
            self.types.type_info.serializable_enums.insert(name, spec);
        }
    }

    /// Describes the headers with `@controller_header`.
    fn headers(&mut self) {
        let checked = self.checked;
        for decl in &checked.program.decls {
            if let Decl::Header(decl) = decl {
                if let Some(annotation) = decl.annotations.annotation("controller_header") {
                    self.controller_header(decl, annotation);
                }
            }
        }
    }

    /// Describes the program by the annotations of `main`.
    fn package(&mut self, annotations: &[Annotation]) {
        let (brief, description) = documentation(annotations);
        let listed = unstructured_but(annotations, &["pkginfo", "platform_property"]);
        let structured = annotations::structured(self.checked, annotations);
        let package = &mut self.types.package;
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
                let what = "a value in @pkginfo must be a string";
                self.error(Code::ANNOTATION_RULE, pair.value.span, what);
                continue;
            };
            let package = &mut self.types.package;
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
            let value = annotations::number(self.checked, &pair.value);
            let Some(value) = value.and_then(|value| i32::try_from(value).ok()) else {
                let what = "a value in @platform_property must be a number below 2^31";
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
        self.types.package.properties = Some(properties);
    }

    /// Describes a header with `@controller_header`.
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
        let meta = annotations::meta(
            self.checked,
            self.sources,
            self.diagnostics,
            control_view::type_name(self.checked, &nominal),
            &decl.annotations,
            decl.name.span,
        );
        self.types.controller_headers.push(ControllerHeader {
            meta,
            name: name.to_owned(),
            fields,
        });
    }

    /// Adds the fields of a controller header or nested struct. A field of a nested struct also gets the struct's annotations (`outer_annotations`).
    fn controller_fields(
        &mut self,
        ty: &Type,
        prefix: &str,
        outer_annotations: &[Annotation],
        into: &mut Vec<ControllerField>,
    ) {
        let nested = |ty: &Type| matches!(self.checked.representation(ty), Type::Struct(_));
        let fields = self.checked.fields(ty);
        // As in p4c, `@name` of a field has an effect only in headers without nested structs.
        let named = prefix.is_empty() && !fields.iter().any(|(_, ty)| nested(ty));
        for (field, ty) in fields {
            let name = match named {
                true => field_name(&field.annotations, &field.name.name),
                false => join(prefix, &field.name.name),
            };
            let mut annotations = field.annotations.clone();
            let outer = outer_annotations
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
                false => {
                    self.list(&ty);
                    control_view::width_and_name(self.checked, &ty)
                }
            };
            let (id, annotations, structured) =
                field_annotations(self.checked, self.diagnostics, &annotations);
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
