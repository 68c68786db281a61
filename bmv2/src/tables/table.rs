//! Entries and lookup of one table.

use super::entry::{ActionRef, NewEntry, NewKey, Target};
use super::index::{prefix_len, Index, IndexedEntry, PackedKey};
use super::key::{Packing, Part, WideKey};
use super::lpm::Lpm;
use crate::exec::words::param_words;
use crate::externs::counter::Counter;
use crate::externs::meter::Meter;
use crate::numbers::{shortest, Words};
use crate::program::{LoadedProgram, Table};
use alfirk_bmv2_json::MatchType;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Identifies an entry until it is removed, with the layout of BMv2's handles.
///
/// The low 24 bits are the entry's slot in the table, the lowest free one. The upper 8 bits count the previous
/// entries of the slot, modulo 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EntryHandle(pub u32);

const SLOT_BITS: u32 = 24;

/// Number of slots, which limits the entries of a table of any size.
pub(crate) const MAX_ENTRIES: u64 = 1 << SLOT_BITS;

impl EntryHandle {
    fn new(slot: u32, version: u8) -> EntryHandle {
        EntryHandle(u32::from(version) << SLOT_BITS | slot)
    }

    /// Returns the entry's slot in its table.
    pub fn slot(self) -> u32 {
        self.0 & ((1 << SLOT_BITS) - 1)
    }

    fn version(self) -> u8 {
        (self.0 >> SLOT_BITS) as u8
    }
}

/// Effect of an entry on a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryTarget {
    /// Run an action.
    Action {
        /// Name of the action.
        name: String,
        /// Arguments in declaration order, as big-endian bytes.
        args: Vec<Vec<u8>>,
    },
    /// Run the action of the member with this id in the table's action profile.
    Member(u32),
    /// Run the action of a member that the selector chooses from the group with this id.
    Group(u32),
}

/// A table entry in the form that the control plane reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableEntry {
    /// Handle of the entry.
    pub handle: EntryHandle,
    /// Values of the key fields, in the table's order.
    pub key: Vec<super::KeyMatch>,
    /// Priority: the smallest number wins, as in BMv2. 0 in tables without priorities.
    pub priority: i32,
    /// Effect of the entry on packets that match.
    pub target: EntryTarget,
    /// Whether the program declares the entry const.
    pub is_const: bool,
    /// Counts of the entry; `None` if the table has no direct counter.
    pub counter: Option<Counter>,
    /// Meter rates of the entry; `None` if the table has no direct meter, or no rates are set.
    pub meter: Option<crate::externs::meter::MeterConfig>,
    /// Idle timeout of the entry in nanoseconds; 0 for none.
    pub idle_timeout: u64,
    /// Time of the last hit, or of the insertion, in nanoseconds since the switch started.
    pub last_hit: u64,
}

/// The part of a table entry that packets read or write in all tables: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct HotEntry {
    target: Target,
    last_hit: u64,
}

/// The part of a table entry that only the control plane accesses.
#[derive(Clone, Debug)]
struct ColdEntry {
    keys: Box<[NewKey]>,
    priority: i32,
    /// Number of entries that were inserted into the table before this one.
    age: u64,
    idle_timeout: u64,
    /// Time in nanoseconds at which the entry was last reported as idle; 0 for never.
    reported: u64,
    is_const: bool,
}

const _: () = assert!(size_of::<HotEntry>() == 64);

/// Lookup structure of a table, by the width of its keys.
#[derive(Clone, Debug)]
enum AnyIndex {
    Word(Index<u64>),
    /// Lpm keys that fit one word.
    Lpm(Lpm),
    Pair(Index<[u64; 2]>),
    Wide(Index<WideKey>),
}

impl AnyIndex {
    fn new(packing: &Packing, match_type: MatchType) -> AnyIndex {
        match (packing.words, match_type) {
            (1, MatchType::Lpm) if packing.one_word => AnyIndex::Lpm(Lpm::new(packing.bits)),
            (1, _) => AnyIndex::Word(Index::new(match_type)),
            (2, _) => AnyIndex::Pair(Index::new(match_type)),
            _ => AnyIndex::Wide(Index::new(match_type)),
        }
    }

    /// The structure for exact keys of which all have the same mask: prefixes of one length, the prefix being the mask.
    fn masked(packing: &Packing) -> AnyIndex {
        match packing.words {
            1 => AnyIndex::Word(Index::new(MatchType::Lpm)),
            2 => AnyIndex::Pair(Index::new(MatchType::Lpm)),
            _ => AnyIndex::Wide(Index::new(MatchType::Lpm)),
        }
    }
}

