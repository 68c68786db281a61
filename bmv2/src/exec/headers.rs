//! Validity, copies, comparisons and shifts of headers, unions and stacks.

use crate::program::{DynHeader, DynHeaderOp, DynRef, Header, Layout};

#[inline]
pub fn is_valid(header: &Header, phv: &[u64]) -> bool {
    header.metadata || phv[usize::from(header.valid)] != 0
}

/// Returns a header's current length on the wire in bytes.
#[inline]
pub fn length(header: &Header, phv: &[u64]) -> usize {
    match header.varbit {
        None => header.bytes,
        Some(varbit) => header.bytes + (phv[usize::from(varbit.length)] / 8) as usize,
    }
}

/// Makes a header valid; the other members of its union become invalid.
#[inline]
pub fn mark_valid(layout: &Layout, phv: &mut [u64], header: u16) {
    let h = &layout.headers[usize::from(header)];
    if h.metadata {
        return;
    }
    if let Some(union) = h.union {
        for &other in &layout.unions[usize::from(union)].headers {
            phv[usize::from(layout.headers[usize::from(other)].valid)] = 0;
        }
    }
    phv[usize::from(h.valid)] = 1;
}

#[inline]
pub fn mark_invalid(layout: &Layout, phv: &mut [u64], header: u16) {
    let h = &layout.headers[usize::from(header)];
    if !h.metadata {
        phv[usize::from(h.valid)] = 0;
    }
}

/// Executes `setValid`, and returns the change of the packet's length in bytes. The fields of a header that was
/// invalid become 0, except on Tofino.
pub fn add(layout: &Layout, phv: &mut [u64], header: u16) -> i64 {
    let h = &layout.headers[usize::from(header)];
    if is_valid(h, phv) {
        return 0;
    }
    if !layout.keeps_invalid_fields {
        phv[usize::from(h.start)..usize::from(h.end)].fill(0);
    }
    mark_valid(layout, phv, header);
    length(h, phv) as i64
}

/// Executes `setInvalid`, and returns the change of the packet's length in bytes. The fields keep their values.
pub fn remove(layout: &Layout, phv: &mut [u64], header: u16) -> i64 {
    let h = &layout.headers[usize::from(header)];
    if h.metadata || !is_valid(h, phv) {
        return 0;
    }
    mark_invalid(layout, phv, header);
    -(length(h, phv) as i64)
}

/// Assigns a header to one of the same type. An invalid source only makes the target invalid.
pub fn assign(layout: &Layout, phv: &mut [u64], dest: u16, source: u16) {
    let (d, s) = (
        &layout.headers[usize::from(dest)],
        &layout.headers[usize::from(source)],
    );
    if !is_valid(s, phv) {
        mark_invalid(layout, phv, dest);
        return;
    }
    mark_valid(layout, phv, dest);
    phv.copy_within(
        usize::from(s.start)..usize::from(s.end),
        usize::from(d.start),
    );
}

/// Assigns a variable-length field with its length. Does nothing for headers without one, or when the target's
/// maximum length is too small.
pub fn assign_varbit(layout: &Layout, phv: &mut [u64], dest: u16, source: u16) {
    let varbit = |h: u16| layout.headers[usize::from(h)].varbit;
    let (Some(d), Some(s)) = (varbit(dest), varbit(source)) else {
        return;
    };
    if phv[usize::from(s.length)] > u64::from(d.max_bits) {
        return;
    }
    phv[usize::from(d.length)] = phv[usize::from(s.length)];
    let (to, from) = (d.words(), s.words());
    let n = to.len().min(from.len());
    phv[to.clone()].fill(0);
    phv.copy_within(from.start..from.start + n, to.start);
}

pub fn equal(layout: &Layout, phv: &[u64], a: u16, b: u16) -> bool {
    let (a, b) = (
        &layout.headers[usize::from(a)],
        &layout.headers[usize::from(b)],
    );
    is_valid(a, phv)
        && is_valid(b, phv)
        && phv[usize::from(a.start)..usize::from(a.end)]
            == phv[usize::from(b.start)..usize::from(b.end)]
}

pub fn union_valid(layout: &Layout, phv: &[u64], union: u16) -> bool {
    valid_member(layout, phv, union).is_some()
}

fn valid_member(layout: &Layout, phv: &[u64], union: u16) -> Option<usize> {
    let members = &layout.unions[usize::from(union)].headers;
    members
        .iter()
        .position(|&h| is_valid(&layout.headers[usize::from(h)], phv))
}

