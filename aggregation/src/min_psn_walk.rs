//! Search of the minimum by recirculation (`min_psn_walk.p4`).

use super::{Flaw, Group, MinSearch, Point, Port, Word};

/// State of a group's walks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Walk {
    /// Walk under way.
    pub busy: Option<Busy>,
    /// Path of the last minimum, or of the oldest word in the walk under way. The minimum cannot advance before
    /// this path does.
    pub trigger: Option<usize>,
    /// Minimum found by the last walk.
    pub found: u32,
}

/// A walk under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Busy {
    /// Start in microseconds; identifies the walk.
    pub start: u64,
    /// The trigger path has advanced since the start, so the walk must be repeated.
    pub is_dirty: bool,
}

/// Result of one pass of a packet.
pub(super) enum Outcome {
    /// The packet does not search: no search is needed, or another packet is searching.
    Idle,
    /// The packet recirculates once more.
    On(MinSearch),
    /// The minimum is found.
    Done(Word),
}

impl Group {
    fn nodes(&self) -> usize {
        self.fixed
            .ports
            .len()
            .div_ceil(self.fixed.config.paths_per_pass)
    }

    /// The oldest word among those of a node and `so_far`.
    fn oldest_of(&self, node: usize, so_far: Option<Word>) -> Option<Word> {
        let width = self.fixed.config.paths_per_pass;
        let paths = node * width..((node + 1) * width).min(self.fixed.ports.len());
        self.leaves.oldest(self.space(), paths, so_far)
    }

    fn is_walk_alive(&self, now: u64) -> bool {
        let timeout = self.fixed.config.walk_timeout;
        self.walk
            .busy
            .is_some_and(|busy| now - busy.start <= timeout)
    }

    fn begin(&mut self, now: u64) {
        self.walk.busy = Some(Busy {
            start: now,
            is_dirty: false,
        });
    }

    fn mark_dirty(&mut self) {
        if let Some(busy) = &mut self.walk.busy {
            busy.is_dirty = self.fixed.config.flaw != Flaw::LostLaggard;
        }
    }

    /// Records that data of the sender has advanced path `own`.
    pub(super) fn walk_past_sender(&mut self, own: usize, now: u64) {
        if self.walk.trigger == Some(own) {
            if self.is_walk_alive(now) {
                self.mark_dirty();
            } else {
                self.walk.trigger = None;
            }
        }
    }

    /// Starts a walk on behalf of old data; `None` if one is under way.
    pub(super) fn begin_probe(&mut self, probe: (Port, Point), now: u64) -> Option<MinSearch> {
        if self.is_walk_alive(now) {
            return None;
        }
        self.begin(now);
        Some(MinSearch {
            probe: Some(probe),
            oldest: None,
            node: 0,
            seen: None,
            start: now,
        })
    }

    /// Starts a walk if an acknowledgement of path `own` may have advanced the minimum. `is_rise`: its PSN is new. A repeated
    /// PSN does not mark a walk as dirty, as the walk might then never end.
    pub(super) fn walk_on_news(&mut self, own: usize, is_rise: bool, now: u64) -> Outcome {
        let is_rise = is_rise || self.fixed.config.flaw == Flaw::EqualAckDirties;
        if self.is_walk_alive(now) {
            if is_rise && self.walk.trigger == Some(own) {
                self.mark_dirty();
            }
            return Outcome::Idle;
        }
        let is_triggered = match self.walk.trigger {
            Some(trigger) => trigger == own && is_rise,
            None => true,
        };
        if self.walk.busy.is_none() && !is_triggered {
            return Outcome::Idle;
        }
        let seen = own / self.fixed.config.paths_per_pass;
        let oldest = self.oldest_of(seen, None);
        self.walk.trigger = oldest.map(|word| word.path);
        let node = usize::from(seen == 0);
        match oldest {
            Some(word) if node >= self.nodes() => {
                self.walk.busy = None;
                self.walk.found = word.psn;
                Outcome::Done(word)
            }
            _ => {
                self.begin(now);
                Outcome::On(MinSearch {
                    probe: None,
                    oldest,
                    node,
                    seen: Some(seen),
                    start: now,
                })
            }
        }
    }

    /// Compares the next node of a walk.
    pub(super) fn walk_on(&mut self, mut search: MinSearch, now: u64) -> Outcome {
        let busy = match self.walk.busy {
            Some(busy) if busy.start == search.start => busy,
            _ => return Outcome::Idle,
        };
        search.oldest = self.oldest_of(search.node, search.oldest);
        self.walk.trigger = search.oldest.map(|word| word.path);
        search.node += 1;
        if search.seen == Some(search.node) {
            search.node += 1;
        }
        match search.oldest {
            Some(word) if search.node >= self.nodes() && !busy.is_dirty => {
                self.walk.busy = None;
                self.walk.found = word.psn;
                Outcome::Done(word)
            }
            _ if search.node >= self.nodes() => {
                self.begin(now);
                search = MinSearch {
                    oldest: None,
                    node: 0,
                    seen: None,
                    start: now,
                    ..search
                };
                Outcome::On(search)
            }
            _ => Outcome::On(search),
        }
    }
}
