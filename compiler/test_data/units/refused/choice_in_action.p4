#include "before.p4"
    action a() {
        hdr.d.b8 = hdr.d.a8 == 3 ? 8w1 : 8w2; // refused
    }

    table t {
        key = { hdr.d.c8: exact; }
        actions = { a; }
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
