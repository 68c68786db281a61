//! Pass: deparsers.
//!
//! Input: the bodies of deparsers. Output: lists of headers, and the other statements, which run before headers are emitted
//! ([`DeparserForm`]). Invariants: a header is emitted if and only if it is valid, and the other statements do not emit headers.

use super::inlined::{Pending, Stmt, StmtKind};
use crate::diag::{Code, Diagnostic, Diagnostics};
use crate::ir::{self, walk, Effect, HeaderId, Primitive};

/// The statements that the deparsers of a target may contain, besides `emit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeparserForm {
    /// Calls that log, check or truncate, which the deparser itself makes.
    Calls,
    /// All statements of a control: they form a pipeline of the deparser's name.
    Statements,
}

/// A lowered deparser.
pub struct Lowered {
    /// The headers in the order in which they are emitted.
    pub headers: Vec<HeaderId>,
    /// The calls that the deparser makes; empty with [`DeparserForm::Statements`].
    pub calls: Vec<ir::Stmt<Primitive>>,
    /// The other statements with [`DeparserForm::Statements`].
    pub pipeline: Option<Vec<Stmt>>,
}

/// Lowers a deparser of the form [`DeparserForm::Calls`].
pub fn with_calls(body: Vec<Stmt>, diagnostics: &mut Diagnostics) -> Lowered {
    let (mut headers, mut calls) = (Vec::new(), Vec::new());
    for stmt in body {
        match stmt.kind {
            StmtKind::Own(Pending::Emit(header)) => headers.push(header),
            // The target has separate lists of calls and headers, so their relative order is lost, as in p4c.
            StmtKind::Effect(Effect::Primitive(
                kind @ (Primitive::LogMsg { .. }
                | Primitive::Assert(_)
                | Primitive::Assume(_)
                | Primitive::Truncate(_)),
            )) => calls.push(ir::Stmt {
                kind,
                source: stmt.source,
            }),
            _ => {
                let message = format!(
                    "{}:{}: a deparser can only emit headers, log, assert and truncate on this target; this is none of these: {}",
                    stmt.source.file, stmt.source.line, stmt.source.fragment
                );
                let what = Diagnostic::global(Code::TARGET, message);
                diagnostics.report(what.help("move it to the end of egress"));
            }
        }
    }
    Lowered {
        headers,
        calls,
        pipeline: None,
    }
}

/// Lowers a deparser of the form [`DeparserForm::Statements`]. With `only_check`, nothing is reported.
pub fn with_statements(
    body: Vec<Stmt>,
    only_check: bool,
    diagnostics: &mut Diagnostics,
) -> Lowered {
    let (mut headers, mut rest) = (Vec::new(), Vec::new());
    for stmt in body {
        match stmt.kind {
            StmtKind::Own(Pending::Emit(header)) => headers.push(header),
            _ => {
                if !only_check {
                    report_conditional_emits(std::slice::from_ref(&stmt), diagnostics);
                }
                rest.push(stmt);
            }
        }
    }
    Lowered {
        headers,
        calls: Vec::new(),
        pipeline: Some(rest),
    }
}

/// Reports headers that are emitted under a condition.
fn report_conditional_emits(body: &[Stmt], diagnostics: &mut Diagnostics) {
    walk(body, &mut |stmt| {
        if let StmtKind::Own(Pending::Emit(_)) = &stmt.kind {
            let message = format!(
                "{}:{}: a deparser on this target emits headers unconditionally; the valid ones are sent",
                stmt.source.file, stmt.source.line
            );
            let what = Diagnostic::global(Code::TARGET, message);
            let help = "to omit the header, make it invalid in a control";
            diagnostics.report(what.help(help));
        }
    });
}
