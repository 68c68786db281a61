//! The properties of a table that determine its memories, derived from its key and its actions.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::arrays;
use super::chip::Use;
use super::layout::{Layout, Match, Shape};
use crate::ir::{
    self, walk, ActionProfile, ActionScope, Effect, Expr, FieldRef, FieldWidth, FlatProgram,
    KeyTarget, MatchKind, Primitive, Stmt, StmtKind, Table,
};

/// Maximum number of actions that are encoded by index; with more, an entry has the address of the instruction.
const NAMED_ACTIONS: u64 = 8;
const INSTRUCTION_BITS: u64 = 6;
/// Minimum bits of an array address in an entry.
const ADDRESS_BITS: u64 = 10;
/// Maximum TCAM rows of a range.
const MOST_ROWS_OF_RANGE: u64 = 8;
/// Default size of a table, in entries.
const DEFAULT_SIZE: u64 = 512;
/// Constants of at least this magnitude are action data; smaller ones are part of the instruction.
const LOADED_CONSTANT: i64 = 1 << 20;
/// Width in bits of the pieces in which a value is loaded.
const PIECE_BITS: u64 = 32;
/// Bits per entry that enable an array which not all actions use, and bits that select the operation if it differs between actions.
const ENABLE_BITS: u64 = 1;
const METHOD_BITS: u64 = 3;

/// Resources of a table with a number of entries and their direct cells, except for the key's crossbar bytes, which other tables may
/// share, and for its profile.
pub fn table(program: &FlatProgram, table: &Table, size: u64) -> Use {
    let Layout { mut takes, .. } = shape(program, table, size).layout();
    if table.counter.is_some() {
        takes += arrays::COUNTER;
    }
    if table.meter.is_some() {
        takes += arrays::METER;
    }
    takes
}

/// Resources of a profile with a number of members: action data and group membership.
pub fn profile(program: &FlatProgram, profile: &ActionProfile, size: u64) -> Use {
    let tables = profile.tables.iter().map(|id| program.objects.table(*id));
    let values = tables.map(|table| shape(program, table, table.size).members(size));
    let mut takes = Use {
        sram: values.max().unwrap_or(0),
        ..Use::NOTHING
    };
    if let Some(selector) = &profile.selector {
        takes += arrays::selector(profile, selector);
    }
    takes
}

fn shape(program: &FlatProgram, table: &Table, size: u64) -> Shape {
    let objects = &program.objects;
    let mut cells: Vec<u64> = Vec::new();
    if let Some(counter) = table.counter {
        cells.push(arrays::counter_bits(&objects.counters[counter.index()]));
    }
    if table.meter.is_some() {
        cells.push(arrays::METER_BITS);
    }
    let registers = table.direct_cells.iter().map(|cells| cells.register);
    cells.extend(registers.map(|id| arrays::register_bits(&objects.registers[id.index()])));
    let profile = table
        .implementation
        .map(|profile| &objects.action_profiles[profile.index()]);
    let values = |(action, uses): &(ir::ActionId, Uses)| -> Vec<u64> {
        let params = objects.action(*action).params.iter().enumerate();
        let used = params.filter(|(at, _)| uses.values.contains(at));
        let widths = used.map(|(_, param)| u64::from(param.ty.width()));
        widths.chain(uses.constants.iter().copied()).collect()
    };
    let with_uses = |action| (action, Uses::of(program.action_body(action)));
    let of_entries: Vec<(ir::ActionId, Uses)> = (table.actions.iter())
        .filter(|action| action.scope != ActionScope::DefaultOnly)
        .map(|action| with_uses(action.action))
        .collect();
    let mut overhead = match of_entries.len() as u64 {
        0 => 0,
        many if many > NAMED_ACTIONS => INSTRUCTION_BITS,
        few => u64::from(few.next_power_of_two().ilog2()),
    };
    overhead += addresses(program, &of_entries);
    if let Some(profile) = profile {
        overhead += bits_of(profile.size).max(ADDRESS_BITS) + 1;
        if profile.selector.is_some() {
            overhead += bits_of(profile.groups).max(ADDRESS_BITS) + ENABLE_BITS;
        }
    }
    Shape {
        by: by(table),
        key_bits: table.keys.iter().map(key_bits).sum(),
        key_bytes: key_bytes(program, table),
        masked_bits: (table.keys.iter())
            .filter(|key| key.kind != MatchKind::Exact)
            .map(key_bits)
            .sum(),
        size: match table.sized {
            true => size,
            false => DEFAULT_SIZE,
        },
        overhead,
        data: of_entries.iter().map(values).collect(),
        hashes: of_entries.iter().any(|(_, uses)| uses.hashes),
        rows_of_range: table.keys.iter().map(rows_of_range).max().unwrap_or(1),
        members: profile.is_some(),
        default_has_data: !values(&with_uses(table.default.action)).is_empty(),
        timeout: table.support_timeout,
        ways: given(table, "ways"),
        packed: given(table, "pack"),
        proxy: given(table, "proxy_hash_width"),
        cells,
    }
}

