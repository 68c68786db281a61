//! Resources of arrays: registers, counters, meters and the members of selectors.

use super::chip::{Use, SRAM_BITS, SRAM_ROWS};
use crate::ir::{ActionProfile, Counter, CounterUnit, Register, Selector};

/// Bits of a meter's cell.
pub const METER_BITS: u64 = 128;
/// Members of a group that stand in one row, a bit each.
const MEMBERS_IN_ROW: u64 = 120;
/// Members and groups of a selector that does not say how many it has.
const MEMBERS: u64 = 120;
const GROUPS: u64 = 4;
/// Bits of a hash that chooses a group's member within a row, by how it is chosen, and bits that choose the row of a group that has
/// several.
const FAIR_BITS: u64 = 14;
const RESILIENT_BITS: u64 = 51;
const ROW_CHOICE_BITS: u64 = 10;
/// Bits of one hash distribution unit.
pub const HASH_UNIT_BITS: u64 = 16;

/// Memories of an array.
pub fn memories(cells: u64, bits: u64) -> Use {
    let blocks = blocks(cells, bits);
    Use {
        sram: blocks,
        map_rams: blocks,
        ..Use::NOTHING
    }
}

/// Blocks of SRAM for an array, with the one that such arrays need beside to be read and written in the same cycle.
pub fn blocks(cells: u64, bits: u64) -> u64 {
    let in_row = (SRAM_BITS / bits.max(1).next_power_of_two()).max(1);
    cells.div_ceil(in_row * SRAM_ROWS).max(1) + 1
}

/// Bits of a cell of a register.
pub fn register_bits(register: &Register) -> u64 {
    u64::from(register.ty.width())
}

/// Bits of a cell of a counter. One of packets and bytes has both in its cell, short ones if the bytes need not more.
pub fn counter_bits(counter: &Counter) -> u64 {
    match counter.unit {
        CounterUnit::Both if counter.width <= 36 => 64,
        CounterUnit::Both => 128,
        CounterUnit::Packets | CounterUnit::Bytes if counter.width <= 32 => 32,
        CounterUnit::Packets | CounterUnit::Bytes => 64,
    }
}

/// Resources of a register array; `cells` is its size.
pub fn register(register: &Register, cells: u64) -> Use {
    Use {
        stateful: 1,
        ..memories(cells, register_bits(register))
    }
}

/// Resources of an array of counters.
pub fn counters(counter: &Counter, cells: u64) -> Use {
    Use {
        statistics: 1,
        ..memories(cells, counter_bits(counter))
    }
}

/// What the counter of a table takes besides its cells.
pub const COUNTER: Use = Use {
    statistics: 1,
    ..Use::NOTHING
};

/// Resources of an array of meters.
pub fn meters(cells: u64) -> Use {
    Use {
        stateful: 1,
        ..memories(cells, METER_BITS)
    }
}

/// What the meter of a table takes besides its cells.
pub const METER: Use = Use {
    stateful: 1,
    ..Use::NOTHING
};

/// What a selector takes besides its members' action data: which members of each group are there.
pub fn selector(profile: &ActionProfile, selector: &Selector) -> Use {
    let members = match profile.max_group_size {
        0 => MEMBERS,
        size => u64::from(size),
    };
    let rows_of_group = members.div_ceil(MEMBERS_IN_ROW);
    let choice = match rows_of_group {
        1 => Use::NOTHING,
        _ => hash(ROW_CHOICE_BITS),
    };
    let within = match selector.resilient {
        true => RESILIENT_BITS,
        false => FAIR_BITS,
    };
    let takes = Use {
        sram: (rows_of_group * profile.groups.max(GROUPS)).div_ceil(SRAM_ROWS) + 1,
        stateful: 1,
        hash_bits: within,
        ..Use::NOTHING
    };
    takes + choice
}

/// Resources of a hash that an action uses; `bits` is its width.
pub fn hash(result_bits: u64) -> Use {
    Use {
        hash_units: result_bits.div_ceil(HASH_UNIT_BITS).max(1),
        hash_bits: result_bits,
        ..Use::NOTHING
    }
}

/// Resources of an index that is neither a constant nor action data: a hash unit computes the address.
pub fn index(cells: u64) -> Use {
    match cells {
        0 | 1 => Use::NOTHING,
        cells => hash(u64::from(cells.next_power_of_two().ilog2())),
    }
}
