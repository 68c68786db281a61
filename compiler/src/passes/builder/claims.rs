//! Control-plane metadata of objects, and the uniqueness of their names.

use std::collections::btree_map::Entry;

use super::Builder;
use crate::diag::{Code, Diagnostic, Span};
use crate::ir::Meta;
use crate::passes::annotations;
use crate::syntax::ast::Annotation;

impl Builder<'_> {
    /// Control-plane metadata of an object of a kind such as `table`. Reports a name that another object of this kind has.
    pub fn named_meta(
        &mut self,
        kind: &'static str,
        name: String,
        annotations: &[Annotation],
        span: Span,
    ) -> Meta {
        match self.claimed.entry((kind, name.clone())) {
            Entry::Vacant(free) => {
                free.insert(span);
            }
            // An action with a copy for each list of bound arguments is one action for the control plane.
            Entry::Occupied(other)
                if kind == "action"
                    && (*other.get() == span || !self.options.actions_need_names) => {}
            Entry::Occupied(other) if *other.get() == span => {
                let message = format!(
                    "{kind} `{name}` is instantiated more than once, with one control-plane name"
                );
                self.diagnostics.report(
                    Diagnostic::error(Code::DUPLICATE, span, message)
                        .help("remove the leading dot of its `@name`, so that the names of its instances differ"),
                );
            }
            Entry::Occupied(other) => {
                let message =
                    format!("{kind} `{name}`: another {kind} has this control-plane name");
                let first = *other.get();
                self.diagnostics.report(
                    Diagnostic::error(Code::DUPLICATE, span, message)
                        .other(first, "the other one")
                        .help("give one of them another `@name`"),
                );
            }
        }
        self.meta(name, annotations, span)
    }

    /// A control-plane name for an instance that is not declared by name: `name`, with a number if an object has this name or a name
    /// within it (`name.`).
    pub fn free_name(&self, name: String) -> String {
        let taken = |name: &str| {
            self.claimed
                .keys()
                .filter(|(kind, _)| *kind != "action")
                .filter_map(|(_, claimed)| claimed.strip_prefix(name))
                .any(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        if !taken(&name) {
            return name;
        }
        (0..)
            .map(|n| format!("{name}_{n}"))
            .find(|name| !taken(name))
            .expect("some number is free")
    }

    /// Control-plane metadata of an object, without a check of its name.
    pub fn meta(&mut self, name: String, annotations: &[Annotation], span: Span) -> Meta {
        annotations::meta(
            self.checked,
            self.sources,
            self.diagnostics,
            name,
            annotations,
            span,
        )
    }
}
