//! Pass: entries.
//!
//! Input: the table entries as written, [`TableEntries`]: keysets of any form, and optional priorities. Output: the entries of
//! [`crate::ir::Table`]. Invariants: each value has the match kind of its key element. Each entry has a priority for the switch and one for
//! P4Runtime. Keys are unique in tables whose entries have no priorities. Entries that the control plane may change are in the order of
//! priority, the highest first.
//!
//! The target compares unsigned numbers: a range from a negative to a non-negative number becomes two entries.

use std::collections::{btree_map, BTreeMap};

use num_bigint::BigInt;

use super::inlined::{InlinedProgram, KeysetElement, TableEntries, WrittenEntry};
use crate::diag::{Code, Diagnostic, Diagnostics, Span, Warning};
use crate::ir::{mask, Entry, EntryKey, Key, MatchKind};

/// Maximum number of target entries per entry of the program. It allows eight ranges that extend from negative to positive numbers, each of
/// which is split in two.
const MAX_ALTERNATIVES: usize = 1 << 8;

/// Converts the entries of all tables to entries of the target.
pub fn lower(program: &mut InlinedProgram, diagnostics: &mut Diagnostics) {
    for written in std::mem::take(&mut program.entries) {
        let table = &mut program.objects.tables[written.table.index()];
        let ranked_entries = is_ranked(&written);
        let mut priorities = priorities(&written, diagnostics);
        if table.keys.iter().all(needs_no_priority) {
            // The switch ignores these priorities; as in p4c, they are the positions of the entries.
            for (priority, place) in priorities.iter_mut().zip(1..) {
                priority.switch = place;
            }
        }
        let mut entries = Vec::with_capacity(written.list.len());
        let mut places = Vec::with_capacity(written.list.len());
        let mut added = 0;
        for (entry, priority) in written.list.into_iter().zip(priorities) {
            let Some(mut alternatives) = keys(&entry, &table.keys, diagnostics) else {
                continue;
            };
            alternatives.retain(|keys| !keys.iter().zip(&table.keys).any(never_matches));
            if alternatives.is_empty() {
                let message =
                    "this entry never matches: its value has bits outside the mask of the key";
                diagnostics.report(Diagnostic::warning(
                    Warning::Mismatch,
                    entry.keyset_span,
                    message,
                ));
            }
            if alternatives.len() > 1 {
                added += alternatives.len() as u64 - 1;
            }
            for keys in alternatives {
                places.push(entry.keyset_span);
                entries.push(Entry {
                    keys,
                    action: entry.action,
                    args: entry.args.clone(),
                    priority: priority.switch,
                    control_priority: priority.control,
                    constant: written.constant || entry.constant,
                    source: entry.source.clone(),
                });
            }
        }
        // Splitting must not make the table overflow: a size that sufficed for the written entries is increased.
        table.size += added.min((entries.len() as u64).saturating_sub(table.size));
        report_equal_keys(&entries, &places, &table.keys, diagnostics);
        if !written.constant {
            // As p4c, sort by priority, the highest first.
            entries.sort_by_key(|entry| entry.priority);
        }
        table.entries = entries;
        table.const_entries = written.constant;
        table.ranked_entries = ranked_entries;
    }
}

