#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a32 = hdr.d.b32 << 5;
    }
}

#include "after.p4"
