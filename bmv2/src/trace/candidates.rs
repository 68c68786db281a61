//! Why entries of a table did not win.

use super::{Lost, TraceEvent};
use crate::exec::words::words_of;
use crate::numbers::{number, number_of_bytes};
use crate::program::{LoadedProgram, Table};
use crate::tables::{EntryHandle, KeyMatch, TableEntry, TableState};

/// Maximum number of entries that are compared with a packet for one application of a table.
const MAX_COMPARED: usize = 1_000;

/// Maximum number of entries that are shown for one application of a table.
const MAX_SHOWN: usize = 3;

/// Explains why entries did not win: after a hit, those that match too; after a miss, those that differ in the fewest
/// key fields. `winner` is the handle of the matching entry.
pub(crate) fn candidates(
    program: &LoadedProgram,
    table: &Table,
    entries: &TableState,
    winner: Option<u32>,
    phv: &[u64],
) -> Vec<TraceEvent> {
    let mut found: Vec<(usize, Option<usize>, EntryHandle)> = Vec::new();
    for handle in entries.handles().into_iter().take(MAX_COMPARED) {
        let Some(mut differing) = entries.differing(handle, phv) else {
            continue;
        };
        let first = differing.next();
        // Of entries beside a winner only those that match are shown.
        if Some(handle.0) != winner && winner.is_some() == first.is_none() {
            found.push((differing.count(), first, handle));
        }
    }
    found.sort_by_key(|(others, ..)| *others);
    let shown = found.into_iter().take(MAX_SHOWN);
    let event = |(_, first, handle): (usize, Option<usize>, EntryHandle)| {
        let entry = entries.entry(program, table, handle)?;
        let reason = match first {
            Some(at) => differs(table, &entry, at, phv),
            None => outranked(&entry),
        };
        let entry = handle.0;
        Some(TraceEvent::Candidate { entry, reason })
    };
    shown.filter_map(event).collect()
}

fn differs(table: &Table, entry: &TableEntry, at: usize, phv: &[u64]) -> Lost {
    let key = &table.keys[at];
    let start = usize::from(key.slot);
    Lost::Differs {
        field: key.name.clone(),
        entry_value: text(&entry.key[at]),
        packet_value: number(&phv[start..start + words_of(key.bits)]),
    }
}

/// Returns why an entry that matches has lost against another one.
fn outranked(entry: &TableEntry) -> Lost {
    let is_ordered =
        |key: &KeyMatch| matches!(key, KeyMatch::Ternary { .. } | KeyMatch::Range { .. });
    let mut lengths = entry.key.iter().filter_map(|key| match key {
        KeyMatch::Lpm { prefix_len, .. } => Some(*prefix_len),
        _ => None,
    });
    match (entry.key.iter().any(is_ordered), lengths.next()) {
        (false, Some(bits)) => Lost::Prefix { bits },
        _ => Lost::Priority,
    }
}

fn text(wanted: &KeyMatch) -> String {
    let hex = number_of_bytes;
    match wanted {
        KeyMatch::Exact { value } => hex(value),
        KeyMatch::Lpm { value, prefix_len } => format!("{}/{prefix_len}", hex(value)),
        KeyMatch::Ternary { value, mask } => format!("{} &&& {}", hex(value), hex(mask)),
        KeyMatch::Range { low, high } => format!("{}..{}", hex(low), hex(high)),
        KeyMatch::Valid { value } => value.to_string(),
    }
}
