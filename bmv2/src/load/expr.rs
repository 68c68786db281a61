//! Name resolution: converts expressions of the JSON to [`Node`]s.

use super::simplify::simplified;
use super::{find, LoadError, Loader, Scope};
use crate::exec::big::Big;
use crate::exec::node::{Binary, Cast, Element, Kind, Node, Unary};
use crate::exec::ops::Slot;
use alfirk_bmv2_json::{decode_hex, Expr, FieldRef, Op, Operator};

/// A header that is known at load time, or a stack element whose index is computed at run time.
pub(super) enum HeaderRef {
    Static(u16),
    Dynamic {
        /// The headers among which the index selects, such as the elements of a stack.
        headers: Vec<u16>,
        stride: usize,
        index: Node,
    },
}

/// Target of an assignment.
pub(super) enum Dest {
    Field { slot: Slot, bits: u32, signed: bool },
    Element { element: u16, index: Node },
    Register { array: u16, bits: u32, index: Node },
}

impl Node {
    /// Creates an expression node and simplifies it. The range of its values is computed.
    pub(super) fn new(kind: Kind) -> Node {
        simplified(kind)
    }

    /// Creates a node with its value range, without simplification.
    pub(super) fn of(kind: Kind) -> Node {
        let range = range(&kind);
        Node { kind, range }
    }

    pub(super) fn constant(value: Big) -> Node {
        Node::of(Kind::Const(value))
    }

    /// Returns whether all possible values fit an unsigned 64-bit word.
    pub(super) fn is_u64(&self) -> bool {
        self.range
            .is_some_and(|(low, high)| low >= 0 && high <= u64::MAX.into())
    }

    /// Returns whether all possible values fit a signed 64-bit word.
    pub(super) fn is_i64(&self) -> bool {
        self.range
            .is_some_and(|(low, high)| low >= i64::MIN.into() && high <= i64::MAX.into())
    }
}

fn range(kind: &Kind) -> Option<(i128, i128)> {
    const BOOL: Option<(i128, i128)> = Some((0, 1));
    let field = |bits: u32, signed: bool| match (bits, signed) {
        (0, _) => Some((0, 0)),
        (1..=126, false) => Some((0, (1 << bits) - 1)),
        (1..=126, true) => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
        _ => None,
    };
    let corners = |values: [Option<i128>; 4]| {
        let values = values.into_iter().collect::<Option<Vec<_>>>()?;
        Some((*values.iter().min()?, *values.iter().max()?))
    };
    match kind {
        Kind::Const(value) => value.to_i128().map(|v| (v, v)),
        Kind::Field { bits, signed, .. } => field(*bits, *signed),
        // `Loader::element_node` sets their ranges.
        Kind::Element { .. } | Kind::Last { .. } => None,
        Kind::Register { bits, .. } => field(*bits, false),
        Kind::Unary(Unary::Not, a) => a.range.map(|(low, high)| (!high, !low)),
        Kind::Unary(Unary::Decrement, _) => Some((0, u64::MAX.into())),
        Kind::Unary(Unary::LogicNot | Unary::NonZero, _) => BOOL,
        Kind::HeaderEq(..) | Kind::UnionEq(..) | Kind::UnionValid(_) => BOOL,
        Kind::Ternary(_, a, b) => {
            let (a, b) = (a.range?, b.range?);
            Some((a.0.min(b.0), a.1.max(b.1)))
        }
        Kind::Cast(Cast::TwoComp | Cast::SatSigned, bits, a) => match (a.range, field(*bits, true))
        {
            (Some(a), Some(f)) if f.0 <= a.0 && a.1 <= f.1 => Some(a),
            (_, f) => f,
        },
        Kind::Cast(Cast::SatUnsigned, bits, _) => field(*bits, false),
        Kind::Binary(op, a, b) => match op {
            Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::And | Binary::Or => BOOL,
            Binary::BitAnd => match (a.range, b.range) {
                (Some(a), Some(b)) if a.0 >= 0 && b.0 >= 0 => Some((0, a.1.min(b.1))),
                (Some(a), _) if a.0 >= 0 => Some((0, a.1)),
                (_, Some(b)) if b.0 >= 0 => Some((0, b.1)),
                (Some(a), Some(b)) => Some(signed_hull(a, b)),
                _ => None,
            },
            Binary::BitOr | Binary::BitXor => Some(signed_hull(a.range?, b.range?)),
            Binary::Add => {
                let (a, b) = (a.range?, b.range?);
                Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?))
            }
            Binary::Sub => {
                let (a, b) = (a.range?, b.range?);
                Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?))
            }
            Binary::Mul => {
                let (a, b) = (a.range?, b.range?);
                let product = |x: i128, y: i128| x.checked_mul(y);
                corners([
                    product(a.0, b.0),
                    product(a.0, b.1),
                    product(a.1, b.0),
                    product(a.1, b.1),
                ])
            }
            Binary::Shl => {
                let (a, b) = (a.range?, b.range?);
                let shift = |x: i128, n: i128| {
                    let n = u32::try_from(n).ok().filter(|n| *n < 127)?;
                    x.checked_mul(1i128.checked_shl(n)?)
                };
                corners([
                    shift(a.0, b.0),
                    shift(a.0, b.1),
                    shift(a.1, b.0),
                    shift(a.1, b.1),
                ])
            }
            Binary::Shr => {
                let (a, b) = (a.range?, b.range.unwrap_or((0, i128::MAX)));
                let shift = |x: i128, n: i128| Some(x >> n.clamp(0, 127));
                corners([
                    shift(a.0, b.0),
                    shift(a.0, b.1),
                    shift(a.1, b.0),
                    shift(a.1, b.1),
                ])
            }
            // Both results are zero for negative operands.
            Binary::Div => a.range.map(|(_, high)| (0, high.max(0))),
            Binary::Mod => match (a.range, b.range) {
                (Some(a), Some(b)) => Some((0, a.1.min(b.1).max(0))),
                (Some(r), None) | (None, Some(r)) => Some((0, r.1.max(0))),
                (None, None) => None,
            },
        },
    }
}