/// State of a table: its entries and default action.
#[derive(Clone, Debug)]
pub(crate) struct TableState {
    /// The entries; `None` in a table that has had none since it was created or cleared. Most tables of a program only
    /// run their default action.
    entries: Option<Box<Entries>>,
    /// Whether the control plane cannot change the entries.
    pub is_fixed: bool,
    pub default: Option<ActionRef>,
    /// Default member or group of an indirect table; `None` if none is set. Boxed, since most tables have none.
    pub default_target: Option<Box<Target>>,
    /// Bits of each key field that are compared, in a table of exact keys; `None` for all.
    masks: Option<Box<[Words]>>,
    /// Number of bytes that the direct meter adds to the length of a packet.
    meter_adjustment: i32,
}

/// Entries of a table.
#[derive(Clone, Debug)]
struct Entries {
    packing: Packing,
    index: AnyIndex,
    hot: Vec<HotEntry>,
    cold: Vec<Option<ColdEntry>>,
    /// Counts of each slot; empty unless the table has a direct counter.
    counters: Vec<Counter>,
    meters: Vec<Meter>,
    /// Number of previous entries of each slot, modulo 256. It is the upper byte of handles.
    versions: Vec<u8>,
    /// Slots below `hot.len()` that no entry uses.
    free: BinaryHeap<Reverse<u32>>,
    /// Number of entries in the table.
    live: usize,
    /// Slots of entries by [`identity`], in tables with priorities; other tables use `index`.
    handles: FxHashMap<Vec<u64>, u32>,
    /// Number of entries that were ever inserted into the table.
    age: u64,
}

/// The entry that a lookup has found.
pub(crate) struct LookupResult<'a> {
    pub target: &'a Target,
    /// The entry's meter, and the number of bytes that it adds to the length of a packet.
    pub meter: Option<(&'a mut Meter, i32)>,
    /// The entry's slot, which may be reused after the entry is removed.
    pub slot: u32,
}

impl TableState {
    pub(crate) fn new(table: &Table) -> TableState {
        TableState {
            entries: None,
            is_fixed: table.const_entries,
            default: None,
            default_target: None,
            masks: None,
            meter_adjustment: 0,
        }
    }

    /// Sets the bits of each key field that are compared. The table has no entries, and all its keys are exact.
    pub(crate) fn set_masks(&mut self, masks: Vec<Words>) {
        self.entries = None;
        self.masks = Some(masks.into());
    }

    /// Returns the bits of each key field that are compared; `None` for all.
    pub(crate) fn masks(&self) -> Option<&[Words]> {
        self.masks.as_deref()
    }

    /// Removes the bits that are not compared from the keys of an entry.
    pub(crate) fn masked(&self, mut keys: Vec<NewKey>) -> Vec<NewKey> {
        for (key, mask) in keys.iter_mut().zip(self.masks().into_iter().flatten()) {
            let words = key.value.iter_mut().zip(mask);
            words.for_each(|(word, mask)| *word &= mask);
            key.mask.clone_from(mask);
        }
        keys
    }

    /// Sets the number of bytes that the direct meter adds to the length of a packet.
    pub(crate) fn adjust_meter(&mut self, bytes: i32) {
        self.meter_adjustment = bytes;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.as_ref().map_or(0, |entries| entries.live)
    }

