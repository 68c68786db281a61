//! Memory layout of match tables: packing of entries into rows of SRAM or TCAM, and the rows of action data.
//!
//! The rules are those of the chip's own compiler (bf-p4c, `table_layout.cpp` and `resource_estimate.cpp`). The number of bytes that a key
//! spans is estimated, as it depends on the allocation of header containers. Fields of a header that share a byte in the packet are
//! assumed to share it here, and each metadata field to have its own bytes.

use super::arrays;
use super::chip::{Resources, SRAM_BITS, SRAM_ROWS, TCAM_BITS, TCAM_ROWS};

/// Version bits of an exact entry, for atomic updates.
const VERSION_BITS: u64 = 4;
/// Maximum bytes of keys in a row of SRAM.
const ROW_KEY_BYTES: u64 = 16;
/// Maximum bits of overhead and immediate data in a row of SRAM.
const ROW_OVERHEAD_BITS: u64 = 64;
/// Maximum number of entries in a row of SRAM.
const ROW_ENTRIES: u64 = 5;
/// Maximum number of entries packed together into adjacent rows.
const MAX_PACKED: u64 = 9;
/// Maximum number of adjacent rows of a packing.
const MAX_WIDTH: u64 = 8;
/// Number of ghost bits: bits of a key that select the row, so that they need not be stored in it.
const GHOST_BITS: u64 = 10;
/// Minimum number of hash ways of an exact match: cuckoo hashing with four ways reaches a load of 90 %.
const MIN_WAYS: u64 = 4;
/// Maximum number of hash ways of an exact match.
const MAX_WAYS: u64 = 6;
/// Maximum number of key bits beyond the ghost bits with which the key itself is the address, without a hash function.
const IDENTITY_BITS: u64 = 8;
/// Maximum bits of action data that are stored in the match entry (immediate data).
const IMMEDIATE_BITS: u64 = 32;
/// Bytes in a row of action data.
const DATA_ROW_BYTES: u64 = 16;
/// Number of rows that one hash function of a partitioned table addresses.
const PARTITION_ROWS: u64 = 1024;

/// Assumed percentage of the entries of a ternary match whose range is neither a single value nor all values.
const RANGE_PERCENT: u64 = 25;

/// The lookup method of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    /// No lookup, for a table without a key.
    None,
    /// Hash table in SRAM.
    Exact,
    /// Ternary match in TCAM.
    Ternary,
    /// Partitions in SRAM, selected by an exact part of the key (`Atcam`) or by a small TCAM (`Alpm`).
    Partitioned {
        /// Number of partitions.
        partitions: u64,
        /// TCAM prefixes per partition; 0 if the key selects the partition.
        subtrees: u64,
    },
}

/// The properties of a table that determine its memories.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The lookup method of the table.
    pub method: Match,
    /// Width of the key in bits.
    pub key_bits: u64,
    /// Used bits of each byte of the key; a byte of a range is counted twice.
    pub key_bytes: Vec<u64>,
    /// Number of key bits of `Alpm` and `Atcam` tables that are stored with a mask.
    pub masked_bits: u64,
    /// Number of entries.
    pub size: u64,
    /// Overhead bits per entry: those that select the action, and addresses of array cells.
    pub overhead: u64,
    /// Widths in bits of the action data of an entry, by action.
    pub data: Vec<Vec<u64>>,
    /// Whether actions use hashes or random numbers. These reach the ALUs by the bus of immediate action data, so entries of
    /// the table cannot hold immediate data.
    pub hashes: bool,
    /// TCAM rows per entry of a ternary match in the worst case of its ranges.
    pub rows_of_range: u64,
    /// Whether entries refer to members of a profile, which hold the action data.
    pub members: bool,
    /// Whether the default action has its own action data, which takes the place of an entry.
    pub default_has_data: bool,
    /// Whether entries have an idle timeout.
    pub timeout: bool,
    /// Number of hash ways, if `@ways` sets it.
    pub ways: Option<u64>,
    /// Number of entries packed together, if `@pack` sets it.
    pub packed: Option<u64>,
    /// Width in bits of the key's hash that an entry stores instead of the key, if `@proxy_hash_width` sets it.
    pub proxy: Option<u64>,
    /// Widths in bits of the direct cells of an entry: counters, a meter, registers.
    pub cells: Vec<u64>,
}

/// Memories of a table, and the number of entries that fit in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// The resources that the table takes.
    pub takes: Resources,
    /// Number of entries that fit in the memories; at least the table's size.
    pub entries: u64,
}

/// Division of an entry's action data between separate rows and the match entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ActionDataSplit {
    /// Bytes in rows of action data.
    bytes: u64,
    /// Bits in the match entry (immediate data).
    immediate: u64,
}

