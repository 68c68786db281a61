//! Entries that a program gives twice.

use std::collections::{btree_map, BTreeMap};

use num_bigint::BigInt;

use super::Elaborator;
use crate::diag::{Code, Diagnostic};
use crate::ir::{Entry, EntryKey, Key, MatchKind};
use crate::syntax::ast::Entry as AstEntry;

impl Elaborator<'_> {
    /// Refuses a second entry of one key where no priority tells them apart: the target would not load it.
    pub fn equal_entries(&mut self, made: &[Entry], keys: &[Key], entries: &[AstEntry]) {
        let is_plain = |key: &Key| matches!(key.kind, MatchKind::Exact | MatchKind::Lpm);
        if !keys.iter().all(is_plain) || made.len() != entries.len() {
            return;
        }
        let mut known: BTreeMap<Vec<(BigInt, u32)>, usize> = BTreeMap::new();
        for (position, entry) in made.iter().enumerate() {
            let values = entry.keys.iter().zip(keys).map(|(value, key)| match value {
                EntryKey::Lpm(value, length) => (value.clone(), *length),
                EntryKey::Exact(value)
                | EntryKey::Ternary(value, _)
                | EntryKey::Range(value, _) => (value.clone(), key.width),
            });
            match known.entry(values.collect()) {
                btree_map::Entry::Vacant(free) => {
                    free.insert(position);
                }
                btree_map::Entry::Occupied(first) => {
                    let what = "an entry before this one has the same key";
                    let here = entries[position].keyset.span;
                    let there = entries[*first.get()].keyset.span;
                    self.diagnostics.report(
                        Diagnostic::error(Code::TABLE_RULE, here, what)
                            .label("it would never be matched")
                            .other(there, "the first one"),
                    );
                }
            }
        }
    }
}
