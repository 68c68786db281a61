//! Types as the control plane sees them: widths, names and type expressions.

use std::rc::Rc;

use crate::ir::{Scalar, TypeSpec};
use crate::sema::{CheckedProgram, DefKind, Nominal, Type};
use crate::syntax::ast::{
    Annotated, Annotation, AnnotationBody, ExprKind, TypeRefKind, TypedefDecl,
};

/// Width in bits of an error, and of an enum without an underlying type.
pub const ENUM_BITS: u32 = 32;

/// The control plane's representation of a `type` with `@p4runtime_translation`.
pub enum Translation {
    /// Numbers of this width in bits; `None` for the width of the type.
    Bits(Option<u32>),
    /// Strings.
    String,
    /// The annotation has an invalid argument.
    Invalid,
}

/// The IR type of a number, boolean, error or enum member; `None` for other types.
pub fn scalar(checked: &CheckedProgram, ty: &Type) -> Option<Scalar> {
    Some(match checked.represented(ty) {
        Type::Bool => Scalar::Bool,
        Type::Bit(width) => Scalar::Bit(*width),
        Type::Signed(width) => Scalar::Int(*width),
        Type::Error | Type::Enum(_) | Type::MatchKind => Scalar::Bit(ENUM_BITS),
        _ => return None,
    })
}

/// Width of a value in bits for the control plane (0 for strings and errors), and the name of its type if that is declared with `type`.
pub fn width_and_name(checked: &CheckedProgram, ty: &Type) -> (u32, Option<String>) {
    let width = match scalar(checked, ty) {
        Some(_) if matches!(checked.representation(ty), Type::Error) => 0,
        Some(scalar) => scalar.width(),
        None => 0,
    };
    let Type::NewType(nominal) = ty else {
        return (width, None);
    };
    let width = match translation_of(checked, nominal) {
        Some((_, Translation::String)) => 0,
        Some((_, Translation::Bits(Some(width)))) => width,
        _ => width,
    };
    (width, Some(nominal.name.to_string()))
}

/// The type expression of a type in P4Info.
pub fn spec(checked: &CheckedProgram, ty: &Type) -> TypeSpec {
    let spec = |ty: &Type| spec(checked, ty);
    let name = |nominal: &Nominal| type_name(checked, nominal);
    match ty {
        Type::Bool => TypeSpec::Bool,
        Type::Bit(width) => TypeSpec::Bit(*width),
        Type::Signed(width) => TypeSpec::Int(*width),
        Type::Varbit(width) => TypeSpec::Varbit(*width),
        Type::Error => TypeSpec::Error,
        Type::Tuple(types) => TypeSpec::Tuple(types.iter().map(spec).collect()),
        Type::Record(fields) => TypeSpec::Tuple(fields.iter().map(|(_, ty)| spec(ty)).collect()),
        Type::Struct(nominal) => TypeSpec::Struct(name(nominal)),
        Type::Header(nominal) => TypeSpec::Header(name(nominal)),
        Type::HeaderUnion(nominal) => TypeSpec::HeaderUnion(name(nominal)),
        Type::Stack(element, size) => match &**element {
            Type::HeaderUnion(nominal) => TypeSpec::HeaderUnionStack {
                union: name(nominal),
                size: *size,
            },
            element => TypeSpec::HeaderStack {
                header: element.nominal().map(name),
                size: *size,
            },
        },
        Type::Enum(nominal) => TypeSpec::Enum(name(nominal)),
        Type::SerializableEnum(nominal) => TypeSpec::SerializableEnum(name(nominal)),
        Type::NewType(nominal) => TypeSpec::NewType(name(nominal)),
        _ => TypeSpec::Other,
    }
}

/// Control-plane name of a type, followed by its type arguments.
pub fn type_name(checked: &CheckedProgram, nominal: &Nominal) -> String {
    let annotations = match &checked.def(nominal.id).kind {
        DefKind::Struct(decl) | DefKind::Header(decl) | DefKind::HeaderUnion(decl) => {
            &decl.annotations[..]
        }
        DefKind::Enum(decl) => &decl.annotations[..],
        DefKind::NewType(decl) => &decl.annotations[..],
        _ => &[],
    };
    let mut name = match annotations
        .annotation("name")
        .and_then(|annotation| annotation.string())
    {
        Some(name) => name.trim_start_matches('.').to_owned(),
        None => nominal.name.to_string(),
    };
    for arg in nominal.args.iter() {
        name.push('_');
        name.extend(
            arg.to_string()
                .chars()
                .filter(|c| c.is_ascii_alphanumeric() || *c == '_'),
        );
    }
    name
}

/// The declaration of a type that is declared with `type`; `None` for other types.
pub fn new_type_decl(checked: &CheckedProgram, nominal: &Nominal) -> Option<Rc<TypedefDecl>> {
    match &checked.def(nominal.id).kind {
        DefKind::NewType(decl) => Some(decl.clone()),
        _ => None,
    }
}

/// The URI and the representation in `@p4runtime_translation` of a type declared with `type`; `None` without the annotation.
pub fn translation_of(
    checked: &CheckedProgram,
    nominal: &Nominal,
) -> Option<(String, Translation)> {
    let decl = new_type_decl(checked, nominal)?;
    let annotation = decl.annotations.annotation("p4runtime_translation")?;
    let uri = match &annotation.body {
        // The arguments may be tokens that are not expressions, such as a type.
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
                _ => Translation::Invalid,
            },
            TypeRefKind::Bit(None) => Translation::Bits(Some(1)),
            _ => Translation::Invalid,
        },
        // The grammar of annotations does not parse all types as expressions.
        _ => translation_by_text(annotation),
    };
    Some((uri, translation))
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
            Err(_) => Translation::Invalid,
        },
    }
}