pub fn unions_equal(layout: &Layout, phv: &[u64], a: u16, b: u16) -> bool {
    let member = |union: u16| {
        let at = valid_member(layout, phv, union)?;
        Some((at, layout.unions[usize::from(union)].headers[at]))
    };
    match (member(a), member(b)) {
        (Some((i, x)), Some((j, y))) => i == j && equal(layout, phv, x, y),
        _ => false,
    }
}

pub fn assign_union(layout: &Layout, phv: &mut [u64], dest: u16, source: u16) {
    let source_member = valid_member(layout, phv, source);
    let dest = &layout.unions[usize::from(dest)].headers;
    let source = &layout.unions[usize::from(source)].headers;
    for &header in dest {
        mark_invalid(layout, phv, header);
    }
    if let Some(at) = source_member {
        // The source may be the target itself, which has become invalid by now.
        phv[usize::from(layout.headers[usize::from(source[at])].valid)] = 1;
        assign(layout, phv, dest[at], source[at]);
    }
}

pub fn assign_stack(layout: &Layout, phv: &mut [u64], dest: u16, source: u16) {
    let (d, s) = (
        &layout.stacks[usize::from(dest)],
        &layout.stacks[usize::from(source)],
    );
    phv[usize::from(d.next)] = phv[usize::from(s.next)];
    for (&to, &from) in d.headers.iter().zip(&s.headers) {
        assign(layout, phv, to, from);
    }
}

pub fn assign_union_stack(layout: &Layout, phv: &mut [u64], dest: u16, source: u16) {
    let (d, s) = (
        &layout.union_stacks[usize::from(dest)],
        &layout.union_stacks[usize::from(source)],
    );
    phv[usize::from(d.next)] = phv[usize::from(s.next)];
    for (&to, &from) in d.unions.iter().zip(&s.unions) {
        assign_union(layout, phv, to, from);
    }
}

/// Position of a stack in the packet's words.
#[derive(Clone, Copy, Debug)]
pub struct StackWords {
    /// First word of element 0 of the stack.
    pub start: usize,
    /// Number of words from one element of the stack to the next.
    pub stride: usize,
    /// Number of elements of the stack.
    pub count: usize,
    /// Word that holds the index of the next element.
    pub next: usize,
}

impl StackWords {
    /// Returns the position of a stack of headers or of header unions. The numbers of stacks of unions follow those of
    /// stacks of headers.
    pub fn of(layout: &Layout, stack: u16) -> StackWords {
        let at = usize::from(stack);
        match layout.stacks.get(at) {
            Some(s) => StackWords {
                start: s.start,
                stride: s.stride,
                count: s.headers.len(),
                next: usize::from(s.next),
            },
            None => {
                let s = &layout.union_stacks[at - layout.stacks.len()];
                StackWords {
                    start: s.start,
                    stride: s.stride,
                    count: s.unions.len(),
                    next: usize::from(s.next),
                }
            }
        }
    }

    fn words(&self, elements: std::ops::Range<usize>) -> std::ops::Range<usize> {
        self.start + elements.start * self.stride..self.start + elements.end * self.stride
    }

    /// P4_16's `push_front`: the first `n` elements become invalid.
    pub fn push(&self, phv: &mut [u64], n: u64) {
        let n = n.min(self.count as u64) as usize;
        phv.copy_within(self.words(0..self.count - n), self.words(n..n).start);
        phv[self.words(0..n)].fill(0);
        phv[self.next] = (phv[self.next] + n as u64).min(self.count as u64);
    }

    /// P4_16's `pop_front`: the last `n` elements become invalid.
    pub fn pop(&self, phv: &mut [u64], n: u64) {
        let n = n.min(self.count as u64) as usize;
        phv.copy_within(self.words(n..self.count), self.start);
        phv[self.words(self.count - n..self.count)].fill(0);
        phv[self.next] = phv[self.next].saturating_sub(n as u64);
    }
}

/// Executes an operation on headers selected at run time. Returns the change of the packet's length in bytes.
pub fn run_dyn(layout: &Layout, phv: &mut [u64], op: &DynHeader) -> i64 {
    let pick = |r: &DynRef| match r.index {
        None => r.headers.first().copied(),
        Some(slot) => usize::try_from(phv[usize::from(slot)])
            .ok()
            .and_then(|i| r.headers.get(i))
            .copied(),
    };
    let Some(dest) = pick(&op.dest) else { return 0 };
    match op.op {
        DynHeaderOp::Add => add(layout, phv, dest),
        DynHeaderOp::Remove => remove(layout, phv, dest),
        DynHeaderOp::Assign => {
            if let Some(source) = op.source.as_ref().and_then(pick) {
                assign(layout, phv, dest, source);
            }
            0
        }
    }
}
