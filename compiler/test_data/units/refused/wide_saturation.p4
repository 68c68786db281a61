#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        hdr.d.a64 = hdr.d.a64 |+| hdr.d.b64; // refused
    }
}

#include "after.p4"
