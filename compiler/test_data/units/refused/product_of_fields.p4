#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a16 = hdr.d.b16 * hdr.d.c16; // refused
    }
}

#include "after.p4"
