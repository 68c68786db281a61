//! Tofino's deparsers: checksums, mirrors, resubmission and digests, then the headers.

use std::rc::Rc;

use super::super::frame::{Binding, ControlInstance};
use super::super::{Elaborator, Region};
use crate::diag::{Code, Diagnostic};
use crate::ir::{Deparser, Pipeline, Stmt, StmtKind};

impl Elaborator<'_> {
    /// A deparser: what it does becomes a pipeline, what it emits a list.
    pub fn tofino_deparser(
        &mut self,
        instance: &Rc<ControlInstance>,
        name: &'static str,
        arguments: Vec<Binding>,
    ) {
        self.region = Region::Deparser;
        let source = self.source(instance.decl.name.span);
        let mut deparser = Deparser {
            name,
            source: source.clone(),
            ..Deparser::default()
        };
        let mut body = Vec::new();
        for stmt in self.block(|this| this.apply_top(instance, arguments)) {
            match stmt.kind {
                StmtKind::Emit(header) => deparser.headers.push(header),
                _ => {
                    self.refuse_choice_of_headers(std::slice::from_ref(&stmt));
                    body.push(stmt);
                }
            }
        }
        self.program.deparsers.push(deparser);
        self.program.pipelines.push(Pipeline { name, body, source });
    }

    /// A deparser emits each valid header; it cannot choose.
    fn refuse_choice_of_headers(&mut self, body: &[Stmt]) {
        for stmt in body {
            match &stmt.kind {
                StmtKind::Emit(_) => {
                    if self.options.only_check {
                        continue;
                    }
                    let message = format!(
                        "{}:{}: a deparser emits headers without a condition: those that are valid are sent",
                        stmt.source.file, stmt.source.line
                    );
                    let what = Diagnostic::global(Code::TARGET, message);
                    let help = "let the control make the header invalid when it is not to be sent";
                    self.diagnostics.report(what.help(help));
                }
                StmtKind::If { then, other, .. } => {
                    self.refuse_choice_of_headers(then);
                    self.refuse_choice_of_headers(other);
                }
                StmtKind::Block { body, .. } => self.refuse_choice_of_headers(body),
                _ => {}
            }
        }
    }
}
