//! The memory for planning a whole group is linear in the size of the plans. Counts allocated bytes, not time.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use alfirk_roce::collective::{Algorithm, Collective, Racks, Shape, TransferSpec};

struct Counting;

// Per thread, because tests run in parallel.
thread_local! {
    /// Bytes allocated so far.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + layout.size());
        // SAFETY: the caller keeps the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes that a call allocates.
fn taken<T>(by: impl FnOnce() -> T) -> (usize, T) {
    let before = TAKEN.get();
    let made = by();
    (TAKEN.get() - before, made)
}

/// Makes the plans of all members, and counts flows and slices in them.
fn planned(
    algorithm: Algorithm,
    collective: Collective,
    members: u32,
    slices: u32,
) -> (usize, usize) {
    let racks: Racks = (0..members).map(|rank| rank / 32).collect();
    let shape = Shape {
        members,
        slices,
        racks: &racks,
    };
    let (mut flows, mut carried) = (0, 0);
    for rank in 0..members {
        let plan = algorithm.plan_for(collective, shape, rank);
        for flow in plan.incoming.iter().chain(&plan.outgoing) {
            flows += 1;
            carried += flow.slices.len() + flow.steps.len();
        }
    }
    (flows, carried)
}

/// Allocated bytes per flow, or per slice, when planning for `members` members.
fn bytes_for_each(algorithm: Algorithm, collective: Collective, members: u32) -> f64 {
    let slices = algorithm.slices_for(collective, 1, members);
    let (bytes, (flows, carried)) = taken(|| planned(algorithm, collective, members, slices));
    bytes as f64 / (8 * flows + carried) as f64
}

#[test]
fn planning_allocates_in_proportion_to_the_plan() {
    let collectives = [
        Collective::Broadcast,
        Collective::Scatter,
        Collective::Allgather,
        Collective::Barrier,
    ];
    for collective in collectives {
        for algorithm in collective.algorithms() {
            let [few, many] =
                [256, 4096].map(|members| bytes_for_each(algorithm, collective, members));
            // Vectors double when they grow, so the last step may be the larger half.
            assert!(
                many < 2.0 * few,
                "{algorithm}, {collective:?}: {few:.1} bytes among 256 members, {many:.1} among 4,096"
            );
        }
    }
}

#[test]
fn a_clone_of_a_spec_allocates_nothing_per_member() {
    let members: Vec<_> = (0..4096u32).map(|n| (0x0a00_0001 + n).into()).collect();
    let spec = TransferSpec {
        racks: (0..4096).map(|rank| rank / 32).collect(),
        sources: (0..4096).collect(),
        ..TransferSpec::new(Algorithm::Alfirk, 0, members.into(), 1 << 20)
    };
    let (bytes, copy) = taken(|| spec.clone());
    assert_eq!(
        (bytes, copy.sources.len(), copy.racks.len()),
        (0, 4096, 4096)
    );
}
