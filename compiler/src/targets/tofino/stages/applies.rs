//! Check that no packet can apply a table twice: a table is in one place of the pipeline, and a packet passes it once.

use std::collections::BTreeMap;

use crate::diag::{Code, Diagnostic, Diagnostics, Span};
use crate::ir::{FlatProgram, Label, Stmt, StmtKind, TableId};

/// Tables applied on some path to a program point, with the position of the application.
type AppliedTables = BTreeMap<TableId, Span>;

/// Reports tables that a packet can apply twice.
pub fn refuse(program: &FlatProgram, diagnostics: &mut Diagnostics) {
    let mut paths = PathAnalysis {
        program,
        diagnostics,
        leaving: BTreeMap::new(),
    };
    for pipeline in &program.pipelines {
        paths.tables_after(&pipeline.body, AppliedTables::new());
    }
}

/// A forward dataflow analysis of the tables that a packet may have applied in a pipeline.
struct PathAnalysis<'a> {
    program: &'a FlatProgram,
    diagnostics: &'a mut Diagnostics,
    /// Tables applied before the breaks out of each block, by the block's label.
    leaving: BTreeMap<Label, AppliedTables>,
}

impl PathAnalysis<'_> {
    /// Tables that a packet may have applied at the end of a body, given those at its start (`now`). `None` if no path reaches the end.
    fn tables_after(&mut self, body: &[Stmt], mut now: AppliedTables) -> Option<AppliedTables> {
        for stmt in body {
            match &stmt.kind {
                StmtKind::If { then, other, .. } => {
                    let paths = [then, other].map(|path| self.tables_after(path, now.clone()));
                    now = join_paths(paths)?;
                }
                StmtKind::Block { label, body } | StmtKind::Loop { label, body } => {
                    let end = self.tables_after(body, now);
                    now = join_paths([end, self.leaving.remove(label)])?;
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
                    let paths: Vec<Option<AppliedTables>> = (apply.then.bodies().into_iter())
                        .map(|path| self.tables_after(path, now.clone()))
                        .collect();
                    now = join_paths(paths)?;
                }
                StmtKind::Effect(_) => {}
                StmtKind::Own(never) => match *never {},
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

/// The union of the tables applied on several paths; `None` if no path is reachable.
fn join_paths(paths: impl IntoIterator<Item = Option<AppliedTables>>) -> Option<AppliedTables> {
    paths.into_iter().flatten().reduce(|mut all, path| {
        all.extend(path);
        all
    })
}
