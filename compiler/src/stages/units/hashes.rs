//! Actions that compute a hash or draw a random number: both come to an action with an entry that is hit.

use super::Units;
use crate::sema::{Callee, DefKind};
use crate::syntax::ast::{
    ActionDecl, ActionRef, Direction, Expr, ExprKind, Stmt, StmtKind, TableDecl, TablePropertyValue,
};

impl Units<'_> {
    /// Refuses actions that hash where the control plane may have them run without a hit.
    pub(super) fn hashes(&mut self, table: &TableDecl) {
        let mut has_key = false;
        let mut actions: Vec<&ActionRef> = Vec::new();
        let mut default: Option<&ActionRef> = None;
        for property in &table.properties {
            match &property.value {
                TablePropertyValue::Key(elements) => has_key = !elements.is_empty(),
                TablePropertyValue::Actions(list) => actions = list.iter().collect(),
                TablePropertyValue::DefaultAction(action) => default = Some(action),
                _ => {}
            }
        }
        let name = &table.name;
        let chip = self.chip();
        if has_key {
            let Some((action, what)) =
                default.and_then(|action| Some((action, self.unit_of(action)?)))
            else {
                return;
            };
            self.cannot(
                action.span,
                format!(
                    "`{}` cannot be the default action of table `{name}`: it {what}, which {chip} does for entries that are hit",
                    action.path.name
                ),
                "hash in a table without a key, or directly in the `apply` block, before this table",
            );
            return;
        }
        let listed = actions.len() + usize::from(default.is_none());
        for action in actions {
            let Some(what) = self.unit_of(action) else {
                continue;
            };
            let why = match (listed > 1, self.has_data(action)) {
                (true, _) => "which of several actions runs",
                (_, true) => "the parameters of its action",
                _ => continue,
            };
            self.cannot(
                action.span,
                format!(
                    "`{}` {what}, and table `{name}` has no key: the control plane sets {why}, where {chip} has neither hash nor random number",
                    action.path.name
                ),
                "make it the only action, without parameters, and the default action; or give the table a key",
            );
        }
    }

    fn action_of(&self, action: &ActionRef) -> Option<&ActionDecl> {
        match self.checked.call(action.call)?.callee {
            Callee::Action(id) => match &self.checked.def(id).kind {
                DefKind::Action(decl) => Some(decl),
                _ => None,
            },
            _ => None,
        }
    }

    fn has_data(&self, action: &ActionRef) -> bool {
        let decl = self.action_of(action);
        decl.is_some_and(|decl| {
            (decl.params.iter()).any(|param| param.direction == Direction::None)
        })
    }

    /// What an action needs of a unit that only a hit reaches.
    fn unit_of(&self, action: &ActionRef) -> Option<&'static str> {
        self.unit_of_body(&self.action_of(action)?.body.stmts)
    }

    fn unit_of_body(&self, stmts: &[Stmt]) -> Option<&'static str> {
        stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Assign { right, .. } => self.unit_of_value(right),
            StmtKind::Var(decl) => decl.init.as_ref().and_then(|init| self.unit_of_value(init)),
            StmtKind::Block(block) => self.unit_of_body(&block.stmts),
            StmtKind::If {
                then, otherwise, ..
            } => {
                let otherwise = otherwise.as_deref().map(std::slice::from_ref);
                self.unit_of_body(std::slice::from_ref(then))
                    .or_else(|| self.unit_of_body(otherwise.unwrap_or_default()))
            }
            StmtKind::Call(call) => match self.checked.call(call.id)?.callee {
                Callee::Action(id) => match &self.checked.def(id).kind {
                    DefKind::Action(decl) => self.unit_of_body(&decl.body.stmts),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        })
    }

    /// A hash or a random number in a value; an index of a register or counter has its own way from the hash.
    fn unit_of_value(&self, value: &Expr) -> Option<&'static str> {
        match &value.kind {
            ExprKind::Call(_) => {
                let Callee::Method(method) = self.checked.call(value.id)?.callee else {
                    return None;
                };
                let of = self.checked.def(method).parent?;
                match &*self.checked.name(of) {
                    "Hash" => Some("computes a hash"),
                    "Random" => Some("draws a random number"),
                    _ => None,
                }
            }
            ExprKind::Cast(_, arg) | ExprKind::Unary(_, arg) => self.unit_of_value(arg),
            ExprKind::Slice { base, .. } => self.unit_of_value(base),
            ExprKind::Binary(_, a, b) => self.unit_of_value(a).or_else(|| self.unit_of_value(b)),
            _ => None,
        }
    }
}
