//! Only the most congested path's CNPs reach the source, up to a rate, and none of its own (`cnp_filter.p4`).

use super::Flaw;

/// A window lasts 2 to this power microseconds; each that passes halves a count.
const WINDOW_SHIFT: u32 = 10;
/// Windows after which nothing is left of a count.
const WINDOWS: u64 = 8;
/// Windows of which paths can tell one from another.
const PATH_WINDOWS: u64 = 1_024;
/// CNPs of a path that pass in a window; half of a full window's are left over in the next.
const LIMIT: u8 = 63;

/// Why a CNP does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CnpDrop {
    /// It comes from the source itself, or there is none.
    Own,
    /// Its path sends too many.
    Limited,
    /// Another path is more congested.
    Filtered,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CnpFilter {
    paths: Vec<Congested>,
    worst: Option<(usize, Congested)>,
}

/// How congested a path was when its last CNP came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Congested {
    /// Of the last CNP: its time in units of 2 to the power [`Congested::WINDOW_SHIFT`] microseconds.
    pub window: u64,
    /// CNPs, halved with each window that passed between them.
    pub cnps: u8,
}

impl Congested {
    /// See [`Congested::window`].
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

    /// A CNP comes from `path`, behind which the source is or not: does it pass? `now` is in microseconds.
    pub(super) fn take(
        &mut self,
        flaw: Flaw,
        path: usize,
        is_source: bool,
        now: u64,
    ) -> Result<(), CnpDrop> {
        let window = now >> WINDOW_SHIFT;
        let own = &mut self.paths[path];
        // Paths know their window modulo 1,024: after a long silence they look younger than they are.
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
