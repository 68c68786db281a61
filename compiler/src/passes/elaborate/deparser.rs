//! The deparser: the order of headers.

use std::rc::Rc;

use super::call::Argument;
use super::data::Data;
use super::frame::{Binding, ControlInstance, Frame};
use super::{Elaborator, Region};
use crate::diag::Span;
use crate::ir::{Deparser, HeaderId, HeaderPlace, Primitive, StmtKind};
use crate::sema::CallInfo;
use crate::syntax::ast::Call;

impl Elaborator<'_> {
    /// Collects the headers that a deparser emits, and what else it does.
    pub fn deparser_block(&mut self, instance: &Rc<ControlInstance>, arguments: Vec<Binding>) {
        self.region = Region::Deparser;
        let mut deparser = Deparser {
            name: "deparser",
            source: self.source(instance.decl.name.span),
            ..Deparser::default()
        };
        let code = self.block(|this| this.apply_top(instance, arguments));
        for stmt in code {
            match stmt.kind {
                StmtKind::Emit(header) => deparser.headers.push(header),
                // The target has a list of these and a list of headers, so that their order is lost, as with p4c.
                StmtKind::Primitive(
                    Primitive::LogMsg { .. }
                    | Primitive::Assert(_)
                    | Primitive::Assume(_)
                    | Primitive::Truncate { .. },
                ) => deparser.calls.push(stmt),
                _ => {
                    let message = format!(
                        "{}:{}: a deparser can only emit headers, log, assert and truncate on this target, and {} does something else",
                        stmt.source.file, stmt.source.line, stmt.source.fragment
                    );
                    let what = crate::diag::Diagnostic::global(crate::diag::Code::TARGET, message)
                        .help("do it at the end of egress");
                    self.diagnostics.report(what);
                }
            }
        }
        self.program.deparsers.push(deparser);
    }

    /// `packet_out.emit`.
    pub fn emit_header(&mut self, info: &CallInfo, call: &Call, span: Span, frame: &Rc<Frame>) {
        let bound = self.arguments(info, &call.args, frame);
        let Some(Argument::Value(data)) = bound.into_iter().next().map(|bound| bound.argument)
        else {
            return;
        };
        let mut headers = Vec::new();
        if !self.headers_of(&data, &mut headers) {
            self.target(
                span,
                "only headers of the package can be emitted on this target, not computed ones",
            );
        }
        for header in headers {
            self.emit(span, StmtKind::Emit(header));
        }
    }

    /// All headers in a value; false when there is something else in it.
    fn headers_of(&self, data: &Data, into: &mut Vec<HeaderId>) -> bool {
        let storage = &self.program.storage;
        match data {
            Data::Header(HeaderPlace::Fixed(id)) => into.push(*id),
            Data::Struct(members) => {
                return members
                    .iter()
                    .all(|(_, member)| self.headers_of(member, into))
            }
            Data::Union(id) => into.extend(&storage.union(*id).members),
            Data::Stack(id) => into.extend(&storage.stack(*id).elements),
            Data::UnionStack(id) => {
                for union in &storage.union_stack(*id).elements {
                    into.extend(&storage.union(*union).members);
                }
            }
            Data::InvalidHeader => {}
            _ => return false,
        }
        true
    }
}
