#include "before.p4"
    action a() {
        hdr.d.b8 = 1;
    }

    table t {
        key = { hdr.d.c8: exact; }
        actions = { a; }
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a8 == 1) {
            t.apply();
        }
        if (hdr.d.a8 == 2) {
            t.apply(); // refused
        }
    }
}

#include "after.p4"
