//! Why entries of a table did not win.

use super::{Lost, TraceEvent};
use crate::exec::words::words_of;
use crate::numbers::{is_le, number, number_of_bytes, ones, prefix, to_words, Words};
use crate::program::{Key, Table};
use crate::tables::{KeyMatch, TableEntry};

/// Maximum number of entries that are shown for one application of a table.
const MAX_SHOWN: usize = 3;

/// Explains why entries did not win: after a hit, those that match too; after a miss, those that differ in the fewest
/// key fields. `winner` is the handle of the matching entry.
pub(crate) fn candidates(
    table: &Table,
    entries: impl Iterator<Item = TableEntry>,
    winner: Option<u32>,
    phv: &[u64],
) -> Vec<TraceEvent> {
    let mut found: Vec<(usize, TraceEvent)> = Vec::new();
    for entry in entries.filter(|entry| Some(entry.handle.0) != winner) {
        let fields = table.keys.iter().zip(&entry.key);
        let mut differing = fields.filter(|(key, wanted)| !matches(key, wanted, phv));
        let first = differing.next();
        let count = differing.count() + usize::from(first.is_some());
        let reason = match (first, winner) {
            (Some((key, wanted)), None) => Lost::Differs {
                field: key.name.clone(),
                entry_value: text(wanted),
                packet_value: number(value(key, phv)),
            },
            (None, Some(_)) => outranked(&entry),
            _ => continue,
        };
        let entry = entry.handle.0;
        found.push((count, TraceEvent::Candidate { entry, reason }));
    }
    found.sort_by_key(|(count, _)| *count);
    let events = found.into_iter().map(|(_, event)| event);
    events.take(MAX_SHOWN).collect()
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

fn value<'a>(key: &Key, phv: &'a [u64]) -> &'a [u64] {
    let start = usize::from(key.slot);
    &phv[start..start + words_of(key.bits)]
}

fn matches(key: &Key, wanted: &KeyMatch, phv: &[u64]) -> bool {
    let has = value(key, phv);
    let words = |bytes: &[u8]| to_words(bytes, key.bits).unwrap_or_default();
    let equal_under = |mask: &Words, wanted: &Words| {
        let bits = has.iter().zip(mask).map(|(word, mask)| word & mask);
        let wanted = wanted.iter().zip(mask).map(|(word, mask)| word & mask);
        bits.eq(wanted)
    };
    match wanted {
        KeyMatch::Exact { value } => equal_under(&ones(key.bits), &words(value)),
        KeyMatch::Lpm { value, prefix_len } => {
            equal_under(&prefix(key.bits, *prefix_len), &words(value))
        }
        KeyMatch::Ternary { value, mask } => equal_under(&words(mask), &words(value)),
        KeyMatch::Range { low, high } => is_le(&words(low), has) && is_le(has, &words(high)),
        KeyMatch::Valid { value } => (has[0] != 0) == *value,
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
