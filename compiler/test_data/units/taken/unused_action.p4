#include "before.p4"
    action product() {
        hdr.d.a32 = hdr.d.b32 * hdr.d.c32;
    }

    action n() {
        hdr.d.b16 = 0;
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { n; }
        default_action = n();
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
