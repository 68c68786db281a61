#include "before.p4"
    Counter<bit<32>, bit<16>>(65536, CounterType_t.PACKETS) packets;

    action a() {
        packets.count(hdr.d.a16);
    }

    action n() {
        hdr.d.b16 = 0;
    }

    table t {
        key = { hdr.d.a8: exact; }
        actions = { a; n; }
        default_action = a(); // refused
    }

    apply {
        ig_tm_md.ucast_egress_port = 1;
        t.apply();
    }
}

#include "after.p4"