    /// Looks up the entry that matches the packet, and counts the hit; `None` on a miss. `bytes`: length of the packet.
    #[inline]
    pub(crate) fn hit(&mut self, phv: &[u64], bytes: usize, now: u64) -> Option<LookupResult<'_>> {
        let entries = self.entries.as_mut()?;
        entries.hit(phv, bytes, now, self.meter_adjustment)
    }

    /// Looks up the entry that matches a key in a table without action profile and whose keys fit one word, as
    /// [`TableState::hit`] does, without regard to direct meters. Returns its action, or the default action. `key`: packed as by
    /// [`Packing::word`].
    #[cfg(feature = "jit")]
    #[inline(always)]
    pub(crate) fn action_of_word(
        &mut self,
        key: u64,
        bytes: usize,
        now: u64,
    ) -> Option<&ActionRef> {
        if let Some(entries) = self.entries.as_mut() {
            let slot = match &entries.index {
                AnyIndex::Lpm(lpm) => lpm.find(key),
                AnyIndex::Word(Index::Exact(slots)) => slots.get(&key).copied(),
                AnyIndex::Word(index) => index.find(&key, &entries.packing),
                AnyIndex::Pair(_) | AnyIndex::Wide(_) => None,
            };
            let target = slot.map(|slot| &entries.count_hit(slot, bytes, now).target);
            if let Some(Target::Action(action)) = target {
                return Some(action);
            }
        }
        self.default.as_ref()
    }

    /// Returns the slot of the entry that matches the packet. The hit is not counted. `None` on a miss.
    #[inline]
    pub(crate) fn peek(&self, phv: &[u64]) -> Option<u32> {
        self.entries.as_ref()?.peek(phv)
    }

    pub(crate) fn find_same(
        &self,
        table: &Table,
        keys: &[NewKey],
        priority: i32,
    ) -> Option<EntryHandle> {
        self.entries.as_ref()?.find_same(table, keys, priority)
    }

    /// Returns the handle of the entry in a slot.
    pub(crate) fn handle(&self, slot: u32) -> EntryHandle {
        let entries = self.entries.as_ref();
        entries.map_or(EntryHandle::new(slot, 0), |entries| entries.handle(slot))
    }

    /// Returns whether the slot of a handle is used by another entry now.
    pub(crate) fn is_stale(&self, handle: EntryHandle) -> bool {
        let entries = self.entries.as_ref();
        entries.is_some_and(|entries| entries.is_stale(handle))
    }

    /// Removes all entries and restarts the handles. Returns the targets of the removed entries.
    pub(crate) fn clear(&mut self) -> Vec<Target> {
        let Some(old) = self.entries.take() else {
            return Vec::new();
        };
        let entries = old.hot.into_iter().zip(old.cold);
        entries
            .filter(|(_, cold)| cold.is_some())
            .map(|(hot, _)| hot.target)
            .collect()
    }

    /// Adds an entry that is not in the table yet.
    pub(crate) fn insert(
        &mut self,
        table: &Table,
        entry: NewEntry,
        is_const: bool,
        now: u64,
    ) -> EntryHandle {
        let new = || Box::new(Entries::new(table, self.masks.is_some()));
        let entries = self.entries.get_or_insert_with(new);
        entries.insert(table, entry, is_const, now)
    }

    /// Returns whether an entry is const; `None` when there is no such entry.
    pub(crate) fn is_const(&self, handle: EntryHandle) -> Option<bool> {
        self.entries.as_ref()?.is_const(handle)
    }

    /// Removes an entry and returns its target; `None` when there is no such entry.
    pub(crate) fn remove(&mut self, table: &Table, handle: EntryHandle) -> Option<Target> {
        self.entries.as_mut()?.remove(table, handle)
    }

    /// Changes an entry's target and returns the old one; `None` when there is no such entry.
    pub(crate) fn modify(&mut self, handle: EntryHandle, target: Target) -> Option<Target> {
        self.entries.as_mut()?.modify(handle, target)
    }

    pub(crate) fn counter_mut(&mut self, handle: EntryHandle) -> Option<&mut Counter> {
        self.entries.as_mut()?.counter_mut(handle)
    }

    pub(crate) fn clear_counters(&mut self) {
        if let Some(entries) = &mut self.entries {
            entries.counters.fill(Counter::default());
        }
    }

    pub(crate) fn meter_mut(&mut self, handle: EntryHandle) -> Option<&mut Meter> {
        self.entries.as_mut()?.meter_mut(handle)
    }

    pub(crate) fn set_idle_timeout(
        &mut self,
        handle: EntryHandle,
        timeout: u64,
        now: u64,
    ) -> Option<()> {
        let entries = self.entries.as_mut()?;
        entries.set_idle_timeout(handle, timeout, now)
    }

    /// Returns the entries that had no hit during their idle timeout, and the earliest time at which there can be more.
    /// An entry is returned again after every further timeout. Times are in nanoseconds.
    pub(crate) fn idle(&mut self, now: u64) -> (Vec<EntryHandle>, Option<u64>) {
        let entries = self.entries.as_mut();
        entries.map_or((Vec::new(), None), |entries| entries.idle(now))
    }

    /// Returns the handles of all entries, oldest first.
    pub(crate) fn handles(&self) -> Vec<EntryHandle> {
        let entries = self.entries.as_ref();
        entries.map_or_else(Vec::new, |entries| entries.handles())
    }

    /// Returns the positions of the key fields in which an entry differs from a packet; `None` if there is no such entry.
    pub(crate) fn differing<'a>(
        &'a self,
        handle: EntryHandle,
        phv: &'a [u64],
    ) -> Option<impl Iterator<Item = usize> + 'a> {
        self.entries.as_ref()?.differing(handle, phv)
    }

    pub(crate) fn entry(
        &self,
        program: &LoadedProgram,
        table: &Table,
        handle: EntryHandle,
    ) -> Option<TableEntry> {
        self.entries.as_ref()?.entry(program, table, handle)
    }
}

