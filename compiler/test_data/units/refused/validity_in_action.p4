#include "before.p4"
    action a() {
        if (hdr.tag.isValid()) { // refused
            hdr.d.b8 = 1;
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
