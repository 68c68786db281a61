#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a16 < 1000) { // refused
            hdr.d.a8 = 1;
        }
    }
}

#include "after.p4"
