//! Tables, with their actions and properties.

use std::collections::BTreeMap;
use std::rc::Rc;

use num_bigint::BigInt;

use super::call::Argument;
use super::frame::{ControlInstance, ExternObject, Frame, Instance, TableInfo};
use super::instance::InstanceName;
use super::keys::Keys;
use super::{join, Elaborator};
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::{
    self, mask, ActionId, ActionRef, ActionScope, DefaultAction, Scalar, Table, TableId,
};
use crate::passes::annotations::{field_annotations, full_name};
use crate::passes::externs::call::{InstanceId, TableObjects};
use crate::sema::{Callee, DefKind};
use crate::syntax::ast::{
    ActionRef as AstActionRef, Annotated, Decl, DeclId, Direction, Expr, ExprKind, Name, TableDecl,
    TableProperty, TablePropertyValue,
};

impl Elaborator<'_> {
    /// The table of a control instance, elaborated on first use. `None` if `id` is not a table.
    pub fn table(
        &mut self,
        id: DeclId,
        instance: &Rc<ControlInstance>,
        frame: &Rc<Frame>,
    ) -> Option<TableInfo> {
        if let Some(info) = instance.state.borrow().tables.get(&id) {
            return Some(info.clone());
        }
        let DefKind::Table(decl) = &self.checked.def(id).kind else {
            return None;
        };
        let decl = Rc::clone(decl);
        let name = full_name(&instance.name, &decl.annotations, &decl.name.name);
        let meta = self.named_meta("table", name, &decl.annotations, decl.name.span);
        let table = TableId::from(self.program.tables.len());
        self.program.tables.push(Table {
            algorithmic: (decl.annotations.annotation("alpm")).map(|_| ir::Partitions::ALPM),
            ..Table::new(meta)
        });
        let properties = self.properties(table, &decl, frame);
        let Keys {
            keys,
            computed,
            selectors,
        } = self.keys(&decl, frame);
        self.program.tables[table.index()].keys = keys;
        let mut actions = Vec::new();
        for reference in decl.actions() {
            let Some(Callee::Action(action)) =
                self.checked.call(reference.call).map(|info| info.callee)
            else {
                self.impossible(reference.span, "an element of `actions` is not an action");
                continue;
            };
            if let Some(made) = self.action_reference(reference, action, instance, frame) {
                actions.push((action, made.action));
                self.program.tables[table.index()].actions.push(made);
            }
        }
        self.default_action(table, &decl, &mut actions, instance, frame);
        self.check_action_names(table, &actions);
        self.entries(table, &decl, &actions, frame);
        self.into.externs.tables.push(TableObjects {
            table,
            properties,
            selectors,
        });
        let info = TableInfo {
            id: table,
            computed,
            actions,
        };
        instance.state.borrow_mut().tables.insert(id, info.clone());
        Some(info)
    }

    /// Reports two actions of a table with the same control-plane name, as the switch selects successors by name. If P4Info is generated,
    /// names must be unique in the whole program, which is checked when an action is elaborated.
    fn check_action_names(&mut self, table: TableId, actions: &[(DeclId, ActionId)]) {
        if self.options.actions_need_names {
            return;
        }
        let mut known: BTreeMap<String, DeclId> = BTreeMap::new();
        for (decl, action) in actions {
            let name = self.program.action(*action).meta.name.clone();
            let first = *known.entry(name.clone()).or_insert(*decl);
            if first == *decl {
                continue;
            }
            let place = |id: DeclId| match &self.checked.def(id).kind {
                DefKind::Action(decl) => decl.name.span,
                _ => Span::default(),
            };
            let table = &self.program.tables[table.index()].meta.name;
            let message = format!(
                "action `{name}`: another action of table `{table}` has this control-plane name"
            );
            let what = Diagnostic::error(Code::DUPLICATE, place(*decl), message)
                .other(place(first), "the other one")
                .help("give one of them another `@name`");
            self.diagnostics.report(what);
        }
    }

    /// Elaborates an element of a table's `actions` list; `None` after a reported error.
    fn action_reference(
        &mut self,
        reference: &AstActionRef,
        action: DeclId,
        instance: &Rc<ControlInstance>,
        frame: &Rc<Frame>,
    ) -> Option<ActionRef> {
        let checked = self.checked;
        let args = reference.args.as_deref().unwrap_or_default();
        let action =
            self.table_action(action, checked.call(reference.call), args, instance, frame)?;
        let scope = match () {
            () if reference.annotations.annotation("tableonly").is_some() => ActionScope::TableOnly,
            () if reference.annotations.annotation("defaultonly").is_some() => {
                ActionScope::DefaultOnly
            }
            () => ActionScope::TableAndDefault,
        };
        let (_, annotations, structured) =
            field_annotations(self.checked, self.diagnostics, &reference.annotations);
        Some(ActionRef {
            action,
            scope,
            annotations,
            structured,
        })
    }

    /// Sets the default action of a table, which is `NoAction` if the table has no `default_action` property.
    fn default_action(
        &mut self,
        table: TableId,
        decl: &TableDecl,
        actions: &mut Vec<(DeclId, ActionId)>,
        instance: &Rc<ControlInstance>,
        frame: &Rc<Frame>,
    ) {
        if let Some((property, reference)) = decl.default_action() {
            let Some(Callee::Action(action)) =
                self.checked.call(reference.call).map(|info| info.callee)
            else {
                self.impossible(reference.span, "a default action is not an action");
                return;
            };
            let known = actions
                .iter()
                .find(|(known, _)| *known == action)
                .map(|(_, id)| *id);
            let id = match known {
                Some(id) => id,
                None => {
                    // The checker requires the default action in the list, except `NoAction`.
                    match self.table_action(action, None, &[], instance, frame) {
                        Some(id) => {
                            self.add_default_only(table, id);
                            actions.push((action, id));
                            id
                        }
                        None => return,
                    }
                }
            };
            let args = self.action_arguments(reference, frame);
            let entry = &mut self.program.tables[table.index()];
            entry.default = DefaultAction {
                action: id,
                args,
                constant: property.is_const,
            };
            return;
        }
        let Some(no_action) = self.no_action() else {
            return;
        };
        let known = actions
            .iter()
            .find(|(known, _)| *known == no_action)
            .map(|(_, id)| *id);
        let id = match known {
            Some(id) => id,
            None => match self.table_action(no_action, None, &[], instance, frame) {
                Some(id) => {
                    self.add_default_only(table, id);
                    actions.push((no_action, id));
                    id
                }
                None => return,
            },
        };
        self.program.tables[table.index()].default.action = id;
    }

    /// Adds an action to a table's list that only the default action may use.
    fn add_default_only(&mut self, table: TableId, action: ActionId) {
        self.program.tables[table.index()].actions.push(ActionRef {
            action,
            scope: ActionScope::DefaultOnly,
            annotations: vec!["@defaultonly".to_owned()],
            structured: Vec::new(),
        });
    }

    /// The declaration of `NoAction` in core.p4.
    fn no_action(&self) -> Option<DeclId> {
        self.checked
            .program
            .decls
            .iter()
            .find_map(|decl| match decl {
                Decl::Action(decl) if &*decl.name.name == "NoAction" => Some(decl.id),
                _ => None,
            })
    }

    /// Values of the run-time parameters in a default action or entry, truncated to the parameters' widths.
    pub fn action_arguments(&mut self, reference: &AstActionRef, frame: &Rc<Frame>) -> Vec<BigInt> {
        let checked = self.checked;
        let Some(info) = checked.call(reference.call) else {
            return Vec::new();
        };
        let args = reference.args.as_deref().unwrap_or_default();
        let mut values = Vec::new();
        for bound in self.arguments(info, args, frame) {
            if bound.direction != Direction::None {
                continue;
            }
            let Argument::Value(data) = &bound.argument else {
                continue;
            };
            let width = self.scalar(&bound.ty).map_or(1, Scalar::width);
            match data.constant() {
                Some(value) => values.push(value & mask(width)),
                None => {
                    self.error(
                        Code::NOT_CONSTANT,
                        bound.span,
                        "the argument must be known at compile time",
                    );
                    values.push(BigInt::ZERO);
                }
            }
        }
        values
    }

    /// Evaluates the properties of a table. Returns the properties that name extern objects, with the objects and the positions of the
    /// values; an object is `None` if the value is not an object.
    fn properties(
        &mut self,
        table: TableId,
        decl: &TableDecl,
        frame: &Rc<Frame>,
    ) -> Vec<(Name, Option<InstanceId>, Span)> {
        let objects_of_target = self.options.arch.target().object_properties();
        let mut objects = Vec::new();
        for property in &decl.properties {
            let TablePropertyValue::Expr(value) = &property.value else {
                continue;
            };
            match &*property.name.name {
                "size" => {
                    // A size of 0 is the default size.
                    let size = self.eval_constant(value, frame).ok();
                    if let Some(size) = size.filter(|size| *size != BigInt::ZERO) {
                        let table = &mut self.program.tables[table.index()];
                        table.size = u64::try_from(&size).unwrap_or(u64::MAX >> 1);
                        table.sized = true;
                    }
                }
                // Two names of one property.
                "support_timeout" | "idle_timeout" => {
                    let on = self
                        .eval(value, frame)
                        .constant()
                        .is_some_and(|value| value != BigInt::ZERO);
                    self.program.tables[table.index()].support_timeout = on;
                }
                name if objects_of_target.contains(&name) => {
                    let object = self.property_object(property, value, decl, frame);
                    objects.push((Rc::clone(&property.name.name), object, value.span));
                }
                // Properties of priorities are evaluated with the entries. The checker has warned of unknown properties.
                _ => {}
            }
        }
        objects
    }

    /// The extern object that a property names or constructs; `None` if the value is not an object.
    fn property_object(
        &mut self,
        property: &TableProperty,
        value: &Expr,
        decl: &TableDecl,
        frame: &Rc<Frame>,
    ) -> Option<InstanceId> {
        let instance = match &value.kind {
            ExprKind::Call(call) => {
                let checked = self.checked;
                let info = checked.call(value.id)?;
                // As in p4c, an implicit object has the name of the property, and profiles are numbered.
                let own = match &*property.name.name {
                    "implementation" => {
                        self.implicit_profiles += 1;
                        format!("action_profile_{}", self.implicit_profiles - 1)
                    }
                    other => join(&frame.name, &join(&decl.name.name, other)),
                };
                let name = InstanceName {
                    name: full_name("", &property.annotations, &own),
                    annotations: &property.annotations,
                    span: value.span,
                };
                self.construct(info, &call.args, name, frame)
            }
            _ => self.instance_of(value, frame),
        };
        match instance? {
            Instance::Extern(ExternObject::Object(id)) => Some(id),
            _ => None,
        }
    }
}