impl Shape {
    /// The layout with the fewest blocks.
    pub fn layout(&self) -> Layout {
        let options = self
            .action_data_splits()
            .into_iter()
            .flat_map(|values| match self.method {
                Match::None => vec![self.keyless()],
                Match::Exact => self.exact(values),
                Match::Ternary => vec![self.ternary(values)],
                Match::Partitioned {
                    partitions,
                    subtrees,
                } => self.partitioned(values, partitions.max(1), subtrees),
            });
        let smallest = options.min_by_key(|option| (option.takes.sram, option.takes.hash_bits));
        smallest.unwrap_or(Layout {
            takes: Resources {
                sram: u64::MAX >> 16,
                ..Resources::NOTHING
            },
            entries: self.size,
        })
    }

    /// The possible divisions of an entry's action data between separate rows and the match entry. The first has all
    /// data in separate rows; each further one has more data in the match entry.
    fn action_data_splits(&self) -> Vec<ActionDataSplit> {
        let slots: Vec<Vec<(u64, u64)>> = self.data.iter().map(|bits| slots(bits)).collect();
        let sum = |slots: &[(u64, u64)]| slots.iter().map(|(slot, _)| slot).sum::<u64>();
        let bytes = slots.iter().map(|slots| row_bytes(sum(slots) / 8));
        let bytes = bytes.max().unwrap_or(0);
        let mut found = vec![ActionDataSplit {
            bytes,
            immediate: 0,
        }];
        if self.members || self.hashes {
            return found;
        }
        let mut now = bytes;
        while now > 0 {
            let next = match now > DATA_ROW_BYTES {
                true => now - DATA_ROW_BYTES,
                false => now / 2,
            };
            let Some(values) = move_into_entry(&slots, next) else {
                break;
            };
            found.push(values);
            now = values.bytes;
        }
        found
    }

    /// Layout of a table without a key: its action data is in registers, so it needs no memory.
    fn keyless(&self) -> Layout {
        self.with_cells(Layout {
            takes: Resources::NOTHING,
            entries: 1,
        })
    }

    /// Layouts of an exact match in SRAM, one for each packing of entries.
    fn exact(&self, values: ActionDataSplit) -> Vec<Layout> {
        let mut options = self.direct(values);
        let overhead = self.overhead + values.immediate;
        // An entry can hold a hash of the key instead of the key.
        let (key_bits, key_bytes) = match self.proxy {
            Some(bits) => (bits, bits.div_ceil(8)),
            None => (
                self.key_bits.saturating_sub(GHOST_BITS),
                (self.key_bytes.len() as u64).saturating_sub(self.ghost_bytes()),
            ),
        };
        let bits = key_bits + overhead + VERSION_BITS;
        for (packed, width) in packings(bits, key_bytes, overhead, self.packed) {
            let rows = self.size.div_ceil(packed * SRAM_ROWS).max(1);
            let (ways, hash_bits) = self.ways(rows, packed, values);
            let entries = ways * packed * SRAM_ROWS;
            let mut takes = Resources {
                hash_bits,
                ..blocks(ways * width)
            };
            takes += self.action_data_memories(values, entries);
            options.push(self.with_cells(Layout { takes, entries }));
        }
        options
    }

    /// The layout of a table with an entry for each value of its key: the key is the address of the action data, and is not stored. Empty
    /// for other tables.
    fn direct(&self, values: ActionDataSplit) -> Vec<Layout> {
        let complete = self.key_bits < 32 && self.size == 1 << self.key_bits;
        let possible = complete && self.overhead == 0 && self.data.len() == 1 && !self.timeout;
        if !possible || values.immediate > 0 || self.members {
            return Vec::new();
        }
        let mut takes = self.action_data_memories(values, self.size);
        takes.hash_bits = self.key_bits;
        takes.hash_units = self.key_bits.div_ceil(arrays::HASH_UNIT_BITS);
        vec![self.with_cells(Layout {
            takes,
            entries: self.size,
        })]
    }

    /// Number of SRAM blocks of all hash ways of an exact match, and number of its hash bits. `rows`: blocks that all
    /// entries take; `packed`: entries that are packed together.
    fn ways(&self, rows: u64, packed: u64, values: ActionDataSplit) -> (u64, u64) {
        if let Some(ways) = self.ways {
            return annotated_ways(ways.clamp(1, MAX_WAYS), rows);
        }
        if self.key_bits < GHOST_BITS && rows == 1 {
            return (1, GHOST_BITS);
        }
        let rows = rows.max(MIN_WAYS);
        let more = self.key_bits.saturating_sub(GHOST_BITS);
        let default_in_row = self.default_has_data && values.bytes > 0;
        if more <= IDENTITY_BITS && !self.timeout && !default_in_row {
            let needed = (1u64 << more).div_ceil(packed).next_power_of_two();
            if needed <= rows {
                return (needed, GHOST_BITS + u64::from(needed.ilog2()));
            }
        }
        // Four hash functions of ten bits, and bits that select one of the blocks of each.
        let of_one = rows.min(64) / MIN_WAYS;
        let choice = u64::from(of_one.max(1).ilog2());
        let shared = MIN_WAYS * choice;
        (rows, MIN_WAYS * GHOST_BITS + shared)
    }

