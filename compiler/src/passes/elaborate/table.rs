//! Tables and their properties.

use std::rc::Rc;

use num_bigint::BigInt;

use super::call::Argument;
use super::frame::{ControlInstance, ExternObject, Frame, Instance, TableInfo};
use super::instance::InstanceName;
use super::{join, Elaborator};
use crate::diag::{Code, Diagnostic, Span, Warning};
use crate::ir::{
    self, mask, ActionId, ActionRef, ActionScope, DefaultAction, Effect, Key, KeyTarget, MatchKind,
    Scalar, Table, TableId,
};
use crate::passes::annotations::{documentation, field_annotations, full_name};
use crate::passes::builder::data::Data;
use crate::sema::{Callee, DefKind, Resolution, Type, Value};
use crate::syntax::ast::{
    ActionRef as AstActionRef, Annotated, Annotation, BinaryOp, Decl, DeclId, Direction, Expr,
    ExprKind, KeyElement, TableDecl, TableProperty, TablePropertyValue,
};

impl Elaborator<'_> {
    /// A table of a control, made on first use.
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
        self.properties(table, &decl, frame);
        let (keys, computed, selectors) = self.keys(&decl, frame);
        self.program.tables[table.index()].keys = keys;
        let mut actions = Vec::new();
        for reference in decl.actions() {
            let Some(Callee::Action(action)) =
                self.checked.call(reference.call).map(|info| info.callee)
            else {
                continue;
            };
            if let Some(made) = self.action_reference(reference, action, instance, frame) {
                actions.push((action, made.action));
                self.program.tables[table.index()].actions.push(made);
            }
        }
        self.default_action(table, &decl, &mut actions, instance, frame);
        self.entries(table, &decl, &actions, frame);
        self.selector(table, &selectors);
        let info = TableInfo {
            id: table,
            computed,
            actions,
        };
        instance.state.borrow_mut().tables.insert(id, info.clone());
        Some(info)
    }

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

    /// The default action; `NoAction` when none is given.
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
                return;
            };
            let known = actions
                .iter()
                .find(|(known, _)| *known == action)
                .map(|(_, id)| *id);
            let id = match known {
                Some(id) => id,
                None => {
                    // The checker asks for it to be listed; a default of NoAction may go without.
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
            if entry.implementation.is_some() && self.no_action() != Some(action) {
                let what = Diagnostic::warning(
                    Warning::Ignore,
                    property.span,
                    "this target has no default action for tables with an action profile; a miss does nothing",
                );
                self.diagnostics.report(what);
            }
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

    fn add_default_only(&mut self, table: TableId, action: ActionId) {
        self.program.tables[table.index()].actions.push(ActionRef {
            action,
            scope: ActionScope::DefaultOnly,
            annotations: vec!["@defaultonly".to_owned()],
            structured: Vec::new(),
        });
    }

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

    /// Run-time arguments of a default action or entry.
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

    fn keys(
        &mut self,
        decl: &TableDecl,
        frame: &Rc<Frame>,
    ) -> (Vec<Key>, Vec<(usize, ir::FieldRef)>, Vec<ir::FieldRef>) {
        let (mut keys, mut computed, mut selectors) = (Vec::new(), Vec::new(), Vec::new());
        for (position, element) in decl.key().iter().enumerate() {
            let ty = self.type_as_used(&element.expr, frame);
            let Some(scalar) = self.scalar(&ty) else {
                self.target(
                    element.expr.span,
                    format!("a key must be a number on this target, not {ty}"),
                );
                continue;
            };
            let (target, key_mask) = match self.direct_key(&element.expr, frame) {
                Some(direct) => direct,
                None => {
                    let field = self.temporary(&frame.name, "key", scalar);
                    computed.push((position, field));
                    (KeyTarget::Field(field), None)
                }
            };
            if &*element.match_kind.name == "selector" {
                let field = match (target, key_mask) {
                    (KeyTarget::Field(field), None) => field,
                    _ => {
                        let field = self.temporary(&frame.name, "key", scalar);
                        computed.push((position, field));
                        field
                    }
                };
                selectors.push(field);
                continue;
            }
            keys.push(self.key(element, decl, target, key_mask, (&ty, scalar)));
        }
        let prefixes = keys.iter().filter(|key| key.kind == MatchKind::Lpm).count();
        let others = |key: &Key| !matches!(key.kind, MatchKind::Exact | MatchKind::Lpm);
        if prefixes > 1 && !keys.iter().any(others) {
            let what = "a table has one key at most that is matched by its longest prefix";
            self.target(decl.name.span, what);
        }
        (keys, computed, selectors)
    }

    fn key(
        &mut self,
        element: &KeyElement,
        decl: &TableDecl,
        target: KeyTarget,
        mask: Option<BigInt>,
        (ty, scalar): (&Type, Scalar),
    ) -> Key {
        let kind = match &*element.match_kind.name {
            "exact" => MatchKind::Exact,
            "lpm" => MatchKind::Lpm,
            "ternary" => MatchKind::Ternary,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            other => {
                let message = format!("this target has no match kind {other}");
                self.target(element.match_kind.span, message);
                MatchKind::Exact
            }
        };
        let name = match element
            .annotations
            .annotation("name")
            .and_then(|annotation| annotation.string())
        {
            Some(name) => name.to_owned(),
            None => self.key_name(&element.expr).unwrap_or_else(|| {
                let what = Diagnostic::error(
                    Code::TABLE_RULE,
                    element.expr.span,
                    format!(
                        "the control plane needs a name for this key of table {}",
                        decl.name
                    ),
                )
                .help("add one: @name(\"...\")");
                self.diagnostics.report(what);
                String::new()
            }),
        };
        let (control_width, type_name) = self.control_type(ty);
        let (brief, description) = documentation(&element.annotations);
        let (id, annotations, structured) =
            field_annotations(self.checked, self.diagnostics, &element.annotations);
        Key {
            name,
            target,
            width: scalar.width(),
            mask,
            kind,
            signed: scalar.signed(),
            control_width,
            type_name,
            id,
            annotations,
            structured,
            brief,
            description,
        }
    }

    /// A key that BMv2 can read where it is: a field, perhaps under a constant mask, or a header's validity.
    fn direct_key(
        &mut self,
        expr: &Expr,
        frame: &Rc<Frame>,
    ) -> Option<(KeyTarget, Option<BigInt>)> {
        if let (ExprKind::Binary(BinaryOp::BitAnd, left, right), None) =
            (&expr.kind, self.checked.value(expr))
        {
            let constant = self.checked.value(right)?;
            let (target, None) = self.direct_key(left, frame)? else {
                return None;
            };
            return Some((target, Some(constant.as_int()?.clone())));
        }
        let is_valid = matches!(
            self.checked.call(expr.id).map(|info| info.callee),
            Some(Callee::Builtin(crate::sema::BuiltinMethod::IsValid))
        );
        if !is_valid && !self.is_path(expr, frame) {
            return None;
        }
        let mut data = Data::Invalid;
        let code = self.block(|this| data = this.eval(expr, frame));
        if !code.is_empty() {
            return None;
        }
        match data {
            Data::Scalar(ir::Expr::Field { place, .. }) => {
                Some((KeyTarget::Field(place.fixed()?), None))
            }
            Data::Scalar(ir::Expr::Valid(ir::HeaderPlace::Fixed(header))) => {
                Some((KeyTarget::Valid(header), None))
            }
            _ => None,
        }
    }

    /// Stores the keys that are computed, before the table is applied.
    pub fn compute_keys(&mut self, id: DeclId, info: &TableInfo, frame: &Rc<Frame>) {
        let DefKind::Table(decl) = &self.checked.def(id).kind else {
            return;
        };
        let decl = Rc::clone(decl);
        for (position, field) in &info.computed {
            if let Some(element) = decl.key().get(*position) {
                let value = self.eval_scalar(&element.expr, frame);
                self.emit(
                    element.expr.span,
                    Effect::Assign {
                        target: (*field).into(),
                        value,
                    },
                );
            }
        }
    }

    /// The name of a key without `@name`: the expression as written; none when it is too complex.
    fn key_name(&self, expr: &Expr) -> Option<String> {
        Some(match &expr.kind {
            ExprKind::Name(path) => match self.checked.resolution(expr) {
                // Constants stand there with their values.
                Resolution::Decl(id) => match &self.checked.def(id).kind {
                    DefKind::Const(constant) => {
                        match (&constant.value.kind, &self.checked.info(expr.id).value) {
                            (ExprKind::Int(_), _) => self.key_name(&constant.value)?,
                            (_, Some(Value::Int(value))) => value.to_string(),
                            _ => return None,
                        }
                    }
                    _ => path.name.name.to_string(),
                },
                _ => path.name.name.to_string(),
            },
            ExprKind::Member(base, member) => {
                let field = match self.checked.resolution(expr) {
                    Resolution::Decl(id) => match &self.checked.def(id).kind {
                        DefKind::Field(field, _) => Some(field),
                        _ => None,
                    },
                    _ => None,
                };
                let given = field
                    .and_then(|field| field.annotations.annotation("name"))
                    .and_then(Annotation::string);
                match given.and_then(|given| given.strip_prefix('.')) {
                    Some(absolute) => absolute.to_owned(),
                    None => join(&self.key_name(base)?, given.unwrap_or(&member.name)),
                }
            }
            ExprKind::Index(base, index) => {
                format!("{}[{}]", self.key_name(base)?, self.key_name(index)?)
            }
            ExprKind::Slice { base, hi, lo } => {
                format!(
                    "{}[{}:{}]",
                    self.key_name(base)?,
                    self.key_name(hi)?,
                    self.key_name(lo)?
                )
            }
            ExprKind::Int(literal) => match literal.base {
                16 => format!("0x{:x}", literal.value),
                8 => format!("0o{:o}", literal.value),
                2 => format!("0b{:b}", literal.value),
                _ => literal.value.to_string(),
            },
            ExprKind::Binary(BinaryOp::BitAnd, left, right) => {
                format!("{} & {}", self.key_name(left)?, self.key_name(right)?)
            }
            ExprKind::Call(call) => {
                let valid = matches!(
                    self.checked.call(expr.id).map(|info| info.callee),
                    Some(Callee::Builtin(crate::sema::BuiltinMethod::IsValid))
                );
                match (valid, super::method_base(&call.callee)) {
                    (true, Some(base)) => join(&self.key_name(base)?, "$valid$"),
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// Refuses a direct counter or meter of two tables.
    fn attached_twice(&mut self, first: Option<TableId>, second: TableId, span: Span) {
        if let Some(first) = first.filter(|first| *first != second) {
            let name = &self.program.tables[first.index()].meta.name;
            let what = format!("this is attached to table {name} already, and can be to one only");
            self.target(span, what);
        }
    }

    fn properties(&mut self, table: TableId, decl: &TableDecl, frame: &Rc<Frame>) {
        for property in &decl.properties {
            let TablePropertyValue::Expr(value) = &property.value else {
                continue;
            };
            match &*property.name.name {
                "size" => {
                    // A size of 0 is none.
                    let size = self.eval_constant(value, frame);
                    if let Some(size) = size.filter(|size| *size != BigInt::ZERO) {
                        let table = &mut self.program.tables[table.index()];
                        table.size = u64::try_from(&size).unwrap_or(u64::MAX >> 1);
                        table.sized = true;
                    }
                }
                "support_timeout" => {
                    let on = self
                        .eval(value, frame)
                        .constant()
                        .is_some_and(|value| value != BigInt::ZERO);
                    self.program.tables[table.index()].support_timeout = on;
                }
                "implementation" => match self.property_object(property, value, decl, frame) {
                    Some(ExternObject::ActionProfile(id)) => {
                        self.program.tables[table.index()].implementation = Some(id);
                        self.program.action_profiles[id.index()].tables.push(table);
                    }
                    Some(ExternObject::Invalid) => {}
                    Some(ExternObject::Tofino(id)) if self.layout(id).is_some() => {
                        let layout = self.layout(id);
                        self.program.tables[table.index()].algorithmic = layout;
                    }
                    _ => self.target(
                        value.span,
                        "implementation must be an action_profile or action_selector",
                    ),
                },
                "alpm" | "atcam" if self.program.arch.is_tofino() => {
                    let layout = match self.property_object(property, value, decl, frame) {
                        Some(ExternObject::Tofino(id)) => self.layout(id),
                        _ => None,
                    };
                    self.program.tables[table.index()].algorithmic = layout;
                }
                "counters" => match self.property_object(property, value, decl, frame) {
                    Some(ExternObject::DirectCounter(id)) => {
                        self.program.tables[table.index()].counter = Some(id);
                        let first = self.program.counters[id.index()].table.replace(table);
                        self.attached_twice(first, table, value.span);
                    }
                    Some(ExternObject::Invalid) => {}
                    _ => self.target(value.span, "counters must be a direct_counter"),
                },
                "meters" => match self.property_object(property, value, decl, frame) {
                    Some(ExternObject::DirectMeter(id)) => {
                        self.program.tables[table.index()].meter = Some(id);
                        let first = self.program.meters[id.index()].table.replace(table);
                        self.attached_twice(first, table, value.span);
                    }
                    Some(ExternObject::Invalid) => {}
                    object @ Some(ExternObject::Tofino(_)) => {
                        self.attach_direct(object, table, value.span);
                    }
                    _ => self.target(value.span, "meters must be a direct_meter"),
                },
                "registers" | "filters" if self.program.arch.is_tofino() => {
                    let object = self.property_object(property, value, decl, frame);
                    self.attach_direct(object, table, value.span);
                }
                // Those of priorities belong to the entries; the checker has warned of properties that nobody knows.
                _ => {}
            }
        }
    }

    /// The extern object that a property names or makes.
    fn property_object(
        &mut self,
        property: &TableProperty,
        value: &Expr,
        decl: &TableDecl,
        frame: &Rc<Frame>,
    ) -> Option<ExternObject> {
        let instance = match &value.kind {
            ExprKind::Call(call) => {
                let checked = self.checked;
                let info = checked.call(value.id)?;
                // What a property makes is named by the property alone, as p4c does, and profiles are numbered.
                let own = match &*property.name.name {
                    "implementation" => {
                        self.own_profiles += 1;
                        format!("action_profile_{}", self.own_profiles - 1)
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
            Instance::Extern(object) => Some(object),
            _ => None,
        }
    }

    /// Inputs of a selector come from the first table that uses it.
    fn selector(&mut self, table: TableId, inputs: &[ir::FieldRef]) {
        let Some(profile) = self.program.tables[table.index()].implementation else {
            return;
        };
        if let Some(selector) = &mut self.program.action_profiles[profile.index()].selector {
            if selector.inputs.is_empty() {
                selector.inputs = inputs.to_vec();
            }
        }
    }
}
