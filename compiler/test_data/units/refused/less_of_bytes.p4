#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a8 < hdr.d.b8) { // refused
            hdr.d.c8 = 1;
        }
    }
}

#include "after.p4"