    /// The layout of a ternary match in TCAM.
    fn ternary(&self, values: ActionDataSplit) -> Layout {
        let ranges = self.size / 100 * RANGE_PERCENT + self.size % 100 * RANGE_PERCENT / 100;
        let lines = self.size - ranges + ranges * self.rows_of_range.max(1);
        let rows = lines.div_ceil(TCAM_ROWS).max(1);
        let entries = rows * TCAM_ROWS;
        let mut takes = Resources {
            tcam: rows * self.tcam_width(),
            ..Resources::NOTHING
        };
        takes += self.indirection(values, entries);
        takes += self.action_data_memories(values, entries);
        self.with_cells(Layout { takes, entries })
    }

    /// SRAM of a ternary match for the overhead and the immediate data, which TCAM cannot hold.
    fn indirection(&self, values: ActionDataSplit, entries: u64) -> Resources {
        let bits = self.overhead + values.immediate;
        match bits {
            0 => Resources::NOTHING,
            bits => {
                let in_row = (SRAM_BITS / bits.max(8).next_power_of_two()).max(1);
                blocks(entries.div_ceil(in_row * SRAM_ROWS))
            }
        }
    }

    /// Layouts of a partitioned table, one for each packing of entries.
    fn partitioned(&self, values: ActionDataSplit, partitions: u64, subtrees: u64) -> Vec<Layout> {
        let overhead = self.overhead + values.immediate;
        // The prefix that selects the partition is stored in TCAM and again here.
        let key_bits = self.key_bits + self.masked_bits;
        let key_bytes = self.key_bytes.len() as u64 + self.masked_bits.div_ceil(8);
        let mut options = Vec::new();
        for (packed, width) in packings(
            key_bits + overhead + VERSION_BITS,
            key_bytes,
            overhead,
            None,
        ) {
            if packed > ROW_ENTRIES || packed * overhead > ROW_OVERHEAD_BITS {
                break;
            }
            let in_partition = self.size.div_ceil(partitions);
            let rows = in_partition.div_ceil(packed);
            let deep = partitions.div_ceil(PARTITION_ROWS);
            let entries = rows * deep * packed * SRAM_ROWS;
            // The partition is selected by another table, unless a part of the key selects it.
            let finder = (partitions * subtrees).div_ceil(TCAM_ROWS);
            let mut takes = Resources {
                tcam: finder * self.tcam_width(),
                hash_bits: GHOST_BITS + u64::from(deep.next_power_of_two().ilog2()),
                ..blocks(rows * width * deep)
            };
            takes.sram += finder.div_ceil(2);
            takes += self.action_data_memories(values, entries);
            options.push(self.with_cells(Layout { takes, entries }));
        }
        options
    }

    /// TCAM blocks per row of a key: a row has 44 bits, four of which are the entry's version.
    fn tcam_width(&self) -> u64 {
        (8 * self.key_bytes.len() as u64 + VERSION_BITS).div_ceil(TCAM_BITS)
    }

    /// SRAM for the action data of `entries` entries that is not in the match entries. Nothing if a profile holds the action data.
    fn action_data_memories(&self, values: ActionDataSplit, entries: u64) -> Resources {
        match self.members {
            true => Resources::NOTHING,
            false => blocks(action_data(values.bytes, entries)),
        }
    }

    /// SRAM blocks for the action data of a profile with `size` members.
    pub fn members(&self, size: u64) -> u64 {
        let first = self.action_data_splits().into_iter().next();
        first.map_or(0, |values| action_data(values.bytes, size))
    }

    /// Adds the direct cells for all entries of a layout.
    fn with_cells(&self, mut layout: Layout) -> Layout {
        for bits in &self.cells {
            layout.takes += arrays::memories(layout.entries, *bits);
        }
        layout
    }

    /// Number of whole key bytes that consist of ghost bits, and so are not stored. The narrowest bytes are chosen.
    fn ghost_bytes(&self) -> u64 {
        let mut sizes = self.key_bytes.clone();
        sizes.sort_unstable();
        let mut left = GHOST_BITS;
        let mut bytes = 0;
        for size in sizes {
            if size <= left {
                left -= size;
                bytes += 1;
            }
        }
        bytes
    }
}

