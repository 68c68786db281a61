#include "before.p4"
    action a() {
        hdr.d.a16 = min(hdr.d.b16, hdr.d.c16);
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
