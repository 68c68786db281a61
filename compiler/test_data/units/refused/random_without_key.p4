#include "before.p4"
    Random<bit<16>>() random;

    action r() {
        hdr.d.a16 = random.get();
    }

    action n() {
        hdr.d.a16 = 0;
    }

    table t {
        actions = {
            r; // refused
            n;
        }
        default_action = n();
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
