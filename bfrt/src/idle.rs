//! Ageing of entries: time to live and notifications in tables that notify, and hit states in tables that are polled.
//!
//! The time to live of an entry falls with each sweep over its table while ageing is enabled. A hit restores its full value.

use std::collections::{BTreeMap, BTreeSet};

use alfirk_bmv2::{EntryHandle, TableEntry};
use alfirk_p4runtime::bfrt_proto::{
    idle_table::IdleTableMode, idle_timeout_notification::NotificationType, IdleTable,
};

/// Shortest interval between two sweeps, in nanoseconds.
const SHORTEST_INTERVAL: u64 = 100_000_000;
/// Nanoseconds of a millisecond.
pub(crate) const MS: u64 = 1_000_000;

/// A change of the interval between sweeps.
#[derive(Clone, Copy, Debug)]
struct Setting {
    /// Time of the change in nanoseconds.
    since: u64,
    /// What the clock showed then, in nanoseconds.
    shown: u64,
    /// Interval in nanoseconds; 0 while ageing is disabled.
    interval: u64,
}

impl Setting {
    /// Number of sweeps up to a time that is not before the change.
    fn sweeps(&self, time: u64) -> u64 {
        (time - self.since).checked_div(self.interval).unwrap_or(0)
    }

    fn shown_after(&self, sweeps: u64) -> u64 {
        self.shown + sweeps * self.interval
    }
}

/// The time during which ageing was enabled. As on the chip, it advances by an interval with each sweep over the table.
#[derive(Clone, Debug, Default)]
struct AgeingClock {
    settings: Vec<Setting>,
}

impl AgeingClock {
    /// Changes the interval between sweeps. The first sweep follows after the interval; 0 for none.
    fn set_interval(&mut self, interval: u64, now: u64) {
        if self.settings.last().map_or(0, |last| last.interval) != interval {
            let shown = self.at(now);
            self.settings.push(Setting {
                since: now,
                shown,
                interval,
            });
        }
    }

    /// Position of the setting that applied at a time; `None` before the first one.
    fn setting(&self, time: u64) -> Option<usize> {
        let before = self.settings.partition_point(|own| own.since <= time);
        before.checked_sub(1)
    }

    /// What the clock showed at a time.
    fn at(&self, time: u64) -> u64 {
        let setting = self.setting(time).map(|at| &self.settings[at]);
        setting.map_or(0, |own| own.shown_after(own.sweeps(time)))
    }

    /// What the clock showed, or will show, after the first sweep that is later than a time. Hits before that sweep restart the time to live
    /// with it.
    fn after_next_sweep(&self, time: u64) -> u64 {
        let at = self.setting(time);
        let own = at.map(|at| self.settings[at]);
        if let Some(own) = own.filter(|own| own.interval > 0) {
            let sweeps = own.sweeps(time) + 1;
            let due = own.since + sweeps * own.interval;
            let next = self.settings.get(at.map_or(0, |at| at + 1));
            if next.is_none_or(|next| due <= next.since) {
                return own.shown_after(sweeps);
            }
        }
        let later = self.settings.iter().skip(at.map_or(0, |at| at + 1));
        let mut later = later.filter(|own| own.interval > 0);
        later.next().map_or(u64::MAX, |own| own.shown_after(1))
    }

    /// Time of the first sweep that is later than `now`; `None` while ageing is disabled.
    fn next_sweep(&self, now: u64) -> Option<u64> {
        let own = self.settings.last().filter(|own| own.interval > 0)?;
        let sweeps = own.sweeps(now.max(own.since)) + 1;
        Some(own.since + sweeps * own.interval)
    }
}

/// Hit state of an entry in a table that is polled.
#[derive(Clone, Copy, Debug, Default)]
struct HitState {
    /// Whether the driver's copy says that the entry was hit.
    copy: bool,
    /// Whether a client has set the state to active.
    is_set: bool,
    /// Time in nanoseconds from which hits count.
    since: u64,
}

/// Ageing of a table's entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ageing {
    clock: AgeingClock,
    /// Entries that clients know to be idle.
    reported: BTreeSet<u32>,
    hits: BTreeMap<u32, HitState>,
}

impl Ageing {
    /// Starts or stops ageing.
    pub fn configure(&mut self, settings: &IdleTable, now: u64) {
        let notifies = settings.idle_table_mode() == IdleTableMode::IdleTableNotifyMode;
        let interval = match settings.enable && notifies {
            true => (u64::from(settings.ttl_query_interval) * MS).max(SHORTEST_INTERVAL),
            false => 0,
        };
        self.clock.set_interval(interval, now);
    }