/// Converts the keyset of an entry to the keys of the target's entries: several if ranges are split. `None` after a
/// reported error.
fn keys(
    entry: &WrittenEntry,
    keys: &[Key],
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Vec<EntryKey>>> {
    if entry.elements.len() != keys.len() {
        let message = format!(
            "the entry has {} values for a key of {}",
            entry.elements.len(),
            keys.len()
        );
        diagnostics.error(Code::TABLE_RULE, entry.keyset_span, message);
        return None;
    }
    let mut all = vec![Vec::with_capacity(keys.len())];
    for ((element, span), key) in entry.elements.iter().zip(keys) {
        let mut made = Vec::new();
        for element in split_at_zero(element, key) {
            match entry_key(&element, key) {
                Ok(key) => made.push(key),
                Err(what) => {
                    let kind = kind_name(&key.kind);
                    let message = format!("a key of match kind `{kind}` cannot match {what}");
                    diagnostics.error(Code::TABLE_RULE, *span, message);
                    return None;
                }
            }
        }
        if all.len() * made.len() > MAX_ALTERNATIVES {
            let message = format!(
                "the signed ranges of this entry need more than {MAX_ALTERNATIVES} entries of the target"
            );
            diagnostics.report(
                Diagnostic::error(Code::LIMIT, entry.keyset_span, message)
                    .help("use fewer ranges that extend from negative to positive numbers"),
            );
            return None;
        }
        all = (all.iter())
            .flat_map(|keys: &Vec<EntryKey>| {
                let with = |key: &EntryKey| keys.iter().chain([key]).cloned().collect();
                made.iter().map(with)
            })
            .collect();
    }
    Some(all)
}

/// Splits a range of signed numbers that contains both signs at zero, as the target compares unsigned numbers. Other elements are unchanged.
fn split_at_zero(element: &KeysetElement, key: &Key) -> Vec<KeysetElement> {
    let KeysetElement::Range(low, high) = element else {
        return vec![element.clone()];
    };
    let crosses = key.signed && *low < BigInt::ZERO && *high >= BigInt::ZERO;
    if !crosses || key.kind != MatchKind::Range {
        return vec![element.clone()];
    }
    if high - low == mask(key.width) {
        return vec![KeysetElement::Any];
    }
    vec![
        KeysetElement::Range(low.clone(), BigInt::from(-1)),
        KeysetElement::Range(BigInt::ZERO, high.clone()),
    ]
}

/// Converts an element to the match kind of its key.
///
/// # Errors
/// The match kind does not support the element; the error describes the element for a message.
fn entry_key(element: &KeysetElement, key: &Key) -> Result<EntryKey, &'static str> {
    let ones = mask(key.width);
    Ok(match (element, &key.kind) {
        (KeysetElement::Any, MatchKind::Exact) => return Err("any value"),
        (KeysetElement::Any, MatchKind::Lpm) => EntryKey::Lpm(BigInt::ZERO, 0),
        (KeysetElement::Any, MatchKind::Ternary | MatchKind::Optional) => {
            EntryKey::Ternary(BigInt::ZERO, BigInt::ZERO)
        }
        (KeysetElement::Any, MatchKind::Range) => EntryKey::Range(BigInt::ZERO, ones),
        (KeysetElement::Mask(value, bits), kind) => {
            let (value, bits) = (value & &ones, bits & &ones);
            let full = bits == ones;
            match kind {
                MatchKind::Ternary => EntryKey::Ternary(value & &bits, bits),
                MatchKind::Lpm => match prefix_length(&bits, key.width) {
                    Some(length) => EntryKey::Lpm(value & &bits, length),
                    None => return Err("a non-contiguous mask"),
                },
                MatchKind::Exact if full => EntryKey::Exact(value),
                MatchKind::Optional if full || bits == BigInt::ZERO => {
                    EntryKey::Ternary(value & &bits, bits)
                }
                MatchKind::Range if full => EntryKey::Range(value.clone(), value),
                MatchKind::Exact | MatchKind::Optional | MatchKind::Range => {
                    return Err("a value under a mask")
                }
            }
        }
        (KeysetElement::Range(low, high), MatchKind::Range) => {
            EntryKey::Range(low & &ones, high & &ones)
        }
        (KeysetElement::Range(..), _) => return Err("a range"),
        (KeysetElement::Value(value), kind) => {
            let value = value & &ones;
            match kind {
                MatchKind::Exact => EntryKey::Exact(value),
                MatchKind::Lpm => EntryKey::Lpm(value, key.width),
                MatchKind::Ternary | MatchKind::Optional => EntryKey::Ternary(value, ones),
                MatchKind::Range => EntryKey::Range(value.clone(), value),
            }
        }
    })
}

/// Whether a value has bits outside the mask of its key. The switch applies the mask to entries, too, and so would match such an entry.
fn never_matches((value, key): (&EntryKey, &Key)) -> bool {
    match (value, &key.mask) {
        (
            EntryKey::Exact(value) | EntryKey::Lpm(value, _) | EntryKey::Ternary(value, _),
            Some(mask),
        ) => value & mask != *value,
        (EntryKey::Range(..), _) | (_, None) => false,
    }
}

/// The prefix length of a mask; `None` if its ones are not contiguous leading ones.
fn prefix_length(bits: &BigInt, width: u32) -> Option<u32> {
    let set = (0..width).filter(|bit| bits.bit(u64::from(*bit))).count() as u32;
    let prefix = mask(set) << (width - set);
    (prefix == *bits).then_some(set)
}

/// Name of the match kind in P4, such as `lpm`.
fn kind_name(kind: &MatchKind) -> &'static str {
    match kind {
        MatchKind::Exact => "exact",
        MatchKind::Lpm => "lpm",
        MatchKind::Ternary => "ternary",
        MatchKind::Range => "range",
        MatchKind::Optional => "optional",
    }
}

