#include "before.p4"
    apply {
        ig_tm_md.ucast_egress_port = 1;
        bool less = hdr.d.a32 < hdr.d.b32;
        if (less) { // refused
            hdr.d.a8 = 1;
        }
    }
}

#include "after.p4"