fn bits_of(count: u64) -> u64 {
    u64::from(count.max(1).next_power_of_two().ilog2())
}

fn by(table: &Table) -> Match {
    let exact = table.keys.iter().all(|key| key.kind == MatchKind::Exact);
    let forced = given(table, "ternary") == Some(1);
    match table.algorithmic {
        _ if table.keys.is_empty() => Match::None,
        Some(partitions) => Match::Partitioned {
            partitions: partitions.count,
            subtrees: partitions.subtrees,
        },
        None if exact && !forced => Match::Exact,
        None => Match::Ternary,
    }
}

/// The number of a table's annotation, written `@ways(5)` or `@pragma ways 5`.
pub fn given(table: &Table, name: &str) -> Option<u64> {
    table.meta.annotations.iter().find_map(|annotation| {
        let words = annotation.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut words = words.filter(|word| !word.is_empty() && *word != "pragma");
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

/// Compared bits of a key element.
fn key_bits(key: &ir::Key) -> u64 {
    match &key.mask {
        Some(mask) => (0..u64::from(key.width))
            .filter(|bit| mask.bit(*bit))
            .count() as u64,
        None => u64::from(key.width),
    }
}

/// Maximum TCAM rows of a range: two per nibble except the first.
fn rows_of_range(key: &ir::Key) -> u64 {
    match key.kind {
        MatchKind::Range => (2 * u64::from(key.width).div_ceil(4))
            .saturating_sub(1)
            .clamp(1, MOST_ROWS_OF_RANGE),
        _ => 1,
    }
}

/// Used bits of each byte of a key. The bytes of a range are counted twice.
fn key_bytes(program: &FlatProgram, table: &Table) -> Vec<u64> {
    let mut bytes: Vec<u64> = Vec::new();
    let mut shared: BTreeSet<(ir::HeaderId, u64)> = BTreeSet::new();
    let mut valid = 0;
    for key in &table.keys {
        let times = if key.kind == MatchKind::Range { 2 } else { 1 };
        match key.target {
            KeyTarget::Field(field) => {
                let width = u64::from(key.width);
                let start = offset(program, field);
                for at in 0..(start % 8 + width).div_ceil(8) {
                    let first = (at * 8).max(start % 8);
                    let bits = (at * 8 + 8).min(start % 8 + width) - first;
                    let is_new = program.objects.storage.header(field.header).metadata
                        || shared.insert((field.header, start / 8 + at));
                    match bytes.last_mut() {
                        Some(last) if !is_new => *last = (*last + bits).min(8),
                        _ => bytes.extend(std::iter::repeat_n(bits, times)),
                    }
                }
            }
            KeyTarget::Valid(_) | KeyTarget::UnionValid(_) => valid += 1,
        }
    }
    // Validity bits are adjacent.
    let whole = valid / 8;
    bytes.extend(std::iter::repeat_n(8, whole));
    bytes.extend((valid % 8 > 0).then_some((valid % 8) as u64));
    bytes
}

/// Offset in bits of a field in its header; 0 for metadata, whose fields are placed freely.
fn offset(program: &FlatProgram, field: FieldRef) -> u64 {
    let storage = &program.objects.storage;
    if storage.header(field.header).metadata {
        return 0;
    }
    let fields = &storage.header_type(field.header).fields;
    let before = fields.iter().take(field.field as usize);
    let widths = before.map(|field| match field.width {
        FieldWidth::Fixed(bits) | FieldWidth::Varbit(bits) => u64::from(bits),
    });
    widths.sum()
}

/// Bits of an entry for array addresses, and for whether and how the action uses the arrays.
fn addresses(program: &FlatProgram, actions: &[(ir::ActionId, Uses)]) -> u64 {
    let objects = &program.objects;
    let uses = actions.iter().map(|(_, uses)| uses);
    let arrays: BTreeSet<Array> = uses
        .clone()
        .flat_map(|uses| &uses.arrays)
        .copied()
        .collect();
    let mut bits = 0;
    for array in arrays {
        let with = uses.clone().filter(|uses| uses.arrays.contains(&array));
        let cells = match array {
            Array::Register(id) => objects.registers[id.index()].size,
            Array::Counter(id) => objects.counters[id.index()].size,
            Array::Meter(id) => objects.meters[id.index()].size,
        };
        let of_entry = with.clone().any(|uses| uses.addressed.contains(&array));
        if of_entry {
            bits += bits_of(cells).max(ADDRESS_BITS);
        }
        let users = with.count();
        if users < actions.len() {
            bits += ENABLE_BITS;
        }
        if users > 1 && matches!(array, Array::Register(_)) {
            bits += METHOD_BITS;
        }
    }
    bits
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Array {
    Register(ir::RegisterId),
    Counter(ir::CounterId),
    Meter(ir::MeterId),
}

/// Uses of parameters and arrays by an action.
#[derive(Clone, Debug, Default)]
struct Uses {
    /// Parameters that are written to fields.
    values: BTreeSet<usize>,
    /// Widths in bits of constants that are action data.
    constants: Vec<u64>,
    /// Whether it uses results of hashes or random numbers.
    hashes: bool,
    /// Arrays that it uses.
    arrays: BTreeSet<Array>,
    /// Arrays whose index is a parameter.
    addressed: BTreeSet<Array>,
}

impl Uses {
    fn of(body: &[Stmt]) -> Uses {
        let mut uses = Uses::default();
        // A field that only stores an index until its use does not count as a use.
        let mut kept: BTreeSet<FieldRef> = BTreeSet::new();
        walk(body, &mut |stmt| {
            if let Some((_, index)) = access(stmt) {
                index.walk(&mut |expr| {
                    if let Expr::Field { place, .. } = expr {
                        kept.extend(place.fixed());
                    }
                });
            }
        });
        let mut indices: BTreeSet<FieldRef> = BTreeSet::new();
        walk(body, &mut |stmt| match &stmt.kind {
            StmtKind::Effect(Effect::Assign { target, value }) => {
                let params = params(value);
                uses.constants.extend(pieces(value));
                match target.fixed() {
                    Some(field) if kept.contains(&field) => {
                        if !params.is_empty() {
                            indices.insert(field);
                        }
                    }
                    _ => uses.values.extend(params),
                }
            }
            _ => {
                let Some((array, index)) = access(stmt) else {
                    if let StmtKind::Effect(effect) = &stmt.kind {
                        uses.hashes |= matches!(
                            effect,
                            Effect::Primitive(Primitive::Hash { .. } | Primitive::Random { .. })
                        );
                        let values = effect.exprs().into_iter().flat_map(params);
                        uses.values.extend(values);
                    }
                    return;
                };
                uses.arrays.insert(array);
                let mut by_entry = !params(index).is_empty();
                index.walk(&mut |expr| {
                    if let Expr::Field { place, .. } = expr {
                        by_entry |= place.fixed().is_some_and(|field| indices.contains(&field));
                    }
                });
                if by_entry {
                    uses.addressed.insert(array);
                }
                if let StmtKind::Effect(Effect::Primitive(Primitive::RegisterWrite {
                    value, ..
                })) = &stmt.kind
                {
                    uses.values.extend(params(value));
                }
            }
        });
        uses
    }
}

/// Widths in bits of the pieces of a constant that are action data.
fn pieces(value: &Expr) -> Vec<u64> {
    let Expr::Number { value, ty } = value else {
        return Vec::new();
    };
    let width = u64::from(ty.width());
    let whole = (0..width / PIECE_BITS).map(|at| value >> (at * PIECE_BITS));
    // A remainder of at most 16 bits is always loaded.
    whole
        .filter(|piece| {
            let piece: BigInt = piece & BigInt::from(u32::MAX);
            let near =
                |edge: i64| (&piece - edge).magnitude() < &LOADED_CONSTANT.unsigned_abs().into();
            !near(0) && !near(1 << PIECE_BITS)
        })
        .map(|_| PIECE_BITS)
        .collect()
}

/// An array that a statement uses, and the index.
fn access(stmt: &Stmt) -> Option<(Array, &Expr)> {
    let StmtKind::Effect(Effect::Primitive(primitive)) = &stmt.kind else {
        return None;
    };
    Some(match primitive {
        Primitive::RegisterRead {
            register, index, ..
        }
        | Primitive::RegisterWrite {
            register, index, ..
        } => (Array::Register(*register), index),
        Primitive::Count { counter, index } => (Array::Counter(*counter), index),
        Primitive::ExecuteMeter { meter, index, .. } => (Array::Meter(*meter), index),
        _ => return None,
    })
}

fn params(expr: &Expr) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    expr.walk(&mut |expr| {
        if let Expr::Param { index, .. } = expr {
            found.insert(*index);
        }
    });
    found
}