/// Whether a key element is `exact` or `lpm`. Entries of a table with only such elements have no priorities.
fn needs_no_priority(key: &Key) -> bool {
    matches!(key.kind, MatchKind::Exact | MatchKind::Lpm)
}

/// Whether the switch's priorities of the entries are their positions, as in p4c: for a constant list with `@priority`,
/// or without priorities.
fn is_ranked(written: &TableEntries) -> bool {
    let list = &written.list;
    let annotated = list.iter().any(|entry| entry.annotated_priority.is_some());
    written.constant && (annotated || list.iter().all(|entry| entry.priority.is_none()))
}

/// The values and prefix lengths of an entry's key, which must be unique in the table. `None` for a table with priorities.
pub fn unique_key(entry: &Entry, keys: &[Key]) -> Option<Vec<(BigInt, u32)>> {
    if !keys.iter().all(needs_no_priority) {
        return None;
    }
    let values = entry.keys.iter().zip(keys).map(|(value, key)| match value {
        EntryKey::Lpm(value, length) => (value.clone(), *length),
        EntryKey::Exact(value) | EntryKey::Ternary(value, _) | EntryKey::Range(value, _) => {
            (value.clone(), key.width)
        }
    });
    Some(values.collect())
}

/// Reports entries with equal keys in a table without priorities, which the switch would reject.
fn report_equal_keys(
    entries: &[Entry],
    places: &[Span],
    keys: &[Key],
    diagnostics: &mut Diagnostics,
) {
    let mut known: BTreeMap<Vec<(BigInt, u32)>, Span> = BTreeMap::new();
    for (entry, here) in entries.iter().zip(places) {
        let Some(key) = unique_key(entry, keys) else {
            return;
        };
        match known.entry(key) {
            btree_map::Entry::Vacant(free) => {
                free.insert(*here);
            }
            btree_map::Entry::Occupied(first) => {
                let what = "an earlier entry has the same key";
                diagnostics.report(
                    Diagnostic::error(Code::TABLE_RULE, *here, what)
                        .label("this entry would never be matched")
                        .other(*first.get(), "the first one"),
                );
            }
        }
    }
}

/// The priority of an entry.
struct Priority {
    /// Priority for the switch, where the smallest wins.
    switch: u32,
    /// Priority in P4Runtime, where the largest wins.
    control: i32,
}

/// Adds to each priority for the switch a P4Runtime priority with the same order of precedence.
fn with_control_priorities(priorities: impl Iterator<Item = u32> + Clone) -> Vec<Priority> {
    let last = priorities.clone().max().unwrap_or(0);
    priorities
        .map(|switch| Priority {
            switch,
            control: i32::try_from(last - switch).unwrap_or(i32::MAX - 1) + 1,
        })
        .collect()
}

/// The priorities of all entries of a table (P4_16 spec § 14.2.1.4).
fn priorities(written: &TableEntries, diagnostics: &mut Diagnostics) -> Vec<Priority> {
    let list = &written.list;
    if list.iter().any(|entry| entry.annotated_priority.is_some()) {
        let given = list.iter().zip(1..);
        let mut priorities = with_control_priorities(
            given.map(|(entry, position)| entry.annotated_priority.unwrap_or(position)),
        );
        // As in p4c, `@priority` applies to the switch only: the P4Runtime priorities follow the order of the entries.
        for (priority, rank) in priorities.iter_mut().rev().zip(1..) {
            priority.control = rank;
        }
        return priorities;
    }
    if is_ranked(written) {
        return with_control_priorities((1..).take(list.len()));
    }
    let none_written = list.iter().all(|entry| entry.priority.is_none());
    let mut values: Vec<BigInt> = Vec::with_capacity(list.len());
    for entry in list {
        let value = match (&entry.priority, values.last()) {
            (Some(value), _) => value.clone(),
            // Without written priorities, the last entry has priority 1, or the first one if the smallest wins.
            (None, None) if none_written && written.largest_wins => {
                &written.priority_delta * (list.len() - 1) + 1
            }
            // The checker requires a priority for the first entry.
            (None, None) => BigInt::from(1),
            (None, Some(last)) if written.largest_wins => last - &written.priority_delta,
            (None, Some(last)) => last + &written.priority_delta,
        };
        if value < BigInt::ZERO && !diagnostics.has_errors() {
            diagnostics.report(
                Diagnostic::error(
                    Code::TABLE_RULE,
                    entry.span,
                    format!("the priority of this entry would be {value}"),
                )
                .help("begin with a larger one, or set a smaller `priority_delta`"),
            );
        }
        values.push(value);
    }
    warn_of_priorities(written, &values, diagnostics);
    let mut order: Vec<&BigInt> = values.iter().collect();
    order.sort();
    order.dedup();
    let rank = |value: &BigInt| order.partition_point(|known| *known < value) as u32;
    let last = order.len() as u32;
    let mut priorities =
        with_control_priorities(values.iter().map(|value| match written.largest_wins {
            true => last - rank(value),
            false => rank(value) + 1,
        }));
    // Written numbers are kept, also in tables where the smallest wins, as by p4c.
    let as_written: Option<Vec<i32>> = values
        .iter()
        .map(|value| i32::try_from(value).ok().filter(|value| *value > 0))
        .collect();
    for (priority, control) in priorities.iter_mut().zip(as_written.into_iter().flatten()) {
        priority.control = control;
    }
    let for_switch: Option<Vec<u32>> = values
        .iter()
        .map(|value| switch_priority(value, written.largest_wins))
        .collect();
    let for_switch = for_switch.unwrap_or_else(|| {
        // A number is out of the range for run-time entries, so only the order of the numbers is kept.
        let last = priorities.iter().map(|priority| priority.switch).max();
        let first = PRIORITY_SUM - last.unwrap_or(0) - 1;
        let ranks = priorities.iter().map(|priority| first + priority.switch);
        ranks.collect()
    });
    for (priority, switch) in priorities.iter_mut().zip(for_switch) {
        priority.switch = switch;
    }
    priorities
}

