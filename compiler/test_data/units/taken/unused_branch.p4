#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (true) {
            hdr.d.a32 = hdr.d.b32;
        } else {
            hdr.d.a32 = hdr.d.b32 * hdr.d.c32;
        }
    }
}

#include "after.p4"
