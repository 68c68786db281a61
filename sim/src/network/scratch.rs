//! Memory that nodes need only while they handle an event. The nodes of a thread use it in turn, so that it stays in the
//! processor's caches: a fabric has hundreds of switches, and each handles few events in succession.

use std::cell::RefCell;

use alfirk_bmv2::Output;

/// Memory that the switches of a thread use in turn: unused buffers, and empty lists. Its contents have no meaning.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) server: alfirk_p4rt::Scratch,
    pub(super) claimed: Vec<u32>,
    pub(super) sent: Vec<Output>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Calls `act` on the memory of this thread.
pub(super) fn with(act: impl FnOnce(&mut Scratch)) {
    SCRATCH.with_borrow_mut(act);
}