    /// Whether clients are notified of changes.
    pub fn is_enabled(&self) -> bool {
        self.clock
            .settings
            .last()
            .is_some_and(|own| own.interval > 0)
    }

    /// Time of the next sweep after `now`; `None` while ageing is disabled.
    pub fn next_sweep(&self, now: u64) -> Option<u64> {
        self.clock.next_sweep(now)
    }

    /// Replaces what is stored for an entry, which is added or whose time to live is set at the time `now` in nanoseconds.
    pub fn restart(&mut self, entry: EntryHandle, now: u64) {
        self.reported.remove(&entry.0);
        self.hits.insert(
            entry.0,
            HitState {
                since: now,
                ..HitState::default()
            },
        );
    }

    /// Removes all that is stored for an entry.
    pub fn remove(&mut self, entry: EntryHandle) {
        self.reported.remove(&entry.0);
        self.hits.remove(&entry.0);
    }

    /// Removes all that is stored for entries.
    pub fn clear(&mut self) {
        self.reported.clear();
        self.hits.clear();
    }

    /// Rest of an entry's time to live, in nanoseconds.
    pub fn rest(&self, entry: &TableEntry, now: u64) -> u64 {
        let state = self.hits.get(&entry.handle.0);
        let was_hit = state.is_some_and(|state| entry.last_hit > state.since);
        let start = match was_hit {
            true => self.clock.after_next_sweep(entry.last_hit),
            false => self.clock.at(entry.last_hit),
        };
        let age = self.clock.at(now).saturating_sub(start);
        entry.idle_timeout.saturating_sub(age)
    }

    /// The kind of the notification that is due for an entry; `None` if its state has not changed since the last one.
    pub fn change(&mut self, entry: &TableEntry, now: u64) -> Option<NotificationType> {
        let handle = entry.handle.0;
        let is_idle = entry.idle_timeout > 0 && self.rest(entry, now) == 0;
        match (is_idle, self.reported.contains(&handle)) {
            (true, false) => {
                self.reported.insert(handle);
                Some(NotificationType::EntryIdle)
            }
            (false, true) => {
                self.reported.remove(&handle);
                Some(NotificationType::EntryActive)
            }
            _ => None,
        }
    }

    /// Whether an entry was hit, by the memory of the chip or by the driver's copy.
    pub fn was_hit(&self, entry: &TableEntry, from_hardware: bool) -> bool {
        let state = self.hits.get(&entry.handle.0).copied().unwrap_or_default();
        match from_hardware {
            true => state.is_set || entry.last_hit > state.since,
            false => state.copy,
        }
    }

    /// Sets the hit state of an entry.
    pub fn set_hit(&mut self, entry: EntryHandle, was_hit: bool, now: u64) {
        let state = self.hits.entry(entry.0).or_default();
        (state.copy, state.is_set, state.since) = (was_hit, was_hit, now);
    }

    /// Copies the hit state of an entry to the driver, and clears it in the chip.
    pub fn update_hit(&mut self, entry: &TableEntry, now: u64) {
        let state = self.hits.entry(entry.handle.0).or_default();
        state.copy = entry.last_hit > state.since;
        (state.is_set, state.since) = (false, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_advances_with_each_sweep_while_ageing_is_enabled() {
        let mut clock = AgeingClock::default();
        assert_eq!((clock.at(50), clock.next_sweep(50)), (0, None));
        clock.set_interval(10, 100);
        clock.set_interval(10, 115);
        assert_eq!((clock.at(109), clock.at(110), clock.at(129)), (0, 10, 20));
        assert_eq!(clock.next_sweep(129), Some(130));
        // The part of an interval before a change does not count.
        clock.set_interval(100, 135);
        assert_eq!((clock.at(234), clock.at(235)), (30, 130));
        clock.set_interval(0, 240);
        assert_eq!((clock.at(999), clock.next_sweep(999)), (130, None));
        clock.set_interval(10, 1000);
        assert_eq!((clock.at(1010), clock.at(999)), (140, 130));
    }

    #[test]
    fn a_hit_counts_from_the_next_sweep_on() {
        let mut clock = AgeingClock::default();
        assert_eq!(clock.after_next_sweep(50), u64::MAX);
        clock.set_interval(10, 100);
        assert_eq!(
            (clock.after_next_sweep(50), clock.after_next_sweep(104)),
            (10, 10)
        );
        clock.set_interval(0, 125);
        // The sweep at 130 was prevented, and the next one is at 210.
        clock.set_interval(10, 200);
        assert_eq!((clock.at(125), clock.after_next_sweep(123)), (20, 30));
    }
}
