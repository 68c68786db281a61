//! Filter that forwards only the CNPs of the most congested path, up to a rate, and none of the source's (`cnp_filter.p4`).

use super::Flaw;

/// Binary logarithm of the length of a window in microseconds. Each elapsed window halves a count.
const WINDOW_SHIFT: u32 = 10;
/// Number of windows after which a count is 0.
const WINDOWS: u64 = 8;
/// Modulus of the window number that the register of a path stores.
const PATH_WINDOWS: u64 = 1_024;
/// Maximum count of a path: no more CNPs are forwarded in a window. Half of it carries over to the next window.
const LIMIT: u8 = 63;

/// Reason to drop a CNP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CnpDrop {
    /// The CNP is from the port of the source.
    Own,
    /// The path has reached the limit of the window.
    Limited,
    /// Another path is more congested.
    Filtered,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CnpFilter {
    paths: Vec<Congested>,
    worst: Option<(usize, Congested)>,
}

/// Congestion of a path at its last CNP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Congested {
    /// Window of the last CNP: its time in units of 2^[`Congested::WINDOW_SHIFT`] microseconds.
    pub window: u64,
    /// Number of CNPs, halved with each elapsed window.
    pub cnps: u8,
}

impl Congested {
    /// Binary logarithm of the length of a window in microseconds.
    pub const WINDOW_SHIFT: u32 = WINDOW_SHIFT;
}

impl CnpFilter {
    pub(super) fn new(paths: usize) -> CnpFilter {
        CnpFilter {
            paths: vec![Congested::default(); paths],
            worst: None,
        }
    }

    pub(super) fn restore(paths: Vec<Congested>, worst: Option<(usize, Congested)>) -> CnpFilter {
        CnpFilter { paths, worst }
    }

    pub(super) fn kept(&self) -> (Vec<Congested>, Option<(usize, Congested)>) {
        (self.paths.clone(), self.worst)
    }

    /// Filters a CNP of `path`. `is_source`: the source is behind that path. `now` is in microseconds.
    pub(super) fn take(
        &mut self,
        flaw: Flaw,
        path: usize,
        is_source: bool,
        now: u64,
    ) -> Result<(), CnpDrop> {
        let window = now >> WINDOW_SHIFT;
        let own = &mut self.paths[path];
        // Paths store their window modulo 1,024, so after a long silence a count looks newer than it is.
        let age = (window - own.window) % PATH_WINDOWS;
        let aged = if age < WINDOWS { own.cnps >> age } else { 0 };
        *own = Congested { window, cnps: aged };
        if is_source && flaw != Flaw::AnyCnp {
            return Err(CnpDrop::Own);
        }
        if aged == LIMIT && flaw != Flaw::AnyCnp {
            return Err(CnpDrop::Limited);
        }
        let count = Congested {
            window,
            cnps: LIMIT.min(aged + 1),
        };
        *own = count;
        let passes = self.worst.is_none_or(|(worst, then)| {
            let age = window - then.window;
            let left = if age < WINDOWS { then.cnps >> age } else { 0 };
            worst == path || count.cnps > left
        });
        if !passes {
            return Err(CnpDrop::Filtered);
        }
        self.worst = Some((path, count));
        Ok(())
    }
}
