//! Evaluation of table entries. The pass [`crate::passes::entries`] converts them to the match kinds of the key.

use std::rc::Rc;

use num_bigint::BigInt;

use super::frame::Frame;
use super::Elaborator;
use crate::diag::{Span, Warning};
use crate::ir::{ActionId, TableId};
use crate::passes::annotations;
use crate::passes::inlined::{KeysetElement, TableEntries, WrittenEntry};
use crate::sema::Callee;
use crate::syntax::ast::{
    Annotated, DeclId, Entry, Expr, ExprKind, TableDecl, TableProperty, TablePropertyValue,
};

impl Elaborator<'_> {
    /// Evaluates the entries of a table, whose key and actions are elaborated already.
    pub fn entries(
        &mut self,
        table: TableId,
        decl: &TableDecl,
        actions: &[(DeclId, ActionId)],
        frame: &Rc<Frame>,
    ) {
        let Some((property, entries)) = decl.entries() else {
            return;
        };
        let mut list = Vec::with_capacity(entries.len());
        for entry in entries {
            list.extend(self.entry(table, entry, actions, frame));
        }
        let mut setting = |name: &str| match decl.property(name).map(|property| &property.value) {
            Some(TablePropertyValue::Expr(value)) => self.eval(value, frame).constant(),
            _ => None,
        };
        let largest_wins =
            setting("largest_priority_wins").is_none_or(|value| value != BigInt::ZERO);
        let priority_delta = setting("priority_delta").unwrap_or_else(|| BigInt::from(1));
        self.into.entries.push(TableEntries {
            table,
            list,
            constant: property.is_const,
            largest_wins,
            priority_delta,
            silenced: silenced(decl),
        });
    }

    /// Evaluates an entry; `None` after a reported error.
    fn entry(
        &mut self,
        table: TableId,
        entry: &Entry,
        actions: &[(DeclId, ActionId)],
        frame: &Rc<Frame>,
    ) -> Option<WrittenEntry> {
        let Callee::Action(action) = self.checked.call(entry.action.call)?.callee else {
            return None;
        };
        let (_, action) = actions.iter().find(|(known, _)| *known == action)?;
        let annotated_priority = (entry.annotations.annotation("priority"))
            .and_then(|annotation| annotations::number(self.checked, annotation.exprs()?.first()?));
        let priority =
            (entry.priority.as_ref()).and_then(|expr| self.eval_constant(expr, frame).ok());
        Some(WrittenEntry {
            elements: self.elements_of(&entry.keyset, table, frame)?,
            action: *action,
            args: self.action_arguments(&entry.action, frame),
            priority,
            annotated_priority,
            constant: entry.is_const,
            source: self.source(entry.span),
            span: entry.span,
            keyset_span: entry.keyset.span,
        })
    }

    /// The elements of an entry's keyset, with their positions; `None` after a reported error.
    fn elements_of(
        &mut self,
        keyset: &Expr,
        table: TableId,
        frame: &Rc<Frame>,
    ) -> Option<Vec<(KeysetElement, Span)>> {
        let elements: Vec<&Expr> = match &keyset.kind {
            ExprKind::Keyset(elements) | ExprKind::List(elements) => elements.iter().collect(),
            // `_` or `default` stands for all elements of the key.
            ExprKind::DontCare(_) => {
                vec![keyset; self.program.tables[table.index()].keys.len()]
            }
            _ => vec![keyset],
        };
        elements
            .iter()
            .map(|element| Some((self.keyset_element(element, frame)?, element.span)))
            .collect()
    }

    /// An element of a keyset; `None` after a reported error if it is not constant.
    pub fn keyset_element(&mut self, element: &Expr, frame: &Rc<Frame>) -> Option<KeysetElement> {
        Some(match &element.kind {
            ExprKind::DontCare(_) => KeysetElement::Any,
            ExprKind::Mask(value, bits) => KeysetElement::Mask(
                self.eval_constant(value, frame).ok()?,
                self.eval_constant(bits, frame).ok()?,
            ),
            ExprKind::Range(low, high) => KeysetElement::Range(
                self.eval_constant(low, frame).ok()?,
                self.eval_constant(high, frame).ok()?,
            ),
            _ => KeysetElement::Value(self.eval_constant(element, frame).ok()?),
        })
    }
}

/// Warnings about priorities that `@noWarn` disables, on the table or on its list of entries.
fn silenced(decl: &TableDecl) -> Vec<Warning> {
    let is_entries =
        |property: &&TableProperty| matches!(property.value, TablePropertyValue::Entries(_));
    let property = decl.properties.iter().find(is_entries);
    let of_entries = property.map_or(&[][..], |property| &property.annotations);
    [Warning::EntriesOutOfOrder, Warning::DuplicatePriorities]
        .into_iter()
        .filter(|warning| {
            let mut all = of_entries.iter().chain(&decl.annotations);
            all.any(|annotation| annotation.silences(*warning))
        })
        .collect()
}
