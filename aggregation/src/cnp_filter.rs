//! Only the most congested path's CNPs reach the source (`cnp_filter.p4`).

/// A window lasts 2 to this power microseconds; each that passes halves a count.
const WINDOW_SHIFT: u32 = 10;
/// Windows after which nothing is left of a count.
const WINDOWS: u64 = 8;
const COUNT_MAX: u8 = 31;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CnpFilter {
    paths: Vec<Count>,
    worst: Option<(usize, Count)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Count {
    /// Of the last CNP.
    window: u64,
    cnps: u8,
}

impl CnpFilter {
    pub(super) fn new(paths: usize) -> CnpFilter {
        CnpFilter {
            paths: vec![Count::default(); paths],
            worst: None,
        }
    }

    /// A CNP comes from `path`: does it pass? `now` is in microseconds.
    pub(super) fn passes(&mut self, path: usize, now: u64) -> bool {
        let window = now >> WINDOW_SHIFT;
        let own = &mut self.paths[path];
        // Paths know their window modulo 8: after a long silence they look younger than they are.
        let aged = own.cnps >> ((window - own.window) % WINDOWS);
        let count = Count {
            window,
            cnps: COUNT_MAX.min(aged + 1),
        };
        *own = count;
        let passes = self.worst.is_none_or(|(worst, then)| {
            let age = window - then.window;
            let left = if age < WINDOWS { then.cnps >> age } else { 0 };
            worst == path || count.cnps > left
        });
        if passes {
            self.worst = Some((path, count));
        }
        passes
    }
}
