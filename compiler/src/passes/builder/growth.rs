//! A limit on the size of the expanded program.
//!
//! Calls are inlined, loops unrolled and structures split into fields, so that a short program may expand beyond the available memory. An
//! example is a chain of 25 functions, each of which calls the previous one twice. All generated parts are counted. Beyond [`MAX_PARTS`]
//! the compiler reports the source position once, and generates no further parts.

use super::Builder;
use crate::diag::{Code, Diagnostic, ErrorReported, Span};
use crate::sema::{DefKind, Type};

/// Maximum number of parts of an expanded program: statements, calls, loop iterations, variables, values, instances and parser states.
pub const MAX_PARTS: usize = 250_000;

impl Builder<'_> {
    /// Counts `parts` parts that are generated for the source at `span`.
    ///
    /// # Errors
    /// The limit is exceeded, which is reported.
    pub fn count_parts(&mut self, span: Span, parts: usize) -> Result<(), ErrorReported> {
        self.observes_limit()?;
        self.parts_made = self.parts_made.saturating_add(parts);
        if self.parts_made > MAX_PARTS {
            let message = format!(
                "expanded, the program has more than {MAX_PARTS} parts; this is the first beyond the limit"
            );
            let reported = self.diagnostics.report_last(
                Diagnostic::error(Code::LIMIT, span, message)
                    .note("calls are inlined, loops are unrolled and structures are split into fields, as the target has none of them")
                    .help("reduce the number of calls, the depth of calls and loops, or the size of types"),
            );
            self.limit = Err(reported);
        }
        self.limit
    }

    /// Counts the fields, headers and elements of a value of type `ty`. A type that is too large by itself is reported at the declaration of
    /// its smallest part that is too large.
    ///
    /// # Errors
    /// As for [`Builder::count_parts`].
    pub fn count_type_parts(&mut self, ty: &Type) -> Result<(), ErrorReported> {
        let parts = self.parts_of_type(ty);
        if parts <= MAX_PARTS {
            let span = self.declared_at(ty);
            return self.count_parts(span, parts);
        }
        let mut grown = ty.clone();
        while let Some((_, part)) =
            (self.parts(&grown).iter()).find(|(_, part)| self.parts_of_type(part) > MAX_PARTS)
        {
            grown = part.clone();
        }
        let span = self.declared_at(&grown);
        self.count_parts(span, parts)
    }

    /// Source position of a type's declaration; the default position for types without a name.
    fn declared_at(&self, ty: &Type) -> Span {
        let nominal = ty.nominal();
        nominal.map_or_else(Span::default, |nominal| {
            match &self.checked.def(nominal.id).kind {
                DefKind::Struct(decl) | DefKind::Header(decl) | DefKind::HeaderUnion(decl) => {
                    decl.name.span
                }
                _ => Span::default(),
            }
        })
    }

    /// Number of fields, headers and elements of a variable of type `ty`.
    fn parts_of_type(&mut self, ty: &Type) -> usize {
        let ty = self.checked.representation(ty);
        if let Some(known) = self.type_parts.get(&ty) {
            return *known;
        }
        let parts = match &ty {
            Type::Struct(_)
            | Type::Header(_)
            | Type::HeaderUnion(_)
            | Type::Tuple(_)
            | Type::Record(_) => {
                let parts = self.parts(&ty);
                let parts = parts.iter().map(|(_, part)| self.parts_of_type(part));
                parts.fold(1, usize::saturating_add)
            }
            Type::Stack(element, size) => {
                let of_element = match &**element {
                    Type::HeaderUnion(_) => self.parts(element).len() + 1,
                    _ => 1,
                };
                let elements = of_element.saturating_mul(*size as usize);
                elements.saturating_add(self.parts_of_type(element))
            }
            _ => return 1,
        };
        self.type_parts.insert(ty, parts);
        parts
    }

    /// Whether the number of parts is within the limit.
    ///
    /// # Errors
    /// The limit is exceeded, which is reported. The generated program must not be used.
    pub fn observes_limit(&self) -> Result<(), ErrorReported> {
        self.limit
    }
}
