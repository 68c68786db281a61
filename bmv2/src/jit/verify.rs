//! Proof that compiled code accesses only the packet's words: the loader allocates all operands, and this module checks
//! them again, since machine code has no bounds checks.

use crate::exec::join::Join;
use crate::exec::ops::{Op, Operand, Slot};
use crate::program::{Header, LoadedProgram};

/// Returns whether all words that compiled code accesses are words of the packet, none that is written holds a constant,
/// and all reads of headers are within the header and the padding after it.
pub(super) fn is_sound(program: &LoadedProgram) -> bool {
    let layout = &program.layout;
    let words = layout.initial.len();
    let reads = |slot: Slot| usize::from(slot) < words;
    let writes = |slot: Slot| reads(slot) && !program.constants.contains_key(&slot);
    let header = |h: &Header| {
        let (start, end) = (usize::from(h.start), usize::from(h.end));
        end <= words
            && (start..end).all(|slot| writes(slot as Slot))
            && (h.metadata || writes(h.valid))
            && (!h.whole_bytes || is_header_within(h, words, &writes))
    };
    let calculations = program.calculations.iter();
    let joined = calculations.filter_map(|calculation| calculation.joined.as_ref());
    let intrinsic = &program.intrinsic;
    let metadata = [
        intrinsic.parser_error,
        intrinsic.checksum_error,
        intrinsic.egress_spec,
    ];
    metadata.iter().flatten().all(|field| writes(field.slot))
        && program
            .ops
            .iter()
            .all(|op| is_op_sound(*op, program, &reads, &writes))
        && layout.headers.iter().all(header)
        && joined.clone().all(|joined| {
            joined.valid.iter().all(|slot| reads(*slot))
                && is_within(&joined.join, joined.join.bytes(), words)
        })
        && (program.verify.iter().chain(&program.update))
            .all(|checksum| writes(checksum.slot) && checksum.condition.is_none_or(|c| reads(c.1)))
}

/// Returns whether a header that can be extracted and emitted is read from its own bytes, and written to as many.
fn is_header_within(h: &Header, words: usize, writes: &impl Fn(Slot) -> bool) -> bool {
    let mut fields = h.cut.iter().flat_map(|reader| reader.fields());
    fields.all(|field| writes(field.slot) && (field.byte as usize) < h.bytes)
        && h.join.iter().all(|join| is_within(join, h.bytes, words))
}

/// Returns whether a plan reads the packet's words only, and writes no more than `bytes` bytes, and eight at each chunk.
fn is_within(join: &Join, bytes: usize, words: usize) -> bool {
    let written: usize = join
        .parts()
        .iter()
        .map(|part| usize::from(part.bytes))
        .sum();
    written <= bytes && (join.parts().iter()).all(|part| usize::from(part.slot) < words)
}

fn is_op_sound(
    op: Op,
    program: &LoadedProgram,
    reads: &impl Fn(Slot) -> bool,
    writes: &impl Fn(Slot) -> bool,
) -> bool {
    let mut is_sound = true;
    let (mut first, mut count) = (Vec::new(), 0);
    op.operands(|operand| {
        is_sound &= match operand {
            Operand::Result(d) | Operand::Def(d) | Operand::MayDef(d) => writes(d),
            Operand::OptionalDef(d) => d.is_none_or(writes),
            Operand::Word(a) => reads(a),
            Operand::DefWords(a) | Operand::Words(a) => {
                first.push(a);
                true
            }
            Operand::Count(n) => {
                count = n;
                true
            }
            Operand::Width(bits) => (1..=64).contains(&bits),
            Operand::Target(to) => (to as usize) < program.ops.len(),
            Operand::Header(h) => usize::from(h) < program.layout.headers.len(),
            Operand::Register(array) => usize::from(array) < program.registers.len(),
            Operand::Counter(array) => usize::from(array) < program.counters.len(),
            Operand::Table(table) => usize::from(table) < program.tables.len(),
            Operand::Action(action) => usize::from(action) < program.actions.len(),
            Operand::CoverageCounter(counter) => counter < program.sites.counters(),
            // Code does not depend on the values, or passes them to functions that check them.
            Operand::Bit(_)
            | Operand::BitPair(_)
            | Operand::BitValue(_)
            | Operand::Test(_)
            | Operand::Equality(_)
            | Operand::Equalities(_)
            | Operand::Offset(_)
            | Operand::Offsets(_)
            | Operand::Union(_)
            | Operand::Stack(_)
            | Operand::UnionStack(_)
            | Operand::AnyStack(_)
            | Operand::Element(_)
            | Operand::DynHeader(_)
            | Operand::Meter(_)
            | Operand::Calculation(_)
            | Operand::Big(_)
            | Operand::LogMessage(_)
            | Operand::Assertion(_)
            | Operand::Site(_)
            | Operand::Note(_) => true,
        };
    });
    // Compiled code accesses cells of one word.
    if let Op::RegisterRead { array, .. } | Op::RegisterWrite { array, .. } = op {
        let array = program.registers.get(usize::from(array));
        is_sound &= array.is_some_and(|array| array.bits <= 64);
    }
    let ends = first
        .iter()
        .map(|first| first.checked_add(count.max(1) - 1));
    is_sound && ends.into_iter().all(|last| last.is_some_and(reads))
}
