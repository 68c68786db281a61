//! The properties of a table that determine its memories, derived from its key and its actions.

use std::collections::BTreeSet;

use num_bigint::BigInt;

use super::arrays;
use super::chip::Resources;
use super::layout::{Layout, Match, Shape};
use crate::ir::{
    self, walk, ActionProfile, ActionScope, Effect, Expr, FieldRef, FieldWidth, FlatProgram,
    KeyTarget, MatchKind, Primitive, RegisterRole, Stmt, StmtKind, Table,
};

/// Maximum number of actions of a table that entries encode by index; with more, an entry has the address of the instruction.
const NAMED_ACTIONS: u64 = 8;
/// Width in bits of an instruction's address.
const INSTRUCTION_BITS: u64 = 6;
/// Minimum width in bits of an array address in an entry.
const ADDRESS_BITS: u64 = 10;
/// Maximum number of TCAM rows that a range in an entry needs.
const MAX_ROWS_OF_RANGE: u64 = 8;
/// Default size of a table, in entries.
const DEFAULT_SIZE: u64 = 512;
/// Constants of at least this magnitude are stored as action data; smaller ones are part of the instruction.
const LOADED_CONSTANT: i64 = 1 << 20;
/// Width in bits of the pieces in which an ALU loads a constant.
const PIECE_BITS: u64 = 32;
/// Bits per entry that enable an array which only some actions of the table use.
const ENABLE_BITS: u64 = 1;
/// Bits per entry that select the operation on a register which several actions of the table use.
const METHOD_BITS: u64 = 3;

/// Resources of a table with `size` entries and their direct cells. The crossbar bytes of the key, which other tables may share, and the
/// action profile are not included.
pub fn table(program: &FlatProgram, table: &Table, size: u64) -> Resources {
    let Layout { mut takes, .. } = shape(program, table, size).layout();
    if table.counter.is_some() {
        takes += arrays::COUNTER;
    }
    if table.meter.is_some() {
        takes += arrays::METER;
    }
    takes
}

/// Resources of an action profile with `size` members: action data and group membership.
pub fn profile(program: &FlatProgram, profile: &ActionProfile, size: u64) -> Resources {
    let tables = profile.tables.iter().map(|id| program.objects.table(*id));
    let values = tables.map(|table| shape(program, table, table.size).members(size));
    let mut takes = Resources {
        sram: values.max().unwrap_or(0),
        ..Resources::NOTHING
    };
    if let Some(selector) = &profile.selector {
        takes += arrays::selector(profile, selector);
    }
    takes
}

/// The properties of a table with `size` entries that determine its memories.
fn shape(program: &FlatProgram, table: &Table, size: u64) -> Shape {
    let objects = &program.objects;
    let mut cells: Vec<u64> = Vec::new();
    if let Some(counter) = table.counter {
        cells.push(arrays::counter_bits(&objects.counters[counter.index()]));
    }
    if table.meter.is_some() {
        cells.push(arrays::METER_BITS);
    }
    let registers = table.direct_cells.iter();
    let registers = registers.map(|cells| &objects.registers[cells.register.index()]);
    // A filter's configuration and state share a cell.
    let registers = registers.filter(|own| !matches!(own.role, RegisterRole::Filter { .. }));
    cells.extend(registers.map(arrays::register_bits));
    let profile = table
        .implementation
        .map(|profile| &objects.action_profiles[profile.index()]);
    let values = |(action, uses): &(ir::ActionId, ActionUses)| -> Vec<u64> {
        let params = objects.action(*action).params.iter().enumerate();
        let used = params.filter(|(at, _)| uses.values.contains(at));
        let widths = used.map(|(_, param)| u64::from(param.ty.width()));
        widths.chain(uses.constants.iter().copied()).collect()
    };
    let with_uses = |action| (action, ActionUses::of(program.action_body(action)));
    let of_entries: Vec<(ir::ActionId, ActionUses)> = (table.actions.iter())
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
        method: match_method(table),
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
        ways: annotation_number(table, "ways"),
        packed: annotation_number(table, "pack"),
        proxy: annotation_number(table, "proxy_hash_width"),
        cells,
    }
}

