//! Digests, which send values to the control plane.

use super::Lowering;
use crate::diag::Span;
use crate::ir::{self, Digest, DigestId, Effect, Primitive};
use crate::passes::builder::data::{Data, Place};
use crate::sema::Type;

/// The identity of a digest: calls with the same key share a digest in P4Info.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DigestKey {
    /// The name of the sent type.
    Type(String),
    /// The position of the call, for values whose type has no name.
    Call(Span),
}

impl Lowering<'_> {
    /// Emits a digest with the identity `key`: stores the scalars of `data` in the digest's fields, and sends the fields.
    pub fn send_digest(
        &mut self,
        (key, name): (DigestKey, String),
        receiver: ir::Expr,
        (data, ty): (Data, Type),
        span: Span,
        scope: &str,
    ) {
        let leaves = self.leaves(data, &ty);
        let digest = match self.digests.get(&key) {
            Some(id) => *id,
            None => {
                let mut fields = Vec::new();
                for (position, leaf) in leaves.iter().enumerate() {
                    let Some(scalar) = self.scalar(&leaf.ty) else {
                        let message =
                            format!("a digest carries numbers on this target, not {}", leaf.ty);
                        self.target(span, message);
                        return;
                    };
                    let field = self.unique(&format!("digest.{name}.f{position}"));
                    fields.push(self.program.storage.add_scalar(field, scalar));
                }
                let meta = self.meta(name.clone(), &[], span);
                let type_spec = self.type_spec(&ty);
                let id = DigestId::from(self.program.digests.len());
                self.program.digests.push(Digest {
                    meta,
                    fields,
                    type_spec,
                });
                self.digests.insert(key, id);
                id
            }
        };
        let fields = self.program.digests[digest.index()].fields.clone();
        for (field, leaf) in fields.into_iter().zip(leaves) {
            if let Some(scalar) = self.scalar(&leaf.ty) {
                self.assign(
                    &Place::Scalar(field.into(), scalar),
                    leaf.data,
                    &leaf.ty,
                    span,
                    scope,
                );
            }
        }
        self.emit(
            span,
            Effect::Primitive(Primitive::Digest { receiver, digest }),
        );
    }
}
