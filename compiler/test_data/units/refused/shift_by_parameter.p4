#include "before.p4"
    action a(bit<8> by) {
        hdr.d.a32 = hdr.d.b32 << by; // refused
    }

    table t {
        key = { hdr.d.b8: exact; }
        actions = { a; }
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
