//! Deparsers, and the headers that they emit.

use std::rc::Rc;

use super::call::Argument;
use super::frame::{Binding, ControlInstance, Frame};
use super::{Elaborator, Region};
use crate::diag::Span;
use crate::ir::{HeaderId, HeaderPlace};
use crate::passes::builder::data::Data;
use crate::passes::inlined::{BlockCode, Pending};
use crate::sema::CallInfo;
use crate::syntax::ast::Call;

impl Elaborator<'_> {
    /// Elaborates a deparser of the package; `name` is the target's name for it.
    pub fn deparser_block(
        &mut self,
        instance: &Rc<ControlInstance>,
        name: &'static str,
        arguments: Vec<Binding>,
    ) {
        self.region = Region::Deparser;
        let body = self.block(|this| this.apply_top(instance, arguments));
        self.add_block(name, instance.decl.name.span, BlockCode::Deparser(body));
    }

    /// `packet_out.emit`: emits each header in the argument.
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
            self.emit(span, Pending::Emit(header));
        }
    }

    /// Collects the headers in a value; returns false if it contains other values.
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
