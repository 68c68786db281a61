//! Resources of arrays: registers, counters, meters and the members of selectors.

use super::chip::{Resources, SRAM_BITS, SRAM_ROWS};
use crate::ir::{ActionProfile, Counter, CounterUnit, Register, Selector};

/// Width of a meter's cell in bits.
pub const METER_BITS: u64 = 128;
/// Maximum number of a group's members in a row of a selector's memory, one bit each.
const MEMBERS_IN_ROW: u64 = 120;
/// Default maximum number of members in a group of a selector.
const MEMBERS: u64 = 120;
/// Minimum number of groups of a selector.
const GROUPS: u64 = 4;
/// Hash bits that select a member within a row in the mode `FAIR`.
const FAIR_BITS: u64 = 14;
/// Hash bits that select a member within a row in the mode `RESILIENT`.
const RESILIENT_BITS: u64 = 51;
/// Hash bits that select the row of a group with several rows.
const ROW_CHOICE_BITS: u64 = 10;
/// Width of a hash distribution unit in bits.
pub const HASH_UNIT_BITS: u64 = 16;

/// SRAM blocks and map RAMs of an array of `cells` cells of `bits` bits each.
pub fn memories(cells: u64, bits: u64) -> Resources {
    let blocks = blocks(cells, bits);
    Resources {
        sram: blocks,
        map_rams: blocks,
        ..Resources::NOTHING
    }
}

/// Number of SRAM blocks of an array, including a spare one that allows a read and a write in the same cycle.
pub fn blocks(cells: u64, bits: u64) -> u64 {
    let in_row = (SRAM_BITS / bits.max(1).next_power_of_two()).max(1);
    cells.div_ceil(in_row * SRAM_ROWS).max(1) + 1
}

/// Width of a register's cell in bits.
pub fn register_bits(register: &Register) -> u64 {
    u64::from(register.ty.width())
}

/// Width of a counter's cell in bits. A counter of packets and bytes has both in one cell, of 64 bits if that suffices, else of 128.
pub fn counter_bits(counter: &Counter) -> u64 {
    match counter.unit {
        CounterUnit::Both if counter.width <= 36 => 64,
        CounterUnit::Both => 128,
        CounterUnit::Packets | CounterUnit::Bytes if counter.width <= 32 => 32,
        CounterUnit::Packets | CounterUnit::Bytes => 64,
    }
}

/// Resources of a register array; `cells` is its size.
pub fn register(register: &Register, cells: u64) -> Resources {
    Resources {
        stateful: 1,
        ..memories(cells, register_bits(register))
    }
}

/// Resources of an array of `cells` counters.
pub fn counters(counter: &Counter, cells: u64) -> Resources {
    Resources {
        statistics: 1,
        ..memories(cells, counter_bits(counter))
    }
}

/// Resources of a table's direct counter, without its cells.
pub const COUNTER: Resources = Resources {
    statistics: 1,
    ..Resources::NOTHING
};

/// Resources of an array of `cells` meters.
pub fn meters(cells: u64) -> Resources {
    Resources {
        stateful: 1,
        ..memories(cells, METER_BITS)
    }
}

/// Resources of a table's direct meter, without its cells.
pub const METER: Resources = Resources {
    stateful: 1,
    ..Resources::NOTHING
};

/// Resources of a selector without the action data of members: the member bits of each group.
pub fn selector(profile: &ActionProfile, selector: &Selector) -> Resources {
    let members = match profile.max_group_size {
        0 => MEMBERS,
        size => u64::from(size),
    };
    let rows_of_group = members.div_ceil(MEMBERS_IN_ROW);
    let choice = match rows_of_group {
        1 => Resources::NOTHING,
        _ => hash(ROW_CHOICE_BITS),
    };
    let within = match selector.resilient {
        true => RESILIENT_BITS,
        false => FAIR_BITS,
    };
    let takes = Resources {
        sram: (rows_of_group * profile.groups.max(GROUPS)).div_ceil(SRAM_ROWS) + 1,
        stateful: 1,
        hash_bits: within,
        ..Resources::NOTHING
    };
    takes + choice
}

/// Resources of a hash that an action computes; `result_bits` is the width of its result.
pub fn hash(result_bits: u64) -> Resources {
    Resources {
        hash_units: result_bits.div_ceil(HASH_UNIT_BITS).max(1),
        hash_bits: result_bits,
        ..Resources::NOTHING
    }
}

/// Resources of an index into `cells` cells that is neither a constant nor action data: a hash unit computes the address.
pub fn index(cells: u64) -> Resources {
    match cells {
        0 | 1 => Resources::NOTHING,
        cells => hash(u64::from(cells.next_power_of_two().ilog2())),
    }
}
