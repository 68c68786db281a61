#include "before.p4"
    action copy() { hdr.d.d8 = hdr.d.c8; }
    table t { key = { hdr.d.c8: exact; } actions = { copy; NoAction; } const default_action = NoAction; size = 16; }
    apply {
        ig_tm_md.ucast_egress_port = 1;
        md.m16 = hdr.d.a16 - hdr.d.b16;
        t.apply();
        if (md.m16 == 0) { // refused
            hdr.d.a8 = 1;
        }
    }
}

#include "after.p4"
