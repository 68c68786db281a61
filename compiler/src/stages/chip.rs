//! Budgets of a stage, and what tables and arrays take of them.
//!
//! Sizes of memories, units and crossbars are those of the open sources of bf-p4c (p4lang/p4c, `backends/tofino`); how entries are packed
//! follows Bosshart et al., "Forwarding Metamorphosis" (SIGCOMM 2013), section 5.

use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::arch::Arch;
use crate::ir::{FlatProgram, MatchKind, Register, Table};

/// Rows of a block of SRAM, and bits of each row.
const SRAM_ROWS: u64 = 1024;
const SRAM_BITS: u64 = 128;
/// Rows of a block of TCAM, and bits of each row.
const TCAM_ROWS: u64 = 512;
const TCAM_BITS: u64 = 44;
/// Hash functions that an exact match looks under, each into blocks of its own.
const WAYS: u64 = 4;
/// Most blocks that an entry's word of an exact match spans, unless one entry needs more.
const MOST_WIDTH: u64 = 4;
/// Bits of a row's address in a block, which the hash gives and the entry need not hold.
const ROW_BITS: u64 = 10;
/// Version and valid bits of an exact entry.
const OVERHEAD_BITS: u64 = 4;
/// Action data of at most so many bits stand in the entry itself.
const IMMEDIATE_BITS: u64 = 32;
/// Bits of a counter's cell, and of a meter's.
const COUNTER_BITS: u64 = 64;
const METER_BITS: u64 = 128;
/// Blocks that arrays can have in a stage: each needs a map RAM beside it to be read and written in the same cycle.
pub const ARRAY_BLOCKS: u64 = 48;
/// Bits of one hash distribution unit.
const HASH_UNIT_BITS: u64 = 16;

/// What a step takes of a stage, or a stage has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Use {
    /// Logical tables.
    pub tables: u64,
    /// Gateways: conditions.
    pub gateways: u64,
    /// Blocks of SRAM, 1,024 rows of 128 bits each.
    pub sram: u64,
    /// Blocks of TCAM, 512 rows of 44 bits each.
    pub tcam: u64,
    /// ALUs for registers, meters and selectors.
    pub stateful: u64,
    /// ALUs for counters.
    pub statistics: u64,
    /// Hash distribution units.
    pub hash_units: u64,
    /// Bytes of the exact match crossbar.
    pub exact_bytes: u64,
    /// Bytes of the ternary match crossbar.
    pub ternary_bytes: u64,
}

impl Add for Use {
    type Output = Use;

    fn add(self, other: Use) -> Use {
        Use {
            tables: self.tables + other.tables,
            gateways: self.gateways + other.gateways,
            sram: self.sram + other.sram,
            tcam: self.tcam + other.tcam,
            stateful: self.stateful + other.stateful,
            statistics: self.statistics + other.statistics,
            hash_units: self.hash_units + other.hash_units,
            exact_bytes: self.exact_bytes + other.exact_bytes,
            ternary_bytes: self.ternary_bytes + other.ternary_bytes,
        }
    }
}

impl AddAssign for Use {
    fn add_assign(&mut self, other: Use) {
        *self = *self + other;
    }
}

impl Use {
    /// Whether all of it fits in `budget`.
    pub fn fits(&self, budget: &Use) -> bool {
        let pairs = self.list().into_iter().zip(budget.list());
        pairs.into_iter().all(|((_, mine), (_, its))| mine <= its)
    }

    /// Names and numbers, in the order of reports.
    pub fn list(&self) -> [(&'static str, u64); 9] {
        [
            ("tables", self.tables),
            ("gateways", self.gateways),
            ("SRAM", self.sram),
            ("TCAM", self.tcam),
            ("stateful ALUs", self.stateful),
            ("statistics ALUs", self.statistics),
            ("hash units", self.hash_units),
            ("exact bytes", self.exact_bytes),
            ("ternary bytes", self.ternary_bytes),
        ]
    }
}

/// A chip.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Match-action stages, which both gresses share.
    pub stages: u32,
    /// What each has.
    pub stage: Use,
}

impl Budget {
    /// Tofino 1.
    pub const TOFINO: Budget = Budget {
        stages: 12,
        stage: STAGE,
    };
    /// Tofino 2.
    pub const TOFINO_2: Budget = Budget {
        stages: 20,
        stage: STAGE,
    };

    /// That of the chip of an architecture, if it is one of a chip.
    pub fn of(arch: Arch) -> Option<Budget> {
        match arch {
            Arch::V1model => None,
            Arch::Tna => Some(Budget::TOFINO),
            Arch::T2na => Some(Budget::TOFINO_2),
        }
    }
}

const STAGE: Use = Use {
    tables: 16,
    gateways: 16,
    sram: 80,
    tcam: 24,
    stateful: 4,
    statistics: 4,
    hash_units: 6,
    exact_bytes: 128,
    ternary_bytes: 66,
};

/// Blocks of SRAM for an array, with the one that such arrays need beside to be read and written in the same cycle.
fn array(cells: u64, bits: u64) -> u64 {
    let in_row = (SRAM_BITS / bits.max(1).next_power_of_two()).max(1);
    cells.div_ceil(in_row).div_ceil(SRAM_ROWS).max(1) + 1
}

