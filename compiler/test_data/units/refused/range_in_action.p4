#include "before.p4"
    action a() {
        if (hdr.d.a16 > 100) { // refused
            hdr.d.b8 = 1;
        } else {
            hdr.d.b8 = 2;
        }
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
