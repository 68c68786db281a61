//! A switch in ten lines: compile a program, load it, and give it a frame.
//!
//! `cargo run -p alfirk-bmv2 --example switch`

use alfirk_bmv2::{Effects, LoadedProgram, QueueState, Switch, SwitchOptions};
use alfirk_compiler::driver::{compile_with, CompileOptions};
use alfirk_compiler::preproc::MemoryLoader;

/// Swaps the addresses of Ethernet, and sends the frame back.
const MIRROR: &str = "
#include <core.p4>
#include <v1model.p4>
header ethernet_h { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { ethernet_h ethernet; }
struct metadata_t { }
parser P(packet_in pkt, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    state start { pkt.extract(hdr.ethernet); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t meta) { apply { } }
control I(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) {
    apply {
        bit<48> dst = hdr.ethernet.dst;
        hdr.ethernet.dst = hdr.ethernet.src;
        hdr.ethernet.src = dst;
        sm.egress_spec = sm.ingress_port;
    }
}
control E(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t sm) { apply { } }
control D(packet_out pkt, in headers_t hdr) { apply { pkt.emit(hdr.ethernet); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
";

/// Runs the example; a test calls it, too.
pub fn main() {
    let mut loader = MemoryLoader::default();
    loader.add("mirror.p4", MIRROR);
    let compiled = compile_with(&CompileOptions::new("mirror.p4"), &loader).expect("it is P4");
    let program = LoadedProgram::from_json(&compiled.json.to_text()).expect("it is BMv2 JSON");

    let mut switch = Switch::new(SwitchOptions::default());
    switch.load(program.into());

    // Time is an argument, effects are returned in `effects`; the caller owns the queues.
    let frame = b"\x02\0\0\0\0\x01\x02\0\0\0\0\x02\x88\xb5hello";
    let mut effects = Effects::default();
    switch.ingress(1, frame, 0, &mut effects);
    for packet in std::mem::take(&mut effects.enqueued) {
        switch.egress(packet, 0, QueueState::default(), &mut effects);
    }
    for sent in &effects.output {
        println!("port {}: {:02x?}", sent.port, sent.frame.bytes());
    }
    assert_eq!(effects.output[0].port, 1);
    assert_eq!(&effects.output[0].frame.bytes()[..6], b"\x02\0\0\0\0\x02");
}
