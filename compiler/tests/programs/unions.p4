// Header unions: at most one member is valid, and whatever makes a member invalid makes its whole union invalid (spec § 8.19).

#include <core.p4>
#include <v1model.p4>

header op_t {
    bit<8> op;
    bit<8> index;
}

// Bits, the highest first: union valid, a valid, b valid, the same of the twins, then what the case itself says.
header report_t {
    bit<1> valid;
    bit<1> a;
    bit<1> b;
    bit<1> twins;
    bit<1> left;
    bit<1> right;
    bit<2> more;
}

header a_t {
    bit<8> v;
}

header b_t {
    bit<16> v;
}

header_union u_t {
    a_t a;
    b_t b;
}

header_union twins_t {
    a_t left;
    a_t right;
}

struct box_t {
    u_t u;
}

struct headers_t {
    op_t     op;
    report_t report;
    box_t    box;
    twins_t  twins;
    u_t[2]   many;
}

struct metadata_t {
    bit<2> more;
}

void nothing(inout b_t b) { }

void nothing_to_a(inout a_t a) { }

void no_value(out b_t b) { }

void value(out b_t b) {
    b.setValid();
    b.v = 0xbbbb;
}

void remove_b(inout box_t box) {
    box.u.b.setInvalid();
}

// The union of which a member is passed becomes invalid where the sub-parser ends, since that member is.
parser NoMember(packet_in packet, inout b_t b) {
    state start {
        transition accept;
    }
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t standard_metadata) {
    NoMember() no_member;
    b_t gone;
    u_t own;

    state start {
        packet.extract(hdr.op);
        packet.extract(hdr.box.u.a);
        packet.extract(hdr.twins.right);
        packet.extract(hdr.many.next.a);
        packet.extract(hdr.many.next.b);
        transition select(hdr.op.op) {
            0x81: removed;
            0x82: assigned;
            0x83: literal;
            0x84: passed;
            0x85: local;
            0x86: last;
            default: accept;
        }
    }
    state removed {
        hdr.box.u.b.setInvalid();
        transition accept;
    }
    state assigned {
        gone.setInvalid();
        hdr.box.u.b = gone;
        transition accept;
    }
    state literal {
        hdr.box.u.b = (b_t){#};
        transition accept;
    }
    state passed {
        no_member.apply(packet, hdr.box.u.b);
        transition accept;
    }
    state local {
        own.a.setValid();
        own.a.v = 1;
        own.b.setInvalid();
        hdr.box.u = own;
        transition accept;
    }
    state last {
        // A union as a whole, chosen by what was extracted.
        hdr.box.u = hdr.many.last;
        transition select(hdr.many.last.isValid()) {
            true: second;
            false: accept;
        }
    }
    state second {
        hdr.many[1].a.setInvalid();
        transition accept;
    }
}

control MyVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control Nothing(inout b_t b) {
    apply { }
}

control Fills(out b_t b, in a_t other) {
    apply {
        b = { 8w0 ++ other.v };
    }
}

control Leaves(inout b_t b) {
    apply {
        exit;
    }
}

control Removes(inout u_t u, inout bit<1> seen) {
    action remove() {
        u.b.setInvalid();
    }
    table t {
        actions = { remove; }
        const default_action = remove();
    }
    apply {
        t.apply();
        seen = (bit<1>)u.isValid();
    }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t standard_metadata) {
    Nothing() sub_control;
    Nothing() shared;
    Fills() fills;
    Leaves() leaves;
    Removes() removes;
    b_t gone;
    u_t other;
    bit<1> seen = 1;

    action remove() {
        hdr.box.u.b.setInvalid();
    }
    action assign_invalid() {
        b_t none;
        hdr.box.u.b = none;
    }
    action removes_of_own() {
        u_t own;
        own.a.setValid();
        own.a.v = 1;
        own.b.setInvalid();
        hdr.box.u = own;
    }
    action takes(inout b_t b) { }
    action found(bit<2> how) {
        meta.more = how;
    }
    table by_validity {
        key = { hdr.box.u.isValid(): exact; hdr.box.u.a.isValid(): exact; }
        actions = { found; NoAction; }
        const default_action = NoAction();
        const entries = {
            (true, true): found(1);
            (false, false): found(2);
        }
    }

    apply {
        standard_metadata.egress_spec = 1;
        gone.setInvalid();
        switch (hdr.op.op) {
            1: { hdr.box.u.b.setInvalid(); }
            2: { hdr.box.u.b = gone; }
            3: { hdr.box.u.b = (b_t){#}; }
            4: { remove(); }
            5: { assign_invalid(); }
            6: { no_value(hdr.box.u.b); }
            7: { nothing(hdr.box.u.b); }
            8: { nothing_to_a(hdr.box.u.a); }
            9: { value(hdr.box.u.b); }
            10: { sub_control.apply(hdr.box.u.b); }
            11: { remove_b(hdr.box); }
            12: { removes_of_own(); }
            13: { other.b.setValid(); other.b.v = 0xabcd; hdr.box.u = other; }
            14: { other.b.setValid(); other.a.setInvalid(); hdr.box.u = other; }
            15: { hdr.box.u.a = hdr.box.u.a; }
            16: { hdr.box.u.b = hdr.box.u.b; }
            17: { hdr.twins.left = hdr.twins.right; }
            18: { hdr.twins.right = hdr.twins.left; }
            19: { hdr.many[1].a.setInvalid(); }
            20: { hdr.many[hdr.op.index].a.setInvalid(); }
            21: { hdr.many[hdr.op.index].b = gone; }
            22: { hdr.many.push_front(1); }
            23: { hdr.many.pop_front(1); }
            24: { removes.apply(hdr.box.u, seen); meta.more = (bit<2>)seen; }
            25: { remove(); by_validity.apply(); }
            26: { by_validity.apply(); }
            27: { takes(hdr.box.u.b); }
            28: { other = hdr.box.u; meta.more = hdr.box.u == other ? 2w1 : 0; other.b.setInvalid(); meta.more[1:1] = hdr.box.u == other ? 1w1 : 0; }
            29: { hdr.box.u.b = {0x1234}; hdr.box.u.a = (a_t){#}; }
            30: { hdr.many[0] = hdr.many[1]; }
            31: { hdr.many.push_front(2); }
            32: { leaves.apply(hdr.box.u.b); }
            33: { shared.apply(hdr.box.u.b); }
            34: { shared.apply(hdr.many[1].b); }
            35: { fills.apply(hdr.box.u.b, hdr.box.u.a); }
        }
    }
}

// Ingress may have exited: what is left is looked at here.
control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t standard_metadata) {
    apply {
        hdr.report.setValid();
        hdr.report.valid = (bit<1>)hdr.box.u.isValid();
        hdr.report.a = (bit<1>)hdr.box.u.a.isValid();
        hdr.report.b = (bit<1>)hdr.box.u.b.isValid();
        hdr.report.twins = (bit<1>)hdr.twins.isValid();
        hdr.report.left = (bit<1>)hdr.twins.left.isValid();
        hdr.report.right = (bit<1>)hdr.twins.right.isValid();
        hdr.report.more = meta.more;
    }
}

control MyComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.op);
        packet.emit(hdr.report);
        packet.emit(hdr.box);
        packet.emit(hdr.twins);
        packet.emit(hdr.many);
    }
}

V1Switch(MyParser(), MyVerifyChecksum(), MyIngress(), MyEgress(), MyComputeChecksum(), MyDeparser()) main;
