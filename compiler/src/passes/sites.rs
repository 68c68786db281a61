//! Pass: sites.
//!
//! Input: pipelines whose tables may be applied in several places. Output: the same. Invariant: an application has a `site`, set just before
//! it, if and only if the pipeline applies its table in several places.
//!
//! A table of BMv2 has one successor per outcome. For a table with several applications, a variable stores the place of the application, and
//! is tested after the table to continue there.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{
    walk, BinaryOp, Effect, Expr, FieldRef, Follow, Objects, Pipeline, Scalar, Stmt, StmtKind,
    TableId,
};
use crate::names::Names;

/// Maximum number of applications of one table, far above hand-written programs.
const SITE_BITS: u32 = 16;

/// Sets a variable before each application of a table that has several.
pub fn tell_apart(
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
                    "table {name} is applied in several places, in one for its action and in another for hit or \
                     miss; this target can tell only one of both"
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
        mark(body, &mut uses);
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

/// How a body uses tables.
fn uses_of(body: &[Stmt]) -> BTreeMap<TableId, Uses> {
    let mut uses: BTreeMap<TableId, Uses> = BTreeMap::new();
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

fn mark(body: &mut Vec<Stmt>, uses: &mut BTreeMap<TableId, Uses>) {
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
                apply.site = Some(Expr::binary(BinaryOp::Eq, held, number.clone()));
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
            mark(body, uses);
        }
        marked.push(stmt);
    }
    *body = marked;
}
