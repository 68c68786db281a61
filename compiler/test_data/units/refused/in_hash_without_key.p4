#include "before.p4"
    action h() {
        @in_hash { hdr.d.a16 = hdr.d.b16 ^ hdr.d.c16; }
    }

    action n() {
        hdr.d.b16 = 0;
    }

    table t {
        actions = { h; n; } // refused
        default_action = h();
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
