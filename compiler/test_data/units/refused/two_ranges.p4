#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a8 > 4 && hdr.d.b8 > 6) { // refused
            hdr.d.c8 = 1;
        }
    }
}

#include "after.p4"
