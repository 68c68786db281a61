//! Tables (spec § 14.2).

use super::checked::*;
use super::checker::{BodyKind, Checker};
use super::types::{Nominal, Type};
use super::value::Value;
use crate::diag::{closest, Code, Diagnostic, Span, Warning};
use crate::syntax::ast::*;
use crate::syntax::print::{print_expr, print_type};
use crate::targets::PropertyValue;
use num_traits::Signed;
use rustc_hash::FxHashMap;
use std::rc::Rc;

/// Table properties that the P4_16 specification defines.
pub(crate) const LANGUAGE_PROPERTIES: [&str; 4] = ["key", "actions", "entries", "default_action"];

/// The place of a reference to an action, which determines the parameters that its arguments bind.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ActionUse {
    /// In a table's list of actions: arguments bind the parameters with a direction.
    Listed,
    /// As default action or in an entry: arguments bind all parameters.
    Complete,
}

impl Checker<'_> {
    pub fn table_decl(&mut self, d: &Rc<TableDecl>) {
        self.define(d.id, DefKind::Table(d.clone()), d.name.span);
        self.structured_annotations(&d.annotations);
        let nominal = Nominal::plain(d.id, d.name.name.clone());
        self.out.decl_types.insert(d.id, Type::Table(nominal));
        self.in_declaration(d.id, &d.annotations, |c| c.table_body(d));
        self.declare(d.id, &d.name);
    }

    fn table_body(&mut self, d: &Rc<TableDecl>) {
        let mut seen: FxHashMap<&Name, Span> = FxHashMap::default();
        for property in &d.properties {
            self.structured_annotations(&property.annotations);
            if let Some(first) = seen.insert(&property.name.name, property.name.span) {
                self.report(
                    Diagnostic::error(
                        Code::DUPLICATE,
                        property.name.span,
                        format!("property `{}` is given twice", property.name),
                    )
                    .other(first, "first occurrence"),
                );
            }
        }
        self.property_order(d);
        let keys = self.keys(d);
        let damaged = self.contains_skipped_text(d.span);
        if d.property("actions").is_none() && !damaged {
            self.report(
                Diagnostic::error(
                    Code::TABLE_RULE,
                    d.name.span,
                    format!("table `{}` has no property `actions`", d.name),
                )
                .help("list its actions: `actions = { NoAction; }`"),
            );
        }
        let listed = self.listed_actions(d);
        for property in &d.properties {
            match &property.value {
                TablePropertyValue::Key(_) | TablePropertyValue::Actions(_) => {}
                TablePropertyValue::DefaultAction(action) => {
                    self.default_action(action, d, &listed)
                }
                TablePropertyValue::Entries(entries) => {
                    self.entries(property, entries, &keys, d, &listed)
                }
                TablePropertyValue::Expr(value) => self.other_property(property, value),
            }
        }
    }

    /// Checks that `entries` and `default_action` come after the properties `key` and `actions` that they depend on (spec § 14.2.1).
    fn property_order(&mut self, d: &TableDecl) {
        let position = |name: &str| d.properties.iter().position(|p| &*p.name.name == name);
        for (later, earlier) in [
            ("default_action", "actions"),
            ("entries", "key"),
            ("entries", "actions"),
        ] {
            let (Some(at), Some(before)) = (position(later), position(earlier)) else {
                continue;
            };
            if at < before {
                self.report(
                    Diagnostic::error(
                        Code::TABLE_RULE,
                        d.properties[at].name.span,
                        format!("`{later}` must come after `{earlier}`"),
                    )
                    .other(d.properties[before].name.span, format!("`{earlier}`")),
                );
                return;
            }
        }
    }

    fn keys(&mut self, d: &TableDecl) -> Vec<(Type, Name)> {
        let mut keys = Vec::new();
        for element in d.key() {
            // Keys are evaluated when the table is applied, so the rules of `apply` blocks hold.
            let outer = std::mem::replace(&mut self.body_kind, BodyKind::Apply);
            let ty = self.expr(&element.expr);
            self.body_kind = outer;
            self.structured_annotations(&element.annotations);
            let ty = self.key_type(&element.expr, &ty);
            if ty == Type::Int {
                self.report(
                    Diagnostic::error(
                        Code::TYPE_MISMATCH,
                        element.expr.span,
                        "this key has no width",
                    )
                    .help("give the number a width, such as `8w1`"),
                );
            }
            let kind = &element.match_kind;
            match self.match_kind_names.get(&kind.name).copied() {
                Some(id) => {
                    self.used.insert(id);
                }
                None => {
                    let mut names: Vec<&str> = self.match_kind_names.keys().map(|n| &**n).collect();
                    names.sort_unstable();
                    let mut diagnostic = Diagnostic::error(
                        Code::UNKNOWN_NAME,
                        kind.span,
                        format!("unknown match kind `{kind}`"),
                    );
                    diagnostic = match closest(&kind.name, names.iter().copied()) {
                        Some(near) => diagnostic.did_you_mean(kind.span, near),
                        None => {
                            diagnostic.note(format!("the declared ones are {}", names.join(", ")))
                        }
                    };
                    self.report(diagnostic);
                }
            }
            keys.push((ty, kind.name.clone()));
        }
        keys
    }

    /// The actions in a table's list `actions`, by declaration.
    fn listed_actions<'d>(&mut self, d: &'d TableDecl) -> FxHashMap<DeclId, &'d ActionRef> {
        let mut listed: FxHashMap<DeclId, &ActionRef> = FxHashMap::default();
        for action in d.actions() {
            self.structured_annotations(&action.annotations);
            let Some(id) = self.action_ref(action, ActionUse::Listed) else {
                continue;
            };
            if let Some(first) = listed.insert(id, action) {
                self.report(
                    Diagnostic::error(
                        Code::DUPLICATE,
                        action.span,
                        format!("action `{}` is listed twice", action.path.name),
                    )
                    .other(first.span, "first occurrence"),
                );
            }
        }
        listed
    }

    /// Resolves a reference to an action and its arguments; `None` if it does not name an action.
    fn action_ref(&mut self, action: &ActionRef, usage: ActionUse) -> Option<DeclId> {
        let id = match self.lookup(&action.path) {
            Some(id) => id,
            None => {
                for arg in action.args.iter().flatten() {
                    self.expr(&arg.value);
                }
                return None;
            }
        };
        let DefKind::Action(decl) = self.def(id).clone() else {
            let message = format!(
                "`{}` is {}, not an action",
                action.path.name,
                self.def(id).noun()
            );
            self.error(Code::WRONG_KIND, action.path.span(), message);
            return None;
        };
        let bound: Vec<Rc<Param>> = match usage {
            ActionUse::Listed => decl
                .params
                .iter()
                .filter(|p| p.direction != Direction::None)
                .cloned()
                .collect(),
            ActionUse::Complete => decl.params.clone(),
        };
        let args = action.args.as_deref().unwrap_or(&[]);
        let target = super::args::CallTarget {
            name: action.path.name.name.clone(),
            span: action.path.span(),
            callee: Callee::Action(id),
            params: &bound,
            type_params: &[],
            outer: Default::default(),
        };
        let all_data = usage == ActionUse::Listed
            && args.len() > bound.len()
            && args.len() <= decl.params.len();
        if all_data {
            self.report(
                Diagnostic::error(
                    Code::ARGUMENTS,
                    action.span,
                    format!(
                        "`{}` gets its action data from the control plane",
                        decl.name
                    ),
                )
                .label("only parameters with a direction take arguments here"),
            );
            return Some(id);
        }
        let mut info = self.bind(args, target, false);
        if info.is_none() && usage == ActionUse::Listed {
            // The mismatch has been reported; record a call without arguments, so that checks of the table can go on.
            info = Some(CallInfo {
                callee: Callee::Action(id),
                type_args: Vec::new(),
                args: Vec::new(),
                ret: Type::Void,
            });
        }
        self.out.calls.insert(action.call, info?);
        Some(id)
    }

    /// Checks a default action or an entry's action: it must be in the table's list, its action data constant, and its other arguments
    /// the same as in the list.
    fn fully_bound_action(
        &mut self,
        action: &ActionRef,
        d: &TableDecl,
        listed: &FxHashMap<DeclId, &ActionRef>,
    ) -> Option<DeclId> {
        // Arguments for parameters with a direction may be omitted: those of the list then apply.
        let short = self.find(&action.path).filter(|id| {
            let DefKind::Action(decl) = self.def(*id) else {
                return false;
            };
            let data = decl
                .params
                .iter()
                .filter(|p| p.direction == Direction::None)
                .count();
            let given = action.args.as_ref().map_or(0, Vec::len);
            data != decl.params.len() && given == data
        });
        let id = match short {
            Some(id) => self.data_only_action(action, id),
            None => self.action_ref(action, ActionUse::Complete)?,
        };
        let Some(in_list) = listed.get(&id) else {
            if self.contains_skipped_text(d.span) {
                return Some(id);
            }
            let at = self.name_span(d.id);
            self.report(
                Diagnostic::error(
                    Code::TABLE_RULE,
                    action.span,
                    format!(
                        "`{}` is not among the actions of table `{}`",
                        action.path.name, d.name
                    ),
                )
                .other(at, "the table")
                .help(format!("add `{};` to its `actions`", action.path.name)),
            );
            return Some(id);
        };
        if let Some(info) = self.out.call(action.call).cloned() {
            let args = action.args.as_deref().unwrap_or(&[]);
            for bound in &info.args {
                let ArgSource::Arg(i) = bound.source else {
                    continue;
                };
                let value = &args[i].value;
                if bound.direction == Direction::None {
                    if !self.is_compile_time(value) {
                        self.report_not_constant(value, "data of an action in a table");
                    }
                } else if !self.same_argument(in_list, bound.param, value) {
                    self.report(
                        Diagnostic::error(
                            Code::TABLE_RULE,
                            value.span,
                            "this argument differs from that in the list of actions",
                        )
                        .other(in_list.span, "listed here"),
                    );
                }
            }
        }
        Some(id)
    }

    fn data_only_action(&mut self, action: &ActionRef, id: DeclId) -> DeclId {
        self.lookup(&action.path);
        let DefKind::Action(decl) = self.def(id).clone() else {
            return id;
        };
        let data: Vec<Rc<Param>> = decl
            .params
            .iter()
            .filter(|p| p.direction == Direction::None)
            .cloned()
            .collect();
        let target = super::args::CallTarget {
            name: action.path.name.name.clone(),
            span: action.path.span(),
            callee: Callee::Action(id),
            params: &data,
            type_params: &[],
            outer: Default::default(),
        };
        if let Some(info) = self.bind(action.args.as_deref().unwrap_or(&[]), target, false) {
            self.out.calls.insert(action.call, info);
        }
        id
    }

    /// Whether the reference in the list of actions has the same argument for a parameter.
    fn same_argument(&self, listed: &ActionRef, param: Option<DeclId>, value: &Expr) -> bool {
        let Some(info) = self.out.call(listed.call) else {
            return true;
        };
        let Some(ArgSource::Arg(i)) = info
            .args
            .iter()
            .find(|a| a.param == param)
            .map(|a| a.source)
        else {
            return true;
        };
        let Some(other) = listed.args.as_ref().and_then(|args| args.get(i)) else {
            return true;
        };
        same_expr(&other.value, value)
    }

    fn default_action(
        &mut self,
        action: &ActionRef,
        d: &TableDecl,
        listed: &FxHashMap<DeclId, &ActionRef>,
    ) {
        let Some(id) = self.fully_bound_action(action, d, listed) else {
            return;
        };
        if let Some(in_list) = listed.get(&id) {
            if in_list.annotations.annotation("tableonly").is_some() {
                self.report(
                    Diagnostic::error(
                        Code::TABLE_RULE,
                        action.span,
                        "a `@tableonly` action cannot be the default action",
                    )
                    .other(in_list.span, "listed here"),
                );
            }
        }
    }

    fn entries(
        &mut self,
        property: &TableProperty,
        entries: &[Entry],
        keys: &[(Type, Name)],
        d: &TableDecl,
        listed: &FxHashMap<DeclId, &ActionRef>,
    ) {
        if keys.is_empty() {
            self.error(
                Code::TABLE_RULE,
                property.name.span,
                "a table without a key cannot have entries",
            );
        }
        self.entry_priorities(entries, keys);
        let types: Vec<Type> = keys.iter().map(|(ty, _)| ty.clone()).collect();
        for entry in entries {
            self.structured_annotations(&entry.annotations);
            if let Some(priority) = &entry.priority {
                if let Some(n) = self.constant_int(priority, "a priority") {
                    if n.is_negative() {
                        self.error(
                            Code::TABLE_RULE,
                            priority.span,
                            "a priority cannot be negative",
                        );
                    }
                }
            }
            if !keys.is_empty() {
                self.keyset(&entry.keyset, &types);
                self.entry_keys(&entry.keyset, keys);
            }
            let Some(id) = self.fully_bound_action(&entry.action, d, listed) else {
                continue;
            };
            if let Some(in_list) = listed.get(&id) {
                if in_list.annotations.annotation("defaultonly").is_some() {
                    self.report(
                        Diagnostic::error(
                            Code::TABLE_RULE,
                            entry.action.span,
                            "a `@defaultonly` action cannot be in an entry",
                        )
                        .other(in_list.span, "listed here"),
                    );
                }
            }
        }
    }

    /// Checks the priorities of entries. They are allowed only if several entries may match a key. An entry without a priority continues
    /// the numbering (spec § 14.2.1.4).
    fn entry_priorities(&mut self, entries: &[Entry], keys: &[(Type, Name)]) {
        let Some(first) = entries.iter().find_map(|entry| entry.priority.as_ref()) else {
            return;
        };
        let known = |kind: &str| matches!(kind, "exact" | "lpm");
        if !keys.is_empty() && keys.iter().all(|(_, kind)| known(kind)) {
            self.report(
                Diagnostic::error(
                    Code::TABLE_RULE,
                    first.span,
                    "entries of this table have no priorities",
                )
                .note(
                    "with `exact` and `lpm` keys, at most one entry or the longest prefix matches",
                ),
            );
            return;
        }
        if let Some(start) = entries.first().filter(|entry| entry.priority.is_none()) {
            self.report(
                Diagnostic::error(
                    Code::TABLE_RULE,
                    start.span,
                    "the first entry needs a priority, as others have one",
                )
                .other(first.span, "the first priority"),
            );
        }
    }

    /// Checks that an entry's keysets are constant and match the match kinds of the keys.
    fn entry_keys(&mut self, keyset: &Expr, keys: &[(Type, Name)]) {
        let parts: Vec<&Expr> = match &keyset.kind {
            ExprKind::Keyset(list) => list.iter().collect(),
            ExprKind::List(list) => list.iter().collect(),
            _ => vec![keyset],
        };
        if parts.len() != keys.len() {
            return;
        }
        for (part, (_, kind)) in parts.into_iter().zip(keys) {
            match &part.kind {
                ExprKind::DontCare(_) => {
                    if &**kind == "exact" {
                        self.error(
                            Code::TABLE_RULE,
                            part.span,
                            "an `exact` key needs a single value",
                        );
                    }
                }
                ExprKind::Mask(value, mask) => {
                    self.must_be_constant(value);
                    self.must_be_constant(mask);
                    if !matches!(&**kind, "ternary" | "lpm") && !self.is_full_mask(mask) {
                        self.error(
                            Code::TABLE_RULE,
                            part.span,
                            format!("a key of kind `{kind}` cannot be masked"),
                        );
                    }
                    if &**kind == "lpm" {
                        self.check_prefix(mask);
                    }
                }
                ExprKind::Range(low, high) => {
                    self.must_be_constant(low);
                    self.must_be_constant(high);
                    if &**kind != "range" {
                        self.error(
                            Code::TABLE_RULE,
                            part.span,
                            format!("a key of kind `{kind}` cannot be a range"),
                        );
                    }
                }
                _ => self.must_be_constant(part),
            }
        }
    }

    /// Whether a mask is all ones.
    fn is_full_mask(&self, mask: &Expr) -> bool {
        let Some(width) = self.out.representation(self.out.type_as_used(mask)).bits() else {
            return false;
        };
        let all = Value::Int((num_bigint::BigInt::from(1) << width) - 1);
        self.value_of(mask) == Some(all)
    }

    fn check_prefix(&mut self, mask: &Expr) {
        let Some(width) = self
            .out
            .representation(&self.type_of(mask))
            .bits()
            .or(self.out.type_as_used(mask).bits())
        else {
            return;
        };
        let Some(Value::Int(n)) = self.value_of(mask) else {
            return;
        };
        let zeros = n
            .trailing_zeros()
            .unwrap_or(u64::from(width))
            .min(u64::from(width));
        let all: num_bigint::BigInt = (num_bigint::BigInt::from(1) << width) - 1;
        let prefix: num_bigint::BigInt = (&all >> zeros) << zeros;
        if prefix != n {
            self.report(
                Diagnostic::error(
                    Code::TABLE_RULE,
                    mask.span,
                    format!("`{n:#x}` is not a prefix mask"),
                )
                .note(format!(
                    "an `lpm` key needs contiguous leading ones, such as `{:#x}`",
                    (&all >> (width / 2)) << (width / 2)
                )),
            );
        }
    }

    fn must_be_constant(&mut self, expr: &Expr) {
        if !self.type_of(expr).is_invalid() && !self.is_compile_time(expr) {
            self.report_not_constant(expr, "a value in an entry");
        }
    }

    fn other_property(&mut self, property: &TableProperty, value: &Expr) {
        let name = &*property.name.name;
        let ty = self.expr(value);
        let properties = self.out.arch.target().table_properties();
        let known = properties.iter().find(|known| known.name == name);
        match known.map(|known| known.value) {
            Some(PropertyValue::Size) => {
                let numeric = self.out.representation(&ty).is_numeric();
                if !ty.is_invalid() && !numeric {
                    self.error(
                        Code::TYPE_MISMATCH,
                        value.span,
                        format!("the size of a table must be a number, not `{ty}`"),
                    );
                } else if !ty.is_invalid() && !self.is_compile_time(value) {
                    self.report_not_constant(value, "the size of a table");
                } else if self
                    .value_of(value)
                    .and_then(|v| v.as_int().cloned())
                    .is_some_and(|n| n.is_negative())
                {
                    self.error(
                        Code::TABLE_RULE,
                        value.span,
                        "the size of a table cannot be negative",
                    );
                }
            }
            Some(PropertyValue::Object) => {
                if !ty.is_invalid() && !matches!(ty, Type::Extern(_)) {
                    self.error(
                        Code::TYPE_MISMATCH,
                        value.span,
                        format!("`{name}` must be an instance of an extern, not `{ty}`"),
                    );
                }
            }
            Some(PropertyValue::Flag) if !ty.is_invalid() => {
                if ty != Type::Bool {
                    let message = format!("`{name}` must be `true` or `false`, not a `{ty}`");
                    self.error(Code::TYPE_MISMATCH, value.span, message);
                } else if !self.is_compile_time(value) {
                    self.report_not_constant(value, &format!("the value of `{name}`"));
                }
            }
            Some(PropertyValue::PositiveNumber) if !ty.is_invalid() => {
                let known = self.value_of(value);
                if !self.out.representation(&ty).is_numeric() {
                    let message = format!("`{name}` must be a number, not a `{ty}`");
                    self.error(Code::TYPE_MISMATCH, value.span, message);
                } else if !self.is_compile_time(value) {
                    self.report_not_constant(value, &format!("the value of `{name}`"));
                } else if known.is_some_and(|n| n.as_int().is_some_and(|n| !n.is_positive())) {
                    let message = format!("`{name}` must be positive");
                    self.error(Code::TABLE_RULE, value.span, message);
                }
            }
            Some(PropertyValue::ObjectNamed(prefix))
                if ty
                    .nominal()
                    .is_some_and(|object| object.name.starts_with(prefix)) => {}
            Some(PropertyValue::Any | PropertyValue::Flag | PropertyValue::PositiveNumber) => {}
            Some(PropertyValue::ObjectNamed(_)) | None => {
                let suggested = properties.iter().filter(|known| known.is_suggested());
                let known = suggested.map(|known| known.name).chain(LANGUAGE_PROPERTIES);
                let mut d = Diagnostic::warning(
                    Warning::IgnoreProp,
                    property.name.span,
                    format!("unknown property `{name}` of a table is ignored"),
                );
                if let Some(near) = closest(name, known) {
                    d = d.did_you_mean(property.name.span, near);
                }
                self.warn(d);
            }
        }
    }
}

