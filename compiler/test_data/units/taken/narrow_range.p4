#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a8 < 100) {
            hdr.d.b8 = 1;
        }
    }
}

#include "after.p4"
