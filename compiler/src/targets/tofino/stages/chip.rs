//! Resources of a stage: sizes of memories, units and crossbars, from the open sources of bf-p4c (p4lang/p4c, `backends/tofino`).
//!
//! The kinds of memories are those of Bosshart et al., "Forwarding Metamorphosis" (SIGCOMM 2013), section 5.

use std::ops::{Add, AddAssign};

use serde::Serialize;

use crate::arch::Arch;

/// Number of rows in a block of SRAM.
pub const SRAM_ROWS: u64 = 1024;
/// Width in bits of a row of SRAM.
pub const SRAM_BITS: u64 = 128;
/// Number of rows in a block of TCAM.
pub const TCAM_ROWS: u64 = 512;
/// Width in bits of a row of TCAM.
pub const TCAM_BITS: u64 = 44;
/// Maximum number of SRAM blocks of arrays in a stage. Each needs a map RAM, which allows a read and a write in the same cycle.
pub const ARRAY_BLOCKS: u64 = 48;

/// An amount of each resource of a stage: what a step (a table, condition, register or statement of the program) uses, or what a stage has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// Logical tables.
    pub tables: u64,
    /// Gateways, which evaluate conditions.
    pub gateways: u64,
    /// Blocks of SRAM, 1,024 rows of 128 bits each.
    pub sram: u64,
    /// Blocks of TCAM, 512 rows of 44 bits each.
    pub tcam: u64,
    /// Map RAMs, one per block of an array that is read and written in the same cycle.
    pub map_rams: u64,
    /// Stateful ALUs, for registers, meters and selectors.
    pub stateful: u64,
    /// Statistics ALUs, for counters.
    pub statistics: u64,
    /// Hash distribution units.
    pub hash_units: u64,
    /// Output bits of hash functions.
    pub hash_bits: u64,
    /// Bytes of the exact match crossbar.
    pub exact_bytes: u64,
    /// Bytes of the ternary match crossbar.
    pub ternary_bytes: u64,
}

impl Add for Resources {
    type Output = Resources;

    fn add(self, other: Resources) -> Resources {
        Resources {
            tables: self.tables + other.tables,
            gateways: self.gateways + other.gateways,
            sram: self.sram + other.sram,
            tcam: self.tcam + other.tcam,
            map_rams: self.map_rams + other.map_rams,
            stateful: self.stateful + other.stateful,
            statistics: self.statistics + other.statistics,
            hash_units: self.hash_units + other.hash_units,
            hash_bits: self.hash_bits + other.hash_bits,
            exact_bytes: self.exact_bytes + other.exact_bytes,
            ternary_bytes: self.ternary_bytes + other.ternary_bytes,
        }
    }
}

impl AddAssign for Resources {
    fn add_assign(&mut self, other: Resources) {
        *self = *self + other;
    }
}

impl Resources {
    /// No resources.
    pub const NOTHING: Resources = Resources {
        tables: 0,
        gateways: 0,
        sram: 0,
        tcam: 0,
        map_rams: 0,
        stateful: 0,
        statistics: 0,
        hash_units: 0,
        hash_bits: 0,
        exact_bytes: 0,
        ternary_bytes: 0,
    };

    /// The resources without SRAM, TCAM and map RAMs. A table that spans several stages needs them in its first stage only.
    pub fn without_memories(self) -> Resources {
        Resources {
            sram: 0,
            tcam: 0,
            map_rams: 0,
            ..self
        }
    }

    /// Whether no amount exceeds that in `budget`.
    pub fn fits(&self, budget: &Resources) -> bool {
        let pairs = self.list().into_iter().zip(budget.list());
        pairs.into_iter().all(|((_, mine), (_, its))| mine <= its)
    }

    /// Names and amounts of the resources, in the order of reports.
    pub fn list(&self) -> [(&'static str, u64); 11] {
        [
            ("tables", self.tables),
            ("gateways", self.gateways),
            ("SRAM", self.sram),
            ("TCAM", self.tcam),
            ("map RAMs", self.map_rams),
            ("stateful ALUs", self.stateful),
            ("statistics ALUs", self.statistics),
            ("hash units", self.hash_units),
            ("hash bits", self.hash_bits),
            ("exact bytes", self.exact_bytes),
            ("ternary bytes", self.ternary_bytes),
        ]
    }
}

/// The stages and resources of a chip.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Number of match-action stages, shared by ingress and egress.
    pub stages: u32,
    /// Resources of each stage.
    pub stage: Resources,
    /// Maximum number of memory blocks of a register, including its spare one.
    pub register_blocks: u64,
}

impl Budget {
    /// The budget of Tofino 1.
    pub const TOFINO: Budget = Budget {
        stages: 12,
        stage: STAGE,
        register_blocks: ARRAY_BLOCKS,
    };
    /// The budget of Tofino 2.
    pub const TOFINO_2: Budget = Budget {
        stages: 20,
        stage: STAGE,
        // A stage's memory has two halves, and a register is in one of them (p4c, `Device::isMemoryCoreSplit`).
        register_blocks: ARRAY_BLOCKS / 2,
    };

    /// The memories of a stage that remain after `used`.
    pub fn free_memories(&self, used: &Resources) -> Resources {
        Resources {
            sram: self.stage.sram.saturating_sub(used.sram),
            tcam: self.stage.tcam.saturating_sub(used.tcam),
            map_rams: self.stage.map_rams.saturating_sub(used.map_rams),
            ..Resources::NOTHING
        }
    }

    /// The budget of an architecture's chip; `None` for an architecture of another target.
    pub fn of(arch: Arch) -> Option<Budget> {
        let budgets = [(Arch::TNA, Budget::TOFINO), (Arch::T2NA, Budget::TOFINO_2)];
        let own = budgets.into_iter().find(|(known, _)| *known == arch);
        own.map(|(_, budget)| budget)
    }
}

/// Resources of each stage, which are the same on Tofino 1 and Tofino 2.
const STAGE: Resources = Resources {
    tables: 16,
    gateways: 16,
    sram: 80,
    tcam: 24,
    map_rams: ARRAY_BLOCKS,
    stateful: 4,
    statistics: 4,
    hash_units: 6,
    hash_bits: 416,
    exact_bytes: 128,
    ternary_bytes: 66,
};
