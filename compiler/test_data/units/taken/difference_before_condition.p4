#include "before.p4"
    action subtract() { md.m16 = hdr.d.a16 |-| hdr.d.b16; }
    apply {
        ig_tm_md.ucast_egress_port = 1;
        subtract();
        if (md.m16 == 0) {
            hdr.d.a8 = 1;
        }
    }
}

#include "after.p4"
