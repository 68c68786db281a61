#include "before.p4"
    action a() {
        hdr.d.a32 = hdr.d.b32 * hdr.d.c32; // refused
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { a; }
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
