//! Resolution of written types to types of the typed program.

use super::checked::*;
use super::checker::Checker;
use super::types::{Nominal, Type};
use super::value::MAX_WIDTH;
use crate::diag::{Code, Diagnostic, Span};
use crate::syntax::ast::*;
use num_traits::ToPrimitive;
use std::rc::Rc;

/// Maximum number of elements of a header stack.
const MAX_STACK: u32 = 1 << 16;

/// Whether a generic type must be written with its type arguments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TypeArgs {
    /// Type arguments must be written.
    Required,
    /// Type arguments may be omitted, and are then inferred.
    Optional,
}

impl Checker<'_> {
    /// Resolves the written type of a value. `void` and `_` are reported as errors.
    pub fn type_ref(&mut self, written: &TypeRef) -> Type {
        let ty = self.param_type(written);
        if self.is_open(&ty) {
            self.error(
                Code::TYPE_ARGUMENTS,
                written.span,
                "all type arguments must be given here",
            );
            self.out.type_refs[written.id.0 as usize] = self.invalid();
            return self.invalid();
        }
        ty
    }

    /// Resolves the written type of a parameter, whose type arguments may be `_`, to be inferred at each call.
    pub fn param_type(&mut self, written: &TypeRef) -> Type {
        let ty = self.any_type(written, TypeArgs::Required);
        match ty {
            Type::Void => {
                self.error(
                    Code::BAD_TYPE,
                    written.span,
                    "`void` is allowed only as the result type of a function or method",
                );
                self.invalid()
            }
            Type::Infer(_) => {
                self.error(
                    Code::BAD_TYPE,
                    written.span,
                    "`_` is allowed only as a type argument",
                );
                self.invalid()
            }
            ty => ty,
        }
    }

    /// Resolves a written result type, which may be `void`.
    pub fn result_type(&mut self, written: &TypeRef) -> Type {
        match self.any_type(written, TypeArgs::Required) {
            Type::Void => Type::Void,
            Type::Infer(_) => self.type_ref(written),
            ty => ty,
        }
    }

    /// Resolves the written type of an instance, whose type arguments may be omitted, to be inferred from the constructor's arguments.
    pub fn instance_type(&mut self, written: &TypeRef) -> Type {
        self.any_type(written, TypeArgs::Optional)
    }

    /// Resolves a written type argument, which may be `_` or `void`.
    pub fn type_argument(&mut self, written: &TypeRef) -> Type {
        self.any_type(written, TypeArgs::Required)
    }

    fn any_type(&mut self, written: &TypeRef, args: TypeArgs) -> Type {
        let mut ty = self.resolve_type(written, args);
        if self.report_too_large(&ty, written.span) {
            ty = self.invalid();
        }
        self.out.type_refs[written.id.0 as usize] = ty.clone();
        ty
    }

    /// Reports a type with more than [`MAX_TYPE_SIZE`](super::types::MAX_TYPE_SIZE) parts; returns whether it is too large.
    pub fn report_too_large(&mut self, ty: &Type, span: Span) -> bool {
        let large = ty.is_too_large();
        if large {
            self.diagnostics.report_last(
                Diagnostic::error(Code::LIMIT, span, "this type is too large").note(format!(
                    "expanded, it has more than {} parts",
                    super::types::MAX_TYPE_SIZE
                )),
            );
        }
        large
    }

    fn resolve_type(&mut self, written: &TypeRef, args: TypeArgs) -> Type {
        match &written.kind {
            TypeRefKind::Bool => Type::Bool,
            TypeRefKind::Error => Type::Error,
            TypeRefKind::MatchKind => Type::MatchKind,
            TypeRefKind::String => Type::String,
            TypeRefKind::Void => Type::Void,
            TypeRefKind::Int => Type::Int,
            TypeRefKind::Bit(None) => Type::Bit(1),
            TypeRefKind::Bit(Some(width)) => self
                .width(width, 0)
                .map_or_else(|| self.invalid(), Type::Bit),
            TypeRefKind::SignedInt(width) => self
                .width(width, 1)
                .map_or_else(|| self.invalid(), Type::Signed),
            TypeRefKind::Varbit(width) => self
                .width(width, 0)
                .map_or_else(|| self.invalid(), Type::Varbit),
            TypeRefKind::Name(path) => self.named_type(path, None, written, args),
            TypeRefKind::Specialized(path, list) => {
                self.named_type(path, Some(list), written, args)
            }
            TypeRefKind::Stack(element, size) => self.stack_type(element, size),
            TypeRefKind::Tuple(list) => {
                let types: Vec<Type> = list.iter().map(|t| self.type_ref(t)).collect();
                for (ty, written) in types.iter().zip(list) {
                    self.check_field_type(ty, written.span, "a tuple");
                }
                Type::Tuple(types.into())
            }
            TypeRefKind::List(element) => Type::List(Rc::new(self.type_ref(element))),
            TypeRefKind::DontCare => {
                let open = self.fresh();
                if let Type::Infer(n) = open {
                    self.dont_cares.insert(n);
                }
                open
            }
        }
    }

    fn width(&mut self, expr: &Expr, min: u32) -> Option<u32> {
        let n = self.constant_int(expr, "a width")?;
        match n.to_u32() {
            Some(w) if w >= min && w <= MAX_WIDTH => Some(w),
            _ => {
                self.report(
                    Diagnostic::error(
                        Code::BAD_TYPE,
                        expr.span,
                        format!("{n} is not a valid width"),
                    )
                    .note(format!("widths are from {min} to {MAX_WIDTH} bits")),
                );
                None
            }
        }
    }

    fn stack_type(&mut self, element: &TypeRef, size: &Expr) -> Type {
        let ty = self.type_ref(element);
        let size = self
            .constant_int(size, "the size of a stack")
            .map(|n| (n.to_u32(), size.span, n));
        match ty {
            Type::Header(_)
            | Type::HeaderUnion(_)
            | Type::Invalid(_)
            | Type::Unknown
            | Type::Var(_) => {}
            ref ty => {
                let message =
                    format!("a stack consists of headers or header unions, not of `{ty}`");
                self.error(Code::BAD_TYPE, element.span, message);
                return self.invalid();
            }
        }
        match size {
            Some((Some(n), ..)) if (1..=MAX_STACK).contains(&n) => Type::Stack(Rc::new(ty), n),
            Some((_, span, n)) => {
                self.error(
                    Code::BAD_TYPE,
                    span,
                    format!("a stack cannot have {n} elements"),
                );
                self.invalid()
            }
            None => self.invalid(),
        }
    }

    fn named_type(
        &mut self,
        path: &Path,
        args: Option<&[TypeRef]>,
        written: &TypeRef,
        mode: TypeArgs,
    ) -> Type {
        let Some(id) = self.lookup(path) else {
            if let Some(list) = args {
                list.iter().for_each(|t| drop(self.type_argument(t)));
            }
            return self.invalid();
        };
        self.out.type_names.insert(written.id, id);
        let args: Option<Vec<Type>> =
            args.map(|list| list.iter().map(|t| self.type_argument(t)).collect());
        self.type_of_decl(id, args, written.span, mode)
    }

    fn type_of_decl(
        &mut self,
        id: DeclId,
        args: Option<Vec<Type>>,
        span: Span,
        mode: TypeArgs,
    ) -> Type {
        let kind = self.def(id).clone();
        let name = kind.name();
        let params = match &kind {
            DefKind::Struct(d) | DefKind::Header(d) | DefKind::HeaderUnion(d) => {
                d.type_params.len()
            }
            DefKind::Extern(d) => d.type_params.len(),
            DefKind::Parser(d) => d.type_params.len(),
            DefKind::Control(d) => d.type_params.len(),
            DefKind::Package(d) => d.type_params.len(),
            DefKind::Enum(_) | DefKind::NewType(_) | DefKind::TypeParam(..) => 0,
            DefKind::Typedef(_) => match self.out.decl_types.get(&id).cloned() {
                Some(ty) if args.is_none() || ty.is_invalid() => return ty,
                Some(_) => 0,
                None => return self.invalid(),
            },
            other => {
                let message = format!("`{name}` is {}, not a type", other.noun());
                let at = self.name_span(id);
                self.report(
                    Diagnostic::error(Code::WRONG_KIND, span, message).other(at, "declared here"),
                );
                return self.invalid();
            }
        };
        let args: Rc<[Type]> = match args {
            Some(args) if args.len() == params => args.into(),
            Some(args) => {
                let (s, got) = (if params == 1 { "" } else { "s" }, args.len());
                let at = self.name_span(id);
                let message = match params {
                    0 => format!("`{name}` takes no type arguments"),
                    _ => format!("`{name}` takes {params} type argument{s}, not {got}"),
                };
                self.report(
                    Diagnostic::error(Code::TYPE_ARGUMENTS, span, message)
                        .other(at, "declared here"),
                );
                return self.invalid();
            }
            None if params == 0 => Rc::new([]),
            None if mode == TypeArgs::Optional => (0..params).map(|_| self.fresh()).collect(),
            None => {
                let at = self.name_span(id);
                self.report(
                    Diagnostic::error(
                        Code::TYPE_ARGUMENTS,
                        span,
                        format!("`{name}` needs type arguments"),
                    )
                    .help(format!(
                        "write `{name}<{}>`",
                        vec!["..."; params].join(", ")
                    ))
                    .other(at, "declared here"),
                );
                return self.invalid();
            }
        };
        let nominal = Nominal { id, name, args };
        let ty = match kind {
            DefKind::Struct(_) => Type::Struct(nominal),
            DefKind::Header(_) => Type::Header(nominal),
            DefKind::HeaderUnion(_) => Type::HeaderUnion(nominal),
            DefKind::Extern(_) => Type::Extern(nominal),
            DefKind::Parser(_) => Type::Parser(nominal),
            DefKind::Control(_) => Type::Control(nominal),
            DefKind::Package(_) => Type::Package(nominal),
            DefKind::Enum(d) if d.underlying.is_some() => Type::SerializableEnum(nominal),
            DefKind::Enum(_) => Type::Enum(nominal),
            DefKind::NewType(_) => Type::NewType(nominal),
            _ => Type::Var(nominal),
        };
        if params > 0 {
            self.check_specialized(&ty, span);
        }
        ty
    }

    /// Reports a specialised type whose type arguments break a rule, such as a generic header that gets a field of type `string`.
    pub fn check_specialized(&mut self, ty: &Type, span: Span) {
        if let Some(why) = self.specialization_error(ty) {
            self.error(Code::TYPE_ARGUMENTS, span, why);
        }
    }

    fn specialization_error(&mut self, ty: &Type) -> Option<String> {
        // Check each type once: nested types may contain the same type exponentially often.
        if !self.checked_specializations.insert(ty.clone()) {
            return None;
        }
        match ty {
            Type::Stack(element, _) => match &**element {
                Type::Header(_)
                | Type::HeaderUnion(_)
                | Type::Invalid(_)
                | Type::Unknown
                | Type::Var(_)
                | Type::Infer(_) => self.specialization_error(element),
                other => Some(format!(
                    "a stack consists of headers or header unions, not of `{other}`"
                )),
            },
            Type::Tuple(types) => types.iter().find_map(|ty| self.specialization_error(ty)),
            Type::List(element) => self.specialization_error(element),
            Type::Header(n) | Type::HeaderUnion(n) | Type::Struct(n) if !n.args.is_empty() => {
                if self.is_open(ty) {
                    return None;
                }
                let table = self.field_table(ty);
                table.list.iter().find_map(|(field, part)| {
                    let fits = match ty {
                        Type::Header(_) => self.fits_header(part),
                        Type::HeaderUnion(_) => {
                            matches!(
                                part,
                                Type::Header(_) | Type::Invalid(_) | Type::Unknown | Type::Var(_)
                            )
                        }
                        _ => !part.is_instance() && *part != Type::Void,
                    };
                    if fits {
                        return self.specialization_error(part);
                    }
                    Some(format!(
                        "field `{}` of `{ty}` would have type `{part}`, which is not allowed there",
                        field.name
                    ))
                })
            }
            _ => None,
        }
    }

    /// The type that a declaration introduces, with fresh inference variables for its type parameters.
    pub fn open_type(&mut self, id: DeclId, span: Span) -> Type {
        self.type_of_decl(id, None, span, TypeArgs::Optional)
    }

    /// Reports a type that cannot be a field or element of a struct, tuple or stack; `container` names the container in messages.
    pub fn check_field_type(&mut self, ty: &Type, span: Span, container: &str) {
        let bad = ty.is_instance()
            || matches!(
                ty,
                Type::Void | Type::Table(_) | Type::Set(_) | Type::Callable(_)
            );
        if bad {
            self.error(
                Code::BAD_TYPE,
                span,
                format!("{container} cannot contain a `{ty}`"),
            );
        }
    }
}
