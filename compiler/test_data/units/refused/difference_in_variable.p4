#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        bit<16> difference = hdr.d.a16 - hdr.d.b16;
        if (hdr.d.c8 == 1) {
            if (difference == 0) { // refused
                hdr.d.a8 = 1;
            }
        }
    }
}

#include "after.p4"
