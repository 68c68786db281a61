//! Check that no packet can apply a table twice: a table is in one place of the pipeline, and a packet passes it once.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::ir::{FlatProgram, Label, Stmt, StmtKind, TableId};

/// Tables applied on some path to a program point, with the position of the application.
type AppliedTables = BTreeMap<TableId, Span>;

/// Reports tables that a packet can apply twice.
pub fn refuse(program: &FlatProgram, diagnostics: &mut Diagnostics) {
    if !program.objects.arch.is_tofino() {
        return;
    }
    let mut ways = Ways {
        program,
        diagnostics,
        leaving: BTreeMap::new(),
    };
    for pipeline in &program.pipelines {
        ways.behind(&pipeline.body, AppliedTables::new());
    }
}

struct Ways<'a> {
    program: &'a FlatProgram,
    diagnostics: &'a mut Diagnostics,
    /// Tables applied at the exits of a block, by label.
    leaving: BTreeMap<Label, AppliedTables>,
}

impl Ways<'_> {
    /// Tables possibly applied at the end of a body, given those at its start (`now`); `None` if no path reaches the end.
    fn behind(&mut self, body: &[Stmt], mut now: AppliedTables) -> Option<AppliedTables> {
        for stmt in body {
            match &stmt.kind {
                StmtKind::If { then, other, .. } => {
                    let ways = [then, other].map(|way| self.behind(way, now.clone()));
                    now = either(ways)?;
                }
                StmtKind::Block { label, body } | StmtKind::Loop { label, body } => {
                    let end = self.behind(body, now);
                    now = either([end, self.leaving.remove(label)])?;
                }
                StmtKind::Break(label) => {
                    self.leaving.entry(*label).or_default().extend(now);
                    return None;
                }
                StmtKind::Exit => return None,
                StmtKind::Apply(apply) => {
                    if let Some(first) = now.insert(apply.table, stmt.source.span) {
                        self.report(apply.table, first, stmt.source.span);
                    }
                    let ways: Vec<Option<AppliedTables>> = (apply.then.bodies().into_iter())
                        .map(|way| self.behind(way, now.clone()))
                        .collect();
                    now = either(ways)?;
                }
                StmtKind::Effect(_) => {}
            }
        }
        Some(now)
    }

    fn report(&mut self, table: TableId, first: Span, second: Span) {
        let name = &self.program.objects.table(table).meta.name;
        let message = format!("a packet on this path is looked up in table {name} twice");
        let mut what = Diagnostic::error(Code::UNITS, second, message);
        if first != second {
            what = what.other(first, "first applied here");
        }
        self.diagnostics.report(
            what.note("a table is in one stage of the pipeline, and a packet passes it once")
                .help("make the two applications mutually exclusive, or declare two tables"),
        );
    }
}

/// Joins paths; `None` if none of them is reachable.
fn either(ways: impl IntoIterator<Item = Option<AppliedTables>>) -> Option<AppliedTables> {
    ways.into_iter().flatten().reduce(|mut all, way| {
        all.extend(way);
        all
    })
}
