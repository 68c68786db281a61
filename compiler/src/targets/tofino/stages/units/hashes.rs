//! Check of actions that use the hash distribution unit or the random number generator of a stage.
//!
//! An action uses these units to compute a hash, to index a register, counter or meter by a packet field, or to draw a random number.
//! Both units work only when a table entry is hit.

use num_bigint::BigInt;
use num_traits::Zero;

use super::reachable::constant_bool;
use super::Units;
use crate::sema::{ArgSource, Callee, DefKind, Resolution};
use crate::syntax::ast::{
    ActionDecl, ActionRef, Annotated, Call, DeclId, Direction, Expr, ExprKind, KeyElement, Stmt,
    StmtKind, TableDecl, TablePropertyValue,
};

/// Prefixes of the names of externs that are arrays: the parameter `index` of their methods selects a cell.
const INDEXED: [&str; 7] = [
    "Counter",
    "Meter",
    "Lpf",
    "Wred",
    "Register",
    "LearnAction",
    "MinMaxAction",
];

impl Units<'_> {
    /// Reports actions of `table` that use the hash distribution unit or a random number and can run without a hit.
    pub(super) fn hashes(&mut self, table: &TableDecl) {
        let mut key: &[KeyElement] = &[];
        let mut size: Option<BigInt> = None;
        let mut actions: Vec<&ActionRef> = Vec::new();
        let mut default: Option<&ActionRef> = None;
        let mut has_idle_timeout = false;
        for property in &table.properties {
            match &property.value {
                TablePropertyValue::Key(elements) => key = elements,
                TablePropertyValue::Actions(list) => actions = list.iter().collect(),
                TablePropertyValue::DefaultAction(action) => default = Some(action),
                TablePropertyValue::Expr(value) if &*property.name.name == "size" => {
                    size = self.number(value);
                }
                TablePropertyValue::Expr(value) if &*property.name.name == "idle_timeout" => {
                    has_idle_timeout = constant_bool(self.checked, value) == Some(true);
                }
                _ => {}
            }
        }
        let name = &table.name;
        let chip = self.chip();
        if !key.is_empty() {
            let Some((action, unit)) =
                default.and_then(|action| Some((action, self.unit_of(action)?)))
            else {
                return;
            };
            let is_full = actions.len() == 1 && self.has_an_entry_for_each_key(key, size.as_ref());
            let obstacle = match self.annotated_number(table, "use_hash_action") {
                _ if !is_full => None,
                _ if has_idle_timeout => Some("property `idle_timeout`"),
                Some(number) if number.is_zero() => Some("annotation `@use_hash_action(0)`"),
                _ => return,
            };
            if let Some(obstacle) = obstacle {
                self.cannot(
                    action.span,
                    format!(
                        "`{}` cannot be the default action of table `{name}`: it {}, and the {obstacle} keeps {chip} from running it without a hit",
                        action.path.name,
                        unit.predicate()
                    ),
                    format!("remove the {obstacle}: table `{name}` has an entry for each key, so it is never missed"),
                );
                return;
            }
            let help = match unit {
                HitUnit::Hash | HitUnit::Random | HitUnit::Annotated => {
                    "use a table without a key, or a statement of the `apply` block, before this table"
                }
                HitUnit::Index => {
                    "access the cell in the `apply` block if the table is missed (`if (!t.apply().hit)`), or give the action an index that is \
                     a constant or a parameter"
                }
            };
            self.cannot(
                action.span,
                format!(
                    "`{}` cannot be the default action of table `{name}`: it {}, which {chip} does only for entries that are hit",
                    action.path.name,
                    unit.predicate()
                ),
                help,
            );
            return;
        }
        let listed = actions.len() + usize::from(default.is_none());
        for action in actions {
            let Some(unit) = self.unit_of(action) else {
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
                    "`{}` {}, and table `{name}` has no key: the control plane sets {why}, where {chip} has neither hash nor random number",
                    action.path.name,
                    unit.predicate()
                ),
                "make it the only action, without parameters, and the default action; or give the table a key",
            );
        }
    }

    /// The number that is the only argument of a table's annotation `name`; `None` without such an annotation.
    fn annotated_number(&self, table: &TableDecl, name: &str) -> Option<BigInt> {
        match table.annotations.annotation(name)?.exprs()? {
            [Expr {
                kind: ExprKind::Int(literal),
                ..
            }] => Some(literal.value.clone()),
            _ => None,
        }
    }

    /// The declaration of a listed action; `None` if the reference has an error.
    fn action_of(&self, action: &ActionRef) -> Option<&ActionDecl> {
        match self.checked.call(action.call)?.callee {
            Callee::Action(id) => match &self.checked.def(id).kind {
                DefKind::Action(decl) => Some(decl),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether an action has parameters without a direction, whose values the control plane sets.
    fn has_data(&self, action: &ActionRef) -> bool {
        let decl = self.action_of(action);
        decl.is_some_and(|decl| {
            (decl.params.iter()).any(|param| param.direction == Direction::None)
        })
    }

    /// Whether a table has an entry for each value of its key, so that every lookup hits. The compiler then uses the key as the address
    /// of the entry. Key bits that a mask clears do not count.
    fn has_an_entry_for_each_key(&self, key: &[KeyElement], size: Option<&BigInt>) -> bool {
        let mut bits = 0;
        for element in key {
            match self.width(&element.expr) {
                Some((width, _)) if &*element.match_kind.name == "exact" => {
                    bits += self.masked(&element.expr, width).1;
                }
                _ => return false,
            }
        }
        size.is_some_and(|size| *size == BigInt::from(1) << bits)
    }

    /// The unit that an action uses and that works only on a hit; `None` if it uses none.
    fn unit_of(&self, action: &ActionRef) -> Option<HitUnit> {
        self.unit_of_body(&self.action_of(action)?.body.stmts)
    }

    /// The first unit that statements use and that works only on a hit; `None` if they use none.
    fn unit_of_body(&self, stmts: &[Stmt]) -> Option<HitUnit> {
        stmts.iter().find_map(|stmt| match &stmt.kind {
            StmtKind::Assign { right, .. } => self.unit_of_value(right),
            StmtKind::Var(decl) => decl.init.as_ref().and_then(|init| self.unit_of_value(init)),
            StmtKind::Block(block) if block.annotations.annotation("in_hash").is_some() => {
                let annotated = self.reads_a_packet(&block.stmts);
                annotated.then_some(HitUnit::Annotated)
            }
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
                _ => self.unit_of_value(call),
            },
            _ => None,
        })
    }

    /// Whether a statement of a block assigns a value that depends on packet fields.
    fn reads_a_packet(&self, stmts: &[Stmt]) -> bool {
        stmts.iter().any(|stmt| match &stmt.kind {
            StmtKind::Assign { right, .. } if matches!(right.kind, ExprKind::Call(_)) => {
                self.unit_of_value(right).is_some()
            }
            StmtKind::Assign { right, .. } => self.is_from_a_packet(right),
            StmtKind::Block(block) => self.reads_a_packet(&block.stmts),
            _ => false,
        })
    }

    /// The hash or random unit that computes a value; `None` if it needs neither.
    fn unit_of_value(&self, value: &Expr) -> Option<HitUnit> {
        match &value.kind {
            ExprKind::Call(call) => {
                let Callee::Method(method) = self.checked.call(value.id)?.callee else {
                    return None;
                };
                let of = self.checked.def(method).parent?;
                match &*self.checked.name(of) {
                    "Hash" => Some(HitUnit::Hash),
                    "Random" => Some(HitUnit::Random),
                    name if INDEXED.iter().any(|kind| name.starts_with(kind)) => {
                        let index = self.index_of(value, call)?;
                        self.unit_of_value(index)
                            .or_else(|| self.is_from_a_packet(index).then_some(HitUnit::Index))
                    }
                    _ => None,
                }
            }
            ExprKind::Cast(_, arg) | ExprKind::Unary(_, arg) => self.unit_of_value(arg),
            ExprKind::Slice { base, .. } => self.unit_of_value(base),
            ExprKind::Binary(_, a, b) => self.unit_of_value(a).or_else(|| self.unit_of_value(b)),
            _ => None,
        }
    }

    /// The argument of a call for the parameter `index`; `None` if the call has none.
    fn index_of<'e>(&self, value: &Expr, call: &'e Call) -> Option<&'e Expr> {
        let info = self.checked.call(value.id)?;
        let index = (info.args.iter()).find(|arg| {
            arg.param
                .is_some_and(|param| &*self.checked.name(param) == "index")
        })?;
        match index.source {
            ArgSource::Arg(at) => Some(&call.args.get(at)?.value),
            ArgSource::Default | ArgSource::Omitted => None,
        }
    }

    /// Whether a value depends on packet fields or metadata, not only on constants and action data. A local variable of an action depends
    /// on them if its initial value does.
    fn is_from_a_packet(&self, value: &Expr) -> bool {
        match &value.kind {
            _ if self.is_action_data(value) => false,
            ExprKind::Name(_) => match self.checked.resolution(value) {
                Resolution::Decl(id) => match &self.checked.def(id).kind {
                    DefKind::Var(decl) => {
                        let init = decl.init.as_ref();
                        !self.is_of_an_action(id)
                            || init.is_some_and(|init| self.is_from_a_packet(init))
                    }
                    _ => true,
                },
                _ => false,
            },
            ExprKind::Cast(_, arg) | ExprKind::Unary(_, arg) => self.is_from_a_packet(arg),
            ExprKind::Slice { base, .. } => self.is_from_a_packet(base),
            ExprKind::Binary(_, a, b) => self.is_from_a_packet(a) || self.is_from_a_packet(b),
            _ => true,
        }
    }

    /// Whether a declaration is local to an action.
    fn is_of_an_action(&self, id: DeclId) -> bool {
        let parent = self.checked.def(id).parent;
        parent.is_some_and(|parent| matches!(self.checked.def(parent).kind, DefKind::Action(_)))
    }
}

/// The purpose for which an action uses a unit that works only on a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HitUnit {
    /// Computing a hash of packet fields as a value.
    Hash,
    /// Computing a hash of packet fields as the index of a cell.
    Index,
    /// Computing the values of a block with the annotation `@in_hash`.
    Annotated,
    /// Drawing a random number.
    Random,
}

impl HitUnit {
    /// The predicate of a message about the unit, such as "draws a random number"; the action is the subject.
    fn predicate(self) -> &'static str {
        match self {
            HitUnit::Hash => "computes a hash",
            HitUnit::Index => "computes the index of a cell from packet fields",
            HitUnit::Annotated => "computes a value in the hash unit (`@in_hash`)",
            HitUnit::Random => "draws a random number",
        }
    }
}
