//! CNP filter (`cnp_filter.p4`): forwards the CNPs of the most congested path, at a limited rate. The source's own CNPs
//! are dropped.
//!
//! Time is divided into *windows* of 1,024 microseconds. The CNP count of a path is halved with each window.
//!
//! A *path* is a port of the group's tree on this switch; paths are numbered from 0. The *source* is the member of the
//! group that sends at present.

use super::Flaw;

/// Binary logarithm of the length of a window in microseconds. Each elapsed window halves the CNP counts.
const WINDOW_SHIFT: u32 = 10;
/// Number of windows (of 1,024 microseconds) after which a CNP count has decayed to 0.
const DECAY_WINDOWS: u64 = 8;
/// Modulus of the window number that the register of a path stores.
const WINDOW_MODULUS: u64 = 1_024;
/// Highest CNP count of a path. At this count its CNPs are dropped until the next window, in which the count is halved.
const MAX_CNPS: u8 = 63;

/// Reason why the filter drops a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CnpDrop {
    /// The CNP arrived at the source's own port.
    Own,
    /// The path has reached the highest CNP count. Its CNPs are dropped until the count is halved, in the next window
    /// of 1,024 microseconds.
    Limited,
    /// Another path has a higher CNP count.
    Filtered,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CnpFilter {
    paths: Vec<PathCongestion>,
    worst: Option<(usize, PathCongestion)>,
}

/// CNP count of a path, which is halved with each window of 1,024 microseconds. The stored count is that of the window
/// in which the path's last CNP arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PathCongestion {
    /// Number of the window in which the last CNP arrived: its time in units of 2^[`PathCongestion::WINDOW_SHIFT`]
    /// microseconds.
    pub window: u64,
    /// Number of CNPs received, 0 to 63; halved with each elapsed window.
    pub cnps: u8,
}

impl PathCongestion {
    /// Binary logarithm of the length of a window in microseconds.
    pub const WINDOW_SHIFT: u32 = WINDOW_SHIFT;
}

impl CnpFilter {
    pub(super) fn new(paths: usize) -> CnpFilter {
        CnpFilter {
            paths: vec![PathCongestion::default(); paths],
            worst: None,
        }
    }

    pub(super) fn restore(
        paths: Vec<PathCongestion>,
        worst: Option<(usize, PathCongestion)>,
    ) -> CnpFilter {
        CnpFilter { paths, worst }
    }

    pub(super) fn saved(&self) -> (Vec<PathCongestion>, Option<(usize, PathCongestion)>) {
        (self.paths.clone(), self.worst)
    }

    /// Decides whether a CNP of `path` is forwarded to the source. `is_source`: whether the source is at that path.
    /// `now` is in microseconds.
    pub(super) fn filter(
        &mut self,
        flaw: Flaw,
        path: usize,
        is_source: bool,
        now: u64,
    ) -> Result<(), CnpDrop> {
        let window = now >> WINDOW_SHIFT;
        let own = &mut self.paths[path];
        // Paths store the window number modulo 1,024. So an age of 1,024 windows or more appears shorter than it is.
        let age = (window - own.window) % WINDOW_MODULUS;
        let aged = if age < DECAY_WINDOWS {
            own.cnps >> age
        } else {
            0
        };
        *own = PathCongestion { window, cnps: aged };
        if is_source && flaw != Flaw::AnyCnp {
            return Err(CnpDrop::Own);
        }
        if aged == MAX_CNPS && flaw != Flaw::AnyCnp {
            return Err(CnpDrop::Limited);
        }
        let count = PathCongestion {
            window,
            cnps: MAX_CNPS.min(aged + 1),
        };
        *own = count;
        let passes = self.worst.is_none_or(|(worst, then)| {
            let age = window - then.window;
            let left = if age < DECAY_WINDOWS {
                then.cnps >> age
            } else {
                0
            };
            worst == path || count.cnps > left
        });
        if !passes {
            return Err(CnpDrop::Filtered);
        }
        self.worst = Some((path, count));
        Ok(())
    }
}
