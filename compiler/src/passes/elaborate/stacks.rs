//! `next` and `last` of header stacks in parser states, with the bounds checks of the language (P4_16 spec § 8.18).

use std::rc::Rc;

use super::frame::{Binding, Frame};
use super::Elaborator;
use crate::diag::Span;
use crate::ir::walk;
use crate::ir::{self, Effect, HeaderPlace, Scalar, Take};
use crate::passes::builder::data::Place;
use crate::passes::inlined::{Pending, Stmt, StmtKind};
use crate::sema::Resolution;
use crate::syntax::ast::{Expr, ExprKind};

/// Maximum number of preceding statements that are searched for a proof that a stack is not empty. The bound keeps the analysis linear.
const MAX_SEARCHED: usize = 64;

/// The effect of a statement on the knowledge that a stack has a last element.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The stack has a last element after the statement.
    Exists,
    /// The stack may be empty after the statement.
    Unknown,
    /// The statement does not remove elements.
    Unchanged,
}

impl Elaborator<'_> {
    /// The storage of `stack.next` outside `extract`: the element at `nextIndex`. Emits a bounds check; the parser
    /// rejects the packet if the check fails. Places other than a next element are returned unchanged.
    pub fn next_element(&mut self, next: Place, span: Span, frame: &Rc<Frame>) -> Place {
        let storage = &self.program.storage;
        let (stack, elements): (Place, Vec<Place>) = match next {
            Place::Next(id) => {
                let elements = storage.stack(id).elements.iter();
                let place = |header: &ir::HeaderId| Place::Header(HeaderPlace::Fixed(*header));
                (Place::Stack(id), elements.map(place).collect())
            }
            Place::NextUnion(id) => {
                let elements = storage.union_stack(id).elements.iter();
                (
                    Place::UnionStack(id),
                    elements.map(|union| Place::Union(*union)).collect(),
                )
            }
            Place::NextMember(id, member) => {
                let elements = storage.union_stack(id).elements.iter();
                let place = |union: &ir::UnionId| {
                    let header = storage.union(*union).members[member as usize];
                    Place::Header(HeaderPlace::Fixed(header))
                };
                (Place::UnionStack(id), elements.map(place).collect())
            }
            other => return other,
        };
        let one = ir::Expr::bits(1, 32);
        let index = ir::Expr::binary(ir::BinaryOp::Add, last_index(&stack), one);
        let index = self.save_value(index, span, &frame.name);
        self.verify_below(index.clone(), elements.len(), span);
        Place::Dynamic {
            index: Box::new(index),
            elements,
        }
    }

    /// The storage of `stack.last`. Unless the stack is known to have a last element, emits a check; the parser rejects
    /// the packet if the check fails.
    pub fn last_element(&mut self, stack: Place, span: Span) -> Place {
        let (last, size) = match stack {
            Place::Stack(id) => (
                Place::Header(HeaderPlace::Last(id)),
                self.program.storage.stack(id).elements.len(),
            ),
            Place::UnionStack(id) => (
                Place::LastUnion(id),
                self.program.storage.union_stack(id).elements.len(),
            ),
            _ => return self.no_place(span, "`last` is not that of a stack"),
        };
        if !has_last(&self.out, &stack) {
            self.verify_below(last_index(&stack), size, span);
        }
        last
    }

    /// Emits a `verify` that an index is less than the size of a stack.
    fn verify_below(&mut self, index: ir::Expr, size: usize, span: Span) {
        let end = ir::Expr::number(size, Scalar::Bit(32));
        let below = ir::Expr::binary(ir::BinaryOp::Lt, index, end);
        self.verify(below, "StackOutOfBounds", span);
    }

    /// The destination of `extract`. For `stack.next`, the target checks the bounds and advances `nextIndex`.
    pub fn extracted_place(&mut self, expr: &Expr, frame: &Rc<Frame>) -> Place {
        match &expr.kind {
            ExprKind::Name(_) => {
                if let Some(place) = self.bound_next(expr, frame) {
                    return place;
                }
            }
            ExprKind::Member(base, member) => {
                if self.checked.resolution(expr) == Resolution::StackNext {
                    return match self.place(base, frame) {
                        Place::Stack(id) => Place::Next(id),
                        Place::UnionStack(id) => Place::NextUnion(id),
                        _ => self.no_place(expr.span, "`next` is not that of a stack"),
                    };
                }
                let is_next = self.checked.resolution(base) == Resolution::StackNext
                    || self.bound_next(base, frame).is_some();
                if is_next {
                    let next = self.extracted_place(base, frame);
                    let ty = self.type_of(base, frame);
                    return self.member_place(next, &ty, &member.name, expr.span);
                }
            }
            _ => {}
        }
        self.place(expr, frame)
    }

    /// The storage of a parameter that aliases the next element of a stack; `None` for other expressions.
    fn bound_next(&self, expr: &Expr, frame: &Rc<Frame>) -> Option<Place> {
        let (ExprKind::Name(_), Resolution::Decl(id)) = (&expr.kind, self.checked.resolution(expr))
        else {
            return None;
        };
        match frame.find(id) {
            Some(Binding::Place(place)) if is_next(&place) => Some(place),
            _ => None,
        }
    }
}