impl Entries {
    fn new(table: &Table, is_masked: bool) -> Entries {
        let packing = Packing::new(table);
        Entries {
            index: match is_masked {
                true => AnyIndex::masked(&packing),
                false => AnyIndex::new(&packing, table.match_type),
            },
            packing,
            hot: Vec::new(),
            cold: Vec::new(),
            counters: Vec::new(),
            meters: Vec::new(),
            versions: Vec::new(),
            free: BinaryHeap::new(),
            live: 0,
            handles: FxHashMap::default(),
            age: 0,
        }
    }

    #[inline]
    fn hit(
        &mut self,
        phv: &[u64],
        bytes: usize,
        now: u64,
        meter_adjustment: i32,
    ) -> Option<LookupResult<'_>> {
        let slot = self.peek(phv)?;
        self.count_hit(slot, bytes, now);
        Some(LookupResult {
            target: &self.hot[slot as usize].target,
            slot,
            meter: (self.meters.get_mut(slot as usize)).map(|meter| (meter, meter_adjustment)),
        })
    }

    /// Counts a hit of the entry in a slot.
    #[inline]
    fn count_hit(&mut self, slot: u32, bytes: usize, now: u64) -> &HotEntry {
        if let Some(counter) = self.counters.get_mut(slot as usize) {
            counter.count(bytes);
        }
        let hot = &mut self.hot[slot as usize];
        // Most values are there already, and a line of the cache that is only read need not be written back.
        if hot.last_hit != now {
            hot.last_hit = now;
        }
        hot
    }

    #[inline]
    fn peek(&self, phv: &[u64]) -> Option<u32> {
        match &self.index {
            AnyIndex::Word(index) => index.find(&self.packing.word(phv), &self.packing),
            AnyIndex::Lpm(lpm) => lpm.find(self.packing.word(phv)),
            AnyIndex::Pair(index) => index.find(&self.packing.pair(phv), &self.packing),
            AnyIndex::Wide(index) => {
                // Space for many words without an allocation.
                let mut key = SmallVec::new();
                self.packing.wide(phv, &mut key);
                index.find(&key, &self.packing)
            }
        }
    }

    fn find_same(&self, table: &Table, keys: &[NewKey], priority: i32) -> Option<EntryHandle> {
        let handle = if table.has_priorities() {
            self.handles.get(&identity(table, keys, priority)).copied()
        } else {
            match &self.index {
                AnyIndex::Word(index) => index.same(keys, &self.packing),
                AnyIndex::Lpm(lpm) => {
                    let key = self.packing.pack(keys.iter().map(|k| &k.value));
                    lpm.get(key[0], prefix_len(keys))
                }
                AnyIndex::Pair(index) => index.same(keys, &self.packing),
                AnyIndex::Wide(index) => index.same(keys, &self.packing),
            }
        };
        handle.map(|slot| self.handle(slot))
    }

    fn handle(&self, slot: u32) -> EntryHandle {
        let version = self.versions.get(slot as usize);
        EntryHandle::new(slot, version.copied().unwrap_or(0))
    }

    fn is_stale(&self, handle: EntryHandle) -> bool {
        let now = self.cold.get(handle.slot() as usize);
        now.is_some_and(Option::is_some) && self.cold(handle).is_none()
    }

    fn insert(&mut self, table: &Table, entry: NewEntry, is_const: bool, now: u64) -> EntryHandle {
        let hot = HotEntry {
            target: entry.target,
            last_hit: now,
        };
        let cold = ColdEntry {
            keys: entry.keys.into_boxed_slice(),
            priority: entry.priority,
            age: self.age,
            idle_timeout: entry.idle_timeout,
            reported: 0,
            is_const,
        };
        self.age += 1;
        let identity = table
            .has_priorities()
            .then(|| identity(table, &cold.keys, cold.priority));
        let handle = match self.free.pop() {
            Some(Reverse(handle)) => {
                self.hot[handle as usize] = hot;
                handle
            }
            None => {
                self.hot.push(hot);
                self.cold.push(None);
                self.versions.push(0);
                if table.with_counters {
                    self.counters.push(Counter::default());
                }
                if table.direct_meter.is_some() {
                    self.meters.push(Meter::default());
                }
                (self.hot.len() - 1) as u32
            }
        };
        if let Some(counter) = self.counters.get_mut(handle as usize) {
            *counter = Counter::default();
        }
        if let Some(meter) = self.meters.get_mut(handle as usize) {
            *meter = Meter::default();
        }
        self.change_index(handle, &cold, true);
        self.cold[handle as usize] = Some(cold);
        if let Some(identity) = identity {
            self.handles.insert(identity, handle);
        }
        self.live += 1;
        self.handle(handle)
    }

    fn change_index(&mut self, handle: u32, cold: &ColdEntry, insert: bool) {
        fn change<K: PackedKey>(
            index: &mut Index<K>,
            entry: &IndexedEntry,
            packing: &Packing,
            insert: bool,
        ) {
            if insert {
                index.insert(entry, packing)
            } else {
                index.remove(entry, packing)
            }
        }
        let entry = IndexedEntry {
            keys: &cold.keys,
            priority: cold.priority,
            age: cold.age,
            handle,
        };
        match &mut self.index {
            AnyIndex::Word(index) => change(index, &entry, &self.packing, insert),
            AnyIndex::Lpm(lpm) => {
                let key = self.packing.pack(cold.keys.iter().map(|k| &k.value));
                let len = prefix_len(&cold.keys);
                match insert {
                    true => lpm.insert(key[0], len, handle),
                    false => lpm.remove(key[0], len),
                }
            }
            AnyIndex::Pair(index) => change(index, &entry, &self.packing, insert),
            AnyIndex::Wide(index) => change(index, &entry, &self.packing, insert),
        }
    }

    fn cold(&self, handle: EntryHandle) -> Option<&ColdEntry> {
        let slot = self.slot(handle)?;
        self.cold[slot].as_ref()
    }

    /// Returns the slot of a handle; `None` if another entry uses it now.
    fn slot(&self, handle: EntryHandle) -> Option<usize> {
        let slot = handle.slot() as usize;
        (*self.versions.get(slot)? == handle.version()).then_some(slot)
    }

    fn is_const(&self, handle: EntryHandle) -> Option<bool> {
        Some(self.cold(handle)?.is_const)
    }

    fn remove(&mut self, table: &Table, handle: EntryHandle) -> Option<Target> {
        let slot = self.slot(handle)?;
        let cold = self.cold[slot].take()?;
        self.change_index(slot as u32, &cold, false);
        if table.has_priorities() {
            self.handles
                .remove(&identity(table, &cold.keys, cold.priority));
        }
        self.live -= 1;
        self.free.push(Reverse(slot as u32));
        self.versions[slot] = self.versions[slot].wrapping_add(1);
        Some(self.hot[slot].target.clone())
    }

    fn modify(&mut self, handle: EntryHandle, target: Target) -> Option<Target> {
        self.cold(handle)?;
        Some(std::mem::replace(
            &mut self.hot[handle.slot() as usize].target,
            target,
        ))
    }

    fn counter_mut(&mut self, handle: EntryHandle) -> Option<&mut Counter> {
        self.cold(handle)?;
        self.counters.get_mut(handle.slot() as usize)
    }

    fn meter_mut(&mut self, handle: EntryHandle) -> Option<&mut Meter> {
        self.cold(handle)?;
        self.meters.get_mut(handle.slot() as usize)
    }

    fn set_idle_timeout(&mut self, handle: EntryHandle, timeout: u64, now: u64) -> Option<()> {
        let slot = self.slot(handle)?;
        let cold = self.cold[slot].as_mut()?;
        cold.idle_timeout = timeout;
        cold.reported = 0;
        self.hot[slot].last_hit = now;
        Some(())
    }

    fn idle(&mut self, now: u64) -> (Vec<EntryHandle>, Option<u64>) {
        let (mut idle, mut next) = (Vec::new(), None::<u64>);
        for (slot, cold) in self.cold.iter_mut().enumerate() {
            let Some(cold) = cold.as_mut().filter(|c| c.idle_timeout > 0) else {
                continue;
            };
            let quiet_since = self.hot[slot].last_hit.max(cold.reported);
            let mut due = quiet_since.saturating_add(cold.idle_timeout);
            if due <= now {
                cold.reported = now;
                idle.push(EntryHandle::new(slot as u32, self.versions[slot]));
                due = now.saturating_add(cold.idle_timeout);
            }
            next = Some(next.map_or(due, |n| n.min(due)));
        }
        (idle, next)
    }

    fn handles(&self) -> Vec<EntryHandle> {
        let live = self
            .cold
            .iter()
            .enumerate()
            .filter_map(|(i, c)| Some((c.as_ref()?.age, i as u32)));
        let mut live: Vec<_> = live.collect();
        live.sort_unstable();
        live.into_iter()
            .map(|(_, slot)| self.handle(slot))
            .collect()
    }

    fn differing<'a>(
        &'a self,
        handle: EntryHandle,
        phv: &'a [u64],
    ) -> Option<impl Iterator<Item = usize> + 'a> {
        let keys = self.cold(handle)?.keys.iter().zip(&self.packing.parts);
        let differs =
            |(at, (key, part)): (usize, (&NewKey, &Part))| (!key.matches(part, phv)).then_some(at);
        Some(keys.enumerate().filter_map(differs))
    }

    fn entry(
        &self,
        program: &LoadedProgram,
        table: &Table,
        handle: EntryHandle,
    ) -> Option<TableEntry> {
        let cold = self.cold(handle)?;
        let hot = &self.hot[handle.slot() as usize];
        Some(TableEntry {
            handle,
            key: cold
                .keys
                .iter()
                .zip(&table.keys)
                .map(|(k, info)| k.to_match(info))
                .collect(),
            priority: cold.priority,
            target: hot.target.to_entry_target(program),
            is_const: cold.is_const,
            counter: self.counters.get(handle.slot() as usize).copied(),
            meter: self
                .meters
                .get(handle.slot() as usize)
                .and_then(Meter::config),
            idle_timeout: cold.idle_timeout,
            last_hit: hot.last_hit,
        })
    }
}

