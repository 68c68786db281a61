#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        if (hdr.d.a16 & 0xff00 == 0x1200) {
            hdr.d.a8 = 1;
        }
    }
}

#include "after.p4"