/// Whether a place is the next element of a stack or a member of it, which is not extracted yet.
pub fn is_next(place: &Place) -> bool {
    matches!(
        place,
        Place::Next(_) | Place::NextUnion(_) | Place::NextMember(..)
    )
}

/// `stack.lastIndex`, which is 2^32 - 1 if the stack is empty.
fn last_index(stack: &Place) -> ir::Expr {
    match stack {
        Place::UnionStack(id) => ir::Expr::UnionLastIndex(*id),
        Place::Stack(id) => ir::Expr::LastIndex(*id),
        _ => ir::Expr::bits(0, 32),
    }
}

/// Whether a stack is known to have a last element at the end of a body.
fn has_last(body: &[Stmt], stack: &Place) -> bool {
    let proofs = body.iter().rev().take(MAX_SEARCHED);
    let decided = proofs
        .map(|stmt| proof(stmt, stack))
        .find(|proof| *proof != Proof::Unchanged);
    decided == Some(Proof::Exists)
}

/// The effect of a statement, including nested ones, on the knowledge that `stack` has a last element.
fn proof(stmt: &Stmt, stack: &Place) -> Proof {
    if let Some(known) = simple_proof(&stmt.kind, stack) {
        return known;
    }
    // A sub-parser, a call or a nested statement may remove elements of the stack.
    if matches!(
        stmt.kind,
        StmtKind::Own(Pending::Enter { .. } | Pending::Call(_))
    ) {
        return Proof::Unknown;
    }
    let mut shorter = false;
    walk(std::slice::from_ref(stmt), &mut |inner| {
        shorter |= matches!(
            inner.kind,
            StmtKind::Own(Pending::Enter { .. } | Pending::Call(_)) | StmtKind::Break(_)
        ) || simple_proof(&inner.kind, stack) == Some(Proof::Unknown);
    });
    match shorter {
        true => Proof::Unknown,
        false => Proof::Unchanged,
    }
}

/// The effect of a statement, without nested ones, on the knowledge that `stack` has a last element; `None` if it does
/// not access the stack.
fn simple_proof(kind: &StmtKind, stack: &Place) -> Option<Proof> {
    match (kind, stack) {
        (StmtKind::Own(Pending::Take(Take::ExtractNext { target, .. })), Place::Stack(id))
            if target == id =>
        {
            Some(Proof::Exists)
        }
        (
            StmtKind::Own(Pending::Take(Take::ExtractNextMember { target, .. })),
            Place::UnionStack(id),
        ) if target == id => Some(Proof::Exists),
        (StmtKind::Own(Pending::Take(Take::Verify { cond, .. })), _) => {
            let ir::Expr::Binary { op, left, right } = cond else {
                return None;
            };
            let is_check = *op == ir::BinaryOp::Lt
                && **left == last_index(stack)
                && matches!(**right, ir::Expr::Number { .. });
            is_check.then_some(Proof::Exists)
        }
        (StmtKind::Effect(effect), Place::Stack(id)) => match effect {
            Effect::Pop { target, .. } | Effect::AssignStack { target, .. } if target == id => {
                Some(Proof::Unknown)
            }
            _ => None,
        },
        (StmtKind::Effect(effect), Place::UnionStack(id)) => match effect {
            Effect::PopUnion { target, .. } | Effect::AssignUnionStack { target, .. }
                if target == id =>
            {
                Some(Proof::Unknown)
            }
            _ => None,
        },
        _ => None,
    }
}
