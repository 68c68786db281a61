//! Attachment of the objects that table properties name.

use super::call::TableObjects;
use super::{LoweredObject, Lowering};
use crate::diag::Span;
use crate::ir::TableId;

impl Lowering<'_> {
    /// Attaches the objects that a table's properties name: action profile, direct counter, direct meter and others.
    pub fn attach(&mut self, objects: TableObjects) {
        let TableObjects {
            table,
            properties,
            selectors,
        } = objects;
        for (property, object, span) in properties {
            let object = object.map(|id| self.lowered_object(id));
            if !matches!(object, Some(LoweredObject::Invalid(_))) {
                self.attach_object(table, &property, object, span);
            }
        }
        let Some(profile) = self.program.tables[table.index()].implementation else {
            return;
        };
        // The first table that uses a selector determines the inputs of its hash.
        if let Some(selector) = &mut self.program.action_profiles[profile.index()].selector {
            if selector.inputs.is_empty() {
                selector.inputs = selectors;
            }
        }
    }

    /// Attaches an object to a table, or reports that the property does not support it.
    fn attach_object(
        &mut self,
        table: TableId,
        property: &str,
        object: Option<LoweredObject>,
        span: Span,
    ) {
        let target = self.options.arch.target();
        if target.attach(self, table, property, object, span) {
            return;
        }
        match (property, object) {
            ("implementation", Some(LoweredObject::ActionProfile(id))) => {
                self.program.tables[table.index()].implementation = Some(id);
                self.program.action_profiles[id.index()].tables.push(table);
            }
            ("implementation", _) => {
                self.target(
                    span,
                    "implementation must be an action_profile or action_selector",
                );
            }
            ("counters", Some(LoweredObject::DirectCounter(id))) => {
                self.program.tables[table.index()].counter = Some(id);
                let first = self.program.counters[id.index()].table.replace(table);
                self.attached_twice(first, table, span);
            }
            ("counters", _) => {
                self.target(span, "counters must be a direct_counter");
            }
            ("meters", Some(LoweredObject::DirectMeter(id))) => {
                self.program.tables[table.index()].meter = Some(id);
                let first = self.program.meters[id.index()].table.replace(table);
                self.attached_twice(first, table, span);
            }
            ("meters", _) => {
                self.target(span, "meters must be a direct_meter");
            }
            _ => {
                self.impossible(span, "a property of a table does not name objects");
            }
        }
    }

    /// Reports a direct counter or meter that two tables name.
    fn attached_twice(&mut self, first: Option<TableId>, second: TableId, span: Span) {
        if let Some(first) = first.filter(|first| *first != second) {
            let name = &self.program.tables[first.index()].meta.name;
            let what = format!(
                "this is already attached to table {name}; it can be attached to one table only"
            );
            self.target(span, what);
        }
    }
}