/// Rows of SRAM for entries of so many bits, in words of as many rows side by side as pack them best.
fn packed(entries: u64, bits: u64) -> u64 {
    let bits = bits.max(1);
    (1..=MOST_WIDTH.max(bits.div_ceil(SRAM_BITS)))
        .filter_map(|width| {
            let in_word = width * SRAM_BITS / bits;
            (in_word > 0).then(|| entries.div_ceil(in_word) * width)
        })
        .min()
        .unwrap_or(entries)
}

/// What a register array of so many cells takes.
pub fn register(register: &Register, cells: u64) -> Use {
    Use {
        sram: array(cells, u64::from(register.ty.width()).max(8)),
        stateful: 1,
        // Its index: an address of at most 16 bits in rows of 128 bits.
        hash_units: u64::from(cells > 1),
        ..Use::default()
    }
}

/// What counters take: cells of an array, or entries of the table that has them.
pub fn counters(cells: u64) -> Use {
    Use {
        sram: array(cells, COUNTER_BITS),
        statistics: 1,
        ..Use::default()
    }
}

/// What meters take: cells of an array, or entries of the table that has them.
pub fn meters(cells: u64) -> Use {
    Use {
        sram: array(cells, METER_BITS),
        stateful: 1,
        ..Use::default()
    }
}

/// What a hash of so many bits takes.
pub fn hash(result_bits: u64) -> Use {
    Use {
        hash_units: result_bits.div_ceil(HASH_UNIT_BITS).max(1),
        ..Use::default()
    }
}

/// What a table of so many entries takes, arrays that belong to it included, but for its key's bytes of crossbars, which others may share.
pub fn table(program: &FlatProgram, table: &Table, size: u64) -> Use {
    let mut takes = Use {
        tables: 1,
        ..Use::default()
    };
    let data_bits = |action: &crate::ir::ActionRef| -> u64 {
        let params = &program.objects.action(action.action).params;
        params.iter().map(|param| u64::from(param.ty.width())).sum()
    };
    let data = table.actions.iter().map(data_bits).max().unwrap_or(0);
    let actions = table.actions.len() as u64;
    let choice_bits = u64::from(actions.max(1).next_power_of_two().trailing_zeros());
    let immediate = if data <= IMMEDIATE_BITS { data } else { 0 };
    let pointer_bits = u64::from(size.max(2).next_power_of_two().trailing_zeros());
    let inside = choice_bits
        + if data > immediate {
            pointer_bits
        } else {
            immediate
        };
    let key_bits: u64 = table.keys.iter().map(|key| u64::from(key.width)).sum();
    let size = size.max(1);
    // Members of a profile stand once, however many entries name them.
    let rows_of_data = match table.implementation {
        Some(profile) => program.objects.action_profiles[profile.index()].size.max(1),
        None => size,
    };
    if data > IMMEDIATE_BITS || table.implementation.is_some() {
        let bits = data.max(8).next_power_of_two();
        let in_row = (SRAM_BITS / bits).max(1);
        let rows = rows_of_data * bits.div_ceil(SRAM_BITS);
        takes.sram += rows.div_ceil(in_row).div_ceil(SRAM_ROWS);
    }
    if table.implementation.is_some_and(|profile| {
        program.objects.action_profiles[profile.index()]
            .selector
            .is_some()
    }) {
        takes += Use {
            sram: array(size, SRAM_BITS),
            stateful: 1,
            hash_units: 2,
            ..Use::default()
        };
    }
    let is_constant = table.keys.is_empty();
    let exact = (table.keys.iter()).all(|key| key.kind == MatchKind::Exact);
    if !exact && !table.algorithmic {
        // A range takes a nibble of four bits twice; a TCAM row holds 44 bits of key.
        let bits: u64 = (table.keys.iter())
            .map(|key| match key.kind {
                MatchKind::Range => 2 * u64::from(key.width),
                _ => u64::from(key.width),
            })
            .sum();
        takes.tcam += bits.div_ceil(TCAM_BITS).max(1) * size.div_ceil(TCAM_ROWS);
        let beside = inside.max(8).next_power_of_two();
        takes.sram += (size * beside).div_ceil(SRAM_BITS * SRAM_ROWS);
    } else if !is_constant {
        // An algorithmic one keeps a mask with each key. What finds the part of it that an entry is in is small, and not counted.
        let key = match exact {
            true => key_bits.saturating_sub(ROW_BITS),
            false => 2 * key_bits,
        };
        let held = key + OVERHEAD_BITS + inside;
        let rows = packed(size, held);
        let direct = key_bits <= ROW_BITS;
        let ways = if direct { 1 } else { WAYS };
        takes.sram += rows
            .div_ceil(SRAM_ROWS)
            .max(ways * held.div_ceil(SRAM_BITS));
    }
    if table.counter.is_some() {
        takes += counters(size);
    }
    if table.meter.is_some() {
        takes += meters(size);
    }
    takes
}
