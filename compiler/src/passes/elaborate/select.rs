//! `select` and value sets.

use std::rc::Rc;

use num_bigint::BigInt;

use super::data::Data;
use super::frame::Frame;
use super::Elaborator;
use crate::diag::{Code, Diagnostic};
use crate::ir::{
    self, mask, Effect, Keyset, MatchKind, Scalar, SelectKey, ValueSet, ValueSetField, ValueSetId,
};
use crate::passes::annotations::{
    documentation, field_annotations, field_name, full_name, unstructured_but,
};
use crate::sema::{Resolution, Type};
use crate::syntax::ast::{Annotated, Annotation, Expr, ExprKind, Name, Select, ValueSetDecl};

/// A select before its states are known.
#[derive(Default)]
pub struct Plan {
    /// What is looked at.
    pub keys: Vec<SelectKey>,
    /// What matches, and the name of the next state.
    pub cases: Vec<(Keyset, Name)>,
}

/// A range is split into at most this many masks for one key.
type Masks = Vec<(BigInt, BigInt)>;

/// More combinations of masks than this come from ranges in too many keys.
const MAX_COMBINATIONS: usize = 1 << 16;

impl Elaborator<'_> {
    /// Evaluates keys and keysets.
    pub fn select(&mut self, select: &Select, frame: &Rc<Frame>) -> Plan {
        let exprs: Vec<&Expr> = select.keys.iter().collect();
        let mut types = Vec::new();
        let mut keys = Vec::new();
        for (data, expr) in self.eval_operands(&exprs, frame).into_iter().zip(&exprs) {
            let ty = self.type_as_used(expr, frame);
            for leaf in self.leaves(data, &ty) {
                let Some(scalar) = self.scalar(&leaf.ty) else {
                    let message = format!(
                        "a select looks at numbers on this target, not at {}",
                        leaf.ty
                    );
                    self.target(expr.span, message);
                    return Plan::default();
                };
                let Data::Scalar(value) = leaf.data else {
                    continue;
                };
                keys.push(self.select_key(value, scalar, expr, frame));
                types.push(leaf.ty);
            }
        }
        let mut cases = Vec::new();
        for case in &select.cases {
            for keyset in self.keysets(&case.keyset, &types, frame) {
                let is_default = keyset == Keyset::Default;
                cases.push((keyset, case.target.name.clone()));
                if is_default {
                    // Cases after it can never be taken.
                    return Plan { keys, cases };
                }
            }
        }
        Plan { keys, cases }
    }

    fn select_key(
        &mut self,
        value: ir::Expr,
        scalar: Scalar,
        expr: &Expr,
        frame: &Rc<Frame>,
    ) -> SelectKey {
        let width = scalar.width();
        if let ir::Expr::Field { place, .. } = value {
            return SelectKey::Field { place, width };
        }
        let held = self.temporary(frame, "tmp", scalar);
        self.emit(
            expr.span,
            Effect::Assign {
                target: held.into(),
                value,
            },
        );
        SelectKey::Field {
            place: held.into(),
            width,
        }
    }

    /// The keysets that a case stands for: ranges take several.
    fn keysets(&mut self, keyset: &Expr, types: &[Type], frame: &Rc<Frame>) -> Vec<Keyset> {
        if let Some(set) = self.named_value_set(keyset, frame) {
            return vec![Keyset::ValueSet(set)];
        }
        let elements: Vec<&Expr> = match &keyset.kind {
            ExprKind::DontCare(_) => return vec![Keyset::Default],
            ExprKind::Keyset(elements) | ExprKind::List(elements)
                if elements.len() == types.len() =>
            {
                elements.iter().collect()
            }
            _ => vec![keyset],
        };
        if let [only] = &elements[..] {
            if let Some(set) = self.named_value_set(only, frame) {
                return vec![Keyset::ValueSet(set)];
            }
        }
        let mut combinations: Vec<Masks> = vec![Vec::new()];
        let mut position = 0;
        for element in elements {
            if self.named_value_set(element, frame).is_some() {
                self.target(
                    element.span,
                    "a value set must stand for all keys of the select on this target",
                );
                return Vec::new();
            }
            let alternatives = self.element_masks(element, types, &mut position, frame);
            let mut next = Vec::with_capacity(combinations.len() * alternatives.len());
            for combination in &combinations {
                for alternative in &alternatives {
                    let mut combination = combination.clone();
                    combination.extend(alternative.iter().cloned());
                    next.push(combination);
                }
            }
            if next.len() > MAX_COMBINATIONS {
                self.error(
                    Code::LIMIT,
                    keyset.span,
                    "the ranges of this case need too many masks",
                );
                return Vec::new();
            }
            combinations = next;
        }
        let all = combinations
            .iter()
            .all(|masks| masks.iter().all(|(_, mask)| *mask == BigInt::ZERO));
        if all {
            return vec![Keyset::Default];
        }
        combinations.into_iter().map(Keyset::Values).collect()
    }

    /// Alternatives for one element of a keyset, each with a value and mask for every key that it covers.
    fn element_masks(
        &mut self,
        element: &Expr,
        types: &[Type],
        position: &mut usize,
        frame: &Rc<Frame>,
    ) -> Vec<Masks> {
        let width = |this: &Self, position: usize| {
            types
                .get(position)
                .and_then(|ty| this.scalar(ty))
                .map_or(0, Scalar::width)
        };
        let here = *position;
        match &element.kind {
            ExprKind::DontCare(_) => {
                *position += 1;
                vec![vec![(BigInt::ZERO, BigInt::ZERO)]]
            }
            ExprKind::Mask(value, bits) => {
                *position += 1;
                let ones = mask(width(self, here));
                let (Some(value), Some(bits)) = (
                    self.eval_constant(value, frame),
                    self.eval_constant(bits, frame),
                ) else {
                    return Vec::new();
                };
                let bits = bits & ones;
                vec![vec![(value & &bits, bits)]]
            }
            ExprKind::Range(low, high) => {
                *position += 1;
                let (Some(low), Some(high)) = (
                    self.eval_constant(low, frame),
                    self.eval_constant(high, frame),
                ) else {
                    return Vec::new();
                };
                let ty = types
                    .get(here)
                    .and_then(|ty| self.scalar(ty))
                    .unwrap_or(Scalar::Bit(0));
                range_masks(&low, &high, ty)
                    .into_iter()
                    .map(|mask| vec![mask])
                    .collect()
            }
            _ => {
                let ty = self.type_as_used(element, frame);
                let ty = match ty {
                    Type::Set(inner) => (*inner).clone(),
                    ty => ty,
                };
                let data = self.eval(element, frame);
                let mut masks = Vec::new();
                for leaf in self.leaves(data, &ty) {
                    let ones = mask(width(self, *position));
                    *position += 1;
                    match leaf.data.constant() {
                        Some(value) => masks.push((value & &ones, ones)),
                        None => {
                            self.target(
                                element.span,
                                "a case of a select must be known at compile time on this target",
                            );
                            return Vec::new();
                        }
                    }
                }
                vec![masks]
            }
        }
    }

    fn named_value_set(&self, expr: &Expr, frame: &Rc<Frame>) -> Option<ValueSetId> {
        let ExprKind::Name(_) = expr.kind else {
            return None;
        };
        let Resolution::Decl(id) = self.checked.resolution(expr) else {
            return None;
        };
        let known = frame.parser.as_ref()?.value_sets.borrow().get(&id).copied();
        known
    }

    /// How a field of a value set matches: as its `@match` says, or exactly.
    fn match_annotation(&mut self, annotations: &[Annotation]) -> MatchKind {
        let Some(annotation) = annotations.annotation("match") else {
            return MatchKind::Exact;
        };
        match annotation.body_text().trim() {
            "exact" => MatchKind::Exact,
            "ternary" => MatchKind::Ternary,
            "lpm" => MatchKind::Lpm,
            "range" => MatchKind::Range,
            "optional" => MatchKind::Optional,
            other => {
                let message = format!("`@match` takes a match kind, not `{other}`");
                self.diagnostics.report(
                    Diagnostic::error(Code::ANNOTATION_RULE, annotation.span, message)
                        .note("value sets match `exact`, `ternary`, `lpm`, `range` or `optional`"),
                );
                MatchKind::Exact
            }
        }
    }

    /// Makes a value set.
    pub fn value_set(&mut self, decl: &Rc<ValueSetDecl>, frame: &Rc<Frame>) -> Option<ValueSetId> {
        let ty = self.written_type(&decl.ty, frame);
        let size = self.eval_u32(&decl.size, frame)?;
        let name = full_name(&frame.name, &decl.annotations, &decl.name.name);
        let meta = self.named_meta("value set", name, &decl.annotations, decl.name.span);
        let mut fields = Vec::new();
        match self.checked.representation(&ty) {
            Type::Struct(_) => self.add_members(&mut fields, "", &ty, decl)?,
            Type::Tuple(types) => {
                for ty in types.iter() {
                    self.add_member(
                        &mut fields,
                        String::new(),
                        ty,
                        MatchKind::Exact,
                        None,
                        Vec::new(),
                        decl,
                    )?;
                }
            }
            _ => self.add_member(
                &mut fields,
                String::new(),
                &ty,
                MatchKind::Exact,
                None,
                Vec::new(),
                decl,
            )?,
        }
        let width = fields.iter().map(|field| field.width).sum();
        let source = self.source(decl.name.span);
        let id = ValueSetId::from(self.program.value_sets.len());
        self.program.value_sets.push(ValueSet {
            meta,
            size: u64::from(size),
            width,
            fields,
            source,
        });
        Some(id)
    }

    /// Fields of a struct, those of structs in it one by one.
    fn add_members(
        &mut self,
        fields: &mut Vec<ValueSetField>,
        prefix: &str,
        ty: &Type,
        decl: &ValueSetDecl,
    ) -> Option<()> {
        for (field, ty) in self.checked.fields(ty) {
            let field_name = field_name(&field.annotations, &field.name.name);
            let name = super::join(prefix, &field_name);
            if matches!(self.checked.representation(&ty), Type::Struct(_)) {
                self.add_members(fields, &name, &ty, decl)?;
                continue;
            }
            let kind = self.match_annotation(&field.annotations);
            let (id, _, _) = field_annotations(self.checked, self.diagnostics, &field.annotations);
            let annotations = unstructured_but(&field.annotations, &["match"]);
            self.add_member(fields, name, &ty, kind, id, annotations, decl)?;
            if let Some(made) = fields.last_mut() {
                (made.brief, made.description) = documentation(&field.annotations);
            }
        }
        Some(())
    }

    #[allow(clippy::too_many_arguments)]
    fn add_member(
        &mut self,
        fields: &mut Vec<ValueSetField>,
        name: String,
        ty: &Type,
        kind: MatchKind,
        id: Option<u32>,
        annotations: Vec<String>,
        decl: &ValueSetDecl,
    ) -> Option<()> {
        let Some(scalar) = self.scalar(ty) else {
            self.target(
                decl.span,
                format!("a value set holds numbers on this target, not {ty}"),
            );
            return None;
        };
        let ty = self.type_spec(ty);
        fields.push(ValueSetField {
            name,
            width: scalar.width(),
            kind,
            annotations,
            brief: String::new(),
            description: String::new(),
            id,
            ty,
        });
        Some(())
    }
}

