//! Lookup structures of tables.
//!
//! Exact keys use a hash table. Lpm keys of up to 64 bits use [`super::lpm`], wider ones a hash table per prefix length.
//! Ternary and range keys use tuple space search. A range is looked up by the common prefix of its values; only ranges that cross the same power of
//! two are compared one by one, as in an interval tree.

use super::entry::NewKey;
use super::key::{Packing, WideKey};
use crate::numbers::{is_le, ones, Words};
use alfirk_bmv2_json::MatchType;
use rustc_hash::FxHashMap;
use smallvec::{smallvec, SmallVec};
use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};

/// A packet's or entry's key, packed into one or several words.
pub(crate) trait PackedKey: Clone + Eq + Hash + Borrow<Self::Words> {
    /// The words of a key, from which lookups take those that they compare.
    type Words: ?Sized + Eq + Hash;
    /// Which bits of a key are compared.
    type Mask: Clone + Debug + Eq;
    /// The bits of a key that are compared.
    type Masked: Clone + Debug + Eq + Hash;
    fn from_wide(key: WideKey) -> Self;
    fn mask(mask: WideKey) -> Self::Mask;
    fn masked(words: &Self::Words, mask: &Self::Mask) -> Self::Masked;
    /// Returns the words of one field of the key, for range checks.
    fn field(words: &Self::Words, packing: &Packing, part: usize) -> Words;
}

impl PackedKey for u64 {
    type Words = u64;
    type Mask = u64;
    type Masked = u64;

    fn from_wide(key: WideKey) -> u64 {
        key.first().copied().unwrap_or(0)
    }

    fn mask(mask: WideKey) -> u64 {
        u64::from_wide(mask)
    }

    #[inline]
    fn masked(words: &u64, mask: &u64) -> u64 {
        words & mask
    }

    fn field(words: &u64, packing: &Packing, part: usize) -> Words {
        let part = &packing.parts[part];
        smallvec![words >> (part.offset & 63) & ones(part.bits)[0]]
    }
}

impl PackedKey for [u64; 2] {
    type Words = [u64; 2];
    type Mask = [u64; 2];
    type Masked = [u64; 2];

    fn from_wide(key: WideKey) -> [u64; 2] {
        let word = |at: usize| key.get(at).copied().unwrap_or(0);
        [word(0), word(1)]
    }

    fn mask(mask: WideKey) -> [u64; 2] {
        <[u64; 2]>::from_wide(mask)
    }

    #[inline]
    fn masked(words: &[u64; 2], mask: &[u64; 2]) -> [u64; 2] {
        [words[0] & mask[0], words[1] & mask[1]]
    }

    fn field(words: &[u64; 2], packing: &Packing, part: usize) -> Words {
        <WideKey as PackedKey>::field(words, packing, part)
    }
}

/// The words of a wide key of which any bit is compared, masked: usually few, so that they are stored inline.
#[derive(Clone, Debug, Eq)]
pub(crate) struct ComparedWords(SmallVec<[u64; 4]>);

impl PartialEq for ComparedWords {
    /// Compares keys with the same mask. Calls of `memcmp` take longer than few words.
    #[inline]
    fn eq(&self, other: &ComparedWords) -> bool {
        let mut pairs = self.0.iter().zip(&other.0);
        self.0.len() == other.0.len() && pairs.all(|(a, b)| a == b)
    }
}

impl Hash for ComparedWords {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.iter().for_each(|word| state.write_u64(*word));
    }
}

impl PackedKey for WideKey {
    type Words = [u64];
    /// The words that are compared: position and mask of each.
    type Mask = SmallVec<[(u32, u64); 4]>;
    type Masked = ComparedWords;

    fn from_wide(key: WideKey) -> WideKey {
        key
    }

    fn mask(mask: WideKey) -> Self::Mask {
        let words = mask.iter().enumerate().filter(|(_, mask)| **mask != 0);
        words.map(|(at, mask)| (at as u32, *mask)).collect()
    }

    #[inline]
    fn masked(words: &[u64], mask: &Self::Mask) -> ComparedWords {
        let compared = mask.iter().map(|(at, mask)| words[*at as usize] & mask);
        ComparedWords(compared.collect())
    }

    fn field(words: &[u64], packing: &Packing, part: usize) -> Words {
        let part = &packing.parts[part];
        let start = part.offset as usize;
        SmallVec::from_slice(&words[start..start + part.words])
    }
}

