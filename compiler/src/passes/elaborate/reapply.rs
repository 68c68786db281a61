//! Tables that are applied in several places.
//!
//! BMv2 knows one successor of a table for each of its results. A table with several places in the program gets a
//! variable that is set before each of them, and by which the way is found again behind the table.

use std::collections::BTreeMap;

use super::Elaborator;
use crate::diag::{Code, Diagnostic};
use crate::ir::{self, BinaryOp, Expr, FieldRef, Scalar, Stmt, StmtKind, TableId};

/// More places than these are no program of a human.
const SITE_BITS: u32 = 16;

impl Elaborator<'_> {
    /// Sets a variable before each application of a table that has several.
    pub fn tell_sites_apart(&mut self) {
        let mut pipelines = std::mem::take(&mut self.program.pipelines);
        for ir::Pipeline { body, .. } in &mut pipelines {
            let mut uses: BTreeMap<TableId, Uses> = BTreeMap::new();
            count(body, &mut uses);
            uses.retain(|_, uses| uses.count > 1);
            for (table, uses) in &mut uses {
                let name = self.program.table(*table).meta.name.clone();
                if uses.by_action && uses.by_hit {
                    let message = format!(
                        "table {name} is applied in several places, in one for its action and in another for hit or \
                         miss; this target can tell only one of both"
                    );
                    let what = Diagnostic::global(Code::TARGET, message)
                        .help("use switch (...apply().action_run) in all places");
                    self.diagnostics.report(what);
                }
                let variable = self.unique(&format!("{name}.site"));
                let ty = Scalar::Bit(SITE_BITS);
                uses.variable = Some(self.program.storage.add_scalar(variable, ty));
                uses.count = 0;
            }
            mark(body, &mut uses);
        }
        self.program.pipelines = pipelines;
    }
}

/// How a table is used.
#[derive(Default)]
struct Uses {
    count: u32,
    by_action: bool,
    by_hit: bool,
    variable: Option<FieldRef>,
}

fn count(body: &[Stmt], uses: &mut BTreeMap<TableId, Uses>) {
    for stmt in body {
        match &stmt.kind {
            StmtKind::If { then, other, .. } => {
                count(then, uses);
                count(other, uses);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => count(body, uses),
            StmtKind::Apply(apply) => {
                let known = uses.entry(apply.table).or_default();
                known.count += 1;
                known.by_action |= !apply.actions.is_empty();
                known.by_hit |= apply.actions.is_empty() && apply.hit != apply.miss;
                for body in apply.bodies() {
                    count(body, uses);
                }
            }
            _ => {}
        }
    }
}

fn mark(body: &mut Vec<Stmt>, uses: &mut BTreeMap<TableId, Uses>) {
    let mut marked = Vec::with_capacity(body.len());
    for mut stmt in std::mem::take(body) {
        match &mut stmt.kind {
            StmtKind::If { then, other, .. } => {
                mark(then, uses);
                mark(other, uses);
            }
            StmtKind::Block { body, .. } | StmtKind::Loop { body, .. } => mark(body, uses),
            StmtKind::Apply(apply) => {
                if let Some((number, variable)) = uses.get_mut(&apply.table).and_then(|uses| {
                    uses.count += 1;
                    Some((uses.count - 1, uses.variable?))
                }) {
                    let ty = Scalar::Bit(SITE_BITS);
                    let number = Expr::number(number, ty);
                    let held = Expr::field(variable, ty);
                    apply.site = Some(Expr::binary(BinaryOp::Eq, held, number.clone()));
                    let kind = StmtKind::Assign {
                        target: variable.into(),
                        value: number,
                    };
                    marked.push(Stmt {
                        kind,
                        source: stmt.source.clone(),
                    });
                }
                for body in apply.bodies_mut() {
                    mark(body, uses);
                }
            }
            _ => {}
        }
        marked.push(stmt);
    }
    *body = marked;
}
