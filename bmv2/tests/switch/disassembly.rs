//! The disassembly of a program, as `alfirk switch --disassemble` prints it.

use crate::p4::P4;

/// A program with an instruction of most kinds.
const PROGRAM: P4 = P4 {
    fields: "bit<16> psn; bit<16> acked; bit<8> kind; bit<8> ttl;",
    types: "header wide_t { bit<128> address; }",
    headers: "wide_t wide; h_t[2] stack;",
    metadata: "bit<16> newest; bool is_old; bit<32> hash;",
    states: "state start {
        pkt.extract(hdr.h);
        transition select(hdr.h.kind) { 1: wide; default: accept; }
    }
    state wide { pkt.extract(hdr.wide); transition accept; }",
    verify: "",
    locals: "register<bit<16>>(64) acks;
    counter(64, CounterType.packets) seen;
    action forward(bit<9> port, bit<128> address) {
        sm.egress_spec = port;
        hdr.wide.address = address;
        hdr.h.ttl = hdr.h.ttl - 1;
    }
    action drop() { mark_to_drop(sm); }
    table routes {
        key = { hdr.h.kind: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }",
    ingress: "acks.read(meta.newest, (bit<32>) hdr.h.kind);
        if ((bit<1>) ((hdr.h.psn - meta.newest) >> 15) == 1) { meta.is_old = true; }
        else { acks.write((bit<32>) hdr.h.kind, hdr.h.psn); }
        if (meta.is_old) { seen.count(3); }
        hash(meta.hash, HashAlgorithm.crc32, 32w0, { hdr.h.psn }, 32w8);
        if (hdr.h.ttl == 0 || hdr.wide.isValid() && hdr.wide.address == 1) { drop(); exit; }
        routes.apply();
        if (hdr.wide.isValid()) { hdr.wide.setInvalid(); hdr.stack.push_front(1); }",
    egress: "if (hdr.h.kind == 7) { log_msg(\"seven {}\", { hdr.h.psn }); truncate(32w20); }",
    update: "",
    deparser: Some("pkt.emit(hdr.h); pkt.emit(hdr.wide);"),
};

#[test]
fn code_has_names_and_source_lines() {
    let text = alfirk_bmv2::disassemble(&PROGRAM.text()).expect("it is BMv2 JSON");
    insta::assert_snapshot!(text);
}