/// 2^31 - 1, the sum of the P4Runtime priority and the switch priority of an entry, as in the reference switch's P4Runtime server.
const PRIORITY_SUM: u32 = i32::MAX as u32;

/// Converts a priority of the program to one for the switch, where the smallest wins. If the largest wins in the program, it is subtracted
/// from [`PRIORITY_SUM`]. `None` if it is out of the range for run-time entries.
fn switch_priority(value: &BigInt, largest_wins: bool) -> Option<u32> {
    let value = u32::try_from(value).ok()?;
    match largest_wins {
        true => (1..=PRIORITY_SUM)
            .contains(&value)
            .then(|| PRIORITY_SUM - value),
        false => (value < PRIORITY_SUM).then_some(value),
    }
}

/// Warns about entries of equal priority, and about the first entry with a higher priority than the one before it.
fn warn_of_priorities(written: &TableEntries, values: &[BigInt], diagnostics: &mut Diagnostics) {
    let mut seen: BTreeMap<&BigInt, Span> = BTreeMap::new();
    let mut disordered = written.silenced.contains(&Warning::EntriesOutOfOrder);
    let same = written.silenced.contains(&Warning::DuplicatePriorities);
    for (position, (entry, value)) in written.list.iter().zip(values).enumerate() {
        if let Some(first) = seen.insert(value, entry.span).filter(|_| !same) {
            let message = format!("another entry has the same priority, {value}");
            diagnostics.report(
                Diagnostic::warning(Warning::DuplicatePriorities, entry.span, message)
                    .other(first, "this one")
                    .note("if both match, the target may choose either"),
            );
        }
        let before = position
            .checked_sub(1)
            .map(|before| (&values[before], &written.list[before]));
        let Some((last, weaker)) = before.filter(|_| !disordered) else {
            continue;
        };
        let wins = match written.largest_wins {
            true => value > last,
            false => value < last,
        };
        if wins {
            disordered = true;
            let message = format!("this entry takes precedence over the one before it: priority {value} against {last}");
            diagnostics.report(
                Diagnostic::warning(Warning::EntriesOutOfOrder, entry.span, message)
                    .other(weaker.span, "the one before"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn masked(bits: u32) -> KeysetElement {
        KeysetElement::Mask(BigInt::from(0xab), BigInt::from(bits))
    }

    #[test]
    fn contiguous_mask_becomes_a_prefix() {
        let lpm = |bits| entry_key(&masked(bits), &Key::of(MatchKind::Lpm));
        assert_eq!(lpm(0xf0), Ok(EntryKey::Lpm(BigInt::from(0xa0), 4)));
        assert_eq!(lpm(0xff), Ok(EntryKey::Lpm(BigInt::from(0xab), 8)));
        assert_eq!(lpm(0), Ok(EntryKey::Lpm(BigInt::ZERO, 0)));
        assert_eq!(lpm(0xf1), Err("a non-contiguous mask"));
    }

    #[test]
    fn exact_key_accepts_only_single_values() {
        let exact = |element: &KeysetElement| entry_key(element, &Key::of(MatchKind::Exact));
        assert_eq!(
            exact(&masked(0xff)),
            Ok(EntryKey::Exact(BigInt::from(0xab)))
        );
        assert_eq!(exact(&masked(0xfe)), Err("a value under a mask"));
        assert_eq!(exact(&KeysetElement::Any), Err("any value"));
        let range = KeysetElement::Range(BigInt::from(1), BigInt::from(2));
        assert_eq!(exact(&range), Err("a range"));
        // Negative and wide numbers are truncated to the key's width.
        let value = KeysetElement::Value(BigInt::from(-1));
        assert_eq!(exact(&value), Ok(EntryKey::Exact(BigInt::from(0xff))));
    }

    #[test]
    fn signed_range_across_zero_is_split_into_two_entries() {
        let key = Key {
            signed: true,
            ..Key::of(MatchKind::Range)
        };
        let made = |low: i32, high: i32| {
            let range = KeysetElement::Range(BigInt::from(low), BigInt::from(high));
            let parts = split_at_zero(&range, &key);
            let parts = parts.iter().map(|part| entry_key(part, &key));
            parts.collect::<Result<Vec<_>, _>>()
        };
        let bits = |low: u32, high: u32| EntryKey::Range(BigInt::from(low), BigInt::from(high));
        assert_eq!(made(-5, 1), Ok(vec![bits(0xfb, 0xff), bits(0, 1)]));
        assert_eq!(made(-1, 0), Ok(vec![bits(0xff, 0xff), bits(0, 0)]));
        assert_eq!(made(-5, -1), Ok(vec![bits(0xfb, 0xff)]));
        assert_eq!(made(0, 127), Ok(vec![bits(0, 127)]));
        assert_eq!(made(-128, 127), Ok(vec![bits(0, 0xff)]));
        assert_eq!(made(-128, 126), Ok(vec![bits(0x80, 0xff), bits(0, 126)]));
    }

    fn written(priorities: &[Option<u32>], largest_wins: bool, delta: u32) -> TableEntries {
        let entry = |priority: &Option<u32>| WrittenEntry {
            elements: Vec::new(),
            action: crate::ir::ActionId(0),
            args: Vec::new(),
            priority: priority.map(BigInt::from),
            annotated_priority: None,
            constant: false,
            source: crate::ir::Source::default(),
            span: Span::default(),
            keyset_span: Span::default(),
        };
        TableEntries {
            table: crate::ir::TableId(0),
            list: priorities.iter().map(entry).collect(),
            constant: false,
            largest_wins,
            priority_delta: BigInt::from(delta),
            silenced: Vec::new(),
        }
    }

    /// Compares the priorities of `written` for the switch and for P4Runtime.
    #[track_caller]
    fn check(written: &TableEntries, switch: &[u32], control: &[i32]) {
        let made = priorities(written, &mut Diagnostics::new());
        let (a, b): (Vec<u32>, Vec<i32>) = made.iter().map(|one| (one.switch, one.control)).unzip();
        assert_eq!((&a[..], &b[..]), (switch, control));
    }

    #[test]
    fn entries_without_priorities_are_ranked_by_position() {
        let mut none = written(&[None, None, None], true, 1);
        check(&none, &from_largest([3, 2, 1]), &[3, 2, 1]);
        none.constant = true;
        check(&none, &[1, 2, 3], &[3, 2, 1]);
        let apart = written(&[None, None, None], true, 10);
        check(&apart, &from_largest([21, 11, 1]), &[21, 11, 1]);
        let smallest = written(&[None, None, None], false, 10);
        check(&smallest, &[1, 11, 21], &[1, 11, 21]);
    }

    fn from_largest(priorities: [u32; 3]) -> [u32; 3] {
        priorities.map(|priority| PRIORITY_SUM - priority)
    }

    #[test]
    fn control_plane_priorities_equal_those_in_the_program() {
        let given = [Some(30), None, Some(10)];
        let switch = from_largest([30, 25, 10]);
        check(&written(&given, true, 5), &switch, &[30, 25, 10]);
        let mut constant = written(&given, true, 5);
        constant.constant = true;
        check(&constant, &switch, &[30, 25, 10]);
        let given = [Some(1), None, Some(9)];
        check(&written(&given, false, 5), &[1, 6, 9], &[1, 6, 9]);
    }

    #[test]
    fn out_of_range_priorities_keep_their_order() {
        let given = [Some(u32::MAX), Some(7), Some(0)];
        check(
            &written(&given, true, 1),
            &from_largest([3, 2, 1]),
            &[3, 2, 1],
        );
    }
}
