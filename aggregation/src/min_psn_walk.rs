//! How a group finds its minimum by packets that go round (`min_psn_walk.p4`).

use super::{Flaw, Group, MinSearch, Point, Port, Word};

/// What a group remembers of its walks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Walk {
    /// The walk that is under way.
    pub busy: Option<Busy>,
    /// The path of the last minimum, or of a walk's oldest word so far. While it has nothing new, neither has
    /// the group.
    pub trigger: Option<usize>,
    /// The minimum that the last walk found.
    pub found: u32,
}

/// A walk under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Busy {
    /// When it began, in microseconds; also its name.
    pub start: u64,
    /// The oldest path has risen since: look again.
    pub is_dirty: bool,
}

/// What becomes of a packet that might find the minimum.
pub(super) enum Outcome {
    /// Nothing: there is no need, or another packet walks, or has taken over.
    Idle,
    /// It is recirculated once more.
    On(MinSearch),
    /// This is the minimum.
    Done(Word),
}

impl Group {
    fn nodes(&self) -> usize {
        self.fixed
            .ports
            .len()
            .div_ceil(self.fixed.config.paths_per_pass)
    }

    /// The oldest of a node's words.
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
            busy.is_dirty = self.fixed.config.flaw != Flaw::ForgottenLaggard;
        }
    }

    /// A sender's data has raised path `own`.
    pub(super) fn walk_past_sender(&mut self, own: usize, now: u64) {
        if self.walk.trigger == Some(own) {
            if self.is_walk_alive(now) {
                self.mark_dirty();
            } else {
                self.walk.trigger = None;
            }
        }
    }

    /// Old data starts a walk for the minimum, unless one is under way.
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

    /// Path `own` has acknowledged something. `is_rise`: something new; a path that repeats its newest PSN must not keep a walk
    /// from its end.
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

    /// A search looks at its next node.
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
