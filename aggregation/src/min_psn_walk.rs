//! Search for the minimum PSN by recirculation (`min_psn_walk.p4`). A packet recirculates, and compares a few paths (a
//! node) in each pass: a walk.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *minimum* is the newest PSN that all
//! paths have acknowledged or sent.

use super::{Flaw, Group, MinSearch, PathPsn, Point, Port};
use std::ops::Range;

/// State of a group's search for the minimum by a recirculating packet (a *walk*).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Walk {
    /// The walk under way; `None` if no packet is searching.
    pub running: Option<RunningWalk>,
    /// Path of the last minimum, or of the oldest PSN seen by the walk under way. The minimum cannot advance before
    /// this path does, so ACKs of other paths start no walk. `None` if the next ACK of any path starts a walk.
    pub trigger: Option<usize>,
    /// Minimum PSN found by the last walk.
    pub last_minimum: u32,
}

/// A walk under way: one packet recirculates to find the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RunningWalk {
    /// Start time in microseconds; identifies the walk.
    pub start: u64,
    /// Whether the trigger path has advanced since the start. The walk is then repeated, because its result may be old.
    pub is_dirty: bool,
}

/// Result of one pass of a search packet.
pub(super) enum WalkStep {
    /// The packet does not search: no search is needed, or another packet is searching.
    Idle,
    /// The packet recirculates to compare the next paths.
    Recirculate(MinSearch),
    /// All paths are compared; this is the minimum.
    Found(PathPsn),
}

impl Group {
    fn nodes(&self) -> usize {
        self.constants
            .ports
            .len()
            .div_ceil(self.constants.config.paths_per_pass)
    }

    /// The paths in node number `node`: a few consecutive ones.
    fn paths_of(&self, node: usize) -> Range<usize> {
        let width = self.constants.config.paths_per_pass;
        node * width..((node + 1) * width).min(self.constants.ports.len())
    }

    /// Compares the newest PSNs of the paths in the search packet's node. Of several paths with the oldest PSN, the last one is
    /// usually the last to acknowledge the next PSN, since a packet is copied to the paths in their order. It becomes the
    /// trigger path, so the ACKs of the others start no walk.
    fn compare(&self, search: &mut MinSearch) {
        let mut paths = self.paths_of(search.node);
        search.oldest = (self.leaves).oldest(self.space(), paths.clone(), search.oldest);
        let Some(oldest) = search.oldest else { return };
        let last = paths.rfind(|path| {
            let candidate = self.leaves.path_psn(*path);
            *path == oldest.path || (candidate.psn == oldest.psn && !candidate.by_sender)
        });
        search.last = last.or(search.last);
    }

    fn is_walk_alive(&self, now: u64) -> bool {
        let timeout = self.constants.config.walk_timeout;
        self.walk
            .running
            .is_some_and(|busy| now - busy.start <= timeout)
    }

    fn start_walk(&mut self, now: u64) {
        self.walk.running = Some(RunningWalk {
            start: now,
            is_dirty: false,
        });
    }

    fn mark_dirty(&mut self) {
        if let Some(busy) = &mut self.walk.running {
            busy.is_dirty = self.constants.config.flaw() != Flaw::IgnoredAdvance;
        }
    }

    /// Handles new data that path `from_path` has sent. If the walk waits for this path to advance (the trigger path),
    /// marks a running walk as dirty or, without one, clears the trigger.
    pub(super) fn walk_on_data(&mut self, from_path: usize, now: u64) {
        if self.walk.trigger == Some(from_path) {
            if self.is_walk_alive(now) {
                self.mark_dirty();
            } else {
                self.walk.trigger = None;
            }
        }
    }

    /// Starts a walk for retransmitted data, to find out whether all paths have it. `None` if a walk is under way.
    pub(super) fn start_probe(&mut self, probe: (Port, Point), now: u64) -> Option<MinSearch> {
        if self.is_walk_alive(now) {
            return None;
        }
        self.start_walk(now);
        Some(MinSearch {
            probe: Some(probe),
            oldest: None,
            last: None,
            node: 0,
            skipped_node: None,
            start: now,
        })
    }

    /// Starts a walk if an acknowledgement of path `from_path` may have advanced the minimum. `is_new`: whether its PSN is
    /// newer than all that the path had acknowledged or sent. A repeated PSN does not mark a running walk as dirty, because
    /// the walk might then never end.
    pub(super) fn walk_on_ack(&mut self, from_path: usize, is_new: bool, now: u64) -> WalkStep {
        let is_new = is_new || self.constants.config.flaw() == Flaw::EqualAckDirties;
        if self.is_walk_alive(now) {
            if is_new && self.walk.trigger == Some(from_path) {
                self.mark_dirty();
            }
            return WalkStep::Idle;
        }
        let is_triggered = match self.walk.trigger {
            Some(trigger) => trigger == from_path && is_new,
            None => true,
        };
        if self.walk.running.is_none() && !is_triggered {
            return WalkStep::Idle;
        }
        let seen = from_path / self.constants.config.paths_per_pass;
        let oldest = (self.leaves).oldest(self.space(), self.paths_of(seen), None);
        let last = oldest.map(|oldest_path| oldest_path.path);
        self.walk.trigger = last;
        let node = usize::from(seen == 0);
        match oldest {
            Some(oldest_path) if node >= self.nodes() => {
                self.walk.running = None;
                self.walk.last_minimum = oldest_path.psn;
                WalkStep::Found(oldest_path)
            }
            _ => {
                self.start_walk(now);
                WalkStep::Recirculate(MinSearch {
                    probe: None,
                    oldest,
                    last,
                    node,
                    skipped_node: Some(seen),
                    start: now,
                })
            }
        }
    }

    /// Compares the newest PSNs of the paths in the next node (a few consecutive paths). Ends or repeats the walk after
    /// the last node.
    pub(super) fn continue_walk(&mut self, mut search: MinSearch, now: u64) -> WalkStep {
        let busy = match self.walk.running {
            Some(busy) if busy.start == search.start => busy,
            _ => return WalkStep::Idle,
        };
        self.compare(&mut search);
        self.walk.trigger = search.last;
        search.node += 1;
        if search.skipped_node == Some(search.node) {
            search.node += 1;
        }
        match search.oldest {
            Some(oldest_path) if search.node >= self.nodes() && !busy.is_dirty => {
                self.walk.running = None;
                self.walk.last_minimum = oldest_path.psn;
                WalkStep::Found(oldest_path)
            }
            _ if search.node >= self.nodes() => {
                self.start_walk(now);
                search = MinSearch {
                    oldest: None,
                    last: None,
                    node: 0,
                    skipped_node: None,
                    start: now,
                    ..search
                };
                WalkStep::Recirculate(search)
            }
            _ => WalkStep::Recirculate(search),
        }
    }
}
