//! Memory use: forwarding a packet allocates no memory, and a loaded program needs little.

use alfirk_bmv2::{
    Effects, EntryTarget, KeyMatch, LoadedProgram, QueueState, Switch, SwitchOptions,
};
use alfirk_compiler::driver::{compile, CompileOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;

struct Counting;

// Per thread, since tests run in parallel.
thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    /// Bytes allocated and not yet freed.
    static IN_USE: Cell<usize> = const { Cell::new(0) };
}

fn in_use() -> usize {
    IN_USE.get()
}

// SAFETY: all calls are forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        IN_USE.set(IN_USE.get().wrapping_add(layout.size()));
        // SAFETY: the caller satisfies the contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        IN_USE.set(IN_USE.get().wrapping_sub(layout.size()));
        // SAFETY: the caller satisfies the contract.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Loads a program of the repository.
fn program(source: &str) -> Arc<LoadedProgram> {
    let room = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut options = CompileOptions::new(room.join(source));
    options
        .preprocessor
        .include_dirs
        .push(room.join("../p4include"));
    let compiled = compile(&options).unwrap_or_else(|e| panic!("{e}"));
    Arc::new(LoadedProgram::from_typed(&compiled.json).unwrap())
}

fn routing_switch() -> Switch {
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(program("test_data/routing.p4"));
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

/// Returns an IPv4 packet from 11.0.0.1 to 10.0.0.1 with a valid checksum and a payload.
fn frame() -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 52, 0, 0, 0x40, 0, 64, 17]);
    frame.extend([0x25, 0xb8, 11, 0, 0, 1, 10, 0, 0, 1]);
    frame.extend([0x5a; 32]);
    frame
}

/// The switch's output is its next input, as between neighbours in a simulation.
#[test]
fn forwarding_allocates_no_memory() {
    let mut switch = routing_switch();
    let (mut fx, mut waiting) = (Effects::default(), Vec::new());
    let original = frame();
    let mut frame = original.clone();
    let mut before = 0;
    for round in 0..1100 {
        if round == 100 {
            before = ALLOCATIONS.get();
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
        frame = output.frame.into_bytes();
        assert_eq!(frame[..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!(frame[22..26], [63, 17, 0x26, 0xb8], "TTL and checksum");
        assert_eq!(frame[34..], original[34..]);
    }
    assert_eq!(ALLOCATIONS.get() - before, 0);
}

/// Fabrics have hundreds of switches with the same program, and most of them have few groups.
#[test]
fn registers_allocate_memory_when_they_are_written() {
    let program = program("../p4src/v1model/main.p4");
    let before = in_use();
    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(program);
    let loaded = in_use() - before;
    assert!(loaded < 1 << 20, "{loaded} bytes");
    let registers = switch.registers();
    let cells: usize = registers.iter().map(|register| register.size).sum();
    assert!(cells > 400_000, "{cells}");

    let before = in_use();
    for register in &registers {
        let last = register.size as u64 - 1;
        assert_eq!(switch.read_register(&register.name, last).unwrap(), [0]);
        switch.write_register(&register.name, last, &[0]).unwrap();
    }
    assert_eq!(in_use(), before);
    for register in &registers {
        let last = register.size as u64 - 1;
        switch.write_register(&register.name, last, &[1]).unwrap();
        assert_eq!(switch.read_register(&register.name, last).unwrap(), [1]);
    }
    let each = (in_use() - before) / registers.len();
    assert!((8..=4096).contains(&each), "{each} bytes");
}
