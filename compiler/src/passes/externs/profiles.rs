//! Action profiles and action selectors, with the properties that annotations set.

use super::Lowering;
use crate::ir::{self, ActionProfile, Selector, SizeSemantics};
use crate::passes::annotations::{self, unstructured_but};
use crate::syntax::ast::{Annotated, Annotation};

/// Annotations of action profiles with dedicated fields in P4Info.
const OF_PROFILES: [&str; 3] = [
    "max_group_size",
    "max_member_weight",
    "selector_size_semantics",
];

impl Lowering<'_> {
    /// An action profile or, with a `selector`, an action selector.
    pub fn profile(
        &mut self,
        mut meta: ir::Meta,
        size: u64,
        selector: Option<Selector>,
        annotations: &[Annotation],
    ) -> ActionProfile {
        meta.annotations = unstructured_but(annotations, &OF_PROFILES);
        let number = |name: &str| match annotations.annotation(name).and_then(Annotation::exprs) {
            Some([expr]) => annotations::number(self.checked, expr),
            _ => None,
        };
        let (max_group_size, max_member_weight) =
            (number("max_group_size"), number("max_member_weight"));
        let semantics = annotations
            .annotation("selector_size_semantics")
            .and_then(Annotation::string)
            .map(str::to_ascii_lowercase);
        let semantics = match semantics.as_deref() {
            Some("sum_of_weights") => Some(SizeSemantics::SumOfWeights),
            Some("sum_of_members") => Some(SizeSemantics::SumOfMembers {
                max_weight: max_member_weight.unwrap_or(0),
            }),
            _ => None,
        };
        ActionProfile {
            meta,
            size,
            max_group_size: max_group_size.unwrap_or(0),
            groups: 0,
            members: None,
            semantics,
            selector,
            tables: Vec::new(),
        }
    }
}