/// A table entry, in the form in which it is added to and removed from an [`Index`].
pub(crate) struct IndexedEntry<'a> {
    pub keys: &'a [NewKey],
    pub priority: i32,
    /// Number of earlier insertions into the table: of equal priorities the older entry wins.
    pub age: u64,
    pub handle: u32,
}

#[derive(Clone, Debug)]
pub(crate) enum Index<K: PackedKey> {
    Exact(FxHashMap<K, u32>),
    /// One hash table per prefix length, longest prefix first.
    Lpm(Vec<Prefixes<K>>),
    /// Tuples of tuple space search, best priority first.
    Tuples(Vec<Tuple<K>>),
}

#[derive(Clone, Debug)]
pub(crate) struct Prefixes<K: PackedKey> {
    len: u32,
    mask: K::Mask,
    entries: FxHashMap<K::Masked, u32>,
}

/// A tuple of tuple space search: the entries with the same mask.
#[derive(Clone, Debug)]
pub(crate) struct Tuple<K: PackedKey> {
    mask: K::Mask,
    /// Smallest priority of the entries, which is the best one. A lookup skips the tuple after a match with a smaller
    /// priority.
    best: i32,
    /// Number of the tuple's entries for each priority.
    priorities: BTreeMap<i32, u32>,
    /// Entries by masked key, best first. Several entries have the same key only if they have ranges, or if an entry of
    /// the program shadows another one.
    entries: FxHashMap<K::Masked, SmallVec<[Candidate; 1]>>,
}

#[derive(Clone, Debug)]
struct Candidate {
    rank: (i32, u64),
    handle: u32,
    /// Range fields of the entry: the position of each in the key, and its lower and upper bound.
    ranges: Box<[(usize, Words, Words)]>,
}

impl Candidate {
    fn matches<K: PackedKey>(&self, key: &K::Words, packing: &Packing) -> bool {
        self.ranges.iter().all(|(part, low, high)| {
            let value = K::field(key, packing, *part);
            is_le(low, &value) && is_le(&value, high)
        })
    }
}

impl<K: PackedKey> Index<K> {
    pub(crate) fn new(match_type: MatchType) -> Index<K> {
        match match_type {
            MatchType::Exact | MatchType::Valid => Index::Exact(FxHashMap::default()),
            MatchType::Lpm => Index::Lpm(Vec::new()),
            MatchType::Ternary | MatchType::Range | MatchType::Optional => {
                Index::Tuples(Vec::new())
            }
        }
    }

    #[inline]
    pub(crate) fn find(&self, key: &K::Words, packing: &Packing) -> Option<u32> {
        match self {
            Index::Exact(entries) => entries.get(key).copied(),
            Index::Lpm(lengths) => lengths.iter().find_map(|prefixes| {
                let key = K::masked(key, &prefixes.mask);
                prefixes.entries.get(&key).copied()
            }),
            Index::Tuples(tuples) => {
                let mut best: Option<&Candidate> = None;
                for tuple in tuples {
                    if best.is_some_and(|b| b.rank.0 < tuple.best) {
                        break;
                    }
                    let masked = K::masked(key, &tuple.mask);
                    let Some(entries) = tuple.entries.get(&masked) else {
                        continue;
                    };
                    let found = entries.iter().find(|e| e.matches::<K>(key, packing));
                    if let Some(found) = found.filter(|f| best.is_none_or(|b| f.rank < b.rank)) {
                        best = Some(found);
                    }
                }
                best.map(|b| b.handle)
            }
        }
    }

