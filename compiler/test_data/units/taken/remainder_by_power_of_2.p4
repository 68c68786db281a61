#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a16 = hdr.d.b16 % 16;
    }
}

#include "after.p4"