/// An amount of SRAM blocks, without other resources.
fn blocks(sram: u64) -> Resources {
    Resources {
        sram,
        ..Resources::NOTHING
    }
}

/// The ALU operands of values with the given widths: slots of 8, 16 or 32 bits, each with its number of used bits.
fn slots(bits: &[u64]) -> Vec<(u64, u64)> {
    let mut slots = Vec::new();
    for bits in bits {
        let mut left = *bits;
        while left > 0 {
            let piece = left.min(32);
            slots.push((piece.max(8).next_power_of_two(), piece));
            left -= piece;
        }
    }
    slots
}

/// Moves action data from separate rows into the match entry until the rest takes at most `bytes` bytes per entry in
/// the rows. `None` if the match entry is too small.
fn move_into_entry(actions: &[Vec<(u64, u64)>], bytes: u64) -> Option<ActionDataSplit> {
    let mut left = ActionDataSplit {
        bytes: 0,
        immediate: 0,
    };
    for slots in actions {
        let mut stay: u64 = slots.iter().map(|(slot, _)| slot).sum();
        let mut go: Vec<(u64, u64)> = Vec::new();
        // Choose the smallest slot that suffices; else the largest one, and then further slots.
        let mut here = slots.clone();
        here.sort_unstable();
        while stay > bytes * 8 {
            let excess = stay - bytes * 8;
            let at = here.iter().position(|(slot, _)| *slot >= excess);
            let slot = here.remove(at.unwrap_or(here.len() - 1));
            stay -= slot.0;
            go.push(slot);
        }
        let whole: u64 = go.iter().map(|(slot, _)| slot).sum();
        // Unused bits of one slot can be at the end of the immediate data, where they take no space.
        let slack = go.iter().map(|(slot, bits)| slot - bits).max().unwrap_or(0);
        if whole > IMMEDIATE_BITS {
            return None;
        }
        left.bytes = left.bytes.max(row_bytes(stay / 8));
        left.immediate = left.immediate.max(whole - slack);
    }
    Some(left)
}

/// Number of bytes that `bytes` bytes of an entry's action data take in rows: a power of two if they fit in a row, else
/// whole rows.
fn row_bytes(bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes if bytes > DATA_ROW_BYTES => bytes.next_multiple_of(DATA_ROW_BYTES),
        bytes => bytes.next_power_of_two(),
    }
}

/// SRAM blocks for the action data of `sets` entries or members, of `bytes` bytes each.
fn action_data(bytes: u64, sets: u64) -> u64 {
    match bytes {
        0 => 0,
        bytes if bytes > DATA_ROW_BYTES => sets.div_ceil(SRAM_ROWS) * (bytes / DATA_ROW_BYTES),
        bytes => sets.div_ceil(DATA_ROW_BYTES / bytes * SRAM_ROWS),
    }
}

/// Number of SRAM blocks and of hash bits of `ways` hash ways. Each way has a power of two of blocks, and all together
/// at least `rows` blocks.
fn annotated_ways(ways: u64, rows: u64) -> (u64, u64) {
    let (mut left, mut blocks, mut hash_bits) = (rows, 0, 0);
    for more in (1..=ways).rev() {
        let way = left.max(1).div_ceil(more).next_power_of_two();
        left = left.saturating_sub(way);
        blocks += way;
        hash_bits += GHOST_BITS + u64::from(way.ilog2());
    }
    (blocks, hash_bits)
}

/// The possible packings: pairs of a number of entries and the number of adjacent rows that hold them. Multiples of a smaller packing are
/// omitted. If `given`, only the packing of that number of entries.
fn packings(bits: u64, key_bytes: u64, overhead: u64, given: Option<u64>) -> Vec<(u64, u64)> {
    let mut found = Vec::new();
    let given = given.filter(|packed| (1..=MAX_PACKED).contains(packed));
    for packed in given.map_or(1..=MAX_PACKED, |packed| packed..=packed) {
        let width = [
            (packed * bits).div_ceil(SRAM_BITS),
            (packed * key_bytes).div_ceil(ROW_KEY_BYTES),
            (packed * overhead).div_ceil(ROW_OVERHEAD_BITS),
            packed.div_ceil(ROW_ENTRIES),
        ];
        let width = width.into_iter().max().unwrap_or(1).max(1);
        if width > MAX_WIDTH {
            break;
        }
        let (more, fewer) = (packed.max(width), packed.min(width));
        if given.is_some() || fewer == 1 || more % fewer != 0 {
            found.push((packed, width));
        }
    }
    found
}
