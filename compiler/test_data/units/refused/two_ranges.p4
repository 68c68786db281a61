#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a8 > 3 && hdr.d.b8 > 5) { // refused
            hdr.d.c8 = 1;
        }
    }
}

#include "after.p4"
