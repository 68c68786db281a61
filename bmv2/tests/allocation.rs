//! A packet that passes the switch takes no memory from the allocator.

use alfirk_bmv2::{Effects, EntryTarget, KeyMatch, Program, QueueState, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile, CompileOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: everything is handed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
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

fn routing_switch() -> Switch {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = CompileOptions::new(room.join("test_data/routing.p4"));
    options
        .preprocessor
        .include_dirs
        .push(room.join("../p4include"));
    let compiled = compile(&options).unwrap_or_else(|e| panic!("{e}"));
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(Arc::new(Program::from_typed(&compiled.json).unwrap()));
    let key = [KeyMatch::Lpm {
        value: vec![10, 0, 0, 0],
        prefix_len: 8,
    }];
    let target = EntryTarget::Action {
        name: "ingress.forward".into(),
        args: vec![vec![2, 0, 0, 0, 0, 9], vec![3]],
    };
    let table = switch.table("ingress.routes").unwrap();
    switch.insert_entry(table, &key, 0, &target, 0, 0).unwrap();
    switch
}

/// An IPv4 packet from 11.0.0.1 to 10.0.0.1 with a right checksum and a payload.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 17]);
    frame.extend([0x25, 0xb8, 11, 0, 0, 1, 10, 0, 0, 1]);
    frame.extend([0x5a; 32]);
    frame
}

/// Takes the switch's output back as its next input, as neighbours in a simulation do.
#[test]
fn forwarding_needs_no_memory() {
    let mut switch = routing_switch();
    let (mut fx, mut waiting) = (Effects::default(), Vec::new());
    let original = frame();
    let mut frame = original.clone();
    let mut before = 0;
    for round in 0..1100 {
        if round == 100 {
            before = ALLOCATIONS.load(Ordering::Relaxed);
        }
        frame.clear();
        frame.extend_from_slice(&original);
        switch.ingress_owned(1, frame, 0, &mut fx);
        std::mem::swap(&mut fx.enqueued, &mut waiting);
        for packet in waiting.drain(..) {
            switch.egress(packet, 0, QueueState::default(), &mut fx);
        }
        let output = fx.output.pop().expect("the packet is forwarded");
        assert_eq!(output.port, 3);
        frame = output.frame;
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!(frame[22..26], [63, 17, 0x26, 0xb8], "TTL and checksum");
        assert_eq!(frame[34..], original[34..]);
    }
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0);
}
