//! Fields and validity bits that expressions and programs read.

use std::collections::{BTreeMap, BTreeSet};

use num_bigint::BigInt;

use super::Location;
use crate::ir::{
    mask, walk_exprs, BinaryOp, CalculationInput, Expr, FieldRef, FlatProgram, HeaderPlace,
    KeyTarget,
};

/// The number of reads of each field in a program. A field that is never read is missing.
pub fn reads(program: &FlatProgram) -> BTreeMap<FieldRef, usize> {
    let mut counts = BTreeMap::new();
    let mut count = |field: FieldRef| *counts.entry(field).or_default() += 1;
    let pipelines = program.pipelines.iter().map(|pipeline| &pipeline.body);
    for body in pipelines.chain(&program.action_bodies) {
        walk_exprs(body, &mut |expr| {
            expr.walk(&mut |expr| {
                if let Expr::Field { place, .. } = expr {
                    place.fixed().into_iter().for_each(&mut count);
                }
            });
        });
    }
    for key in program.objects.tables.iter().flat_map(|table| &table.keys) {
        if let KeyTarget::Field(field) = key.target {
            count(field);
        }
    }
    for input in (program.objects.calculations.iter()).flat_map(|calculation| &calculation.inputs) {
        if let CalculationInput::Field(field) = input {
            count(*field);
        }
    }
    for profile in &program.objects.action_profiles {
        let inputs = profile
            .selector
            .iter()
            .flat_map(|selector| &selector.inputs);
        inputs.copied().for_each(&mut count);
    }
    // Fields that the traffic manager and the deparsers read.
    program
        .objects
        .aliases
        .iter()
        .for_each(|(_, field)| count(*field));
    for fields in &program.objects.field_lists {
        fields.fields.iter().copied().for_each(&mut count);
    }
    counts
}

/// The fields and validity bits in an expression.
pub fn locations_in(expr: &Expr) -> BTreeSet<Location> {
    let mut locations = BTreeSet::new();
    expr.walk(&mut |expr| match expr {
        Expr::Field { place, .. } => locations.extend(place.fixed().map(Location::Field)),
        Expr::Valid(HeaderPlace::Fixed(header)) => {
            locations.insert(Location::Valid(*header));
        }
        _ => {}
    });
    locations
}

/// Length of the longest chain of ALU operations in an expression. Moves do not count: copies, casts, slices, concatenations, and masks and
/// shifts by constants.
pub fn operations(expr: &Expr) -> u32 {
    match expr {
        Expr::Unary { arg, .. } => 1 + operations(arg),
        Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => operations(arg),
        Expr::Binary { op, left, right } => {
            let below = operations(left).max(operations(right));
            below + u32::from(!moves(*op, left, right))
        }
        Expr::Choose { cond, then, other } => {
            let values = operations(then).max(operations(other));
            // The comparison is computed by a gateway.
            1 + values.max(operations(cond).saturating_sub(1))
        }
        _ => 0,
    }
}

/// Whether an operation only moves or clears bits: a concatenation, or a mask or shift by a constant.
fn moves(op: BinaryOp, left: &Expr, right: &Expr) -> bool {
    match op {
        BinaryOp::Concat => true,
        BinaryOp::And => left.is_constant() || right.is_constant(),
        BinaryOp::Shl | BinaryOp::Shr => right.is_constant(),
        _ => false,
    }
}

/// Whether a hash unit computes the expression, as with `@in_hash`: it has more than one `^`, and all other operations are moves.
pub fn in_hash(expr: &Expr) -> bool {
    fn xors(expr: &Expr) -> Option<u32> {
        match expr {
            Expr::Cast { arg, .. } | Expr::Slice { arg, .. } => xors(arg),
            Expr::Binary { op, left, right } => {
                let both = xors(left)? + xors(right)?;
                match op {
                    BinaryOp::Xor => Some(both + 1),
                    op if moves(*op, left, right) => Some(both),
                    _ => None,
                }
            }
            Expr::Field { .. } | Expr::Number { .. } | Expr::Bool(_) => Some(0),
            _ => None,
        }
    }
    xors(expr).is_some_and(|xors| xors > 1)
}

/// The written bits as a mask, and the value, of an assignment `field = field & mask | value` to a slice. `None` for other assignments.
pub fn slice(field: FieldRef, value: &Expr) -> Option<(BigInt, &Expr)> {
    let Expr::Binary {
        op: BinaryOp::Or,
        left,
        right,
    } = value
    else {
        return None;
    };
    let kept = |side: &Expr| match side {
        Expr::Binary {
            op: BinaryOp::And,
            left,
            right,
        } => match (&**left, &**right) {
            (Expr::Field { place, .. }, Expr::Number { value, ty })
                if place.fixed() == Some(field) =>
            {
                Some(mask(ty.width()) ^ value)
            }
            _ => None,
        },
        _ => None,
    };
    let changed = kept(left).map(|bits| (bits, &**right));
    changed.or_else(|| kept(right).map(|bits| (bits, &**left)))
}
