//! The fields and variables that expressions denote and statements write.

use crate::sema::{CheckedProgram, Resolution};
use crate::syntax::ast::{DeclId, Expr, ExprKind, Name};

/// A variable or parameter, or a member of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    /// The variable or parameter.
    pub(super) decl: DeclId,
    /// Names of the members from the variable inwards; empty for the whole variable.
    members: Vec<Name>,
}

impl Target {
    /// The whole of a variable.
    pub(super) fn variable(decl: DeclId) -> Target {
        Target {
            decl,
            members: Vec::new(),
        }
    }

    /// The target that an expression denotes: a name, or members of one. `None` for other expressions.
    pub(super) fn of(checked: &CheckedProgram, expr: &Expr) -> Option<Target> {
        let mut members = Vec::new();
        let mut root = expr;
        while let ExprKind::Member(base, member) = &root.kind {
            members.push(member.name.clone());
            root = base;
        }
        members.reverse();
        match (&root.kind, checked.resolution(root)) {
            (ExprKind::Name(_), Resolution::Decl(decl)) => Some(Target { decl, members }),
            _ => None,
        }
    }

    /// The smallest target that contains what an lvalue denotes: for a slice, the field; for an element of a stack, the stack.
    pub(super) fn containing(checked: &CheckedProgram, lvalue: &Expr) -> Option<Target> {
        let mut whole = lvalue;
        let mut part = lvalue;
        loop {
            part = match &part.kind {
                ExprKind::Member(base, _) => base,
                ExprKind::Slice { base, .. }
                | ExprKind::SlicePlus { base, .. }
                | ExprKind::Index(base, _) => {
                    whole = base;
                    base
                }
                _ => return Target::of(checked, whole),
            };
        }
    }

    /// Whether this target is `other` or contains it as a member.
    pub(super) fn covers(&self, other: &Target) -> bool {
        self.decl == other.decl && other.members.starts_with(&self.members)
    }

    /// Whether the targets are equal, or one contains the other.
    pub(super) fn overlaps(&self, other: &Target) -> bool {
        self.covers(other) || other.covers(self)
    }
}
