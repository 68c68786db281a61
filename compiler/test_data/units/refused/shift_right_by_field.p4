#include "before.p4"
    action a() {
        hdr.d.a32 = hdr.d.b32 >> hdr.d.a8; // refused
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
