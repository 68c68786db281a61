//! Warnings about declarations that are never used.

use super::warn;
use crate::diag::{Diagnostic, Diagnostics, Warning};
use crate::sema::checked::*;
use crate::sema::types::Type;
use crate::syntax::ast::*;
use rustc_hash::FxHashSet;

/// Warns about tables, actions, functions, instances, parsers and controls that the program never names.
pub(super) fn unused(
    checked: &CheckedProgram,
    used: &FxHashSet<DeclId>,
    diagnostics: &mut Diagnostics,
) {
    for (index, def) in checked.defs.iter().enumerate() {
        let id = DeclId(index as u32);
        let Some(def) = def.as_ref().filter(|_| !used.contains(&id)) else {
            continue;
        };
        let (name, message) = match &def.kind {
            DefKind::Table(d) => (&d.name, format!("table `{}` is never applied", d.name)),
            DefKind::Action(d) => (&d.name, format!("action `{}` is never used", d.name)),
            // Methods of instances are called by the extern, not by the program.
            DefKind::Function(d) if !in_instance(checked, def) => {
                (&d.name, format!("function `{}` is never called", d.name))
            }
            DefKind::Instance(d) if expects_use(checked, def, id) => {
                (&d.name, format!("instance `{}` is never used", d.name))
            }
            DefKind::Control(d) if d.body.is_some() => {
                (&d.name, format!("control `{}` is never used", d.name))
            }
            DefKind::Parser(d) if d.body.is_some() => {
                (&d.name, format!("parser `{}` is never used", d.name))
            }
            _ => continue,
        };
        let enclosing = Some(id);
        warn(
            checked,
            diagnostics,
            enclosing,
            Diagnostic::warning(Warning::Unused, name.span, message),
        );
    }
}

fn in_instance(checked: &CheckedProgram, def: &Def) -> bool {
    def.parent.is_some_and(|p| {
        matches!(
            checked.opt_def(p).map(|d| &d.kind),
            Some(DefKind::Instance(_))
        )
    })
}

/// Whether an unused instance is worth a warning. Packages at the top level are used by the target, and instances inside instances by the
/// extern.
fn expects_use(checked: &CheckedProgram, def: &Def, id: DeclId) -> bool {
    let package = matches!(checked.decl_type(id), Some(Type::Package(_)));
    let top = def.parent.is_none();
    !((package && top) || in_instance(checked, def))
}