/// Returns the smallest range of a `bit` or `int` type that includes both ranges; a signed one if a bound is negative.
fn signed_hull(a: (i128, i128), b: (i128, i128)) -> (i128, i128) {
    let reach = [a.0, a.1, b.0, b.1]
        .map(|v| if v < 0 { !v } else { v })
        .into_iter()
        .max();
    let bits = 128 - reach.unwrap_or(0).leading_zeros();
    let high = if bits >= 127 {
        i128::MAX
    } else {
        (1 << bits) - 1
    };
    if a.0 >= 0 && b.0 >= 0 {
        (0, high)
    } else {
        (!high, high)
    }
}

impl Loader<'_> {
    /// Resolves the names in an expression of the JSON file.
    pub(super) fn node(&mut self, expr: &Expr, scope: Scope) -> Result<Node, LoadError> {
        Ok(match expr.unwrapped() {
            Expr::Hexstr { value, .. } => Node::constant(self.hex(value, scope)?),
            Expr::Bool(value) => Node::constant(Big::from_bool(*value)),
            Expr::Field(field) => {
                let header = self.header(&field.header, scope.at)?;
                let h = &self.layout.headers[usize::from(header)];
                if field.field == FieldRef::VALID && h.metadata {
                    return Ok(Node::constant(Big::from_bool(true)));
                }
                let f = self.field_of(header, &field.field, scope.at)?;
                Node::new(Kind::Field {
                    slot: f.slot,
                    bits: f.bits,
                    signed: f.signed,
                })
            }
            Expr::Local(index) if !scope.fields.is_empty() => {
                let field = scope
                    .fields
                    .get(*index as usize)
                    .ok_or_else(|| scope.invalid(format!("the header has no field {index}")))?;
                Node::new(Kind::Field {
                    slot: field.slot,
                    bits: field.bits,
                    signed: field.signed,
                })
            }
            Expr::Local(index) | Expr::RuntimeData(index) => {
                let param = scope.params.get(*index as usize).ok_or_else(|| {
                    scope.invalid(format!("there is no action parameter with index {index}"))
                })?;
                if param.bits == 0 {
                    return Ok(Node::constant(Big::default()));
                }
                let slot = self.layout.params + param.offset as Slot;
                Node::new(Kind::Field {
                    slot,
                    bits: param.bits,
                    signed: false,
                })
            }
            Expr::StackField { stack, field } => {
                let at = find(&self.stack_names, "header stack", stack, scope.at)?;
                let (headers, stride) = self.stack_headers(at);
                let next = self.layout.stacks[usize::from(at)].next;
                let element = self.element(&headers, stride, field, scope)?;
                self.element_node(element, |element| Kind::Last { element, next })
            }
            Expr::UnionStackField {
                stack,
                header,
                field,
            } => {
                let at = find(
                    &self.union_stack_names,
                    "header union stack",
                    stack,
                    scope.at,
                )?;
                let next = self.layout.union_stacks[usize::from(at)].next;
                let stride = self.layout.union_stacks[usize::from(at)].stride;
                let member = self.union_member(at, header, scope)?;
                let headers = self.union_stack_headers(at, member);
                let element = self.element(&headers, stride, field, scope)?;
                self.element_node(element, |element| Kind::Last { element, next })
            }
            Expr::Register { array, index } => {
                let at = find(&self.register_names, "register array", array, scope.at)?;
                let bits = self.registers[usize::from(at)].bits;
                let index = Box::new(self.node(index, scope)?);
                Node::new(Kind::Register {
                    array: at,
                    bits,
                    index,
                })
            }
            Expr::Op(op) => self.operation(op, scope)?,
            other => return Err(scope.invalid(format!("{other:?} is not a value"))),
        })
    }

    pub(super) fn hex(&self, text: &str, scope: Scope) -> Result<Big, LoadError> {
        let (negative, bytes) = decode_hex(text).map_err(|e| scope.invalid(e.to_string()))?;
        Ok(Big::from_sign_and_bytes(negative, &bytes))
    }

    fn operation(&mut self, op: &Op, scope: Scope) -> Result<Node, LoadError> {
        use Operator as O;
        let kind = match op.op {
            O::Eq | O::Ne => {
                let left = self.left(op, scope)?.unwrapped();
                let equal = match (left, op.right.unwrapped()) {
                    (Expr::Header(a), Expr::Header(b)) => {
                        let (a, b) = (self.header(a, scope.at)?, self.header(b, scope.at)?);
                        self.same_type(a, b, scope)?;
                        Kind::HeaderEq(a, b)
                    }
                    (Expr::HeaderUnion(a), Expr::HeaderUnion(b)) => {
                        let a = find(&self.union_names, "header union", a, scope.at)?;
                        let b = find(&self.union_names, "header union", b, scope.at)?;
                        self.same_unions(a, b, scope)?;
                        Kind::UnionEq(a, b)
                    }
                    _ => {
                        let equal = if op.op == O::Eq {
                            Binary::Eq
                        } else {
                            Binary::Ne
                        };
                        return self.binary(equal, op, scope);
                    }
                };
                match op.op {
                    O::Eq => equal,
                    _ => Kind::Unary(Unary::LogicNot, Box::new(Node::new(equal))),
                }
            }
            O::Add => return self.binary(Binary::Add, op, scope),
            // A unary minus has no left operand.
            O::Sub if op.left.is_none() => {
                let zero = Box::new(Node::constant(Big::default()));
                Kind::Binary(Binary::Sub, zero, self.right(op, scope)?)
            }
            O::Sub => return self.binary(Binary::Sub, op, scope),
            O::Mul => return self.binary(Binary::Mul, op, scope),
            O::Div => return self.binary(Binary::Div, op, scope),
            O::Mod => return self.binary(Binary::Mod, op, scope),
            O::Shl => return self.binary(Binary::Shl, op, scope),
            O::Shr => return self.binary(Binary::Shr, op, scope),
            O::BitAnd => return self.binary(Binary::BitAnd, op, scope),
            O::BitOr => return self.binary(Binary::BitOr, op, scope),
            O::BitXor => return self.binary(Binary::BitXor, op, scope),
            O::And => return self.binary(Binary::And, op, scope),
            O::Or => return self.binary(Binary::Or, op, scope),
            O::Lt => return self.binary(Binary::Lt, op, scope),
            O::Le => return self.binary(Binary::Le, op, scope),
            O::Gt | O::Ge => {
                let a = self.left(op, scope)?;
                let a = Box::new(self.node(a, scope)?);
                let b = self.right(op, scope)?;
                match op.op {
                    O::Gt => Kind::Binary(Binary::Lt, b, a),
                    _ => Kind::Binary(Binary::Le, b, a),
                }
            }
            O::Not => Kind::Unary(Unary::LogicNot, self.right(op, scope)?),
            O::BitNot => Kind::Unary(Unary::Not, self.right(op, scope)?),
            O::D2b => {
                let a = self.right(op, scope)?;
                if a.range.is_some_and(|(low, high)| low >= 0 && high <= 1) {
                    return Ok(*a);
                }
                Kind::Unary(Unary::NonZero, a)
            }
            O::B2d => return Ok(*self.right(op, scope)?),
            O::TwoCompMod | O::SatCast | O::UsatCast => {
                let left = self.left(op, scope)?;
                let a = Box::new(self.node(left, scope)?);
                let bits = match &self.node(&op.right, scope)?.kind {
                    Kind::Const(bits) => bits.to_i128().and_then(|b| u32::try_from(b).ok()),
                    _ => None,
                };
                let bits = bits.filter(|b| (1..=65536).contains(b)).ok_or_else(|| {
                    scope.invalid(format!(
                        "the width of {} must be a constant from 1 to 65536",
                        op.op.as_str()
                    ))
                })?;
                let cast = match op.op {
                    O::TwoCompMod => Cast::TwoComp,
                    O::SatCast => Cast::SatSigned,
                    _ => Cast::SatUnsigned,
                };
                Kind::Cast(cast, bits, a)
            }
            O::Ternary => {
                let cond = op
                    .cond
                    .as_ref()
                    .ok_or_else(|| scope.invalid("?: without a condition"))?;
                let cond = Box::new(self.node(cond, scope)?);
                let left = self.left(op, scope)?;
                Kind::Ternary(
                    cond,
                    Box::new(self.node(left, scope)?),
                    self.right(op, scope)?,
                )
            }
            O::Valid => match self.header_ref(&op.right, scope)? {
                HeaderRef::Static(h) if self.layout.headers[usize::from(h)].metadata => {
                    Kind::Const(Big::from_bool(true))
                }
                HeaderRef::Static(h) => {
                    let slot = self.layout.headers[usize::from(h)].valid;
                    Kind::Field {
                        slot,
                        bits: 1,
                        signed: false,
                    }
                }
                HeaderRef::Dynamic {
                    headers,
                    stride,
                    index,
                } => {
                    let element = self.element(&headers, stride, FieldRef::VALID, scope)?;
                    let index = Box::new(index);
                    return Ok(
                        self.element_node(element, |element| Kind::Element { element, index })
                    );
                }
            },
            O::ValidUnion => match op.right.unwrapped() {
                Expr::HeaderUnion(name) => {
                    Kind::UnionValid(find(&self.union_names, "header union", name, scope.at)?)
                }
                other => return Err(scope.invalid(format!("{other:?} is not a header union"))),
            },
            O::LastStackIndex | O::SizeStack => {
                let next = match op.right.unwrapped() {
                    Expr::HeaderStack(name) => {
                        let at = find(&self.stack_names, "header stack", name, scope.at)?;
                        self.layout.stacks[usize::from(at)].next
                    }
                    Expr::HeaderUnionStack(name) => {
                        let at = find(
                            &self.union_stack_names,
                            "header union stack",
                            name,
                            scope.at,
                        )?;
                        self.layout.union_stacks[usize::from(at)].next
                    }
                    other => return Err(scope.invalid(format!("{other:?} is not a stack"))),
                };
                let next = Node::new(Kind::Field {
                    slot: next,
                    bits: 32,
                    signed: false,
                });
                if op.op == O::SizeStack {
                    return Ok(next);
                }
                Kind::Unary(Unary::Decrement, Box::new(next))
            }
            O::AccessField => {
                let left = self.left(op, scope)?;
                let header = self.header_ref(left, scope)?;
                let Expr::Index(offset) = op.right else {
                    return Err(scope.invalid("access_field needs a field's number"));
                };
                return self.access(header, offset as usize, scope);
            }
            O::DereferenceHeaderStack | O::DereferenceUnionStack | O::AccessUnionHeader => {
                return Err(
                    scope.invalid(format!("{} returns a header, not a value", op.op.as_str()))
                );
            }
        };
        Ok(Node::new(kind))
    }

    fn left<'e>(&self, op: &'e Op, scope: Scope) -> Result<&'e Expr, LoadError> {
        op.left.as_ref().ok_or_else(|| {
            scope.invalid(format!("operator {} has no left operand", op.op.as_str()))
        })
    }

    fn right(&mut self, op: &Op, scope: Scope) -> Result<Box<Node>, LoadError> {
        Ok(Box::new(self.node(&op.right, scope)?))
    }

    fn binary(&mut self, binary: Binary, op: &Op, scope: Scope) -> Result<Node, LoadError> {
        let left = self.left(op, scope)?;
        let left = Box::new(self.node(left, scope)?);
        Ok(Node::new(Kind::Binary(
            binary,
            left,
            self.right(op, scope)?,
        )))
    }

    /// Resolves an operand that is a header.
    pub(super) fn header_ref(&mut self, expr: &Expr, scope: Scope) -> Result<HeaderRef, LoadError> {
        match expr.unwrapped() {
            Expr::Header(name) => Ok(HeaderRef::Static(self.header(name, scope.at)?)),
            Expr::Op(op) if op.op == Operator::DereferenceHeaderStack => {
                let Expr::HeaderStack(name) = self.left(op, scope)?.unwrapped() else {
                    return Err(scope.invalid("dereference_header_stack needs a header stack"));
                };
                let at = find(&self.stack_names, "header stack", name, scope.at)?;
                let (headers, stride) = self.stack_headers(at);
                let index = self.node(&op.right, scope)?;
                Ok(HeaderRef::Dynamic {
                    headers,
                    stride,
                    index,
                })
            }
            Expr::Op(op) if op.op == Operator::AccessUnionHeader => {
                let Expr::Index(member) = op.right else {
                    return Err(scope.invalid("access_union_header needs a member's number"));
                };
                let member = member as usize;
                let no_member =
                    || scope.invalid(format!("the header union has no member number {member}"));
                match self.left(op, scope)?.unwrapped() {
                    Expr::HeaderUnion(name) => {
                        let at = find(&self.union_names, "header union", name, scope.at)?;
                        let headers = &self.layout.unions[usize::from(at)].headers;
                        headers
                            .get(member)
                            .map(|h| HeaderRef::Static(*h))
                            .ok_or_else(no_member)
                    }
                    Expr::Op(inner) if inner.op == Operator::DereferenceUnionStack => {
                        let Expr::HeaderUnionStack(name) = self.left(inner, scope)?.unwrapped()
                        else {
                            return Err(
                                scope.invalid("dereference_union_stack needs a union stack")
                            );
                        };
                        let at = find(
                            &self.union_stack_names,
                            "header union stack",
                            name,
                            scope.at,
                        )?;
                        let headers = self.union_stack_headers(at, member);
                        let stack = &self.layout.union_stacks[usize::from(at)];
                        if headers.len() != stack.unions.len() {
                            return Err(no_member());
                        }
                        let stride = stack.stride;
                        let index = self.node(&inner.right, scope)?;
                        Ok(HeaderRef::Dynamic {
                            headers,
                            stride,
                            index,
                        })
                    }
                    other => Err(scope.invalid(format!("{other:?} is not a header union"))),
                }
            }
            other => Err(scope.invalid(format!("{other:?} is not a header"))),
        }
    }

    fn access(
        &mut self,
        header: HeaderRef,
        offset: usize,
        scope: Scope,
    ) -> Result<Node, LoadError> {
        let first = match &header {
            HeaderRef::Static(h) => Some(*h),
            HeaderRef::Dynamic { headers, .. } => headers.first().copied(),
        };
        let Some(first) = first else {
            return Err(scope.invalid("the stack is empty"));
        };
        let h = &self.layout.headers[usize::from(first)];
        // The hidden validity follows the last field.
        let name = match h.fields.get(offset) {
            Some(field) => field.name.clone(),
            None if offset == h.fields.len() && !h.metadata => FieldRef::VALID.to_owned(),
            None => return Err(scope.invalid(format!("{} has no field {offset}", h.name))),
        };
        match header {
            HeaderRef::Static(h) => {
                let f = self.field_of(h, &name, scope.at)?;
                Ok(Node::new(Kind::Field {
                    slot: f.slot,
                    bits: f.bits,
                    signed: f.signed,
                }))
            }
            HeaderRef::Dynamic {
                headers,
                stride,
                index,
            } => {
                let element = self.element(&headers, stride, &name, scope)?;
                let index = Box::new(index);
                Ok(self.element_node(element, |element| Kind::Element { element, index }))
            }
        }
    }

    pub(super) fn stack_headers(&self, stack: u16) -> (Vec<u16>, usize) {
        let stack = &self.layout.stacks[usize::from(stack)];
        (stack.headers.clone(), stack.stride)
    }

    /// Returns, for each union of a stack, the header at the position `member` of the union.
    pub(super) fn union_stack_headers(&self, stack: u16, member: usize) -> Vec<u16> {
        let unions = &self.layout.union_stacks[usize::from(stack)].unions;
        let member = |u: &u16| {
            self.layout.unions[usize::from(*u)]
                .headers
                .get(member)
                .copied()
        };
        unions.iter().filter_map(member).collect()
    }

    /// Returns the index of a union's member by its name in the union's type.
    pub(super) fn union_member(
        &self,
        stack: u16,
        name: &str,
        scope: Scope,
    ) -> Result<usize, LoadError> {
        let json = &self.json.header_union_stacks[usize::from(stack)];
        let kind = self
            .json
            .header_union_types
            .iter()
            .find(|t| t.name == json.union_type);
        let position = kind.and_then(|t| t.headers.iter().position(|(member, _)| member == name));
        position.ok_or_else(|| LoadError::Undefined {
            at: scope.at.to_owned(),
            what: "header union member",
            name: name.to_owned(),
        })
    }

    /// Resolves a field that all elements of a stack have.
    fn element(
        &mut self,
        headers: &[u16],
        stride: usize,
        field: &str,
        scope: Scope,
    ) -> Result<u16, LoadError> {
        let Some(&first) = headers.first() else {
            return Err(scope.invalid("the stack is empty"));
        };
        let f = self.field_of(first, field, scope.at)?;
        // Fields of width 0 share one word.
        let stride = if f.bits == 0 { 0 } else { stride };
        let (Ok(stride), Ok(count), Ok(at)) = (
            u16::try_from(stride),
            u16::try_from(headers.len()),
            u16::try_from(self.elements.len()),
        ) else {
            return Err(scope.invalid("too many stack elements"));
        };
        self.elements.push(Element {
            start: f.slot,
            stride,
            count,
            bits: f.bits,
            signed: f.signed,
        });
        Ok(at)
    }

    fn element_node(&self, element: u16, kind: impl FnOnce(u16) -> Kind) -> Node {
        let Element { bits, signed, .. } = self.elements[usize::from(element)];
        let range = range(&Kind::Field {
            slot: 0,
            bits,
            signed,
        });
        Node {
            kind: kind(element),
            range,
        }
    }

    pub(super) fn same_type(&self, a: u16, b: u16, scope: Scope) -> Result<(), LoadError> {
        let (a, b) = (
            &self.layout.headers[usize::from(a)],
            &self.layout.headers[usize::from(b)],
        );
        if a.type_id == b.type_id {
            return Ok(());
        }
        Err(scope.invalid(format!(
            "headers {} and {} have different types",
            a.name, b.name
        )))
    }

    pub(super) fn same_unions(&self, a: u16, b: u16, scope: Scope) -> Result<(), LoadError> {
        let (a, b) = (
            &self.layout.unions[usize::from(a)],
            &self.layout.unions[usize::from(b)],
        );
        if a.headers.len() != b.headers.len() {
            return Err(scope.invalid(format!(
                "unions {} and {} have different types",
                a.name, b.name
            )));
        }
        a.headers
            .iter()
            .zip(&b.headers)
            .try_for_each(|(a, b)| self.same_type(*a, *b, scope))
    }

    /// Resolves the names in the target of an assignment.
    pub(super) fn dest(&mut self, expr: &Expr, scope: Scope) -> Result<Dest, LoadError> {
        let node = self.node(expr, scope)?;
        match node.kind {
            Kind::Field { slot, bits, signed } if slot < self.layout.params => {
                // An assigned number may occupy more words than the varbit's current length.
                self.layout.varbits.retain(|varbit| varbit.slot != slot);
                Ok(Dest::Field { slot, bits, signed })
            }
            Kind::Element { element, index } => Ok(Dest::Element {
                element,
                index: *index,
            }),
            Kind::Last { element, next } => {
                let next = Box::new(Node::new(Kind::Field {
                    slot: next,
                    bits: 32,
                    signed: false,
                }));
                let index = Node::new(Kind::Unary(Unary::Decrement, next));
                Ok(Dest::Element { element, index })
            }
            Kind::Register { array, bits, index } => Ok(Dest::Register {
                array,
                bits,
                index: *index,
            }),
            _ => Err(scope.invalid(format!("{expr:?} cannot be assigned"))),
        }
    }
}
