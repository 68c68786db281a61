//! Pass: sites.
//!
//! Input: pipelines whose tables may be applied in several places. Output: the same pipelines. Invariant: an application has a `site` if and
//! only if the pipeline applies the table in several places; a preceding statement stores the number of the site in a variable.
//!
//! A table of the switch has one successor per outcome. After a table with several applications, the switch therefore tests the variable to
//! continue at the right application.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{
    walk, BinaryOp, Effect, Expr, FieldRef, Follow, Objects, Pipeline, Scalar, Stmt, StmtKind,
    TableId,
};
use crate::names::Names;

/// Width in bits of the number of an application: far more applications of a table than hand-written programs have.
const SITE_BITS: u32 = 16;

/// Emits, before each application of a table with several applications, a store of the application's number in a
/// variable.
pub fn number_sites(
    pipelines: &mut [Pipeline],
    objects: &mut Objects,
    names: &mut Names,
    diagnostics: &mut Diagnostics,
) {
    for Pipeline { body, .. } in pipelines {
        let mut uses = uses_of(body);
        uses.retain(|_, uses| uses.count > 1);
        for (table, uses) in &mut uses {
            let name = objects.table(*table).meta.name.clone();
            if uses.by_action && uses.by_hit {
                let message = format!(
                    "table {name} is applied in several places; some use its action and others hit or miss, which \
                     this target does not support together"
                );
                let what = Diagnostic::global(Code::TARGET, message)
                    .help("use switch (...apply().action_run) in all places");
                diagnostics.report(what);
            }
            let variable = names.unique(&format!("{name}.site"));
            let ty = Scalar::Bit(SITE_BITS);
            uses.variable = Some(objects.storage.add_scalar(variable, ty));
            uses.count = 0;
        }
        store_sites(body, &mut uses);
    }
}

/// The applications of a table in a pipeline.
#[derive(Default)]
struct TableUses {
    /// Number of applications.
    count: u32,
    /// Whether the statements after an application depend on the executed action.
    by_action: bool,
    /// Whether the statements after an application depend on hit or miss.
    by_hit: bool,
    /// The variable with the number of the current application; set for tables with several applications.
    variable: Option<FieldRef>,
}

/// The applications of tables in a body.
fn uses_of(body: &[Stmt]) -> BTreeMap<TableId, TableUses> {
    let mut uses: BTreeMap<TableId, TableUses> = BTreeMap::new();
    walk(body, &mut |stmt| {
        if let StmtKind::Apply(apply) = &stmt.kind {
            let known = uses.entry(apply.table).or_default();
            known.count += 1;
            match &apply.then {
                Follow::Action { .. } => known.by_action = true,
                Follow::Hit { hit, miss } => known.by_hit |= hit != miss,
            }
        }
    });
    uses
}

/// Stores the number of the application before each application of the tables in `uses`.
fn store_sites(body: &mut Vec<Stmt>, uses: &mut BTreeMap<TableId, TableUses>) {
    let mut marked = Vec::with_capacity(body.len());
    for mut stmt in std::mem::take(body) {
        if let StmtKind::Apply(apply) = &mut stmt.kind {
            if let Some((number, variable)) = uses.get_mut(&apply.table).and_then(|uses| {
                uses.count += 1;
                Some((uses.count - 1, uses.variable?))
            }) {
                let ty = Scalar::Bit(SITE_BITS);
                let number = Expr::number(number, ty);
                let held = Expr::field(variable, ty);
                apply.own.here = Some(Expr::binary(BinaryOp::Eq, held, number.clone()));
                let effect = Effect::Assign {
                    target: variable.into(),
                    value: number,
                };
                marked.push(Stmt {
                    kind: effect.into(),
                    source: stmt.source.clone(),
                });
            }
        }
        for body in stmt.kind.bodies_mut() {
            store_sites(body, uses);
        }
        marked.push(stmt);
    }
    *body = marked;
}