/// Values and masks that together match the numbers from `low` to `high`, both included.
pub fn range_masks(low: &BigInt, high: &BigInt, ty: Scalar) -> Masks {
    let ones = mask(ty.width());
    if ty.signed() && *low < BigInt::ZERO && *high >= BigInt::ZERO {
        // Two's complement puts the negative numbers above the others.
        let mut masks = range_masks(low, &BigInt::from(-1), ty);
        masks.extend(range_masks(&BigInt::ZERO, high, ty));
        return masks;
    }
    let (mut low, high) = (low & &ones, high & &ones);
    let mut masks = Vec::new();
    while low <= high {
        // The largest aligned block of a power of two that starts at `low` and does not pass `high`.
        let mut bits = low
            .trailing_zeros()
            .unwrap_or(u64::from(ty.width()))
            .min(u64::from(ty.width()));
        while &low + (BigInt::from(1) << bits) - 1 > high {
            bits -= 1;
        }
        let block = BigInt::from(1) << bits;
        masks.push((low.clone(), &ones ^ (&block - 1)));
        low += block;
    }
    masks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(masks: &Masks, width: u32) -> Vec<u32> {
        (0..1u32 << width)
            .filter(|n| {
                masks
                    .iter()
                    .any(|(value, mask)| BigInt::from(*n) & mask == *value)
            })
            .collect()
    }

    #[test]
    fn masks_of_a_range_match_just_its_numbers() {
        for low in 0..16u32 {
            for high in low..16 {
                let masks = range_masks(&low.into(), &high.into(), Scalar::Bit(4));
                assert_eq!(
                    matched(&masks, 4),
                    (low..=high).collect::<Vec<_>>(),
                    "{low}..{high}"
                );
                assert!(masks.len() <= 6, "{low}..{high} took {} masks", masks.len());
            }
        }
    }

    #[test]
    fn signed_ranges_go_through_zero() {
        let masks = range_masks(&BigInt::from(-2), &BigInt::from(1), Scalar::Int(4));
        assert_eq!(matched(&masks, 4), [0, 1, 14, 15]);
    }
}