    pub(crate) fn insert(&mut self, entry: &IndexedEntry, packing: &Packing) {
        let key = K::from_wide(packing.pack(entry.keys.iter().map(|k| &k.value)));
        let mask = K::mask(packing.pack(entry.keys.iter().map(|k| &k.mask)));
        match self {
            Index::Exact(entries) => {
                entries.insert(key, entry.handle);
            }
            Index::Lpm(lengths) => {
                let len = prefix_len(entry.keys);
                let at = lengths.partition_point(|p| p.len > len);
                if lengths.get(at).is_none_or(|p| p.len != len) {
                    lengths.insert(
                        at,
                        Prefixes {
                            len,
                            mask,
                            entries: FxHashMap::default(),
                        },
                    );
                }
                let key = K::masked(key.borrow(), &lengths[at].mask);
                lengths[at].entries.insert(key, entry.handle);
            }
            Index::Tuples(tuples) => {
                let rank = (entry.priority, entry.age);
                let ranges = entry
                    .keys
                    .iter()
                    .enumerate()
                    .filter_map(|(i, k)| {
                        k.range
                            .as_deref()
                            .cloned()
                            .map(|(low, high)| (i, low, high))
                    })
                    .collect();
                let candidate = Candidate {
                    rank,
                    handle: entry.handle,
                    ranges,
                };
                let at = tuples
                    .iter()
                    .position(|t| t.mask == mask)
                    .unwrap_or_else(|| {
                        tuples.push(Tuple {
                            mask,
                            best: entry.priority,
                            priorities: BTreeMap::new(),
                            entries: FxHashMap::default(),
                        });
                        tuples.len() - 1
                    });
                let tuple = &mut tuples[at];
                *tuple.priorities.entry(entry.priority).or_default() += 1;
                let key = K::masked(key.borrow(), &tuple.mask);
                let entries = tuple.entries.entry(key).or_default();
                entries.insert(entries.partition_point(|e| e.rank < rank), candidate);
                restore_order(tuples, at);
            }
        }
    }

    pub(crate) fn remove(&mut self, entry: &IndexedEntry, packing: &Packing) {
        let key = K::from_wide(packing.pack(entry.keys.iter().map(|k| &k.value)));
        match self {
            Index::Exact(entries) => {
                entries.remove::<K::Words>(key.borrow());
            }
            Index::Lpm(lengths) => {
                let len = prefix_len(entry.keys);
                if let Some(at) = lengths.iter().position(|p| p.len == len) {
                    let key = K::masked(key.borrow(), &lengths[at].mask);
                    lengths[at].entries.remove(&key);
                    if lengths[at].entries.is_empty() {
                        lengths.remove(at);
                    }
                }
            }
            Index::Tuples(tuples) => {
                let mask = K::mask(packing.pack(entry.keys.iter().map(|k| &k.mask)));
                let Some(at) = tuples.iter().position(|t| t.mask == mask) else {
                    return;
                };
                let tuple = &mut tuples[at];
                let key = K::masked(key.borrow(), &tuple.mask);
                if let Some(entries) = tuple.entries.get_mut(&key) {
                    entries.retain(|e| e.handle != entry.handle);
                    if entries.is_empty() {
                        tuple.entries.remove(&key);
                    }
                }
                if let Some(count) = tuple.priorities.get_mut(&entry.priority) {
                    *count -= 1;
                    if *count == 0 {
                        tuple.priorities.remove(&entry.priority);
                    }
                }
                if tuple.entries.is_empty() {
                    tuples.remove(at);
                } else {
                    restore_order(tuples, at);
                }
            }
        }
    }

    /// Returns the handle of the entry with the same values and prefix lengths. Always `None` for an index with tuples,
    /// whose entries may also differ in masks and priorities.
    pub(crate) fn same(&self, keys: &[NewKey], packing: &Packing) -> Option<u32> {
        let key = || K::from_wide(packing.pack(keys.iter().map(|k| &k.value)));
        match self {
            Index::Exact(entries) => entries.get::<K::Words>(key().borrow()).copied(),
            Index::Lpm(lengths) => {
                let len = prefix_len(keys);
                let prefixes = lengths.iter().find(|p| p.len == len)?;
                let key = K::masked(key().borrow(), &prefixes.mask);
                prefixes.entries.get(&key).copied()
            }
            Index::Tuples(_) => None,
        }
    }
}

pub(super) fn prefix_len(keys: &[NewKey]) -> u32 {
    // The width of exact fields is the same in every entry.
    keys.iter().map(|k| k.prefix_len).sum()
}

/// Restores the order of the tuples, best priority first, after the priorities of the tuple at `at` have changed.
fn restore_order<K: PackedKey>(tuples: &mut [Tuple<K>], mut at: usize) {
    if let Some((priority, _)) = tuples[at].priorities.first_key_value() {
        tuples[at].best = *priority;
    }
    while at > 0 && tuples[at - 1].best > tuples[at].best {
        tuples.swap(at - 1, at);
        at -= 1;
    }
    while at + 1 < tuples.len() && tuples[at].best > tuples[at + 1].best {
        tuples.swap(at, at + 1);
        at += 1;
    }
}