/// Whether two expressions are textually the same, apart from white space.
fn same_expr(a: &Expr, b: &Expr) -> bool {
    match (&a.kind, &b.kind) {
        (ExprKind::Name(a), ExprKind::Name(b)) => {
            a.absolute == b.absolute && a.name.name == b.name.name
        }
        (ExprKind::Member(a, f), ExprKind::Member(b, g)) => f.name == g.name && same_expr(a, b),
        (ExprKind::Index(a, i), ExprKind::Index(b, j)) => same_expr(a, b) && same_expr(i, j),
        (ExprKind::Int(a), ExprKind::Int(b)) => a.value == b.value,
        (ExprKind::Bool(a), ExprKind::Bool(b)) => a == b,
        (ExprKind::String(a), ExprKind::String(b)) => a == b,
        (ExprKind::Unary(o, a), ExprKind::Unary(p, b)) => o == p && same_expr(a, b),
        (ExprKind::Binary(o, a, x), ExprKind::Binary(p, b, y)) => {
            o == p && same_expr(a, b) && same_expr(x, y)
        }
        (
            ExprKind::Slice {
                base: a,
                hi: b,
                lo: c,
            },
            ExprKind::Slice {
                base: x,
                hi: y,
                lo: z,
            },
        ) => same_expr(a, x) && same_expr(b, y) && same_expr(c, z),
        (ExprKind::Cast(t, a), ExprKind::Cast(u, b)) => {
            print_type(t) == print_type(u) && same_expr(a, b)
        }
        (ExprKind::Ternary(c, a, b), ExprKind::Ternary(d, x, y)) => {
            same_expr(c, d) && same_expr(a, x) && same_expr(b, y)
        }
        (ExprKind::Call(a), ExprKind::Call(b)) => {
            same_expr(&a.callee, &b.callee)
                && a.args.len() == b.args.len()
                && a.args
                    .iter()
                    .zip(&b.args)
                    .all(|(a, b)| same_expr(&a.value, &b.value))
        }
        (ExprKind::List(a), ExprKind::List(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same_expr(a, b))
        }
        _ => print_expr(a) == print_expr(b),
    }
}
