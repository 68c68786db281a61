#include "before.p4"
    action h() {
        @in_hash { hdr.d.a16 = hdr.d.b16 ^ hdr.d.c16; }
    }

    action n() {
        hdr.d.b16 = 0;
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { h; n; }
        default_action = n();
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
