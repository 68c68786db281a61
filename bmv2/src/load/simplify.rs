//! Algebraic simplification of expressions; values in unbounded integers do not change.

use crate::exec::big::Big;
use crate::exec::node::{Binary, Kind, Node, Unary};

/// Maximum constant amount of a shift that is simplified, in bits.
const MAX_SHIFT: u64 = 1024;

/// Creates a node or a simpler one with the same value. Its operands must be simplified already.
pub(super) fn simplified(kind: Kind) -> Node {
    match kind {
        Kind::Unary(Unary::LogicNot, a) => not(*a),
        Kind::Binary(op, a, b) => binary(op, *a, *b),
        kind => Node::of(kind),
    }
}

fn not(a: Node) -> Node {
    Node::of(match a.kind {
        Kind::Unary(Unary::LogicNot, a) if a.range == Some((0, 1)) => return *a,
        Kind::Binary(Binary::Eq, a, b) => Kind::Binary(Binary::Ne, a, b),
        Kind::Binary(Binary::Ne, a, b) => Kind::Binary(Binary::Eq, a, b),
        Kind::Binary(Binary::Lt, a, b) => Kind::Binary(Binary::Le, b, a),
        Kind::Binary(Binary::Le, a, b) => Kind::Binary(Binary::Lt, b, a),
        Kind::Unary(Unary::LogicNot, a) => Kind::Unary(Unary::NonZero, a),
        Kind::Unary(Unary::NonZero, a) => Kind::Unary(Unary::LogicNot, a),
        _ => Kind::Unary(Unary::LogicNot, Box::new(a)),
    })
}

fn binary(op: Binary, a: Node, b: Node) -> Node {
    match (op, constant(&a), constant(&b)) {
        (_, Some(x), Some(y)) => match fold(op, x, y) {
            Some(value) => Node::constant(value),
            None => plain(op, a, b),
        },
        (Binary::BitAnd, Some(mask), None) => {
            let mask = mask.clone();
            masked(b, mask)
        }
        (Binary::BitAnd, None, Some(mask)) => {
            let mask = mask.clone();
            masked(a, mask)
        }
        (Binary::Shr, None, Some(n)) => match amount(n) {
            Some(n) => shifted(a, n),
            None => plain(op, a, b),
        },
        _ => plain(op, a, b),
    }
}

fn plain(op: Binary, a: Node, b: Node) -> Node {
    Node::of(Kind::Binary(op, Box::new(a), Box::new(b)))
}

/// Simplifies the expression `a & mask`; nested masks are combined.
fn masked(a: Node, mask: Big) -> Node {
    if let (Some((low, high)), Some(mask)) = (a.range, mask.to_i128()) {
        let is_solid = mask >= 0 && mask & mask.wrapping_add(1) == 0;
        if is_solid && low >= 0 && high <= mask {
            return a;
        }
    }
    match a.kind {
        Kind::Binary(Binary::BitAnd, x, m) => match constant(&m) {
            Some(inner) => masked(*x, inner.and(&mask)),
            None => plain(
                Binary::BitAnd,
                plain(Binary::BitAnd, *x, *m),
                Node::constant(mask),
            ),
        },
        _ => plain(Binary::BitAnd, a, Node::constant(mask)),
    }
}

/// Simplifies the expression `a >> n`; nested shifts are combined, and masks are applied after the shift.
fn shifted(a: Node, n: u64) -> Node {
    let by = |n| Node::constant(Big::from_u64(n));
    match a.kind {
        _ if n == 0 => a,
        Kind::Binary(Binary::Shr, x, m) => match constant(&m).and_then(amount) {
            Some(m) if m + n <= MAX_SHIFT => shifted(*x, m + n),
            _ => plain(Binary::Shr, plain(Binary::Shr, *x, *m), by(n)),
        },
        Kind::Binary(Binary::BitAnd, x, m) => match constant(&m) {
            Some(mask) if x.is_u64() || x.is_i64() => {
                let mask = mask.shr(n);
                masked(shifted(*x, n), mask)
            }
            // Masking before the shift makes a value that exceeds a word fit one.
            _ => plain(Binary::Shr, plain(Binary::BitAnd, *x, *m), by(n)),
        },
        _ => plain(Binary::Shr, a, by(n)),
    }
}

fn constant(node: &Node) -> Option<&Big> {
    match &node.kind {
        Kind::Const(value) => Some(value),
        _ => None,
    }
}

fn amount(n: &Big) -> Option<u64> {
    Some(n.to_amount()).filter(|n| *n <= MAX_SHIFT)
}

fn fold(op: Binary, a: &Big, b: &Big) -> Option<Big> {
    Some(match op {
        Binary::Add => a.add(b),
        Binary::Sub => a.sub(b),
        Binary::Shl => a.shl(amount(b)?),
        Binary::Shr => a.shr(amount(b)?),
        Binary::BitAnd => a.and(b),
        Binary::BitOr => a.or(b),
        Binary::BitXor => a.xor(b),
        Binary::Mul
        | Binary::Div
        | Binary::Mod
        | Binary::Eq
        | Binary::Ne
        | Binary::Lt
        | Binary::Le
        | Binary::And
        | Binary::Or => return None,
    })
}