/// Number of bits of an index into `count` objects.
fn bits_of(count: u64) -> u64 {
    u64::from(count.max(1).next_power_of_two().ilog2())
}

/// The lookup method of a table. The annotation `@ternary(1)` forces a ternary match.
fn match_method(table: &Table) -> Match {
    let exact = table.keys.iter().all(|key| key.kind == MatchKind::Exact);
    let forced = annotation_number(table, "ternary") == Some(1);
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

/// The number in the annotation `name` of a table, written `@ways(5)` or `@pragma ways 5`. `None` without the annotation.
pub fn annotation_number(table: &Table, name: &str) -> Option<u64> {
    table.meta.annotations.iter().find_map(|annotation| {
        let words = annotation.split(|c: char| !c.is_alphanumeric() && c != '_');
        let mut words = words.filter(|word| !word.is_empty() && *word != "pragma");
        (words.next() == Some(name)).then(|| words.next()?.parse().ok())?
    })
}

/// Number of compared bits of a key element: those in its mask.
fn key_bits(key: &ir::Key) -> u64 {
    match &key.mask {
        Some(mask) => (0..u64::from(key.width))
            .filter(|bit| mask.bit(*bit))
            .count() as u64,
        None => u64::from(key.width),
    }
}

/// Maximum number of TCAM rows for a range in an entry: two per nibble of the key except the first. 1 for other match kinds.
fn rows_of_range(key: &ir::Key) -> u64 {
    match key.kind {
        MatchKind::Range => (2 * u64::from(key.width).div_ceil(4))
            .saturating_sub(1)
            .clamp(1, MAX_ROWS_OF_RANGE),
        _ => 1,
    }
}

/// Number of used bits in each byte of a key. The bytes of a range are counted twice.
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

/// Overhead bits of an entry for arrays: addresses of cells, enable bits and the selection of the operation.
fn addresses(program: &FlatProgram, actions: &[(ir::ActionId, ActionUses)]) -> u64 {
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

/// An array whose cells the actions of a table access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Array {
    Register(ir::RegisterId),
    Counter(ir::CounterId),
    Meter(ir::MeterId),
}

/// The action data and the arrays that an action uses.
#[derive(Clone, Debug, Default)]
struct ActionUses {
    /// Positions of the parameters whose values the action's ALUs need.
    values: BTreeSet<usize>,
    /// Widths in bits of the constants that are stored as action data.
    constants: Vec<u64>,
    /// Whether the action computes hashes or draws random numbers.
    hashes: bool,
    /// Arrays that the action accesses.
    arrays: BTreeSet<Array>,
    /// The accessed arrays whose index depends on a parameter.
    addressed: BTreeSet<Array>,
}

impl ActionUses {
    fn of(body: &[Stmt]) -> ActionUses {
        let mut uses = ActionUses::default();
        // Fields that hold the index of an access: a parameter that is copied to one is an address, not a value for the ALUs.
        let mut index_fields: BTreeSet<FieldRef> = BTreeSet::new();
        walk(body, &mut |stmt| {
            if let Some((_, index)) = access(stmt) {
                index.walk(&mut |expr| {
                    if let Expr::Field { place, .. } = expr {
                        index_fields.extend(place.fixed());
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
                    Some(field) if index_fields.contains(&field) => {
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

/// Widths in bits of the pieces of a constant that are stored as action data. Empty for other expressions.
fn pieces(value: &Expr) -> Vec<u64> {
    let Expr::Number { value, ty } = value else {
        return Vec::new();
    };
    let width = u64::from(ty.width());
    let whole = (0..width / PIECE_BITS).map(|at| value >> (at * PIECE_BITS));
    // A remainder of less than a piece is taken to be part of the instruction.
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

/// The array that a statement accesses, with the index of the cell. `None` for other statements.
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

/// Positions of the action parameters in an expression.
fn params(expr: &Expr) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    expr.walk(&mut |expr| {
        if let Expr::Param { index, .. } = expr {
            found.insert(*index);
        }
    });
    found
}