/// Returns the identity of an entry, in which any two entries of a table differ: values, masks, ranges and, if the
/// table has priorities, the priority.
pub(crate) fn identity(table: &Table, keys: &[NewKey], priority: i32) -> Vec<u64> {
    let mut identity = Vec::with_capacity(keys.len() * 2 + 1);
    for key in keys {
        identity.extend_from_slice(&key.value);
        identity.extend_from_slice(&key.mask);
        if let Some(ends) = &key.range {
            identity.extend_from_slice(&ends.0);
            identity.extend_from_slice(&ends.1);
        }
    }
    if table.has_priorities() {
        identity.push(priority as u64);
    }
    identity
}

impl TableState {
    /// Makes entries and default action refer to the code of another program, which has the same objects.
    pub(crate) fn relink(&mut self, table: &Table, program: &LoadedProgram) {
        let hot = self.entries.as_mut().map(|entries| {
            entries.packing = Packing::new(table);
            entries.hot.iter_mut()
        });
        let targets = hot.into_iter().flatten().map(|entry| &mut entry.target);
        for target in targets.chain(self.default_target.as_deref_mut()) {
            if let Target::Action(action) = target {
                action.relink(program);
                action.next = table.next_on_hit(action.action).unwrap_or(table.after_miss);
            }
        }
        if let Some(default) = &mut self.default {
            default.relink(program);
            default.next = table
                .next_on_miss(default.action)
                .unwrap_or(table.after_miss);
        }
    }
}

impl ActionRef {
    /// Makes this refer to the code of another program, which has the same actions. [`ActionRef::next`] stays.
    pub(crate) fn relink(&mut self, program: &LoadedProgram) {
        self.code = program.actions[usize::from(self.action)].code;
    }

    /// Returns the action's name and its arguments as the shortest byte strings.
    pub(crate) fn name_and_args(&self, program: &LoadedProgram) -> (String, Vec<Vec<u8>>) {
        let action = &program.actions[usize::from(self.action)];
        let args = action.params.iter().map(|param| {
            let words = param_words(param.bits);
            shortest(&self.args[param.offset..param.offset + words])
        });
        (action.name.clone(), args.collect())
    }
}

impl Target {
    pub(crate) fn to_entry_target(&self, program: &LoadedProgram) -> EntryTarget {
        match self {
            Target::Action(action) => {
                let (name, args) = action.name_and_args(program);
                EntryTarget::Action { name, args }
            }
            Target::Member(id) => EntryTarget::Member(*id),
            Target::Group(id) => EntryTarget::Group(*id),
        }
    }
}
